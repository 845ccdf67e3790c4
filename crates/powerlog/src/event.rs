//! One call that changed files, or made changes durable.

use std::path::PathBuf;

/// A file, whatever names it has: no two files of a recording have the same.
pub type FileId = u64;

/// A call with its moments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Before the call began.
    pub begin: u64,
    /// After it had ended, before the program went on.
    pub end: u64,
    /// What it did.
    pub what: What,
}

/// What was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bytes {
    /// So many zeros.
    Zeros(u64),
    /// These bytes.
    Some(Vec<u8>),
}

/// What a call did. Calls that failed did nothing, a failed sync above all. Paths are relative to the folder that is recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// Bytes were written to a file.
    Write {
        /// Which.
        file: FileId,
        /// Where in it.
        offset: u64,
        /// What.
        bytes: Bytes,
        /// Whether the call ends when these bytes are durable.
        is_durable: bool,
    },
    /// A file got this length.
    SetLength {
        /// Which.
        file: FileId,
        /// Its length in bytes.
        bytes: u64,
    },
    /// All that was written to a file before became durable.
    Sync {
        /// Which.
        file: FileId,
    },
    /// The names in a directory became durable.
    SyncDirectory {
        /// Which.
        path: PathBuf,
    },
    /// A file was created.
    Create {
        /// Its name.
        path: PathBuf,
        /// The file.
        file: FileId,
    },
    /// A directory was made.
    MakeDirectory {
        /// Its name.
        path: PathBuf,
    },
    /// A file got another name, in place of the one that had it.
    Rename {
        /// The old name.
        from: PathBuf,
        /// The new one.
        to: PathBuf,
    },
    /// A file got one more name.
    Link {
        /// One that it had.
        from: PathBuf,
        /// The new one.
        to: PathBuf,
    },
    /// A name went.
    Remove {
        /// Which.
        path: PathBuf,
    },
}

impl Bytes {
    /// How many.
    pub fn count(&self) -> u64 {
        match self {
            Bytes::Zeros(count) => *count,
            Bytes::Some(bytes) => bytes.len() as u64,
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        if bytes.iter().all(|byte| *byte == 0) {
            Bytes::Zeros(bytes.len() as u64)
        } else {
            Bytes::Some(bytes)
        }
    }
}
