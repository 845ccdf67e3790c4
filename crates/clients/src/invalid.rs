//! Tells clients that track keys which keys have changed, in the way that their current mode asks for.

use crate::session::Session;
use pubsub::{Keys, Way};
use resp::{Proto, Reply};

use crate::registry::Registry;

/// The keys that have changed.
#[derive(Clone, Copy, Debug)]
pub enum Invalid<'k> {
    /// The client has read them.
    Read {
        /// The keys.
        keys: &'k Keys,
        /// Whether the client that is told changed them itself.
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

    /// The way to tell a client. `None`: it is not told, because it no longer tracks keys in this way.
    pub fn way(self, session: &mut Session, registry: &Registry) -> Option<Way> {
        let Some(tracking) = &mut session.tracking else {
            // It changed them in the transaction in which it stopped tracking.
            return matches!(self, Invalid::Read { is_own: true, .. }).then_some(Way::Itself);
        };
        let is_wanted = match self {
            Invalid::Read { .. } => !tracking.broadcasts,
            Invalid::Prefixed(_) => tracking.broadcasts,
            Invalid::All => true,
        };
        is_wanted.then(|| tracking.way(|id| registry.place(id)))
    }

    /// Writes to a client which keys have changed, or that the client to which it redirects is gone.
    pub fn write(self, way: Way, reply: &mut Reply) {
        match way {
            // RESP2 has no messages apart from replies.
            _ if reply.proto() != Proto::Resp3 => {}
            Way::Broken(redirect) => pubsub::write_broken_redirect(reply, redirect),
            Way::Itself | Way::To(_) => pubsub::write_news(reply, self.keys()),
        }
    }
}
