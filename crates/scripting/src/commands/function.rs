//! FUNCTION, which manages libraries.
//!
//! Subcommands that change the libraries enter all shards, and are their own effect.

use std::sync::Arc;

use engine::Flag::*;
use engine::{
    Acl, CommandError, CommandResult, Group, Mode, Route, Shape, keyword_is, oneof, string, subcommand_error,
    token,
};
use lua::{FunctionEngine, Library, LibrarySet};
use rdb::{Encoder, NoLibrary};
use resp::Reply;

use super::{Ctx, Entry, Run, kill, once_scripts_passed, refuse_source};
use crate::libraries::Loading;
use crate::program::Failure;
use crate::scripts::Scripts;
use crate::slow::SlowKind;

pub(super) const FUNCTION: Entry = Entry {
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

/// The declaration that all subcommands share.
const SUBCOMMAND: Entry = Entry {
    since: "7.0.0",
    group: Group::Scripting,
    flags: &[NoScript],
    acl: &[Acl::Scripting],
    ..Entry::DEFAULT
};

/// The declaration that the subcommands that change the libraries share.
const CHANGE: Entry = Entry {
    flags: &[Write, NoScript],
    route: Route::Global,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    reply: Shape::OK,
    ..SUBCOMMAND
};

/// The change that a subcommand with these arguments makes to the libraries.
pub type Change =
    fn(&[&[u8]], &mut LibrarySet, &mut FunctionEngine, &mut Loading) -> Result<Changed, Failure>;

/// The library that was created, if the change creates one.
type Changed = Option<Arc<Library>>;

/// The change that the command with this full name makes to the libraries; `None` if it does not change them.
pub fn change_of(full_name: &str) -> Option<Change> {
    Some(match full_name {
        "function|delete" => delete,
        "function|flush" => flush,
        "function|load" => load,
        "function|restore" => restore,
        _ => return None,
    })
}

/// Applies `change` to the libraries and replies.
fn change(ctx: &mut Ctx, change: Change) -> CommandResult {
    let args = ctx.args;
    let changed =
        ctx.host.states().change_libraries(|set, engine, loading| change(args, set, engine, loading));
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

/// Records that this command changed the libraries.
fn note_change(ctx: &mut Ctx) {
    let first = ctx.store.entered()[0];
    ctx.store.tx.wrote = true;
    ctx.store.tx.hold.shard_mut(first).stats.changes.add(1);
    ctx.store.effect_everywhere(ctx.args);
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
) -> Result<Changed, Failure> {
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
) -> Result<Changed, Failure> {
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
) -> Result<Changed, Failure> {
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
) -> Result<Changed, Failure> {
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
    for code in rdb::Libraries::new(opened) {
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
    for library in ctx.host.states().scripts.libraries.get().1.iter() {
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
    let (_, set) = ctx.host.states().scripts.libraries.get();
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

/// Does not show a function that has not been running for long.
fn function_stats(ctx: &mut Ctx) -> CommandResult {
    let states = ctx.host.states();
    let (scripts, clock) = (states.scripts, states.clock.clone());
    once_scripts_passed(ctx, move |reply| write_stats(scripts, clock.monotonic_ms(), reply))
}

fn write_stats(scripts: &Scripts, now_ms: u64, reply: &mut Reply<'_>) -> CommandResult {
    let running = scripts.slow_calls().find(|call| call.kind == SlowKind::Function);
    if running.is_none() && scripts.slow_calls().next().is_some() {
        return Err(CommandError::BUSY);
    }
    let (_, set) = scripts.libraries.get();
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
    kill(ctx, SlowKind::Function)
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
