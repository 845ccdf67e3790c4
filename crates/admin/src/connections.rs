//! The connections that are open, and which of them makes room for a new one.
//!
//! A connection *waits* while it has no request: in its TLS handshake, before its first request, and between two. When there are
//! `http-connections-max` connections, the one that has waited longest ends for the new one, those without any request so far before the
//! others. So silent or slow strangers keep nobody out, however many they are. Only when all are busy is the new one turned away.
//!
//! Invariant: a connection is counted from [`Connections::admit`] until its [`Place`] is dropped or it is made to end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::task::AbortHandle;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Connections {
    open: RefCell<BTreeMap<u64, Rc<Connection>>>,
    /// Counts what orders them: connections that came, and requests that ended.
    events: Cell<u64>,
    /// Connections that ended to make room.
    pub(crate) displaced: Cell<u64>,
}

/// What one connection does.
#[derive(Default)]
pub(crate) struct Connection {
    /// A request is being answered.
    is_answering: Cell<bool>,
    /// The peer has not taken yet what was sent.
    is_sending: Cell<bool>,
    has_asked: Cell<bool>,
    waits_since: Cell<u64>,
    task: RefCell<Option<AbortHandle>>,
}

/// A connection's place among the others, for as long as it lasts.
pub(crate) struct Place {
    connections: Rc<Connections>,
    number: u64,
    pub(crate) connection: Rc<Connection>,
}

impl Connections {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.open.borrow().len()
    }

    /// A place for a new one, if there are fewer than `count_max` or one of them waits.
    pub(crate) fn admit(self: &Rc<Self>, count_max: usize) -> Option<Place> {
        while self.count() >= count_max {
            self.displace()?;
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

    /// Ends the one that has waited longest; `None`: none waits.
    fn displace(&self) -> Option<()> {
        let mut open = self.open.borrow_mut();
        let waiting = open.iter().filter(|(_, connection)| connection.waits());
        let (&number, _) = waiting.min_by_key(|(_, one)| (one.has_asked.get(), one.waits_since.get()))?;
        let connection = open.remove(&number).expect("it was found there");
        if let Some(task) = connection.task.take() {
            task.abort();
        }
        self.displaced.set(self.displaced.get() + 1);
        Some(())
    }
}

impl Connection {
    fn waits(&self) -> bool {
        !self.is_answering.get() && !self.is_sending.get()
    }

    /// What is to end if this connection has to make room.
    pub(crate) fn is_served_by(&self, task: AbortHandle) {
        self.task.replace(Some(task));
    }

    /// Whether the peer has to take some of what was sent before more can be.
    pub(crate) fn note_sending(&self, is_sending: bool) {
        self.is_sending.set(is_sending);
    }
}

impl Place {
    /// A request has come.
    pub(crate) fn note_request(&self) {
        self.connection.has_asked.set(true);
        self.connection.is_answering.set(true);
    }

    /// Its answer is ready.
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
        let admit = || connections.admit(3);
        let is_open = |place: &Place| connections.open.borrow().contains_key(&place.number);
        let [kept, busy, silent] = [admit(), admit(), admit()].map(|place| place.expect("there is room"));
        kept.note_request();
        kept.note_answer();
        busy.note_request();
        // The one that has never asked goes, though another has come before it.
        let second = admit().expect("one waits");
        assert_eq!([&kept, &busy, &silent, &second].map(is_open), [true, true, false, true]);
        // It is not counted twice.
        drop(silent);
        assert_eq!((connections.count(), connections.displaced.get()), (3, 1));
        second.note_request();
        second.note_answer();
        second.connection.note_sending(true);
        let third = admit().expect("the kept one waits");
        assert_eq!([&kept, &busy, &second, &third].map(is_open), [false, true, true, true]);
        third.note_request();
        assert!(admit().is_none(), "all are busy");
        drop(busy);
        assert!(admit().is_some());
    }
}
