//! Why a node cannot take part in a group. Each error is a sentence for the person who runs it.

use std::io;

use topology::NodeId;

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
    /// Another process has locked the data folder.
    #[error("the data folder {folder} is in use by another process: stop it, or set another dir")]
    InUse {
        /// The folder.
        folder: String,
    },
    /// The file in the data folder cannot be used.
    #[error(
        "{path} is damaged: {why}; if the group has another member with the data, remove the file and 'cluster-node-id', \
         and this node joins as a new one"
    )]
    BadState {
        /// The file.
        path: String,
        /// The fault.
        why: String,
    },
    /// The file is of another release.
    #[error(
        "{path} is of version {found}, and this release knows version {known} only: start the release that wrote it"
    )]
    OtherVersion {
        /// The file.
        path: String,
        /// Its version.
        found: u64,
        /// The known one.
        known: u64,
    },
    /// The data folder is a copy.
    #[error(
        "{path} was copied, restored or edited, and its original may live or have newer data: run 'darter --cluster adopt' to \
         join as a new node; or, if the folder was moved and its original never starts again, 'darter --cluster adopt --moved'"
    )]
    Copied {
        /// The file.
        path: String,
    },
    /// The settings and the data folder name different nodes.
    #[error(
        "cluster-node-id is {wanted}, but {folder} has the data of node {found}: set cluster-node-id to {found}, or make it a \
         new node with 'darter --cluster adopt'"
    )]
    OtherNode {
        /// The folder.
        folder: String,
        /// The node of the settings.
        wanted: NodeId,
        /// The node of the folder.
        found: NodeId,
    },
    /// A new node has the id of the original.
    #[error("cluster-node-id is {0}, which is the node that was copied: set another one, or remove it")]
    SameNode(NodeId),
    /// There is nothing to adopt.
    #[error(
        "{folder} has no cluster.json: a server that starts there is a new node, so nothing has to be adopted"
    )]
    NoNode {
        /// The folder.
        folder: String,
    },
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
