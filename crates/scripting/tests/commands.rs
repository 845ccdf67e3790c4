//! The commands on a single-threaded store, with a thread that records what it is asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use engine::{
    Client, Command, CommandError, CommandId, CommandResult, Host, Local, Outcome, OwnCall, Tx, function_of,
};
use proactor::Clock;
use process::shutdown::Shutdown;
use resp::{Output, Proto};
use scripting::{Entry, ScriptHost, ScriptSettings, ScriptThread, Scripts, Standing, States};

const COUNT: &[u8] = b"#!lua name=a
redis.register_function('count', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)";
const DRAW: &[u8] =
    b"#!lua name=b\nredis.register_function('draw', function(keys) return redis.call('SPOP', keys[1]) end)";

/// The thread. Its only client may run every command except EXISTS.
struct Thread {
    states: States,
    scripts: &'static Scripts,
    slow_after_ms: u64,
    time_max_ms: u64,
    standing: Standing,
    /// After this many commands of scripts, nothing may be written any more.
    commands_left: Arc<AtomicU32>,
    /// The client that the script's commands come from.
    client: Option<Client>,
    refused: Vec<String>,
    /// The result of killing the script, which another client does while it is slow.
    killed: Option<Result<(), CommandError>>,
}

impl ScriptHost for Thread {
    fn lend_states(&mut self) -> &mut States {
        &mut self.states
    }

    fn enter_script(&mut self, client: &Client) {
        assert!(self.client.replace(*client).is_none(), "no script calls another one");
    }

    fn is_caller_killed(&self) -> bool {
        false
    }

    fn leave_script(&mut self, was_slow: bool, _: usize) {
        assert_eq!(was_slow, self.killed.is_some());
        self.client = None;
    }

    fn permit(&mut self, command: &Command, _: &[&[u8]], _: bool) -> CommandResult {
        let is_permitted = command.full_name != "exists";
        if is_permitted { Ok(()) } else { Err(CommandError::fixed("NOPERM not this one")) }
    }

    fn run<'t>(
        &mut self,
        tx: &mut Tx<'t>,
        command: &'t Command,
        args: &[&[u8]],
        proto: Proto,
        out: &mut Output,
    ) -> Outcome {
        let client = Client { proto, ..self.client.expect("a script runs") };
        let left = self.commands_left.load(Ordering::Relaxed);
        self.commands_left.store(left.saturating_sub(1), Ordering::Relaxed);
        tx.run(command, args, &client, self, out)
    }

    fn note_refusal(&mut self, _: Option<CommandId>, error: &CommandError) {
        self.refused.push(error.to_string());
    }

    fn serve_others(&mut self, _: &mut Tx<'_>) {
        assert!(self.scripts.is_busy());
        self.killed = Some(self.scripts.kill(scripting::SlowKind::Script));
        if self.killed != Some(Ok(())) {
            self.scripts.stop();
        }
    }
}

impl Host for Thread {
    fn run_own(&mut self, call: OwnCall<'_, '_>) -> CommandResult {
        let Thread { slow_after_ms, time_max_ms, .. } = *self;
        let (standing, commands_left) = (self.standing.clone(), self.commands_left.clone());
        let mut thread = ScriptThread {
            thread: self,
            shutdown: Box::leak(Box::new(Shutdown::new(1))),
            settings: &|| ScriptSettings { slow_after_ms, time_max_ms, trusted_after: 2 },
            standing: &|| Some(standing.clone()),
            refuses_writes: &|| {
                let is_refused = commands_left.load(Ordering::Relaxed) == 0;
                is_refused.then_some(CommandError::fixed("MISCONF no"))
            },
            lacks_room: false,
            errors: None,
            answer: None,
        };
        let result = function_of(scripting::ENTRIES, call.command)(&mut call.on(&mut thread));
        assert!(thread.answer.is_none(), "no client can wait here");
        result
    }
}

/// A store that records effects, and its thread.
struct Server {
    local: Local,
    thread: Thread,
}

impl Server {
    fn new() -> Server {
        let own: Vec<engine::Entry> = scripting::ENTRIES.iter().map(Entry::of_host).collect();
        let families: Vec<&'static [engine::Entry]> =
            commands::FAMILIES.iter().copied().chain([&*Vec::leak(own)]).collect();
        let scripts: &'static Scripts = Box::leak(Box::new(Scripts::new(1, |_, _| {})));
        let states = States::new(scripts, 0, Clock::real(), 64 << 20, 0x0007_0207);
        let thread = Thread {
            states,
            scripts,
            slow_after_ms: u64::MAX,
            time_max_ms: u64::MAX,
            standing: Standing::default(),
            commands_left: Arc::new(AtomicU32::new(u32::MAX)),
            client: None,
            refused: Vec::new(),
            killed: None,
        };
        let mut local = Local::new(&families);
        local.record_effects();
        Server { local, thread }
    }

    fn run(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut out = Output::new();
        // Does not wait for scripts of other threads, because there are none.
        let client = Client { deny_blocking: true, ..Client::internal(0, Proto::Resp2) };
        self.local.run(client, args, &mut self.thread, &mut out);
        out.to_vec()
    }

    /// Runs `args`. The reply must start with `reply`, and the effects must be `expected`.
    #[track_caller]
    fn check(&mut self, args: &[&[u8]], reply: &str, expected: &[&[&[u8]]]) {
        let text = String::from_utf8_lossy(&self.run(args)).into_owned();
        assert!(text.starts_with(reply), "{text}");
        let effects = self.local.take_effects();
        let effects: Vec<Vec<&[u8]>> =
            effects.iter().map(|effect| effect.args.iter().map(|arg| &**arg).collect()).collect();
        assert_eq!(effects, expected);
    }
}

#[test]
fn what_changes_libraries_is_its_own_effect() {
    let mut server = Server::new();
    server.local.take_effects();
    let load: &[&[u8]] = &[b"FUNCTION", b"LOAD", COUNT];
    server.check(load, "$1\r\na\r\n", &[load]);
    server.check(load, "-ERR Library 'a' already exists", &[]);
    let replace: &[&[u8]] = &[b"function", b"load", b"replace", DRAW];
    server.check(replace, "$1\r\nb\r\n", &[replace]);
    server.check(&[b"FUNCTION", b"LOAD", b"x"], "-ERR Missing library metadata", &[]);
    server.check(&[b"FUNCTION", b"LIST"], "*2\r\n", &[]);
    let dump = server.run(&[b"FUNCTION", b"DUMP"]);
    let payload = &dump[dump.iter().position(|byte| *byte == b'\n').unwrap() + 1..dump.len() - 2];
    let delete: &[&[u8]] = &[b"FUNCTION", b"DELETE", b"a"];
    server.check(delete, "+OK", &[delete]);
    server.check(delete, "-ERR Library not found", &[]);
    server.check(&[b"FUNCTION", b"RESTORE", payload], "-ERR Library b already exists", &[]);
    let restore: &[&[u8]] = &[b"FUNCTION", b"RESTORE", payload, b"REPLACE"];
    server.check(restore, "+OK", &[restore]);
    let flush: &[&[u8]] = &[b"FUNCTION", b"FLUSH", b"ASYNC"];
    server.check(flush, "+OK", &[flush]);
}

#[test]
fn the_effects_of_a_function_are_those_of_its_commands() {
    let mut server = Server::new();
    server.run(&[b"FUNCTION", b"LOAD", COUNT]);
    server.run(&[b"FUNCTION", b"LOAD", DRAW]);
    server.run(&[b"SADD", b"set", b"member"]);
    server.local.take_effects();
    server.check(&[b"FCALL", b"count", b"1", b"k", b"5"], ":5\r\n", &[&[b"INCRBY", b"k", b"5"]]);
    server.check(&[b"FCALL", b"draw", b"1", b"set"], "$6\r\nmember", &[&[b"SREM", b"set", b"member"]]);
    server.check(&[b"FCALL", b"draw", b"1", b"set"], "$-1\r\n", &[]);
}

#[test]
fn a_script_can_be_silent_of_what_it_does() {
    let mut server = Server::new();
    server.local.take_effects();
    let part: &[u8] = b"redis.call('SET', 'a', 1) redis.set_repl(redis.REPL_NONE) redis.call('SET', 'b', 2)
        redis.set_repl(redis.REPL_ALL) redis.call('SET', 'c', 3) redis.set_repl(redis.REPL_NONE)";
    let eval: &[&[u8]] = &[b"EVAL", part, b"3", b"a", b"b", b"c"];
    let expected: [&[&[u8]]; 2] = [&[b"SET", b"a", b"1"], &[b"SET", b"c", b"3"]];
    server.check(eval, "$-1\r\n", &expected);
    server.check(&[b"GET", b"b"], "$1\r\n2\r\n", &[]);
    // It lasts as long as the script.
    server.check(&[b"DEL", b"b"], ":1\r\n", &[&[b"DEL", b"b"]]);
}

#[test]
fn scripts_are_known_by_their_names_until_the_cache_is_flushed() {
    let mut server = Server::new();
    let source: &[u8] = b"return ARGV[1]";
    let sha = lua::Sha1Hex::of(source);
    let name = sha.as_str().as_bytes();
    server.check(&[b"EVALSHA", name, b"0", b"x"], "-NOSCRIPT", &[]);
    server.check(&[b"SCRIPT", b"LOAD", source], "$40\r\n", &[]);
    server.check(&[b"EVALSHA", name, b"0", b"x"], "$1\r\nx\r\n", &[]);
    server.check(&[b"SCRIPT", b"EXISTS", name, b"nothing"], "*2\r\n:1\r\n:0\r\n", &[]);
    server.check(&[b"SCRIPT", b"FLUSH"], "+OK", &[]);
    server.check(&[b"EVALSHA", name, b"0", b"x"], "-NOSCRIPT", &[]);
}

#[test]
fn what_was_run_last_is_run_again_only_as_long_as_it_is_there() {
    let mut server = Server::new();
    let (source, other): (&[u8], &[u8]) = (b"return 'one'", b"return 'two'");
    let name = lua::Sha1Hex::of(source);
    let capitals = name.as_str().to_ascii_uppercase();
    for _ in 0..2 {
        server.check(&[b"EVAL", source, b"0"], "$3\r\none\r\n", &[]);
        server.check(&[b"EVALSHA", name.as_bytes(), b"0"], "$3\r\none\r\n", &[]);
        server.check(&[b"EVALSHA", capitals.as_bytes(), b"0"], "$3\r\none\r\n", &[]);
    }
    server.check(&[b"EVAL", other, b"0"], "$3\r\ntwo\r\n", &[]);
    server.check(&[b"EVALSHA", name.as_bytes(), b"0"], "$3\r\none\r\n", &[]);
    server.check(&[b"EVALSHA", name.as_bytes(), b"7"], "-ERR Number of keys can't be greater", &[]);
    server.run(&[b"SCRIPT", b"FLUSH"]);
    server.check(&[b"EVALSHA", name.as_bytes(), b"0"], "-NOSCRIPT", &[]);
    server.check(&[b"EVAL", source, b"0"], "$3\r\none\r\n", &[]);

    server.run(&[b"FUNCTION", b"LOAD", COUNT]);
    for count in [b"count".as_slice(), b"count", b"COUNT"] {
        server.local.take_effects();
        server.check(&[b"FCALL", count, b"1", b"k", b"1"], ":", &[&[b"INCRBY", b"k", b"1"]]);
    }
    let replacement: &[u8] = b"#!lua name=a\nredis.register_function('count', function() return 'new' end)";
    server.run(&[b"FUNCTION", b"LOAD", b"REPLACE", replacement]);
    server.local.take_effects();
    server.check(&[b"FCALL", b"count", b"0"], "$3\r\nnew\r\n", &[]);
    server.run(&[b"FUNCTION", b"DELETE", b"a"]);
    server.local.take_effects();
    server.check(&[b"FCALL", b"count", b"0"], "-ERR Function not found", &[]);
}

#[test]
fn a_replica_refuses_what_scripts_write() {
    const READ_ONLY: CommandError = CommandError::fixed("READONLY no");
    let mut server = Server::new();
    let declared: &[u8] = b"#!lua\nreturn 1";
    let read_only: &[u8] = b"#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])";
    let plain: &[u8] = b"return redis.call(ARGV[1], KEYS[1], ARGV[2])";
    server.thread.standing.read_only = Some(READ_ONLY);
    let at_once = "-READONLY Can not run script with write flag on readonly replica\r\n";
    server.check(&[b"EVAL", declared, b"0"], at_once, &[]);
    server.check(&[b"EVAL_RO", declared, b"0"], at_once, &[]);
    server.check(&[b"EVAL", read_only, b"1", b"k"], "$-1\r\n", &[]);
    server.check(&[b"EVAL", plain, b"1", b"k", b"HGET", b"f"], "$-1\r\n", &[]);
    assert_eq!(server.thread.refused, [""; 0]);
    server.check(&[b"EVAL", plain, b"1", b"k", b"SADD", b"x"], "-READONLY no script: ", &[]);
    assert_eq!(server.thread.refused, ["READONLY no"]);
    server.local.keeps_due = true;
    server.check(&[b"EVAL", plain, b"1", b"k", b"SADD", b"x"], ":1\r\n", &[&[b"SADD", b"k", b"x"]]);
    server.check(&[b"EVAL", declared, b"0"], ":1\r\n", &[]);
}

#[test]
fn a_script_that_has_written_is_not_ended_half_way() {
    let mut server = Server::new();
    let writes: &[u8] = b"redis.call('SET', KEYS[1], 1) return redis.call('INCR', KEYS[1])";
    let reads: &[u8] = b"redis.call('GET', KEYS[1]) return redis.call('INCR', KEYS[1])";
    server.thread.commands_left.store(1, Ordering::Relaxed);
    server.check(&[b"EVAL", reads, b"1", b"k"], "-MISCONF no script: ", &[]);
    server.thread.commands_left.store(1, Ordering::Relaxed);
    let effects: [&[&[u8]]; 2] = [&[b"SET", b"k", b"1"], &[b"INCR", b"k"]];
    server.check(&[b"EVAL", writes, b"1", b"k"], ":2\r\n", &effects);
    server.check(&[b"EVAL", writes, b"1", b"k"], "-MISCONF no script: ", &[]);
}

#[test]
fn a_replica_that_lost_its_primary_refuses_scripts_unless_they_say_that_they_may_run() {
    const STALE: CommandError = CommandError::fixed("MASTERDOWN no");
    let mut server = Server::new();
    server.thread.standing.stale = Some(STALE);
    server.check(&[b"EVAL", b"return 1", b"0"], "-MASTERDOWN no\r\n", &[]);
    let declared: &[u8] = b"#!lua flags=no-writes\nreturn 1";
    let not_allowed = "-MASTERDOWN Link with MASTER is down, replica-serve-stale-data is set to 'no' and 'allow-stale' flag is not set on the script.";
    server.check(&[b"EVAL", declared, b"0"], not_allowed, &[]);
    let allowed: &[u8] = b"#!lua flags=no-writes,allow-stale\nreturn 1";
    server.check(&[b"EVAL", allowed, b"0"], ":1\r\n", &[]);
    let reads: &[u8] = b"#!lua flags=no-writes,allow-stale\nreturn redis.call('GET', KEYS[1])";
    let refused = "-ERR Can not execute the command on a stale replica script: ";
    server.check(&[b"EVAL", reads, b"1", b"k"], refused, &[]);
    server.local.keeps_due = true;
    server.check(&[b"EVAL", reads, b"1", b"k"], "$-1\r\n", &[]);
}

#[test]
fn what_is_refused_to_a_script_is_its_error() {
    let mut server = Server::new();
    server.check(&[b"EVAL", b"return redis.pcall('EXISTS', 'a')", b"0"], "-NOPERM not this one", &[]);
    server.check(
        &[b"EVAL", b"return redis.call('EVAL', '', 0)", b"0"],
        "-ERR This Redis command is not allowed",
        &[],
    );
    server.check(
        &[b"EVAL_RO", b"return redis.call('SET', 'a', 1)", b"0"],
        "-ERR Write commands are not",
        &[],
    );
    assert_eq!(server.thread.refused.len(), 3, "{:?}", server.thread.refused);
}

#[test]
fn a_script_that_has_written_nothing_ends_when_its_time_is_over() {
    let mut server = Server::new();
    server.thread.time_max_ms = 0;
    let over = "-ERR Script killed by script-time-max";
    server.check(&[b"EVAL", b"while true do end", b"0"], over, &[]);
    server.check(&[b"EVAL", b"while true do pcall(function() while true do end end) end", b"0"], over, &[]);
    // A script that does little but call commands gives Lua no chance to ask between them.
    server.check(&[b"EVAL", b"return redis.call('SET', KEYS[1], 1)", b"1", b"a"], over, &[]);
    assert_eq!(server.thread.killed, None);
    // A script that has written continues, as with SCRIPT KILL.
    server.thread.time_max_ms = 60_000;
    server.check(&[b"EVAL", b"return redis.call('GET', KEYS[1])", b"1", b"a"], "$-1", &[]);
}

#[test]
fn a_slow_script_is_ended_unless_it_has_written() {
    let mut server = Server::new();
    server.thread.slow_after_ms = 0;
    server.check(&[b"EVAL", b"while true do end", b"0"], "-ERR Script killed by user", &[]);
    assert_eq!(server.thread.killed, Some(Ok(())));
    assert!(!server.thread.scripts.is_busy());
    let writes: &[u8] = b"redis.call('SET', KEYS[1], 1) while true do end";
    server.check(&[b"EVAL", writes, b"1", b"a"], "-ERR Script killed by user", &[&[b"SET", b"a", b"1"]]);
    assert_eq!(server.thread.killed, Some(Err(CommandError::UNKILLABLE)));
    assert!(!server.thread.scripts.is_busy());
}
