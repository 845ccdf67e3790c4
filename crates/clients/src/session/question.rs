//! Questions to all threads about their own connections: each thread answers or acts for its own.
//!
//! Not here: the client that asks (`server`, `life/gather.rs`), and the answers of a thread (`life/answers.rs`).

use std::sync::Arc;

use engine::{Client, CommandError};

use crate::session::Filter;
use crate::session::state::Part;

/// A question on its way to a thread.
#[derive(Debug)]
pub struct Question {
    /// The client that waits for the answer.
    pub asker: Client,
    /// The subject of the question.
    pub subject: Subject,
    /// Questions are numbered from 1, in the order in which all threads get them.
    pub number: u64,
}

/// The subject of a question.
#[derive(Clone, Debug)]
pub enum Subject {
    /// List these clients. The answer is a line for each.
    List(Arc<Listed>),
    /// Close these clients. The answer is their number.
    Kill(Arc<Filter>),
    /// End the wait of this client by its timeout, or with the error. The answer is whether it was blocked.
    Unblock(u64, Option<CommandError>),
    /// Postpone commands for this many milliseconds: all of them, or those that write. The answer is empty.
    Pause {
        /// The duration.
        pause_ms: u64,
        /// Whether commands that only read wait as well.
        all: bool,
    },
    /// End the pause. The answer is empty.
    EndPause,
    /// Move this client to that thread. The answer is whether it will move.
    Move {
        /// The client.
        id: u64,
        /// The thread.
        thread: u16,
    },
    /// Free memory that is kept for reuse. The answer is empty.
    Purge,
}

/// An answer on its way back.
#[derive(Debug)]
pub struct Answer {
    /// The client that waits for it.
    pub asker: Client,
    /// The answer of this thread.
    pub part: Part,
}

impl Answer {
    /// An empty answer.
    pub fn to(asker: Client) -> Answer {
        Answer { asker, part: Part::Count(0) }
    }
}

/// The clients to list, and the request that asks for them.
#[derive(Debug)]
pub struct Listed {
    /// Only these clients.
    pub filter: Filter,
    /// The size of the request that asks for the list.
    pub asked: RequestSize,
}

/// The size of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestSize {
    /// Its size in the protocol, as a client sends it.
    pub bytes: usize,
    /// The size of its arguments alone.
    pub argument_bytes: usize,
}

impl RequestSize {
    /// The size of a request with these arguments.
    pub fn of(args: &[&[u8]]) -> RequestSize {
        let argument_bytes = args.iter().map(|arg| arg.len()).sum();
        RequestSize { bytes: observe::request_bytes(args), argument_bytes }
    }
}
