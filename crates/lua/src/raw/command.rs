//! `redis.call` and `redis.pcall`: the hot path between a script and the host.
//!
//! String arguments are not copied. The host sees the bytes in Lua's heap, which do not move because the
//! strings stay on the stack until the host returns. Numbers are formatted into a buffer of ours. The reply
//! is written to a buffer that all calls reuse, and converted to Lua values from there.

use std::ffi::c_int;

use mlua_sys as ffi;
use resp::Output;

use super::context::{Context, Exchange, Running};
use super::layout::{self, Value};
use super::lua::{self, Lua, lua_State};
use super::stack::{self, Failure, Stack};
use crate::host::Interrupt;
use crate::steps::{STEP_COUNT, Steps};
use crate::{TICK_INSTRUCTION_COUNT, error, value};

/// Up to this many arguments need no allocation.
const FEW_ARGS_MAX: usize = 16;
/// Instructions between two calls of the hook, normally and when values are large. The host is asked in every
/// fourth call of the former kind, and in each of the latter: a single instruction that parses a hundred
/// megabytes of digits takes a tenth of a second.
pub(super) const HOOK_INSTRUCTION_COUNT: i32 = TICK_INSTRUCTION_COUNT / 4;
const HOOK_LARGE_INSTRUCTION_COUNT: i32 = 64;
/// A reply buffer larger than this is freed after the call.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Steps that the instructions between two calls of the hook count as.
const HOOK_STEP_COUNT: i64 = STEP_COUNT / 4;
/// While less memory than this is in use, no instruction takes long.
const SMALL_VALUES_BYTES: usize = 1024 * 1024;

/// Follows the text of each number in the buffer.
const NUMBER_END: u8 = b' ';

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
        let answer = with_args(lua, stack, &mut exchange.numbers, |args| {
            context.ask_host(|host| host.is_allowed(args)).flatten()
        })?;
        match answer.ok_or(Failure::Raise)? {
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
    let is_resp3 = context.is_resp3.get();
    if !output.is_empty() {
        output.clear();
    }
    let answer = with_args(lua, stack, numbers, |args| {
        context.ask_host(|host| host.call(args, is_resp3, &mut *output))
    })?;
    let Some(answer) = answer else {
        return if raises { Err(Failure::Raise) } else { Ok(1) };
    };
    match answer {
        Some(Ok(())) => {}
        Some(Err(interrupt)) => {
            context.interrupt.set(Some(interrupt));
            return Err(push_interrupt(stack, interrupt));
        }
        None => return Err(Failure::message("no command can run here")),
    }
    let bytes = in_one_piece(output, joined);
    let is_error = value::is_error(bytes);
    // Scripts ignore most replies, and each status would need a table. Errors are raised all the same.
    let is_dropped = layout::drops_results(lua.0) && !(is_error && raises);
    if !is_dropped {
        value::push(stack, bytes)?;
    }
    output.clear();
    if joined.capacity() > KEPT_BYTES_MAX {
        *joined = Vec::new();
    }
    match (is_error && raises, is_dropped) {
        (true, _) => Err(Failure::Raise),
        (false, true) => Ok(0),
        (false, false) => Ok(1),
    }
}

/// The content of `output`. It is copied to `joined` if it is in several chunks.
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

/// Calls `body` with the arguments of the running call. If they are invalid, pushes the error and returns
/// `None`. The caller must not have pushed anything before.
#[inline]
fn with_args<R>(
    lua: Lua,
    stack: &mut Stack<'_>,
    numbers: &mut Vec<u8>,
    body: impl FnOnce(&[&[u8]]) -> R,
) -> Result<Option<R>, Failure> {
    let values = layout::values(lua.0);
    let mut few: [&[u8]; FEW_ARGS_MAX] = [b""; FEW_ARGS_MAX];
    let mut many;
    let args: &mut [&[u8]] = match few.get_mut(..values.len()) {
        Some(args) => args,
        None => {
            many = vec![b"" as &[u8]; values.len()];
            &mut many
        }
    };
    match gather(values, numbers, args) {
        Ok(()) => Ok(Some(body(args))),
        Err(text) => {
            error::push(stack, text)?;
            Ok(None)
        }
    }
}

/// Sets `args` to the texts of `values`. Numbers are formatted into `numbers`. The error says why the values
/// are not arguments.
#[inline]
fn gather<'a>(
    values: &[Value],
    numbers: &'a mut Vec<u8>,
    args: &mut [&'a [u8]],
) -> Result<(), &'static [u8]> {
    if values.is_empty() {
        return Err(b"ERR Please specify at least one argument for this redis lib call");
    }
    let mut has_numbers = false;
    for (arg, value) in args.iter_mut().zip(values) {
        if let Some(bytes) = value.bytes() {
            *arg = bytes;
        } else if value.number().is_some() {
            has_numbers = true;
        } else {
            return Err(b"ERR Lua redis lib command arguments must be strings or integers");
        }
    }
    if has_numbers {
        write_numbers(values, numbers, args);
    }
    Ok(())
}

/// Sets those of `args` that are numbers.
fn write_numbers<'a>(values: &[Value], numbers: &'a mut Vec<u8>, args: &mut [&'a [u8]]) {
    numbers.clear();
    for number in values.iter().filter_map(|value| value.number()) {
        // Adding zero turns -0 into 0, as a conversion to an integer would.
        resp::format_double(number + 0.0, numbers);
        numbers.push(NUMBER_END);
    }
    // From here on, the buffer does not move.
    let mut texts = numbers.split(|byte| *byte == NUMBER_END);
    for (arg, _) in args.iter_mut().zip(values).filter(|(_, value)| value.number().is_some()) {
        *arg = texts.next().expect("each number has a text");
    }
}

/// Pushes the error for an interrupt, in case the script or its caller gets to see it.
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

/// Pushes the error for the current interrupt.
#[cold]
pub(super) fn push_present_interrupt(stack: &mut Stack<'_>) -> Failure {
    let interrupt = stack.context().interrupt.get().unwrap_or(Interrupt::Killed);
    push_interrupt(stack, interrupt)
}

/// Counts steps for a function that owns nothing with a destructor. Raises if the script must end.
#[inline]
pub(super) fn take_steps(lua: Lua, count: usize) {
    let context = Context::of(lua);
    let may_go_on = || may_go_on(lua, context);
    if Steps::new(&context.steps_left, &may_go_on).take(count).is_err() {
        raise_interrupt(lua);
    }
}

/// Raises if the script must end. Call this after everything that may have caught the error.
#[inline]
pub(super) fn raise_interrupt(lua: Lua) {
    if let Some(interrupt) = Context::of(lua).interrupt.get() {
        lua.set_top(0);
        let exit = stack::enter(lua, |stack| Err(push_interrupt(stack, interrupt)));
        stack::leave(lua, exit);
    }
}

/// Asks the host whether the script may continue, on behalf of a function that takes long. If not, the next
/// function that runs raises.
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

/// Makes the hook run on every line and instruction.
fn raise_everywhere(lua: Lua) {
    lua.set_hook(Some(tick), ffi::LUA_MASKLINE | ffi::LUA_MASKCOUNT, 1);
}

/// The hook. Runs every few instructions; once the script must end, on every line and instruction, and
/// raises.
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
        // The values of the interrupted function are below. Only values pushed here are taken.
        let exit = stack::enter(lua, |stack| Err(push_present_interrupt(stack)));
        stack::leave(lua, exit);
    }
}
