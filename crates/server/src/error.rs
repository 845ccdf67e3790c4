//! Why a server does not start. Each error is a sentence for the person who started it.

use std::io;

/// The server cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A configuration that cannot be read, or that contains a wrong value.
    #[error(transparent)]
    Settings(#[from] settings::Error),
    /// A line of the configuration file that declares a user wrongly.
    #[error(transparent)]
    BadUser(#[from] acl::BadUser),
    /// Users are declared in the configuration file and in an ACL file.
    #[error("users are declared both in the configuration and in the aclfile: use only one of them")]
    UsersTwice,
    /// An ACL file with errors.
    #[error("cannot load the aclfile: {0}")]
    Users(String),
    /// The configuration was checked, and what is wrong with it was printed.
    #[error("the configuration is refused")]
    BadConfiguration,
    /// Listening for clients.
    #[error(transparent)]
    Clients(#[from] clients::Error),
    /// HTTP.
    #[error(transparent)]
    Http(#[from] admin::Error),
    /// Sockets and drivers.
    #[error(transparent)]
    Network(#[from] proactor::Error),
    /// The files on the disk cannot be loaded.
    #[error(transparent)]
    Loading(#[from] persistence::Error),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// Work on a journal's folder without a server.
    #[error(transparent)]
    Offline(#[from] offline::Error),
    /// Files and the rest of the operating system.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// Files and the rest of the system.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}
