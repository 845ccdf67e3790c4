//! Snapshots that replicas read while they are written and clients write. Every replica reads the data of the cut, at any pace, regardless
//! of saves, crashes and replicas that leave.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blackbox::{Batch, Generator, Scratch, Server, check, oracle};
use engine::Table;
use proactor::{DiskFaults, Entropy, Open};
use resp::Value;
use server::{Content, Spool, SpoolState};
use sim::{Client, Journal, Request, Setup, Sync, World, for_each_seed, request};

/// Batches of random commands before the cut.
const BATCHES_BEFORE: usize = 60;
/// More events than a snapshot needs in any world.
const EVENTS_MAX: u64 = 400_000;
const IN_PROGRESS: &str = "ERR Background save already in progress";
const LIBRARY: &str = "#!lua name=lib\nredis.register_function('answer', function() return 42 end)";

fn call(world: &mut World, client: &mut Client, line: &str) -> Value {
    world.call(client, &resp::split_args(line.as_bytes()).expect("words"))
}

fn ok(world: &mut World, client: &mut Client, line: &str) -> Value {
    let reply = call(world, client, line);
    assert!(!matches!(reply, Value::Error(_)), "{line}: {reply}");
    reply
}

/// A replica that now and then reads some bytes or, if it has `woken`, all bytes available whenever it is woken.
struct Reader {
    spool: Arc<Spool>,
    bytes: Vec<u8>,
    one_in: u64,
    bytes_max: usize,
    woken: Option<Arc<AtomicBool>>,
}

impl Reader {
    fn any(spool: &Arc<Spool>, world: &mut World) -> Reader {
        let one_in = [1, 3, 30, 1_000_000][world.below(4)];
        let bytes_max = [1, 100, 100_000][world.below(3)];
        Reader { spool: Arc::clone(spool), bytes: Vec::new(), one_in, bytes_max, woken: None }
    }

    fn when_woken(spool: &Arc<Spool>) -> Reader {
        let woken = Arc::new(AtomicBool::new(true));
        let wake = Arc::clone(&woken);
        spool.on_progress(Box::new(move || wake.store(true, Ordering::Relaxed)));
        let spool = Arc::clone(spool);
        Reader { spool, bytes: Vec::new(), one_in: 1, bytes_max: usize::MAX, woken: Some(woken) }
    }

    fn read(&mut self, bytes_max: usize) {
        let mut buffer = vec![0; bytes_max];
        let read = self.spool.read_at(self.bytes.len() as u64, &mut buffer).expect("the disk reads");
        self.bytes.extend_from_slice(&buffer[..read.expect("a simulated disk does not wait")]);
    }

    fn go_on(&mut self, world: &mut World) {
        if let Some(woken) = &self.woken {
            if woken.swap(false, Ordering::Relaxed) {
                self.read_on();
            }
        } else if world.one_in(self.one_in) {
            self.read(self.bytes_max);
        }
    }

    fn read_on(&mut self) {
        while (self.bytes.len() as u64) < self.spool.progress().bytes {
            self.read(100_000);
        }
    }

    /// Reads to the end. A replica that is woken must have everything already.
    fn read_all(mut self) -> Vec<u8> {
        if self.woken.as_ref().is_none_or(|woken| woken.load(Ordering::Relaxed)) {
            self.read_on();
        }
        assert_eq!(self.bytes.len() as u64, self.spool.progress().bytes, "it was not woken at the end");
        self.bytes
    }
}

/// Replaces the snapshot file with what was read, and loads it.
fn load(world: &mut World, main: &mut Client, bytes: &[u8]) -> Value {
    let disk = world.disk().disk();
    let file = disk.open(&Path::new(".").join("dump.rdb"), Open::Empty).expect("the disk is good");
    file.write_all_at(0, bytes).expect("the disk is good");
    ok(world, main, "DEBUG RELOAD NOSAVE");
    ok(world, main, "DEBUG DIGEST")
}

/// Creates data of every kind, and collections that are saved in parts.
fn fill(world: &mut World, main: &mut Client, clients: &mut [Client], generator: &mut Generator) {
    for _ in 0..BATCHES_BEFORE {
        let Batch { requests, .. } = generator.batch();
        let number = world.below(clients.len());
        requests.iter().for_each(|request| clients[number].send(request));
    }
    world.settle(|world| clients.iter_mut().for_each(|client| drop(world.pump(client))));
    add_large(world, main);
}

fn add_large(world: &mut World, main: &mut Client) {
    let numbers = (0..400).map(|number| number.to_string());
    ok(world, main, "DEL large long");
    world.call(main, &request("RPUSH", ["large".to_owned()].into_iter().chain(numbers)));
    ok(world, main, "SETRANGE long 70000 x");
    world.call(main, &request("FUNCTION", ["LOAD", "REPLACE", LIBRARY]));
}

fn some_request(world: &mut World, generator: &mut Generator) -> Vec<Request> {
    let line = |text: &str| vec![resp::split_args(text.as_bytes()).expect("words")];
    match world.below(30) {
        0 => line("FLUSHALL"),
        1..=2 => line("SWAPDB 0 1"),
        3..=6 => line("LPOP large"),
        7 => line("SETRANGE long 3 y"),
        _ => generator.batch().requests,
    }
}

/// Lets clients write while readers read, to the end.
fn write_on(
    world: &mut World,
    spool: &Spool,
    readers: &mut Vec<Reader>,
    clients: &mut [Client],
    generator: &mut Generator,
) -> SpoolState {
    let first_event = world.event;
    while spool.progress().state == SpoolState::Writing {
        assert!(world.event < first_event + EVENTS_MAX, "it comes to no end");
        for client in &mut *clients {
            if client.unanswered() < 20 && !client.has_ended {
                some_request(world, generator).iter().for_each(|request| client.send(request));
            }
        }
        for _ in 0..20 {
            clients.iter_mut().for_each(|client| drop(world.pump(client)));
            readers.iter_mut().for_each(|reader| reader.go_on(world));
            world.step();
        }
        if readers.len() > 1 && world.one_in(200) {
            let gone = world.below(readers.len());
            readers.remove(gone);
        }
    }
    spool.progress().state
}

/// Makes the disk slow, and perhaps makes it fail.
fn disturb(world: &World, entropy: &mut Entropy) -> bool {
    let fails = entropy.one_in(4);
    world.disk().set_faults(DiskFaults {
        short_write_one_in: 3,
        hang_one_in: 10,
        hang_ns_max: 50_000_000,
        write_error_one_in: if fails { 10 } else { 0 },
        ..DiskFaults::default()
    });
    fails
}

#[test]
fn replicas_read_what_there_was_at_the_cut() {
    let table = Table::new(commands::FAMILIES);
    let (mut changed_count, mut failed_count, mut refused_count) = (0, 0, 0);
    for_each_seed("snapshots that replicas read", 30, |mut entropy| {
        let setup = Setup::any(&mut entropy);
        let mut generator = Generator::new(entropy.next_u64(), &table);
        let mut faults = Entropy::from_seed(entropy.next_u64());
        let mut world = World::new(entropy, &setup);
        let mut clients: Vec<Client> = (0..4).map(|_| world.connect()).collect();
        let mut main = world.connect();
        fill(&mut world, &mut main, &mut clients, &mut generator);
        world.settle(|_| {});
        let at_cut = ok(&mut world, &mut main, "DEBUG DIGEST");
        let mut saves_before = world.info(&mut main)["rdb_saves"];
        world.settle(|_| {});
        let fails = disturb(&world, &mut faults);
        let spool = world.server().begin_spool(Content::Redis).expect("nobody is in the way");
        assert!(world.server().begin_spool(Content::Redis).is_none(), "there is one at a time");
        let mut readers: Vec<Reader> = (0..3).map(|_| Reader::any(&spool, &mut world)).collect();
        readers.push(Reader::when_woken(&spool));
        let is_shown = world.info(&mut main)["rdb_bgsave_in_progress"] == 1;
        assert!(is_shown || spool.progress().state != SpoolState::Writing, "INFO does not show it");
        if !fails {
            let line = ["BGSAVE", "BGSAVE SCHEDULE", "SAVE"][world.below(3)];
            let reply = call(&mut world, &mut main, line);
            if spool.progress().state == SpoolState::Writing {
                assert_eq!(reply, Value::Error(IN_PROGRESS.into()), "{line}");
                refused_count += 1;
            }
            saves_before += u64::from(!matches!(reply, Value::Error(_)));
        }
        let state = write_on(&mut world, &spool, &mut readers, &mut clients, &mut generator);
        world.disk().heal();
        clients.clear();
        world.settle(|_| {});
        assert!(fails || state == SpoolState::Complete, "it failed for no reason");
        let info = world.info(&mut main);
        assert_eq!((info["rdb_bgsave_in_progress"], info["rdb_saves"]), (0, saves_before));
        let files = world.disk().disk().list(Path::new(".")).expect("there is a directory");
        assert!(!files.iter().any(|name| name.to_string_lossy().starts_with("temp-")), "{files:?}");
        if state == SpoolState::Failed {
            failed_count += 1;
            return;
        }
        let now = ok(&mut world, &mut main, "DEBUG DIGEST");
        changed_count += usize::from(now != at_cut);
        drop(spool);
        for bytes in readers.into_iter().map(Reader::read_all) {
            assert_eq!(load(&mut world, &mut main, &bytes), at_cut, "it is another than the data at the cut");
        }
    });
    println!("{changed_count} worlds had changed, {failed_count} failed, {refused_count} refused a save");
    assert!(changed_count > 0 && failed_count > 0 && refused_count > 0);
}

#[test]
fn without_data_it_has_the_functions() {
    for_each_seed("functions that replicas read", 5, |mut entropy| {
        let setup = Setup::any(&mut entropy);
        let mut world = World::new(entropy, &setup);
        let mut main = world.connect();
        add_large(&mut world, &mut main);
        world.settle(|_| {});
        let spool = world.server().begin_spool(Content::Functions).expect("nobody is in the way");
        world.settle(|_| {});
        assert_eq!(spool.progress().state, SpoolState::Complete);
        let bytes = Reader::any(&spool, &mut world).read_all();
        world.call(&mut main, &request("FUNCTION", ["FLUSH"]));
        load(&mut world, &mut main, &bytes);
        assert_eq!(ok(&mut world, &mut main, "DBSIZE"), Value::Int(0));
        assert_eq!(ok(&mut world, &mut main, "FCALL answer 0"), Value::Int(42));
    });
}

#[test]
fn a_save_waits_for_what_replicas_read() {
    for_each_seed("saves and replicas", 10, |mut entropy| {
        let mut setup = Setup::any(&mut entropy);
        setup.has_own_format = entropy.one_in(2);
        let mut world = World::new(entropy, &setup);
        let mut main = world.connect();
        add_large(&mut world, &mut main);
        world.settle(|_| {});
        ok(&mut world, &mut main, "BGSAVE");
        let spool = loop {
            let saves = world.info(&mut main)["rdb_saves"];
            if let Some(spool) = world.server().begin_spool(Content::Redis) {
                break spool;
            }
            assert_eq!(saves, 0, "nothing is being saved");
            world.run_for(1, |_| {});
        };
        let reader = Reader::any(&spool, &mut world);
        world.settle(|_| {});
        // The snapshot is complete, though the reader is not.
        ok(&mut world, &mut main, "BGSAVE");
        world.settle(|_| {});
        assert_eq!(world.info(&mut main)["rdb_saves"], 2);
        let at_cut = ok(&mut world, &mut main, "DEBUG DIGEST");
        assert_eq!(load(&mut world, &mut main, &reader.read_all()), at_cut);
    });
}

#[test]
fn a_checkpoint_waits_for_what_replicas_read() {
    let mut scheduled_count = 0;
    for_each_seed("checkpoints and replicas", 10, |mut entropy| {
        let mut setup = Setup::any(&mut entropy);
        setup.journal = Some(Journal::any(&mut entropy, Sync::EverySecond));
        let mut world = World::new(entropy, &setup);
        let mut main = world.connect();
        add_large(&mut world, &mut main);
        world.settle(|_| {});
        let spool = loop {
            match world.server().begin_spool(Content::Redis) {
                Some(spool) => break spool,
                None => world.run_for(1, |_| {}),
            }
        };
        let count = world.info(&mut main)["aof_rewrites"];
        let reply = ok(&mut world, &mut main, "BGREWRITEAOF");
        if spool.progress().state == SpoolState::Writing {
            assert_eq!(reply.to_string(), "Background append only file rewriting scheduled");
            scheduled_count += 1;
        }
        world.settle(|_| {});
        assert_eq!(spool.progress().state, SpoolState::Complete);
        assert!(world.info(&mut main)["aof_rewrites"] > count, "it did not come after");
    });
    assert!(scheduled_count > 0);
}

#[test]
fn the_power_fails_while_replicas_read() {
    for_each_seed("power failures while replicas read", 20, |mut entropy| {
        let setup = Setup::any(&mut entropy);
        let mut world = World::new(entropy, &setup);
        let mut main = world.connect();
        add_large(&mut world, &mut main);
        world.settle(|_| {});
        let saved = ok(&mut world, &mut main, "DEBUG DIGEST");
        ok(&mut world, &mut main, "SAVE");
        ok(&mut world, &mut main, "SET key new");
        world.settle(|_| {});
        let spool = world.server().begin_spool(Content::Redis).expect("nobody is in the way");
        let operations = world.disk().operations() + world.below(12) as u64;
        while world.disk().operations() < operations && spool.progress().state == SpoolState::Writing {
            world.step();
        }
        world.crash();
        drop(spool);
        let mut main = world.connect();
        assert_eq!(ok(&mut world, &mut main, "DEBUG DIGEST"), saved);
        let files = world.disk().disk().list(Path::new(".")).expect("there is a directory");
        assert_eq!(files, ["dump.rdb"], "a file of before is left");
    });
}

#[test]
fn redis_loads_what_replicas_read() {
    if oracle().is_none() {
        return;
    }
    for_each_seed("snapshots that redis-server reads", 4, |mut entropy| {
        let setup = Setup::any(&mut entropy);
        let mut world = World::new(entropy, &setup);
        let mut main = world.connect();
        add_large(&mut world, &mut main);
        for number in 0..200 {
            for line in [
                format!("SET string:{number} {number}"),
                format!("HSET hash:{} field:{number} {number}", number % 9),
                format!("SADD set:{} {number} m{number}", number % 9),
                format!("ZADD zset:{} {number} m{number}", number % 3),
                format!("XADD stream:{} {number}-1 field {number}", number % 3),
                format!("APPEND text {number}"),
            ] {
                ok(&mut world, &mut main, &line);
            }
        }
        ok(&mut world, &mut main, "COPY large large DB 3");
        world.settle(|_| {});
        let at_cut = ok(&mut world, &mut main, "DEBUG DIGEST");
        let spool = world.server().begin_spool(Content::Redis).expect("nobody is in the way");
        let mut other = world.connect();
        while spool.progress().state == SpoolState::Writing {
            if other.unanswered() < 10 {
                let number = world.below(200);
                other.send(&request("APPEND", [format!("string:{number}"), "new".to_owned()]));
                other.send(&request("LPOP", ["large"]));
            }
            world.pump(&mut other);
            world.step();
        }
        let bytes = Reader::any(&spool, &mut world).read_all();
        let scratch = Scratch::new("spool");
        std::fs::write(scratch.path("dump.rdb"), bytes).expect("a file");
        let redis = Server::redis_with(&["--dir", &scratch.path(""), "--dbfilename", "dump.rdb"]);
        let redis = redis.expect("it loads it");
        let mut client = redis.client();
        check(&mut client, "DEBUG DIGEST", &at_cut.to_string());
        check(&mut client, "FCALL answer 0", "(integer) 42");
        world.settle(|world| drop(world.pump(&mut other)));
    });
}
