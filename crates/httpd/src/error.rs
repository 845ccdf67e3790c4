//! Why HTTP cannot be served.

use std::io;

/// Why HTTP cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address of `http-bind` is invalid or in use.
    #[error("cannot listen on {address}, port {port} (http-bind, http-port): {source}")]
    Listen {
        /// The address, as in `http-bind`.
        address: String,
        /// `http-port`.
        port: u16,
        /// The system's error.
        source: io::Error,
    },
    /// No address of `http-bind` exists.
    #[error("http-port is set, but http-bind has no address of this machine")]
    Nowhere,
    /// The system provides no thread or no random numbers.
    #[error("cannot serve HTTP: {0}")]
    Io(#[from] io::Error),
}
