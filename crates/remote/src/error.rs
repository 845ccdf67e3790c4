//! What can go wrong between an operator and a server, with the exit status. Each error is a sentence for the person
//! who asked.

use std::io;
use std::process::ExitCode;

/// The queues cannot be shown. What servers say comes in here ready to be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The flags make no sense.
    #[error("{0}")]
    Usage(String),
    /// Standard output does not take it.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// There is no connection.
    #[error("cannot connect to {address}: {source}")]
    Unreachable {
        /// The server.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// It ended.
    #[error("{address} closed the connection")]
    Closed {
        /// The server.
        address: String,
    },
    /// The reply does not come, or not to its end.
    #[error("{address} does not answer in time")]
    Silent {
        /// The server.
        address: String,
    },
    /// The connection failed.
    #[error("the connection to {address} failed: {source}")]
    Failed {
        /// The server.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// There are no credentials.
    #[error(
        "{address} requires a password: set REDISCLI_AUTH, or pass --pass and, if needed, --user ({reply})"
    )]
    NoPassword {
        /// The server.
        address: String,
        /// What it said.
        reply: String,
    },
    /// The credentials do not do.
    #[error("{address} refuses: {reply}")]
    Refused {
        /// The server.
        address: String,
        /// What it said.
        reply: String,
    },
    /// What answers is something else than a Darter.
    #[error("{address} is not a Darter with QUEUE LIST: {why}")]
    NoDarter {
        /// The server.
        address: String,
        /// Why it is none.
        why: String,
    },
    /// The server answers with some other error.
    #[error("{address} answers with an error: {reply}")]
    Reply {
        /// The server.
        address: String,
        /// What it said.
        reply: String,
    },
}

impl Error {
    /// The exit status.
    pub(crate) fn status(&self) -> ExitCode {
        ExitCode::from(match self {
            Error::Usage(_) | Error::Output(_) | Error::Reply { .. } => 1,
            Error::Unreachable { .. }
            | Error::Closed { .. }
            | Error::Silent { .. }
            | Error::Failed { .. } => 2,
            Error::NoPassword { .. } | Error::Refused { .. } => 3,
            Error::NoDarter { .. } => 4,
        })
    }
}
