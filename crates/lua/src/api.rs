//! The table `redis` without `redis.call` and `pcall` (see `raw::command`), and `math.random`.

use crate::error::raise;
use crate::raw::{Failure, LuaKind, Native, Stack, integer_of};
use crate::script::sha1_hex;
use crate::{error, register};

/// Bytes that are hashed per step of the script's budget.
const SHA1_STEP_BYTES: usize = 8;
/// The most severe level of `redis.log`.
const LOG_LEVEL_MAX: i64 = 3;
/// `REPL_AOF | REPL_REPLICA`.
const REPL_ALL: i64 = 3;

const LOG_LEVELS: [(&str, u32); 4] =
    [("LOG_DEBUG", 0), ("LOG_VERBOSE", 1), ("LOG_NOTICE", 2), ("LOG_WARNING", 3)];

const REPL_FLAGS: [(&str, u32); 5] =
    [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_REPLICA", 2), ("REPL_SLAVE", 2), ("REPL_ALL", 3)];

const FUNCTIONS: [(&str, Native); 6] = [
    ("error_reply", error_reply),
    ("status_reply", status_reply),
    ("sha1hex", sha1hex),
    ("log", log),
    ("setresp", setresp),
    ("set_repl", set_repl),
];

/// Functions of `redis` that scripts have and library functions do not.
const SCRIPT_FUNCTIONS: [(&str, Native); 3] = [
    ("replicate_commands", |stack| stack.push_boolean(true).map(|()| 1)),
    ("breakpoint", |stack| stack.push_boolean(false).map(|()| 1)),
    ("debug", |_| Ok(0)),
];

/// The functions of `redis` while a library is loaded.
const LOAD_FUNCTIONS: [(&str, Native); 2] =
    [("register_function", register::register_function), ("log", log)];

/// Adds `redis` to the globals on top, and replaces the random functions of `math`.
/// `version`: the version of Redis that scripts see, with a byte for each part.
pub(crate) fn install(stack: &mut Stack<'_>, version: u32) -> Result<(), Failure> {
    stack.push_table(0, 32)?;
    stack.set_functions(&FUNCTIONS)?;
    set_constants(stack, &LOG_LEVELS)?;
    set_constants(stack, &REPL_FLAGS)?;
    set_version(stack, version)?;
    stack.set_field(-2, "redis")?;
    stack.get_field(-1, "math")?;
    stack.set_functions(&[("random", random), ("randomseed", randomseed)])?;
    stack.pop(1);
    Ok(())
}

/// Adds the functions that only scripts have to `redis` in the globals on top.
pub(crate) fn install_for_scripts(stack: &mut Stack<'_>) -> Result<(), Failure> {
    stack.get_field(-1, "redis")?;
    stack.set_functions(&SCRIPT_FUNCTIONS)?;
    stack.pop(1);
    Ok(())
}

/// Stores the `redis` that a library sees while it is loaded in the table on top.
pub(crate) fn install_for_loading(stack: &mut Stack<'_>, version: u32) -> Result<(), Failure> {
    stack.push_table(0, 8)?;
    stack.set_functions(&LOAD_FUNCTIONS)?;
    set_constants(stack, &LOG_LEVELS)?;
    set_version(stack, version)?;
    stack.set_field(-2, "redis")
}

fn set_constants(stack: &mut Stack<'_>, constants: &[(&str, u32)]) -> Result<(), Failure> {
    for (name, number) in constants {
        stack.push_number(f64::from(*number))?;
        stack.set_field(-2, name)?;
    }
    Ok(())
}

fn set_version(stack: &mut Stack<'_>, version: u32) -> Result<(), Failure> {
    let [_, major, minor, patch] = version.to_be_bytes();
    stack.push_bytes(format!("{major}.{minor}.{patch}").as_bytes())?;
    stack.set_field(-2, "REDIS_VERSION")?;
    stack.push_number(f64::from(version))?;
    stack.set_field(-2, "REDIS_VERSION_NUM")
}

/// Whether the only argument is a string. If not, pushes the error table to return.
fn check_one_string(stack: &mut Stack<'_>) -> Result<bool, Failure> {
    let is_valid = stack.arg_count() == 1 && stack.kind(1) == LuaKind::String;
    if !is_valid {
        error::push(stack, b"ERR wrong number or type of arguments")?;
    }
    Ok(is_valid)
}

fn error_reply(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    if check_one_string(stack)? {
        let text = error::until_zero(stack.arg_bytes(1)?);
        error::push(stack, &error::normalize(text.strip_prefix(b"-").unwrap_or(text)))?;
    }
    Ok(1)
}

fn status_reply(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    if check_one_string(stack)? {
        stack.push_table(0, 1)?;
        stack.push_copy(1)?;
        stack.set_field(-2, "ok")?;
    }
    Ok(1)
}

fn sha1hex(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    if stack.arg_count() != 1 {
        return Err(raise(stack, b"ERR wrong number of arguments"));
    }
    // A value that cannot be converted to a string is treated as an empty one.
    let text = stack.arg_bytes(1).unwrap_or_default();
    stack.take_steps(text.len() / SHA1_STEP_BYTES)?;
    let hex = sha1_hex(text);
    stack.push_bytes(&hex)?;
    Ok(1)
}

fn log(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    if stack.arg_count() < 2 {
        return Err(raise(stack, b"ERR redis.log() requires two arguments or more."));
    }
    if stack.arg_number(1).is_err() {
        return Err(raise(stack, b"ERR First argument must be a number (log level)."));
    }
    let level = stack.arg_integer(1)?;
    if !(0..=LOG_LEVEL_MAX).contains(&level) {
        return Err(raise(stack, b"ERR Invalid debug level."));
    }
    let mut texts: Vec<&[u8]> = Vec::new();
    for position in 2..=stack.arg_count() {
        texts.extend(stack.arg_bytes(position).ok());
    }
    // A script may pass one string as several arguments, so the line can need more memory than the strings.
    stack.claim_memory(texts.iter().map(|text| text.len() + 1).sum())?;
    let line = texts.join(&b' ');
    stack.ask_host(|host| host.log(level, &line));
    Ok(0)
}

fn setresp(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    if stack.arg_count() != 1 {
        return Err(raise(stack, b"ERR redis.setresp() requires one argument."));
    }
    match integer_of(stack.number(1)) {
        2 => stack.set_resp3(false),
        3 => stack.set_resp3(true),
        _ => return Err(raise(stack, b"ERR RESP version must be 2 or 3.")),
    }
    Ok(0)
}

/// Effects cannot go to the journal without the replicas or the reverse: `REPL_NONE` turns them off, any
/// other flags on.
fn set_repl(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    if stack.arg_count() != 1 {
        return Err(raise(stack, b"ERR redis.set_repl() requires two arguments."));
    }
    let flags = integer_of(stack.number(1));
    if flags & !REPL_ALL != 0 {
        let text = b"ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(raise(stack, text));
    }
    stack.ask_host(|host| host.set_stated(flags != 0));
    Ok(0)
}

fn random(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    let drawn = stack.random().next();
    let bound = |position| stack.arg_integer(position).map(|bound| bound as i32);
    let number = match stack.arg_count() {
        0 => drawn,
        1 => {
            let high = bound(1)?;
            if high < 1 {
                return Err(Failure::argument(1, "interval is empty"));
            }
            (drawn * f64::from(high)).floor() + 1.0
        }
        2 => {
            let (low, high) = (bound(1)?, bound(2)?);
            if low > high {
                return Err(Failure::argument(2, "interval is empty"));
            }
            (drawn * f64::from(high.wrapping_sub(low).wrapping_add(1))).floor() + f64::from(low)
        }
        _ => return Err(Failure::message("wrong number of arguments")),
    };
    stack.push_number(number)?;
    Ok(1)
}

fn randomseed(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    let seed = stack.arg_integer(1)? as i32;
    stack.random().seed(seed);
    Ok(0)
}
