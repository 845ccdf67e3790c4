//! All clients of the server: how many there are, and where each is.
//!
//! Not here: their sessions, which belong to their threads (`server`, `connections/`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use queues::Label;
use session::Session;
use shard::Subscriber;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Registry {
    /// The connections of clients by their ids. Rarely asked for.
    places: Mutex<HashMap<u64, Subscriber>>,
    /// What those call themselves that said so, and their libraries. Rarely changed.
    labels: Mutex<HashMap<u64, Label>>,
    /// Ids that were given out.
    id_count: AtomicU64,
    /// Clients that are there, or are about to be.
    client_count: AtomicU64,
    /// Held while a client sets out for another thread, and while all threads are asked something.
    road: Mutex<()>,
}

impl Registry {
    /// Somebody wants to be a client; returns which one that makes it. It [enters](Self::enter), or [leaves](Self::leave) again.
    pub fn knock(&self) -> u64 {
        self.client_count.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// It becomes a client with a connection; returns its id.
    pub fn enter(&self, place: Subscriber) -> u64 {
        let id = self.id_count.fetch_add(1, Ordering::Relaxed) + 1;
        self.places().insert(id, place);
        id
    }

    /// While this is held no client sets out for another thread. So who asks all threads under it finds each client: on its old thread,
    /// on its new one, or on its way after the question had been sent to both.
    pub fn block_road(&self) -> MutexGuard<'_, ()> {
        self.road.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client is elsewhere now.
    pub fn move_to(&self, id: u64, place: Subscriber) {
        if let Some(known) = self.places().get_mut(&id) {
            *known = place;
        }
    }

    /// It is gone, or did not become a client (`None`).
    pub fn leave(&self, id: Option<u64>) {
        self.client_count.fetch_sub(1, Ordering::Relaxed);
        if let Some(id) = id {
            self.places().remove(&id);
            self.labels().remove(&id);
        }
    }

    /// Where the client of this id is, if there is one.
    pub fn place(&self, id: u64) -> Option<Subscriber> {
        self.places().get(&id).copied()
    }

    /// What a client calls itself, and its library, if it said so.
    pub fn label(&self, id: u64) -> Label {
        self.labels().get(&id).cloned().unwrap_or_default()
    }

    /// A client has said so.
    pub fn note_label(&self, session: &Session) {
        let library = match &*session.lib_version {
            [] => session.lib_name.clone(),
            version => [&session.lib_name, &b" "[..], version].concat(),
        };
        let label = Label { name: session.name.as_slice().into(), library: library.into() };
        self.labels().insert(session.client.id, label);
    }

    /// How many clients there are.
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
        // One that is sent away is counted while it is looked at.
        assert_eq!((registry.knock(), registry.client_count()), (2, 2));
        registry.leave(None);
        assert_eq!(registry.client_count(), 1);
        registry.knock();
        assert_eq!(registry.enter(place(7)), 3);
    }
}
