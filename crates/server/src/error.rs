//! The errors of starting a server. Each is a sentence for the person who started it.

use std::io;

/// The server cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A configuration that cannot be read, or that contains a wrong value.
    #[error(transparent)]
    Configuration(#[from] config::Error),
    /// A line of the configuration file that declares a user incorrectly.
    #[error(transparent)]
    BadUser(#[from] acl::BadUser),
    /// Users are declared in the configuration file and in an ACL file.
    #[error("users are declared both in the configuration and in the aclfile: use only one of them")]
    UsersTwice,
    /// An ACL file with errors.
    #[error("cannot load the aclfile: {0}")]
    Users(String),
    /// The configuration was checked, and its errors were printed.
    #[error("the configuration is refused")]
    BadConfiguration,
    /// An error of listening for clients.
    #[error(transparent)]
    Clients(#[from] clients::Error),
    /// An error of HTTP.
    #[error(transparent)]
    Http(#[from] httpd::Error),
    /// An error of sockets and drivers.
    #[error(transparent)]
    Network(#[from] proactor::Error),
    /// The files on the disk cannot be loaded.
    #[error(transparent)]
    Loading(#[from] persistence::Error),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// An error of work on a journal's folder without a server.
    #[error(transparent)]
    Offline(#[from] cli::offline::Error),
    /// An error of files or of the rest of the operating system.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The server cannot be a node of a group.
    #[error(transparent)]
    Group(#[from] agent::Error),
    /// An error of files or of the rest of the system.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}
