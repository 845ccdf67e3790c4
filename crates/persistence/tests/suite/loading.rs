//! Saving and loading without a server: commands of an append-only file become databases, these are saved and
//! loaded again, on the disk of this machine and on a simulated one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ds::hashing::Seed;
use engine::{Command, Entry, Rule, Run, Table};
use keyspace::queue::Known;
use keyspace::{Config, Dbs};
use persistence::{
    Choice, DataSource, Error, Extras, Files, Import, Load, Loaded, Names, Progress, Purpose, Role,
    STATE_AUX, Settings, SnapshotContent, Snapshots, Tuning, Usage, Wanted, Wish,
};
use proactor::{Clock, Disk, Open, SimConfig, SimDisk, SimNet};
use rdb::{Encoder, Style};
use scratch::Scratch;
use shard::Placement;

const SHARD_COUNT: u16 = 5;
const DB_COUNT: u32 = 3;
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

/// The contents of files that are not keys.
#[derive(Default)]
struct Seen {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    libraries: Vec<Vec<u8>>,
    changes: Vec<Vec<Vec<u8>>>,
}

impl Extras for Seen {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.fields.push((name.to_vec(), value.to_vec()));
    }

    fn library(&mut self, code: &[u8]) -> Result<(), String> {
        if code == b"bad" {
            return Err("it is bad".to_owned());
        }
        self.libraries.push(code.to_vec());
        Ok(())
    }

    fn change_libraries(&mut self, _: &Command, args: &[&[u8]]) -> Result<(), String> {
        self.changes.push(args.iter().map(|arg| arg.to_vec()).collect());
        Ok(())
    }
}

/// A directory, and the state that a server would have.
struct World {
    names: Names,
    placement: Placement,
    config: Config,
    queues: Arc<Known>,
    clock: Clock,
    progress: Progress,
    is_stopped: AtomicBool,
    table: Table,
    roles: Vec<Role>,
    /// On the disk of this machine, to be removed.
    scratch: Option<Scratch>,
}

/// Keys with their databases, and for each its value, encoded, and its expiry.
type Keys = BTreeMap<(usize, Vec<u8>), (Vec<u8>, Option<i64>)>;

impl World {
    fn new(disk: &Disk, folder: &Path) -> World {
        let families: Vec<&'static [Entry]> =
            commands::FAMILIES.iter().copied().chain([&[SELECT, MULTI, EXEC][..]]).collect();
        let table = Table::new(&families);
        let role = |command: &Command| match command.full_name.as_str() {
            "select" => Role::Select,
            "multi" => Role::Begin,
            "exec" => Role::End,
            "get" => Role::Nothing,
            "ttl" => Role::Libraries,
            "keys" => Role::Refused("it is refused"),
            _ => Role::Data,
        };
        World {
            names: Names::new(disk, folder.to_str().expect("a readable path"), "dump.rdb"),
            placement: Placement::new(Seed::random(), SHARD_COUNT, None),
            config: Config::default(),
            queues: Arc::default(),
            clock: SimNet::new(1, SimConfig::default()).clock(),
            progress: Progress::default(),
            is_stopped: AtomicBool::new(false),
            roles: table.all().iter().map(role).collect(),
            table,
            scratch: None,
        }
    }

    fn simulated() -> World {
        World::new(&SimDisk::new(1).disk(), Path::new("."))
    }

    /// In a new folder of this machine.
    fn real() -> World {
        let scratch = Scratch::new("loading");
        let mut world = World::new(&Disk::real(), scratch.folder());
        world.scratch = Some(scratch);
        world
    }

    fn load(&self, thread_count: usize) -> Load<'_> {
        Load {
            names: &self.names,
            placement: &self.placement,
            db_count: DB_COUNT,
            config: &self.config,
            queues: &self.queues,
            has_checksum: true,
            clock: &self.clock,
            progress: &self.progress,
            is_stopped: &self.is_stopped,
            thread_count,
            memory_bytes_max: u64::MAX,
            tuning: Tuning::SMALL,
        }
    }

    fn snapshot(&self, thread_count: usize, now: i64) -> (Result<Option<Loaded>, Error>, Seen) {
        let mut seen = Seen::default();
        let loaded = self.load(thread_count).snapshot("dump.rdb", now, &mut seen);
        (loaded, seen)
    }

    /// Writes a file of this machine or the simulated one.
    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.names.path(name);
        let file = self.names.disk().open(&path, Open::Empty).expect("a new file");
        file.write_all_at(0, bytes).expect("the disk has room");
        file.sync().expect("the disk works");
        self.names.sync().expect("the disk works");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        self.names.disk().read(&self.names.path(name)).expect("the file is there")
    }

    fn choose(&self, wanted: Wanted) -> Result<Choice, Error> {
        let wish = Wish {
            wanted,
            folder: "appendonlydir".to_owned(),
            file: "appendonly.aof".to_owned(),
            has_save_points: true,
            has_journal: false,
        };
        Choice::at_start(&self.names, &wish)
    }

    fn files(&self) -> Files {
        match self.choose(Wanted::Yes).map(|choice| choice.source) {
            Ok(DataSource::AppendOnly(files)) => files,
            _ => panic!("there is an append-only file"),
        }
    }

    fn import(&self, text: &[u8], may_be_torn: bool) -> (Result<Option<Loaded>, Error>, Seen) {
        self.write("appendonly.aof", text);
        let (files, mut seen) = (self.files(), Seen::default());
        let import = Import {
            files: &files,
            table: &self.table,
            roles: &self.roles,
            argument_bytes_max: 1 << 20,
            may_be_torn,
        };
        let loaded = self.load(0).append_only(&import, &mut seen);
        (loaded, seen)
    }

    fn imported(&self, text: &[u8]) -> Loaded {
        self.import(text, false).0.expect("the file is right").expect("nobody stopped it")
    }

    fn save(&self, dbs: &[Dbs], has_own_format: bool, about: &dyn Fn(&mut Encoder<Vec<u8>>)) -> Snapshots {
        let snapshots = Snapshots::new(self.clock.clone(), true, Tuning::SMALL);
        let settings = Settings {
            purpose: Purpose::Snapshot,
            names: self.names.clone(),
            style: STYLE,
            has_own_format,
            has_checksum: true,
            begins_early: false,
        };
        let mut beside = Encoder::of_chunks(STYLE);
        about(&mut beside);
        let content = SnapshotContent {
            shards: dbs.iter().enumerate().map(|(shard, dbs)| (shard as u16 % 2, dbs)).collect(),
            thread_count: 2,
            usage: Usage { is_idle_wanted: false, lfu: None, now: 0 },
            about: beside.finish().expect("memory takes all"),
        };
        snapshots.save(settings, &content, 0, &|| false).expect("the disk has room");
        snapshots
    }
}

fn keys(loaded: &Loaded) -> Keys {
    let mut keys = Keys::new();
    for dbs in &loaded.dbs {
        assert_eq!(dbs.len(), DB_COUNT as usize);
        for (number, db) in dbs.iter() {
            for record in db.iter() {
                let mut value = Encoder::of_chunks(STYLE);
                engine::dump::write(record.value(), &mut value).expect("memory takes all");
                let value = value.finish().expect("memory takes all");
                let old = keys.insert((number as usize, record.key().to_vec()), (value, record.expiry()));
                assert!(old.is_none(), "each key is on one shard");
            }
        }
    }
    assert_eq!(keys.len() as u64, loaded.key_count);
    keys
}

fn command(text: &str) -> Vec<u8> {
    let args: Vec<&str> = text.split(' ').collect();
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    args.iter().for_each(|arg| bytes.extend(format!("${}\r\n{arg}\r\n", arg.len()).bytes()));
    bytes
}

fn commands_of(text: &[&str]) -> Vec<u8> {
    text.iter().flat_map(|text| command(text)).collect()
}

/// Every type, and enough keys to give several threads work.
fn all_types() -> Vec<u8> {
    let long = "x".repeat(20_000);
    let mut bytes = commands_of(&[
        "SELECT 0",
        "SET long 1",
        &format!("APPEND long {long}"),
        "RPUSH list a b c",
        "SADD set 1 2 3",
        "SADD words a b c",
        "HSET hash a 1 b 2",
        "ZADD zset 1 a 2 b",
        "XADD stream 1-1 field value",
        "SELECT 2",
        "SET there 2",
        "PEXPIREAT there 5000000000000",
        "SET gone 1",
        "DEL gone",
        "SELECT 1",
    ]);
    for number in 0..400 {
        bytes.extend(command(&format!("SET key:{number} value:{number}")));
        bytes.extend(command(&format!("RPUSH many {number}")));
    }
    bytes
}

#[test]
fn what_is_saved_is_loaded() {
    for world in [World::simulated(), World::real()] {
        let there = world.imported(&all_types());
        let expected = keys(&there);
        assert_eq!(expected.len(), 400 + 1 + 7 + 1);
        for (has_own_format, thread_count) in [(false, 0), (false, 3), (true, 0), (true, 3)] {
            world.save(&there.dbs, has_own_format, &|about| {
                about.aux("something", b"else").expect("memory takes all");
                about.aux(STATE_AUX, b"0123").expect("memory takes all");
                about.function(b"code").expect("memory takes all");
            });
            let (loaded, seen) = world.snapshot(thread_count, 0);
            let loaded = loaded.expect("it is right").expect("nobody stopped it");
            assert_eq!(keys(&loaded), expected, "{has_own_format} {thread_count}");
            assert_eq!((loaded.superseded_aof.as_deref(), loaded.expired_count), (Some("0123"), 0));
            assert_eq!(seen.libraries, [b"code"]);
            assert!(seen.fields.contains(&(b"something".to_vec(), b"else".to_vec())));
        }
    }
}

#[test]
fn what_is_due_is_left_out() {
    let world = World::simulated();
    let there = world.imported(&all_types());
    world.save(&there.dbs, false, &|_| ());
    let loaded = world.snapshot(0, 5_000_000_000_001).0.expect("it is right").expect("nobody stopped it");
    assert_eq!((loaded.key_count, loaded.expired_count), (there.key_count - 1, 1));
}

#[test]
fn nothing_is_half_loaded() {
    for (has_own_format, thread_count) in [(false, 0), (false, 2), (true, 0), (true, 2)] {
        let world = World::simulated();
        let there = world.imported(&all_types());
        world.save(&there.dbs, has_own_format, &|_| ());
        let files = world.names.disk().list(Path::new(".")).expect("there is a directory");
        let largest = files.into_iter().filter_map(|file| file.into_string().ok());
        let largest = largest.filter(|file| file.starts_with("dump.rdb"));
        let largest = largest.max_by_key(|file| world.read(file).len()).expect("it was saved");
        let mut bytes = world.read(&largest);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        world.write(&largest, &bytes);
        let error = world.snapshot(thread_count, 0).0.err().expect("it is damaged").to_string();
        assert!(error.starts_with("cannot load ") && error.contains(&largest), "{error}");
        bytes[middle] ^= 1;
        world.write(&largest, &bytes);
        assert!(world.snapshot(thread_count, 0).0.is_ok());
        world.is_stopped.store(true, Ordering::Relaxed);
        assert!(matches!(world.snapshot(thread_count, 0).0, Ok(None)));
    }
}

#[test]
fn what_extras_refuse_is_not_loaded() {
    for has_own_format in [false, true] {
        let world = World::simulated();
        let there = world.imported(&commands_of(&["SET a 1"]));
        world.save(&there.dbs, has_own_format, &|about| about.function(b"bad").expect("memory takes all"));
        for thread_count in [0, 2] {
            let error = world.snapshot(thread_count, 0).0.err().expect("it is refused").to_string();
            assert!(error.contains("it is bad"), "{error}");
        }
    }
}

#[test]
fn commands_run_as_their_roles_say() {
    let world = World::simulated();
    let text = commands_of(&["SET a 1", "GET a", "TTL a", "MULTI", "INCR a", "SELECT 1", "SET b 2", "EXEC"]);
    let (loaded, seen) = world.import(&text, false);
    let loaded = loaded.expect("the file is right").expect("nobody stopped it");
    let there: Vec<_> = keys(&loaded).into_keys().collect();
    assert_eq!(there, [(0, b"a".to_vec()), (1, b"b".to_vec())]);
    assert_eq!(seen.changes, [[b"TTL".to_vec(), b"a".to_vec()]]);
}

/// Where loading ends.
#[track_caller]
fn check_error(commands: &[&str], more: &[u8], may_be_torn: bool, error: &str) {
    let mut text = commands_of(commands);
    text.extend(more);
    let found = World::simulated().import(&text, may_be_torn).0.err().expect("it is refused").to_string();
    assert!(found.starts_with("cannot load ") && found.ends_with(error), "{found}");
}

#[test]
fn an_import_ends_at_what_is_wrong() {
    check_error(&["SELECT 3"], b"", true, "more databases than the setting databases allows");
    check_error(&["KEYS x"], b"", true, "the command KEYS at offset 0: it is refused");
    check_error(&["EXEC"], b"", true, "the end of a transaction that was never begun");
    check_error(&["MULTI", "MULTI"], b"", true, "a nested transaction");
    check_error(
        &["MULTI", "BEGONE"],
        b"",
        true,
        "the command BEGONE at offset 15: ERR unknown command 'BEGONE', with args beginning with: ",
    );
    check_error(&["MULTI", "KEYS x", "EXEC"], b"", true, "the command KEYS at offset 15: it is refused");
    check_error(&["SET a 1", "LPUSH a 1"], b"", true, "wrong kind of value");
    check_error(&["SET a 1"], b"*2\r\n$3", false, "6 bytes before its end, and aof-load-truncated is no");
}

#[test]
fn transactions_have_the_names_of_the_table() {
    let mut world = World::simulated();
    world.table.rename(b"multi", b"begin").expect("there is a MULTI");
    assert_eq!(keys(&world.imported(&commands_of(&["BEGIN", "SET a 1", "EXEC"]))).len(), 1);
    world.table.rename(b"exec", b"").expect("there is an EXEC");
    for (commands, place) in
        [(&["MULTI"][..], "MULTI at offset 0"), (&["BEGIN", "EXEC"], "EXEC at offset 15")]
    {
        let found = world.import(&commands_of(commands), true).0.err().expect("it is refused").to_string();
        assert!(
            found.contains(&format!("the command {place}: rename-command has disabled this name")),
            "{found}"
        );
    }
}

#[test]
fn a_torn_end_may_be_left_out() {
    let world = World::simulated();
    let mut text = commands_of(&["SET a 1", "MULTI", "SET b 1"]);
    text.extend(b"*2\r\n$3");
    let loaded = world.import(&text, true).0.expect("it may be torn").expect("nobody stopped it");
    assert_eq!(keys(&loaded).into_keys().collect::<Vec<_>>(), [(0, b"a".to_vec())]);
}

#[test]
fn files_may_begin_with_a_snapshot() {
    let world = World::simulated();
    let there = world.imported(&all_types());
    world.save(&there.dbs, false, &|_| ());
    let mut both = world.read("dump.rdb");
    both.extend(commands_of(&["SELECT 1", "SET key:0 other", "DEL key:1"]));
    world.names.disk().remove(&world.names.path("dump.rdb")).expect("it is there");
    let found = keys(&world.imported(&both));
    assert_eq!(found.len() as u64, there.key_count - 1);
    assert_ne!(found[&(1, b"key:0".to_vec())], keys(&there)[&(1, b"key:0".to_vec())]);
}

#[test]
fn what_is_due_in_a_snapshot_may_get_more_time_from_a_command() {
    let world = World::simulated();
    let there = world.imported(&commands_of(&["SET a 1", "PEXPIREAT a 1000", "SET b 1", "PEXPIREAT b 1000"]));
    world.save(&there.dbs, false, &|_| ());
    let mut both = world.read("dump.rdb");
    both.extend(commands_of(&["PERSIST a", "DEL b"]));
    world.names.disk().remove(&world.names.path("dump.rdb")).expect("it is there");
    let found = keys(&world.imported(&both));
    assert_eq!(
        found.into_iter().map(|(key, (_, expiry))| (key.1, expiry)).collect::<Vec<_>>(),
        [(b"a".to_vec(), None)]
    );
}

#[test]
fn the_newer_of_the_two_counts() {
    let world = World::simulated();
    let source = |wanted| world.choose(wanted).map(|choice| choice.source);
    assert!(matches!(source(Wanted::Ask), Ok(DataSource::Nothing)));
    assert!(
        source(Wanted::Yes)
            .expect_err("it is elsewhere")
            .to_string()
            .contains("there is no append-only file")
    );
    let there = world.imported(&commands_of(&["SET a 1"]));
    assert!(
        source(Wanted::Ask).expect_err("nobody decided").to_string().contains("--import-aof yes loads it")
    );
    assert!(matches!(source(Wanted::No), Ok(DataSource::Nothing)));
    let choice = world.choose(Wanted::Yes).expect("it was decided");
    assert!(choice.has_data() && matches!(choice.source, DataSource::AppendOnly(_)));
    // A snapshot that says that it supersedes the file.
    let state = choice.superseded.expect("it has a state");
    for has_own_format in [false, true] {
        world.save(&there.dbs, has_own_format, &|about| {
            about.aux(STATE_AUX, state.as_bytes()).expect("memory takes all");
        });
        for wanted in [Wanted::Ask, Wanted::Yes, Wanted::No] {
            assert!(matches!(source(wanted), Ok(DataSource::Snapshot)), "{wanted:?}");
        }
    }
    world.write("appendonly.aof", &commands_of(&["SET a 1", "SET b 1"]));
    for wanted in [Wanted::Ask, Wanted::Yes, Wanted::No] {
        let error = source(wanted).expect_err("both have something new").to_string();
        assert!(error.contains("may each have data"), "{error}");
    }
}
