//! Errors of an append-only file or its manifest, with their place.

use std::io;

/// The reason why a file is refused.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// The input cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file ends in the middle of a command, as it does after a crash.
    #[error("the file ends in the middle of a command")]
    Torn,
    /// The file is damaged.
    #[error("{0}")]
    Format(&'static str),
}

/// An error of a file.
#[derive(Debug, thiserror::Error)]
#[error("{why} at offset {offset}")]
pub struct Error {
    /// The position in bytes. For an incomplete command, its beginning.
    pub offset: u64,
    /// The reason.
    pub why: Why,
}

/// An error of a manifest.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{why} in line {line}")]
pub struct ManifestError {
    /// The line, counted from 1.
    pub line: usize,
    /// The reason.
    pub why: &'static str,
}
