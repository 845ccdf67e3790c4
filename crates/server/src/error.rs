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
    #[error(
        "users are declared in the configuration and in the file that aclfile names: it must be one of them"
    )]
    UsersTwice,
    /// An ACL file with errors.
    #[error("cannot take the users of aclfile: {0}")]
    Users(String),
    /// The configuration was judged, and what is wrong with it was said.
    #[error("the configuration is refused")]
    BadConfiguration,
    /// Neither port nor socket.
    #[error("configured to listen nowhere: set port or unixsocket")]
    NowhereToListen,
    /// Sockets and drivers.
    #[error(transparent)]
    Network(#[from] proactor::Error),
    /// A snapshot that cannot be loaded.
    #[error("cannot load {name}: {source}")]
    Snapshot { name: String, source: rdb::Error },
    /// An append-only file that cannot be loaded.
    #[error("cannot load {name}: {source}")]
    AppendOnly { name: String, source: aof::Error },
    /// A command in an append-only file that cannot be run.
    #[error("cannot load {name}: the command {command} at offset {offset}: {why}")]
    AppendOnlyCommand { name: String, command: String, offset: u64, why: String },
    /// An append-only file of which a part is not as it should be.
    #[error("cannot load {name}: {why}")]
    AppendOnlyFiles { name: String, why: String },
    /// An append-only file and a snapshot, of which somebody has to say which counts.
    #[error("{0}")]
    Undecided(String),
    /// Files and the rest of the system.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}
