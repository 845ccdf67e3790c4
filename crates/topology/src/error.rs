//! Why a store did not answer as it should. Each error is a sentence for the person who runs the cluster.

use std::io;

use crate::ids::Revision;

/// See the head of this file. No error says that a change was not made: [`crate::Swap`] does.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection was made.
    #[error("no member of the store can be reached: {0}")]
    Unreachable(String),
    /// There was no answer in time.
    #[error("the store did not answer within {limit_ms} ms ({member})")]
    TimedOut {
        /// The member that was asked.
        member: String,
        /// The time that it had.
        limit_ms: u64,
    },
    /// The connection was lost before the answer was complete.
    #[error("the connection to {member} was lost: {why}")]
    Lost {
        /// The member that was asked.
        member: String,
        /// The error of the connection.
        why: String,
    },
    /// The answer makes no sense, or is too large.
    #[error("{member} gave an answer that makes no sense: {why}")]
    Nonsense {
        /// The member that was asked.
        member: String,
        /// The fault.
        why: String,
    },
    /// The store does not let us do this.
    #[error("the store refuses access: {0}")]
    Denied(String),
    /// The store is full.
    #[error(
        "etcd's space is exhausted, so it takes no changes: compact its history, run 'etcdctl defrag' on each member, \
         then 'etcdctl alarm disarm' ({0})"
    )]
    NoSpace(String),
    /// Another error of the store.
    #[error("the store answers: {0}")]
    Failed(String),
    /// It is not the store that it was.
    #[error(
        "the store is another etcd cluster than before (id {found:x}, not {expected:x}): set cluster-etcd to the right one, \
         or accept the new one with 'darter --cluster repair'"
    )]
    OtherCluster {
        /// The id of the cluster that was known.
        expected: u64,
        /// That of the cluster that answered.
        found: u64,
    },
    /// It is older than it was.
    #[error(
        "the store went back from revision {highest} to {found}, as after the restore of a backup: it may have forgotten \
         who leads; compare it with the nodes, then accept it with 'darter --cluster repair'"
    )]
    WentBack {
        /// The highest revision that was seen.
        highest: Revision,
        /// The revision that was read.
        found: Revision,
    },
    /// A file of the folder.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// Another process announces itself as this node.
    #[error(
        "another process is node {node}: was its data folder copied? Remove 'cluster-node-id' from the copy, or stop it"
    )]
    SameId {
        /// The node.
        node: String,
    },
    /// The settings are wrong.
    #[error("{0}")]
    Settings(String),
}
