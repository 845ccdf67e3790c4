//! Why HTTP cannot be served.

use std::io;

/// HTTP cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address of `http-bind` that is none, or that somebody else uses.
    #[error("cannot listen on {address}, port {port} (http-bind, http-port): {source}")]
    Listen {
        /// As `http-bind` has it.
        address: String,
        /// `http-port`.
        port: u16,
        /// What the system says.
        source: io::Error,
    },
    /// Every address of `http-bind` is missing.
    #[error("http-port is set, but http-bind has no address of this machine")]
    Nowhere,
    /// The system gives no thread or no random numbers.
    #[error("cannot serve HTTP: {0}")]
    Io(#[from] io::Error),
}
