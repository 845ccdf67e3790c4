//! Why the process cannot be set up as configured.

use std::io;

/// A refusal by the system. The text is a sentence for the person who started the process.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct Error {
    /// The action that failed.
    pub(crate) what: String,
    /// The reason.
    pub(crate) source: io::Error,
}
