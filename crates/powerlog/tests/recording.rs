//! Records real programs: this test's own binary, whose calls do not go through the C library, and a shell.

use std::fs::{self, File};
use std::io::{IoSlice, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use powerlog::{Bytes, Disk, Event, Halt, Promise, Recording, What};
use rustix::io::ReadWriteFlags;
use scratch::Scratch;

/// The environment variable that makes this binary the recorded program, and names its folder.
const FOLDER: &str = "POWERLOG_TEST_FOLDER";
/// The environment variable that makes this binary the program of which a thread is stopped, and names its
/// folder.
const HALT_FOLDER: &str = "POWERLOG_TEST_HALT_FOLDER";

fn record(test: &str, make: impl FnOnce(&Path) -> Command) -> (Scratch, Vec<What>) {
    let scratch = Scratch::new(test);
    let folder = scratch.folder();
    let next = AtomicU64::new(1);
    let moment = move || next.fetch_add(1, Ordering::Relaxed);
    let events = Recording::start(make(folder), folder, moment)
        .expect("it starts")
        .finish()
        .expect("it can be traced");
    assert!(events.iter().all(|event| event.begin < event.end), "{events:?}");
    assert!(events.is_sorted_by_key(|event| event.end), "{events:?}");
    let mut disk = Disk::new(&events, Promise::Any);
    disk.advance(u64::MAX);
    assert_eq!(disk.differences(folder).expect("files can be written"), [""; 0], "{events:?}");
    (scratch, events.into_iter().map(|Event { what, .. }| what).collect())
}

/// The calls of this binary that are recorded: those of rustix, which do not go through the C library, and
/// those of another thread.
fn be_recorded(folder: &Path) {
    let file = File::create(folder.join("log")).expect("files can be written");
    rustix::io::pwritev2(&file, &[IoSlice::new(b"ab"), IoSlice::new(b"cd")], 2, ReadWriteFlags::DSYNC)
        .expect("files can be written");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rustix::io::pwrite(&file, &[0; 3], 1).expect("files can be written");
            rustix::fs::fdatasync(&file).expect("files can be written");
        });
    });
    fs::rename(folder.join("log"), folder.join("journal")).expect("files can be written");
    File::open(folder).expect("files can be written").sync_all().expect("files can be written");
}

#[test]
fn every_call_is_seen_however_it_is_made() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return be_recorded(Path::new(&folder));
    }
    if !Recording::is_possible() {
        return;
    }
    let (_, seen) = record("own", |folder| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "every_call_is_seen_however_it_is_made"]).env(FOLDER, folder);
        command
    });
    let bytes = Bytes::Some(b"abcd".to_vec());
    let expected = [
        What::Create { path: "log".into(), file: 1 },
        What::Write { file: 1, offset: 2, bytes, is_durable: true },
        What::Write { file: 1, offset: 1, bytes: Bytes::Zeros(3), is_durable: false },
        What::Sync { file: 1 },
        What::Rename { from: "log".into(), to: "journal".into() },
        What::SyncDirectory { path: "".into() },
    ];
    assert_eq!(seen, expected);
}

#[test]
fn children_are_recorded_too() {
    if !Recording::is_possible() {
        return;
    }
    let script =
        "echo one > a; mkdir d; (echo two >> a; ln a d/b; echo three > d/b); mv d/b c; rm a; : > c; false";
    let (scratch, seen) = record("shell", |folder| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(folder);
        command
    });
    assert_eq!(fs::read(scratch.path("c")).unwrap(), b"");
    let appended =
        What::Write { file: 1, offset: 4, bytes: Bytes::Some(b"two\n".to_vec()), is_durable: false };
    assert!(seen.contains(&appended), "{seen:?}");
    assert_eq!(seen.last(), Some(&What::SetLength { file: 1, bytes: 0 }), "{seen:?}");
}

#[test]
fn what_was_not_recorded_is_noticed() {
    let scratch = Scratch::new("missed");
    let folder = scratch.folder();
    File::create(folder.join("a")).unwrap().write_all(b"x").unwrap();
    let events = [
        Event { begin: 1, end: 2, what: What::Create { path: "a".into(), file: 1 } },
        Event { begin: 3, end: 4, what: What::Create { path: "b".into(), file: 2 } },
    ];
    let mut disk = Disk::new(&events, Promise::Any);
    disk.advance(9);
    assert_eq!(disk.differences(folder).unwrap(), ["a: differs from byte 0 on", "b: nobody removed it"]);
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    for name in ["/nowhere/at-all", "no-such-program-anywhere"] {
        let started = Recording::start(Command::new(name), &std::env::temp_dir(), || 0);
        assert_eq!(started.err().map(|error| error.kind()), Some(std::io::ErrorKind::NotFound), "{name}");
    }
}

/// One thread stands still while the others continue. It continues when it is let go, and can be killed while
/// it stands still.
#[test]
fn one_thread_is_stopped_and_let_go() {
    if let Some(folder) = std::env::var_os(HALT_FOLDER) {
        return count_up(Path::new(&folder));
    }
    let scratch = Scratch::new("halt");
    let folder = scratch.folder();
    let mut command = Command::new(std::env::current_exe().expect("it is there"));
    command.args(["--exact", "one_thread_is_stopped_and_let_go"]).env(HALT_FOLDER, folder);
    let mut program = command.spawn().expect("it starts");
    let count = |name: &str| fs::metadata(folder.join(name)).map_or(0, |file| file.len());
    let grows = |name: &str, from: u64| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while count(name) <= from {
            assert!(std::time::Instant::now() < deadline, "{name} does not continue");
            std::thread::yield_now();
        }
    };
    grows("halted", 0);
    let halted = Halt::thread(program.id(), "halted");
    let Ok(halted) = halted else {
        program.kill().expect("it runs");
        program.wait().expect("it was started");
        return println!("SKIPPED: this system lets no process stop a thread of another");
    };
    let halt = halted.expect("there is such a thread");
    let (stood, went) = (count("halted"), count("free"));
    grows("free", went + 5);
    assert_eq!(count("halted"), stood, "it stands still");
    drop(halt);
    grows("halted", stood);
    let halt = Halt::thread(program.id(), "halted").expect("it could be stopped before");
    assert!(Halt::thread(program.id(), "nobody").expect("it runs").is_none());
    program.kill().expect("it runs");
    drop(halt);
    program.wait().expect("it is our child");
}

/// Two threads that extend files for ever.
fn count_up(folder: &Path) {
    std::thread::scope(|scope| {
        for name in ["halted", "free"] {
            let path = folder.join(name);
            let count = move || {
                let mut file = File::create(path).expect("files can be written");
                while file.write_all(b"x").is_ok() {
                    std::thread::yield_now();
                }
            };
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn_scoped(scope, count)
                .expect("it can start");
        }
    });
}
