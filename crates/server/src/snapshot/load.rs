//! Loads the files on the disk, at the start or for `DEBUG RELOAD`, and puts the data in place.
//!
//! `persistence` reads everything into separate databases, which replace those in the shards at the end, so data are
//! never half loaded. While a starting server reads, its threads already serve commands that need no data.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use config::{AOF_LOAD_TRUNCATED, APPENDONLY, PROTO_MAX_BULK_LEN, RDBCHECKSUM, Settings};
use engine::Table;
use journal::Data;
use keyspace::queue::Known;
use keyspace::{Config, UnixMs};
use persistence::{
    Choice, DataSource, Import, Load, Names, Progress, Recovery, Snapshots, names, on_heap_to_serve,
};
use proactor::Clock;
use replication::log::{Opening, ServerLog, Slices, Tuning};
use replication::{Following, Primary};
use scripting::{FoundLibraries, Scripts};
use shard::Placement;

use super::loaded::Loaded;
use crate::error::Error;
use crate::message::Message;
use crate::messages::Remote;
use crate::shared::Shared;

/// The longest argument that Redis accepts by default. Files may contain such arguments, whatever is configured here.
const ARGUMENT_BYTES_MAX: i64 = 512 << 20;
/// The time that it waits for data to be put in place before it checks whether the server was stopped.
const STOP_LOOK_MS: u64 = 1000;

/// The progress of loading at the start, in words.
pub(crate) fn loading_progress(snapshots: &Snapshots, clock: &Clock) -> String {
    let figures = snapshots.progress.figures(clock.now_ms());
    figures.map_or_else(String::new, |figures| {
        format!("Loading, {:.0} % of {} bytes", figures.percent, figures.total_bytes)
    })
}

/// The parameters of loading, from a server.
pub(crate) struct Loader<'s> {
    names: Names,
    settings: &'s Settings,
    config: Arc<Config>,
    table: &'s Table,
    placement: &'s Placement,
    queues: &'s Arc<Known>,
    clock: &'s Clock,
    scripts: &'s Scripts,
    snapshots: &'s Snapshots,
    /// Whether the server was stopped.
    is_stopped: &'s AtomicBool,
    /// Whether the threads are steps of a simulation.
    is_simulated: bool,
    tuning: Tuning,
    /// The journal that the settings ask for.
    opening: Option<Opening>,
    /// The id of a new journal.
    journal_id: u64,
    /// The id of the stream, and whether it is another server's.
    primary: &'s Primary,
    following: &'s Following,
}

impl<'s> Loader<'s> {
    /// Creates the loader of this server.
    pub(crate) fn of(shared: &'static Shared) -> Loader<'s> {
        Loader {
            names: names(&shared.settings, &shared.machine.disk),
            settings: &shared.settings,
            config: shared.data_config.get(),
            table: &shared.table,
            placement: shared.shards.placement(),
            queues: shared.shards.queues(),
            clock: &shared.machine.clock,
            scripts: &shared.scripts,
            snapshots: &shared.snapshots,
            is_stopped: &shared.stopping,
            is_simulated: shared.is_simulated(),
            tuning: shared.machine.tuning,
            opening: None,
            journal_id: shared.journal.next_id(),
            primary: &shared.primary,
            following: &shared.following,
        }
    }

    /// Prepares to load the choice. If there is data to load, the server is loading from here. The journal of an empty
    /// server is opened at once.
    pub(crate) fn begin(&mut self, choice: &Choice, journal: &ServerLog) -> Result<(), Error> {
        if self.settings.is_on(APPENDONLY) {
            self.opening = Some(Opening::new(self.settings, self.names.disk(), self.tuning.journal)?);
        }
        if !choice.has_data()
            && let Some(opening) = &self.opening
        {
            let stream = Some(self.primary.history().id);
            journal.start(opening.create(self.settings, stream, self.journal_id, Data::None)?);
        }
        self.names.remove_leftovers();
        self.snapshots.set_superseded_aof(choice.superseded.clone());
        if choice.has_data() {
            self.snapshots.progress.begin(self.clock.now_ms());
        }
        Ok(())
    }

    /// Loads the choice while `threads` serve. The first of them puts it in place. Returns false if the server was
    /// stopped; then it has no data.
    pub(crate) fn load_for(&self, threads: &[Remote], choice: &Choice) -> Result<bool, Error> {
        if !choice.has_data() {
            return Ok(true);
        }
        let started_ms = self.clock.monotonic_ms();
        let loader_count = if threads.len() > 1 { threads.len() } else { 0 };
        let Some((name, mut loaded)) = self.read(choice, loader_count)? else { return Ok(false) };
        let (key_count, expired_count) = (loaded.data.key_count, loaded.data.expired_count);
        let (installed, is_installed) = mpsc::channel();
        loaded.installed = Some(installed);
        threads[0].send(Message::Loaded(Box::new(loaded)));
        // A thread that has ended does not handle its messages.
        while let Err(error) = is_installed.recv_timeout(Duration::from_millis(STOP_LOOK_MS)) {
            if error == RecvTimeoutError::Disconnected || self.is_stopped.load(Ordering::Acquire) {
                return Ok(false);
            }
        }
        tracing::info!(
            "DB loaded from {name}: {key_count} keys, {expired_count} expired keys skipped, {} ms",
            self.clock.monotonic_ms() - started_ms
        );
        Ok(true)
    }

    /// Loads the choice in a simulation: it is read at once, and `first` puts it in place in one of its turns.
    pub(crate) fn load_simulated(&self, first: &Remote, choice: &Choice) -> Result<(), Error> {
        if let Some((_, loaded)) = self.read(choice, 0)? {
            first.send(Message::Loaded(Box::new(loaded)));
        }
        Ok(())
    }

    /// The snapshot, to replace the data of a running server. `None` if there is none.
    pub(crate) fn read_snapshot(&self, now: UnixMs) -> Result<Option<Loaded>, Error> {
        let mut found = self.found();
        let data = self.load(0).snapshot(&self.names.name_to_load(), now, &mut found)?;
        let libraries = found.libraries;
        Ok(data.map(|data| Loaded { data, libraries, is_imported: false, journal: None, installed: None }))
    }

    /// The content of the file `name`, with which a primary's stream begins.
    pub(crate) fn read_beginning(&self, name: &str) -> Result<Loaded, Error> {
        let (mut found, progress) = (self.found(), Progress::default());
        // The present data stay until the new ones are read, and longer if those do not fit.
        let memory_bytes_max = process::system::memory_bytes_max();
        let mut read =
            || Load { progress: &progress, memory_bytes_max, ..self.load(0) }.beginning(name, &mut found);
        let data = if self.is_simulated { read() } else { on_heap_to_serve(read) };
        let data = data?.ok_or_else(|| Error::Io {
            what: "cannot load a snapshot".to_owned(),
            source: std::io::Error::other("the server ends"),
        })?;
        let libraries = found.libraries;
        Ok(Loaded { data, libraries, is_imported: false, journal: None, installed: None })
    }

    /// The choice and its name. `None` if there is nothing, or if the server was stopped.
    fn read(&self, choice: &Choice, loader_count: usize) -> Result<Option<(String, Loaded)>, Error> {
        let (load, mut found) = (self.load(loader_count), self.found());
        let mut journal = None;
        let (name, data) = match &choice.source {
            DataSource::Nothing => return Ok(None),
            DataSource::Snapshot => {
                let name = self.names.name_to_load();
                let now = self.clock.now_ms() as UnixMs;
                let mut read = || match self.following.is_replica() {
                    // The primary's stream deletes expired keys.
                    true => load.beginning(&name, &mut found),
                    false => load.snapshot(&name, now, &mut found),
                };
                let serves = loader_count == 0 && !self.is_simulated;
                let data = if serves { on_heap_to_serve(read) } else { read() };
                (name, data?)
            }
            DataSource::AppendOnly(files) => {
                let import = Import {
                    files,
                    table: self.table,
                    roles: &crate::commands::roles(self.table),
                    argument_bytes_max: self.settings.number(PROTO_MAX_BULK_LEN).max(ARGUMENT_BYTES_MAX)
                        as u64,
                    may_be_torn: self.settings.is_on(AOF_LOAD_TRUNCATED),
                };
                (files.name(), load.append_only(&import, &mut found)?)
            }
            DataSource::Journal => {
                let opening = self.opening.as_ref().expect("it is chosen where it is wanted");
                Self::journal_names(opening).remove_leftovers();
                let (mut data, slices) = self.recover(opening, load, &mut found)?;
                if let Some(data) = &mut data {
                    let (role, end) = ((self.primary, self.following), slices.end()?);
                    // As with a snapshot, if the journal is only read.
                    data.stream = end.stream.map(|id| (id, end.place.position));
                    journal = Some(opening.resume(self.settings, role, &end, data.stream_db)?);
                }
                (opening.folder.path().display().to_string(), data)
            }
        };
        let Some(mut data) = data else { return Ok(None) };
        if let Some(state) = data.superseded_aof.take() {
            self.snapshots.set_superseded_aof(Some(state));
        }
        let is_imported = matches!(choice.source, DataSource::AppendOnly(_));
        if let Some(opening) = self.opening.as_ref().filter(|_| journal.is_none()) {
            let stream = Some(self.primary.history().id);
            journal = Some(opening.create(self.settings, stream, self.journal_id, Data::Coming)?);
        }
        Ok(Some((name, Loaded { data, libraries: found.libraries, is_imported, journal, installed: None })))
    }

    /// The content of the open journal, to replace the data of a running server. All of it is durable.
    pub(crate) fn read_journal(&self, opening: &Opening) -> Result<Option<Loaded>, Error> {
        let mut found = self.found();
        let (data, slices) = self.recover(opening, self.load(0), &mut found)?;
        slices.end()?;
        let libraries = found.libraries;
        Ok(data.map(|data| Loaded { data, libraries, is_imported: false, journal: None, installed: None }))
    }

    fn journal_names(opening: &Opening) -> Names {
        Names::new(opening.folder.disk(), &opening.folder.path().display().to_string(), "base")
    }

    /// The content of the journal, and the reader at its end. No data if the server was stopped.
    fn recover(
        &self,
        opening: &Opening,
        load: Load<'_>,
        found: &mut FoundLibraries<'_>,
    ) -> Result<(Option<persistence::Loaded>, Slices), Error> {
        let manifest = opening.manifest.as_ref().expect("it is chosen if it is there");
        let folder = opening.folder.path().display().to_string();
        let names = Self::journal_names(opening);
        // The journal uses the names with which commands were declared.
        let table = crate::commands::table();
        let mut slices = opening.scan(manifest)?;
        let recovery = Recovery {
            name: &folder,
            base: manifest.base.file.as_deref(),
            slice: manifest.base.slice,
            position: manifest.base.position,
            slice_bytes: opening.slice_bytes(),
            table: &table,
            roles: &crate::commands::roles(&table),
        };
        let data = Load { names: &names, ..load }.journal(&recovery, &mut || slices.next_slice(), found)?;
        Ok((data, slices))
    }

    /// The parameters of a load that begins now.
    fn load(&self, thread_count: usize) -> Load<'_> {
        Load {
            names: &self.names,
            placement: self.placement,
            db_count: self.settings.databases(),
            config: &self.config,
            queues: self.queues,
            has_checksum: self.settings.is_on(RDBCHECKSUM),
            clock: self.clock,
            progress: &self.snapshots.progress,
            is_stopped: self.is_stopped,
            thread_count,
            memory_bytes_max: u64::MAX,
            tuning: self.tuning.persistence,
        }
    }

    /// The receiver of loaded libraries.
    fn found(&self) -> FoundLibraries<'_> {
        let (bytes_max, version) =
            (self.settings.script_memory_bytes_max(), self.settings.redis_version_number());
        FoundLibraries::new(self.clock, self.scripts, bytes_max, version)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use ds::hashing::Seed;
    use proactor::{SimDisk, Waker};

    use super::*;
    use crate::tests::settings;
    use persistence::choose;

    const AOF: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*3\r\n$5\r\nRPUSH\r\n$1\r\nb\r\n$1\r\n2\r\n\
        *3\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD\r\n$66\r\n#!lua name=l\nredis.register_function('f', function() return 1 end)\r\n";

    /// Loads a disk with these files, and checks the number of keys and of libraries, and whether the data are
    /// imported.
    fn check(files: &[(&str, &[u8])], expected: Option<(u64, usize, bool)>) {
        let disk = SimDisk::new(1).disk();
        for (name, bytes) in files {
            disk.replace(&Path::new(".").join(name), bytes).expect("there is room");
        }
        let settings = settings(&["--import-aof", if files.is_empty() { "no" } else { "yes" }]);
        let clock = Clock::real();
        let snapshots = Snapshots::new(clock.clone(), true, Tuning::BUILT.persistence);
        let mut loader = Loader {
            names: names(&settings, &disk),
            config: Arc::new(settings.data_config()),
            settings: &settings,
            table: &crate::commands::table(),
            placement: &Placement::new(Seed::new(1), 4, None),
            queues: &Arc::default(),
            clock: &clock,
            scripts: &Scripts::new(1, |_, _| {}),
            snapshots: &snapshots,
            is_stopped: &AtomicBool::new(false),
            is_simulated: true,
            tuning: Tuning::BUILT,
            opening: None,
            journal_id: 1,
            primary: &Primary::new([b'a'; 40]),
            following: &Following::default(),
        };
        let choice = choose(&settings, &disk).expect("it is clear what is to be loaded");
        let journal = ServerLog::new(Vec::new(), &clock, &settings, 1, true);
        loader.begin(&choice, &journal).expect("no journal is wanted");
        assert_eq!(snapshots.progress.is_loading(), expected.is_some());
        let loaded = loader.read(&choice, 0).expect("it can be read");
        let figures =
            loaded.map(|(_, loaded)| (loaded.data.key_count, loaded.libraries.len(), loaded.is_imported));
        assert_eq!(figures, expected);
        let first = Remote::new(Arc::new(Waker::without_bell()));
        loader.load_simulated(&first, &choice).expect("it could be read before");
        assert_eq!(first.has_messages(), expected.is_some());
    }

    #[test]
    fn what_is_on_the_disk_goes_to_the_first_thread() {
        check(&[], None);
        check(&[("appendonly.aof", AOF)], Some((2, 1, true)));
    }
}
