//! Why the server cannot accept clients. Each error is a sentence for the person who started it.

use std::io;

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings name neither a port nor a socket.
    #[error("configured to listen nowhere: set port, tls-port or unixsocket")]
    NowhereToListen,
    /// An address or a Unix socket cannot be used.
    #[error(transparent)]
    Network(#[from] proactor::Error),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// Any other error of the system.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}
