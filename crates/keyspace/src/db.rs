//! One database of one shard: a table of records.
//!
//! Every look-up takes the key and its 64-bit hash, which the caller needs anyway to find the shard.

use std::collections::BTreeSet;
use std::sync::Arc;

use ds::compact_table::{CompactTable, Sampling};
use ds::hashing::{self, Seed};
use ds::list::End;
use ds::mover::{Mover, WalkPosition};

use crate::compression::{Compression, CompressionProgress};
use crate::cut::{Cut, Taken, Witness};
use crate::data_config::{Config, UnixMs};
use crate::queue::{Figures, Known, Now, Queues};
use crate::record::{Record, RecordMut, RecordRef};
use crate::tally::Tally;
use crate::value::Value;

/// The part of a numbered database that is on this shard.
pub struct Db {
    table: CompactTable<Record>,
    /// The hash function of keys, which growing needs.
    seed: Arc<Seed>,
    volatile_count: usize,
    /// The average time to live of the keys with an expiry that [`Db::find_expired`] has seen recently; 0 if it saw
    /// none.
    ttl_ms: u64,
    /// Its size, for readers that do not hold the shard. It belongs to the database's number: see [`Db::swap`].
    tally: Arc<Tally>,
    /// The position of background expiry.
    expire_cursor: u64,
    /// The position of the search for keys to evict.
    sampling: Sampling,
    defragmentation: Defragmentation,
    /// Created when there is something to compress.
    compression: Option<Box<Compression>>,
    /// Lists that have grown faster than their pushes compress them; some may no longer exist.
    deep_lists: BTreeSet<Box<[u8]>>,
    /// Whether there may be hashes or sets with elements that expire.
    has_volatile_elements: bool,
    /// Whether background expiry has met such a collection, or one was added, since its current pass began.
    met_volatile_elements: bool,
    /// The snapshot that is being taken of this database.
    cut: Option<Box<Cut>>,
    queues: Queues,
}

/// The most passes over a database that is compressed at once, and the number of passes in a row without work
/// that end it.
const COMPRESSING_PASSES_MAX: usize = 256;
const COMPRESSING_IDLE_PASSES: usize = 2;

/// The most lists that are noted for later compression.
const DEEP_LISTS_MAX: usize = 1024;

/// A new sample of times to live contributes one part in this many to the average, as in Redis.
const TTL_PARTS: u64 = 50;

/// The position of defragmentation: in the table, and in a large value.
#[derive(Default)]
struct Defragmentation {
    place: WalkPosition,
    within: WalkPosition,
}

impl Db {
    /// An empty database; `seed` determines the hash function of its keys.
    pub fn new(seed: Arc<Seed>) -> Self {
        Db {
            table: CompactTable::new(),
            volatile_count: 0,
            ttl_ms: 0,
            tally: Arc::default(),
            expire_cursor: 0,
            sampling: Sampling::default(),
            defragmentation: Defragmentation::default(),
            compression: None,
            deep_lists: BTreeSet::new(),
            has_volatile_elements: false,
            met_volatile_elements: false,
            cut: None,
            queues: Queues::new(&Arc::default(), &seed, 0, false),
            seed,
        }
    }

    /// Sets the database's number, and recognizes queues with `known`. If clients are served from it, its
    /// queues are listed there.
    #[must_use]
    pub fn with_queues(mut self, known: &Arc<Known>, number: u32, is_listed: bool) -> Self {
        self.queues = Queues::new(known, &self.seed, number, is_listed);
        self
    }

    /// Shows its size in `tally`.
    pub(crate) fn with_tally(mut self, tally: &Arc<Tally>) -> Self {
        self.tally = Arc::clone(tally);
        self.note_size();
        self
    }

    /// Its queues.
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Its queues, for pausing them or waiting for their elements.
    pub fn queues_mut(&mut self) -> &mut Queues {
        &mut self.queues
    }

    /// Pauses or resumes a queue of any name, which is then known as a queue. Returns false if nothing
    /// changed, and `None` if too many queues are known.
    pub fn pause_queue(&mut self, hash: u64, key: &[u8], is_paused: bool) -> Option<bool> {
        let has_changed = self.queues.set_paused(hash, key, is_paused)?;
        if let Some(record) = self.table.find_mut(hash, |record| record.key() == key) {
            self.queues.reconsider(hash, RecordMut(record));
        }
        Some(has_changed)
    }

    /// Notes that jobs of a queue are put, leased or scheduled, so that it is known as a queue regardless of
    /// its name.
    pub fn know_jobs(&mut self, hash: u64, key: &[u8]) {
        self.queues.know_jobs(hash, key);
        if let Some(record) = self.table.find_mut(hash, |record| record.key() == key) {
            self.queues.reconsider(hash, RecordMut(record));
        }
    }

    /// Updates the figures of some queues, continuing where the last call ended, and forgets queues that have
    /// been idle since `forgotten_ms`. Returns the queues whose jobs beside the list have to be counted.
    pub fn refresh_queues(&mut self, count: usize, now: Now, forgotten_ms: u64) -> Vec<Arc<Figures>> {
        self.queues.refresh(count, (now, forgotten_ms), &mut self.table)
    }

    /// Calls `visit` for the sorted sets whose scores are due times, with the first time in ms.
    pub fn first_times(&mut self, visit: &mut dyn FnMut(&[u8], i64)) {
        self.queues.first_times(&self.table, visit);
    }

    /// Whether [`Self::note_clock`] was called.
    pub fn has_noted_clock(&self) -> bool {
        self.queues.has_noted_clock()
    }

    /// Notes how far the system clock is ahead of the monotonic one, in milliseconds. Returns the previous
    /// value; `None` the first time.
    pub fn note_clock(&mut self, ahead_ms: i64) -> Option<i64> {
        self.queues.note_clock(ahead_ms)
    }

    /// Notes that a client is about to pop elements from one end of the list `key`, if it is a queue of
    /// Sidekiq's: how many, which client, and when.
    pub fn note_pops(&mut self, (hash, key): (u64, &[u8]), pops: (End, usize), by: (u64, u64)) {
        if let Some(record) = self.table.find(hash, |record| record.key() == key) {
            self.queues.note_pops(record, pops, by);
        }
    }

    /// Checks about `count` keys, beginning at `cursor`, because they may have become queues when patterns
    /// changed. Returns the next cursor, or 0 at the end.
    pub fn find_queues(&mut self, cursor: u64, count: usize) -> u64 {
        let mut found: Vec<Box<[u8]>> = Vec::new();
        let queues = &mut self.queues;
        let next = self.table.scan(cursor, count, &mut |record| {
            if queues.may_know(record.key()) {
                found.push(record.key().into());
            }
        });
        for key in found {
            let hash = hashing::hash(&self.seed, &key);
            if let Some(record) = self.table.find_mut(hash, |record| record.key() == &*key) {
                self.queues.reconsider(hash, RecordMut(record));
            }
        }
        next
    }

    /// Allocates space for about this many keys, if the table is too small.
    pub fn reserve(&mut self, key_count: usize) {
        self.table.reserve(key_count);
    }

    /// Its size, for readers that do not hold the shard.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Swaps the contents of two databases.
    ///
    /// # Panics
    /// If they hash their keys differently.
    pub fn swap(&mut self, other: &mut Db) {
        assert!(self.seed.is_same(&other.seed), "hashes of keys hold in both");
        std::mem::swap(self, other);
        std::mem::swap(&mut self.tally, &mut other.tally);
        let places = (other.queues.place(), self.queues.place());
        self.queues.settle(places.0);
        other.queues.settle(places.1);
        self.note_size();
        other.note_size();
    }

    fn note_size(&self) {
        self.tally.keys.set(self.table.len() as u64);
        self.tally.volatile_keys.set(self.volatile_count as u64);
        self.tally.ttl_ms.set(self.ttl_ms);
        self.tally.table_bytes.set(self.table.memory_bytes() as u64);
    }

    /// Updates the tally for a key that is about to be added.
    #[inline]
    fn note_new_key(&self) {
        self.tally.keys.set(self.table.len() as u64 + 1);
        self.tally.table_bytes.set(self.table.memory_bytes() as u64);
    }

    /// Number of keys, including those that have expired and are not deleted yet.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Number of keys that have an expiry.
    pub fn volatile_len(&self) -> usize {
        self.volatile_count
    }

    /// Whether there may be hashes or sets with elements that expire.
    #[inline]
    pub fn has_volatile_elements(&self) -> bool {
        self.has_volatile_elements
    }

    /// Notes that there is such a collection if `value` is one.
    pub fn note_volatile_elements(&mut self, value: &Value) {
        if value.lend().first_element_expiry().is_some() {
            (self.has_volatile_elements, self.met_volatile_elements) = (true, true);
        }
    }

    /// Notes that there is such a collection if the value of `key` is one.
    pub fn note_volatile_elements_of(&mut self, hash: u64, key: &[u8]) {
        if self.find(hash, key).is_some_and(|record| record.value().first_element_expiry().is_some()) {
            (self.has_volatile_elements, self.met_volatile_elements) = (true, true);
        }
    }

    /// The record of `key`, expired or not.
    #[inline]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<RecordRef<'_>> {
        self.table.find(hash, |record| record.key() == key)
    }

    /// Prefetches the table entry for this hash, for a look-up that comes soon.
    #[inline]
    pub fn prefetch_place(&self, hash: u64) {
        self.table.prefetch(hash);
    }

    /// Prefetches the record with this hash; its table entry is in the cache by now.
    #[inline]
    pub fn prefetch_record(&self, hash: u64) {
        self.table.prefetch_block(hash);
    }

    /// Prefetches the memory that the value of the record with this hash allocates; the record is in the
    /// cache by now.
    #[inline]
    pub fn prefetch_value(&self, hash: u64) {
        if let Some(record) = self.table.likely(hash) {
            record.prefetch_value();
        }
    }

    /// The record of `key`, expired or not, for recording an access. Its value must not be changed.
    #[inline]
    pub fn find_to_touch(&mut self, hash: u64, key: &[u8]) -> Option<RecordMut<'_>> {
        self.table.find_mut(hash, |record| record.key() == key).map(RecordMut)
    }

    /// The record of `key`, expired or not, for changing it. A snapshot sees it first.
    #[inline]
    pub fn find_mut(&mut self, hash: u64, key: &[u8]) -> Option<RecordMut<'_>> {
        let mut held = self.table.find_mut(hash, |record| record.key() == key)?;
        if held.is_old() {
            Cut::show(&mut self.cut, &mut held);
        }
        Some(RecordMut(held))
    }

    /// Adds `key`, which must be absent.
    pub fn insert(&mut self, hash: u64, key: &[u8], value: Value) -> RecordMut<'_> {
        self.note_volatile_elements(&value);
        self.note_new_key();
        let seed = &*self.seed;
        let mut record = RecordMut(
            self.table.insert(hash, Record::new(key, value), |record| hashing::hash(seed, record.key())),
        );
        if self.queues.may_know(key) {
            self.queues.arrive(hash, record.again());
        }
        record
    }

    /// The record of `key`, expired or not, or a new one from `make`. Returns true if it is new. If the key is a queue
    /// whose list was kept, `make` gets that empty list.
    #[inline]
    pub fn find_or_insert(
        &mut self,
        hash: u64,
        key: &[u8],
        make: impl FnOnce(&[u8], Option<Record>) -> Record,
    ) -> (RecordMut<'_>, bool) {
        let (seed, queues, mut may_be_queue) = (&*self.seed, &mut self.queues, false);
        let (mut held, is_new) = self.table.find_or_insert_with(
            hash,
            |record| record.key() == key,
            || {
                let is_named_so = queues.may_know(key);
                let idle = if is_named_so { queues.take_idle(hash, key) } else { None };
                may_be_queue = is_named_so && idle.is_none();
                make(key, idle)
            },
            |record| hashing::hash(seed, record.key()),
        );
        if is_new {
            self.tally.keys.add(1);
        }
        if held.is_old() {
            Cut::show(&mut self.cut, &mut held);
        }
        let mut record = RecordMut(held);
        if may_be_queue {
            self.queues.arrive(hash, record.again());
        }
        (record, is_new)
    }

    /// Removes `key`.
    pub fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Record> {
        let mut record = self.take_out(hash, key)?;
        if !self.queues.is_empty() {
            self.queues.depart(hash, &mut record);
        }
        Some(record)
    }

    /// Removes `key`, whose collection is empty. Returns its record, unless it is kept for the queue's next job.
    pub fn remove_emptied(&mut self, hash: u64, key: &[u8]) -> Option<Record> {
        let mut record = self.take_out(hash, key)?;
        self.queues.note_emptied(hash, &mut record);
        if self.queues.is_empty() { Some(record) } else { self.queues.keep(hash, record) }
    }

    #[inline]
    fn take_out(&mut self, hash: u64, key: &[u8]) -> Option<Record> {
        if self.cut.is_some() {
            self.find_mut(hash, key);
        }
        let record = self.table.remove(hash, |record| record.key() == key)?;
        if record.lend().expiry().is_some() {
            assert!(self.volatile_count > 0, "keys with an expiry are counted");
            self.volatile_count -= 1;
            self.tally.volatile_keys.set(self.volatile_count as u64);
        }
        self.tally.keys.set(self.table.len() as u64);
        Some(record)
    }

    /// Sets or removes the expiry of `key`. Returns false if the key does not exist.
    pub fn set_expiry(&mut self, hash: u64, key: &[u8], expiry: Option<UnixMs>) -> bool {
        let Some(mut record) = self.find_mut(hash, key) else { return false };
        let had = record.lend().expiry().is_some();
        record.set_expiry(expiry);
        self.volatile_count = self.volatile_count + usize::from(expiry.is_some()) - usize::from(had);
        assert!(self.volatile_count <= self.table.len(), "only keys that are there are counted");
        self.tally.volatile_keys.set(self.volatile_count as u64);
        true
    }

    /// Like [`set_expiry`](Self::set_expiry), but does nothing if the expiry stays the same.
    pub fn set_expiry_if_changed(&mut self, hash: u64, key: &[u8], expiry: Option<UnixMs>) {
        if self.find(hash, key).is_some_and(|record| record.expiry() != expiry) {
            self.set_expiry(hash, key, expiry);
        }
    }

    /// Notes that `key` has a new value; `old` was the previous one.
    pub fn note_replaced(&mut self, hash: u64, key: &[u8], old: &mut Value) {
        if let Some(record) = self.table.find_mut(hash, |record| record.key() == key) {
            self.queues.replaced(hash, old, RecordMut(record));
        }
    }

    /// Every record, in an arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = RecordRef<'_>> {
        self.table.iter()
    }

    /// Visits at least `count` records, beginning at `cursor` (a 48-bit position). Returns the next cursor, 0
    /// at the end. A record that exists throughout a scan is visited at least once, even if the table grows
    /// or shrinks.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(RecordRef<'_>)) -> u64 {
        self.table.scan(cursor, count, visit)
    }

    /// A random record, expired or not; all are equally likely.
    pub fn random(&self, random: u64, other_random: u64) -> Option<RecordRef<'_>> {
        self.table.random(random, other_random)
    }

    /// Calls `visit` for some records, continuing where the last call ended, until it returns false or `buckets_max`
    /// buckets of the table (of at most eight records) were visited.
    pub fn sample(&mut self, buckets_max: usize, visit: &mut dyn FnMut(RecordRef<'_>) -> bool) {
        self.sampling = self.table.sample(self.sampling, buckets_max, visit);
    }

    /// A record with this hash.
    pub fn find_hashed(&self, hash: u64) -> Option<RecordRef<'_>> {
        self.table.find(hash, |record| hashing::hash(&self.seed, record.key()) == hash)
    }

    /// Searches the next `segment_budget` segments for expired records. Adds up to `count_max` of their keys to
    /// `expired`, and the keys of collections with expired elements to `with_due_elements`. Returns the number of keys with an
    /// expiry that it examined. The caller deletes the keys, because a deletion is an effect and an event.
    pub fn find_expired(
        &mut self,
        now: UnixMs,
        segment_budget: usize,
        count_max: usize,
        expired: &mut Vec<Box<[u8]>>,
        with_due_elements: &mut Vec<Box<[u8]>>,
    ) -> usize {
        if self.volatile_count == 0 && !self.has_volatile_elements {
            if self.ttl_ms > 0 {
                self.ttl_ms = 0;
                self.note_size();
            }
            return 0;
        }
        let (mut seen_count, mut ttl_count, mut ttl_ms) = (0, 0, 0);
        let mut met_volatile_elements = false;
        self.expire_cursor = self.table.scan_retain(self.expire_cursor, segment_budget, &mut |record| {
            if let Some(expiry) = record.expiry() {
                seen_count += 1;
                if !record.expired(now) {
                    ttl_count += 1;
                    // The sum saturates: some keys expire in the far future.
                    ttl_ms = u64::saturating_add(ttl_ms, expiry.abs_diff(now));
                } else if expired.len() < count_max {
                    expired.push(record.key().into());
                }
            }
            if let Some(expiry) = record.value().first_element_expiry() {
                met_volatile_elements = true;
                if expiry < now && with_due_elements.len() < count_max {
                    with_due_elements.push(record.key().into());
                }
            }
            true
        });
        self.ttl_ms = match ttl_ms.checked_div(ttl_count) {
            Some(now_ms) if self.ttl_ms > 0 => self.ttl_ms / TTL_PARTS * (TTL_PARTS - 1) + now_ms / TTL_PARTS,
            Some(now_ms) => now_ms,
            None => self.ttl_ms,
        };
        self.note_size();
        self.met_volatile_elements |= met_volatile_elements;
        if self.expire_cursor == 0 {
            self.has_volatile_elements = std::mem::take(&mut self.met_volatile_elements);
        }
        seen_count
    }

    /// Begins a snapshot: `witness` is shown every record as it is now: those about to change just before
    /// they do, and all others in [`Db::continue_cut`]. No other snapshot may be running.
    pub fn begin_cut(&mut self, witness: Box<dyn Witness>) {
        assert!(self.cut.is_none(), "one snapshot at a time");
        self.table.begin_turn();
        self.cut = Some(Box::new(Cut::new(witness, self.table.len())));
    }

    /// Whether a snapshot is being taken that has not seen all records yet.
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Shows the witness more records, as long as there is time and it captures them. Returns true when it
    /// has seen all of them.
    pub fn continue_cut(&mut self, has_time: &mut dyn FnMut() -> bool) -> bool {
        let Some(cut) = &mut self.cut else { return true };
        while let Some((hash, key)) = cut.first_wanted() {
            if let Some(mut held) = self.table.find_mut(hash, |record| record.key() == key)
                && held.is_old()
            {
                if !has_time() || cut.witness.take(held.get(), false) != Taken::All {
                    return false;
                }
                held.renew();
                cut.note_seen(1);
            }
            cut.forget_wanted();
        }
        let seed = &*self.seed;
        let mut seen_count = 0;
        let Cut { witness, cursor, wanted, .. } = &mut **cut;
        let ahead = &mut |record: RecordRef<'_>| record.prefetch_value();
        let next = self.table.visit_old(*cursor, ahead, &mut |record| {
            let taken = if has_time() { witness.take(record, false) } else { Taken::Nothing };
            if taken == Taken::Part {
                wanted.push_front((hashing::hash(seed, record.key()), record.key().into()));
            }
            seen_count += usize::from(taken == Taken::All);
            taken == Taken::All
        });
        cut.note_seen(seen_count);
        match next {
            Some(next) => cut.cursor = next,
            None => self.cut.take().into_iter().for_each(|cut| cut.end()),
        }
        next.is_none()
    }

    /// Whether `key` must not be changed yet, because the witness would have to capture it at once and has no space, or
    /// because the value is large. If so, the witness captures it next.
    pub fn holds_back(&mut self, hash: u64, key: &[u8]) -> bool {
        let Some(cut) = &mut self.cut else { return false };
        let Some(held) = self.table.find_mut(hash, |record| record.key() == key) else { return false };
        if !held.is_old() {
            return false;
        }
        let is_large = cut.witness.is_large(held.get());
        if is_large {
            cut.want(hash, key);
        }
        is_large || cut.witness.is_full()
    }

    /// Moves memory of some records, continuing where the last call ended, as long as the mover has time. Returns true
    /// at the end of the table; the next call starts again.
    pub fn defragment(&mut self, mover: &mut dyn Mover) -> bool {
        let Defragmentation { place, within } = &mut self.defragmentation;
        self.table.defragment(place, mover, &mut |held, mover| RecordMut(held).defragment(within, mover))
    }

    /// Compresses similar hashes that have not been used for a while, continuing where the last call ended, as long as
    /// `has_time`, which is called every few records. See [`compression`](crate::compression).
    pub fn compress_hashes(
        &mut self,
        config: &Config,
        now: UnixMs,
        has_time: &mut dyn FnMut() -> bool,
    ) -> CompressionProgress {
        if self.table.is_empty() {
            self.compression = None;
        }
        if self.table.is_empty() || self.cut.is_some() || config.hash_compression.bytes_min == 0 {
            return CompressionProgress { is_pass_over: true, ..CompressionProgress::default() };
        }
        let compression = self.compression.get_or_insert_default();
        compression.advance(&mut self.table, (config, &self.seed, now), has_time)
    }

    /// Notes a list that a push has left to be compressed. If there are too many of them, its next pushes
    /// continue the compression.
    pub fn note_deep_list(&mut self, key: &[u8]) {
        if self.deep_lists.len() < DEEP_LISTS_MAX {
            self.deep_lists.insert(key.into());
        }
    }

    /// Continues compressing one of the lists that pushes have left, by as much as a push does.
    pub fn compress_list(&mut self, config: &Config) {
        let Some(key) = self.deep_lists.first().filter(|_| self.cut.is_none()) else { return };
        let hash = hashing::hash(&self.seed, key);
        let record = self.table.find_mut(hash, |record| record.key() == &**key);
        let list = record.and_then(|record| RecordMut(record).list_mut());
        if !list.is_some_and(|list| list.compress_inner(&config.list)) {
            self.deep_lists.pop_first();
        }
    }

    /// Calls [`compress_hashes`](Self::compress_hashes) until a pass finds nothing to do. Returns the number
    /// of hashes compressed.
    pub fn compress_all_hashes(&mut self, config: &Config, now: UnixMs) -> u64 {
        let (mut compressed, mut idle_passes) = (0, 0);
        // Each pattern learns in two passes, at most as often as its dictionary has room for another sample.
        for _ in 0..COMPRESSING_PASSES_MAX {
            let mut has_helped = false;
            let mut is_over = false;
            while !is_over {
                let progress = self.compress_hashes(config, now, &mut || true);
                compressed += progress.compressed;
                has_helped |= progress.attempts > 0;
                is_over = progress.is_pass_over;
            }
            idle_passes = if has_helped { 0 } else { idle_passes + 1 };
            if idle_passes == COMPRESSING_IDLE_PASSES {
                break;
            }
        }
        compressed
    }

    /// Bytes that compression takes in addition to the hashes: dictionaries, and the state of learning.
    pub fn compression_bytes(&self) -> usize {
        self.compression
            .as_ref()
            .map_or(0, |compression| size_of::<Compression>() + compression.memory_bytes())
    }

    /// Removes all records, to be freed elsewhere or in slices.
    pub fn take(&mut self) -> Db {
        let mut taken = Db::new(Arc::clone(&self.seed));
        taken.queues = self.queues.empty_copy();
        self.swap(&mut taken);
        taken
    }

    /// Removes and returns some records; `None` when there are no more. Frees a large database in slices.
    ///
    /// # Panics
    /// If a snapshot is being taken, because it must see the records first.
    pub fn drain_segment(&mut self) -> Option<Vec<Record>> {
        assert!(self.cut.is_none(), "records go that a snapshot has not seen");
        self.table.drain_segment()
    }

    /// The memory of the table itself, in bytes, without that of the records.
    pub fn table_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}
