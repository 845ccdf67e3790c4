//! Tests of the commands without a server: with a door that records what it is asked for.

use std::sync::atomic::AtomicBool;

use commands::keys::populate::Population;
use config::Id;
use config::{MAXMEMORY, Settings};
use engine::{Client, CommandError, CommandResult, Entry, Host, Local, OwnCall, Run, Store, Tx};
use persistence::Snapshots;
use proactor::{Clock, Disk};
use process::shutdown::How;
use resp::{Output, Proto};

use crate::{Door, ENTRIES, Server};

/// A thread that cannot obey one setting.
struct Thread {
    server: Server,
    is_local: bool,
    cannot_obey: Option<Id>,
    asked_for: Vec<&'static str>,
}

impl Door for Thread {
    fn server(&self) -> Server {
        self.server
    }

    fn is_local(&mut self) -> bool {
        self.is_local
    }

    fn obey(&mut self, _: &mut Store, changed: &mut dyn Iterator<Item = Id>) -> Result<(), (Id, String)> {
        let mut failed = changed.filter(|id| Some(*id) == self.cannot_obey);
        failed.next().map_or(Ok(()), |id| Err((id, "it cannot be".to_owned())))
    }

    fn user_lines(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn reset_stats(&mut self) {
        self.asked_for.push("reset");
    }

    fn populate(&mut self, _: Population) {
        unreachable!("the client of these tests does not wait")
    }

    fn move_client(&mut self, _: u64, _: u16) -> CommandResult {
        unreachable!("the client of these tests does not wait")
    }

    fn reload(&mut self, _: &mut Tx, saves: bool) -> Result<(), String> {
        self.asked_for.push(if saves { "save and load" } else { "load" });
        Ok(())
    }

    fn save(&mut self, _: &mut Tx) -> Result<(), String> {
        Err("the disk is full".to_owned())
    }

    fn begin_save(&mut self, _: &mut Tx) -> Result<(), String> {
        unreachable!("the client of these tests does not wait")
    }

    fn begin_checkpoint(&mut self, _: &mut Tx) -> Result<(), String> {
        unreachable!("the client of these tests does not wait")
    }

    fn has_checkpoint(&self) -> bool {
        false
    }

    fn schedule_checkpoint(&mut self) {
        self.asked_for.push("checkpoint");
    }

    fn busy_error(&self) -> Option<CommandError> {
        None
    }

    fn shut_down(&mut self, _: How) {
        self.asked_for.push("end");
    }

    fn abort_shutdown(&mut self) -> bool {
        false
    }

    fn reload_journal(&mut self, _: &mut Tx) -> Result<(), String> {
        Err("there is none".to_owned())
    }

    fn has_journal(&self) -> bool {
        !self.is_local
    }

    fn change_replication_id(&mut self) {
        self.asked_for.push("another id");
    }
}

impl Host for Thread {
    fn run_own(&mut self, call: OwnCall<'_, '_>) -> CommandResult {
        let name = call.command.entry.name;
        let entry = ENTRIES.iter().chain(ENTRIES.iter().flat_map(|entry| entry.subcommands));
        let found = entry.filter(|entry| entry.name == name).find_map(|entry| match entry.run {
            Run::Function(function) => Some(function),
            Run::Container => None,
        });
        found.expect("it is a command of this crate")(&mut call.on::<dyn Door>(self))
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
        ("CONFIG RESETSTAT", "+OK", "reset"),
        ("DEBUG CHANGE-REPL-ID", "+OK", "another id"),
        ("SHUTDOWN NOW NOSAVE", "", "end"),
        ("DEBUG RELOAD", "+OK", "save and load"),
        ("DEBUG RELOAD NOSAVE", "+OK", "load"),
    ] {
        assert_eq!(reply(thread, line), expected, "{line}");
        assert_eq!(thread.asked_for.pop(), Some(asked_for), "{line}");
    }
    assert_eq!(reply(thread, "DEBUG LOADAOF"), "-ERR there is none");
    assert_eq!(reply(thread, "SAVE"), "-ERR the disk is full");
    assert_eq!(reply(thread, "SHUTDOWN ABORT"), "-ERR No shutdown in progress.");
    assert_eq!(reply(thread, "BGREWRITEAOF"), "-ERR There is no journal to rewrite: appendonly is no");
    assert_eq!(reply(thread, "CONFIG REWRITE"), "-ERR The server is running without a config file");
}
