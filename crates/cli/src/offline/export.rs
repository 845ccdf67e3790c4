//! `--export-aof`: writes an append-only file from which redis-server 7.0 and later start.
//!
//! The journal is recovered as at a start, into databases without clients, and these are saved as the base of an
//! append-only file: a snapshot in the format of Redis 7.0. The incremental file is empty. So Redis gets the data that
//! a start of Darter would have, whatever commands and encodings the journal contains. Data that Redis 7.0 cannot store
//! is counted and reported. Exporting takes as much memory as the data.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use config::Export;
use ds::hashing::Seed;
use engine::Table;
use journal::{End, Folder, Reading, Rest};
use keyspace::{Config, Db, Dbs, Marks, UnixMs, ValueRef};
use persistence::{
    FoundSlice, Load, Loaded, Names, Progress, Purpose, Recovery, Settings, SnapshotContent, Snapshots,
    Tuning, Usage, roles,
};
use proactor::Clock;
use rdb::{Encoder, Style};
use scripting::{FoundLibraries, Scripts, change_of};
use shard::Placement;

use crate::offline::error::Error;
use crate::offline::meter::Meter;
use crate::offline::{Program, in_new_folder, say};

const MANIFEST: &str = "appendonly.aof.manifest";
const BASE: &str = "appendonly.aof.1.base.rdb";
const INCREMENT: &str = "appendonly.aof.1.incr.aof";
/// A format that all versions of Redis from 7.0 on read.
const STYLE: Style = Style { compresses: true, version: rdb::VERSION, keeps_all: false };
/// The number of shards while the data is loaded.
const SHARDS: u16 = 64;
/// The default number of databases of redis-server.
const DATABASES_OF_REDIS: u32 = 16;
/// How often reading is tried again because the journal got another base meanwhile.
const TRIES_MAX: usize = 5;
/// How often progress is reported.
const LOOK: Duration = Duration::from_millis(200);

/// The data that a start would load.
struct Data {
    loaded: Loaded,
    libraries: Vec<Vec<u8>>,
    databases: u32,
    end: End,
    rest: Rest,
}

/// Counts the data that Redis cannot store.
#[derive(Default)]
struct Lost {
    expiring_fields: u64,
    expiring_members: u64,
    marked_keys: u64,
    sketches: u64,
}

/// Writes the files, and reports their content.
pub(crate) fn export(from: &Folder, export: &Export, program: &Program) -> Result<ExitCode, Error> {
    from.journal()?;
    let (data, bytes) = in_new_folder(from, export, |folder| {
        let clock = Clock::real();
        let data = load(from, export.until_unix_ms, &clock, program.table)?;
        let failed = |source| Error::Io { what: format!("cannot write to {}", folder.display()), source };
        let names = Names::new(from.disk(), &folder.display().to_string(), BASE);
        let bytes = save(&data, &names, &clock, program.redis_version).map_err(failed)?;
        names.disk().replace(&names.path(INCREMENT), b"").map_err(failed)?;
        let manifest = format!("file {BASE} seq 1 type b\nfile {INCREMENT} seq 1 type i\n");
        names.disk().replace(&names.path(MANIFEST), manifest.as_bytes()).map_err(failed)?;
        Ok((data, bytes))
    })?;
    tell(&data, bytes)?;
    let databases = match data.databases {
        count if count > DATABASES_OF_REDIS => format!(" --databases {count}"),
        _ => String::new(),
    };
    say(&format!("start it with: redis-server --appendonly yes --dir {}{databases}", export.to.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Recovers the journal. If it gets another base meanwhile, starts again from that one.
fn load(from: &Folder, until_unix_ms: Option<u64>, clock: &Clock, table: &Table) -> Result<Data, Error> {
    let mut tries = 1..TRIES_MAX;
    loop {
        let mut reading = Reading::begin(from, until_unix_ms)?;
        let loaded = load_once(from, &mut reading, clock, table);
        if loaded.is_ok() || tries.next().is_none() || !reading.is_outdated()? {
            return loaded;
        }
    }
}

fn load_once(from: &Folder, reading: &mut Reading, clock: &Clock, table: &Table) -> Result<Data, Error> {
    let manifest = reading.manifest().clone();
    let folder = from.path().display().to_string();
    let names = Names::new(from.disk(), &folder, "base");
    let of_data = [commands::FAMILIES, sketching::FAMILIES].concat();
    let roles = roles(table, &of_data, |name| change_of(name).is_some());
    let scripts = Scripts::new(1, |_, _| {});
    let mut found = FoundLibraries::new(clock, &scripts, usize::MAX);
    let (progress, is_stopped) = (Progress::default(), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let load = Load {
        names: &names,
        placement: &Placement::new(Seed::random(), SHARDS, None),
        db_count: manifest.databases,
        config: &Config::default(),
        queues: &Arc::default(),
        has_checksum: true,
        clock,
        progress: &progress,
        is_stopped: &is_stopped,
        thread_count: if threads > 1 { threads } else { 0 },
        memory_bytes_max: u64::MAX,
        tuning: Tuning::LARGE,
    };
    let recovery = Recovery {
        name: &folder,
        base: manifest.base.file.as_deref(),
        slice: manifest.base.slice,
        position: manifest.base.position,
        slice_bytes: 0,
        table,
        roles: &roles,
    };
    let mut next = || {
        let scanned = reading.next_slice().map_err(|error| error.to_string())?;
        Ok(scanned.map(|scanned| {
            let file = from.segment(manifest.id, scanned.segment).display().to_string();
            FoundSlice { slice: scanned.slice, unix_ms: scanned.unix_ms, file: file.into() }
        }))
    };
    progress.begin(clock.now_ms());
    let loaded = watched(&progress, clock, || load.journal(&recovery, &mut next, &mut found))?;
    let loaded = loaded.expect("nobody stops it");
    let libraries = found.libraries.iter().map(|library| library.code().to_vec()).collect();
    let (end, rest) = reading.end()?;
    Ok(Data { loaded, libraries, databases: manifest.databases, end, rest })
}

/// Runs `load`, and shows its progress.
fn watched<R>(progress: &Progress, clock: &Clock, load: impl FnOnce() -> R) -> R {
    std::thread::scope(|scope| {
        let (ended, end) = channel::<()>();
        scope.spawn(move || {
            let mut meter = Meter::new();
            while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if let Some(figures) = progress.figures(clock.now_ms()) {
                    meter.show(|| format!("{} of {} bytes", figures.loaded_bytes, figures.total_bytes));
                }
            }
            meter.end();
        });
        let done = load();
        drop(ended);
        done
    })
}

/// Saves the base; returns its length.
fn save(data: &Data, names: &Names, clock: &Clock, redis_version: &str) -> std::io::Result<u64> {
    let now_ms = clock.now_ms();
    let mut about = Encoder::of_chunks(STYLE);
    about.aux("redis-ver", redis_version.as_bytes())?;
    about.aux("redis-bits", b"64")?;
    about.aux("ctime", (now_ms / 1000).to_string().as_bytes())?;
    about.aux("used-mem", b"0")?;
    about.aux("aof-base", b"1")?;
    data.libraries.iter().try_for_each(|code| about.function(code))?;
    let content = SnapshotContent {
        shards: data.loaded.dbs.iter().map(|dbs| (0, dbs)).collect(),
        thread_count: 1,
        usage: Usage { is_idle_wanted: false, lfu: None, now: now_ms as UnixMs },
        about: about.finish()?,
    };
    let settings = Settings {
        purpose: Purpose::Snapshot,
        names: names.clone(),
        style: STYLE,
        has_own_format: false,
        has_checksum: true,
        begins_early: true,
    };
    let snapshots = Snapshots::new(clock.clone(), false, Tuning::LARGE);
    Ok(snapshots.save(settings, &content, 0, &|| false)?.bytes)
}

fn tell(data: &Data, bytes: u64) -> Result<(), Error> {
    let Data { loaded, libraries, end, rest, .. } = data;
    say(&format!(
        "exported: {} keys and {} libraries of functions, {bytes} bytes, up to slice {}",
        loaded.key_count,
        libraries.len(),
        end.place.last_slice()
    ))?;
    if rest.slices > 0 {
        say(&format!("left out: {rest}"))?;
    }
    let lost = lost(loaded.dbs.iter().flat_map(Dbs::iter).map(|(_, db)| db));
    if lost.expiring_fields > 0 {
        say(&format!(
            "left out: the expiry of {} fields of hashes, which Redis before 7.4 does not know; they stay for ever",
            lost.expiring_fields
        ))?;
    }
    if lost.expiring_members > 0 {
        say(&format!(
            "left out: the expiry of {} members of sets, which Redis before 8.12 does not know; they stay for ever",
            lost.expiring_members
        ))?;
    }
    if lost.marked_keys > 0 {
        say(&format!(
            "left out: the flags and cas numbers that memcached's clients gave to {} keys",
            lost.marked_keys
        ))?;
    }
    if lost.sketches > 0 {
        say(&format!("left out: {} sketches, which Redis does not know without a module", lost.sketches))?;
    }
    Ok(())
}

fn lost<'a>(dbs: impl Iterator<Item = &'a Db>) -> Lost {
    let mut lost = Lost::default();
    for record in dbs.flat_map(Db::iter) {
        lost.marked_keys += u64::from(record.marks() != Marks::default());
        lost.sketches += u64::from(matches!(record.value(), ValueRef::Sketch(_)));
        if let ValueRef::Hash(hash) = record.value()
            && hash.first_expiry().is_some()
        {
            lost.expiring_fields +=
                hash.iter().filter(|(field, _)| hash.expiry(field).is_some()).count() as u64;
        }
        if let ValueRef::Set(set) = record.value() {
            lost.expiring_members += set.expiries().count() as u64;
        }
    }
    lost
}
