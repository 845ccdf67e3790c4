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
use super::lua::{Lua, lua_State};
use super::stack::{self, Failure, Stack};
use crate::host::Interrupt;
use crate::{error, value};

/// Arguments up to here need no allocation.
const ARGS_INLINE: usize = 24;
/// A reply buffer larger than this is given back after the call.
const KEPT_BYTES_MAX: usize = 64 * 1024;

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

/// Raises if the script must end. Called after everything that could have caught the error.
#[inline]
pub(super) fn raise_interrupt(lua: Lua) {
    if let Some(interrupt) = Context::of(lua).interrupt.get() {
        lua.set_top(0);
        let exit = stack::enter(lua, |stack| Err(push_interrupt(stack, interrupt)));
        stack::leave(lua, exit);
    }
}

/// The hook: runs every so many instructions, and once the script must end, on every line and instruction.
pub(super) unsafe extern "C-unwind" fn tick(state: *mut lua_State, _: *mut ffi::lua_Debug) {
    let lua = Lua(state);
    let context = Context::of(lua);
    if context.interrupt.get().is_none() {
        if context.heap.is_crowded() {
            lua.collect_garbage();
            context.heap.set_crowded_from_here();
        }
        if let Some(Err(interrupt)) = context.ask_host(|host| host.tick()) {
            context.interrupt.set(Some(interrupt));
        }
    }
    if context.interrupt.get().is_some() {
        lua.set_hook(Some(tick), ffi::LUA_MASKLINE | ffi::LUA_MASKCOUNT, 1);
        // The interrupted function's values are below: only what is pushed here is taken.
        let exit = stack::enter(lua, |stack| {
            let interrupt = context.interrupt.get().unwrap_or(Interrupt::Killed);
            Err(push_interrupt(stack, interrupt))
        });
        stack::leave(lua, exit);
    }
}
