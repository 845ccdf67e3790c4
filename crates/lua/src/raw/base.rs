//! Lua's own functions that are replaced by stricter ones.
//!
//! Each is either written anew (`next`, `unpack`, `pcall` …) or a wrapper: a check, then Lua's original in
//! the same frame, so that arguments, results and error texts remain Lua's. A wrapper's upvalue is the
//! address of the original. The checks prevent:
//! - bypassing guarded tables (see `guard`);
//! - catching an interrupt: `pcall`, `xpcall` and `coroutine.resume` raise it again;
//! - precompiled chunks, which Lua does not verify: they are compiled as text, which fails;
//! - crashes and stalls of stock Lua 5.1: integer overflow in `unpack`, endless `string.rep` of nothing, collection
//!   of a chunk's name while it is read;
//! - long calls that nothing can interrupt: they count their work in steps (see `steps`).
//!
//! None of these functions owns anything with a destructor, since all of them may raise.

use std::ffi::{CStr, c_int};

use mlua_sys as ffi;

use super::command::{raise_interrupt, take_steps};
use super::context::Context;
use super::guard::{self, push_hidden, refuse_guarded};
use super::lua::{CFunction, GLOBALS, Lua, MULTIPLE, lua_State};
use super::{patterns, tables};
use crate::steps::{STEP_BYTES, TABLE_STEP_COUNT};

/// Bytes that Lua's text functions process in one step.
const TEXT_STEP_BYTES: usize = 4;
/// First byte of a precompiled chunk.
const CHUNK_SIGNATURE: u8 = 0x1b;

/// Functions of Lua's base library that scripts see. Those listed below are replaced or wrapped.
pub(super) const BASE_NAMES: [&str; 22] = [
    "assert",
    "collectgarbage",
    "error",
    "gcinfo",
    "getmetatable",
    "ipairs",
    "load",
    "loadstring",
    "next",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawset",
    "select",
    "setmetatable",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "xpcall",
    "_VERSION",
];

/// Our functions that replace Lua's: library ("" for the base), name, function.
pub(super) const REPLACED: [(&str, &str, CFunction); 16] = [
    ("", "getmetatable", guard::get_metatable),
    ("", "next", next),
    ("", "pairs", pairs),
    ("", "pcall", pcall),
    ("", "rawget", rawget),
    ("", "unpack", unpack),
    ("", "xpcall", xpcall),
    ("string", "find", patterns::find),
    ("string", "gfind", patterns::gmatch),
    ("string", "gmatch", patterns::gmatch),
    ("string", "gsub", patterns::gsub),
    ("string", "match", patterns::match_once),
    ("string", "rep", repeat),
    ("table", "foreach", tables::foreach),
    ("table", "foreachi", tables::foreachi),
    ("table", "sort", tables::sort),
];

/// Wrappers around Lua's functions.
pub(super) const WRAPPED: [(&str, &str, CFunction); 15] = [
    ("", "collectgarbage", collect_garbage),
    ("", "load", load),
    ("", "loadstring", load_string),
    ("", "rawset", change_table),
    ("", "setmetatable", change_table),
    ("coroutine", "resume", resume),
    ("string", "format", spend_texts),
    ("string", "lower", spend_texts),
    ("string", "reverse", spend_texts),
    ("string", "upper", spend_texts),
    ("table", "concat", tables::concat),
    ("table", "insert", tables::insert),
    ("table", "maxn", tables::maxn),
    ("table", "remove", tables::remove),
    ("table", "setn", change_table),
];

/// Calls the function that the running wrapper wraps.
pub(super) fn original(lua: Lua) -> c_int {
    let pointer = lua.to_pointer(ffi::lua_upvalueindex(1));
    // SAFETY: `wrap` put the address of a C function there, and scripts cannot reach upvalues.
    let function = unsafe { std::mem::transmute::<*mut std::ffi::c_void, CFunction>(pointer) };
    lua.delegate(function)
}

/// Replaces the C function on top by `wrapper` around it.
pub(super) fn wrap(lua: Lua, wrapper: CFunction) {
    let function = lua.to_function(-1).expect("Lua's libraries hold C functions");
    lua.pop(1);
    lua.push_pointer(function as *mut std::ffi::c_void);
    lua.push_function(wrapper, 1);
}

/// Raises `text`, prefixed with the position of the calling Lua code.
pub(super) fn raise_text(lua: Lua, text: &'static str) -> ! {
    let context = Context::of(lua);
    context.heap.set_trusting(true);
    lua.push_place(1);
    lua.push_bytes(text.as_bytes());
    lua.concat(2);
    context.heap.set_trusting(false);
    lua.raise()
}

/// `collectgarbage`. Settings of a script last until it ends, because other scripts use the same state.
/// Before the first one, Lua's own defaults are restored.
unsafe extern "C-unwind" fn collect_garbage(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    if !Context::of(lua).collector_was_set.replace(true) {
        lua.restore_collector();
    }
    original(lua)
}

unsafe extern "C-unwind" fn next(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    lua.check_kind(1, ffi::LUA_TTABLE);
    take_steps(lua, TABLE_STEP_COUNT);
    if push_hidden(lua, 1) {
        lua.replace(1);
    }
    lua.set_top(2);
    if lua.next(1) {
        return 2;
    }
    lua.push_nil();
    1
}

unsafe extern "C-unwind" fn pairs(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    lua.check_kind(1, ffi::LUA_TTABLE);
    lua.push_function(next, 0);
    lua.push_value(1);
    lua.push_nil();
    3
}

unsafe extern "C-unwind" fn rawget(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    lua.check_kind(1, ffi::LUA_TTABLE);
    lua.check_any(2);
    if push_hidden(lua, 1) {
        lua.replace(1);
    }
    lua.set_top(2);
    lua.raw_get(1);
    1
}

/// `rawset`, `setmetatable` and others: refuses guarded tables.
unsafe extern "C-unwind" fn change_table(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    refuse_guarded(lua);
    original(lua)
}

/// `pcall` as in Redis 7: if the error is a table, the caller gets only its text.
unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    lua.check_any(1);
    let status = Context::of(lua).catch(|| lua.protected_call(lua.top() - 1, MULTIPLE, 0));
    raise_interrupt(lua);
    if status != 0 && lua.is(-1, ffi::LUA_TTABLE) {
        if push_hidden(lua, -1) {
            lua.replace(-2);
        }
        lua.raw_get_field(-1, "err");
        if lua.is(-1, ffi::LUA_TSTRING) || lua.is(-1, ffi::LUA_TNUMBER) {
            lua.replace(-2);
        } else {
            lua.pop(1);
        }
    }
    if !lua.check_stack(1) {
        raise_text(lua, "stack overflow");
    }
    lua.push_boolean(status == 0);
    lua.insert(1);
    lua.top()
}

/// `xpcall`. If the hook raises, the handler runs inside the hook, where no hook could stop it. So the
/// handler is not called for an interrupt.
unsafe extern "C-unwind" fn xpcall(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    lua.check_any(2);
    lua.set_top(2);
    lua.push_function(handle_unless_interrupted, 1);
    lua.insert(1);
    let status = Context::of(lua).catch(|| lua.protected_call(0, MULTIPLE, 1));
    raise_interrupt(lua);
    lua.push_boolean(status == 0);
    lua.replace(1);
    lua.top()
}

/// Calls the handler that was given to `xpcall` (the upvalue), unless the script is interrupted.
unsafe extern "C-unwind" fn handle_unless_interrupted(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    lua.set_top(1);
    if Context::of(lua).interrupt.get().is_none() {
        lua.push_value(ffi::lua_upvalueindex(1));
        lua.insert(1);
        lua.call(1, 1);
    }
    1
}

/// `coroutine.resume`.
unsafe extern "C-unwind" fn resume(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    let count = Context::of(lua).catch(|| original(lua));
    raise_interrupt(lua);
    count
}

unsafe extern "C-unwind" fn unpack(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    lua.check_kind(1, ffi::LUA_TTABLE);
    let is_absent = |position| lua.kind(position) <= ffi::LUA_TNIL;
    let first = if is_absent(2) { 1 } else { lua.check_int(2) };
    let last = if is_absent(3) { lua.length(1) as c_int } else { lua.check_int(3) };
    if first > last {
        return 0;
    }
    let count = i64::from(last) - i64::from(first) + 1;
    match c_int::try_from(count) {
        Ok(slots) if lua.check_stack(slots) => {
            for position in first..=last {
                lua.raw_get_item(1, position);
            }
            slots
        }
        _ => raise_text(lua, "too many results to unpack"),
    }
}

/// `string.rep`, which claims all memory for its result at once.
unsafe extern "C-unwind" fn repeat(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    let bytes = lua.check_bytes(1);
    let count = usize::try_from(lua.check_int(2)).unwrap_or(0);
    let context = Context::of(lua);
    let exit = super::stack::enter(lua, |stack| {
        let length = bytes.len().checked_mul(count).ok_or(super::stack::Failure::Memory)?;
        // The text is built outside Lua's memory and then copied into it, so there must be room for both.
        if !context.heap.has_room(length.saturating_mul(2)) {
            return Err(super::stack::Failure::Memory);
        }
        stack.take_steps(length / STEP_BYTES)?;
        stack.push_bytes(&bytes.repeat(if bytes.is_empty() { 0 } else { count }))?;
        Ok(1)
    });
    super::stack::leave(lua, exit)
}

/// Wrapper for functions that process their strings once: counts the steps for their lengths.
unsafe extern "C-unwind" fn spend_texts(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    let bytes: usize = (1..=lua.top())
        .map(|position| if lua.is(position, ffi::LUA_TSTRING) { lua.length(position) } else { 0 })
        .sum();
    take_steps(lua, bytes / TEXT_STEP_BYTES);
    original(lua)
}

/// Puts a space before a chunk that looks precompiled, so that Lua compiles it as text. If it is text, its
/// meaning is unchanged.
fn defuse(lua: Lua, position: c_int) {
    lua.push_bytes(b" ");
    lua.push_value(position);
    lua.concat(2);
    lua.replace(position);
}

/// Whether the value is a string that starts like a precompiled chunk.
fn is_precompiled(lua: Lua, position: c_int) -> bool {
    lua.is(position, ffi::LUA_TSTRING)
        && lua.bytes(position).and_then(<[u8]>::first) == Some(&CHUNK_SIGNATURE)
}

/// `loadstring`. Puts the chunk's name on the stack, by default the text up to its first zero byte: see
/// `Lua::load`.
unsafe extern "C-unwind" fn load_string(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    let source = lua.check_bytes(1);
    lua.set_top(2);
    if lua.is(2, ffi::LUA_TNIL) {
        lua.push_bytes(source.split(|byte| *byte == 0).next().unwrap_or_default());
        lua.replace(2);
    } else {
        anchor_name(lua);
    }
    if is_precompiled(lua, 1) {
        defuse(lua, 1);
    }
    original(lua)
}

/// `load`, with a reader that checks the first piece.
unsafe extern "C-unwind" fn load(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    lua.check_kind(1, ffi::LUA_TFUNCTION);
    lua.set_top(2);
    if lua.is(2, ffi::LUA_TNIL) {
        lua.push_bytes(c"=(load)".to_bytes());
        lua.replace(2);
    } else {
        anchor_name(lua);
    }
    lua.push_value(1);
    lua.push_boolean(true);
    lua.push_function(read_piece, 2);
    lua.replace(1);
    Context::of(lua).catch(|| original(lua))
}

/// Cuts the name in slot 2 at its first zero byte, as Lua would.
fn anchor_name(lua: Lua) {
    let name = lua.check_bytes(2);
    if let Ok(name) = CStr::from_bytes_until_nul(name) {
        lua.push_bytes(name.to_bytes());
        lua.replace(2);
    }
}

/// The reader that `load` gives to Lua. It calls the script's function (first upvalue).
unsafe extern "C-unwind" fn read_piece(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    lua.set_top(0);
    lua.push_value(ffi::lua_upvalueindex(1));
    lua.call(0, 1);
    if lua.to_boolean(ffi::lua_upvalueindex(2)) {
        lua.push_boolean(false);
        lua.replace(ffi::lua_upvalueindex(2));
        if is_precompiled(lua, 1) {
            defuse(lua, 1);
        }
    }
    1
}

/// Copies the functions of Lua's base library that scripts may see to the table on top.
pub(super) fn copy_base(lua: Lua) {
    for name in BASE_NAMES {
        lua.raw_get_field(GLOBALS, name);
        lua.raw_set_field(-2, name);
    }
}
