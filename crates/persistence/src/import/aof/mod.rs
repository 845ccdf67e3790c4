//! Redis' append-only files as a pure codec, for reading: the manifest, and the commands in a file.
//!
//! ```text
//! folder:    appendonly.aof.manifest   appendonly.aof.1.base.rdb   appendonly.aof.1.incr.aof …
//! manifest:  ( "file" name "seq" number "type" ( "b" | "h" | "i" ) … LF )*
//! file:      ( command | "#" annotation LF )*, the base often a snapshot, and before Redis 7 a snapshot with commands behind it
//! command:   "*" count CR LF ( "$" length CR LF bytes CR LF )*
//! ```
//!
//! * Reading accepts any bytes. An [`Error`] has the offset, and distinguishes a file that ends in the middle of a
//!   command from a damaged one.
//! * Memory grows with the input, not with the lengths that it declares.
//!
//! Not here: files on disk, the meaning of commands, and snapshots (`rdb`).

mod error;
mod manifest;
mod reader;

pub use error::{Error, ManifestError, Why};
pub use manifest::{MANIFEST_BYTES_MAX, Manifest};
pub use reader::{Reader, Record};
