//! Snapshots that replicas read while they are written: readers of any pace, no readers, and everything that
//! can go wrong, on the disk of this machine and on a simulated one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use ds::hashing::Seed;
use engine::{Client, Command, Local};
use keyspace::{Config, Dbs};
use persistence::{
    Extras, Load, Names, Progress, Purpose, Saving, Scribe, Settings, SnapshotContent, Snapshots, Spool,
    SpoolProgress, SpoolState, Tuning, Usage, Writer, WriterStep,
};
use proactor::{Clock, Disk, Fault, Open, SimConfig, SimDisk, SimNet};
use rdb::{Encoder, Style};
use resp::Proto;
use scratch::Scratch;
use shard::Placement;

const DB_COUNT: u32 = 16;
const STYLE: Style = Style { compresses: false, version: 10, keeps_all: true };
/// Operations of the disk that a spool of the test's data needs at most.
const OPERATIONS_MAX: u64 = 1_000;

/// Keys with their databases, and for each its value, encoded, and its expiry.
type Keys = BTreeMap<(usize, Vec<u8>), (Vec<u8>, Option<i64>)>;

/// A directory, data, and the state of snapshots that a server would have.
struct World {
    names: Names,
    clock: Clock,
    local: Local,
    snapshots: &'static Snapshots,
    /// On the disk of this machine, to be removed.
    scratch: Option<Scratch>,
}

/// A save that has begun, and its writer.
struct Begun {
    saving: Arc<Saving>,
    writer: Writer,
}

impl World {
    fn new(disk: &Disk, folder: &Path) -> World {
        let clock = SimNet::new(1, SimConfig::default()).clock();
        let snapshots = Box::leak(Box::new(Snapshots::new(clock.clone(), true, Tuning::SMALL)));
        let names = Names::new(disk, folder.to_str().expect("a readable path"), "dump.rdb");
        let mut local = Local::new(commands::FAMILIES);
        for number in 0..300 {
            local.line(&format!("SET key:{number} {number}{}", "-".repeat(500)));
            local.line(&format!("RPUSH large {number}"));
            local.line(&format!("HSET hash:{} field:{number} {number}", number % 7));
            local.line(&format!("ZADD zset {number} member:{number}"));
        }
        local.line("SETRANGE long 70000 x");
        local.line("PEXPIREAT key:1 5000000000000");
        local.line("COPY zset zset DB 3");
        World { names, clock, local, snapshots, scratch: None }
    }

    fn simulated() -> (World, SimDisk) {
        let disk = SimDisk::new(1);
        (World::new(&disk.disk(), Path::new(".")), disk)
    }

    /// In a new folder of this machine.
    fn real(name: &str) -> World {
        let scratch = Scratch::new(name);
        let mut world = World::new(&Disk::real(), scratch.folder());
        world.scratch = Some(scratch);
        world
    }

    fn files(&self) -> Vec<String> {
        let files = self.names.disk().list(self.names.path("x").parent().expect("a folder"));
        let mut files: Vec<String> = files
            .expect("there is a folder")
            .into_iter()
            .map(|name| name.into_string().expect("a readable name"))
            .collect();
        files.sort();
        files
    }

    /// Begins to save the current data.
    fn begin(&mut self, purpose: Purpose) -> (Begun, Option<Arc<Spool>>) {
        let (names, snapshots) = (self.names.clone(), self.snapshots);
        let settings = Settings {
            purpose,
            names,
            style: STYLE,
            has_own_format: false,
            has_checksum: true,
            begins_early: false,
        };
        self.local.with_store(Client::internal(0, Proto::Resp2), |store| {
            let hold = &mut store.tx.hold;
            let ids: Vec<_> = hold.shards().ids().collect();
            let mut about = Encoder::of_chunks(STYLE);
            about.aux("something", b"else").expect("memory takes all");
            let content = SnapshotContent {
                shards: ids.iter().map(|id| (0, &hold.shard(*id).dbs)).collect(),
                thread_count: 1,
                usage: Usage { is_idle_wanted: false, lfu: None, now: 0 },
                about: about.finish().expect("memory takes all"),
            };
            let tell = Box::new(|| ());
            let (saving, writer, spool) = if purpose == Purpose::Replicas {
                let begun = snapshots.begin_spool(settings, &content, tell).expect("memory takes all");
                (begun.0, begun.1, Some(begun.2))
            } else {
                let begun = snapshots.begin(settings, &content, 0, tell).expect("memory takes all");
                (begun.0, begun.1, None)
            };
            for id in ids {
                for (number, db) in hold.shard_mut(id).dbs.iter_mut() {
                    db.begin_cut(Box::new(Scribe::new(&saving, number, 0)));
                }
            }
            snapshots.began(&saving);
            saving.close_one();
            (Begun { saving, writer }, spool)
        })
    }

    fn spool(&mut self) -> (Begun, Arc<Spool>) {
        let (begun, spool) = self.begin(Purpose::Replicas);
        (begun, spool.expect("it is for replicas"))
    }

    /// Continues the cut, and lets the writer write some of it; true if both are done.
    fn step(&mut self, begun: &mut Begun) -> bool {
        self.local.with_store(Client::internal(0, Proto::Resp2), |store| {
            for id in store.tx.hold.shards().ids() {
                for (_, db) in store.tx.hold.shard_mut(id).dbs.iter_mut() {
                    let mut records = 4;
                    db.continue_cut(&mut || {
                        records -= 1;
                        records > 0
                    });
                }
            }
        });
        (0..3).any(|_| begun.writer.step() == WriterStep::Ended)
    }

    fn finish(&mut self, begun: &mut Begun) {
        while !self.step(begun) {}
        assert!(self.snapshots.current().is_none());
    }

    fn keys(&mut self) -> Keys {
        let mut keys = Keys::new();
        self.local.with_store(Client::internal(0, Proto::Resp2), |store| {
            for id in store.tx.hold.shards().ids() {
                add_keys(&store.tx.hold.shard(id).dbs, &mut keys);
            }
        });
        keys
    }

    /// The keys of a server that loads these bytes.
    fn loaded(&self, bytes: &[u8]) -> Keys {
        let name = "transferred.rdb";
        let path = self.names.path(name);
        let file = self.names.disk().open(&path, Open::Empty).expect("a new file");
        file.write_all_at(0, bytes).expect("the disk has room");
        let load = Load {
            names: &self.names,
            placement: &Placement::new(Seed::random(), 3, None),
            db_count: DB_COUNT,
            config: &Config::default(),
            queues: &Arc::default(),
            has_checksum: true,
            clock: &self.clock,
            progress: &Progress::default(),
            is_stopped: &AtomicBool::new(false),
            thread_count: 0,
            memory_bytes_max: u64::MAX,
            tuning: Tuning::SMALL,
        };
        let loaded = load.snapshot(name, 0, &mut Nothing).expect("it is right").expect("nobody stopped it");
        self.names.disk().remove(&path).expect("it was just written");
        let mut keys = Keys::new();
        loaded.dbs.iter().for_each(|dbs| add_keys(dbs, &mut keys));
        keys
    }
}

fn add_keys(dbs: &Dbs, keys: &mut Keys) {
    for (number, db) in dbs.iter() {
        for record in db.iter() {
            let mut value = Encoder::of_chunks(STYLE);
            engine::dump::write(record.value(), &mut value).expect("memory takes all");
            let value = value.finish().expect("memory takes all");
            keys.insert((number as usize, record.key().to_vec()), (value, record.expiry()));
        }
    }
}

struct Nothing;

impl Extras for Nothing {
    fn field(&mut self, _: &[u8], _: &[u8]) {}

    fn library(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn change_libraries(&mut self, _: &Command, _: &[&[u8]]) -> Result<(), String> {
        Ok(())
    }
}

/// A replica that reads a spool.
struct Reader {
    spool: Arc<Spool>,
    bytes: Vec<u8>,
}

impl Reader {
    fn new(spool: &Arc<Spool>) -> Reader {
        Reader { spool: Arc::clone(spool), bytes: Vec::new() }
    }

    /// Reads at most `bytes_max` bytes.
    fn read(&mut self, bytes_max: usize) {
        let mut buffer = vec![0; bytes_max];
        let read = self.spool.read_at(self.bytes.len() as u64, &mut buffer).expect("the file is there");
        self.bytes.extend_from_slice(&buffer[..read.unwrap_or(0)]);
    }

    /// Reads all that there is.
    fn read_all(&mut self) -> SpoolProgress {
        let progress = self.spool.progress();
        while (self.bytes.len() as u64) < progress.bytes {
            self.read(10_000);
        }
        progress
    }
}

fn state(spool: &Spool) -> SpoolState {
    spool.progress().state
}

#[test]
fn readers_of_any_pace_read_the_cut() {
    for mut world in [World::simulated().0, World::real("pace")] {
        let at_cut = world.keys();
        let (mut begun, spool) = world.spool();
        let [mut eager, mut slow, mut stopped] = [0; 3].map(|_| Reader::new(&spool));
        let mut number = 0;
        loop {
            for line in [
                format!("SET key:{number} new"),
                format!("DEL key:{}", 299 - number),
                format!("SET other:{number} new"),
                "RPUSH large more".to_owned(),
                "ZPOPMIN zset".to_owned(),
                "SETRANGE long 5 y".to_owned(),
            ] {
                world.local.line(&line);
            }
            number += 1;
            let is_over = world.step(&mut begun);
            let progress = eager.read_all();
            assert_eq!(progress.bytes, eager.bytes.len() as u64, "there is no more than one may read");
            slow.read(7);
            assert_eq!(world.files(), [""; 0], "the file has a name");
            if is_over {
                break;
            }
            assert_eq!(progress.state, SpoolState::Writing);
        }
        assert!(world.keys() != at_cut, "nothing has changed");
        let progress = spool.progress();
        assert_eq!(progress, SpoolProgress { bytes: eager.bytes.len() as u64, state: SpoolState::Complete });
        assert!(slow.bytes.len() < eager.bytes.len() && stopped.bytes.is_empty());
        assert_eq!(spool.read_at(progress.bytes, &mut [0; 10]).expect("nothing is read"), Some(0));
        // Another save continues while readers still read this one.
        let (mut other, _) = world.begin(Purpose::Snapshot);
        while !world.step(&mut other) {
            slow.read(100);
        }
        slow.read_all();
        stopped.read_all();
        assert!(slow.bytes == eager.bytes && stopped.bytes == eager.bytes, "they read the same");
        assert!(world.loaded(&eager.bytes) == at_cut, "it is another than the data at the cut");
    }
}

#[test]
fn what_is_read_is_what_would_be_saved() {
    let (mut world, _) = World::simulated();
    let (mut begun, _) = world.begin(Purpose::Snapshot);
    world.finish(&mut begun);
    let saved = world.names.disk().read(&world.names.path("dump.rdb")).expect("it was saved");
    let (mut begun, spool) = world.spool();
    world.finish(&mut begun);
    let mut reader = Reader::new(&spool);
    reader.read_all();
    assert!(reader.bytes == saved, "{} bytes, {} were saved", reader.bytes.len(), saved.len());
    assert_eq!(world.files(), ["dump.rdb"]);
    // It counts as under way, and not as a save.
    let snapshots = world.snapshots;
    assert_eq!((snapshots.save_count.load(Relaxed), snapshots.last_failed.load(Relaxed)), (1, false));
}

#[test]
fn readers_are_woken_now_and_then_and_at_the_end() {
    let (mut world, _) = World::simulated();
    let (mut begun, spool) = world.spool();
    let woken = Arc::new(AtomicU64::new(0));
    let wake = |woken: &Arc<AtomicU64>| {
        let woken = Arc::clone(woken);
        Box::new(move || _ = woken.fetch_add(1, Relaxed))
    };
    spool.on_progress(wake(&woken));
    world.finish(&mut begun);
    let (count, bytes) = (woken.load(Relaxed), spool.progress().bytes);
    assert!((2..=bytes / (64 * 1024) + 1).contains(&count), "{count} times for {bytes} bytes");
    let late = Arc::new(AtomicU64::new(0));
    spool.on_progress(wake(&late));
    assert_eq!((woken.load(Relaxed), late.load(Relaxed)), (count, 1), "it is over");
}

#[test]
fn a_reader_that_never_reads_holds_nobody_up() {
    let (mut world, _) = World::simulated();
    let (mut begun, spool) = world.spool();
    world.finish(&mut begun);
    assert_eq!(state(&spool), SpoolState::Complete);
    let (peak, bytes) = (begun.saving.peak_bytes.load(Relaxed) as u64, spool.progress().bytes);
    assert!(peak < bytes / 2, "{peak} of {bytes} bytes waited in memory");
}

#[test]
fn what_nobody_reads_any_more_is_given_up() {
    for steps in [0, 1, 5] {
        let (mut world, disk) = World::simulated();
        let (mut begun, spool) = world.spool();
        for _ in 0..steps {
            assert!(!world.step(&mut begun));
        }
        assert!(state(&spool) == SpoolState::Writing);
        drop(spool);
        let (before, records) = (disk.operations(), begun.saving.keys_done.load(Relaxed));
        world.finish(&mut begun);
        assert_eq!(disk.operations(), before, "it is written to the end");
        assert!(records < begun.saving.key_count);
        assert_eq!(world.files(), [""; 0]);
        assert!(!world.snapshots.last_failed.load(Relaxed));
    }
}

#[test]
fn readers_may_go_at_any_moment() {
    let mut given_up = 0;
    for count in 1..OPERATIONS_MAX {
        let (mut world, disk) = World::simulated();
        let (mut begun, spool) = world.spool();
        let (spool, operations) = (Mutex::new(Some(spool)), AtomicU64::new(0));
        let left = Arc::new((spool, operations));
        let seen = Arc::clone(&left);
        disk.on_operation(move |_| {
            if seen.1.fetch_add(1, Relaxed) + 1 == count {
                seen.0.lock().expect("nobody panics").take();
            }
            false
        });
        world.finish(&mut begun);
        assert_eq!(world.files(), [""; 0]);
        assert!(!world.snapshots.last_failed.load(Relaxed));
        if let Some(spool) = left.0.lock().expect("nobody panics").take() {
            assert_eq!(state(&spool), SpoolState::Complete);
            break;
        }
        let after = left.1.load(Relaxed) - count;
        assert!(after <= 1, "{after} operations after the {count}th, in which the last reader went");
        given_up += 1;
    }
    assert!((10..OPERATIONS_MAX - 1).contains(&given_up), "{given_up}");
}

#[test]
fn nothing_of_it_waits_for_the_disk() {
    let (mut world, disk) = World::simulated();
    disk.plan(0, Fault::SyncError);
    let (mut begun, spool) = world.spool();
    world.finish(&mut begun);
    assert_eq!((state(&spool), disk.planned()), (SpoolState::Complete, 1), "it was synced");
}

#[test]
fn whatever_fails_ends_it_and_nothing_else() {
    for fault in [Fault::WriteError, Fault::NoRoom] {
        let mut failed = 0;
        for spared in 0..OPERATIONS_MAX {
            let (mut world, disk) = World::simulated();
            disk.plan(spared, fault);
            let (mut begun, spool) = world.spool();
            let mut reader = Reader::new(&spool);
            world.finish(&mut begun);
            assert_eq!(world.files(), [""; 0], "{fault:?} after {spared}");
            let was_hit = disk.planned() == 0;
            let expected = if was_hit { SpoolState::Failed } else { SpoolState::Complete };
            assert_eq!(reader.read_all().state, expected, "{fault:?} after {spared}");
            assert!(!world.snapshots.last_failed.load(Relaxed), "no save failed");
            let (mut begun, _) = world.begin(Purpose::Snapshot);
            disk.heal();
            world.finish(&mut begun);
            assert_eq!(world.files(), ["dump.rdb"]);
            if !was_hit {
                break;
            }
            failed += 1;
        }
        assert!((3..OPERATIONS_MAX).contains(&failed), "{fault:?} hit {failed} times");
    }
}

#[test]
fn one_that_is_cut_short_has_failed() {
    // As the server ends, for a save that needs the room, and with its writer.
    for way in 0..3 {
        let (mut world, _) = World::simulated();
        let (mut begun, spool) = world.spool();
        for _ in 0..3 {
            assert!(!world.step(&mut begun));
        }
        match way {
            0 => {
                world.snapshots.end_writer();
                while begun.writer.step() != WriterStep::Ended {}
            }
            1 => {
                world.snapshots.give_up_spool("the room is needed");
                world.finish(&mut begun);
            }
            _ => drop(begun),
        }
        assert_eq!(state(&spool), SpoolState::Failed);
        assert_eq!(world.files(), [""; 0]);
    }
}

#[test]
fn only_what_is_for_replicas_is_given_up_for_its_room() {
    let (mut world, _) = World::simulated();
    let (mut begun, _) = world.begin(Purpose::Snapshot);
    world.snapshots.give_up_spool("the room is needed");
    world.finish(&mut begun);
    assert_eq!(world.files(), ["dump.rdb"]);
}
