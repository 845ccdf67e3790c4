//! The queues of a database on one shard.
//!
//! ```text
//!   Known (all threads)      patterns, and the figures of all queues: readers need no shard for these
//!     Queues (a database)    name → figures, and the state of a queue while its list does not exist
//!       List                 has that state itself while it exists (`list`)
//! ```
//!
//! A new key is checked once ([`Queues::arrive`]). A list that is a queue gets the queue's record of events,
//! and reports all later changes. When it leaves the database ([`Queues::depart`]), the figures of the queue
//! stay here; the arrival times of its elements go with the list. Sorted sets and streams are only
//! registered, and their figures are updated every second ([`Queues::refresh`]).

mod arrivals;
mod figures;
mod jobs;
mod known;
mod list;
mod popped;
mod promotions;
mod recognize;
mod row;
mod seen;
mod taken_at;
mod takes;
#[cfg(test)]
mod tests;
mod waits;

use std::collections::BTreeSet;
use std::sync::Arc;

use ds::Kind;
use ds::compact_table::{CompactTable, SharedBlock};
use ds::hashing::{self, Seed};
use ds::list::End;
use ds::stream::{Stream, StreamId};

pub use arrivals::{Arrivals, EXACT, PRECISION};
pub use figures::{Activity, FOLD_MS, Figures, RATE_SPANS_S, Rates, WAIT_BOUNDS_MS};
pub use jobs::{JobCounts, JobFigure};
pub use known::{Known, RecoveryFigures};
pub use list::List;
pub use popped::{Pop, Popped};
pub use promotions::{PROMOTIONS, Promoted, Promotions};
pub use recognize::{
    ACTIVE, CELERY_PRIORITY, CRON, Class, DEAD, DELAYED, GROUPS, GROUPS_FULL, JOBS, LIMIT, MS_MIN, PLAIN,
    Patterns, RATE, State, System, TURN, is_rate, queue_beside,
};
pub use row::{Row, SHOWN_NAME_BYTES_MAX, Waits, rows, rows_of};
pub use seen::{Book, Seen};
pub use taken_at::Shown;
pub use takes::{pop_several_with, take};
pub use waits::{PERIODS_S, Quantiles, WaitTimes};

use crate::record::{Record, RecordMut, RecordRef};
use crate::value::{Value, ValueRef};
use recognize::{FirstBytes, Learnt, Rule, Tells, queue_with_jobs, tells};

/// The most lists that are remembered as popped at the head, in each database of a shard: 4 KiB.
const POPPED_AT_HEAD_MAX: usize = 512;

/// The queues of a database.
pub struct Queues {
    known: Arc<Known>,
    patterns: Arc<Patterns>,
    version: u64,
    /// First bytes of the names of queues whose jobs are leased.
    first_of_jobs: FirstBytes,
    /// First bytes of the names of all keys that may be queues.
    first: FirstBytes,
    /// The number of the database.
    db: u32,
    /// Sets whose members name queues, to be reported when clients are served from the database.
    sources: Vec<Box<[u8]>>,
    /// Whether its queues are listed, because clients are served from it.
    is_listed: bool,
    /// The hash function of names.
    seed: Arc<Seed>,
    /// All queues, by name.
    all: CompactTable<Arc<Figures>>,
    /// Records of queues without a list in the database: an empty list with the queue's state, for the next
    /// job.
    idle: CompactTable<Record>,
    paused_count: usize,
    /// Sorted sets whose scores are due times; may include some that no longer exist.
    timed: BTreeSet<Box<[u8]>>,
    /// How far the system clock was ahead of the monotonic one when the scores were last correct, in
    /// milliseconds. `None` if that is unknown, because the database is new here.
    ahead_ms: Option<i64>,
    /// For each [`Rule`], the lists that have its key beside them, so taking from other lists needs no
    /// look-up.
    ruled: [BTreeSet<Box<[u8]>>; 3],
    /// Lists that are not queues and whose last element was popped at the head, by the hashes of their keys.
    /// Each is at the place that its hash determines, where a later one replaces it.
    popped_at_head: Option<Box<[u64; POPPED_AT_HEAD_MAX]>>,
    /// The recent pops.
    popped: Option<Box<Popped>>,
    /// The position of refreshing.
    cursor: u64,
}

/// The current time, in milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// The time of the monotonic clock, which measures ages.
    pub steady_ms: u64,
    /// The time of the system clock, in which due times and the ids of streams are expressed.
    pub wall_ms: u64,
}

impl Now {
    /// Converts a time of the system clock to the monotonic clock; 0 means no time.
    fn steady(self, wall_ms: u64) -> u64 {
        match wall_ms {
            0 => 0,
            _ if wall_ms <= self.wall_ms => self.steady_ms.saturating_sub(self.wall_ms - wall_ms).max(1),
            _ => self.steady_ms.saturating_add(wall_ms - self.wall_ms),
        }
    }
}

impl Queues {
    /// The queues of database `db`, initially none. They are listed in `known` if clients are served from it.
    pub fn new(known: &Arc<Known>, seed: &Arc<Seed>, db: u32, is_listed: bool) -> Queues {
        Queues {
            known: Arc::clone(known),
            patterns: Arc::default(),
            version: 0,
            first_of_jobs: FirstBytes::default(),
            first: FirstBytes::default(),
            db,
            sources: Vec::new(),
            is_listed,
            seed: Arc::clone(seed),
            all: CompactTable::new(),
            idle: CompactTable::new(),
            paused_count: 0,
            timed: BTreeSet::new(),
            ahead_ms: None,
            ruled: Default::default(),
            popped_at_head: None,
            popped: None,
            cursor: 0,
        }
    }

    /// The database without queues, and not listed.
    pub(crate) fn empty_copy(&self) -> Queues {
        Queues::new(&self.known, &self.seed, self.db, false)
    }

    /// The knowledge that all databases share.
    pub fn known(&self) -> &Arc<Known> {
        &self.known
    }

    /// Whether there are no queues and no limits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.ruled.iter().all(BTreeSet::is_empty)
    }

    /// Whether the list at `key` has the key of a limit beside it.
    #[inline]
    pub fn is_limited(&self, key: &[u8]) -> bool {
        self.has_rule(Rule::Limit, key)
    }

    /// Whether there is the key of turns beside the list at `key`, because jobs of groups wait.
    #[inline]
    pub fn is_grouped(&self, key: &[u8]) -> bool {
        self.has_rule(Rule::Turn, key)
    }

    /// Whether there is the key of known jobs without ids of their own beside the list at `key`.
    #[inline]
    pub fn is_plain(&self, key: &[u8]) -> bool {
        self.has_rule(Rule::Plain, key)
    }

    #[inline]
    fn has_rule(&self, rule: Rule, key: &[u8]) -> bool {
        let ruled = &self.ruled[rule as usize];
        !ruled.is_empty() && ruled.contains(key)
    }

    /// Number of queues.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether a key with this name may be a queue: a fast check.
    #[inline]
    pub(crate) fn may_know(&mut self, key: &[u8]) -> bool {
        if self.version != self.known.version() {
            (self.patterns, self.version) = self.known.patterns();
            self.first = self.patterns.first().or(self.first_of_jobs);
        }
        self.first.begin(key)
    }

    /// Whether any queue is paused or has the key of a limit beside it, so that consumers may find it empty.
    #[inline]
    pub fn may_be_closed(&self) -> bool {
        self.paused_count > 0 || !self.ruled[Rule::Limit as usize].is_empty()
    }

    /// Whether consumers find the queue empty.
    #[inline]
    pub fn is_paused(&self, hash: u64, key: &[u8]) -> bool {
        self.paused_count > 0 && self.figures(hash, key).is_some_and(|figures| figures.is_paused())
    }

    /// The figures of a queue.
    #[inline]
    pub fn figures(&self, hash: u64, key: &[u8]) -> Option<&Figures> {
        self.find(hash, key).map(SharedBlock::get)
    }

    /// The figures of a queue that a client waits for. If the key is not known but its name is that of a queue, it
    /// becomes known as a list.
    pub fn awaited(&mut self, hash: u64, key: &[u8]) -> Option<Arc<Figures>> {
        if !self.may_know(key) {
            return None;
        }
        self.find_or_add(hash, key, Kind::List)
    }

    /// The state of a queue that currently has no list.
    pub fn idle_book(&self, hash: u64, key: &[u8]) -> Option<&Book> {
        match self.idle.find(hash, |record| record.key() == key)?.value() {
            ValueRef::List(list) => list.seen()?.book(),
            _ => None,
        }
    }

    /// Pauses or resumes a queue. An unknown one becomes known when it is paused, regardless of its name.
    /// Returns false if nothing changed, and `None` if too many queues are known.
    pub(crate) fn set_paused(&mut self, hash: u64, key: &[u8], is_paused: bool) -> Option<bool> {
        let figures = match self.find(hash, key) {
            Some(figures) => figures.to_owned(),
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

    /// Notes that jobs of the queue at `key` are put, leased or scheduled. It becomes known if it was not,
    /// regardless of its name.
    pub(crate) fn know_jobs(&mut self, hash: u64, key: &[u8]) {
        if let Some(figures) = self.find(hash, key) {
            return figures.get().set_has_jobs();
        }
        if let Some(byte) = key.first() {
            self.first_of_jobs.note(*byte);
            self.first.note(*byte);
        }
        let class = self.patterns.class_of(key, Kind::List).unwrap_or(Class::JOBS);
        if let Some(figures) = self.add(hash, key, class) {
            figures.set_has_jobs();
        }
    }

    /// Handles a new record in the database: if it is a queue, starts observing it.
    #[cold]
    pub(crate) fn arrive(&mut self, hash: u64, record: RecordMut<'_>) {
        // Note the rule regardless of the key's content: the reader of the rule checks it.
        if let Some((rule, queue)) = Rule::of(record.lend().key()) {
            self.ruled[rule as usize].insert(queue.into());
        }
        let kind = record.lend().value().kind();
        if kind == Kind::Set {
            return self.listen_to(record.lend().key());
        }
        if let Some(queue) = queue_with_jobs(record.lend().key(), kind) {
            self.know_jobs(hashing::hash(&self.seed, queue), queue);
        }
        // The name may still be registered from an earlier set.
        if kind == Kind::ZSet
            && !self.timed.contains(record.lend().key())
            && (is_rate(record.lend().key())
                || self.patterns.class_of(record.lend().key(), kind).is_some_and(Class::is_timed))
        {
            self.timed.insert(record.lend().key().into());
        }
        let figures = self.find_or_add(hash, record.lend().key(), kind);
        if kind != Kind::List {
            return;
        }
        let Some(list) = record.list_mut() else { return };
        match figures {
            Some(figures) => self.open(hash, figures, list),
            None if list.seen().is_some() => list.set_seen(None),
            None => {}
        }
    }

    /// Handles a record that existed when patterns changed.
    pub(crate) fn reconsider(&mut self, hash: u64, record: RecordMut<'_>) {
        let is_seen = matches!(record.lend().value(), ValueRef::List(list) if is_queue(list));
        if !is_seen && self.may_know(record.lend().key()) {
            self.arrive(hash, record);
        }
    }

    fn open(&mut self, hash: u64, figures: Arc<Figures>, list: &mut List) {
        let mut idle = self.take_idle(hash, &figures.name);
        let kept = idle.as_mut().and_then(|idle| close(idle.list_mut()?));
        let book = kept.unwrap_or_else(|| Book::new(figures));
        let (len, shown, now_ms) = (list.len(), list.shown(), self.known.now_ms());
        let seen = list.seen_or_begin(|| Seen::new(Arrivals::at_once(len, now_ms)));
        seen.open(book, len, shown);
    }

    /// Takes the empty list of a queue that has no list in the database, for its next job.
    #[inline]
    pub(crate) fn take_idle(&mut self, hash: u64, key: &[u8]) -> Option<Record> {
        self.idle.remove(hash, |record| record.key() == key)
    }

    fn keep_idle(&mut self, hash: u64, record: Record) {
        let seed = &*self.seed;
        self.idle.insert(hash, record, |record| hashing::hash(seed, record.key()));
    }

    /// Notes the end from which a list that is not a queue was popped, when its last element is gone.
    #[inline]
    pub(crate) fn note_emptied(&mut self, hash: u64, record: &mut Record) {
        let popped = record.list_mut().and_then(|list| list.shown().popped());
        if popped == Some(End::Head) || popped.is_some() && self.popped_at_head.is_some() {
            let places = self.popped_at_head.get_or_insert_with(|| Box::new([0; POPPED_AT_HEAD_MAX]));
            let place = &mut places[hash as usize % POPPED_AT_HEAD_MAX];
            match popped {
                Some(End::Head) => *place = hash,
                _ if *place == hash => *place = 0,
                _ => {}
            }
        }
    }

    /// The observed use of the list that was at this key.
    pub fn shown_before(&self, hash: u64) -> Shown {
        let is_so = |places: &[u64; POPPED_AT_HEAD_MAX]| places[hash as usize % POPPED_AT_HEAD_MAX] == hash;
        match self.popped_at_head.as_deref().is_some_and(is_so) {
            true => Shown::POPPED_AT_HEAD,
            false => Shown::default(),
        }
    }

    /// Handles a record that left the database because its last element was taken. Returns it if it is not a queue.
    #[inline]
    pub(crate) fn keep(&mut self, hash: u64, mut record: Record) -> Option<Record> {
        self.unrule(record.lend().key());
        match record.list_mut() {
            Some(list) if is_queue(list) => {}
            Some(_) => return Some(record),
            None => {
                self.clear(hash, record.lend().key());
                return Some(record);
            }
        }
        let kept =
            record.emptied().or_else(|mut record| record.list_mut().and_then(idle_record).ok_or(record));
        match kept {
            Ok(idle) => self.keep_idle(hash, idle),
            Err(record) => return Some(record),
        }
        None
    }

    /// Handles a record that leaves the database.
    pub(crate) fn depart(&mut self, hash: u64, record: &mut Record) {
        self.unrule(record.lend().key());
        match record.list_mut() {
            Some(list) => self.leave(hash, list),
            None => self.clear(hash, record.lend().key()),
        }
    }

    /// Updates the figures of a sorted set or stream that is gone: no refresh will find it.
    fn clear(&self, hash: u64, key: &[u8]) {
        if let Some(figures) = self.figures(hash, key) {
            figures.popped.add(figures.depth.get());
            figures.depth.set(0);
            figures.oldest_ms.set(0);
        }
    }

    /// Handles the replacement of value `old` by that of `record`.
    pub(crate) fn replaced(&mut self, hash: u64, old: &mut Value, record: RecordMut<'_>) {
        if let Value::List(list) = old {
            self.leave(hash, list);
        }
        self.unrule(record.lend().key());
        if self.may_know(record.lend().key()) {
            self.arrive(hash, record);
        }
    }

    /// Handles a value leaving `key`, which may be the key of a [`Rule`].
    fn unrule(&mut self, key: &[u8]) {
        if self.ruled.iter().any(|ruled| !ruled.is_empty())
            && let Some((rule, queue)) = Rule::of(key)
        {
            self.ruled[rule as usize].remove(queue);
        }
    }

    /// Handles a list that leaves the database: if it is a queue, the queue's state stays.
    fn leave(&mut self, hash: u64, list: &mut List) {
        if let Some(idle) = idle_record(list) {
            self.keep_idle(hash, idle);
        }
    }

    /// Updates the figures that are not always kept current, for about `count` queues with records in
    /// `table`, continuing where the last call ended. Forgets queues without elements and waiting clients
    /// that are not paused and have been inactive since `since_ms`. Returns the queues whose jobs have to be
    /// counted.
    pub(crate) fn refresh(
        &mut self,
        count: usize,
        (now, since_ms): (Now, u64),
        table: &mut CompactTable<Record>,
    ) -> Vec<Arc<Figures>> {
        let (mut forgotten, mut with_jobs) = (Vec::new(), Vec::new());
        let Queues { all, idle, seed, .. } = self;
        self.cursor = all.scan(self.cursor, count, &mut |queue| {
            let figures = queue.get();
            if is_forgettable(figures, since_ms) {
                return forgotten.push(queue.to_owned());
            }
            if figures.has_jobs() {
                with_jobs.push(queue.to_owned());
            }
            let hash = hashing::hash(seed, &figures.name);
            let is_it = |record: RecordRef<'_>| record.key() == &*figures.name;
            // Only figures change, which a snapshot does not see.
            if let Some(record) = table.find_mut(hash, is_it).or_else(|| idle.find_mut(hash, is_it)) {
                refresh(figures, RecordMut(record), now);
            }
        });
        if !forgotten.is_empty() {
            forgotten.iter().for_each(|figures| self.remove(figures));
            self.known.forget(forgotten.len());
        }
        // A list may not have been a queue before its jobs were leased.
        for figures in &with_jobs {
            let hash = hashing::hash(&self.seed, &figures.name);
            if let Some(record) = table.find_mut(hash, |record| record.key() == &*figures.name) {
                self.reconsider(hash, RecordMut(record));
            }
        }
        with_jobs
    }

    /// Calls `visit` for the sorted sets whose scores are due times, with the first time in ms.
    pub(crate) fn first_times(&mut self, table: &CompactTable<Record>, visit: &mut dyn FnMut(&[u8], i64)) {
        let Queues { timed, seed, patterns, .. } = self;
        timed.retain(|key| {
            let record = table.find(hashing::hash(seed, key), |record| record.key() == &**key);
            let Some(ValueRef::ZSet(set)) = record.map(|record| record.value()) else { return false };
            let class = patterns.class_of(key, Kind::ZSet);
            if class.is_none() && !is_rate(key) {
                return false;
            }
            if let Some(score) = set.score_at(0) {
                // The scores of a rate are times in milliseconds until which a taken element counts.
                let time_ms = class.map_or(score as u64, |class| class.time_ms(score));
                visit(key, i64::try_from(time_ms).unwrap_or(i64::MAX));
            }
            true
        });
    }

    pub(crate) fn has_noted_clock(&self) -> bool {
        self.ahead_ms.is_some()
    }

    /// Notes how far the system clock is ahead of the monotonic one. Returns the previous value.
    pub(crate) fn note_clock(&mut self, ahead_ms: i64) -> Option<i64> {
        self.ahead_ms.replace(ahead_ms)
    }

    /// The sorted sets whose scores are due times; some may no longer exist.
    pub fn timed(&self) -> impl Iterator<Item = &[u8]> {
        self.timed.iter().map(|key| &**key)
    }

    /// The recent pops, if they are noted.
    pub fn popped(&self) -> Option<&Popped> {
        self.popped.as_deref()
    }

    /// Notes that the first `count` elements at one end of the list of `record` are about to be popped, if it
    /// is a queue of Sidekiq's.
    pub(crate) fn note_pops(
        &mut self,
        record: RecordRef<'_>,
        (end, count): (End, usize),
        (client, at_ms): (u64, u64),
    ) {
        let ValueRef::List(list) = record.value() else { return };
        let figures = list.seen().and_then(|seen| seen.book()).map(Book::figures);
        if !figures.is_some_and(|figures| is_recovered(figures)) {
            return;
        }
        let (from, reverse) = match end {
            End::Head => (0, false),
            End::Tail => (-1, true),
        };
        let popped = self.popped.get_or_insert_default();
        for element in list.iter(from, reverse).take(count) {
            popped.note(&Pop { at_ms, client, queue: record.key(), element: &element }, &self.known);
        }
    }

    /// Notes that elements were pushed to the end of `key` from which they are popped, if it is a queue of
    /// Sidekiq's: the clients that popped them no longer have them.
    pub fn note_put_back(&mut self, (hash, key): (u64, &[u8]), elements: &[&[u8]], at_ms: u64) {
        if self.popped.is_none() || !self.figures(hash, key).is_some_and(is_recovered) {
            return;
        }
        let popped = self.popped.get_or_insert_default();
        for element in elements {
            popped.note(&Pop { at_ms, client: 0, queue: key, element }, &self.known);
        }
    }

    /// Forgets pops before `since_ms`, or all pops if that is `None`.
    pub fn trim_popped(&mut self, since_ms: Option<u64>) {
        let Some(popped) = &mut self.popped else { return };
        match since_ms {
            Some(since_ms) => popped.trim(since_ms, &self.known),
            None => popped.clear(&self.known),
        }
        if popped.is_empty() {
            self.popped = None;
        }
    }

    fn remove(&mut self, figures: &Figures) {
        let hash = hashing::hash(&self.seed, &figures.name);
        self.all.remove(hash, |other| *other.get().name == *figures.name);
        self.take_idle(hash, &figures.name);
        figures.set_gone();
    }

    /// Notes that this is now database `db`, and whether clients are served from it.
    pub(crate) fn settle(&mut self, (db, is_listed): (u32, bool)) {
        let paused: Vec<_> = self.paused_names().collect();
        if self.is_listed {
            paused.iter().for_each(|name| self.known.note_paused(self.db, name, false));
        }
        let was_listed = std::mem::replace(&mut self.is_listed, is_listed);
        self.db = db;
        for figures in self.all.iter().map(SharedBlock::get) {
            figures.set_db(db);
            figures.set_counted(is_listed);
        }
        match (was_listed, is_listed) {
            (false, true) => self.known.list(self.all.iter().map(SharedBlock::to_owned)),
            (true, false) => self.forget_all(),
            (true, true) | (false, false) => {}
        }
        if is_listed {
            paused.iter().for_each(|name| self.known.note_paused(db, name, true));
            self.sources.drain(..).for_each(|key| self.known.add_source(db, &key));
        }
    }

    /// The number of its database, and whether clients are served from it.
    pub(crate) fn place(&self) -> (u32, bool) {
        (self.db, self.is_listed)
    }

    fn forget_all(&self) {
        self.all.iter().for_each(|figures| figures.get().set_gone());
        self.known.forget(self.all.len());
    }

    fn paused_names(&self) -> impl Iterator<Item = Box<[u8]>> {
        let paused = self.all.iter().map(SharedBlock::get).filter(|figures| figures.is_paused());
        paused.map(|figures| figures.name.as_slice().into())
    }

    #[inline]
    fn find(&self, hash: u64, key: &[u8]) -> Option<SharedBlock<'_, Figures>> {
        self.all.find(hash, |figures| *figures.get().name == *key)
    }

    fn find_or_add(&mut self, hash: u64, key: &[u8], kind: Kind) -> Option<Arc<Figures>> {
        if let Some(figures) = self.find(hash, key) {
            return Some(figures.to_owned());
        }
        let class = self.patterns.class_of(key, kind)?;
        self.add(hash, key, class)
    }

    fn add(&mut self, hash: u64, key: &[u8], class: Class) -> Option<Arc<Figures>> {
        if !self.known.admit() {
            return None;
        }
        let figures = Arc::new(Figures::new(key, class.number(), self.db, self.known.now_ms()));
        class.system.popping_end().into_iter().for_each(|end| figures.expect_taken_at(end));
        figures.set_counted(self.is_listed);
        if self.is_listed {
            self.known.list(std::iter::once(Arc::clone(&figures)));
        }
        let seed = &*self.seed;
        self.all.insert(hash, Arc::clone(&figures), |figures| hashing::hash(seed, &figures.get().name));
        Some(figures)
    }

    /// Handles a new set, whose name or members may name queues.
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
    /// Makes room when a database is dropped that still has queues, such as one whose loading failed.
    fn drop(&mut self) {
        self.trim_popped(None);
        if self.all.iter().next().is_some_and(|figures| !figures.get().is_gone()) {
            self.forget_all();
        }
    }
}

fn is_queue(list: &List) -> bool {
    list.seen().is_some_and(|seen| seen.book().is_some())
}

/// Ends observing a list as a queue, and returns the queue's record. The arrival times stay with the list.
fn close(list: &mut List) -> Option<Book> {
    list.seen_mut()?.close()
}

/// Like [`close`], but returns the record of an empty list with the queue's record.
fn idle_record(list: &mut List) -> Option<Record> {
    if !is_queue(list) {
        return None;
    }
    let book = close(list)?;
    let name = Arc::clone(book.figures());
    let (mut idle, mut seen) = (List::new(), Seen::default());
    seen.open(book, 0, Shown::default());
    idle.set_seen(Some(seen));
    Some(Record::new(&name.name, Value::List(Box::new(idle))))
}

/// Whether pops from this queue are remembered.
fn is_recovered(figures: &Figures) -> bool {
    let class = Class::of_number(figures.class);
    class.system == System::Sidekiq && class.state == State::Waiting
}

fn is_forgettable(figures: &Figures, since_ms: u64) -> bool {
    let is_idle = figures.depth.get() == 0
        && !figures.is_paused()
        && (!figures.has_jobs() || figures.jobs() == Some(JobCounts::default()))
        && figures.waiters.load(std::sync::atomic::Ordering::Relaxed) == 0;
    is_idle && figures.last_ms().into_iter().flatten().max().unwrap_or(figures.first_ms) < since_ms
}

/// Updates the figures of a queue with this record.
fn refresh(figures: &Figures, record: RecordMut<'_>, now: Now) {
    let memory_bytes = match record.lend().value() {
        ValueRef::List(_) if figures.is_measured() => return,
        ValueRef::List(list) if list.is_empty() => 0,
        ValueRef::List(list) => size_of::<List>() + list.memory_bytes(),
        other => return refresh_other(figures, other, record.lend().memory_bytes(), now),
    };
    if let Some(seen) = record.list_mut().and_then(List::seen_mut) {
        seen.refresh(now.steady_ms, memory_bytes);
    }
}

/// Updates the figures of a sorted set or a stream.
fn refresh_other(figures: &Figures, value: ValueRef<'_>, memory_bytes: usize, now: Now) {
    let class = Class::of_number(figures.class);
    let depth = match value {
        ValueRef::ZSet(zset) => {
            let due_ms = zset.score_at(0).map_or(0, |score| class.time_ms(score));
            figures.oldest_ms.set(now.steady(due_ms));
            zset.len() as u64
        }
        ValueRef::Stream(stream) => {
            let (depth, came_ms) = undelivered(stream);
            figures.oldest_ms.set(now.steady(came_ms));
            depth
        }
        ValueRef::Str(_)
        | ValueRef::List(_)
        | ValueRef::Set(_)
        | ValueRef::Hash(_)
        | ValueRef::Compressed(_)
        | ValueRef::Sketch(_) => 0,
    };
    // Estimates what came and went since the last update from the change of the depth.
    let before = figures.depth.get();
    figures.pushed.add(depth.saturating_sub(before));
    figures.popped.add(before.saturating_sub(depth));
    figures.depth.set(depth);
    figures.measure(now.steady_ms, memory_bytes as u64);
}

/// The most nodes of a stream that are visited in each direction: more than 25,000 entries of the usual size.
const STREAM_NODES_MAX: usize = 256;

/// The number of a stream's entries that have not been delivered to the group that is furthest behind, and
/// the arrival time of the first of them.
fn undelivered(stream: &Stream) -> (u64, u64) {
    let behind = stream.groups.values().min_by_key(|group| group.last_id);
    let from = behind.map_or(Some(StreamId::MIN), |group| group.last_id.next());
    let first = from.and_then(|from| stream.log.range(from, StreamId::MAX).next());
    let depth = match behind {
        None => stream.log.len(),
        // Its lag is unknown if it began in the middle of the stream, or if undelivered entries were deleted.
        Some(group) => match stream.log.lag(group) {
            Some(lag) => usize::try_from(lag).unwrap_or(0),
            None => stream.log.count_behind(group.last_id, STREAM_NODES_MAX),
        },
    };
    (depth as u64, first.map_or(0, |(id, _)| id.ms))
}
