//! `redis.call` and `redis.pcall`: the hot path between a script and the host.
//!
//! String arguments are not copied: the host sees the bytes in Lua's heap, which stay put because the strings
//! stay on the stack until the host has returned. Numbers become text in a buffer of ours. The reply is
//! written to a buffer that every call uses again, and turned into Lua values from there.

use std::ffi::c_int;

use mlua::ffi;
use resp::Output;
use smallvec::SmallVec;

use super::context::{Context, Exchange, Running};
use super::lua::{self, Lua, lua_State};
use super::stack::{self, Failure, Stack};
use crate::host::Interrupt;
use crate::steps::{STEP_COUNT, Steps};
use crate::{TICK_INSTRUCTION_COUNT, error, value};

/// Arguments up to here need no allocation.
const ARGS_INLINE: usize = 24;
/// So many instructions run between two calls of the hook, and where values are large. The host is asked at every fourth of the former, and
/// at each of the latter: a single instruction that reads a number from a hundred megabytes of digits takes a tenth of a second.
pub(super) const HOOK_INSTRUCTION_COUNT: i32 = TICK_INSTRUCTION_COUNT / 4;
const HOOK_LARGE_INSTRUCTION_COUNT: i32 = 64;
/// A reply buffer larger than this is given back after the call.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// The steps that the instructions between two calls of the hook count for.
const HOOK_STEP_COUNT: i64 = STEP_COUNT / 4;
/// With less memory in use, no instruction takes long.
const SMALL_VALUES_BYTES: usize = 1024 * 1024;

/// Behind the text of each number.
const NUMBER_END: u8 = b' ';

type Args<'a> = SmallVec<[&'a [u8]; ARGS_INLINE]>;

pub(super) unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    run(Lua(state), true)
}

pub(super) unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    run(Lua(state), false)
}

/// `redis.acl_check_cmd`.
pub(super) unsafe extern "C-unwind" fn check_permission(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    let exit = stack::enter(lua, |stack| {
        let context = Context::of(lua);
        let mut exchange = context.exchange.borrow_mut();
        let mut args = Args::new();
        if !gather(lua, stack, &mut exchange.numbers, &mut args)? {
            return Err(Failure::Raise);
        }
        match context.ask_host(|host| host.is_allowed(&args)).flatten() {
            Some(is_allowed) => stack.push_boolean(is_allowed)?,
            None => {
                error::push(stack, b"ERR Invalid command passed to redis.acl_check_cmd()")?;
                return Err(Failure::Raise);
            }
        }
        Ok(1)
    });
    stack::leave(lua, exit)
}

fn run(lua: Lua, raises: bool) -> c_int {
    let exit = stack::enter(lua, |stack| perform(lua, stack, raises));
    stack::leave(lua, exit)
}

fn perform(lua: Lua, stack: &mut Stack<'_>, raises: bool) -> Result<c_int, Failure> {
    let context = stack.context();
    if let Some(interrupt) = context.interrupt.get() {
        return Err(push_interrupt(stack, interrupt));
    }
    let mut exchange = context.exchange.borrow_mut();
    let Exchange { output, joined, numbers } = &mut *exchange;
    let mut args = Args::new();
    if !gather(lua, stack, numbers, &mut args)? {
        return if raises { Err(Failure::Raise) } else { Ok(1) };
    }
    let is_resp3 = context.is_resp3.get();
    if !output.is_empty() {
        output.clear();
    }
    match context.ask_host(|host| host.call(&args, is_resp3, output)) {
        Some(Ok(())) => {}
        Some(Err(interrupt)) => {
            context.interrupt.set(Some(interrupt));
            return Err(push_interrupt(stack, interrupt));
        }
        None => return Err(Failure::message("no command can run here")),
    }
    drop(args);
    let bytes = in_one_piece(output, joined);
    let is_error = value::push(stack, bytes)?;
    output.clear();
    if joined.capacity() > KEPT_BYTES_MAX {
        *joined = Vec::new();
    }
    if is_error && raises { Err(Failure::Raise) } else { Ok(1) }
}

/// What waits in `output`; copied to `joined` when it lies in several chunks.
fn in_one_piece<'a>(output: &'a Output, joined: &'a mut Vec<u8>) -> &'a [u8] {
    let mut slices = output.slices();
    let first = slices.next().unwrap_or_default();
    let Some(second) = slices.next() else { return first };
    joined.clear();
    joined.extend_from_slice(first);
    joined.extend_from_slice(second);
    slices.for_each(|slice| joined.extend_from_slice(slice));
    joined
}

/// Gathers the arguments of a call in `args`; false, with the error pushed, if they are none.
#[inline]
fn gather<'a>(
    lua: Lua,
    stack: &mut Stack<'_>,
    numbers: &'a mut Vec<u8>,
    args: &mut Args<'a>,
) -> Result<bool, Failure> {
    let count = stack.arg_count();
    if count == 0 {
        error::push(stack, b"ERR Please specify at least one argument for this redis lib call")?;
        return Ok(false);
    }
    args.reserve(count as usize);
    numbers.clear();
    // Numbers are text in a buffer that may still move: first only where in it each one begins.
    let mut has_numbers = false;
    for index in 1..=count {
        match lua.kind(index) {
            ffi::LUA_TSTRING => args.push(lua.bytes(index).expect("a string has bytes")),
            ffi::LUA_TNUMBER => {
                has_numbers = true;
                // Adding zero turns -0 into 0, as a conversion to an integer would.
                resp::format_double(lua.to_number(index) + 0.0, numbers);
                numbers.push(NUMBER_END);
                args.push(b"");
            }
            _ => {
                error::push(stack, b"ERR Lua redis lib command arguments must be strings or integers")?;
                return Ok(false);
            }
        }
    }
    if has_numbers {
        let mut texts = numbers.split(|byte| *byte == NUMBER_END);
        for (arg, index) in args.iter_mut().zip(1..) {
            if lua.kind(index) == ffi::LUA_TNUMBER {
                *arg = texts.next().expect("each number has a text");
            }
        }
    }
    Ok(true)
}

/// Pushes what a script sees of its end, if it gets to see anything.
fn push_interrupt(stack: &mut Stack<'_>, interrupt: Interrupt) -> Failure {
    let text: &[u8] = match (interrupt, stack.running()) {
        (Interrupt::Killed, Running::Script) => b"ERR Script killed by user with SCRIPT KILL...",
        (Interrupt::Killed, Running::Function) => b"ERR Script killed by user with FUNCTION KILL...",
        (Interrupt::Killed, Running::Library) => b"ERR FUNCTION LOAD timeout",
        (Interrupt::TimeOver, _) => b"ERR Script killed by script-time-max...",
        (Interrupt::Retry, _) => b"ERR Script is run again",
    };
    match error::push(stack, text) {
        Ok(()) => Failure::Raise,
        Err(failure) => failure,
    }
}

/// The same for the interrupt that there is.
#[cold]
pub(super) fn push_present_interrupt(stack: &mut Stack<'_>) -> Failure {
    let interrupt = stack.context().interrupt.get().unwrap_or(Interrupt::Killed);
    push_interrupt(stack, interrupt)
}

/// Counts so many steps of a function that owns nothing, and raises if the script must end.
#[inline]
pub(super) fn take_steps(lua: Lua, count: usize) {
    let context = Context::of(lua);
    let may_go_on = || may_go_on(lua, context);
    if Steps::new(&context.steps_left, &may_go_on).take(count).is_err() {
        raise_interrupt(lua);
    }
}

/// Raises if the script must end. Called after everything that could have caught the error.
#[inline]
pub(super) fn raise_interrupt(lua: Lua) {
    if let Some(interrupt) = Context::of(lua).interrupt.get() {
        lua.set_top(0);
        let exit = stack::enter(lua, |stack| Err(push_interrupt(stack, interrupt)));
        stack::leave(lua, exit);
    }
}

/// Asks the host whether the script may go on, from a function that takes long. If not, whatever runs next raises.
pub(super) fn may_go_on(lua: Lua, context: &Context) -> bool {
    if context.interrupt.get().is_none()
        && let Some(Err(interrupt)) = context.ask_host(|host| host.tick())
    {
        context.interrupt.set(Some(interrupt));
    }
    let may_go_on = context.interrupt.get().is_none();
    if !may_go_on {
        raise_everywhere(lua);
    }
    may_go_on
}

/// Has the hook run at every line and instruction.
fn raise_everywhere(lua: Lua) {
    lua.set_hook(Some(tick), ffi::LUA_MASKLINE | ffi::LUA_MASKCOUNT, 1);
}

/// The hook: runs every so many instructions, and once the script must end, on every line and instruction.
pub(super) unsafe extern "C-unwind" fn tick(state: *mut lua_State, _: *mut ffi::lua_Debug) {
    let lua = Lua(state);
    let context = Context::of(lua);
    if context.interrupt.get().is_none() {
        let is_large = context.heap.used_bytes() > SMALL_VALUES_BYTES;
        let (step_count, instruction_count) = if is_large {
            (STEP_COUNT, HOOK_LARGE_INSTRUCTION_COUNT)
        } else {
            (HOOK_STEP_COUNT, HOOK_INSTRUCTION_COUNT)
        };
        if lua::hook_count(lua) != instruction_count {
            lua.set_hook(Some(tick), ffi::LUA_MASKCOUNT, instruction_count);
        }
        let left = context.steps_left.get() - step_count;
        context.steps_left.set(left);
        if left > 0 {
            return;
        }
        context.steps_left.set(STEP_COUNT);
        if context.heap.is_crowded() {
            lua.collect_garbage();
            context.heap.set_crowded_from_here();
        }
    }
    if !may_go_on(lua, context) {
        // The interrupted function's values are below: only what is pushed here is taken.
        let exit = stack::enter(lua, |stack| Err(push_present_interrupt(stack)));
        stack::leave(lua, exit);
    }
}
