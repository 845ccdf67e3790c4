//! Questions to all threads: what only each thread knows of its own connections, or has to do with them.
//!
//! Not here: who asks and waits (`gather.rs`), what each answers (`answers.rs`).

use std::sync::Arc;

use command::{Client, CommandError};

use crate::life::state::Part;

/// A question on its way to a thread.
pub(crate) struct Question {
    pub(crate) asker: Client,
    pub(crate) subject: Subject,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// A line for each of these clients.
    List(Arc<Listed>),
    /// How many of these clients there were; they are closed.
    Kill(Arc<Filter>),
    /// Whether this client was blocked; it times out, or gets the error.
    Unblock(u64, Option<CommandError>),
    /// Nothing: commands wait for so many milliseconds, all of them or those that write.
    Pause { pause_ms: u64, all: bool },
    /// Nothing: commands wait no longer.
    EndPause,
    /// Nothing: memory that is kept is given back.
    Purge,
}

/// An answer on its way back.
pub(crate) struct Answer {
    pub(crate) asker: Client,
    pub(crate) part: Part,
}

impl Answer {
    /// One that says nothing.
    pub(crate) fn to(asker: Client) -> Answer {
        Answer { asker, part: Part::Count(0) }
    }
}

/// The kinds of clients that `CLIENT LIST` and `CLIENT KILL` tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Normal,
    PubSub,
    /// A primary or a replica.
    Replication,
}

impl Class {
    pub(crate) fn parse(name: &[u8]) -> Result<Class, CommandError> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Class::Normal),
            b"pubsub" => Ok(Class::PubSub),
            b"master" | b"replica" | b"slave" => Ok(Class::Replication),
            _ => Err(CommandError::quoting("ERR Unknown client type '", name, "'")),
        }
    }
}

/// Which clients are meant: those that everything given here holds for.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) id: Option<u64>,
    pub(crate) class: Option<Class>,
    /// The number of its user.
    pub(crate) user: Option<u64>,
    pub(crate) peer: Option<String>,
    pub(crate) local: Option<String>,
    /// Not the client that asks.
    pub(crate) except: Option<u64>,
}

/// Which clients are listed, and for whom.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) class: Option<Class>,
    pub(crate) ids: Option<Vec<u64>>,
    pub(crate) asked: Request,
}

/// How long a request is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// As clients send it.
    pub(crate) bytes: usize,
    /// Its arguments alone.
    pub(crate) argument_bytes: usize,
}

impl Request {
    pub(crate) fn of(args: &[&[u8]]) -> Request {
        let argument_bytes = args.iter().map(|arg| arg.len()).sum();
        let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 1;
        // `*3␍␊`, and for each argument `$5␍␊` before it and `␍␊` after it.
        let frame_bytes = 3 + digits(args.len());
        let bytes = frame_bytes + args.iter().map(|arg| 5 + digits(arg.len()) + arg.len()).sum::<usize>();
        Request { bytes, argument_bytes }
    }
}
