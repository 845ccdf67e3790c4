//! FCALL and FCALL_RO, and FUNCTION, which manages libraries.
//!
//! What changes the libraries enters all shards, and states itself as its effect.

use std::sync::Arc;

use command::Flag::*;
use command::{
    Acl, Arg, Callee, CommandError, CommandResult, Group, Mode, Route, Shape, integer, key, keyword_is,
    oneof, parse_i64, string, token,
};
use rdb::{Encoder, Libraries, NoLibrary};
use resp::Reply;
use script::{FunctionEngine, Library, LibrarySet};

use super::scripting::{SCRIPT_KEYS, SCRIPT_KEYS_RO, check_key_count, refuse_source, run_program};
use super::subcommand_error;
use crate::commands::own::{Ctx, Entry, Run};
use crate::life::busy;
use crate::scripts::libraries::Loading;
use crate::scripts::running::ScriptFailure;
use crate::scripts::store::SlowKind;
use crate::shared::Shared;

/// The commands of functions.
pub(crate) const ENTRIES: &[Entry] = &[FCALL, FCALL_RO, FUNCTION];

const CALL_ARGS: &[Arg] = &[
    string("function"),
    integer("numkeys"),
    key("key", 0).optional().multiple(),
    string("arg").optional().multiple(),
];

const FCALL: Entry = Entry {
    name: "fcall",
    summary: "Invokes a function.",
    complexity: "Depends on the function that is executed.",
    since: "7.0.0",
    group: Group::Scripting,
    arity: -3,
    flags: &[NoScript, Stale, SkipMonitor, MayReplicate, NoMandatoryKeys],
    acl: &[Acl::Scripting],
    keys: &[
        SCRIPT_KEYS.notes("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")
    ],
    route: Route::Script(Callee::Function),
    mode: Mode::Heavy,
    args: CALL_ARGS,
    run: Run::Function(fcall),
    ..Entry::DEFAULT
};

fn fcall(ctx: &mut Ctx) -> CommandResult {
    call(ctx, false)
}

const FCALL_RO: Entry = Entry {
    name: "fcall_ro",
    summary: "Invokes a read-only function.",
    flags: &[ReadOnly, NoScript, Stale, SkipMonitor, NoMandatoryKeys],
    keys: &[SCRIPT_KEYS_RO
        .notes("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")],
    run: Run::Function(fcall_ro),
    ..FCALL
};

fn fcall_ro(ctx: &mut Ctx) -> CommandResult {
    call(ctx, true)
}

fn call(ctx: &mut Ctx, is_read_only: bool) -> CommandResult {
    // EXEC took the libraries as they were when it began: all of it sees the same.
    let is_in_exec = ctx.store.client.deny_blocking;
    let host = &mut *ctx.host;
    if !is_in_exec {
        host.renew_libraries();
    }
    let program = host.function(ctx.args[1]).ok_or(CommandError::NO_FUNCTION)?;
    let key_count = parse_i64(ctx.args[2]);
    let key_count = key_count.map_err(|_| CommandError::fixed("ERR Bad number of keys provided"))?;
    check_key_count(ctx, key_count)?;
    match ctx.host.load_library_of(&program) {
        Ok(()) => run_program(ctx, &program, key_count as usize, is_read_only),
        Err(error) => refuse_source(ctx, error.into()),
    }
}

const FUNCTION: Entry = Entry {
    name: "function",
    summary: "A container for function commands.",
    complexity: "Depends on subcommand.",
    since: "7.0.0",
    group: Group::Scripting,
    arity: -2,
    subcommands: &[
        FUNCTION_DELETE,
        FUNCTION_DUMP,
        FUNCTION_FLUSH,
        FUNCTION_HELP,
        FUNCTION_KILL,
        FUNCTION_LIST,
        FUNCTION_LOAD,
        FUNCTION_RESTORE,
        FUNCTION_STATS,
    ],
    ..Entry::DEFAULT
};

/// What the subcommands have in common.
const SUBCOMMAND: Entry = Entry {
    since: "7.0.0",
    group: Group::Scripting,
    flags: &[NoScript],
    acl: &[Acl::Scripting],
    ..Entry::DEFAULT
};

/// What those have in common that change the libraries.
const CHANGE: Entry = Entry {
    flags: &[Write, NoScript],
    route: Route::Global,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    reply: Shape::OK,
    ..SUBCOMMAND
};

/// What a subcommand with these arguments does to the libraries.
pub(crate) type Change =
    fn(&[&[u8]], &mut LibrarySet, &mut FunctionEngine, &mut Loading) -> Result<Changed, ScriptFailure>;

/// The library that came to be, if it was one.
type Changed = Option<Arc<Library>>;

/// What the command of this name does to the libraries, if it does anything.
pub(crate) fn change_of(full_name: &str) -> Option<Change> {
    Some(match full_name {
        "function|delete" => delete,
        "function|flush" => flush,
        "function|load" => load,
        "function|restore" => restore,
        _ => return None,
    })
}

/// Changes the libraries as `change` does.
fn change(ctx: &mut Ctx, change: Change) -> CommandResult {
    let args = ctx.args;
    let changed = ctx.host.change_libraries(|set, engine, loading| change(args, set, engine, loading));
    match changed {
        Ok(library) => {
            note_change(ctx);
            match library {
                Some(library) => ctx.reply.bulk(library.name()),
                None => ctx.reply.ok(),
            }
            Ok(())
        }
        Err(failure) => refuse_source(ctx, failure),
    }
}

/// Notes that the libraries were changed by this command.
fn note_change(ctx: &mut Ctx) {
    let first = ctx.store.entered()[0];
    ctx.store.tx.wrote = true;
    ctx.store.tx.hold.shard_mut(first).stats.changes.add(1);
    ctx.store.effect(ctx.args);
}

const FUNCTION_LOAD: Entry = Entry {
    name: "load",
    summary: "Creates a library.",
    complexity: "O(1) (considering compilation time is redundant)",
    arity: -3,
    flags: &[Write, DenyOom, NoScript],
    args: &[token("replace", "REPLACE").optional(), string("function-code")],
    reply: Shape::Bulk,
    run: Run::Function(function_load),
    ..CHANGE
};

fn function_load(ctx: &mut Ctx) -> CommandResult {
    change(ctx, load)
}

fn load(
    args: &[&[u8]],
    set: &mut LibrarySet,
    engine: &mut FunctionEngine,
    loading: &mut Loading,
) -> Result<Changed, ScriptFailure> {
    let [_, _, options @ .., code] = args else { unreachable!("the arity says so") };
    if let Some(unknown) = options.iter().find(|word| !keyword_is(word, "replace")) {
        return Err(CommandError::quoting("ERR Unknown option given: ", unknown, "").into());
    }
    Ok(Some(set.load(code, !options.is_empty(), engine, loading)?))
}

const FUNCTION_DELETE: Entry = Entry {
    name: "delete",
    summary: "Deletes a library and its functions.",
    arity: 3,
    args: &[string("library-name")],
    run: Run::Function(function_delete),
    ..CHANGE
};

fn function_delete(ctx: &mut Ctx) -> CommandResult {
    change(ctx, delete)
}

fn delete(
    args: &[&[u8]],
    set: &mut LibrarySet,
    _: &mut FunctionEngine,
    _: &mut Loading,
) -> Result<Changed, ScriptFailure> {
    match set.remove(args[2]) {
        Some(_) => Ok(None),
        None => Err(CommandError::fixed("ERR Library not found").into()),
    }
}

const FUNCTION_FLUSH: Entry = Entry {
    name: "flush",
    summary: "Deletes all libraries and functions.",
    complexity: "O(N) where N is the number of functions deleted",
    arity: -2,
    args: &[oneof("flush-type", &[token("async", "ASYNC"), token("sync", "SYNC")]).optional()],
    run: Run::Function(function_flush),
    ..CHANGE
};

fn function_flush(ctx: &mut Ctx) -> CommandResult {
    change(ctx, flush)
}

fn flush(
    args: &[&[u8]],
    set: &mut LibrarySet,
    _: &mut FunctionEngine,
    _: &mut Loading,
) -> Result<Changed, ScriptFailure> {
    match args[2..] {
        [] => {}
        [how] if keyword_is(how, "sync") || keyword_is(how, "async") => {}
        [_] => return Err(CommandError::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option").into()),
        _ => return Err(subcommand_error(args).into()),
    }
    *set = LibrarySet::default();
    Ok(None)
}

const FUNCTION_RESTORE: Entry = Entry {
    name: "restore",
    summary: "Restores all libraries from a payload.",
    complexity: "O(N) where N is the number of functions on the payload",
    arity: -3,
    flags: &[Write, DenyOom, NoScript],
    args: &[
        string("serialized-value"),
        oneof("policy", &[token("flush", "FLUSH"), token("append", "APPEND"), token("replace", "REPLACE")])
            .optional(),
    ],
    run: Run::Function(function_restore),
    ..CHANGE
};

fn function_restore(ctx: &mut Ctx) -> CommandResult {
    change(ctx, restore)
}

fn restore(
    args: &[&[u8]],
    set: &mut LibrarySet,
    engine: &mut FunctionEngine,
    loading: &mut Loading,
) -> Result<Changed, ScriptFailure> {
    let (payload, policy) = match args[2..] {
        [payload] => (payload, "append"),
        [payload, word] => {
            let policies = ["flush", "append", "replace"];
            let policy = policies.into_iter().find(|policy| keyword_is(word, policy));
            let text = "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.";
            (payload, policy.ok_or(CommandError::fixed(text))?)
        }
        _ => return Err(subcommand_error(args).into()),
    };
    let opened = rdb::open_payload(payload)
        .ok_or(CommandError::fixed("ERR DUMP payload version or checksum are wrong"))?;
    let mut restored = LibrarySet::default();
    for code in Libraries::new(opened) {
        loading.begin_next();
        restored.load(&code.map_err(no_library)?, false, engine, loading)?;
    }
    *set = match policy {
        "flush" => restored,
        policy => set.join(&restored, policy == "replace")?,
    };
    Ok(None)
}

fn no_library(why: NoLibrary) -> CommandError {
    CommandError::fixed(match why {
        NoLibrary::PreRelease => "ERR Pre-GA function format not supported",
        NoLibrary::Other => "ERR given type is not a function",
        NoLibrary::Broken => "ERR Failed loading library payload",
    })
}

const FUNCTION_DUMP: Entry = Entry {
    name: "dump",
    summary: "Dumps all libraries into a serialized binary payload.",
    complexity: "O(N) where N is the number of functions",
    arity: 2,
    reply: Shape::Bulk,
    run: Run::Function(function_dump),
    ..SUBCOMMAND
};

fn function_dump(ctx: &mut Ctx) -> CommandResult {
    let mut encoder = Encoder::new(Vec::new(), ctx.store.config().rdb_compression);
    for library in ctx.host.shared.libraries.get().1.iter() {
        encoder.function(library.code()).expect("memory takes all that is written");
    }
    let mut payload = encoder.finish().expect("memory takes all that is written");
    rdb::seal_payload(&mut payload);
    ctx.reply.bulk(&payload);
    Ok(())
}

const FUNCTION_LIST: Entry = Entry {
    name: "list",
    summary: "Returns information about all libraries.",
    complexity: "O(N) where N is the number of functions",
    arity: -2,
    args: &[
        string("library-name-pattern").token("LIBRARYNAME").optional(),
        token("withcode", "WITHCODE").optional(),
    ],
    tips: &["nondeterministic_output_order"],
    reply: Shape::Array(&Shape::Map(&Shape::Bulk, &Shape::Any)),
    run: Run::Function(function_list),
    ..SUBCOMMAND
};

fn function_list(ctx: &mut Ctx) -> CommandResult {
    let (mut wanted, mut with_code) = (None, false);
    let mut words = ctx.args[2..].iter();
    while let Some(word) = words.next() {
        if !with_code && keyword_is(word, "withcode") {
            with_code = true;
        } else if wanted.is_none() && keyword_is(word, "libraryname") {
            let missing = CommandError::fixed("ERR library name argument was not given");
            wanted = Some(*words.next().ok_or(missing)?);
        } else {
            return Err(CommandError::quoting("ERR Unknown argument ", word, ""));
        }
    }
    let (_, set) = ctx.host.shared.libraries.get();
    let is_wanted =
        |library: &Library| wanted.is_none_or(|wanted| ds::glob::matches(wanted, library.name(), true));
    let libraries: Vec<&Library> =
        set.iter().map(|library| &**library).filter(|library| is_wanted(library)).collect();
    ctx.reply.array(libraries.len());
    for library in libraries {
        write_library(ctx, library, with_code);
    }
    Ok(())
}

fn write_library(ctx: &mut Ctx, library: &Library, with_code: bool) {
    let reply = &mut ctx.reply;
    reply.map(if with_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(library.name());
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions().len());
    for function in library.functions() {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(&function.name);
        reply.bulk(b"description");
        match &function.description {
            Some(description) => reply.bulk(description),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        reply.set(function.flags.names().count());
        function.flags.names().for_each(|name| reply.simple(name));
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(library.code());
    }
}

const FUNCTION_STATS: Entry = Entry {
    name: "stats",
    summary: "Returns information about a function during execution.",
    arity: 2,
    flags: &[NoScript, AllowBusy],
    mode: Mode::Session,
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    reply: Shape::Map(&Shape::Bulk, &Shape::Any),
    run: Run::Function(function_stats),
    ..SUBCOMMAND
};

/// A function that has not been running for long is not told of.
fn function_stats(ctx: &mut Ctx) -> CommandResult {
    let host = &mut *ctx.host;
    let (shared, clock) = (host.shared, host.driver.clock().clone());
    busy::once_scripts_passed(ctx, move |reply| write_stats(shared, clock.monotonic_ms(), reply))
}

fn write_stats(shared: &Shared, now_ms: u64, reply: &mut Reply<'_>) -> CommandResult {
    let slow = || shared.threads.iter().filter_map(|thread| thread.slow_script.call());
    let running = slow().find(|call| call.kind == SlowKind::Function);
    if running.is_none() && slow().next().is_some() {
        return Err(CommandError::BUSY);
    }
    let (_, set) = shared.libraries.get();
    reply.map(2);
    reply.bulk(b"running_script");
    match running {
        None => reply.null(),
        Some(call) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(&call.name);
            reply.bulk(b"command");
            reply.array(call.request.len());
            call.request.iter().for_each(|arg| reply.bulk(arg));
            reply.bulk(b"duration_ms");
            reply.int(now_ms.saturating_sub(call.started_ms) as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.int(set.len() as i64);
    reply.bulk(b"functions_count");
    reply.int(set.function_count() as i64);
    Ok(())
}

const FUNCTION_KILL: Entry = Entry {
    name: "kill",
    summary: "Terminates a function during execution.",
    arity: 2,
    flags: &[NoScript, AllowBusy],
    mode: Mode::Session,
    tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
    reply: Shape::OK,
    run: Run::Function(function_kill),
    ..SUBCOMMAND
};

fn function_kill(ctx: &mut Ctx) -> CommandResult {
    busy::kill(ctx, SlowKind::Function)
}

const FUNCTION_HELP: Entry = Entry {
    since: "7.0.0",
    group: Group::Scripting,
    acl: &[Acl::Scripting],
    run: Run::Function(function_help),
    ..Entry::HELP
};

fn function_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "LOAD [REPLACE] <FUNCTION CODE>",
        "    Create a new library with the given library name and code.",
        "DELETE <LIBRARY NAME>",
        "    Delete the given library.",
        "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
        "    Return general information on all the libraries:",
        "    * Library name",
        "    * The engine used to run the Library",
        "    * Library description",
        "    * Functions list",
        "    * Library code (if WITHCODE is given)",
        "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
        "STATS",
        "    Return information about the current function running:",
        "    * Function name",
        "    * Command used to run the function",
        "    * Duration in MS that the function is running",
        "    If no function is running, return nil",
        "    In addition, returns a list of available engines.",
        "KILL",
        "    Kill the current running function.",
        "FLUSH [ASYNC|SYNC]",
        "    Delete all the libraries.",
        "    When called without the optional mode argument, the behavior is determined by the",
        "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
        "    * ASYNC: Asynchronously flush the libraries.",
        "    * SYNC: Synchronously flush the libraries.",
        "DUMP",
        "    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
        "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
        "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
        "    control how to handle existing libraries (default APPEND):",
        "    * FLUSH: delete all existing libraries.",
        "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
        "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
        "      libraries with the new libraries (notice that even on this option there is a chance of failure",
        "      in case of functions name collision with another library).",
    ])
}

#[cfg(test)]
mod tests {
    use command::Client;
    use effectlog::{Record, Recorder, Tape, Unit};
    use proactor::{SimConfig, SimNet};
    use resp::{Output, Proto};

    use crate::session::Session;
    use crate::simulated::simulate;
    use crate::thread::Thread;

    const COUNT: &[u8] = b"#!lua name=a
redis.register_function('count', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)";
    const DRAW: &[u8] =
        b"#!lua name=b\nredis.register_function('draw', function(keys) return redis.call('SPOP', keys[1]) end)";

    /// The only thread of a server of its own, with a client at it; it records.
    fn with_thread(test: impl FnOnce(&mut Thread, &Tape)) {
        let net = SimNet::new(1, SimConfig::default());
        let args = ["--proactor_threads=1", "--port=1"].map(str::to_owned);
        let (_server, mut threads) = simulate(&args, &net, &net.disk(1), "server");
        let thread = threads[0].thread_mut();
        let access = thread.host.shared.users.access();
        thread.host.current = Some(Box::new(Session::new(Client::internal(0, Proto::Resp2), access, 0)));
        let tape = Tape::default();
        thread.tx.record = Recorder::new(tape.track());
        test(thread, &tape);
        thread.host.current = None;
    }

    fn run(thread: &mut Thread, args: &[&[u8]]) -> Vec<u8> {
        let mut out = Output::new();
        thread.command(args, &mut out);
        thread.leave_all();
        out.to_vec()
    }

    /// What was recorded since the last look, oldest first.
    fn effects(tape: &Tape) -> Vec<Vec<Vec<u8>>> {
        let records = tape.take();
        let effects = records.iter().flat_map(Record::units).flat_map(Unit::effects);
        effects.map(|effect| effect.args().into_iter().map(<[u8]>::to_vec).collect()).collect()
    }

    /// Runs `args`, whose reply begins with `reply`: what of it another store would have to run is `expected`.
    #[track_caller]
    fn check(thread: &mut Thread, tape: &Tape, args: &[&[u8]], reply: &str, expected: &[&[&[u8]]]) {
        let text = String::from_utf8_lossy(&run(thread, args)).into_owned();
        assert!(text.starts_with(reply), "{text}");
        let effects = effects(tape);
        let effects: Vec<Vec<&[u8]>> =
            effects.iter().map(|effect| effect.iter().map(Vec::as_slice).collect()).collect();
        assert_eq!(effects, expected);
    }

    #[test]
    fn what_changes_libraries_is_its_own_effect() {
        with_thread(|thread, tape| {
            effects(tape);
            let load: &[&[u8]] = &[b"FUNCTION", b"LOAD", COUNT];
            check(thread, tape, load, "$1\r\na\r\n", &[load]);
            check(thread, tape, load, "-ERR Library 'a' already exists", &[]);
            let replace: &[&[u8]] = &[b"function", b"load", b"replace", DRAW];
            check(thread, tape, replace, "$1\r\nb\r\n", &[replace]);
            check(thread, tape, &[b"FUNCTION", b"LOAD", b"x"], "-ERR Missing library metadata", &[]);
            check(thread, tape, &[b"FUNCTION", b"LIST"], "*2\r\n", &[]);
            let dump = run(thread, &[b"FUNCTION", b"DUMP"]);
            let payload = &dump[dump.iter().position(|byte| *byte == b'\n').unwrap() + 1..dump.len() - 2];
            let delete: &[&[u8]] = &[b"FUNCTION", b"DELETE", b"a"];
            check(thread, tape, delete, "+OK", &[delete]);
            check(thread, tape, delete, "-ERR Library not found", &[]);
            check(thread, tape, &[b"FUNCTION", b"RESTORE", payload], "-ERR Library b already exists", &[]);
            let restore: &[&[u8]] = &[b"FUNCTION", b"RESTORE", payload, b"REPLACE"];
            check(thread, tape, restore, "+OK", &[restore]);
            let flush: &[&[u8]] = &[b"FUNCTION", b"FLUSH", b"ASYNC"];
            check(thread, tape, flush, "+OK", &[flush]);
        });
    }

    #[test]
    fn the_effects_of_a_function_are_those_of_its_commands() {
        with_thread(|thread, tape| {
            run(thread, &[b"FUNCTION", b"LOAD", COUNT]);
            run(thread, &[b"FUNCTION", b"LOAD", DRAW]);
            run(thread, &[b"SADD", b"set", b"member"]);
            effects(tape);
            check(
                thread,
                tape,
                &[b"FCALL", b"count", b"1", b"k", b"5"],
                ":5\r\n",
                &[&[b"INCRBY", b"k", b"5"]],
            );
            check(
                thread,
                tape,
                &[b"FCALL", b"draw", b"1", b"set"],
                "$6\r\nmember",
                &[&[b"SREM", b"set", b"member"]],
            );
            check(thread, tape, &[b"FCALL", b"draw", b"1", b"set"], "$-1\r\n", &[]);
        });
    }

    #[test]
    fn a_script_can_be_silent_of_what_it_does() {
        with_thread(|thread, tape| {
            effects(tape);
            let part: &[u8] =
                b"redis.call('SET', 'a', 1) redis.set_repl(redis.REPL_NONE) redis.call('SET', 'b', 2)
                redis.set_repl(redis.REPL_ALL) redis.call('SET', 'c', 3) redis.set_repl(redis.REPL_NONE)";
            let eval: &[&[u8]] = &[b"EVAL", part, b"3", b"a", b"b", b"c"];
            let expected: [&[&[u8]]; 2] = [&[b"SET", b"a", b"1"], &[b"SET", b"c", b"3"]];
            check(thread, tape, eval, "$-1\r\n", &expected);
            check(thread, tape, &[b"GET", b"b"], "$1\r\n2\r\n", &[]);
            // It lasts as long as the script.
            check(thread, tape, &[b"DEL", b"b"], ":1\r\n", &[&[b"DEL", b"b"]]);
        });
    }
}
