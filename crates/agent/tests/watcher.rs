//! The process that proves the death of another one, with real processes.
//!
//! This program has no test harness, because it also is the server that is killed (`--parent`), and the watcher, which
//! is `/proc/self/exe` (`agent::watch`).
//!
//! A parent obeys the lines on its standard input, and answers each.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use agent::{StoreOptions, Watcher};
use config::{Invocation, Settings, TABLE};
use rustix::process::{Pid, Signal, kill_process};
use scratch::Scratch;
use topology::folder::FolderStore;
use topology::{History, Life, Store};

const LIFE: Life = Life(0xfeed);
/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a test looks for what must not happen.
const LOOKS: usize = 100;

type Test = fn(&Scratch);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(status) = agent::watch(&args) {
        return status;
    }
    if let [flag, folder] = &args[..]
        && flag == "--parent"
    {
        be_watched(folder);
        return ExitCode::SUCCESS;
    }
    let tests: &[(&str, Test)] = &[
        ("a_killed_process_is_proven_dead", a_killed_process_is_proven_dead),
        ("a_process_that_ends_is_proven_dead", a_process_that_ends_is_proven_dead),
        ("a_stopped_process_is_not_dead", a_stopped_process_is_not_dead),
        ("a_watcher_that_is_dropped_still_watches", a_watcher_that_is_dropped_still_watches),
        ("signals_do_not_end_the_watch", signals_do_not_end_the_watch),
        ("children_of_the_process_do_not_keep_it_alive", children_of_the_process_do_not_keep_it_alive),
        ("the_proof_is_written_when_the_store_is_back", the_proof_is_written_when_the_store_is_back),
        ("the_watcher_keeps_nothing_of_the_process", the_watcher_keeps_nothing_of_the_process),
        ("a_watcher_killed_before_is_noticed", a_watcher_killed_before_is_noticed),
    ];
    let wanted = args.iter().find(|arg| !arg.starts_with('-'));
    for (name, test) in
        tests.iter().filter(|(name, _)| wanted.is_none_or(|wanted| name.contains(wanted.as_str())))
    {
        let scratch = Scratch::new("watcher");
        test(&scratch);
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

fn options(folder: &str) -> StoreOptions {
    let args = [format!("--cluster-etcd=folder:{folder}")];
    let Ok(Invocation::Serve(arguments)) = Invocation::parse(&TABLE, &args) else { panic!("{folder}") };
    StoreOptions::of(&Settings::read(&arguments).unwrap().0).unwrap()
}

/// The process that is watched.
fn be_watched(folder: &str) {
    let mut watcher = Some(Watcher::start(&options(folder), &"a".parse().unwrap(), LIFE).unwrap());
    println!("{}", watcher.as_ref().unwrap().id());
    let mut children = Vec::new();
    for line in std::io::stdin().lines() {
        match line.unwrap().as_str() {
            "drop" => drop(watcher.take()),
            "child" => {
                let child = Command::new("sleep").arg("600").spawn().unwrap();
                println!("{}", child.id());
                // It outlives this process.
                children.push(child);
                continue;
            }
            "ask" => {
                while watcher.as_mut().unwrap().is_alive() {
                    std::thread::yield_now();
                }
            }
            "end" => return,
            other => panic!("{other}"),
        }
        println!("done");
    }
}

struct Parent {
    process: Child,
    output: BufReader<ChildStdout>,
    watcher: Pid,
}

impl Parent {
    fn start(folder: &str) -> Parent {
        let mut process = Command::new("/proc/self/exe")
            .args(["--parent", folder])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut parent = Parent { process, output, watcher: Pid::INIT };
        parent.watcher = pid(&parent.answer());
        parent
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the parent has ended");
        line.trim_end().to_owned()
    }

    fn order(&mut self, line: &str) -> String {
        writeln!(self.process.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.answer()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

fn store(folder: &str) -> FolderStore {
    FolderStore::open(Path::new(folder), &"darter".parse().unwrap(), History::default()).unwrap()
}

fn dead(folder: &str) -> BTreeSet<Life> {
    store(folder).read().unwrap().dead
}

#[track_caller]
fn comes(folder: &str) {
    until(|| dead(folder) == [LIFE].into());
}

#[track_caller]
fn comes_not(folder: &str) {
    for _ in 0..LOOKS {
        assert_eq!(dead(folder), BTreeSet::new());
    }
}

#[track_caller]
fn until(mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "it does not come");
        std::thread::yield_now();
    }
}

fn a_killed_process_is_proven_dead(scratch: &Scratch) {
    let folder = scratch.path("store");
    let mut parent = Parent::start(&folder);
    comes_not(&folder);
    parent.kill();
    comes(&folder);
    until(|| kill_process(parent.watcher, Signal::CONT).is_err());
}

fn a_process_that_ends_is_proven_dead(scratch: &Scratch) {
    let folder = scratch.path("store");
    let mut parent = Parent::start(&folder);
    writeln!(parent.process.stdin.as_mut().unwrap(), "end").unwrap();
    comes(&folder);
}

fn a_stopped_process_is_not_dead(scratch: &Scratch) {
    let folder = scratch.path("store");
    let mut parent = Parent::start(&folder);
    parent.signal(Signal::STOP);
    let stat = format!("/proc/{}/stat", parent.process.id());
    until(|| fs::read_to_string(&stat).unwrap().contains(") T "));
    comes_not(&folder);
    parent.signal(Signal::CONT);
    assert_eq!(parent.order("drop"), "done");
    comes_not(&folder);
}

fn a_watcher_that_is_dropped_still_watches(scratch: &Scratch) {
    let folder = scratch.path("store");
    let mut parent = Parent::start(&folder);
    assert_eq!(parent.order("drop"), "done");
    comes_not(&folder);
    parent.kill();
    comes(&folder);
}

fn signals_do_not_end_the_watch(scratch: &Scratch) {
    let folder = scratch.path("store");
    let mut parent = Parent::start(&folder);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        kill_process(parent.watcher, signal).unwrap();
    }
    comes_not(&folder);
    parent.kill();
    comes(&folder);
}

fn children_of_the_process_do_not_keep_it_alive(scratch: &Scratch) {
    let folder = scratch.path("store");
    let mut parent = Parent::start(&folder);
    let child = pid(&parent.order("child"));
    parent.kill();
    comes(&folder);
    kill_process(child, Signal::KILL).unwrap();
}

fn the_proof_is_written_when_the_store_is_back(scratch: &Scratch) {
    // No folder can be made below a file.
    let blocked = scratch.file("blocked", "");
    let folder = format!("{blocked}/store");
    let mut parent = Parent::start(&folder);
    parent.kill();
    fs::remove_file(&blocked).unwrap();
    fs::create_dir(&blocked).unwrap();
    comes(&folder);
}

fn the_watcher_keeps_nothing_of_the_process(scratch: &Scratch) {
    let folder = scratch.path("store");
    let parent = Parent::start(&folder);
    let watcher = format!("/proc/{}", parent.watcher.as_raw_nonzero());
    let is_nowhere =
        |number: u32| fs::read_link(format!("{watcher}/fd/{number}")).unwrap() == Path::new("/dev/null");
    until(|| is_nowhere(1) && is_nowhere(2));
    let open = |process: &str| -> Vec<_> {
        let files = fs::read_dir(format!("{process}/fd")).unwrap();
        files.filter_map(|file| fs::read_link(file.unwrap().path()).ok()).collect()
    };
    // The files that everything below the caller of this test has.
    let inherited = open("/proc/self");
    let is_own = |file: &PathBuf| file != Path::new("/dev/null") && !inherited.contains(file);
    let kept: Vec<_> = open(&watcher).into_iter().filter(is_own).collect();
    let stdin = fs::read_link(format!("{watcher}/fd/0")).unwrap();
    // The store is not open yet.
    assert_eq!(kept, [stdin]);
    assert_eq!(fs::read_link(format!("{watcher}/cwd")).unwrap(), Path::new("/"));
    let words = fs::read(format!("{watcher}/cmdline")).unwrap();
    assert_eq!(words, b"darter\0--cluster-watch\0");
    assert_eq!(fs::read(format!("{watcher}/environ")).unwrap(), b"");
    let stat = fs::read_to_string(format!("{watcher}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!(fields[3], parent.watcher.as_raw_nonzero().to_string(), "it leads a session");
}

fn a_watcher_killed_before_is_noticed(scratch: &Scratch) {
    let folder = scratch.path("store");
    let mut parent = Parent::start(&folder);
    kill_process(parent.watcher, Signal::KILL).unwrap();
    assert_eq!(parent.order("ask"), "done");
    comes_not(&folder);
}
