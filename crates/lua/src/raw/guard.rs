//! Read-only tables for scripts.
//!
//! Redis' Lua can mark a table as read-only; stock Lua cannot. Here a guarded table is an empty table whose
//! metatable forwards reads to the hidden table (`__index`), refuses writes (`__newindex`), and holds the
//! hidden table under a key that scripts cannot make, the address of [`MARK`]. The functions that bypass
//! metatables (`next`, `rawget`, `rawset`, `setmetatable`, the `table` library) are replaced by ones that
//! check for that key (`base`). A table without a metatable, as nearly all are, costs them one comparison.

use std::ffi::{c_int, c_void};

use mlua_sys as ffi;

use super::context::Context;
use super::lua::{GLOBALS, Lua, REGISTRY, lua_State};

/// Its address is the key of the hidden table.
static MARK: u8 = 0;
/// The error of a write to a guarded table.
const READ_ONLY: &str = "Attempt to modify a readonly table";

fn mark() -> *mut c_void {
    std::ptr::from_ref(&MARK).cast_mut().cast()
}

/// Replaces the table on top by a guarded table over it.
pub(super) fn guard(lua: Lua) {
    let hidden = lua.top();
    lua.push_table(0, 0);
    lua.push_table(0, 4);
    lua.push_value(hidden);
    lua.raw_set_field(-2, "__index");
    lua.push_function(refuse_write, 0);
    lua.raw_set_field(-2, "__newindex");
    lua.push_boolean(false);
    lua.raw_set_field(-2, "__metatable");
    lua.push_pointer(mark());
    lua.push_value(hidden);
    lua.raw_set(-3);
    lua.set_metatable(-2);
    lua.replace(hidden);
}

/// If the value at `index` is a guarded table, pushes its hidden table and returns true.
#[inline]
pub(super) fn push_hidden(lua: Lua, index: c_int) -> bool {
    if !lua.is(index, ffi::LUA_TTABLE) || !lua.get_metatable(index) {
        return false;
    }
    lua.push_pointer(mark());
    lua.raw_get(-2);
    lua.remove(-2);
    if lua.is(-1, ffi::LUA_TNIL) {
        lua.pop(1);
        return false;
    }
    true
}

/// Raises if the first argument is a guarded table.
#[inline]
pub(super) fn refuse_guarded(lua: Lua) {
    if push_hidden(lua, 1) {
        raise_read_only(lua, false);
    }
}

/// Raises the error of a write to a guarded table. `has_place`: prefixed with the position of the running Lua
/// code, if that code made the write.
fn raise_read_only(lua: Lua, has_place: bool) -> ! {
    let context = Context::of(lua);
    context.heap.set_trusting(true);
    if has_place {
        lua.push_place(1);
    } else {
        lua.push_bytes(b"");
    }
    lua.push_bytes(READ_ONLY.as_bytes());
    lua.concat(2);
    context.heap.set_trusting(false);
    lua.raise()
}

unsafe extern "C-unwind" fn refuse_write(state: *mut lua_State) -> c_int {
    raise_read_only(Lua(state), true)
}

/// `__index` of the globals: reading an unknown one is an error, not nil.
unsafe extern "C-unwind" fn refuse_unknown_global(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    let context = Context::of(lua);
    context.heap.set_trusting(true);
    lua.push_place(1);
    let name = lua.bytes(2);
    match name {
        Some(name) => {
            lua.push_bytes(b"Script attempted to access nonexistent global variable '");
            // The message ends at a zero byte, as C strings do.
            lua.push_bytes(name.split(|byte| *byte == 0).next().unwrap_or_default());
            lua.push_bytes(b"'");
            lua.concat(4);
        }
        None => {
            lua.push_bytes(b"Second argument to luaProtectedTableError must be a string or number");
            lua.concat(2);
        }
    }
    context.heap.set_trusting(false);
    lua.raise()
}

/// Guards the table of globals on top, and makes it the one that scripts compiled from now on see. Returns
/// the registry reference of the hidden table, through which `KEYS` and `ARGV` are set.
pub(super) fn install_globals(lua: Lua) -> c_int {
    let hidden = lua.top();
    lua.push_value(hidden);
    guard(lua);
    lua.push_value(-1);
    lua.raw_set_field(hidden, "_G");
    lua.replace(GLOBALS);
    refuse_unknown(lua);
    lua.keep()
}

/// Makes reading unknown fields of the table on top an error.
pub(super) fn refuse_unknown(lua: Lua) {
    lua.push_table(0, 1);
    lua.push_function(refuse_unknown_global, 0);
    lua.raw_set_field(-2, "__index");
    lua.set_metatable(-2);
}

/// Makes the table with this registry reference the hidden table of the guarded globals.
pub(super) fn show_globals(lua: Lua, hidden: c_int) {
    lua.push_value(GLOBALS);
    lua.get_metatable(-1);
    lua.raw_get_item(REGISTRY, hidden);
    lua.raw_set_field(-2, "__index");
    lua.push_pointer(mark());
    lua.raw_get_item(REGISTRY, hidden);
    lua.raw_set(-3);
    lua.pop(2);
}

/// `getmetatable`: strings and the globals show a guarded copy of their metatable, other guarded tables show
/// none.
pub(super) unsafe extern "C-unwind" fn get_metatable(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    lua.check_any(1);
    let is_globals = {
        lua.push_value(GLOBALS);
        // SAFETY: both values are on the stack.
        let is_equal = unsafe { ffi::lua_rawequal(state, 1, -1) != 0 };
        lua.pop(1);
        is_equal
    };
    if lua.is(1, ffi::LUA_TSTRING) || is_globals {
        show_index(lua, is_globals);
        return 1;
    }
    if push_hidden(lua, 1) || !lua.get_metatable(1) {
        lua.push_nil();
        return 1;
    }
    // As in Lua's own function, a field `__metatable` hides the metatable.
    lua.raw_get_field(-1, "__metatable");
    if lua.is(-1, ffi::LUA_TNIL) {
        lua.pop(1);
    }
    1
}

/// Pushes a guarded metatable `{__index = …}`: for a string its library, for the globals the function that
/// refuses.
fn show_index(lua: Lua, is_globals: bool) {
    let context = Context::of(lua);
    context.heap.set_trusting(true);
    lua.push_table(0, 1);
    if is_globals {
        lua.push_function(refuse_unknown_global, 0);
    } else {
        lua.push_value(GLOBALS);
        push_hidden(lua, -1);
        lua.raw_get_field(-1, "string");
        lua.replace(-3);
        lua.pop(1);
    }
    lua.raw_set_field(-2, "__index");
    guard(lua);
    context.heap.set_trusting(false);
}
