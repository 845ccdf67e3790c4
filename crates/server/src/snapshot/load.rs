//! Reading the snapshot.
//!
//! All of it is read into databases of its own, which take their place in the shards when the end was reached and the
//! checksum is right: nothing is ever half loaded.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use command::{Garbage, Post, Task, Tx, Wait};
use commands::keys::encoded::Builder;
use ds::hashing::Seed;
use keyspace::{Config, Db, Kind, Record, UnixMs, access};
use proactor::Clock;
use rdb::{FileReader, Item, KeyItem, Why};
use script::{FunctionEngine, LibrarySet};
use shard::{Hold, Placement, Ready, ShardId};

use super::names;
use crate::error::Error;
use crate::library_store::Loading;
use crate::settings::RDBCHECKSUM;
use crate::shared::Shared;

/// Between two lines of the log about how far it is.
const PROGRESS_MS: u64 = 1000;

/// What was read.
pub(crate) struct Loaded {
    /// By shard, then by number.
    dbs: Vec<Vec<Db>>,
    libraries: LibrarySet,
    key_count: u64,
    expired_count: u64,
}

impl Shared {
    /// Loads the snapshot, if there is one, into the shards of a server that does not serve yet. False: the server was
    /// stopped meanwhile, and holds nothing.
    pub(crate) fn load_at_start(&'static self) -> Result<bool, Error> {
        names::remove_leftovers(&self.settings);
        let name = names::name_to_load(&self.settings);
        let clock = Clock::real();
        let started_ms = clock.monotonic_ms();
        let file = match File::open(names::path(&self.settings, &name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            opened => opened,
        };
        let now = clock.now_ms() as UnixMs;
        let Some(loaded) = self.read(&name, file, now)? else { return Ok(false) };
        let mut hold: Hold<'_, Task, Wait> = Hold::new(&self.shards);
        for (id, dbs) in self.shards.ids().zip(loaded.dbs) {
            assert!(hold.try_enter(id), "nobody else is there yet");
            hold.shard_mut(id).dbs = dbs.into();
            assert!(hold.leave_or_keep(id), "nobody else is there yet");
        }
        self.libraries.set(loaded.libraries);
        self.snapshots.note_loaded(loaded.key_count, loaded.expired_count);
        tracing::info!(
            "DB loaded from {name}: {} keys, {} expired ones left out, {} ms",
            loaded.key_count,
            loaded.expired_count,
            clock.monotonic_ms() - started_ms
        );
        Ok(true)
    }

    /// Reads the snapshot and puts what it holds in the place of everything on the shards, all of which are entered.
    pub(crate) fn reload(&'static self, tx: &mut Tx) -> Result<(), Error> {
        let name = names::name_to_load(&self.settings);
        let file = File::open(names::path(&self.settings, &name));
        let Some(loaded) = self.read(&name, file, tx.now)? else { return Ok(()) };
        self.snapshots.note_loaded(loaded.key_count, loaded.expired_count);
        for (id, dbs) in self.shards.ids().zip(loaded.dbs) {
            for (db, new) in (0..).zip(dbs) {
                replace(tx, id, db, new);
            }
        }
        self.libraries.set(loaded.libraries);
        self.snapshots.note_saved(self.changes(&tx.hold));
        Ok(())
    }

    /// What the snapshot holds at `now`; `None` if the server was stopped meanwhile.
    fn read(
        &'static self,
        name: &str,
        opened: io::Result<File>,
        now: UnixMs,
    ) -> Result<Option<Loaded>, Error> {
        let name = names::path(&self.settings, name).display().to_string();
        let error = |source: rdb::Error| Error::Snapshot { name: name.clone(), source };
        let file = opened.map_err(|cause| error(rdb::Error { offset: 0, why: cause.into() }))?;
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let seed = Arc::new(self.shards.placement().seed().clone());
        let mut reading = Reading {
            shared: self,
            functions: None,
            placement: self.shards.placement(),
            config: self.data_config(),
            now,
            db: 0,
            loaded: Loaded {
                dbs: self.shards.ids().map(|_| new_dbs(self.settings.databases(), &seed)).collect(),
                libraries: LibrarySet::default(),
                key_count: 0,
                expired_count: 0,
            },
        };
        let mut file = FileReader::new(file, self.settings.is_on(RDBCHECKSUM)).map_err(error)?;
        let clock = Clock::real();
        let next_ms = clock.monotonic_ms() + PROGRESS_MS;
        let mut progress = Progress { name: &name, bytes, clock, next_ms };
        loop {
            let item = file.next_item().map_err(error)?;
            if matches!(item, Item::End) {
                return Ok(Some(reading.loaded));
            }
            reading.take(item, &mut file).map_err(error)?;
            if self.stopping.load(Ordering::Acquire) {
                return Ok(None);
            }
            progress.look(file.offset(), reading.loaded.key_count);
        }
    }
}

impl super::Snapshots {
    fn note_loaded(&self, key_count: u64, expired_count: u64) {
        self.loaded_key_count.store(key_count, Ordering::Relaxed);
        self.expired_key_count.store(expired_count, Ordering::Relaxed);
    }
}

fn new_dbs(count: u32, seed: &Arc<Seed>) -> Vec<Db> {
    (0..count).map(|_| Db::new(Arc::clone(seed))).collect()
}

/// A file being read.
struct Reading<'a> {
    shared: &'a Shared,
    /// Loads libraries, which every thread then loads for itself.
    functions: Option<FunctionEngine>,
    placement: &'a Placement,
    config: &'a Config,
    now: UnixMs,
    /// The database of the keys that come.
    db: usize,
    loaded: Loaded,
}

impl Reading<'_> {
    /// Takes an item that was just read.
    fn take(&mut self, item: Item, file: &mut FileReader<File>) -> Result<(), rdb::Error> {
        match item {
            Item::Database(number) => {
                let count = self.loaded.dbs.first().map_or(0, Vec::len) as u64;
                if number >= count {
                    return Err(
                        file.corrupt(file.offset(), "more databases than the setting databases allows")
                    );
                }
                self.db = number as usize;
                Ok(())
            }
            Item::Key(key) => self.take_key(&key, file),
            Item::Library(offset, code) => self.take_library(offset, &code),
            Item::Aux(name, value) => {
                tracing::debug!("snapshot: {} {}", name.escape_ascii(), value.escape_ascii());
                Ok(())
            }
            Item::Sizes(..) | Item::End => Ok(()),
        }
    }

    fn take_library(&mut self, offset: u64, code: &[u8]) -> Result<(), rdb::Error> {
        let memory_bytes_max = self.shared.settings.script_memory_bytes_max();
        let functions = self.functions.get_or_insert_with(|| FunctionEngine::new(memory_bytes_max));
        let clock = Clock::real();
        let mut loading = Loading::unlimited(&clock, self.shared);
        match self.loaded.libraries.load(code, false, functions, &mut loading) {
            Ok(_) => Ok(()),
            Err(error) => Err(rdb::Error { offset, why: Why::Library(error.to_string()) }),
        }
    }

    fn take_key(&mut self, item: &KeyItem, file: &mut FileReader<File>) -> Result<(), rdb::Error> {
        let mut builder = Builder::new(item.value_type.kind(), self.config);
        file.value(item.value_type, &mut |part| builder.add(part))?;
        // Redis could write collections without elements, and leaves them out, too.
        let Some(value) = builder.finish() else { return Ok(()) };
        if item.expiry_ms.is_some_and(|expiry| expiry < self.now) || value.lend().is_due(self.now) {
            self.loaded.expired_count += 1;
            return Ok(());
        }
        let (shard, hash) = self.placement.locate(&item.key);
        let db = &mut self.loaded.dbs[shard.index()][self.db];
        db.note_volatile_fields(&value);
        let (mut record, is_new) = db.find_or_insert(hash, &item.key, |key| Record::new(key, value));
        if !is_new {
            return Err(file.corrupt(item.offset, "a key is there twice"));
        }
        record.set_access(access::restored(self.config.lfu, self.now, item.idle_seconds, item.frequency));
        if item.expiry_ms.is_some() {
            db.set_expiry(hash, &item.key, item.expiry_ms);
        }
        self.loaded.key_count += 1;
        Ok(())
    }
}

/// Says in the log how far the reading is, where it takes longer.
struct Progress<'a> {
    name: &'a str,
    bytes: u64,
    clock: Clock,
    next_ms: u64,
}

impl Progress<'_> {
    /// Looks at the clock when so much was read.
    fn look(&mut self, offset: u64, key_count: u64) {
        let now_ms = self.clock.monotonic_ms();
        if now_ms >= self.next_ms {
            self.next_ms = now_ms + PROGRESS_MS;
            let percent = offset * 100 / self.bytes.max(1);
            tracing::info!("loading {}: {percent} %, {key_count} keys", self.name);
        }
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
    if !old.is_empty() {
        tx.posts.push(Post::Free(Garbage::Db(old)));
    }
}
