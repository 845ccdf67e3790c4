//! Holds the connections of one thread: parser and session of each.

use proactor::ConnId;

use crate::session::{Parser, Session};

#[derive(Debug)]
struct Slot {
    id: ConnId,
    /// `None` while the connection is served.
    occupant: Option<(Box<Parser>, Box<Session>)>,
}

/// Parser and session of every connection, by the driver's slot.
#[derive(Debug, Default)]
pub struct Connections {
    slots: Vec<Option<Slot>>,
}

impl Connections {
    /// Adds a new connection.
    pub fn add(&mut self, id: ConnId, parser: Box<Parser>, session: Box<Session>) {
        if self.slots.len() <= id.slot() {
            self.slots.resize_with(id.slot() + 1, || None);
        }
        let old = self.slots[id.slot()].replace(Slot { id, occupant: Some((parser, session)) });
        debug_assert!(old.is_none(), "the driver gives a slot out again only when its connection was closed");
    }

    fn slot_mut(&mut self, id: ConnId) -> Option<&mut Slot> {
        self.slots.get_mut(id.slot())?.as_mut().filter(|slot| slot.id == id)
    }

    /// Takes parser and session out to serve the connection.
    #[inline]
    pub fn take(&mut self, id: ConnId) -> Option<(Box<Parser>, Box<Session>)> {
        self.slot_mut(id)?.occupant.take()
    }

    /// Puts them back.
    #[inline]
    pub fn put_back(&mut self, id: ConnId, parser: Box<Parser>, session: Box<Session>) {
        if let Some(slot) = self.slot_mut(id) {
            slot.occupant = Some((parser, session));
        }
    }

    /// The session of a connection that is not being served.
    pub fn session(&mut self, id: ConnId) -> Option<&mut Session> {
        self.slot_mut(id)?.occupant.as_mut().map(|(_, session)| &mut **session)
    }

    /// Removes a connection.
    pub fn remove(&mut self, id: ConnId) -> Option<Box<Session>> {
        let slot = self.slots.get_mut(id.slot())?;
        if slot.as_ref().is_none_or(|slot| slot.id != id) {
            return None;
        }
        slot.take().and_then(|slot| slot.occupant).map(|(_, session)| session)
    }

    /// The first connection from this slot on that is not being served.
    pub fn first_from(&mut self, slot: usize) -> Option<(ConnId, &mut Session)> {
        let slots = self.slots.get_mut(slot..)?;
        slots.iter_mut().flatten().find_map(|slot| Some((slot.id, &mut *slot.occupant.as_mut()?.1)))
    }

    /// The number of connections.
    pub fn count(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Every connection that is not being served.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ConnId, &mut Session)> {
        self.slots.iter_mut().flatten().filter_map(|slot| Some((slot.id, &mut *slot.occupant.as_mut()?.1)))
    }
}
