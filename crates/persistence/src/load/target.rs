//! Collects loaded keys in databases, with a lock for each shard because several threads may load.

use std::collections::VecDeque;
use std::io::{self, Chain, Cursor, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use engine::dump::Builder;
use keyspace::queue::{Arrivals, Seen};
use keyspace::{Dbs, Marks, Record, UnixMs, Value, access};
use proactor::DiskReader;
use rdb::{FileReader, Item, KeyItem, Why};
use shard::ShardId;

use super::{Load, Loaded};
use crate::error::Error;
use crate::runner::NO_SUCH_DB;

/// The pause between two log lines about the progress.
const PROGRESS_MS: u64 = 1000;

/// The fewest bytes that a key and its value take in a file: type, and two strings with their lengths.
const KEY_BYTES_MIN: u64 = 4;

/// The number of items after which memory is checked.
const ITEMS_UNLOOKED: usize = 256;
/// Entries that are read before the first of them is inserted, so that its memory has been prefetched.
const ENTRIES_AHEAD: usize = 8;

/// See the head of this file.
pub(crate) struct Target<'a> {
    pub(crate) load: &'a Load<'a>,
    /// The name of the file.
    pub(crate) name: &'a str,
    now: UnixMs,
    /// Whether expired keys are kept, because commands follow that delete them.
    keeps_due: bool,
    /// The databases, by shard and then by number.
    dbs: Vec<Mutex<Dbs>>,
    key_count: AtomicU64,
    expired_count: AtomicU64,
    /// The time of the next line in the log.
    next_ms: AtomicU64,
}

impl<'a> Target<'a> {
    pub(crate) fn new(load: &'a Load<'a>, name: &'a str, now: UnixMs) -> Target<'a> {
        let shard_count = load.placement.shard_count();
        assert!(shard_count > 0 && load.db_count > 0, "keys need a place");
        let seed = Arc::new(load.placement.seed().clone());
        let new_dbs = || Dbs::new(load.db_count, &seed, load.queues, false);
        let dbs = (0..shard_count).map(|_| Mutex::new(new_dbs())).collect();
        let (key_count, expired_count) = (AtomicU64::new(0), AtomicU64::new(0));
        let next_ms = AtomicU64::new(load.clock.monotonic_ms() + PROGRESS_MS);
        Target { load, name, now, keeps_due: false, dbs, key_count, expired_count, next_ms }
    }

    /// Creates a target for a file that commands continue. Expired keys stay, because a command may extend
    /// their time.
    pub(crate) fn of_stream(load: &'a Load<'a>, name: &'a str, now: UnixMs) -> Target<'a> {
        Target { keeps_due: true, ..Target::new(load, name, now) }
    }

    /// The error about the snapshot's main file.
    pub(crate) fn error(&self, source: rdb::Error) -> Error {
        self.error_in(self.name, source)
    }

    /// The error about another of its files.
    pub(crate) fn error_in(&self, name: &str, source: rdb::Error) -> Error {
        Error::Snapshot { name: self.load.names.path(name).display().to_string(), source }
    }

    /// Opens the snapshot, or a part of it, by its name.
    pub(crate) fn reader(&self, name: &str) -> io::Result<DiskReader> {
        self.load.names.reader(name)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.load.is_stopped()
    }

    /// Notes that this many more bytes were read. Logs the progress at intervals.
    pub(crate) fn note_read(&self, bytes: u64) {
        let progress = self.load.progress;
        progress.loaded_bytes.fetch_add(bytes, Ordering::Relaxed);
        let (now_ms, due_ms) = (self.load.clock.monotonic_ms(), self.next_ms.load(Ordering::Relaxed));
        let next_ms = now_ms + PROGRESS_MS;
        // One of the threads logs it.
        if now_ms >= due_ms
            && self.next_ms.compare_exchange(due_ms, next_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let percent = progress.percent();
            let key_count = self.key_count.load(Ordering::Relaxed);
            tracing::info!("loading {}: {percent} %, {key_count} keys", self.name);
        }
    }

    /// Reserves space for the announced number of keys of a database, as far as the file can contain that
    /// many.
    fn expect(&self, db: usize, key_count: u64) {
        let most = self.load.progress.total_bytes.load(Ordering::Relaxed) / KEY_BYTES_MIN;
        let in_each = key_count.min(most) as usize / self.dbs.len();
        for dbs in &self.dbs {
            dbs.lock().expect("nobody panicked")[db].reserve(in_each);
        }
    }

    /// Loads all remaining items of `file`, whose first keys belong to the database `db`. Items that are not
    /// keys go to `others`. Ends early if the load is stopped.
    pub(crate) fn take_items<R: Read>(
        &self,
        file: &mut FileReader<R>,
        mut db: usize,
        others: &mut dyn FnMut(Item) -> Result<(), rdb::Error>,
    ) -> Result<(), rdb::Error> {
        let mut entries = VecDeque::with_capacity(ENTRIES_AHEAD);
        let mut item_count: usize = 0;
        while !self.is_stopped() {
            item_count += 1;
            if item_count.is_multiple_of(ITEMS_UNLOOKED) {
                self.look_at_memory(file.offset())?;
            }
            let read = file.next_item().and_then(|item| {
                match item {
                    Item::End => return Ok(false),
                    Item::Key(key) => entries.extend(self.read_entry(db, key, file)?),
                    Item::Database(number) => db = self.database(number, file.offset())?,
                    Item::Sizes(key_count, _) => self.expect(db, key_count),
                    item => others(item)?,
                }
                Ok(true)
            });
            let enough = if matches!(read, Ok(true)) { ENTRIES_AHEAD } else { 1 };
            while entries.len() >= enough {
                self.insert(entries.pop_front().expect("there are some"))?;
            }
            if !read? {
                break;
            }
        }
        Ok(())
    }

    /// Fails if too much memory is in use. `offset` is the position in the file.
    fn look_at_memory(&self, offset: u64) -> Result<(), rdb::Error> {
        let (bytes, max) = (heap::allocated_bytes(), self.load.memory_bytes_max);
        if bytes <= max {
            return Ok(());
        }
        let why = format!("it does not fit into memory: {bytes} bytes are in use, of at most {max}");
        Err(rdb::Error { offset, why: io::Error::new(io::ErrorKind::OutOfMemory, why).into() })
    }

    /// Exchanges a shard's databases with `dbs`.
    pub(crate) fn exchange(&self, shard: ShardId, dbs: &mut Dbs) {
        self.dbs[shard.index()].lock().expect("nobody panicked").exchange(dbs);
    }

    /// Pauses a queue. The field contains its database and key.
    pub(crate) fn pause(&self, field: &[u8]) {
        let mut words = field.splitn(2, |byte| *byte == b' ');
        let db = words.next().and_then(ds::num::parse_i64).and_then(|db| usize::try_from(db).ok());
        if let (Some(db), Some(key)) = (db, words.next()) {
            let (shard, hash) = self.load.placement.locate(key);
            let mut dbs = self.dbs[shard.index()].lock().expect("nobody panicked");
            if db < dbs.len() {
                dbs[db].pause_queue(hash, key, true);
            }
        }
    }

    /// Sets the number of keys.
    pub(crate) fn set_key_count(&self, key_count: u64) {
        self.key_count.store(key_count, Ordering::Relaxed);
    }

    /// Everything that was read.
    pub(crate) fn loaded(self, superseded_aof: Option<String>) -> Loaded {
        let dbs = self.dbs.into_iter().map(|dbs| dbs.into_inner().expect("nobody panicked"));
        let loaded = Loaded {
            dbs: dbs.collect(),
            superseded_aof,
            stream_db: None,
            stream: None,
            key_count: self.key_count.into_inner(),
            expired_count: self.expired_count.into_inner(),
        };
        let in_dbs: u64 = loaded.dbs.iter().flat_map(Dbs::iter).map(|(_, db)| db.len() as u64).sum();
        assert_eq!(in_dbs, loaded.key_count, "every key that was counted is there");
        loaded
    }

    /// The database of this number. `offset` is its position in the file.
    pub(crate) fn database(&self, number: u64, offset: u64) -> Result<usize, rdb::Error> {
        if number >= u64::from(self.load.db_count) {
            let why = Why::Corrupt(NO_SUCH_DB);
            return Err(rdb::Error { offset, why });
        }
        Ok(number as usize)
    }

    /// Reads a key and its value, and prefetches the memory that inserting it needs. `None` if it is left
    /// out.
    fn read_entry<R: Read>(
        &self,
        db: usize,
        item: KeyItem,
        file: &mut FileReader<R>,
    ) -> Result<Option<Entry>, rdb::Error> {
        let mut builder = Builder::new(item.value_type, self.load.config);
        let read = file.value(item.value_type, &mut |part| builder.add(part));
        read.map_err(|error| error.in_value_of(&item.key))?;
        // Redis could once write collections without elements, and leaves them out when it loads, too.
        let Some(mut value) = builder.finish() else { return Ok(None) };
        if let Some(bytes) = &item.expiries {
            let why = Why::Corrupt("the expiries of a set's members are damaged");
            engine::dump::set_expiries(&mut value, bytes).ok_or(rdb::Error { offset: item.offset, why })?;
        }
        let is_due =
            || item.expiry_ms.is_some_and(|expiry| expiry < self.now) || value.lend().is_due(self.now);
        if !self.keeps_due && is_due() {
            self.expired_count.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        let (shard, hash) = self.load.placement.locate(&item.key);
        if let Ok(dbs) = self.dbs[shard.index()].try_lock() {
            dbs[db].prefetch_place(hash);
        }
        Ok(Some(Entry { db, shard, hash, item, value }))
    }

    fn insert(&self, entry: Entry) -> Result<(), rdb::Error> {
        let Entry { db, shard, hash, item, mut value } = entry;
        if let (Value::List(list), Some(bytes)) = (&mut value, &item.arrivals) {
            let why = Why::Corrupt("the arrival times of a queue's elements are damaged");
            let arrivals =
                Arrivals::from_bytes(bytes, list.len()).ok_or(rdb::Error { offset: item.offset, why })?;
            list.set_seen(Some(Seen::new(arrivals)));
        }
        let mut dbs = self.dbs[shard.index()].lock().expect("nobody panicked");
        let db = &mut dbs[db];
        db.note_volatile_elements(&value);
        let (mut record, is_new) = db.find_or_insert(hash, &item.key, |key, _| Record::new(key, value));
        if !is_new {
            return Err(rdb::Error { offset: item.offset, why: Why::Corrupt("a key occurs twice") });
        }
        record.set_access(access::restored(
            self.load.config.lfu,
            self.now,
            item.idle_seconds,
            item.frequency,
        ));
        if let Some(text) = &item.marks {
            let why = Why::Corrupt("memcached's flags of a key are damaged");
            record.set_marks(Marks::from_text(text).ok_or(rdb::Error { offset: item.offset, why })?);
        }
        if item.expiry_ms.is_some() {
            db.set_expiry(hash, &item.key, item.expiry_ms);
        }
        self.key_count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A key with its value, about to be inserted.
struct Entry {
    db: usize,
    shard: ShardId,
    hash: u64,
    item: KeyItem,
    value: Value,
}

/// A file that counts the bytes that were read.
pub(crate) struct Counted<'a> {
    /// Its first bytes, which were inspected before, and the rest.
    source: Chain<Cursor<Vec<u8>>, DiskReader>,
    target: &'a Target<'a>,
}

impl<'a> Counted<'a> {
    pub(crate) fn new(file: DiskReader, target: &'a Target<'a>) -> Counted<'a> {
        Counted::behind(Cursor::default(), file, target)
    }

    /// Creates one for a file whose `head` was read before.
    pub(crate) fn behind(head: Cursor<Vec<u8>>, file: DiskReader, target: &'a Target<'a>) -> Counted<'a> {
        Counted { source: head.chain(file), target }
    }
}

impl Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(into)?;
        self.target.note_read(count as u64);
        Ok(count)
    }
}
