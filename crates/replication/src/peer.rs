//! The state of a client as a replica: what it announced and what it is sent.

use effectlog::RedisVersion;
use engine::keyword_is;
use group::LinkId;

use crate::feed::Feed;
use crate::link::{ANSWERS_BEHIND, READS_ALL, RECEIVES};
use crate::membership::Introduction;
use crate::primary::CopyContent;

/// See the head of this file. For nearly all clients there is nothing to store.
#[derive(Default)]
pub struct Peer {
    /// Its listening port. 0: not announced.
    pub port: u16,
    /// The address that it announced.
    pub address: Option<String>,
    /// Its capabilities.
    pub(crate) capabilities: Capabilities,
    /// Whether its snapshot must contain only the libraries of functions.
    pub(crate) wants_functions: bool,
    /// The mark that it asked to find in the stream when the stream continues.
    pub(crate) mark: Option<Box<[u8]>>,
    /// Whether it wants the snapshot without the stream.
    pub(crate) wants_no_stream: bool,
    /// What it says of itself as a node of this server's group, and the link over which it follows.
    pub(crate) node: Option<(Introduction, Option<LinkId>)>,
    /// Its feed, if it is a replica.
    pub feed: Option<Box<Feed>>,
    /// The version of this server's role when it became a replica.
    pub role: u64,
}

/// The capabilities of a replica (`REPLCONF capa`).
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Capabilities {
    /// It finds the end of a snapshot of unannounced length.
    pub(crate) reads_marks: bool,
    /// It continues with a stream whose id has changed.
    pub(crate) follows_renaming: bool,
    /// It answers a question for the offset with the offset behind the question.
    pub(crate) answers_behind: bool,
    /// It understands everything that a stream and a snapshot may contain.
    reads_all: bool,
    /// It receives clients before it takes over.
    pub(crate) receives: bool,
}

impl Capabilities {
    /// Adds an announced capability. Unknown ones are ignored.
    pub(crate) fn note(&mut self, name: &[u8]) {
        self.reads_marks |= keyword_is(name, "EOF");
        self.follows_renaming |= keyword_is(name, "PSYNC2");
        self.answers_behind |= keyword_is(name, ANSWERS_BEHIND);
        self.reads_all |= keyword_is(name, READS_ALL);
        self.receives |= keyword_is(name, RECEIVES);
    }

    /// The release of Redis for which the stream and the snapshot are written; `None`: it understands everything.
    pub(crate) fn version(self) -> Option<RedisVersion> {
        if self.reads_all { None } else { Some(RedisVersion::V7_0) }
    }
}

impl Peer {
    /// The kind of snapshot that it wants.
    pub(crate) fn content(&self) -> CopyContent {
        match self.capabilities.version() {
            _ if self.wants_functions => CopyContent::Functions,
            Some(_) => CopyContent::Redis,
            None => CopyContent::Darter,
        }
    }
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Peer").field("port", &self.port).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_says_so_is_sent_what_redis_does_not_know() {
        let check = |names: &[&str], version, content| {
            let mut peer = Peer::default();
            names.iter().for_each(|name| peer.capabilities.note(name.as_bytes()));
            assert_eq!((peer.capabilities.version(), peer.content()), (version, content), "{names:?}");
            peer.wants_functions = true;
            assert_eq!(peer.content(), CopyContent::Functions);
        };
        let redis = Some(RedisVersion::V7_0);
        check(&[], redis, CopyContent::Redis);
        check(&["eof", "psync2", "darter-getack", "darter-2", "dual-channel"], redis, CopyContent::Redis);
        check(&["eof", "DARTER-1", "darter-getack"], None, CopyContent::Darter);
    }
}
