//! The queues of a database, as far as they lie on one shard.
//!
//! ```text
//!   Known (all threads)      patterns, and the figures of all queues: what readers need no shard for
//!     Queues (a database)    name → figures, and what is kept of a queue while its list is not there
//!       List                 has that itself while it is there (ds::queue)
//! ```
//!
//! A key that comes to be is looked at once ([`Queues::arrive`]): a list that is a queue gets what is seen of it, and tells it all
//! that happens from then on. When it leaves the database ([`Queues::depart`]), what is kept of the queue stays here; when its elements
//! came goes with it, to where it goes. Sorted sets and streams are only noted: their figures are brought up to date every second
//! ([`Queues::refresh`]).

mod known;
mod recognize;
mod row;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ds::Kind;
use ds::compact_table::CompactTable;
use ds::list::List;
use ds::queue::{Arrivals, Book, Figures, Seen};
use ds::stream::{Stream, StreamId};
use hashbrown::HashTable;

pub use known::Known;
pub use recognize::{Class, Patterns, State, System};
pub use row::{Row, SHOWN_NAME_BYTES_MAX, Waits, rows, rows_of};

use crate::record::{Record, RecordMut};
use crate::value::{Value, ValueRef};
use recognize::{Learnt, Tells, tells};

/// The queues of a database.
#[derive(Default)]
pub struct Queues {
    known: Arc<Known>,
    patterns: Arc<Patterns>,
    version: u64,
    /// The number of the database.
    db: u32,
    /// Sets whose members name queues, which nobody has been told of yet.
    sources: Vec<Box<[u8]>>,
    /// Anybody may see its queues: it serves clients.
    is_listed: bool,
    slots: Vec<Slot>,
    /// Where each lies in `slots`, by the hash of its name.
    by_name: HashTable<u32>,
    paused_count: usize,
    /// Where refreshing goes on.
    cursor: usize,
}

/// A queue.
struct Slot {
    hash: u64,
    figures: Arc<Figures>,
    /// An empty list, with what is kept of the queue, while there is none in the database: the next job finds it.
    idle: Option<Record>,
}

impl Queues {
    /// None yet, of database `db`. They are listed in `known` if clients are served from it.
    pub fn new(known: &Arc<Known>, db: u32, is_listed: bool) -> Queues {
        let mut queues = Queues::default();
        (queues.known, queues.db, queues.is_listed) = (Arc::clone(known), db, is_listed);
        queues
    }

    /// The same without queues, not listed.
    pub(crate) fn empty_copy(&self) -> Queues {
        Queues::new(&self.known, self.db, false)
    }

    /// What all databases share.
    pub fn known(&self) -> &Arc<Known> {
        &self.known
    }

    /// Whether there are any.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether a key with this name may be a queue; quick.
    #[inline]
    pub(crate) fn may_know(&mut self, key: &[u8]) -> bool {
        if self.version != self.known.version() {
            (self.patterns, self.version) = self.known.patterns();
        }
        self.patterns.may_know(key)
    }

    /// Whether takers find the queue empty.
    #[inline]
    pub fn is_paused(&self, hash: u64, key: &[u8]) -> bool {
        self.paused_count > 0 && self.find(hash, key).is_some_and(|at| self.slots[at].figures.is_paused())
    }

    /// What anybody may know of a queue.
    pub fn figures(&self, hash: u64, key: &[u8]) -> Option<&Arc<Figures>> {
        self.find(hash, key).map(|at| &self.slots[at].figures)
    }

    /// The same; it becomes known if it is a queue and has no elements yet, as a list unless it is known to be something else.
    pub fn awaited(&mut self, hash: u64, key: &[u8]) -> Option<Arc<Figures>> {
        if !self.may_know(key) {
            return None;
        }
        let at = self.find_or_add(hash, key, Kind::List)?;
        Some(Arc::clone(&self.slots[at].figures))
    }

    /// What is kept of a queue whose list is not there.
    pub fn idle_book(&self, hash: u64, key: &[u8]) -> Option<&Book> {
        let idle = self.slots[self.find(hash, key)?].idle.as_ref()?;
        match idle.lend().value() {
            ValueRef::List(list) => list.seen()?.book(),
            _ => None,
        }
    }

    /// Pauses or resumes a queue, which becomes known if it was not, whatever its name. False if it is so already; `None` if too many are known.
    pub(crate) fn set_paused(&mut self, hash: u64, key: &[u8], is_paused: bool) -> Option<bool> {
        let at = match self.find(hash, key) {
            Some(at) => at,
            None if !is_paused => return Some(false),
            None => {
                self.may_know(key);
                let kinds = [Kind::List, Kind::ZSet, Kind::Stream];
                let class = kinds.into_iter().find_map(|kind| self.patterns.class_of(key, kind));
                if class.is_none() && !self.known.learn(Learnt::Custom(key.into())) && !self.may_know(key) {
                    return None;
                }
                self.add(hash, key, class.unwrap_or(Class::CUSTOM))?
            }
        };
        let figures = &self.slots[at].figures;
        if figures.is_paused() == is_paused {
            return Some(false);
        }
        figures.set_paused(is_paused);
        self.paused_count = self.paused_count + usize::from(is_paused) - usize::from(!is_paused);
        if self.is_listed {
            self.known.note_paused(self.db, key, is_paused);
        }
        Some(true)
    }

    /// `record`, which is new in the database, may be a queue: what there is to see of it is seen from now on.
    #[cold]
    pub(crate) fn arrive(&mut self, hash: u64, record: RecordMut<'_>) {
        let kind = record.lend().value().kind();
        if kind == Kind::Set {
            return self.listen_to(record.lend().key());
        }
        let slot = self.find_or_add(hash, record.lend().key(), kind);
        if kind != Kind::List {
            return;
        }
        let Some(list) = record.list_mut() else { return };
        match slot {
            Some(at) => self.open(at, list),
            None if list.seen().is_some() => list.extras_mut().get_mut().seen = None,
            None => {}
        }
    }

    /// The same for a record that was there when patterns changed.
    pub(crate) fn reconsider(&mut self, hash: u64, record: RecordMut<'_>) {
        let is_seen = matches!(record.lend().value(), ValueRef::List(list) if is_queue(list));
        if !is_seen && self.may_know(record.lend().key()) {
            self.arrive(hash, record);
        }
    }

    fn open(&mut self, at: usize, list: &mut List) {
        let slot = &mut self.slots[at];
        let mut idle = slot.idle.take();
        let kept = idle.as_mut().and_then(|idle| close(idle.list_mut()?));
        let book = kept.unwrap_or_else(|| Book::new(Arc::clone(&slot.figures)));
        let (len, now_ms) = (list.len(), self.known.now_ms());
        let seen =
            list.extras_mut().get_mut().seen.get_or_insert_with(|| Seen::new(Arrivals::at_once(len, now_ms)));
        seen.open(book, len);
    }

    /// What is kept of a queue that has no list: an empty one, for the job that comes next.
    #[inline]
    pub(crate) fn take_idle(&mut self, hash: u64, key: &[u8]) -> Option<Record> {
        if self.slots.is_empty() {
            return None;
        }
        let at = self.find(hash, key)?;
        self.slots[at].idle.take()
    }

    /// `record`, of which the last element was taken, left the database. It is returned if it is no queue.
    #[inline]
    pub(crate) fn keep(&mut self, hash: u64, mut record: Record) -> Option<Record> {
        if !record.list_mut().is_some_and(|list| is_queue(list)) {
            return Some(record);
        }
        let at = self.find(hash, record.lend().key())?;
        let slot = &mut self.slots[at];
        let emptied = record.emptied();
        slot.idle = Some(
            emptied
                .unwrap_or_else(|mut record| idle_record(&slot.figures, record.list_mut().and_then(close))),
        );
        None
    }

    /// `record` leaves the database.
    pub(crate) fn depart(&mut self, hash: u64, record: &mut Record) {
        if matches!(record.lend().value(), ValueRef::List(list) if !is_queue(list)) {
            return;
        }
        let Some(at) = self.find(hash, record.lend().key()) else { return };
        let slot = &mut self.slots[at];
        slot.figures.depth.set(0);
        slot.figures.oldest_ms.set(0);
        if let Some(list) = record.list_mut() {
            slot.idle = Some(idle_record(&slot.figures, close(list)));
        }
    }

    /// `old` was replaced by another value, which is `record`'s now.
    pub(crate) fn replaced(&mut self, hash: u64, old: &mut Value, record: RecordMut<'_>) {
        if let Value::List(list) = old
            && is_queue(list)
            && let Some(at) = self.find(hash, record.lend().key())
        {
            self.slots[at].idle = Some(idle_record(&self.slots[at].figures, close(list)));
        }
        if self.may_know(record.lend().key()) {
            self.arrive(hash, record);
        }
    }

    /// Brings up to date what is not kept so all the time, of up to `count` queues with records in `table`, going on where the last call ended.
    pub(crate) fn refresh(&mut self, count: usize, now_ms: u64, table: &mut CompactTable<Record>) {
        for _ in 0..count.min(self.slots.len()) {
            self.cursor = (self.cursor + 1) % self.slots.len();
            let slot = &mut self.slots[self.cursor];
            if slot.idle.is_some() && slot.figures.is_measured() {
                continue;
            }
            // Only figures change, of which a snapshot knows nothing.
            let record =
                table.find_mut(slot.hash, |record| record.key() == &*slot.figures.name).map(RecordMut);
            let Some(record) = record else {
                let list = slot.idle.as_mut().and_then(Record::list_mut);
                list.into_iter().for_each(|list| list.extras_mut().refresh(now_ms, 0));
                continue;
            };
            match record.lend().value() {
                ValueRef::List(_) if slot.figures.is_measured() => {}
                ValueRef::List(_) => record.list_mut().into_iter().for_each(|list| {
                    let bytes = size_of::<List>() + list.memory_bytes();
                    list.extras_mut().refresh(now_ms, bytes);
                }),
                other => refresh_other(&slot.figures, other, record.lend().memory_bytes(), now_ms),
            }
        }
    }

    /// Forgets queues that have no elements, for which nobody waits, that are not paused, and of which nothing came and went since `since_ms`, among
    /// those that the next `count` refreshes come to.
    pub(crate) fn forget_idle(&mut self, count: usize, since_ms: u64) {
        let mut forgotten = 0;
        let mut at = self.cursor;
        for _ in 0..count.min(self.slots.len()) {
            if self.slots.is_empty() {
                break;
            }
            at %= self.slots.len();
            if is_forgettable(&self.slots[at].figures, since_ms) {
                self.remove(at);
                forgotten += 1;
            } else {
                at += 1;
            }
        }
        if forgotten > 0 {
            self.known.forget(forgotten);
        }
    }

    fn remove(&mut self, at: usize) {
        let hash = self.slots[at].hash;
        self.unlink(hash, at);
        let slot = self.slots.swap_remove(at);
        slot.figures.set_gone();
        if let Some(moved) = self.slots.get(at) {
            let from = self.slots.len();
            if let Ok(entry) = self.by_name.find_entry(moved.hash, |index| *index as usize == from) {
                *entry.into_mut() = at as u32;
            }
        }
    }

    fn unlink(&mut self, hash: u64, at: usize) {
        if let Ok(entry) = self.by_name.find_entry(hash, |index| *index as usize == at) {
            entry.remove();
        }
    }

    /// The database is database `db` now, and clients are served from it or not any more.
    pub(crate) fn settle(&mut self, (db, is_listed): (u32, bool)) {
        let paused: Vec<_> = self.paused_names().collect();
        if self.is_listed {
            paused.iter().for_each(|name| self.known.note_paused(self.db, name, false));
        }
        let was_listed = std::mem::replace(&mut self.is_listed, is_listed);
        self.db = db;
        for figures in self.slots.iter().map(|slot| &slot.figures) {
            figures.set_db(db);
            figures.set_counted(is_listed);
        }
        match (was_listed, is_listed) {
            (false, true) => self.known.list(self.slots.iter().map(|slot| Arc::clone(&slot.figures))),
            (true, false) => {
                self.slots.iter().for_each(|slot| slot.figures.set_gone());
                self.known.forget(self.slots.len());
            }
            (true, true) | (false, false) => {}
        }
        if is_listed {
            paused.iter().for_each(|name| self.known.note_paused(db, name, true));
            self.sources.drain(..).for_each(|key| self.known.add_source(db, &key));
        }
    }

    /// Where it stands: the number of its database, and whether clients are served from it.
    pub(crate) fn place(&self) -> (u32, bool) {
        (self.db, self.is_listed)
    }

    fn paused_names(&self) -> impl Iterator<Item = Box<[u8]>> {
        let paused = self.slots.iter().filter(|slot| slot.figures.is_paused());
        paused.map(|slot| slot.figures.name.as_slice().into())
    }

    #[inline]
    fn find(&self, hash: u64, key: &[u8]) -> Option<usize> {
        let is_it = |at: &u32| *self.slots[*at as usize].figures.name == *key;
        self.by_name.find(hash, is_it).map(|at| *at as usize)
    }

    fn find_or_add(&mut self, hash: u64, key: &[u8], kind: Kind) -> Option<usize> {
        if let Some(at) = self.find(hash, key) {
            return Some(at);
        }
        let class = self.patterns.class_of(key, kind)?;
        self.add(hash, key, class)
    }

    fn add(&mut self, hash: u64, key: &[u8], class: Class) -> Option<usize> {
        if !self.known.admit() {
            return None;
        }
        let figures = Arc::new(Figures::new(key, class.number(), self.db, self.known.now_ms()));
        figures.set_taken_at(class.system.popping_end());
        figures.set_counted(self.is_listed);
        if self.is_listed {
            self.known.list(std::iter::once(Arc::clone(&figures)));
        }
        self.slots.push(Slot { hash, figures, idle: None });
        let (at, slots) = (self.slots.len() - 1, &self.slots);
        self.by_name.insert_unique(hash, at as u32, |at| slots[*at as usize].hash);
        Some(at)
    }

    /// A set came to be: its name or its members may tell of queues.
    fn listen_to(&mut self, key: &[u8]) {
        match tells(key) {
            Some(Tells::Namespace(name)) => _ = self.known.learn(Learnt::Namespace(name)),
            Some(Tells::Bindings) if self.is_listed => self.known.add_source(self.db, key),
            Some(Tells::Bindings) => self.sources.push(key.into()),
            None => {}
        }
    }
}

impl Drop for Queues {
    /// A database that was never listed, such as one of which loading failed, makes room.
    fn drop(&mut self) {
        if !self.slots.is_empty() && !self.slots[0].figures.is_gone() {
            self.slots.iter().for_each(|slot| slot.figures.set_gone());
            self.known.forget(self.slots.len());
        }
    }
}

fn is_queue(list: &List) -> bool {
    list.seen().is_some_and(|seen| seen.book().is_some())
}

/// A list leaves its database: what is kept of the queue. When its elements came stays with it.
fn close(list: &mut List) -> Option<Book> {
    list.extras_mut().get_mut().seen.as_mut()?.close()
}

/// An empty list with what is kept of a queue.
fn idle_record(figures: &Arc<Figures>, book: Option<Book>) -> Record {
    let (mut list, mut seen) = (List::new(), Seen::default());
    seen.open(book.unwrap_or_else(|| Book::new(Arc::clone(figures))), 0);
    list.extras_mut().get_mut().seen = Some(seen);
    Record::new(&figures.name, Value::List(Box::new(list)))
}

fn is_forgettable(figures: &Figures, since_ms: u64) -> bool {
    let is_idle = figures.depth.get() == 0
        && !figures.is_paused()
        && figures.waiters.load(std::sync::atomic::Ordering::Relaxed) == 0;
    is_idle && figures.last_ms().into_iter().flatten().max().unwrap_or(figures.first_ms) < since_ms
}

/// What there is to know of a sorted set or a stream.
fn refresh_other(figures: &Figures, value: ValueRef<'_>, memory_bytes: usize, now_ms: u64) {
    let class = Class::of_number(figures.class);
    let depth = match value {
        ValueRef::ZSet(zset) => {
            figures.oldest_ms.set(zset.at(0).map_or(0, |(_, score)| class.time_ms(score)));
            zset.len() as u64
        }
        ValueRef::Stream(stream) => {
            let (depth, oldest_ms) = undelivered(stream);
            figures.oldest_ms.set(oldest_ms);
            depth
        }
        ValueRef::Str(_) | ValueRef::List(_) | ValueRef::Set(_) | ValueRef::Hash(_) => 0,
    };
    // What comes and goes between two looks, as far as it shows.
    let before = figures.depth.get();
    figures.pushed.add(depth.saturating_sub(before));
    figures.popped.add(before.saturating_sub(depth));
    figures.depth.set(depth);
    figures.measure(now_ms, memory_bytes as u64);
}

/// How many entries of a stream the group that is furthest behind has not got yet, and when the first of them came.
fn undelivered(stream: &Stream) -> (u64, u64) {
    let behind = stream.groups.values().map(|group| group.last_id).min();
    let from = behind.map_or(Some(StreamId::MIN), StreamId::next);
    let first = from.and_then(|from| stream.log.range(from, StreamId::MAX).next());
    let lag = match behind {
        None => Some(stream.log.len() as u64),
        Some(_) => stream
            .groups
            .values()
            .filter_map(|group| stream.log.lag(group))
            .max()
            .map(|lag| lag.max(0) as u64),
    };
    (lag.unwrap_or(0), first.map_or(0, |(id, _)| id.ms))
}
