//! A disk that fills up under the journal: a small file system, visible to the process that mounted it and to servers that enter its
//! namespace.
//!
//! ```text
//! segments, 192 MiB in all │ a little for the rest │ ballast: room for a segment │ ballast: room for a segment
//! ```
//!
//! Commands that write are refused with a reason, reads continue, kill -9 loses nothing that was acknowledged, and writes resume by
//! themselves when there is room: after the ballast is removed, or with segments that a new base has freed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use blackbox::{PATIENCE, Scratch, Server, StartError, eventually};
use resp::Value;
use rustix::process::Signal;
use transcript::Socket;

const MIB: usize = 1 << 20;
const BALLAST_BYTES: usize = 66 * MIB;
const DISK_BYTES: usize = (3 * 64 + 4) * MIB + 2 * BALLAST_BYTES;
const VALUE_BYTES: usize = MIB;
/// Number of keys, which are written in turn.
const KEYS: usize = 20;
/// More writes than all segments have room for.
const WRITES_MAX: usize = 400;
/// Most system calls in two seconds for a server that only waits for room. One that keeps trying makes a hundred times as many.
const CALLS_MAX: u64 = 3_000;
/// A reply that takes longer than this is waiting for the disk.
const HELD: Duration = Duration::from_millis(300);

/// A separate file system, which disappears with the process that mounted it.
struct SmallDisk {
    holder: Child,
    _scratch: Scratch,
    folder: String,
    /// Starts a program in the namespace that has it.
    launcher: Vec<String>,
}

impl SmallDisk {
    /// `None` if nothing can be mounted.
    fn mount(test: &str) -> Option<SmallDisk> {
        let scratch = Scratch::new(test);
        let folder = scratch.path("disk");
        fs::create_dir(&folder).expect("the folder can be made");
        // As a user with a namespace of its own, or as root.
        for (words, enter) in [("-rm", &["--user", "--preserve-credentials"][..]), ("-m", &[])] {
            let script =
                format!("mount -t tmpfs -o size={DISK_BYTES} none {folder} && echo ready && exec cat");
            let spawned = Command::new("unshare")
                .args([words, "sh", "-c", &script])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn();
            let Ok(mut holder) = spawned else { break };
            let mut line = String::new();
            let output = holder.stdout.take().expect("it is piped");
            if BufReader::new(output).read_line(&mut line).is_ok() && line == "ready\n" {
                let target = holder.id().to_string();
                let launcher = [&["nsenter", "--target", &target, "--mount"], enter].concat();
                let launcher = launcher.into_iter().map(str::to_owned).collect();
                let disk = SmallDisk { holder, _scratch: scratch, folder, launcher };
                (0..2).for_each(|number| {
                    fs::write(disk.ballast(number), vec![0; BALLAST_BYTES]).expect("there is room");
                });
                return Some(disk);
            }
            holder.wait().expect("it is our child");
        }
        println!("SKIPPED: no file system can be mounted, neither in a name space of a user nor as root");
        None
    }

    fn ballast(&self, number: usize) -> String {
        format!("/proc/{}/root{}/ballast-{number}", self.holder.id(), self.folder)
    }

    /// Takes the rest of the room, which may suffice for a small segment.
    fn fill_up(&self) {
        let mut file = fs::File::create(self.ballast(2)).expect("there is room for a name");
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Removes ballast, to make room for a segment.
    fn relieve(&self, number: usize) {
        fs::remove_file(self.ballast(number)).expect("it is there");
    }

    /// From now on it can only be read, or written as well.
    fn remount(&self, how: &str) {
        let words = ["mount", "-o", &format!("remount,{how}"), &self.folder].map(str::to_owned);
        let words = [&self.launcher[..], &words].concat();
        let status = Command::new(&words[0]).args(&words[1..]).status().expect("it can be run");
        assert!(status.success(), "{words:?}");
    }

    /// A server that does not make a new base by itself.
    fn start(&self, policy: &str) -> Result<Server, StartError> {
        // With a slow log thread, as in a debug build, pending data would fill the room that is made later.
        let bounds = ["--auto-aof-rewrite-percentage", "0", "--journal-pending-max", "2mb"];
        let words = [&["--appendonly", "yes", "--appendfsync", policy], &bounds[..]].concat();
        let options = [&words[..], &["--proactor-threads=2", "--dir", &self.folder]].concat();
        Server::launch(&self.launcher.iter().map(String::as_str).collect::<Vec<_>>(), &options)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The acknowledged number for each key, and the requests without a reply.
#[derive(Default)]
struct Account {
    acknowledged: BTreeMap<usize, usize>,
    held: Option<(usize, usize)>,
    sent: usize,
}

fn value(number: usize) -> Vec<u8> {
    let mut value = format!("{number} ").into_bytes();
    value.resize(VALUE_BYTES, b'v');
    value
}

/// The reply; `None` if it does not arrive within this time.
#[track_caller]
fn reply(socket: &mut Socket, patience: Duration) -> Option<Value> {
    socket.stream.set_read_timeout(Some(patience)).expect("sockets have a timeout");
    match socket.receive() {
        Ok(value) => Some(value),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => None,
        Err(error) => panic!("no reply: {error}"),
    }
}

/// The number stored under a key, if a reply arrives now. `Some(None)`: there is no such key.
#[track_caller]
fn number(server: &Server, key: usize, patience: Duration) -> Option<Option<usize>> {
    let mut socket = server.connect().expect("it listens");
    socket.send(&[vec![b"GET".to_vec(), format!("key:{key}").into_bytes()]]).expect("it listens");
    match reply(&mut socket, patience)? {
        Value::Bulk(text) => {
            let end = text.iter().position(|byte| *byte == b' ').expect("there is a blank");
            Some(String::from_utf8_lossy(&text[..end]).parse().ok())
        }
        Value::Null => Some(None),
        other => panic!("key:{key}: {other}"),
    }
}

impl Account {
    /// Writes one key.
    fn write(&mut self, server: &Server, number: usize) {
        let mut writer = server.connect().expect("it listens");
        let words =
            [b"SET".to_vec(), format!("key:{number}").into_bytes(), format!("{number} ").into_bytes()];
        writer.send(&[words.to_vec()]).expect("it listens");
        assert_eq!(reply(&mut writer, PATIENCE).map(|value| value.to_string()).as_deref(), Some("OK"));
        self.acknowledged.insert(number, number);
    }

    /// Writes until the disk is full. With `always`, the last write has no reply then: returns its connection.
    fn fill(&mut self, server: &Server) -> Option<Socket> {
        let mut writer = server.connect().expect("it listens");
        let mut probe = server.client();
        for _ in 0..WRITES_MAX {
            self.sent += 1;
            let (key, number) = (self.sent % KEYS, self.sent);
            let request = vec![b"SET".to_vec(), format!("key:{key}").into_bytes(), value(number)];
            writer.send(&[request]).expect("it listens");
            let answer = loop {
                let answer = reply(&mut writer, HELD);
                if answer.is_some() || probe.show("PING").contains("MISCONF") {
                    break answer;
                }
            };
            match answer {
                Some(Value::Simple(text)) if text == b"OK" => drop(self.acknowledged.insert(key, number)),
                Some(refusal) => {
                    let refusal = refusal.to_string();
                    assert!(
                        refusal.starts_with("(error) MISCONF Errors writing to the AOF file: "),
                        "{refusal}"
                    );
                    assert!(refusal.contains("No space left on device"), "{refusal}");
                    let lost = probe.info("persistence", "crash_now_loses");
                    assert!(lost.contains("; write commands have been refused since 20"), "{lost}");
                    assert!(lost.contains("No space left on device"), "{lost}");
                    return None;
                }
                None => {
                    self.held = Some((key, number));
                    return Some(writer);
                }
            }
        }
        panic!("the disk has room for everything");
    }

    /// Checks that the outstanding reply has arrived.
    #[track_caller]
    fn settle(&mut self, writer: Option<Socket>) {
        let Some(mut writer) = writer else { return };
        let answer = reply(&mut writer, PATIENCE).map(|value| value.to_string());
        assert_eq!(answer.as_deref(), Some("OK"), "a write that waited for room");
        let (key, number) = self.held.take().expect("a write waited");
        self.acknowledged.insert(key, number);
    }

    /// Checks that everything acknowledged is there, and nothing else except what has no reply. Returns how many keys could be read.
    #[track_caller]
    fn check(&self, server: &Server, patience: Duration) -> usize {
        let mut told = 0;
        for (key, acknowledged) in &self.acknowledged {
            let Some(found) = number(server, *key, patience) else { continue };
            told += 1;
            let held = self.held.filter(|(held, _)| held == key).map(|(_, number)| number);
            assert!(
                found == Some(*acknowledged) || held.is_some() && found == held,
                "key:{key} is {found:?}: {acknowledged} was acknowledged, {held:?} has no reply"
            );
        }
        told
    }
}

/// How many write calls the server's process has made.
fn write_calls(server: &Server) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/io", server.process_id())).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix("syscw: ")).expect("there is a count");
    line.parse().expect("it is a number")
}

/// Writes are refused for this reason, and the log says so.
#[track_caller]
fn expect_refusal(server: &Server, why: &[&str]) {
    let refusal = server.client().show("SET other x");
    let log = server.log();
    for part in [&["MISCONF Errors writing to the AOF file: "], why].concat() {
        assert!(refusal.contains(part), "no {part} in {refusal}");
    }
    assert!(log.contains("write commands are refused, and reads are served: "), "{log}");
}

/// Everything that was acknowledged is with the system.
#[track_caller]
fn expect_written(server: &Server) {
    eventually("all is written", || server.client().info("persistence", "aof_buffer_length") == "0");
}

#[track_caller]
fn expect_writes(server: &Server) {
    let mut client = server.client();
    eventually("writes go on", || client.show("SET other x") == "OK");
}

fn runs_full_and_goes_on(policy: &str) {
    let Some(disk) = SmallDisk::mount(&format!("journal-full-{policy}")) else { return };
    let mut account = Account::default();
    let mut server = disk.start(policy).unwrap_or_else(|error| panic!("{error}"));
    let writer = account.fill(&server);
    let calls = write_calls(&server);
    // With `always`, a pending write holds back replies to reads of its shard.
    let told = account.check(&server, HELD);
    assert!(told > KEYS / 2, "reads go on: {told} of {KEYS} keys are told of");
    std::thread::sleep(Duration::from_secs(2));
    let calls = write_calls(&server) - calls;
    assert!(calls < CALLS_MAX, "{calls} calls that write");
    let log = server.log();
    assert_eq!(log.matches("write commands are refused: ").count(), 1, "{log}");

    // Room is made.
    disk.relieve(0);
    expect_writes(&server);
    account.settle(writer);
    eventually("the log says so", || {
        server.log().contains("the journal can be written again: writes are accepted")
    });
    assert_eq!(account.check(&server, PATIENCE), KEYS);

    // Full again, and then killed.
    drop(account.fill(&server));
    if policy == "everysec" {
        // Acknowledged changes have room, and are written soon.
        expect_written(&server);
    }
    server.signal(Signal::KILL);
    server.wait();
    // A start writes the manifest again, and needs a segment of its own. Without room, what is there is served.
    disk.fill_up();
    let mut server = disk.start(policy).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(account.check(&server, PATIENCE), KEYS);
    expect_refusal(&server, &["cannot write it", "No space left on device", "(make room on the disk)"]);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    (1..=2).for_each(|number| disk.relieve(number));
    let server = disk.start(policy).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(account.check(&server, PATIENCE), KEYS);
    account.held = None;
    expect_writes(&server);

    // A new base frees segments, which are reused.
    let writer = account.fill(&server);
    let reply = server.client().show("BGREWRITEAOF");
    assert_eq!(reply, "Background append only file rewriting started");
    expect_writes(&server);
    account.settle(writer);
    assert_eq!(account.check(&server, PATIENCE), KEYS);
}

/// A server that finds its disk read-only serves what is there, and writes when that is over.
#[test]
fn a_disk_that_is_read_only_at_the_start() {
    let Some(disk) = SmallDisk::mount("journal-read-only") else { return };
    let mut account = Account::default();
    let mut server = disk.start("everysec").unwrap_or_else(|error| panic!("{error}"));
    (0..3).for_each(|number| account.write(&server, number));
    expect_written(&server);
    server.signal(Signal::KILL);
    server.wait();
    disk.remount("ro");
    for _ in 0..2 {
        let mut server = disk.start("everysec").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(account.check(&server, PATIENCE), 3);
        expect_refusal(&server, &["Read-only file system"]);
        server.signal(Signal::KILL);
        server.wait();
    }
    let mut server = disk.start("everysec").unwrap_or_else(|error| panic!("{error}"));
    disk.remount("rw");
    (0..2).for_each(|number| disk.relieve(number));
    expect_writes(&server);
    eventually("it has its base", || {
        server.client().info("persistence", "aof_last_bgrewrite_status") == "ok"
    });
    account.write(&server, 7);
    expect_written(&server);
    server.signal(Signal::KILL);
    server.wait();
    let server = disk.start("everysec").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(account.check(&server, PATIENCE), 4);
}

/// Replies of its primary wait for the replica's disk: clients that write get an error that it accepts nothing, and
/// no client waits for ever.
#[test]
fn a_full_disk_of_a_replica() {
    let Some(disk) = SmallDisk::mount("journal-full-replica") else { return };
    let options =
        ["--repl-sync-replicas", "1", "--repl-sync-ack", "durable", "--repl-diskless-sync-delay", "0"];
    let primary = Server::start(2, "auto", &options);
    let replica = disk.start("always").unwrap_or_else(|error| panic!("{error}"));
    // The copied data gets a journal of its own.
    disk.relieve(0);
    assert_eq!(replica.client().show(&format!("REPLICAOF 127.0.0.1 {}", primary.port())), "OK");
    expect_writes(&primary);
    let mut writer = primary.connect().expect("it listens");
    let refusal = "(error) NOREPLICAS Not enough good replicas to write: repl-sync-ack is durable";
    let refuses = || {
        let mut probe = primary.connect().expect("it listens");
        probe.send(&[vec![b"DEL".to_vec(), b"nothing".to_vec()]]).expect("it listens");
        // A request that arrived just before the refusals waits for the disk.
        reply(&mut probe, HELD).is_some_and(|answer| answer.to_string().starts_with(refusal))
    };
    let (mut acknowledged, mut held) = (0, false);
    for number in 1..WRITES_MAX {
        writer.send(&[vec![b"SET".to_vec(), b"key".to_vec(), value(number)]]).expect("it listens");
        let answer = loop {
            let answer = reply(&mut writer, HELD);
            if answer.is_some() || refuses() {
                break answer;
            }
        };
        match answer.map(|value| value.to_string()) {
            Some(text) if text == "OK" => acknowledged = number,
            Some(text) => {
                assert!(text.starts_with(refusal), "{text}");
                break;
            }
            None => {
                held = true;
                break;
            }
        }
    }
    assert!((1..WRITES_MAX - 1).contains(&acknowledged), "the disk has room for {acknowledged}");
    assert!(replica.client().show("PING").contains("MISCONF"), "it is the disk");
    // Room is made.
    disk.relieve(1);
    expect_writes(&primary);
    if held {
        assert_eq!(reply(&mut writer, PATIENCE).map(|value| value.to_string()).as_deref(), Some("OK"));
    }
}

#[test]
fn a_full_disk_with_always() {
    runs_full_and_goes_on("always");
}

#[test]
fn a_full_disk_with_everysec() {
    runs_full_and_goes_on("everysec");
}
