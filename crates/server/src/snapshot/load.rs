//! Reading the snapshot.
//!
//! All of it is read into databases of its own, which take their place in the shards when the end was reached and the
//! checksum is right: nothing is ever half loaded. While a server that starts reads, its threads serve already, but only
//! commands that need no data; how several threads read together is in `pieces.rs`
//! and `parts.rs`.

use std::collections::VecDeque;
use std::io::{self, Chain, Cursor, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use command::{Garbage, Post, Tx};
use ds::hashing::Seed;
use encoded::Builder;
use keyspace::{Config, Db, Kind, Marks, Record, UnixMs, Value, access};
use persistence::{Choice, Names, STATE_AUX, Source};
use proactor::{Clock, DiskReader};
use rdb::{FileReader, Item, KeyItem, MANIFEST_MAGIC, Why};
use script::{FunctionEngine, LibrarySet};
use scripting::{Change, Loading, ROAMED_AUX};
use settings::RDBCHECKSUM;
use shard::{Placement, Ready, ShardId};

use crate::error::Error;
use crate::message::Message;
use crate::shared::Shared;
use crate::thread::Thread;

/// Between two lines of the log about how far it is.
const PROGRESS_MS: u64 = 1000;

/// Fewer bytes of a file make no key with its value: type, and two strings with their lengths.
const KEY_BYTES_MIN: u64 = 4;

/// Entries that are read before the first of them is inserted: what is in memory there has come meanwhile.
const ENTRIES_AHEAD: usize = 8;

/// What was read.
pub(crate) struct Loaded {
    /// By shard, then by number.
    dbs: Vec<Vec<Db>>,
    libraries: LibrarySet,
    /// The state of the append-only file that the snapshot supersedes.
    superseded_aof: Option<String>,
    key_count: u64,
    expired_count: u64,
    /// No snapshot has it yet.
    is_imported: bool,
    /// Told when it is in its place.
    installed: Option<mpsc::Sender<()>>,
}

/// Does work on a heap of its own, which a thread that serves gets then, and with it what was loaded.
pub(super) fn on_heap_to_serve<R>(work: impl FnOnce() -> R) -> R {
    heap::own();
    let done = work();
    heap::disown();
    done
}

impl Shared {
    /// Prepares for loading what was chosen: if there is anything, the server is loading from now on.
    pub(crate) fn begin_loading(&self, choice: &Choice) {
        self.snapshot_names().remove_leftovers();
        self.snapshots.set_superseded_aof(choice.superseded.clone());
        if choice.has_data() {
            self.snapshots.progress.begin(self.machine.clock.now_ms());
        }
    }

    /// How far the loading at the start is, in words.
    pub(crate) fn loading_progress(&self) -> String {
        let figures = self.snapshots.progress.figures(self.machine.clock.now_ms());
        figures.map_or_else(String::new, |figures| {
            format!("Loading the snapshot, {:.0} % of {} bytes", figures.percent, figures.total_bytes)
        })
    }

    /// Loads what was chosen while the threads serve; the first of them puts it in its place. False: the server was stopped
    /// meanwhile, and holds nothing.
    pub(crate) fn load_at_start(&'static self, choice: &Choice) -> Result<bool, Error> {
        if !choice.has_data() {
            return Ok(true);
        }
        let clock = &self.machine.clock;
        let started_ms = clock.monotonic_ms();
        let loader_count = if self.threads.len() > 1 { self.threads.len() } else { 0 };
        let Some((name, mut loaded)) = self.read_at_start(choice, loader_count)? else { return Ok(false) };
        let (key_count, expired_count) = (loaded.key_count, loaded.expired_count);
        let (installed, is_installed) = mpsc::channel();
        loaded.installed = Some(installed);
        self.threads[0].send(Message::Loaded(Box::new(loaded)));
        // A thread that has ended does not take what is sent to it.
        while let Err(error) = is_installed.recv_timeout(Duration::from_millis(PROGRESS_MS)) {
            if error == RecvTimeoutError::Disconnected || self.stopping.load(Ordering::Acquire) {
                return Ok(false);
            }
        }
        tracing::info!(
            "DB loaded from {name}: {key_count} keys, {expired_count} expired ones left out, {} ms",
            clock.monotonic_ms() - started_ms
        );
        Ok(true)
    }

    /// The same in a simulation: it is read at once, and the first thread puts it in its place when it comes to it.
    pub(crate) fn load_simulated(&'static self, choice: &Choice) -> Result<(), Error> {
        self.begin_loading(choice);
        if let Some((_, loaded)) = self.read_at_start(choice, 0)? {
            self.threads[0].send(Message::Loaded(Box::new(loaded)));
        }
        Ok(())
    }

    /// What was chosen, and its name; `None` if there is nothing, or if the server was stopped meanwhile.
    fn read_at_start(
        &'static self,
        choice: &Choice,
        loader_count: usize,
    ) -> Result<Option<(String, Loaded)>, Error> {
        let (name, loaded) = match &choice.source {
            Source::Nothing => return Ok(None),
            Source::Snapshot => {
                let names = self.snapshot_names();
                let name = names.name_to_load();
                let now = self.machine.clock.now_ms() as UnixMs;
                let read = || self.read(&names, &name, now, loader_count);
                let serves = loader_count == 0 && !self.is_simulated();
                let loaded = if serves { on_heap_to_serve(read) } else { read() };
                (name, loaded?)
            }
            Source::AppendOnly(files) => (files.name(), self.import(files, loader_count)?),
        };
        let Some(mut loaded) = loaded else { return Ok(None) };
        loaded.is_imported = matches!(choice.source, Source::AppendOnly(_));
        if let Some(state) = loaded.superseded_aof.take() {
            self.snapshots.set_superseded_aof(Some(state));
        }
        Ok(Some((name, loaded)))
    }

    /// Reads the snapshot and puts what it holds in the place of everything on the shards, all of which are entered.
    pub(crate) fn reload(&'static self, tx: &mut Tx) -> Result<(), Error> {
        let names = self.snapshot_names();
        let name = names.name_to_load();
        let Some(loaded) = self.read(&names, &name, tx.now, 0)? else { return Ok(()) };
        self.put_in_place(loaded, tx);
        self.snapshots.note_saved(self.changes());
        Ok(())
    }

    /// Puts what was read in the place of everything on the shards, all of which are entered.
    fn put_in_place(&self, loaded: Loaded, tx: &mut Tx) {
        for (id, dbs) in self.shards.ids().zip(loaded.dbs) {
            for (db, new) in (0..).zip(dbs) {
                replace(tx, id, db, new);
            }
        }
        self.scripts.libraries.set(loaded.libraries);
        self.snapshots.loaded_key_count.store(loaded.key_count, Ordering::Relaxed);
        self.snapshots.expired_key_count.store(loaded.expired_count, Ordering::Relaxed);
    }

    /// What the snapshot holds at `now`, read by this thread and `loader_count` more; `None` if the server was stopped
    /// meanwhile.
    fn read(
        &'static self,
        names: &Names,
        name: &str,
        now: UnixMs,
        loader_count: usize,
    ) -> Result<Option<Loaded>, Error> {
        let target = Target::new(self, names, name, now);
        let opened = names.reader(name).and_then(|mut file| {
            let mut head = Vec::new();
            (&mut file).take(MANIFEST_MAGIC.len() as u64).read_to_end(&mut head)?;
            Ok((file, head))
        });
        let (file, head) =
            opened.map_err(|cause| target.error(rdb::Error { offset: 0, why: cause.into() }))?;
        let total_bytes = file.size_bytes().unwrap_or_default();
        self.snapshots.progress.begin_file(total_bytes);
        let has_parts = head == MANIFEST_MAGIC;
        let file = Counted { source: Cursor::new(head).chain(file), target: &target };
        let mut others = Others::new(&target);
        let read = match loader_count {
            _ if has_parts => others.read_parts(loader_count, file),
            0 => others.read_alone(file).map(|_| ()).map_err(|error| target.error(error)),
            _ => others.read_with(loader_count, file).map(|_| ()).map_err(|error| target.error(error)),
        };
        let found = others.into_found();
        // There may have been nobody any more to send what comes.
        if self.stopping.load(Ordering::Acquire) {
            return Ok(None);
        }
        read.map(|()| Some(target.loaded(found)))
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
        let (installed, is_imported) = (loaded.installed.take(), loaded.is_imported);
        shared.put_in_place(*loaded, &mut self.tx);
        shared.snapshots.note_saved(shared.changes());
        if is_imported {
            // The sooner it is in a snapshot the better.
            self.tx.hold.shard_mut(ShardId(0)).stats.changes.add(1);
            shared.snapshots.is_scheduled.store(true, Ordering::Relaxed);
        }
        self.tx.finish(&mut self.host);
        self.leave_all();
        self.post_all();
        if !shared.is_simulated() {
            shared.broadcast(|| Message::OwnHeap);
        }
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
    pub(super) shared: &'static Shared,
    names: &'a Names,
    /// The name of the snapshot.
    pub(super) name: &'a str,
    placement: &'a Placement,
    config: &'a Config,
    now: UnixMs,
    /// By shard, then by number.
    dbs: Vec<Mutex<Vec<Db>>>,
    key_count: AtomicU64,
    expired_count: AtomicU64,
    clock: Clock,
    /// When the next line of the log is due.
    next_ms: AtomicU64,
}

impl<'a> Target<'a> {
    pub(super) fn new(shared: &'static Shared, names: &'a Names, name: &'a str, now: UnixMs) -> Target<'a> {
        let placement = shared.shards.placement();
        let seed = Arc::new(placement.seed().clone());
        let dbs = shared.shards.ids().map(|_| Mutex::new(new_dbs(shared.settings.databases(), &seed)));
        let (key_count, expired_count) = (AtomicU64::new(0), AtomicU64::new(0));
        let (config, clock) = (shared.data_config(), shared.machine.clock.clone());
        let next_ms = AtomicU64::new(clock.monotonic_ms() + PROGRESS_MS);
        let dbs = dbs.collect();
        Target { shared, names, name, placement, config, now, dbs, key_count, expired_count, clock, next_ms }
    }

    /// The error of a file of the snapshot that is this one unless it is told.
    fn error(&self, source: rdb::Error) -> Error {
        self.error_in(self.name, source)
    }

    /// The same for another one of its files.
    pub(super) fn error_in(&self, name: &str, source: rdb::Error) -> Error {
        persistence::Error::Snapshot { name: self.names.path(name).display().to_string(), source }.into()
    }

    /// Reads one of them.
    pub(super) fn reader(&self, name: &str) -> io::Result<DiskReader> {
        self.names.reader(name)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    /// Takes note that so much was read, and says so now and then.
    fn note_read(&self, bytes: u64) {
        let progress = &self.shared.snapshots.progress;
        let loaded_bytes = progress.loaded_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let (now_ms, due_ms) = (self.clock.monotonic_ms(), self.next_ms.load(Ordering::Relaxed));
        let next_ms = now_ms + PROGRESS_MS;
        // One of the threads does it.
        if now_ms >= due_ms
            && self.next_ms.compare_exchange(due_ms, next_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let percent = loaded_bytes * 100 / progress.total_bytes.load(Ordering::Relaxed).max(1);
            let key_count = self.key_count.load(Ordering::Relaxed);
            tracing::info!("loading {}: {percent} %, {key_count} keys", self.name);
        }
    }

    /// Makes room for the keys that a database is said to have, as far as there can be so many in the file.
    fn expect(&self, db: usize, key_count: u64) {
        let most = self.shared.snapshots.progress.total_bytes.load(Ordering::Relaxed) / KEY_BYTES_MIN;
        let in_each = key_count.min(most) as usize / self.dbs.len();
        for dbs in &self.dbs {
            dbs.lock().expect("nobody panicked")[db].reserve(in_each);
        }
    }

    /// Takes all items that are left in `file`, of which the first keys are of the database `db`. What is no key is `others'`.
    /// It ends early if the server is stopped.
    pub(super) fn take_items<R: Read>(
        &self,
        file: &mut FileReader<R>,
        mut db: usize,
        others: &mut dyn FnMut(Item) -> Result<(), rdb::Error>,
    ) -> Result<(), rdb::Error> {
        let mut entries = VecDeque::with_capacity(ENTRIES_AHEAD);
        while !self.is_stopped() {
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

    /// Exchanges what a shard has for `dbs`.
    pub(super) fn exchange(&self, shard: ShardId, dbs: &mut Box<[Db]>) {
        let mut ours = self.dbs[shard.index()].lock().expect("nobody panicked");
        for (ours, theirs) in ours.iter_mut().zip(dbs) {
            std::mem::swap(ours, theirs);
        }
    }

    /// There are so many keys now.
    pub(super) fn set_key_count(&self, key_count: u64) {
        self.key_count.store(key_count, Ordering::Relaxed);
    }

    pub(super) fn loaded(self, others: Found) -> Loaded {
        Loaded {
            dbs: self.dbs.into_iter().map(|dbs| dbs.into_inner().expect("nobody panicked")).collect(),
            libraries: others.libraries,
            superseded_aof: others.superseded_aof,
            is_imported: false,
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

    /// Reads the value of a key, and has the memory come where they will go. `None` if they are to be left out.
    fn read_entry<R: Read>(
        &self,
        db: usize,
        item: KeyItem,
        file: &mut FileReader<R>,
    ) -> Result<Option<Entry>, rdb::Error> {
        let mut builder = Builder::new(item.value_type.kind(), self.config);
        let read = file.value(item.value_type, &mut |part| builder.add(part));
        read.map_err(|error| error.in_value_of(&item.key))?;
        // Redis could write collections without elements, and leaves them out, too.
        let Some(value) = builder.finish() else { return Ok(None) };
        if item.expiry_ms.is_some_and(|expiry| expiry < self.now) || value.lend().is_due(self.now) {
            self.expired_count.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        let (shard, hash) = self.placement.locate(&item.key);
        if let Ok(dbs) = self.dbs[shard.index()].try_lock() {
            dbs[db].prefetch_place(hash);
        }
        Ok(Some(Entry { db, shard, hash, item, value }))
    }

    fn insert(&self, entry: Entry) -> Result<(), rdb::Error> {
        let Entry { db, shard, hash, item, value } = entry;
        let mut dbs = self.dbs[shard.index()].lock().expect("nobody panicked");
        let db = &mut dbs[db];
        db.note_volatile_fields(&value);
        let (mut record, is_new) = db.find_or_insert(hash, &item.key, |key| Record::new(key, value));
        if !is_new {
            return Err(rdb::Error { offset: item.offset, why: Why::Corrupt("a key is there twice") });
        }
        record.set_access(access::restored(self.config.lfu, self.now, item.idle_seconds, item.frequency));
        if let Some(text) = &item.marks {
            let why = Why::Corrupt("what memcached's clients attach to a key is damaged");
            record.set_marks(Marks::from_text(text).ok_or(rdb::Error { offset: item.offset, why })?);
        }
        if item.expiry_ms.is_some() {
            db.set_expiry(hash, &item.key, item.expiry_ms);
        }
        self.key_count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A key with its value on its way to its place.
struct Entry {
    db: usize,
    shard: ShardId,
    hash: u64,
    item: KeyItem,
    value: Value,
}

/// A file of which is known how much was read.
pub(super) struct Counted<'a> {
    /// Its first bytes, which were looked at, and the rest.
    source: Chain<Cursor<Vec<u8>>, DiskReader>,
    target: &'a Target<'a>,
}

impl<'a> Counted<'a> {
    pub(super) fn new(file: DiskReader, target: &'a Target<'a>) -> Counted<'a> {
        Counted { source: Cursor::default().chain(file), target }
    }
}

impl Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(into)?;
        self.target.note_read(count as u64);
        Ok(count)
    }
}

/// What was found beside keys.
#[derive(Default)]
pub(super) struct Found {
    libraries: LibrarySet,
    superseded_aof: Option<String>,
}

/// What is no key in a snapshot that is being read.
pub(super) struct Others<'a> {
    pub(super) target: &'a Target<'a>,
    found: Found,
    /// Loads libraries, which every thread then loads for itself.
    functions: Option<FunctionEngine>,
}

impl<'a> Others<'a> {
    pub(super) fn new(target: &'a Target<'a>) -> Others<'a> {
        Others { target, found: Found::default(), functions: None }
    }

    /// What was found.
    pub(super) fn into_found(self) -> Found {
        self.found
    }

    /// Reads all of a file; where it ends.
    pub(super) fn read_alone(&mut self, file: Counted) -> Result<u64, rdb::Error> {
        let target = self.target;
        let mut file = FileReader::new(file, target.shared.settings.is_on(RDBCHECKSUM))?;
        target.take_items(&mut file, 0, &mut |item| self.take(item))?;
        Ok(file.offset())
    }

    /// Takes what is no key and no database.
    pub(super) fn take(&mut self, item: Item) -> Result<(), rdb::Error> {
        match item {
            Item::Library(offset, code) => self.take_library(offset, &code)?,
            Item::Aux(name, value) => {
                if name == b"used-mem"
                    && let Some(bytes) = ds::num::parse_i64(&value)
                {
                    self.target.shared.snapshots.progress.used_bytes.store(bytes as u64, Ordering::Relaxed);
                }
                if name == ROAMED_AUX.as_bytes() {
                    self.target.shared.scripts.roamed.restore(&value);
                }
                if name == STATE_AUX.as_bytes() {
                    self.found.superseded_aof = String::from_utf8(value.clone()).ok();
                }
                tracing::debug!("snapshot: {} {}", name.escape_ascii(), value.escape_ascii());
            }
            Item::Database(_) | Item::Sizes(..) | Item::Key(_) | Item::End => {}
        }
        Ok(())
    }

    /// Changes the libraries.
    pub(super) fn change(&mut self, change: Change, args: &[&[u8]]) -> Result<(), scripting::Failure> {
        let shared = self.target.shared;
        let memory_bytes_max = shared.settings.script_memory_bytes_max();
        let functions = self.functions.get_or_insert_with(|| FunctionEngine::new(memory_bytes_max));
        let mut loading = Loading::unlimited(&self.target.clock, &shared.scripts);
        change(args, &mut self.found.libraries, functions, &mut loading).map(|_| ())
    }

    fn take_library(&mut self, offset: u64, code: &[u8]) -> Result<(), rdb::Error> {
        let shared = self.target.shared;
        let memory_bytes_max = shared.settings.script_memory_bytes_max();
        let functions = self.functions.get_or_insert_with(|| FunctionEngine::new(memory_bytes_max));
        let mut loading = Loading::unlimited(&self.target.clock, &shared.scripts);
        match self.found.libraries.load(code, false, functions, &mut loading) {
            Ok(_) => Ok(()),
            Err(error) => Err(rdb::Error { offset, why: Why::Library(error.to_string()) }),
        }
    }
}

/// Puts `new` in the place of database `db` on shard `id`. Whoever watches a key of either is told, and whoever waits for a
/// key that is there now is to be served.
fn replace(tx: &mut Tx, id: ShardId, db: u32, new: Db) {
    let placement = tx.hold.shards().placement();
    let shard = tx.hold.shard_mut(id);
    let mut old = new;
    shard.dbs[db as usize].swap(&mut old);
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
    tx.is_unfinished |= !shard.ready.is_empty();
    tx.wrote = true;
    if !old.is_empty() || old.is_cut() {
        tx.posts.push(Post::Free(Garbage::Db(old)));
    }
}
