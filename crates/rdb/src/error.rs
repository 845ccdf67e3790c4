//! Errors of a dump, with the offset of each.

use std::io;

/// The reason why a dump is refused.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// The input cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The input ends too early.
    #[error("unexpected end")]
    Truncated,
    /// It is not a dump, or its version is unknown.
    #[error("not a dump of a known version")]
    Version,
    /// Its version is too new.
    #[error("a dump of version {version}{of}: Darter reads up to {max}")]
    NewerVersion {
        /// The version.
        version: u32,
        /// The program that counts these versions.
        of: &'static str,
        /// The last version that can be read.
        max: u32,
    },
    /// The checksum does not match.
    #[error("wrong checksum")]
    Checksum,
    /// It contradicts the format.
    #[error("{0}")]
    Corrupt(&'static str),
    /// A library of functions is invalid.
    #[error("a library of functions cannot be loaded: {0}")]
    Library(String),
    /// A value of a module that is not known.
    #[error("values of the module type '{name}' of version {version} cannot be read{}", of_key(key.as_deref()))]
    UnknownModule {
        /// The name of the type.
        name: String,
        /// The version of its encoding.
        version: u64,
        /// The key of the value.
        key: Option<Vec<u8>>,
    },
    /// A type of value or an opcode is not supported.
    #[error("{what} (type {code}{})", of_key(key.as_deref()))]
    Unsupported {
        /// Its byte.
        code: u8,
        /// The unsupported thing, in words.
        what: &'static str,
        /// The key of the value.
        key: Option<Vec<u8>>,
    },
}

impl Error {
    /// Adds the key of the value to the error.
    #[must_use]
    pub fn in_value_of(mut self, of: &[u8]) -> Error {
        if let Why::Unsupported { key: key @ None, .. } | Why::UnknownModule { key: key @ None, .. } =
            &mut self.why
        {
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

/// An error of a dump.
#[derive(Debug, thiserror::Error)]
#[error("{why} at offset {offset}")]
pub struct Error {
    /// The position in bytes. For an error inside a packed string, the beginning of that string.
    pub offset: u64,
    /// The reason.
    pub why: Why,
}
