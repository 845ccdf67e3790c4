//! Questions to all threads: what only each thread knows of its own connections, or has to do with them.
//!
//! Not here: who asks and waits (`server`, `life/gather.rs`), what each answers (`life/answers.rs`).

use std::sync::Arc;

use command::{Client, CommandError};

use crate::state::Part;

/// A question on its way to a thread.
#[derive(Debug)]
pub struct Question {
    /// Who waits for the answer.
    pub asker: Client,
    /// What it is about.
    pub subject: Subject,
    /// It follows clients who may have been on their way when all threads were asked.
    pub is_again: bool,
}

/// What is asked.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A line for each of these clients.
    List(Arc<Listed>),
    /// How many of these clients there were; they are closed.
    Kill(Arc<Filter>),
    /// Whether this client was blocked; it times out, or gets the error.
    Unblock(u64, Option<CommandError>),
    /// Nothing: commands wait for so many milliseconds, all of them or those that write.
    Pause {
        /// For how long.
        pause_ms: u64,
        /// Whether those that only read wait, too.
        all: bool,
    },
    /// Nothing: commands wait no longer.
    EndPause,
    /// Whether this client sets out for that thread.
    Move {
        /// Which.
        id: u64,
        /// Where to.
        thread: u16,
    },
    /// Nothing: memory that is kept is given back.
    Purge,
}

/// An answer on its way back.
#[derive(Debug)]
pub struct Answer {
    /// Who waits for it.
    pub asker: Client,
    /// What this thread has to say.
    pub part: Part,
    /// To what: the question to all threads, or one that [followed](Question::is_again) clients.
    pub is_again: bool,
    /// How many threads clients were followed to.
    pub followed: usize,
}

impl Answer {
    /// One that says nothing.
    pub fn to(asker: Client) -> Answer {
        Answer { asker, part: Part::Count(0), is_again: false, followed: 0 }
    }
}

/// The kinds of clients that `CLIENT LIST` and `CLIENT KILL` tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// It gets replies.
    Normal,
    /// It subscribed to something.
    PubSub,
    /// It follows this server.
    Replica,
    /// This server follows it.
    Primary,
}

impl Class {
    /// By its name in any case.
    pub fn parse(name: &[u8]) -> Result<Class, CommandError> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Class::Normal),
            b"pubsub" => Ok(Class::PubSub),
            b"replica" | b"slave" => Ok(Class::Replica),
            b"master" => Ok(Class::Primary),
            _ => Err(CommandError::quoting("ERR Unknown client type '", name, "'")),
        }
    }
}

/// Which clients are meant: those that everything given here holds for.
#[derive(Debug, Default)]
pub struct Filter {
    /// Its id.
    pub id: Option<u64>,
    /// Its kind.
    pub class: Option<Class>,
    /// The number of its user.
    pub user: Option<u64>,
    /// Its address.
    pub peer: Option<String>,
    /// The address that it connected to.
    pub local: Option<String>,
    /// Not the client that asks.
    pub except: Option<u64>,
}

/// Which clients are listed, and for whom.
#[derive(Debug)]
pub struct Listed {
    /// Only clients of this kind.
    pub class: Option<Class>,
    /// Only these.
    pub ids: Option<Vec<u64>>,
    /// The request itself.
    pub asked: Request,
}

/// How long a request is.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// As clients send it.
    pub bytes: usize,
    /// Its arguments alone.
    pub argument_bytes: usize,
}

impl Request {
    /// Of a request with these arguments.
    pub fn of(args: &[&[u8]]) -> Request {
        let argument_bytes = args.iter().map(|arg| arg.len()).sum();
        let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 1;
        // `*3␍␊`, and for each argument `$5␍␊` before it and `␍␊` after it.
        let frame_bytes = 3 + digits(args.len());
        let bytes = frame_bytes + args.iter().map(|arg| 5 + digits(arg.len()) + arg.len()).sum::<usize>();
        Request { bytes, argument_bytes }
    }
}
