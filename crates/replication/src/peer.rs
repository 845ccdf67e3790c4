//! What a client has said of itself as a replica, and what it is sent.

use crate::feed::Feed;
use crate::primary::Content;

/// See the head of this file. Of nearly all clients there is nothing to be known.
#[derive(Default)]
pub struct Peer {
    /// The port at which it listens; 0: it did not say.
    pub port: u16,
    /// The address by which it wants to be known.
    pub address: Option<String>,
    /// It finds the end of a snapshot whose length is not known before.
    pub reads_marks: bool,
    /// It goes on with a stream whose id has changed.
    pub follows_renaming: bool,
    /// It answers a question for the offset with the offset behind it.
    pub(crate) answers_behind: bool,
    /// What it wants to find in the stream when that goes on for it.
    pub(crate) mark: Option<Box<[u8]>>,
    /// Which snapshot it wants.
    pub content: Content,
    /// It wants the snapshot and nothing behind it.
    pub wants_no_stream: bool,
    /// What it is sent, once it follows.
    pub feed: Option<Box<Feed>>,
    /// The version of this server's role when it began to follow.
    pub role: u64,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Peer").field("port", &self.port).finish_non_exhaustive()
    }
}
