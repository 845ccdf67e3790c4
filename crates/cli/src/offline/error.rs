//! Why something cannot be done with a journal's folder. Each error is a sentence for the person who asked for it.

use std::io;

/// Why the work on a folder failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target is not empty.
    #[error("{0} is not empty: name a folder that is not there yet")]
    TargetInUse(String),
    /// The target lies in the folder that is read, and would be taken for a part of it.
    #[error("{0} lies in {1}, which is only read: name a folder that lies elsewhere")]
    TargetInside(String, String),
    /// The data in the folder cannot be loaded.
    #[error(transparent)]
    Loading(#[from] persistence::Error),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// An error of the system.
    #[error("{what}: {source}")]
    Io {
        /// The action that failed.
        what: String,
        /// The reason.
        source: io::Error,
    },
}
