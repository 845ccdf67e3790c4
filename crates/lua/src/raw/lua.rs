//! The C interface of Lua, one method per function.
//!
//! [`Lua`] is a copyable pointer to a state. Every method is one call, so this file holds nearly all of the
//! crate's `unsafe`, and the files beside it read as ordinary code. The methods are visible only in `raw`,
//! whose code keeps their rules:
//! - The pointer is live. Only [`super::state::State`] makes and closes states, and C passes live ones to callbacks.
//! - There is stack room for what is pushed: twenty slots at the start of a callback, more after `check_stack`.
//! - Indexes are valid and of the kind that the method says.
//! - A method marked *raises* may jump to the nearest protected call. No value with a destructor may be alive then. The others raise only
//!   if memory runs out, which the heap rules out while Rust code runs (see `heap`).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

use mlua_sys as ffi;
pub(super) use mlua_sys::lua_State;

use super::{heap, layout};

/// A function that Lua can call.
pub(super) type CFunction = unsafe extern "C-unwind" fn(*mut lua_State) -> c_int;

/// Lua's defaults for the collector's pause and speed.
const GC_PERCENT: c_int = 200;
/// The collector's pause for scripts that do not set it. A hundred kilobytes remain, which Lua's default
/// would traverse twice as often.
const PAUSE_PERCENT: c_int = 400;
/// Pseudo-indices of the registry and the globals.
pub(super) const REGISTRY: c_int = ffi::LUA_REGISTRYINDEX;
pub(super) const GLOBALS: c_int = ffi::LUA_GLOBALSINDEX;
/// As a number of results: all of them.
pub(super) const MULTIPLE: c_int = ffi::LUA_MULTRET;

/// A live Lua state (or coroutine).
#[derive(Clone, Copy)]
pub(super) struct Lua(pub(super) *mut lua_State);

/// A compiled script, or a function of a library: its reference in the registry, from [`Lua::keep`]. Copies
/// are the same reference, which is invalid after `forget`.
#[derive(Clone, Debug)]
pub(crate) struct Function(pub(super) c_int);

/// The position of a function on the call stack.
pub(super) struct Place {
    pub(super) is_c: bool,
    pub(super) line: c_int,
    /// Valid while the function is on the call stack.
    pub(super) source: *const c_char,
}

impl Lua {
    /// A new state over `heap`, which must outlive it; `None` if there is no memory.
    pub(super) fn open(heap: &heap::Heap) -> Option<Lua> {
        let account = std::ptr::from_ref(heap).cast_mut().cast();
        // SAFETY: with this heap, `allocate` fulfils Lua's contract for memory functions.
        let state = unsafe { ffi::lua_newstate(heap::allocate, account) };
        (!state.is_null()).then_some(Lua(state))
    }

    pub(super) fn close(self) {
        // SAFETY: rules above; the owner closes once.
        unsafe { ffi::lua_close(self.0) }
    }

    /// The pointer that was given to [`Lua::open`].
    #[inline]
    pub(super) fn heap(self) -> *const heap::Heap {
        layout::heap(self.0).cast()
    }

    // The stack.

    #[inline]
    pub(super) fn top(self) -> c_int {
        layout::top(self.0)
    }

    #[inline]
    pub(super) fn set_top(self, top: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_settop(self.0, top) }
    }

    #[inline]
    pub(super) fn pop(self, count: c_int) {
        self.set_top(-count - 1);
    }

    #[inline]
    pub(super) fn push_value(self, index: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_pushvalue(self.0, index) }
    }

    pub(super) fn remove(self, index: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_remove(self.0, index) }
    }

    pub(super) fn insert(self, index: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_insert(self.0, index) }
    }

    pub(super) fn replace(self, index: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_replace(self.0, index) }
    }

    /// Makes room for `slots` more values. False at Lua's limit of 8000 for a C function.
    pub(super) fn check_stack(self, slots: c_int) -> bool {
        // SAFETY: rules above.
        unsafe { ffi::lua_checkstack(self.0, slots) != 0 }
    }

    // Reading.

    #[inline]
    pub(super) fn kind(self, index: c_int) -> c_int {
        if index > REGISTRY {
            return layout::value(self.0, index).map_or(ffi::LUA_TNONE, layout::Value::kind);
        }
        // SAFETY: rules above; any index is allowed.
        unsafe { ffi::lua_type(self.0, index) }
    }

    pub(super) fn kind_name(self, index: c_int) -> &'static str {
        match self.kind(index) {
            ffi::LUA_TNIL => "nil",
            ffi::LUA_TBOOLEAN => "boolean",
            ffi::LUA_TLIGHTUSERDATA | ffi::LUA_TUSERDATA => "userdata",
            ffi::LUA_TNUMBER => "number",
            ffi::LUA_TSTRING => "string",
            ffi::LUA_TTABLE => "table",
            ffi::LUA_TFUNCTION => "function",
            ffi::LUA_TTHREAD => "thread",
            _ => "no value",
        }
    }

    #[inline]
    pub(super) fn is(self, index: c_int, kind: c_int) -> bool {
        self.kind(index) == kind
    }

    /// Whether the value is a number, or a string that can be parsed as one.
    pub(super) fn is_number(self, index: c_int) -> bool {
        // SAFETY: rules above.
        unsafe { ffi::lua_isnumber(self.0, index) != 0 }
    }

    #[inline]
    pub(super) fn to_number(self, index: c_int) -> f64 {
        if let Some(number) = slot(self, index).and_then(layout::Value::number) {
            return number;
        }
        // SAFETY: rules above.
        unsafe { ffi::lua_tonumber(self.0, index) }
    }

    #[inline]
    pub(super) fn to_boolean(self, index: c_int) -> bool {
        if let Some(boolean) = slot(self, index).and_then(layout::Value::boolean) {
            return boolean;
        }
        // SAFETY: rules above.
        unsafe { ffi::lua_toboolean(self.0, index) != 0 }
    }

    /// The bytes of a string, or of a number, which is converted to a string in its slot. They live while the
    /// slot holds the string.
    #[inline]
    pub(super) fn bytes<'a>(self, index: c_int) -> Option<&'a [u8]> {
        if let Some(bytes) = slot(self, index).and_then(layout::Value::bytes) {
            return Some(bytes);
        }
        let mut length = 0;
        // SAFETY: rules above; the third argument is a place for a size.
        let start = unsafe { ffi::lua_tolstring(self.0, index, &mut length) };
        if start.is_null() {
            return None;
        }
        // SAFETY: Lua strings do not move or change while something refers to them, in this case the slot.
        Some(unsafe { std::slice::from_raw_parts(start.cast(), length) })
    }

    #[inline]
    pub(super) fn length(self, index: c_int) -> usize {
        // SAFETY: rules above.
        unsafe { ffi::lua_objlen(self.0, index) }
    }

    #[inline]
    pub(super) fn to_pointer(self, index: c_int) -> *mut c_void {
        // SAFETY: rules above.
        unsafe { ffi::lua_touserdata(self.0, index) }
    }

    pub(super) fn to_function(self, index: c_int) -> Option<CFunction> {
        // SAFETY: rules above.
        unsafe { ffi::lua_tocfunction(self.0, index) }
    }

    // Writing.

    #[inline]
    pub(super) fn push_nil(self) {
        // SAFETY: rules above.
        unsafe { ffi::lua_pushnil(self.0) }
    }

    #[inline]
    pub(super) fn push_number(self, number: f64) {
        // SAFETY: rules above.
        unsafe { ffi::lua_pushnumber(self.0, number) }
    }

    #[inline]
    pub(super) fn push_boolean(self, boolean: bool) {
        // SAFETY: rules above.
        unsafe { ffi::lua_pushboolean(self.0, c_int::from(boolean)) }
    }

    #[inline]
    pub(super) fn push_bytes(self, bytes: &[u8]) {
        // SAFETY: rules above; the pointer and length describe a slice.
        unsafe { ffi::lua_pushlstring_(self.0, bytes.as_ptr().cast(), bytes.len()) }
    }

    #[inline]
    pub(super) fn push_pointer(self, pointer: *mut c_void) {
        // SAFETY: rules above.
        unsafe { ffi::lua_pushlightuserdata(self.0, pointer) }
    }

    /// Pops `upvalues` values and pushes a closure over them.
    pub(super) fn push_function(self, function: CFunction, upvalues: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_pushcclosure(self.0, function, upvalues) }
    }

    #[inline]
    pub(super) fn push_table(self, items: c_int, fields: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_createtable(self.0, items, fields) }
    }

    // Tables.

    #[inline]
    pub(super) fn raw_get(self, table: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_rawget_(self.0, table) }
    }

    #[inline]
    pub(super) fn raw_get_item(self, table: c_int, position: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_rawgeti_(self.0, table, position) }
    }

    /// Pushes the field `name`, without metamethods.
    pub(super) fn raw_get_field(self, table: c_int, name: &str) {
        self.push_bytes(name.as_bytes());
        self.raw_get(if table < 0 && table > REGISTRY { table - 1 } else { table });
    }

    /// Raises if the key is nil or NaN.
    #[inline]
    pub(super) fn raw_set(self, table: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_rawset(self.0, table) }
    }

    #[inline]
    pub(super) fn raw_set_item(self, table: c_int, position: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_rawseti_(self.0, table, position) }
    }

    /// Pops a value and stores it as the field `name`, without metamethods.
    pub(super) fn raw_set_field(self, table: c_int, name: &str) {
        self.push_bytes(name.as_bytes());
        self.insert(-2);
        self.raw_set(if table < 0 && table > REGISTRY { table - 1 } else { table });
    }

    /// Replaces the key on top by the next entry; raises if the table does not have the key.
    #[inline]
    pub(super) fn next(self, table: c_int) -> bool {
        // SAFETY: rules above.
        unsafe { ffi::lua_next(self.0, table) != 0 }
    }

    /// Pushes the metatable, if there is one.
    #[inline]
    pub(super) fn get_metatable(self, index: c_int) -> bool {
        // SAFETY: rules above.
        unsafe { ffi::lua_getmetatable(self.0, index) != 0 }
    }

    pub(super) fn set_metatable(self, index: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_setmetatable(self.0, index) };
    }

    /// Pops a value and keeps it in the registry. Returns the reference.
    pub(super) fn keep(self) -> c_int {
        // SAFETY: rules above.
        unsafe { ffi::luaL_ref(self.0, REGISTRY) }
    }

    pub(super) fn forget(self, reference: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::luaL_unref(self.0, REGISTRY, reference) }
    }

    // Running.

    /// Raises the called function's error, if it raises one.
    pub(super) fn call(self, args: c_int, results: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_call(self.0, args, results) }
    }

    /// Calls, and returns Lua's status; 0 is success. Otherwise the error value is on top.
    pub(super) fn protected_call(self, args: c_int, results: c_int, handler: c_int) -> c_int {
        // SAFETY: rules above.
        unsafe { ffi::lua_pcall(self.0, args, results, handler) }
    }

    /// Calls a C function in this frame, with its arguments and results. Raises the function's errors.
    pub(super) fn delegate(self, function: CFunction) -> c_int {
        // SAFETY: rules above; the function expects a state with its arguments.
        unsafe { function(self.0) }
    }

    /// Compiles source text. `name` must also be on the stack as a string, because Lua does not hold it while
    /// it compiles.
    pub(super) fn load(self, source: &[u8], name: &CStr) -> c_int {
        // SAFETY: rules above; the pointer and length describe a slice.
        unsafe { ffi::luaL_loadbuffer(self.0, source.as_ptr().cast(), source.len(), name.as_ptr()) }
    }

    /// The function on top in Lua's format of precompiled chunks.
    pub(super) fn dump(self) -> Vec<u8> {
        let mut dump: Vec<u8> = Vec::new();
        // SAFETY: rules above; `append_dump` gets a vector that lives until it returns.
        let status = unsafe { ffi::lua_dump_(self.0, append_dump, std::ptr::from_mut(&mut dump).cast()) };
        assert_eq!(status, 0, "a Lua function is on top, and appending does not fail");
        dump
    }

    /// Makes the table on top the globals of the function at `index`.
    pub(super) fn set_environment(self, index: c_int) {
        // SAFETY: rules above.
        let is_set = unsafe { ffi::lua_setfenv(self.0, index) };
        assert_eq!(is_set, 1, "functions have one");
    }

    pub(super) fn collect_garbage(self) {
        // SAFETY: rules above.
        unsafe { ffi::lua_gc(self.0, ffi::LUA_GCCOLLECT, 0) };
    }

    /// Lets the collector run automatically, as often as our scripts need it.
    pub(super) fn reset_collector(self) {
        self.set_collector(PAUSE_PERCENT);
    }

    /// Lets the collector run as often as is Lua's default.
    pub(super) fn restore_collector(self) {
        self.set_collector(GC_PERCENT);
    }

    fn set_collector(self, pause_percent: c_int) {
        let settings = [
            (ffi::LUA_GCSETPAUSE, pause_percent),
            (ffi::LUA_GCSETSTEPMUL, GC_PERCENT),
            (ffi::LUA_GCRESTART, 0),
        ];
        for (what, value) in settings {
            // SAFETY: rules above.
            unsafe { ffi::lua_gc(self.0, what, value) };
        }
    }

    pub(super) fn set_hook(self, hook: Option<ffi::lua_Hook>, mask: c_int, count: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_sethook(self.0, hook, mask, count) };
    }

    /// Joins the `count` topmost values into one string.
    pub(super) fn concat(self, count: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::lua_concat(self.0, count) }
    }

    // Errors.

    /// Raises the topmost value.
    pub(super) fn raise(self) -> ! {
        // SAFETY: rules above.
        unsafe { ffi::lua_error(self.0) }
    }

    /// Raises "bad argument #n to 'function' (text)"; the text is the string on top.
    pub(super) fn raise_argument(self, position: c_int) -> c_int {
        // SAFETY: rules above.
        let text = unsafe { ffi::lua_tolstring(self.0, -1, null_mut()) };
        // SAFETY: the text is a C string that the stack keeps alive.
        unsafe { ffi::luaL_argerror(self.0, position, text) }
    }

    /// Raises unless the argument is of this kind.
    pub(super) fn check_kind(self, position: c_int, kind: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::luaL_checktype(self.0, position, kind) }
    }

    /// Raises unless the argument exists.
    pub(super) fn check_any(self, position: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::luaL_checkany(self.0, position) }
    }

    /// The argument's bytes; a number is converted to a string. Raises for other kinds.
    pub(super) fn check_bytes<'a>(self, position: c_int) -> &'a [u8] {
        let mut length = 0;
        // SAFETY: rules above; the third argument is a place for a size.
        let start = unsafe { ffi::luaL_checklstring(self.0, position, &mut length) };
        // SAFETY: as in `bytes`.
        unsafe { std::slice::from_raw_parts(start.cast(), length) }
    }

    /// The argument as a C `int`; raises unless it is or parses as a number.
    pub(super) fn check_int(self, position: c_int) -> c_int {
        // SAFETY: rules above.
        unsafe { ffi::luaL_checkinteger(self.0, position) as c_int }
    }

    /// Pushes "source:line: " of the function at `level`, or an empty string if it is unknown.
    pub(super) fn push_place(self, level: c_int) {
        // SAFETY: rules above.
        unsafe { ffi::luaL_where(self.0, level) }
    }

    /// The position of the function at `level` of the call stack.
    pub(super) fn place(self, level: c_int) -> Option<Place> {
        // SAFETY: the structure holds integers and pointers, for which zero is a value.
        let mut record: ffi::lua_Debug = unsafe { std::mem::zeroed() };
        // SAFETY: rules above; any level is allowed.
        if unsafe { ffi::lua_getstack(self.0, level, &mut record) } == 0 {
            return None;
        }
        // SAFETY: the record was filled for an existing level.
        unsafe { ffi::lua_getinfo(self.0, c"Sl".as_ptr(), &mut record) };
        // SAFETY: `what` is one of Lua's constant strings.
        let what = unsafe { CStr::from_ptr(record.what) };
        Some(Place { is_c: what == c"C", line: record.currentline, source: record.source })
    }

    /// Pushes a C string.
    pub(super) fn push_c_string(self, text: *const c_char) {
        // SAFETY: rules above.
        unsafe { ffi::lua_pushstring_(self.0, text) }
    }
}

/// The value in a stack slot; `None` above the top and for pseudo-indices.
#[inline]
fn slot(lua: Lua, index: c_int) -> Option<layout::Value> {
    if index > REGISTRY { layout::value(lua.0, index) } else { None }
}

// Functions that few files need.

/// The argument as an integer, or `default` if there is no argument. Raises if it is not a number and does
/// not parse as one.
#[inline]
pub(super) fn optional_integer(lua: Lua, position: c_int, default: i64) -> i64 {
    if lua.kind(position) <= ffi::LUA_TNIL {
        return default;
    }
    // SAFETY: rules above.
    unsafe { ffi::luaL_checkinteger(lua.0, position) as i64 }
}

/// Replaces the key on top by its value, with metamethods, and raises their errors.
pub(super) fn look_up(lua: Lua, table: c_int) {
    // SAFETY: rules above.
    unsafe { ffi::lua_gettable(lua.0, table) };
}

/// Whether one value is less than another. Raises if they cannot be compared, and if a metamethod raises.
#[inline]
pub(super) fn less_than(lua: Lua, left: c_int, right: c_int) -> bool {
    // SAFETY: rules above.
    unsafe { ffi::lua_lessthan(lua.0, left, right) != 0 }
}

/// The interval of the hook, in instructions.
#[inline]
pub(super) fn hook_count(lua: Lua) -> c_int {
    // SAFETY: rules above.
    unsafe { ffi::lua_gethookcount(lua.0) }
}

/// Appends a piece of a dump.
unsafe extern "C-unwind" fn append_dump(
    _: *mut lua_State,
    piece: *const c_void,
    bytes: usize,
    dump: *mut c_void,
) -> c_int {
    if bytes == 0 {
        // The pointer may be null then.
        return 0;
    }
    // SAFETY: Lua's piece has this many bytes.
    let piece = unsafe { std::slice::from_raw_parts(piece.cast::<u8>(), bytes) };
    // SAFETY: `dump` passed this vector, and nothing else uses it meanwhile.
    unsafe { (*dump.cast::<Vec<u8>>()).extend_from_slice(piece) };
    0
}
