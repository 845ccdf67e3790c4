//! Why something cannot be done with a journal's folder. Each error is a sentence for the person who asked for it.

use std::io;

/// It cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is made is made in a folder of its own.
    #[error("{0} is not empty: name a folder that is not there yet")]
    TargetInUse(String),
    /// It would be taken for a part of what it is made of.
    #[error("{0} lies in {1}, which is only read: name a folder that lies elsewhere")]
    TargetInside(String, String),
    /// What is in the folder cannot be loaded.
    #[error(transparent)]
    Loading(#[from] persistence::Error),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// Files and the rest of the system.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system says.
        source: io::Error,
    },
}
