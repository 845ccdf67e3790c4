//! Loading what is on the disk, at the start or for `DEBUG RELOAD`, and putting it in its place.
//!
//! `persistence` reads all of it into databases of their own, which take their place in the shards when the end was reached: nothing is
//! ever half loaded. While a server that starts reads, its threads serve already, but only commands that need no data.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use command::{Garbage, Post, Tx};
use keyspace::{Db, Kind, UnixMs};
use persistence::{Choice, Import, Load, Names, Source, on_heap_to_serve};
use settings::{AOF_LOAD_TRUNCATED, PROTO_MAX_BULK_LEN, RDBCHECKSUM};
use shard::{Ready, ShardId};

use super::loaded::{Found, Loaded};
use super::roles::roles;
use crate::error::Error;
use crate::message::Message;
use crate::shared::Shared;
use crate::thread::Thread;

/// No argument that Redis takes by default is longer: files may have such, whatever is configured here.
const ARGUMENT_BYTES_MAX: i64 = 512 << 20;
/// How long it waits for the thread that puts data in their place before it looks whether the server was stopped.
const STOP_LOOK_MS: u64 = 1000;

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
        let (key_count, expired_count) = (loaded.data.key_count, loaded.data.expired_count);
        let (installed, is_installed) = mpsc::channel();
        loaded.installed = Some(installed);
        self.threads[0].send(Message::Loaded(Box::new(loaded)));
        // A thread that has ended does not take what is sent to it.
        while let Err(error) = is_installed.recv_timeout(Duration::from_millis(STOP_LOOK_MS)) {
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
        let names = self.snapshot_names();
        let (load, mut found) = (self.load(&names, loader_count), self.found());
        let (name, data) = match &choice.source {
            Source::Nothing => return Ok(None),
            Source::Snapshot => {
                let name = names.name_to_load();
                let now = self.machine.clock.now_ms() as UnixMs;
                let mut read = || load.snapshot(&name, now, &mut found);
                let serves = loader_count == 0 && !self.is_simulated();
                let data = if serves { on_heap_to_serve(read) } else { read() };
                (name, data?)
            }
            Source::AppendOnly(files) => {
                let import = Import {
                    files,
                    table: &self.table,
                    roles: &roles(&self.table),
                    argument_bytes_max: self.settings.number(PROTO_MAX_BULK_LEN).max(ARGUMENT_BYTES_MAX)
                        as u64,
                    may_be_torn: self.settings.is_on(AOF_LOAD_TRUNCATED),
                };
                (files.name(), load.append_only(&import, &mut found)?)
            }
        };
        let Some(mut data) = data else { return Ok(None) };
        if let Some(state) = data.superseded_aof.take() {
            self.snapshots.set_superseded_aof(Some(state));
        }
        let is_imported = matches!(choice.source, Source::AppendOnly(_));
        Ok(Some((name, Loaded { data, libraries: found.libraries, is_imported, installed: None })))
    }

    /// What a load is told that begins now.
    fn load<'a>(&'static self, names: &'a Names, thread_count: usize) -> Load<'a> {
        Load {
            names,
            placement: self.shards.placement(),
            db_count: self.settings.databases(),
            config: self.data_config(),
            has_checksum: self.settings.is_on(RDBCHECKSUM),
            clock: &self.machine.clock,
            progress: &self.snapshots.progress,
            is_stopped: &self.stopping,
            thread_count,
            tuning: self.machine.tuning.persistence,
        }
    }

    /// Where libraries go that are found.
    fn found(&self) -> Found<'_> {
        Found::new(&self.machine.clock, &self.scripts, self.settings.script_memory_bytes_max())
    }

    /// Reads the snapshot and puts what it holds in the place of everything on the shards, all of which are entered.
    pub(crate) fn reload(&'static self, tx: &mut Tx) -> Result<(), Error> {
        let names = self.snapshot_names();
        let name = names.name_to_load();
        let mut found = self.found();
        let data = self.load(&names, 0).snapshot(&name, tx.now, &mut found)?;
        let Some(data) = data else { return Ok(()) };
        let libraries = found.libraries;
        self.put_in_place(Loaded { data, libraries, is_imported: false, installed: None }, tx);
        self.snapshots.note_saved(self.changes());
        Ok(())
    }

    /// Puts what was read in the place of everything on the shards, all of which are entered.
    fn put_in_place(&self, loaded: Loaded, tx: &mut Tx) {
        let data = loaded.data;
        assert_eq!(data.dbs.len(), self.shards.len(), "it was read for these shards");
        for (id, dbs) in self.shards.ids().zip(data.dbs) {
            for (db, new) in (0..).zip(dbs) {
                replace(tx, id, db, new);
            }
        }
        self.scripts.libraries.set(loaded.libraries);
        self.snapshots.loaded_key_count.store(data.key_count, Ordering::Relaxed);
        self.snapshots.expired_key_count.store(data.expired_count, Ordering::Relaxed);
    }
}

impl Thread {
    /// Puts what was read at the start in its place, and serves all commands from now on.
    pub(crate) fn install(&mut self, mut loaded: Box<Loaded>) {
        let shared = self.host.shared;
        if !self.enters_all() {
            self.host.mailroom.put_off(Message::Loaded(loaded));
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
