//! The Redis protocol: requests in, replies out, and the client's side of both; also memcached's requests ([`memcached`]).
//!
//! Bytes to bytes and nothing else: no I/O, no clock, no knowledge of commands. A connection owns one [`RequestParser`]
//! for input and one [`Output`] for output; a command writes through [`Reply`], which knows whether the client speaks
//! RESP2 or RESP3. [`decode()`] and [`encode_request`] are for clients.
//!
//! Invariants:
//! - no input makes this crate panic, and memory grows with the bytes received, never with an announced length;
//! - input in pieces means the same as input in one piece;
//! - bytes appended to an [`Output`] stay in order, and a large value is copied at most once on its way out.

#![forbid(unsafe_code)]

mod bulks;
mod decode;
mod double;
mod encode;
mod header;
mod http;
mod inline;
mod integer;
pub mod memcached;
mod output;
mod reply;
mod request;
mod value;

pub use bulks::Bulks;
pub use decode::{DecodeError, decode, measure};
pub use double::{DoubleBuffer, format_double};
pub use encode::encode_request;
pub use http::is_http;
pub use inline::split_args;
pub use integer::parse_integer;
pub use output::{Chunk, Mark, Output};
pub use reply::{Proto, Reply};
pub use request::{BULK_BYTES_LIMIT, Limits, Parsed, ProtocolError, RequestParser};
pub use value::Value;
