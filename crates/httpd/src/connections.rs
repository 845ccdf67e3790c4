//! Keeps the open connections, and chooses the one that is closed in favour of a new one.
//!
//! A connection *waits* while it has no request: during its TLS handshake, before its first request, and between
//! requests. When there are `http-connections-max` connections, the one that has waited longest is closed for the new
//! one. Connections that have sent no request yet come first, then the other waiting ones, then those that do not read
//! their answer. So silent, slow or unresponsive strangers keep no other client out, however many they are. The new
//! connection is refused only if all connections are busy.
//!
//! Invariant: a connection is counted from [`Connections::admit`] until its [`Place`] is dropped or it is closed in
//! favour of another.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

/// A peer that has taken no bytes for this long counts as not reading.
const STALL_MIN: Duration = Duration::from_secs(1);

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Connections {
    open: RefCell<BTreeMap<u64, Rc<Connection>>>,
    /// Counts new connections and finished requests, which gives them an order.
    events: Cell<u64>,
    /// Connections that were ended to make room.
    pub(crate) displaced: Cell<u64>,
}

/// The state of a connection.
#[derive(Default)]
pub(crate) struct Connection {
    /// A request is being answered.
    is_answering: Cell<bool>,
    /// Since when the peer has taken no bytes.
    stalled_since: Cell<Option<Instant>>,
    has_asked: Cell<bool>,
    waits_since: Cell<u64>,
    task: RefCell<Option<AbortHandle>>,
}

/// A connection's place among all connections, until it is dropped.
pub(crate) struct Place {
    connections: Rc<Connections>,
    number: u64,
    pub(crate) connection: Rc<Connection>,
}

impl Connections {
    /// The number of connections.
    pub(crate) fn count(&self) -> usize {
        self.open.borrow().len()
    }

    /// Gives a new connection a place. If there are `count_max`, another one must end; `None`: all of them are busy.
    pub(crate) fn admit(self: &Rc<Self>, count_max: usize, now: Instant) -> Option<Place> {
        while self.count() >= count_max {
            self.displace(now)?;
        }
        let number = self.note_event();
        let connection = Rc::new(Connection::default());
        connection.waits_since.set(number);
        self.open.borrow_mut().insert(number, connection.clone());
        Some(Place { connections: self.clone(), number, connection })
    }

    fn note_event(&self) -> u64 {
        self.events.replace(self.events.get() + 1)
    }

    /// Ends a waiting connection: one that has sent no request before others, and the one that has waited longest
    /// first. `None`: all are busy.
    fn displace(&self, now: Instant) -> Option<()> {
        let mut open = self.open.borrow_mut();
        let waiting = open.iter().filter_map(|(number, connection)| Some((connection.rank(now)?, *number)));
        let (_, number) = waiting.min()?;
        let connection = open.remove(&number).expect("it was found there");
        if let Some(task) = connection.task.take() {
            task.abort();
        }
        self.displaced.set(self.displaced.get() + 1);
        Some(())
    }
}

impl Connection {
    /// The connection with the lowest rank ends first; `None`: it is busy.
    fn rank(&self, now: Instant) -> Option<(u8, u64)> {
        if self.is_answering.get() {
            return None;
        }
        let urgency = match self.stalled_since.get() {
            None => u8::from(self.has_asked.get()),
            Some(since) if now.duration_since(since) < STALL_MIN => return None,
            Some(_) => 2,
        };
        Some((urgency, self.waits_since.get()))
    }

    /// The task that is aborted if this connection has to make room.
    pub(crate) fn is_served_by(&self, task: AbortHandle) {
        self.task.replace(Some(task));
    }

    /// Records that bytes were sent or, if `is_stalled`, that the peer must take some first.
    pub(crate) fn note_sending(&self, is_stalled: bool, now: Instant) {
        let since = self.stalled_since.get().unwrap_or(now);
        self.stalled_since.set(is_stalled.then_some(since));
    }
}

impl Place {
    /// A request has arrived.
    pub(crate) fn note_request(&self) {
        self.connection.has_asked.set(true);
        self.connection.is_answering.set(true);
    }

    /// The answer to it is ready.
    pub(crate) fn note_answer(&self) {
        self.connection.is_answering.set(false);
        self.connection.waits_since.set(self.connections.note_event());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_waiting_makes_room() {
        let connections = Rc::new(Connections::default());
        let now = Instant::now();
        let admit = || connections.admit(3, now);
        let is_open = |place: &Place| connections.open.borrow().contains_key(&place.number);
        let [kept, busy, silent] = [admit(), admit(), admit()].map(|place| place.expect("there is room"));
        kept.note_request();
        kept.note_answer();
        busy.note_request();
        // The one that has never asked goes, though another has come before it.
        let second = admit().expect("one waits");
        assert_eq!([&kept, &busy, &silent, &second].map(is_open), [true, true, false, true]);
        // The displaced connection is not counted twice.
        drop(silent);
        assert_eq!((connections.count(), connections.displaced.get()), (3, 1));
        second.note_request();
        second.note_answer();
        second.connection.note_sending(true, now);
        let third = admit().expect("the kept one waits");
        assert_eq!([&kept, &busy, &second, &third].map(is_open), [false, true, true, true]);
        third.note_request();
        assert!(admit().is_none(), "all are busy");
        // A connection that goes on reading is busy, too; one that has stopped reading is not.
        let later = now + STALL_MIN;
        second.connection.note_sending(false, later);
        second.connection.note_sending(true, later);
        assert!(connections.admit(3, later).is_none());
        let fourth = connections.admit(3, later + STALL_MIN).expect("one is deaf");
        assert_eq!([&busy, &second, &third, &fourth].map(is_open), [true, false, true, true]);
        fourth.note_request();
        assert!(connections.admit(3, later + STALL_MIN).is_none());
        drop(busy);
        assert!(admit().is_some());
    }
}
