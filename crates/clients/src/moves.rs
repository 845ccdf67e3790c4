//! Tracks connections of one thread that are moving to other threads, and those that have moved.
//!
//! A connection has another name on each thread. Messages to a former name follow the connection: each thread that it
//! was on knows where it went next, and its current thread knows its former names. When the connection ends, its names
//! are forgotten.
//!
//! Not here: how a connection moves (`connections/moving.rs` of the server), and which one moves where (`balance.rs`).

use std::collections::HashMap;

use crate::session::{Parser, Session, Wait};
use engine::Client;
use proactor::{ConnId, Detached};
use shard::Subscriber;

/// The time limit for a connection to leave. It may have output that its client does not read.
const LEAVING_MS_MAX: u64 = 200;

/// A connection that moves to another thread.
#[derive(Debug)]
pub struct Mover {
    /// The socket, and unread input.
    pub connection: Detached,
    /// The parser for its protocol, with the position in the input.
    pub parser: Box<Parser>,
    /// The client's session.
    pub session: Box<Session>,
}

/// Limit of former names that a connection keeps. No message to an older one can still be on its way.
pub const FORMER_NAMES_MAX: usize = 16;

/// Whether only a client's session, and its waits in shards, depend on the thread that it is on.
pub fn may_go(session: &Session) -> bool {
    let is_known_elsewhere = session.is_subscriber()
        || session.tracking.is_some()
        || session.monitor
        || session.replica.is_some()
        || session.is_primary
        || session.handshake.is_some();
    let is_ending = session.has_hung_up || session.close_after_reply;
    let is_at_rest = session.state.is_ready() || session.state.wait().is_some();
    is_at_rest && !is_ending && !is_known_elsewhere && !is_known_by_oldest_name(session)
}

/// Whether a client has as many former names as allowed and waits under the first of them.
fn is_known_by_oldest_name(session: &Session) -> bool {
    let name = |wait: &Wait| {
        let Client { thread, connection, .. } = wait.blocked.waiter.wait.client;
        Subscriber { thread, connection }
    };
    session.former_names.len() == FORMER_NAMES_MAX
        && session.state.wait().map(name).as_ref() == session.former_names.first()
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Moves {
    leaving: Vec<Leaving>,
    /// Connections on this thread that came from another one, by their names there.
    here: HashMap<Subscriber, ConnId>,
    /// Connections that left, by their names: the thread that they moved to.
    elsewhere: HashMap<Subscriber, u16>,
}

#[derive(Debug)]
struct Leaving {
    conn: ConnId,
    to: u16,
    until_ms: u64,
}

/// The place of the connection with a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whereabouts {
    /// On this thread, unless it has ended.
    Here(ConnId),
    /// It moved to that thread.
    WentTo(u16),
    /// The name is unknown here: the connection has ended.
    Nowhere,
}

impl Moves {
    /// Records that a connection must leave. Returns false if that was recorded before.
    pub fn begin(&mut self, conn: ConnId, to: u16, now_ms: u64) -> bool {
        let is_new = !self.is_leaving(conn);
        if is_new {
            self.leaving.push(Leaving { conn, to, until_ms: now_ms + LEAVING_MS_MAX });
        }
        is_new
    }

    /// Whether any connection is leaving.
    pub fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Whether this connection is leaving.
    pub fn is_leaving(&self, conn: ConnId) -> bool {
        self.leaving.iter().any(|leaving| leaving.conn == conn)
    }

    /// Called when a connection can leave. Returns the thread that it moves to, if it was to leave.
    pub fn take(&mut self, conn: ConnId) -> Option<u16> {
        let index = self.leaving.iter().position(|leaving| leaving.conn == conn)?;
        Some(self.leaving.swap_remove(index).to)
    }

    /// Takes out a connection that could not leave in time and therefore stays.
    pub fn pop_overdue(&mut self, now_ms: u64) -> Option<ConnId> {
        let index = self.leaving.iter().position(|leaving| leaving.until_ms <= now_ms)?;
        Some(self.leaving.swap_remove(index).conn)
    }

    /// Records that a connection leaves. `names` are all names that it has had; the last one is from this thread.
    pub fn depart(&mut self, names: &[Subscriber], to: u16) {
        for name in names {
            self.here.remove(name);
            self.elsewhere.insert(*name, to);
        }
    }

    /// Records that a connection arrives. `names` are the names that it has had.
    pub fn arrive(&mut self, names: &[Subscriber], conn: ConnId) {
        for name in names {
            self.elsewhere.remove(name);
            self.here.insert(*name, conn);
        }
    }

    /// Removes these names: no message can refer to them any more.
    pub fn forget(&mut self, names: &[Subscriber]) {
        for name in names {
            self.here.remove(name);
            self.elsewhere.remove(name);
        }
    }

    /// Finds the connection with a name. `thread` is the number of the thread that owns this.
    #[inline]
    pub fn find(&self, name: Subscriber, thread: u16) -> Whereabouts {
        if self.here.is_empty() && self.elsewhere.is_empty() && name.thread == thread {
            return Whereabouts::Here(ConnId::from_bits(name.connection));
        }
        match (self.here.get(&name), self.elsewhere.get(&name)) {
            (Some(conn), _) => Whereabouts::Here(*conn),
            (None, Some(to)) => Whereabouts::WentTo(*to),
            (None, None) if name.thread == thread => Whereabouts::Here(ConnId::from_bits(name.connection)),
            (None, None) => Whereabouts::Nowhere,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(thread: u16, connection: u64) -> Subscriber {
        Subscriber { thread, connection }
    }

    #[test]
    fn what_is_sent_under_a_former_name_follows_the_connection() {
        let [mut zero, mut one] = [Moves::default(), Moves::default()];
        let [first, second, third] = [name(0, 7), name(1, 3), name(0, 9)];
        assert_eq!(zero.find(first, 0), Whereabouts::Here(ConnId::from_bits(7)));
        zero.depart(&[first], 1);
        assert_eq!(zero.find(first, 0), Whereabouts::WentTo(1));
        one.arrive(&[first], ConnId::from_bits(3));
        assert_eq!(one.find(first, 1), Whereabouts::Here(ConnId::from_bits(3)));
        assert_eq!(one.find(second, 1), Whereabouts::Here(ConnId::from_bits(3)));
        // It moves back to where it came from, and gets another name there.
        one.depart(&[first, second], 0);
        zero.arrive(&[first, second], ConnId::from_bits(9));
        for former in [first, second, third] {
            assert_eq!(zero.find(former, 0), Whereabouts::Here(ConnId::from_bits(9)));
        }
        assert_eq!(one.find(second, 1), Whereabouts::WentTo(0));
        // It ends.
        zero.forget(&[first, second]);
        one.forget(&[first, second]);
        assert_eq!(zero.find(second, 0), Whereabouts::Nowhere);
        assert!(one.here.is_empty() && one.elsewhere.is_empty() && zero.here.is_empty());
    }

    #[test]
    fn who_cannot_leave_in_time_stays() {
        let (mut moves, [quick, slow]) = (Moves::default(), [1, 2].map(ConnId::from_bits));
        assert!(moves.begin(quick, 1, 1000) && moves.begin(slow, 1, 1000));
        assert!(!moves.begin(slow, 2, 1100), "it is on its way out");
        assert_eq!((moves.take(quick), moves.take(quick)), (Some(1), None));
        assert_eq!(moves.pop_overdue(1000 + LEAVING_MS_MAX - 1), None);
        assert_eq!(moves.pop_overdue(1000 + LEAVING_MS_MAX), Some(slow));
        assert_eq!(moves.take(slow), None);
    }
}
