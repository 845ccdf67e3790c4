//! Tests of the commands without a server: with a thread that records what it is asked for.

use std::sync::atomic::AtomicBool;

use config::Id;
use config::{MAXMEMORY, Settings};
use engine::{Client, CommandResult, Entry, Host, Local, OwnCall, function_of};
use persistence::Snapshots;
use proactor::{Clock, Disk};
use process::shutdown::Shutdown;
use resp::{Output, Proto};

use crate::{Controls, ENTRIES, OperatorTask, Server};

/// A thread that cannot obey one setting.
struct Thread {
    server: Server,
    is_local: bool,
    cannot_obey: Option<Id>,
    asked_for: Vec<String>,
}

impl Host for Thread {
    fn run_own(&mut self, call: OwnCall<'_, '_>) -> CommandResult {
        let mut controls = Controls {
            server: self.server,
            is_local: self.is_local,
            has_journal: !self.is_local,
            has_checkpoint: false,
            busy_error: None,
            user_lines: &|| Vec::new(),
            obey: &mut |_, changed| {
                let mut failed = changed.filter(|id| Some(*id) == self.cannot_obey);
                failed.next().map_or(Ok(()), |id| Err((id, "it cannot be".to_owned())))
            },
            carry_out: &mut |_, task| {
                self.asked_for.push(format!("{task:?}"));
                match task {
                    OperatorTask::Save => Err("the disk is full".to_owned()),
                    OperatorTask::ReloadJournal => Err("there is none".to_owned()),
                    _ => Ok(()),
                }
            },
        };
        function_of(ENTRIES, call.command)(&mut call.on(&mut controls))
    }
}

/// A server with settings of their own; DEBUG and MODULE are allowed to clients on its machine.
fn thread(is_local: bool) -> Thread {
    let args = ["--enable-debug-command", "local", "--enable-module-command", "local"].map(str::to_owned);
    let Ok(config::Invocation::Serve(arguments)) = config::Invocation::parse(&config::TABLE, &args) else {
        panic!("it is the command line of a server")
    };
    let settings = Settings::read(&arguments).expect("they are right").0;
    let snapshots = Snapshots::new(Clock::real(), true, persistence::Tuning::SMALL);
    let server = Server {
        settings: Box::leak(Box::new(settings)),
        snapshots: Box::leak(Box::new(snapshots)),
        disk: Box::leak(Box::new(Disk::real())),
        active_expire: Box::leak(Box::new(AtomicBool::new(true))),
        is_checkpoint_scheduled: Box::leak(Box::new(AtomicBool::new(false))),
        shutdown: Box::leak(Box::new(Shutdown::new(1))),
    };
    Thread { server, is_local, cannot_obey: None, asked_for: Vec::new() }
}

/// The reply to a line, on one line.
fn reply(thread: &mut Thread, line: &str) -> String {
    let entries: Vec<Entry> = ENTRIES.iter().map(Entry::of_host).collect();
    let mut store = Local::new(&[Vec::leak(entries)]);
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let mut out = Output::new();
    store.run(Client::internal(0, Proto::Resp2), &args, thread, &mut out);
    String::from_utf8_lossy(&out.to_vec()).replace("\r\n", " ").trim_end().to_owned()
}

#[test]
fn a_change_that_cannot_be_obeyed_is_undone() {
    let thread = &mut thread(true);
    assert_eq!(reply(thread, "CONFIG SET maxmemory 10mb"), "+OK");
    assert_eq!(reply(thread, "CONFIG GET maxmemory"), "*2 $9 maxmemory $8 10485760");
    thread.cannot_obey = Some(MAXMEMORY);
    let refused = "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - it cannot be";
    assert_eq!(reply(thread, "CONFIG SET timeout 7 maxmemory 20mb"), refused);
    assert_eq!(reply(thread, "CONFIG GET maxmemory timeout"), "*4 $9 maxmemory $8 10485760 $7 timeout $1 0");
}

#[test]
fn debug_and_module_are_for_those_whom_settings_allow_them() {
    let (near, far) = (&mut thread(true), &mut thread(false));
    for (line, setting) in
        [("DEBUG SLEEP 0", "enable-debug-command"), ("MODULE LOAD x", "enable-module-command")]
    {
        let refused = reply(far, line);
        assert!(refused.contains("command not allowed.") && refused.contains(setting), "{refused}");
    }
    assert_eq!(reply(near, "DEBUG SLEEP 0"), "+OK");
    let refused = "-ERR Error loading the extension. Please check the server logs.";
    assert_eq!(reply(near, "MODULE LOAD x"), refused);
}

#[test]
fn the_thread_does_what_is_asked_for() {
    let thread = &mut thread(true);
    for (line, expected, asked_for) in [
        ("CONFIG RESETSTAT", "+OK", "ResetStats"),
        ("DEBUG CHANGE-REPL-ID", "+OK", "RenameStream"),
        (
            "SHUTDOWN NOW NOSAVE",
            "",
            "ShutDown(How { saves: Some(false), is_now: true, is_forced: false, is_safe: false, fails_over: false })",
        ),
        ("DEBUG RELOAD", "+OK", "Reload { saves: true }"),
        ("DEBUG RELOAD NOSAVE", "+OK", "Reload { saves: false }"),
    ] {
        assert_eq!(reply(thread, line), expected, "{line}");
        assert_eq!(thread.asked_for.pop().as_deref(), Some(asked_for), "{line}");
    }
    assert_eq!(reply(thread, "DEBUG LOADAOF"), "-ERR there is none");
    assert_eq!(reply(thread, "SAVE"), "-ERR the disk is full");
    assert_eq!(reply(thread, "SHUTDOWN ABORT"), "-ERR No shutdown in progress.");
    assert_eq!(reply(thread, "BGREWRITEAOF"), "-ERR There is no journal to rewrite: appendonly is no");
    assert_eq!(reply(thread, "CONFIG REWRITE"), "-ERR The server is running without a config file");
}
