//! What a client that tracks keys is told of changes, by the mode in which it tracks when they happen.

use pubsub::{Keys, Way};
use resp::{Proto, Reply};
use session::Session;

use crate::registry::Registry;

/// Which keys have changed.
#[derive(Clone, Copy, Debug)]
pub enum Invalid<'k> {
    /// The client has read them.
    Read {
        /// The keys.
        keys: &'k Keys,
        /// Whether the client that is told has changed them.
        is_own: bool,
    },
    /// They begin with one of a client's prefixes.
    Prefixed(&'k Keys),
    /// All keys of a database.
    All,
}

impl<'k> Invalid<'k> {
    /// The keys; `None`: all.
    pub fn keys(self) -> Option<&'k Keys> {
        match self {
            Invalid::Read { keys, .. } | Invalid::Prefixed(keys) => Some(keys),
            Invalid::All => None,
        }
    }

    /// Where the news for a client goes; `None`: it gets none, because it no longer tracks keys in this way.
    pub fn way(self, session: &mut Session, registry: &Registry) -> Option<Way> {
        let Some(tracking) = &mut session.tracking else {
            // It changed them in the transaction in which it stopped.
            return matches!(self, Invalid::Read { is_own: true, .. }).then_some(Way::Itself);
        };
        let is_wanted = match self {
            Invalid::Read { .. } => !tracking.broadcasts,
            Invalid::Prefixed(_) => tracking.broadcasts,
            Invalid::All => true,
        };
        is_wanted.then(|| tracking.way(|id| registry.place(id)))
    }

    /// Tells a client itself which keys have changed, or that the client to which it redirects is gone.
    pub fn write(self, way: Way, reply: &mut Reply) {
        match way {
            // RESP2 has no messages beside replies.
            _ if reply.proto() != Proto::Resp3 => {}
            Way::Broken(redirect) => pubsub::write_broken_redirect(reply, redirect),
            Way::Itself | Way::To(_) => pubsub::write_news(reply, self.keys()),
        }
    }
}
