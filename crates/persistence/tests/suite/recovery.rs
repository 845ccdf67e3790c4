//! Recovery without a server: random effects, cut into slices, become the original data again, whether one
//! thread applies them or several do. Faults of slices are found, and reported in one line.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use commands::keys::digest::{Digest, digest};
use ds::hashing::Seed;
use ds::random::Random;
use effectlog::{Lsn, Slice, StreamPosition};
use engine::{Client, Command, Entry, Local, OwnedEffect, Rule, Run, Shards, Store, Table, Tx};
use keyspace::{Config, Dbs};
use persistence::{
    Extras, FoundSlice, Load, Loaded, Names, Progress, Purpose, Recovery, Role, Scribe, Settings,
    SnapshotContent, Snapshots, Tuning, Usage, WriterStep,
};
use proactor::{Clock, Disk, Open, SimConfig, SimDisk, SimNet};
use rdb::{Encoder, Style};
use resp::{Output, Proto};
use shard::{Hold, Placement};

const DB_COUNT: u32 = 16;
const BASE: &str = "base-1.rdb";
const STYLE: Style = Style { compresses: true, version: 11, keeps_all: true };
const SELECT: Entry = Entry {
    name: "select",
    arity: 2,
    rules: &[Rule::SelectsDb],
    run: Run::Function(|_| Ok(())),
    ..Entry::DEFAULT
};
const MULTI: Entry = Entry { name: "multi", arity: 1, run: Run::Function(|_| Ok(())), ..Entry::DEFAULT };
const EXEC: Entry = Entry { name: "exec", ..MULTI };
const LIBRARY: Entry = Entry { name: "library", arity: 2, ..MULTI };

/// The requests that change keys; `@` is one of a few keys, `#` a small number.
const REQUESTS: &[&str] = &[
    "SET @ #",
    "SET @ # PX 100000#",
    "APPEND @ #",
    "INCRBY n:@ #",
    "DEL @",
    "MSET @ # @ # @ #",
    "RENAME @ @",
    "COPY @ @ REPLACE",
    "MOVE @ 3",
    "RPUSH l:@ # # #",
    "LPOP l:@",
    "LMOVE l:@ l:@ LEFT RIGHT",
    "LMOVE l:@ l:@ RIGHT LEFT",
    "RENAME l:@ l:@",
    "SADD s:@ # #",
    "SMOVE s:@ s:@ #",
    "SUNIONSTORE s:@ s:@ s:@",
    "SPOP s:@",
    "ZADD z:@ # # # #",
    "ZUNIONSTORE z:@ 2 z:@ z:@",
    "SORT l:@ STORE l:@",
    "HSET h:@ # # # #",
    "HPEXPIRE h:@ 500# FIELDS 1 #",
    "PEXPIRE @ 300#",
    "PERSIST @",
    "EXPIRE l:@ 20",
    "PERSIST l:@",
    "XADD x:@ * f #",
    "SWAPDB 0 1",
    "UNLINK l:@ s:@ z:@",
];

/// The requests that are made rarely.
const RARE_REQUESTS: &[&str] = &["FLUSHDB", "FLUSHALL"];

/// The effects of random requests, and the data after them.
struct Original {
    local: Local,
    random: Random,
}

impl Original {
    fn new(seed: u64) -> Original {
        let mut local = Local::new(commands::FAMILIES);
        local.record_effects();
        Original { local, random: Random::new(seed) }
    }

    fn filled(&mut self, pattern: &str) -> Vec<Vec<u8>> {
        let mut word = |word: &str| {
            let (key, number) = (self.random.below(12), self.random.below(9));
            word.replace('@', &format!("key{key}")).replace('#', &number.to_string()).into_bytes()
        };
        pattern.split(' ').map(&mut word).collect()
    }

    fn effects(&mut self, request_count: usize) -> Vec<OwnedEffect> {
        let mut effects = Vec::new();
        for _ in 0..request_count {
            let requests = if self.random.below(300) == 0 { RARE_REQUESTS } else { REQUESTS };
            let pattern = requests[self.random.below(requests.len() as u64) as usize];
            let request = self.filled(pattern);
            let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            let db = if self.random.below(4) == 0 { self.random.below(3) as u32 } else { 0 };
            self.local.run(Client::internal(db, Proto::Resp2), &args, &mut (), &mut Output::new());
            effects.extend(self.local.take_effects());
            self.local.now += self.random.below(300) as i64;
        }
        self.local.outbox.clear();
        effects
    }

    fn digest(&mut self) -> Digest {
        let now = self.local.now;
        // Keys that are due but were not deleted are still there.
        self.local.now = 0;
        let digest = self.local.with_store(Client::internal(0, Proto::Resp2), |store| digest(store));
        self.local.now = now;
        digest
    }
}

fn encode(args: &[impl AsRef<[u8]>], into: &mut Vec<u8>) {
    resp::encode_request(args, into);
}

/// Cuts effects into slices, some of them in transactions.
struct Cutter {
    random: Random,
    number: u64,
    position: StreamPosition,
    db: Option<u32>,
}

impl Cutter {
    fn slices(&mut self, effects: &[OwnedEffect]) -> Vec<Slice> {
        let mut slices = Vec::new();
        let mut effects = effects.iter().peekable();
        while effects.peek().is_some() {
            self.number += 1;
            let (db, mut payload) = (self.db, Vec::new());
            for _ in 0..self.random.below(4) {
                let is_transaction = self.random.below(3) == 0;
                if is_transaction {
                    encode(&["MULTI"], &mut payload);
                }
                for effect in effects.by_ref().take(self.random.below(6) as usize) {
                    if self.db != Some(effect.db) {
                        self.db = Some(effect.db);
                        encode(&["SELECT", &effect.db.to_string()], &mut payload);
                    }
                    encode(&effect.args, &mut payload);
                }
                if is_transaction {
                    encode(&["EXEC"], &mut payload);
                }
            }
            let slice = Slice { number: Lsn::new(self.number), position: self.position, db, payload };
            self.position = slice.end();
            slices.push(slice);
        }
        slices
    }
}

#[derive(Default)]
struct Seen(Vec<Vec<u8>>);

impl Extras for Seen {
    fn field(&mut self, _: &[u8], _: &[u8]) {}

    fn library(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn change_libraries(&mut self, _: &Command, args: &[&[u8]]) -> Result<(), String> {
        if args[1] == b"bad" {
            return Err("it is bad".to_owned());
        }
        self.0.push(args[1].to_vec());
        Ok(())
    }
}

/// A folder, and the state that a server would have.
struct World {
    names: Names,
    placement: Placement,
    config: Config,
    clock: Clock,
    progress: Progress,
    is_stopped: AtomicBool,
    table: Table,
    roles: Vec<Role>,
}

impl World {
    fn new(disk: &Disk, shard_count: u16) -> World {
        let families: Vec<&'static [Entry]> =
            commands::FAMILIES.iter().copied().chain([&[SELECT, MULTI, EXEC, LIBRARY][..]]).collect();
        let table = Table::new(&families);
        let role = |command: &Command| match command.full_name.as_str() {
            "select" => Role::Select,
            "multi" => Role::Begin,
            "exec" => Role::End,
            "library" => Role::Libraries,
            "keys" => Role::Refused("it is refused"),
            _ => Role::Data,
        };
        World {
            names: Names::new(disk, ".", BASE),
            placement: Placement::new(Seed::random(), shard_count, None),
            config: Config::default(),
            clock: SimNet::new(1, SimConfig::default()).clock(),
            progress: Progress::default(),
            is_stopped: AtomicBool::new(false),
            roles: table.all().iter().map(role).collect(),
            table,
        }
    }

    fn recover(
        &self,
        thread_count: usize,
        (base, slice, position): (Option<&str>, u64, StreamPosition),
        slices: &[Slice],
    ) -> Result<(Loaded, Seen), String> {
        let load = Load {
            names: &self.names,
            placement: &self.placement,
            db_count: DB_COUNT,
            config: &self.config,
            queues: &Arc::default(),
            has_checksum: true,
            clock: &self.clock,
            progress: &self.progress,
            is_stopped: &self.is_stopped,
            thread_count,
            memory_bytes_max: u64::MAX,
            tuning: Tuning::SMALL,
        };
        let recovery = Recovery {
            name: "journal",
            base,
            slice: Lsn::new(slice),
            position,
            slice_bytes: slices.iter().map(|slice| slice.payload.len() as u64).sum(),
            table: &self.table,
            roles: &self.roles,
        };
        let file: Arc<str> = "segment-7".into();
        let mut left: VecDeque<&Slice> = slices.iter().collect();
        let mut next = || {
            Ok(left.pop_front().map(|slice| FoundSlice {
                slice: slice.clone(),
                unix_ms: 0,
                file: Arc::clone(&file),
            }))
        };
        let mut seen = Seen::default();
        let loaded = load.journal(&recovery, &mut next, &mut seen).map_err(|error| error.to_string())?;
        Ok((loaded.expect("nobody stopped it"), seen))
    }

    /// The digest of the loaded data, in which no key is due.
    fn digest(&self, loaded: &mut [Dbs]) -> Digest {
        let shards = Shards::new(self.placement.clone(), 1, DB_COUNT, 1);
        let mut hold = Hold::new(&shards);
        for (id, dbs) in shards.ids().zip(loaded) {
            assert!(hold.try_enter(id));
            hold.shard_mut(id).dbs.exchange(dbs);
        }
        let mut tx = Tx::new(hold, &self.table, Arc::new(self.config.clone()), 0);
        let found = digest(&Store::new(&mut tx, Client::internal(0, Proto::Resp2)));
        assert!(tx.hold.leave_or_keep_all());
        found
    }

    fn settings(&self, purpose: Purpose, name: &str, has_own_format: bool) -> Settings {
        Settings {
            purpose,
            names: Names::new(self.names.disk(), ".", name),
            style: STYLE,
            has_own_format,
            has_checksum: true,
            begins_early: false,
        }
    }

    /// Makes the base from the effects that are applied before.
    fn save_base(&self, slices: &[Slice], has_own_format: bool) {
        let (there, _) =
            self.recover(0, (None, 0, StreamPosition::START), slices).expect("the slices are right");
        let snapshots = Snapshots::new(self.clock.clone(), true, Tuning::SMALL);
        let settings = self.settings(Purpose::Snapshot, BASE, has_own_format);
        snapshots.save(settings, &content(&there.dbs), 0, &|| false).expect("the disk has room");
    }
}

/// The content to save for these databases.
fn content(dbs: &[Dbs]) -> SnapshotContent<'_> {
    SnapshotContent {
        shards: dbs.iter().enumerate().map(|(shard, dbs)| (shard as u16 % 2, dbs)).collect(),
        thread_count: 2,
        usage: Usage { is_idle_wanted: false, lfu: None, now: 0 },
        about: Encoder::of_chunks(STYLE).finish().expect("memory takes all"),
    }
}

/// Slices like those of a journal.
fn slices_of(seed: u64, effects: &[OwnedEffect]) -> Vec<Slice> {
    Cutter { random: Random::new(seed), number: 0, position: StreamPosition::START, db: None }.slices(effects)
}

#[test]
fn any_number_of_threads_recovers_the_data() {
    for seed in 0..6 {
        let mut original = Original::new(seed);
        let effects = original.effects(if seed == 0 { 10 } else { 2000 });
        let expected = original.digest();
        assert_ne!(expected, Digest::default(), "seed {seed}: nothing is left");
        let slices = slices_of(seed, &effects);
        let bytes: usize = slices.iter().map(|slice| slice.payload.len()).sum();
        let half = slices.len() / 2;
        for shard_count in [1, 4, 13] {
            let disk = SimDisk::new(seed).disk();
            let world = World::new(&disk, shard_count);
            for thread_count in [0, 1, 2, 4] {
                let recovered = world.recover(thread_count, (None, 0, StreamPosition::START), &slices);
                let (mut loaded, _) = recovered.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                let context =
                    format!("seed {seed}, {shard_count} shards, {thread_count} threads, {bytes} bytes");
                assert_eq!(world.digest(&mut loaded.dbs), expected, "{context}");
                let figures = (&world.progress.total_bytes, &world.progress.loaded_bytes);
                assert_eq!((figures.0.load(RELAXED), figures.1.load(RELAXED)), (bytes as u64, bytes as u64));
            }
            for has_own_format in [false, true] {
                world.save_base(&slices[..half], has_own_format);
                let rest = &slices[half..];
                let from = (Some(BASE), half as u64, rest[0].position);
                let (mut loaded, _) = world.recover(2, from, rest).expect("the slices are right");
                assert_eq!(
                    world.digest(&mut loaded.dbs),
                    expected,
                    "seed {seed}, {shard_count} shards, base"
                );
            }
        }
    }
}

const RELAXED: std::sync::atomic::Ordering = std::sync::atomic::Ordering::Relaxed;

fn slice(number: u64, position: StreamPosition, db: u32, lines: &[&str]) -> Slice {
    let mut payload = Vec::new();
    lines.iter().for_each(|line| encode(&line.split(' ').collect::<Vec<_>>(), &mut payload));
    Slice { number: Lsn::new(number), position, db: Some(db), payload }
}

#[test]
fn what_is_due_stays_until_the_journal_says_otherwise() {
    let world = World::new(&SimDisk::new(1).disk(), 3);
    let first = slice(
        1,
        StreamPosition::START,
        0,
        &["SET a 1", "PEXPIREAT a 1000", "SET b 1", "PEXPIREAT b 1000", "SET c 1"],
    );
    let second = slice(2, first.end(), 0, &["PERSIST a", "APPEND b 2"]);
    world.save_base(std::slice::from_ref(&first), true);
    let (loaded, _) =
        world.recover(2, (Some(BASE), 1, first.end()), &[second]).expect("the slices are right");
    assert_eq!((loaded.key_count, loaded.expired_count), (3, 0));
}

#[test]
fn libraries_change_in_order() {
    let world = World::new(&SimDisk::new(1).disk(), 3);
    let slices = [slice(1, StreamPosition::START, 0, &["LIBRARY one", "SET a 1", "LIBRARY two"])];
    for thread_count in [0, 2] {
        let (loaded, seen) = world
            .recover(thread_count, (None, 0, StreamPosition::START), &slices)
            .expect("the slices are right");
        assert_eq!((loaded.key_count, seen.0), (1, vec![b"one".to_vec(), b"two".to_vec()]));
    }
}

/// Slices that cannot be applied, and why.
fn check_refused(slices: &[Slice], why: &str) {
    for thread_count in [0, 1, 2] {
        let world = World::new(&SimDisk::new(1).disk(), 8);
        let error = world
            .recover(thread_count, (None, 0, StreamPosition::START), slices)
            .err()
            .expect("something is wrong");
        let (error, way_out) = error.split_once(" (").expect("it names a way out");
        assert_eq!(error, format!("cannot load segment-7: {why}"), "{thread_count} threads");
        assert!(way_out.contains("--journal-until"), "{way_out}");
    }
}

#[test]
fn what_is_wrong_is_found_and_said() {
    let one = || slice(1, StreamPosition::START, 0, &["SET a 1"]);
    let at = one().end();
    let second = |db: u32, lines: &[&str]| [one(), slice(2, at, db, lines)];
    check_refused(
        &[one(), slice(3, at, 0, &[])],
        "slice 3, at position 27 of the stream: slice 1 comes before it",
    );
    check_refused(
        &[one(), slice(1, at, 0, &[])],
        "slice 1, at position 27 of the stream: slice 1 comes before it",
    );
    check_refused(
        &[one(), slice(2, at.plus(1), 0, &[])],
        "slice 2, at position 28 of the stream: the slice before it ends at position 27",
    );
    check_refused(
        &second(1, &[]),
        "slice 2, at position 27 of the stream: it says that database 1 is selected, but the slices before it select 0",
    );
    check_refused(
        &[slice(1, StreamPosition::START, 16, &[])],
        "slice 1, at position 0 of the stream: database 16 is selected, but the setting databases is 16",
    );
    check_refused(
        &second(0, &["MULTI", "SET b 1"]),
        "slice 2, at position 27 of the stream: it ends inside the transaction that begins there",
    );
    let command =
        |name: &str, why: &str| format!("the command {name} of slice 2, at position 27 of the stream: {why}");
    check_refused(&second(0, &["EXEC"]), &command("EXEC", "the end of a transaction that was never begun"));
    check_refused(&second(0, &["KEYS *"]), &command("KEYS", "it is refused"));
    check_refused(&second(0, &["LIBRARY bad"]), &command("LIBRARY", "it is bad"));
    check_refused(
        &second(0, &["SELECT 16"]),
        &command("SELECT", "more databases than the setting databases allows"),
    );
    let wrong_type = "WRONGTYPE Operation against a key holding the wrong kind of value";
    check_refused(&second(0, &["RPUSH a 1"]), &command("RPUSH", wrong_type));
    let unknown = "ERR unknown command 'NOSUCH', with args beginning with: 'a' ";
    check_refused(&second(0, &["NOSUCH a"]), &command("NOSUCH", unknown));
    let nothing_selected = Slice { db: None, ..one() };
    check_refused(
        &[nothing_selected],
        "the command SET of slice 1, at position 0 of the stream: no database is selected",
    );
    for (payload, why) in [
        ("*1\r\n$3\r\nSET", "an argument that extends past the end of the slice"),
        ("*1\r\n$99999999999999999999\r\n", "this is not a command"),
        ("*18446744073709551615\r\n", "it ends inside a command"),
        ("*1\r\n$18446744073709551615\r\n", "an argument that extends past the end of the slice"),
        ("*0\r\n", "an empty command"),
        ("SET a 1\r\n", "this is not a command"),
        ("*1\r\n$1\r\nSET\r\n", "no line end after an argument"),
        ("*1\r", "this is not a command"),
    ] {
        let bad = Slice {
            number: Lsn::new(1),
            position: StreamPosition::START,
            db: Some(0),
            payload: payload.into(),
        };
        check_refused(&[bad], &format!("slice 1, at position 0 of the stream: {why}"));
    }
}

#[test]
fn a_base_must_be_complete() {
    let disk = SimDisk::new(1).disk();
    let world = World::new(&disk, 4);
    let missing = world.recover(0, (Some(BASE), 0, StreamPosition::START), &[]).err().expect("there is none");
    assert!(missing.starts_with("cannot load ./base-1.rdb: "), "{missing}");
    world.save_base(
        &[slice(1, StreamPosition::START, 0, &["SET a 1", "SET b 1", "SET c 1", "SET d 1"])],
        true,
    );
    let parts = disk.list(Path::new(".")).expect("there is a folder");
    for part in parts.into_iter().filter_map(|name| name.into_string().ok()) {
        let path = world.names.path(&part);
        let bytes = disk.read(&path).expect("it is there");
        let file = disk.open(&path, Open::Empty).expect("it is there");
        file.write_all_at(0, &bytes[..bytes.len() - 1]).expect("there is room");
        for thread_count in [0, 2] {
            let error = world
                .recover(thread_count, (Some(BASE), 1, StreamPosition::START), &[])
                .err()
                .expect("it is not whole");
            assert!(error.starts_with("cannot load ./base-1.rdb"), "{error}");
        }
        file.write_all_at(0, &bytes).expect("there is room");
    }
}

#[test]
fn a_source_that_fails_ends_it() {
    let world = World::new(&SimDisk::new(1).disk(), 4);
    for thread_count in [0, 2] {
        let load = Load {
            names: &world.names,
            placement: &world.placement,
            db_count: DB_COUNT,
            config: &world.config,
            queues: &Arc::default(),
            has_checksum: true,
            clock: &world.clock,
            progress: &world.progress,
            is_stopped: &world.is_stopped,
            thread_count,
            memory_bytes_max: u64::MAX,
            tuning: Tuning::SMALL,
        };
        let recovery = Recovery {
            name: "journal",
            base: None,
            slice: Lsn::NONE,
            position: StreamPosition::START,
            slice_bytes: 0,
            table: &world.table,
            roles: &world.roles,
        };
        let error = load.journal(&recovery, &mut || Err("the disk is gone".to_owned()), &mut Seen::default());
        assert_eq!(error.err().expect("it fails").to_string(), "the disk is gone");
    }
}

#[test]
fn a_checkpoint_becomes_a_base_and_nothing_else() {
    let disk = SimDisk::new(1).disk();
    let world = World::new(&disk, 4);
    let first =
        slice(1, StreamPosition::START, 0, &["SET a 1", "SET b 1", "RPUSH c 1 2", "SELECT 3", "SET a 1"]);
    for (is_given_up, is_overtaken) in [(true, false), (false, true), (false, false)] {
        let (mut there, _) = world
            .recover(0, (None, 0, StreamPosition::START), std::slice::from_ref(&first))
            .expect("it is right");
        let snapshots: &'static Snapshots =
            Box::leak(Box::new(Snapshots::new(world.clock.clone(), true, Tuning::SMALL)));
        snapshots.set_superseded_aof(Some("0123".to_owned()));
        let before = (snapshots.last_save_seconds(), snapshots.changes_since(7));
        let settings = world.settings(Purpose::Checkpoint, BASE, true);
        let begun = snapshots.begin(settings, &content(&there.dbs), 7, Box::new(|| ()));
        let (saving, mut writer) = begun.expect("memory takes all");
        let now_seconds = world.clock.now_ms() / 1000;
        assert!(now_seconds > 0, "the simulated clock has a date");
        assert_eq!(snapshots.checkpoints.last_try_seconds.load(RELAXED), now_seconds);
        assert_eq!(snapshots.last_try_seconds.load(RELAXED), 0, "that is the snapshot's");
        for dbs in &mut there.dbs {
            for (number, db) in dbs.iter_mut() {
                db.begin_cut(Box::new(Scribe::new(&saving, number, 0)));
            }
        }
        snapshots.began(&saving);
        saving.close_one();
        assert!(snapshots.saving_checkpoint().is_some() && snapshots.saving_snapshot().is_none());
        if is_overtaken {
            let settings = world.settings(Purpose::Snapshot, "dump.rdb", false);
            snapshots.save(settings, &content(&there.dbs), 7, &|| false).expect("there is room");
        }
        if is_given_up {
            snapshots.give_up("it is not wanted");
        }
        for (_, db) in there.dbs.iter_mut().flat_map(Dbs::iter_mut) {
            while !db.continue_cut(&mut || true) {}
        }
        while writer.step() != WriterStep::Ended {}
        assert!(snapshots.current().is_none());
        let ended = snapshots.checkpoints.take_ended().expect("it has ended");
        assert_eq!(snapshots.checkpoints.take_ended(), None, "it is told once");
        let (count, failures) = (&snapshots.checkpoints.count, &snapshots.checkpoints.consecutive_failures);
        assert_eq!((count.load(RELAXED), failures.load(RELAXED)), (u64::from(!is_given_up), 0));
        let saves = u64::from(is_overtaken);
        assert_eq!(snapshots.save_count.load(RELAXED), saves);
        if is_given_up {
            assert!(ended.is_err_and(|error| error.is_given_up), "somebody gave it up");
            assert!(!disk.has(&world.names.path(BASE)));
            continue;
        }
        assert_eq!(ended.expect("it succeeded").name, BASE);
        let (mut loaded, _) = world.recover(2, (Some(BASE), 1, first.end()), &[]).expect("the base is right");
        assert_eq!(world.digest(&mut loaded.dbs), world.digest(&mut there.dbs));
        if !is_overtaken {
            assert_eq!((snapshots.last_save_seconds(), snapshots.changes_since(7)), before);
            assert_eq!(snapshots.last_took_seconds.load(RELAXED), -1);
            assert!(!disk.has(&world.names.path(&format!("{BASE}.aof-state"))));
        }
    }
}
