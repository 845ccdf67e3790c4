//! One call that changed files, or made changes durable.

use std::path::PathBuf;

/// A file, independent of its names: no two files of a recording have the same id.
pub type FileId = u64;

/// A call with its moments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// A moment before the call began.
    pub begin: u64,
    /// A moment after it had ended, before the program continued.
    pub end: u64,
    /// The change that it made.
    pub what: What,
}

/// The bytes that were written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bytes {
    /// This many zeros.
    Zeros(u64),
    /// These bytes.
    Some(Vec<u8>),
}

/// The change that a call made. Calls that failed made none, above all a failed sync. Paths are relative to
/// the recorded folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// Bytes were written to a file.
    Write {
        /// The file.
        file: FileId,
        /// The offset in the file.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
        /// Whether the call ends when these bytes are durable.
        is_durable: bool,
    },
    /// A file got this length.
    SetLength {
        /// The file.
        file: FileId,
        /// Its length in bytes.
        bytes: u64,
    },
    /// All bytes that were written to a file before became durable.
    Sync {
        /// The file.
        file: FileId,
    },
    /// The names in a directory became durable.
    SyncDirectory {
        /// The directory.
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
    /// A file got another name, and replaced the file that had that name.
    Rename {
        /// The old name.
        from: PathBuf,
        /// The new one.
        to: PathBuf,
    },
    /// A file got an additional name.
    Link {
        /// A name that it had.
        from: PathBuf,
        /// The new one.
        to: PathBuf,
    },
    /// A name was removed.
    Remove {
        /// The name.
        path: PathBuf,
    },
}

impl Bytes {
    /// The number of bytes.
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
