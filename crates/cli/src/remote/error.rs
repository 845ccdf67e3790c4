//! The errors between an operator and a server, with the exit status. Each error is a sentence for the operator.

use std::io;
use std::process::ExitCode;

/// Why the queues or the health of a server cannot be shown. Texts from servers are safe to print.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The flags are invalid.
    #[error("{0}")]
    Usage(String),
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// The connection cannot be established.
    #[error("cannot connect to {address}: {source}")]
    Unreachable {
        /// The server.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The server closed the connection.
    #[error("{address} closed the connection")]
    Closed {
        /// The server.
        address: String,
    },
    /// The reply takes too long.
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
    /// The server requires credentials.
    #[error(
        "{address} requires a password: set REDISCLI_AUTH, or pass --pass and, if needed, --user ({reply})"
    )]
    NoPassword {
        /// The server.
        address: String,
        /// The server's error.
        reply: String,
    },
    /// The credentials are wrong, or the user lacks a permission.
    #[error("{address} refuses: {reply}")]
    Refused {
        /// The server.
        address: String,
        /// The server's error.
        reply: String,
    },
    /// The server is not Darter.
    #[error("{address} is not a Darter with QUEUE LIST: {why}")]
    NoDarter {
        /// The server.
        address: String,
        /// The reason.
        why: String,
    },
    /// The server returned another error.
    #[error("{address} answers with an error: {reply}")]
    Reply {
        /// The server.
        address: String,
        /// The server's error.
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
