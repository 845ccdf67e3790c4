//! Counts all clients of the server, and knows where each is.
//!
//! Not here: their sessions, which belong to their threads (`server`, `connections/`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::session::Session;
use jobs::queues::Label;
use shard::Subscriber;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Registry {
    /// The connections of clients, by id. Rarely read.
    places: Mutex<HashMap<u64, Subscriber>>,
    /// The names of clients and their libraries, by id, if a client has given them. Rarely changed.
    labels: Mutex<HashMap<u64, Label>>,
    /// The last id.
    id_count: AtomicU64,
    /// The number of clients, including those that are being accepted.
    client_count: AtomicU64,
    /// The number of questions to all threads. See [`questions`](Self::questions).
    questions: Mutex<u64>,
}

impl Registry {
    /// Counts a new client and returns the new count. [`enter`](Self::enter) or [`leave`](Self::leave) must follow.
    pub fn knock(&self) -> u64 {
        self.client_count.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds a client with its connection. Returns its id.
    pub fn enter(&self, place: Subscriber) -> u64 {
        let id = self.id_count.fetch_add(1, Ordering::Relaxed) + 1;
        self.places().insert(id, place);
        id
    }

    /// The number of questions asked so far. The lock is held while a question is sent and while a client leaves its thread,
    /// so all threads receive both in one order.
    pub fn questions(&self) -> MutexGuard<'_, u64> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a client has moved.
    pub fn move_to(&self, id: u64, place: Subscriber) {
        if let Some(known) = self.places().get_mut(&id) {
            *known = place;
        }
    }

    /// Removes a client, or (`None`) one that was counted but refused.
    pub fn leave(&self, id: Option<u64>) {
        self.client_count.fetch_sub(1, Ordering::Relaxed);
        if let Some(id) = id {
            self.places().remove(&id);
            self.labels().remove(&id);
        }
    }

    /// The connection of the client with this id.
    pub fn place(&self, id: u64) -> Option<Subscriber> {
        self.places().get(&id).copied()
    }

    /// The name and library of a client; empty if it has not given them.
    pub fn label(&self, id: u64) -> Label {
        self.labels().get(&id).cloned().unwrap_or_default()
    }

    /// Records the name and library of a client.
    pub fn note_label(&self, session: &Session) {
        let library = match &*session.lib_version {
            [] => session.lib_name.clone(),
            version => [&session.lib_name, &b" "[..], version].concat(),
        };
        let label = Label { name: session.name.as_slice().into(), library: library.into() };
        self.labels().insert(session.client.id, label);
    }

    /// The number of clients.
    pub fn client_count(&self) -> u64 {
        self.client_count.load(Ordering::Relaxed)
    }

    fn labels(&self) -> MutexGuard<'_, HashMap<u64, Label>> {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn places(&self) -> MutexGuard<'_, HashMap<u64, Subscriber>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_is_given_out_twice() {
        let registry = Registry::default();
        let place = |connection| Subscriber { thread: 1, connection };
        let arrive = |connection| (registry.knock(), registry.enter(place(connection)));
        assert_eq!([arrive(7), arrive(8)], [(1, 1), (2, 2)]);
        registry.leave(Some(1));
        assert_eq!((registry.place(1), registry.place(2)), (None, Some(place(8))));
        // A client that is refused counts until it has been refused.
        assert_eq!((registry.knock(), registry.client_count()), (2, 2));
        registry.leave(None);
        assert_eq!(registry.client_count(), 1);
        registry.knock();
        assert_eq!(registry.enter(place(7)), 3);
    }
}
