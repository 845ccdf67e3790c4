//! Transcripts: requests and the replies they must get, as text files that several runners play.
//!
//! ```text
//! # A comment.
//! > SET greeting "hello \x00 world" PX 5
//! OK
//! > GET greeting
//! "hello \x00 world"
//!
//! ! resp3
//! > SMEMBERS nothing
//! (empty set)
//! ```
//!
//! A line that begins with `> ` is a request, quoted as for `redis-cli`. The lines up to the next request or blank
//! line are the reply as `redis-cli` shows it ([`resp::Value`]'s `Display`). Lines of the reply that begin with `~ `
//! may come in any order. A blank line ends a block; every block begins with an empty store and a new connection.
//!
//! Directives:
//! - `! resp3` before the first request of a block: the block speaks RESP3;
//! - `! server` there: the block needs a server with sessions (`MULTI`, `SELECT` …), not just the data commands;
//! - `! 7.2: <reason>` before a request: Redis 7.0.15 answers this one differently.
//!
//! A runner reads files with [`files`] and [`read`], opens something that takes requests, and hands it to
//! [`Block::play`]. [`Socket`] is such a thing over TCP. Not here: how to start a server.

#![forbid(unsafe_code)]

mod parse;
mod play;
mod socket;

pub use parse::{Block, ParseError, Step, parse};
pub use play::{Difference, Runner};
pub use socket::Socket;

use std::io;
use std::path::{Path, PathBuf};

/// Every transcript below `folder`, in order of their paths.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "txt") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The blocks of the transcript at `path`.
pub fn read(path: &Path) -> io::Result<Vec<Block>> {
    parse(&std::fs::read_to_string(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
