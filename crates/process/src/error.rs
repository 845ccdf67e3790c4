//! Why the process cannot be set up as configured.

use std::io;

/// The system refuses something. A sentence for whoever started the process.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct Error {
    /// What cannot be done.
    pub(crate) what: String,
    /// Why not.
    pub(crate) source: io::Error,
}
