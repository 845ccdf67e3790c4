//! Why a node cannot take part in a group. Each error is a sentence for the person who runs it.

use std::io;

/// See the head of this file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings name no store.
    #[error(
        "cluster-etcd is not set: set it to the URLs of etcd's members, such as http://etcd-1:2379,http://etcd-2:2379"
    )]
    NoStore,
    /// The settings contradict each other.
    #[error("{0}")]
    Settings(String),
    /// A file that a setting names cannot be read.
    #[error("cannot read {path}, which is {setting}: {source}")]
    SettingsFile {
        /// The file.
        path: String,
        /// The setting.
        setting: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// No own address can be told.
    #[error("the address under which others reach this node is not known ({0}): set cluster-announce-ip")]
    NoAddress(String),
    /// The system failed.
    #[error("{what}: {source}")]
    Io {
        /// The action that failed.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] topology::Error),
}
