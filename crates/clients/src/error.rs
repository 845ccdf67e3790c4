//! Why the server cannot accept clients. Each error is a sentence for the person who started it.

use std::io;

/// The server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither port nor socket.
    #[error("configured to listen nowhere: set port, tls-port or unixsocket")]
    NowhereToListen,
    /// An address or a socket.
    #[error(transparent)]
    Network(#[from] proactor::Error),
    /// Certificates, and what else TLS needs.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// The rest of the system.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system says.
        source: io::Error,
    },
}
