//! Takes elements out of queues: the one way for all commands that do, from LPOP to JOB.TAKE and BZPOPMIN.
//!
//! ```text
//! pause, limit ─→ observer ─→ remove ─→ place ─→ announce, effect ─→ delete if empty ─→ count for the limit
//!      │ closed                  │                                                           │
//!      └─→ as if it were empty   └─→ what the command does with the elements: [`Taking`] ────┘
//! ```
//!
//! A paused queue, and one whose rate is reached, look empty to commands that take from them. Commands of a primary or
//! a journal take from them nevertheless.
//!
//! Not here: commands that an operator uses on a queue (QUEUE REMOVE, QUEUE MOVE, LREM, LTRIM). They heed neither
//! pauses nor limits.

use ds::list::End;

use keyspace::List;
use keyspace::{InPlace, Type};

use super::is_paused;
use super::observer;
use super::room::Room;
use crate::change::Change;
use crate::error::CommandError;
use crate::store::Store;

/// What a command does with the elements that it takes from a value of a type.
pub trait Taking {
    /// The type that it takes from.
    type Value: InPlace;
    /// Whether limits hold for queues of this type.
    const IS_LIMITED: bool;

    /// The end of the list and the most elements that a client gets, if nothing else has them then: the observer is
    /// told.
    #[inline]
    fn leaving(&self) -> Option<(End, usize)> {
        None
    }

    /// Why nothing can be taken from a value that there is.
    #[inline]
    fn refusal(&mut self) -> Option<CommandError> {
        None
    }

    /// Removes elements, but no more than there is room for.
    fn remove(&mut self, value: <Self::Value as Type>::Mut<'_>, room: Room) -> Removed;

    /// Puts the elements where they go, before the take is announced.
    #[inline]
    fn place(&mut self, _store: &mut Store) -> Result<(), CommandError> {
        Ok(())
    }

    /// The change of the value from which this many elements were removed.
    fn change(&self, count: usize) -> Change;

    /// Records the effect. Only called if effects are recorded.
    fn effect(&mut self, store: &mut Store, key: &[u8], count: usize);

    /// Called once the take is announced, before the key is deleted if it has become empty.
    #[inline]
    fn announced(&mut self, _store: &mut Store) -> Result<(), CommandError> {
        Ok(())
    }

    /// Ends the take. Returns how many of the removed elements count for the rate limit.
    #[inline]
    fn settle(&mut self, _store: &mut Store, count: usize) -> Result<usize, CommandError> {
        Ok(count)
    }
}

/// What was removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Removed {
    /// The number of elements.
    pub count: usize,
    /// Whether none is left.
    pub is_empty: bool,
}

impl Removed {
    /// `count` elements of this list.
    #[inline]
    pub fn of(list: &List, count: usize) -> Removed {
        Removed { count, is_empty: list.is_empty() }
    }
}

/// The leave to take from a queue, which is not paused, and whose rate is not reached.
#[derive(Debug)]
pub struct Gate<'k> {
    queue: &'k [u8],
    room: Room,
}

impl<'k> Gate<'k> {
    /// The gate of the list at `queue`; `None` if it is closed.
    ///
    /// # Errors
    /// If the limit or its takes cannot be read.
    pub fn of(store: &Store, queue: &'k [u8]) -> Result<Option<Gate<'k>>, CommandError> {
        let room = room(store, queue, true)?;
        Ok(if room.is_none() { None } else { Some(Gate { queue, room }) })
    }

    /// Takes from the value at `key`, which is the queue or a part of it. False if it does not exist.
    ///
    /// # Errors
    /// If the value has another type, or one of the steps of `taking` fails.
    #[inline(always)]
    pub fn take<K: Taking>(
        self,
        store: &mut Store,
        key: &[u8],
        taking: &mut K,
    ) -> Result<bool, CommandError> {
        let Gate { queue, room } = self;
        observer::popping(store, key, taking.leaving(), room);
        let Some(value) = store.write_as::<K::Value>(key)? else { return Ok(false) };
        if let Some(error) = taking.refusal() {
            return Err(error);
        }
        let Removed { count, is_empty } = taking.remove(value, room);
        if count == 0 {
            return Ok(true);
        }
        taking.place(store)?;
        store.changed_with(key, taking.change(count), |store| taking.effect(store, key, count));
        taking.announced(store)?;
        if is_empty {
            store.delete_if_empty(key);
        }
        let counted = taking.settle(store, count)?;
        if room != Room::ANY && counted > 0 {
            count_takes(store, queue, counted)?;
        }
        Ok(true)
    }
}

/// Takes from the queue at `key`. False, with nothing done, if it does not exist, is paused, or its rate is reached.
///
/// # Errors
/// If the value has another type, its limit cannot be read, or one of the steps of `taking` fails.
#[inline(always)]
pub fn take_from<K: Taking>(store: &mut Store, key: &[u8], taking: &mut K) -> Result<bool, CommandError> {
    let room = room(store, key, K::IS_LIMITED)?;
    if room.is_none() {
        return store.peek_as::<K::Value>(key).map(|_| false);
    }
    Gate { queue: key, room }.take(store, key, taking)
}

/// How many elements may be taken from the queue at `key`: none if it is paused. Quick if no queue of the shard is
/// paused or limited.
///
/// # Errors
/// If its limit cannot be read.
#[inline(always)]
pub fn room(store: &Store, key: &[u8], is_limited: bool) -> Result<Room, CommandError> {
    match store.db(store.entered_shard(key)).queues().may_be_closed() && !store.tx.keeps_due {
        true => looked_up_room(store, key, is_limited),
        false => Ok(Room::ANY),
    }
}

#[cold]
#[inline(never)]
fn looked_up_room(store: &Store, key: &[u8], is_limited: bool) -> Result<Room, CommandError> {
    let rates = store.tx.table.rates().filter(|_| is_limited);
    let room = rates.map_or(Ok(Room::ANY), |rates| (rates.room)(store, key))?;
    Ok(if is_paused(store, key) { Room::NONE } else { room })
}

/// Counts elements that were taken from a queue with a limit.
#[cold]
fn count_takes(store: &mut Store, queue: &[u8], count: usize) -> Result<(), CommandError> {
    store.tx.table.rates().map_or(Ok(()), |rates| (rates.took)(store, queue, count as u64))
}

/// Whether the list at `key` looks empty to commands that take from it, because it is paused or its rate is reached.
pub fn is_closed(store: &Store, key: &[u8]) -> bool {
    // Of a list whose limit cannot be read, waiting clients are to get the error.
    room(store, key, true).map_or_else(|_| is_paused(store, key), Room::is_none)
}
