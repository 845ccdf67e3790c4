//! memcached's text and meta protocol, as memcached 1.6.18 parses it.
//!
//! ```text
//!   set <key> <flags> <exptime> <bytes> [noreply]␍␊<value>␍␊      ms <key> <bytes> <flag>*␍␊<value>␍␊
//!   get <key>*␍␊                                                   mg <key> <flag>*␍␊
//! ```
//!
//! A [`MemcachedParser`] finds requests and refuses malformed ones. The commands interpret the arguments, with the help of
//! memcached's rules for numbers ([`number`]), keys in base64 ([`base64`]) and the flags of meta commands ([`MetaFlags`]).

pub mod base64;
mod flags;
pub mod number;
mod request;
mod verb;

pub use flags::{MetaFlags, MetaMode};
pub use request::{ItemLimits, KEY_BYTES_MAX, MemcachedParser, Parsed, Words, has_noreply};
pub use verb::Verb;
