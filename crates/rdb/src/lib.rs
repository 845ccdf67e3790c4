//! Redis' dump format as a pure codec: reading and writing values, the payloads of `DUMP`, and files; and the
//! frames and the manifest in which Darter's own format has the same items.
//!
//! ```text
//! file:     "REDIS" version(4 digits) or "VALKEY" version(3 digits)  ( item )*  EOF  crc64 of all before it (LE; 0: not computed; since version 5)
//! item:     opcode, and the fields of that opcode   AUX, SELECTDB, RESIZEDB, FUNCTION2 …
//!           [ AUX "darter-memcached" marks ] [ AUX "darter-arrivals" times ] [ AUX "darter-expiries" times ] [ EXPIRETIME_MS time ] [ FREQ n | IDLE n ]  type  key  value
//! payload:  type  value  version(2, LE)  crc64(8, LE)
//! length:   00nnnnnn │ 01nnnnnn n │ 10000000 n(4, BE) │ 10000001 n(8, BE)
//! string:   length bytes │ 11000000 i8 │ 11000001 i16 │ 11000010 i32 │ 11000011 packed-length length LZF
//! value:    a string, or a count of strings, or a string that holds a listpack, ziplist, zipmap or intset
//! ```
//!
//! * Files are written in [`VERSION`], which redis-server 7.0 and later load, or in a later version. Versions up to
//!   [`VERSION_MAX`] are read, with all their encodings.
//! * Reading accepts any bytes: a fault is an [`Error`] with the offset, and memory grows with the input, not
//!   with the lengths that it declares. A reader holds only a buffer and the current string; it passes
//!   elements one by one to the code that builds the value ([`Part`]).
//!
//! Not here: values themselves, files on disk, and modules other than sketches.

#![forbid(unsafe_code)]

mod crc64;
mod decode;
mod encode;
mod error;
mod file;
mod format;
mod frames;
mod lzf;
mod manifest;
mod packed;
mod payload;
mod reader;
mod sketch;
mod skip;
mod stream;

pub use decode::{Build, Part, ProducersPart, read_value};
pub use encode::{Encoder, Style};
pub use error::{Error, Why};
pub use file::{Checksum, FileReader, Item, KeyItem};
pub use format::{Family, ValueType};
pub use frames::{FRAME_BYTES_MAX, FrameReader, part_head, write_frames};
pub use manifest::{MANIFEST_BYTES_MAX, MANIFEST_MAGIC, Manifest};
pub use payload::{Libraries, NoLibrary, open_payload, seal_payload, split_expiries};
pub use reader::{Reader, STRING_BYTES_MAX};
pub use sketch::SketchPart;
pub use stream::StreamPart;

/// The version that is written by default: that of redis-server 7.0.
pub const VERSION: u32 = 10;
/// The version of redis-server 7.2.
pub const VERSION_OF_7_2: u32 = 11;
/// The newest version that can be written: that of Redis 7.4.
pub const VERSION_WRITTEN_MAX: u32 = 12;
/// The newest version of Redis that can be read: that of Redis 8.8. Redis 7.4 has 12, and Valkey 8 has 11.
pub const VERSION_MAX: u32 = 14;
/// The newest version of Valkey that can be read: that of Valkey 9.0, the first that differs from Redis.
pub const VALKEY_VERSION_MAX: u32 = 80;
