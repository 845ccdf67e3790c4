//! Why something cannot be done with a group, with the exit status. Each error is a sentence for the operator that says
//! what to do.

use std::io;
use std::process::ExitCode;

use crate::remote;

/// See the head of this file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The flags are invalid.
    #[error("{0}")]
    Usage(String),
    /// The configuration is invalid.
    #[error(transparent)]
    Settings(#[from] config::Error),
    /// It would break a rule.
    #[error("{0}")]
    Refused(String),
    /// The store or the data folder cannot be used.
    #[error(transparent)]
    Agent(#[from] agent::Error),
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] topology::Error),
    /// A change may be made, or was made, or never will be.
    #[error(
        "it is not known whether the change was made, and it may still be ({0}): when the store answers again, look at \
         'darter --cluster status'"
    )]
    Unknown(String),
    /// Others changed the document at the same time, again and again.
    #[error("the document changes all the time: try again")]
    Contended,
    /// The server does not do what it is asked for.
    #[error(transparent)]
    Server(#[from] remote::error::Error),
    /// The primary did not hand over.
    #[error("{0}")]
    NotHandedOver(String),
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}

impl Error {
    /// The exit status.
    pub(crate) fn status(&self) -> ExitCode {
        match self {
            Error::Usage(_) | Error::Settings(_) | Error::Refused(_) | Error::Output(_) => ExitCode::from(1),
            Error::Agent(agent::Error::Store(_)) => ExitCode::from(2),
            Error::Agent(_) => ExitCode::from(1),
            Error::Store(_) | Error::Unknown(_) | Error::Contended | Error::NotHandedOver(_) => {
                ExitCode::from(2)
            }
            Error::Server(error) => error.status(),
        }
    }
}
