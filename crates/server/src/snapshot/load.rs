//! Reading the snapshot.
//!
//! All of it is read into databases of its own, which take their place in the shards when the end was reached and the
//! checksum is right: nothing is ever half loaded. While a server that starts reads, its threads serve already, but only
//! commands that need no data; how several threads read together is in `pieces.rs`.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use command::{Garbage, Post, Tx};
use commands::keys::encoded::Builder;
use ds::hashing::Seed;
use keyspace::{Config, Db, Kind, Record, UnixMs, access};
use proactor::Clock;
use rdb::{FileReader, Item, KeyItem, Why};
use script::{FunctionEngine, LibrarySet};
use shard::{Placement, Ready, ShardId};

use super::names;
use super::progress::Progress;
use crate::error::Error;
use crate::library_store::Loading;
use crate::message::Message;
use crate::settings::RDBCHECKSUM;
use crate::shared::Shared;
use crate::thread::Thread;

/// Between two lines of the log about how far it is.
const PROGRESS_MS: u64 = 1000;
/// So much is read between two looks at the clock.
const BYTES_PER_LOOK: u64 = if cfg!(debug_assertions) { 16 } else { 16 * 1024 };

/// What was read.
pub(crate) struct Loaded {
    /// By shard, then by number.
    dbs: Vec<Vec<Db>>,
    libraries: LibrarySet,
    key_count: u64,
    expired_count: u64,
    /// Told when it is in its place.
    installed: Option<mpsc::Sender<()>>,
}

impl Shared {
    /// Whether there is a snapshot to be loaded; then the server is loading from now on.
    pub(crate) fn has_snapshot_to_load(&self) -> bool {
        names::remove_leftovers(&self.settings);
        let path = names::path(&self.settings, &names::name_to_load(&self.settings));
        let is_there = !path.metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if is_there {
            self.snapshots.progress.begin(Clock::real().now_ms());
        }
        is_there
    }

    /// Loads the snapshot while the threads serve; the first of them puts it in its place. False: the server was stopped
    /// meanwhile, and holds nothing.
    pub(crate) fn load_at_start(&'static self) -> Result<bool, Error> {
        let name = names::name_to_load(&self.settings);
        let clock = Clock::real();
        let started_ms = clock.monotonic_ms();
        let file = File::open(names::path(&self.settings, &name));
        let loader_count = if self.threads.len() > 1 { self.threads.len() } else { 0 };
        if loader_count == 0 {
            heap::own();
        }
        let loaded = self.read(&name, file, clock.now_ms() as UnixMs, loader_count);
        // A thread that serves gets it, and with it what was loaded.
        heap::disown();
        let Some(mut loaded) = loaded? else { return Ok(false) };
        let (key_count, expired_count) = (loaded.key_count, loaded.expired_count);
        let (installed, is_installed) = mpsc::channel();
        loaded.installed = Some(installed);
        self.threads[0].send(Message::Loaded(Box::new(loaded)));
        if is_installed.recv().is_err() {
            return Ok(false);
        }
        tracing::info!(
            "DB loaded from {name}: {key_count} keys, {expired_count} expired ones left out, {} ms",
            clock.monotonic_ms() - started_ms
        );
        Ok(true)
    }

    /// Reads the snapshot and puts what it holds in the place of everything on the shards, all of which are entered.
    pub(crate) fn reload(&'static self, tx: &mut Tx) -> Result<(), Error> {
        let name = names::name_to_load(&self.settings);
        let file = File::open(names::path(&self.settings, &name));
        let Some(loaded) = self.read(&name, file, tx.now, 0)? else { return Ok(()) };
        self.put_in_place(loaded, tx);
        self.snapshots.note_saved(self.changes(&tx.hold));
        Ok(())
    }

    /// Puts what was read in the place of everything on the shards, all of which are entered.
    fn put_in_place(&self, loaded: Loaded, tx: &mut Tx) {
        for (id, dbs) in self.shards.ids().zip(loaded.dbs) {
            for (db, new) in (0..).zip(dbs) {
                replace(tx, id, db, new);
            }
        }
        self.libraries.set(loaded.libraries);
        self.snapshots.loaded_key_count.store(loaded.key_count, Ordering::Relaxed);
        self.snapshots.expired_key_count.store(loaded.expired_count, Ordering::Relaxed);
    }

    /// What the snapshot holds at `now`, read by this thread and `loader_count` more; `None` if the server was stopped
    /// meanwhile.
    fn read(
        &'static self,
        name: &str,
        opened: io::Result<File>,
        now: UnixMs,
        loader_count: usize,
    ) -> Result<Option<Loaded>, Error> {
        let name = names::path(&self.settings, name).display().to_string();
        let read = || {
            let file = opened.map_err(|cause| rdb::Error { offset: 0, why: cause.into() })?;
            let total_bytes = file.metadata().map_or(0, |metadata| metadata.len());
            self.snapshots.progress.total_bytes.store(total_bytes, Ordering::Relaxed);
            let file = Counted { file, progress: &self.snapshots.progress };
            let target = Target::new(self, now);
            let mut source = Source::new(&name, &target, total_bytes);
            let is_complete = match loader_count {
                0 => source.read_alone(file)?,
                _ => source.read_with(loader_count, file)?,
            };
            let libraries = source.libraries;
            Ok(is_complete.then(|| target.loaded(libraries)))
        };
        match read() {
            // There may have been nobody any more to send what comes.
            Err(_) if self.stopping.load(Ordering::Acquire) => Ok(None),
            read => read.map_err(|source| Error::Snapshot { name, source }),
        }
    }
}

impl Thread {
    /// Puts what was read at the start in its place, and serves all commands from now on.
    pub(crate) fn install(&mut self, mut loaded: Box<Loaded>) {
        let shared = self.host.shared;
        if !self.enters_all() {
            self.host.next_mail.push(Message::Loaded(loaded));
            return;
        }
        let installed = loaded.installed.take();
        shared.put_in_place(*loaded, &mut self.tx);
        shared.snapshots.note_saved(shared.changes(&self.tx.hold));
        self.tx.finish(&mut self.host);
        self.leave_all();
        self.post_all();
        shared.broadcast(|| Message::OwnHeap);
        shared.snapshots.progress.end();
        // Whoever waits for it has gone if the server ends.
        let _ = installed.map(|installed| installed.send(()));
    }
}

fn new_dbs(count: u32, seed: &Arc<Seed>) -> Vec<Db> {
    (0..count).map(|_| Db::new(Arc::clone(seed))).collect()
}

/// Where keys go that are read, by several threads perhaps.
pub(super) struct Target<'a> {
    pub(super) shared: &'a Shared,
    placement: &'a Placement,
    config: &'a Config,
    now: UnixMs,
    /// By shard, then by number.
    dbs: Vec<Mutex<Vec<Db>>>,
    key_count: AtomicU64,
    expired_count: AtomicU64,
}

impl<'a> Target<'a> {
    fn new(shared: &'static Shared, now: UnixMs) -> Target<'a> {
        let placement = shared.shards.placement();
        let seed = Arc::new(placement.seed().clone());
        let dbs = shared.shards.ids().map(|_| Mutex::new(new_dbs(shared.settings.databases(), &seed)));
        let (key_count, expired_count) = (AtomicU64::new(0), AtomicU64::new(0));
        let config = shared.data_config();
        Target { shared, placement, config, now, dbs: dbs.collect(), key_count, expired_count }
    }

    fn loaded(self, libraries: LibrarySet) -> Loaded {
        Loaded {
            dbs: self.dbs.into_iter().map(|dbs| dbs.into_inner().expect("nobody panicked")).collect(),
            libraries,
            key_count: self.key_count.into_inner(),
            expired_count: self.expired_count.into_inner(),
            installed: None,
        }
    }

    /// The database of this number; `offset` is where it stands.
    pub(super) fn database(&self, number: u64, offset: u64) -> Result<usize, rdb::Error> {
        if number >= u64::from(self.shared.settings.databases()) {
            let why = Why::Corrupt("more databases than the setting databases allows");
            return Err(rdb::Error { offset, why });
        }
        Ok(number as usize)
    }

    /// Takes a key whose value is next in `file`.
    pub(super) fn take_key<R: Read>(
        &self,
        db: usize,
        item: &KeyItem,
        file: &mut FileReader<R>,
    ) -> Result<(), rdb::Error> {
        let mut builder = Builder::new(item.value_type.kind(), self.config);
        file.value(item.value_type, &mut |part| builder.add(part))?;
        // Redis could write collections without elements, and leaves them out, too.
        let Some(value) = builder.finish() else { return Ok(()) };
        if item.expiry_ms.is_some_and(|expiry| expiry < self.now) || value.lend().is_due(self.now) {
            self.expired_count.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let (shard, hash) = self.placement.locate(&item.key);
        let mut dbs = self.dbs[shard.index()].lock().expect("nobody panicked");
        let db = &mut dbs[db];
        db.note_volatile_fields(&value);
        let (mut record, is_new) = db.find_or_insert(hash, &item.key, |key| Record::new(key, value));
        if !is_new {
            return Err(file.corrupt(item.offset, "a key is there twice"));
        }
        record.set_access(access::restored(self.config.lfu, self.now, item.idle_seconds, item.frequency));
        if item.expiry_ms.is_some() {
            db.set_expiry(hash, &item.key, item.expiry_ms);
        }
        self.key_count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A file of which is known how much was read.
pub(super) struct Counted<'a> {
    file: File,
    progress: &'a Progress,
}

impl Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(into)?;
        self.progress.loaded_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// A file that is being read, and what of it is no key.
pub(super) struct Source<'a> {
    pub(super) target: &'a Target<'a>,
    name: &'a str,
    total_bytes: u64,
    /// The database of the keys that come.
    pub(super) db: usize,
    libraries: LibrarySet,
    /// Loads libraries, which every thread then loads for itself.
    functions: Option<FunctionEngine>,
    clock: Clock,
    next_ms: u64,
    /// Where it looks at the clock again.
    next_look: u64,
}

impl<'a> Source<'a> {
    fn new(name: &'a str, target: &'a Target<'a>, total_bytes: u64) -> Source<'a> {
        let (libraries, clock) = (LibrarySet::default(), Clock::real());
        let next_ms = clock.monotonic_ms() + PROGRESS_MS;
        Source { target, name, total_bytes, db: 0, libraries, functions: None, clock, next_ms, next_look: 0 }
    }

    /// Reads all of it; false if the server was stopped meanwhile.
    fn read_alone(&mut self, file: Counted) -> Result<bool, rdb::Error> {
        let mut file = FileReader::new(file, self.target.shared.settings.is_on(RDBCHECKSUM))?;
        loop {
            match file.next_item()? {
                Item::End => return Ok(true),
                Item::Key(key) => self.target.take_key(self.db, &key, &mut file)?,
                item => self.take(item, file.offset())?,
            }
            if !self.goes_on(file.offset()) {
                return Ok(false);
            }
        }
    }

    /// Takes what is no key; `offset` is where it ends.
    pub(super) fn take(&mut self, item: Item, offset: u64) -> Result<(), rdb::Error> {
        match item {
            Item::Database(number) => self.db = self.target.database(number, offset)?,
            Item::Library(offset, code) => self.take_library(offset, &code)?,
            Item::Aux(name, value) => {
                if name == b"used-mem"
                    && let Some(bytes) = ds::num::parse_i64(&value)
                {
                    self.target.shared.snapshots.progress.used_bytes.store(bytes as u64, Ordering::Relaxed);
                }
                tracing::debug!("snapshot: {} {}", name.escape_ascii(), value.escape_ascii());
            }
            Item::Sizes(..) | Item::Key(_) | Item::End => {}
        }
        Ok(())
    }

    fn take_library(&mut self, offset: u64, code: &[u8]) -> Result<(), rdb::Error> {
        let shared = self.target.shared;
        let memory_bytes_max = shared.settings.script_memory_bytes_max();
        let functions = self.functions.get_or_insert_with(|| FunctionEngine::new(memory_bytes_max));
        let clock = Clock::real();
        match self.libraries.load(code, false, functions, &mut Loading::unlimited(&clock, shared)) {
            Ok(_) => Ok(()),
            Err(error) => Err(rdb::Error { offset, why: Why::Library(error.to_string()) }),
        }
    }

    /// Says now and then that so much was read; false if the server was stopped.
    pub(super) fn goes_on(&mut self, offset: u64) -> bool {
        let shared = self.target.shared;
        if offset < self.next_look {
            return true;
        }
        self.next_look = offset + BYTES_PER_LOOK;
        let now_ms = self.clock.monotonic_ms();
        if now_ms >= self.next_ms {
            self.next_ms = now_ms + PROGRESS_MS;
            let percent = offset * 100 / self.total_bytes.max(1);
            let key_count = self.target.key_count.load(Ordering::Relaxed);
            tracing::info!("loading {}: {percent} %, {key_count} keys", self.name);
        }
        !shared.stopping.load(Ordering::Acquire)
    }
}

/// Puts `new` in the place of database `db` on shard `id`. Whoever watches a key of either is told, and whoever waits for a
/// key that is there now is to be served.
fn replace(tx: &mut Tx, id: ShardId, db: u32, new: Db) {
    let placement = tx.hold.shards().placement();
    let shard = tx.hold.shard_mut(id);
    let old = std::mem::replace(&mut shard.dbs[db as usize], new);
    let new = &shard.dbs[db as usize];
    let has = |part: &Db, key: &[u8]| part.find(placement.hash(key), key).is_some();
    shard.watches.touch_all(db, |key| has(&old, key) || has(new, key));
    for key in shard.waiters.keys(db) {
        let was_lost =
            old.find(placement.hash(key), key).is_some_and(|old| old.value().kind() == Kind::Stream);
        if was_lost || has(new, key) {
            shard.ready.push(Ready { db, key: key.into(), was_lost });
        }
    }
    tx.has_ready |= !shard.ready.is_empty();
    tx.wrote = true;
    if !old.is_empty() || old.is_cut() {
        tx.posts.push(Post::Free(Garbage::Db(old)));
    }
}
