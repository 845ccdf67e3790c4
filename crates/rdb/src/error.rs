//! What may be wrong with a dump, and where.

use std::io;

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// The input cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The input ends in the middle of something.
    #[error("unexpected end")]
    Truncated,
    /// It is no dump, or of a version that is not known.
    #[error("not a dump of a known version")]
    Version,
    /// The checksum says that it was changed.
    #[error("wrong checksum")]
    Checksum,
    /// It contradicts the format.
    #[error("{0}")]
    Corrupt(&'static str),
    /// A library of functions that is none.
    #[error("a library of functions cannot be loaded: {0}")]
    Library(String),
    /// A type of value or an opcode that cannot be read, for the reason given.
    #[error("{what} (type {code})")]
    Unsupported {
        /// Its byte.
        code: u8,
        /// What it is.
        what: &'static str,
    },
}

/// What is wrong with a dump.
#[derive(Debug, thiserror::Error)]
#[error("{why} at offset {offset}")]
pub struct Error {
    /// Where: bytes from the beginning. Of something wrong inside a packed string, the beginning of that.
    pub offset: u64,
    /// What.
    pub why: Why,
}
