//! Why a server does not start. Each is a sentence for whoever started it.

use std::io;

/// The server cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A configuration that cannot be read, or says what cannot be.
    #[error(transparent)]
    Settings(#[from] settings::Error),
    /// A line of the configuration file about a user that cannot be.
    #[error(transparent)]
    BadUser(#[from] acl::BadUser),
    /// Users in the configuration file and in one of their own.
    #[error("users are declared both in the configuration and in the aclfile: use only one of them")]
    UsersTwice,
    /// An ACL file with errors.
    #[error("cannot load the aclfile: {0}")]
    Users(String),
    /// The configuration was judged, and what is wrong with it was said.
    #[error("the configuration is refused")]
    BadConfiguration,
    /// There is nowhere that clients can come in.
    #[error(transparent)]
    Clients(#[from] clients::Error),
    /// HTTP.
    #[error(transparent)]
    Http(#[from] admin::Error),
    /// Sockets and drivers.
    #[error(transparent)]
    Network(#[from] proactor::Error),
    /// What is on the disk cannot be loaded.
    #[error(transparent)]
    Loading(#[from] persistence::Error),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// What an operator wanted of a folder cannot be done.
    #[error(transparent)]
    Offline(#[from] offline::Error),
    /// The process.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// Files and the rest of the system.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}
