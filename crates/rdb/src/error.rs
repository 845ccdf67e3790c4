//! What may be wrong with a dump, and at which offset.

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
    /// It is of a later version than is read.
    #[error("a dump of version {version}{of}: Darter reads up to {max}")]
    NewerVersion {
        /// The version.
        version: u32,
        /// Whose numbers these are.
        of: &'static str,
        /// The last one that is read.
        max: u32,
    },
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
    #[error("{what} (type {code}{})", of_key(key.as_deref()))]
    Unsupported {
        /// Its byte.
        code: u8,
        /// What it is.
        what: &'static str,
        /// The key whose value it is.
        key: Option<Vec<u8>>,
    },
}

impl Error {
    /// The same in the value of this key.
    #[must_use]
    pub fn in_value_of(mut self, of: &[u8]) -> Error {
        if let Why::Unsupported { key: key @ None, .. } = &mut self.why {
            *key = Some(of.to_vec());
        }
        self
    }
}

fn of_key(key: Option<&[u8]>) -> String {
    const SHOWN_BYTES_MAX: usize = 256;
    key.map_or_else(String::new, |key| {
        format!(" of the key '{}'", key[..key.len().min(SHOWN_BYTES_MAX)].escape_ascii())
    })
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
