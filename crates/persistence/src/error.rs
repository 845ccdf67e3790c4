//! The errors of loading. Each is a sentence for the person who started the server.

use std::io;

use effectlog::{Lsn, StreamPosition};

use crate::runner::NO_SUCH_DB;

/// The advice for a slice that is intact but cannot be applied.
const WAY_OUT: &str = "start the version that wrote it; or darter --copy-journal DIR --to NEW --journal-until MS makes a journal that ends \
    before it: darter --check-journal DIR tells the times";

/// The files on the disk cannot be loaded, or must not be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A snapshot that cannot be loaded.
    #[error("cannot load {name}: {source}")]
    Snapshot {
        /// Its path, or that of one of its parts.
        name: String,
        /// The error and its position.
        source: rdb::Error,
    },
    /// The base of a journal that cannot be loaded.
    #[error("{0} (restore the base from a copy of the journal's folder, or start the version that wrote it)")]
    Base(Box<Error>),
    /// An append-only file that cannot be loaded.
    #[error("cannot load {name}: {source}")]
    AppendOnly {
        /// Its path.
        name: String,
        /// The error and its position.
        source: crate::import::aof::Error,
    },
    /// A command in an append-only file that cannot be run.
    #[error("cannot load {name}: the command {command} at offset {offset}: {why}")]
    AppendOnlyCommand {
        /// The path of the file.
        name: String,
        /// The first bytes of the command's name.
        command: String,
        /// Its position, in bytes from the beginning of the file.
        offset: u64,
        /// A part of a sentence.
        why: String,
    },
    /// An append-only file with a part that is missing or wrong.
    #[error("cannot load {name}: {why}")]
    AppendOnlyFiles {
        /// The path of the file or the folder.
        name: String,
        /// A part of a sentence.
        why: String,
    },
    /// A slice of the journal that cannot be applied.
    #[error("cannot load {name}: slice {slice}, at position {position} of the stream: {why} ({WAY_OUT})")]
    Slice {
        /// The path of the file.
        name: String,
        /// The number of the slice.
        slice: Lsn,
        /// Its position in the stream, in bytes.
        position: StreamPosition,
        /// A part of a sentence.
        why: String,
    },
    /// A command in the journal that cannot be run.
    #[error(
        "cannot load {name}: the command {command} of slice {slice}, at position {position} of the stream: {why} ({WAY_OUT})"
    )]
    SliceCommand {
        /// The path of the file.
        name: String,
        /// The first bytes of the command's name.
        command: String,
        /// The number of the slice.
        slice: Lsn,
        /// The position of the command in the stream, in bytes.
        position: StreamPosition,
        /// A part of a sentence.
        why: String,
    },
    /// The journal cannot be read.
    #[error("{0}")]
    Journal(String),
    /// There are both an append-only file and a snapshot, and a person must decide which counts.
    #[error("{0}")]
    Undecided(String),
    /// Reading failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation and the file that failed.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl Error {
    /// Whether a snapshot cannot be loaded because it has more databases than this server.
    pub fn needs_databases(&self) -> bool {
        let Error::Snapshot { source, .. } = self else { return false };
        matches!(source.why, rdb::Why::Corrupt(why) if why == NO_SUCH_DB)
    }
}
