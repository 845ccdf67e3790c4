//! Reads Lua's own structures directly where calling a C function would cost too much.
//!
//! A C function cannot be inlined here, and a script's call of a command reads a dozen values: the kind and
//! bytes of each argument, the top of the stack, the way back to the [`Context`](super::context::Context).
//! Besides, Lua's interface does not tell whether the results of a call are used, or whether a table is as it
//! was made. So this file describes the first fields of five structures as Lua 5.1.5 declares them
//! (`lstate.h`, `lobject.h`). They are only read, with one exception: values of a table's array may be set to
//! nil.
//!
//! Lua 5.1 has not changed since 2012, and its sources are pinned with the crate that builds them.
//! Nevertheless, [`check`] compares the description with what the C functions report, once for each new
//! state. So a different Lua stops the server at its first script instead of being misread.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};

use mlua_sys as ffi;

use super::lua::{Lua, lua_State};

/// A value, on the stack or in a table.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Value {
    content: Content,
    kind: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
union Content {
    text: *const Text,
    number: f64,
    boolean: c_int,
}

/// A string; its bytes follow.
#[repr(C)]
struct Text {
    next: *const c_void,
    kind: u8,
    marks: u8,
    is_word: u8,
    hash: c_uint,
    length: usize,
}

/// A table, up to the length of its array.
#[repr(C)]
struct Table {
    next: *const c_void,
    kind: u8,
    marks: u8,
    absent_methods: u8,
    node_count_log2: u8,
    metatable: *const c_void,
    array: *const Value,
    nodes: *const c_void,
    last_free: *const c_void,
    gray_next: *const c_void,
    array_length: c_int,
}

/// A state or coroutine, up to the current call.
#[repr(C)]
struct Thread {
    next: *const c_void,
    kind: u8,
    marks: u8,
    status: u8,
    top: *const Value,
    base: *const Value,
    shared: *const Shared,
    call: *const Call,
}

/// The part of Lua's state that all its coroutines share, up to the pointer for the memory function.
#[repr(C)]
struct Shared {
    texts: *const c_void,
    text_count: u32,
    text_slots: c_int,
    allocate: *const c_void,
    heap: *const c_void,
}

/// A call of a function.
#[repr(C)]
struct Call {
    base: *const Value,
    function: *const Value,
    top: *const Value,
    instruction: *const c_void,
    results: c_int,
}

impl Value {
    pub(super) const NIL: Value = Value { content: Content { number: 0.0 }, kind: ffi::LUA_TNIL };

    #[inline]
    pub(super) fn kind(self) -> c_int {
        self.kind
    }

    /// The number; `None` if it is another kind.
    #[inline]
    pub(super) fn number(self) -> Option<f64> {
        match self.kind {
            // SAFETY: Lua stores a double in values of this kind.
            ffi::LUA_TNUMBER => Some(unsafe { self.content.number }),
            _ => None,
        }
    }

    /// The boolean; `None` if it is another kind.
    #[inline]
    pub(super) fn boolean(self) -> Option<bool> {
        match self.kind {
            // SAFETY: Lua stores an int in values of this kind.
            ffi::LUA_TBOOLEAN => Some(unsafe { self.content.boolean } != 0),
            _ => None,
        }
    }

    /// The bytes; `None` if it is not a string. They live while something refers to the string. The caller
    /// chooses the lifetime.
    #[inline]
    pub(super) fn bytes<'a>(self) -> Option<&'a [u8]> {
        if self.kind != ffi::LUA_TSTRING {
            return None;
        }
        // SAFETY: Lua stores a pointer to a string in values of this kind.
        let text = unsafe { self.content.text };
        // SAFETY: the string is alive, because a value refers to it.
        let length = unsafe { (*text).length };
        // SAFETY: the bytes follow the head, in the same block.
        let start = unsafe { text.add(1) };
        // SAFETY: there are `length` bytes, and they neither move nor change.
        Some(unsafe { std::slice::from_raw_parts(start.cast(), length) })
    }
}

/// The state's structure. To be read at once, because running code changes it.
#[inline]
fn thread<'a>(state: *mut lua_State) -> &'a Thread {
    // SAFETY: the state is alive, and starts with these fields, as `check` has verified.
    unsafe { &*state.cast_const().cast() }
}

/// Number of values that the running function has on the stack.
#[inline]
pub(super) fn top(state: *mut lua_State) -> c_int {
    let Thread { top, base, .. } = thread(state);
    ((top.addr() - base.addr()) / size_of::<Value>()) as c_int
}

/// The value at a stack index of the running function, positive or counted from the top; `None` above the
/// top. Not for pseudo-indices.
#[inline]
pub(super) fn value(state: *mut lua_State, index: c_int) -> Option<Value> {
    let &Thread { top, base, .. } = thread(state);
    let from =
        if index > 0 { base.wrapping_add(index as usize - 1) } else { top.wrapping_offset(index as isize) };
    // SAFETY: values below the top are initialized.
    (from < top).then(|| unsafe { *from })
}

/// The stack of the running function. Until a native function pushes something, these are its arguments. They
/// stay where they are until something is pushed.
#[inline]
pub(super) fn values<'a>(state: *mut lua_State) -> &'a [Value] {
    // SAFETY: all values from the base to the top are initialized.
    unsafe { std::slice::from_raw_parts(thread(state).base, top(state) as usize) }
}

/// The pointer that the state was opened with.
#[inline]
pub(super) fn heap(state: *mut lua_State) -> *const c_void {
    // SAFETY: all coroutines of a state share this part, which lives as long as they do.
    unsafe { (*thread(state).shared).heap }
}

/// Whether the caller of the running C function ignores its results.
#[inline]
pub(super) fn drops_results(state: *mut lua_State) -> bool {
    // SAFETY: this is the call of the running function, which is alive.
    unsafe { (*thread(state).call).results == 0 }
}

/// A table's structure, to be read at once.
#[inline]
fn table<'a>(lua: Lua, index: c_int) -> &'a Table {
    assert!(lua.is(index, ffi::LUA_TTABLE), "a table is expected");
    // SAFETY: the index is valid.
    let table = unsafe { ffi::lua_topointer(lua.0, index) };
    // SAFETY: it is a table, which starts with these fields, as `check` has verified.
    unsafe { &*table.cast() }
}

/// The address of a table's fields. Tables that have never had fields share one address, which no table with
/// fields has.
#[inline]
pub(super) fn fields(lua: Lua, index: c_int) -> *const c_void {
    table(lua, index).nodes
}

/// The items of the table at a stack index. `None` unless the table has no metatable, no room for fields
/// (`no_fields`: see [`fields`]), and an array of exactly this length, like a table that was created for this
/// many items and got nothing else. The items stay where they are as long as the table lives and nothing is
/// added.
///
/// The collector does not notice values that are set through these cells, so they may only be set to nil.
#[inline]
pub(super) fn items<'a>(
    lua: Lua,
    index: c_int,
    length: usize,
    no_fields: *const c_void,
) -> Option<&'a [Cell<Value>]> {
    let &Table { metatable, array, nodes, array_length, .. } = table(lua, index);
    if array_length as usize != length || !metatable.is_null() || nodes != no_fields {
        return None;
    }
    if length == 0 {
        // There may be no array at all.
        return Some(&[]);
    }
    // SAFETY: the array has this many values, and they are only changed through pointers.
    Some(unsafe { std::slice::from_raw_parts(array.cast::<Cell<Value>>(), length) })
}

/// Compares the descriptions with Lua's own reports of a state. The stack is left as it was.
///
/// # Panics If it is not the Lua that is described.
pub(super) fn check(lua: Lua) {
    let floor = lua.top();
    // SAFETY: the state is alive.
    assert_eq!(floor, unsafe { ffi::lua_gettop(lua.0) }, "the stack of another Lua");
    let mut account = std::ptr::null_mut();
    // SAFETY: the second argument is a place for a pointer.
    unsafe { ffi::lua_getallocf(lua.0, &mut account) };
    assert_eq!(heap(lua.0), account.cast_const(), "the account of another Lua");
    lua.push_bytes(b"bytes\0");
    lua.push_number(1.5);
    lua.push_boolean(true);
    lua.push_nil();
    let values = [1, 2, 3, 4].map(|index| value(lua.0, floor + index).expect("it was pushed"));
    // Not with `assert_eq`: the bytes of a different Lua cannot be printed.
    assert!(values[0].bytes() == Some(b"bytes\0"), "the strings of another Lua");
    assert_eq!(
        (values[1].number(), values[2].boolean()),
        (Some(1.5), Some(true)),
        "the values of another Lua"
    );
    assert_eq!(values[3].kind(), ffi::LUA_TNIL, "the values of another Lua");
    assert_eq!(self::values(lua.0).len(), floor as usize + 4, "the stack of another Lua");
    assert!(value(lua.0, floor + 5).is_none(), "the stack of another Lua");
    lua.push_table(0, 0);
    let no_fields = fields(lua, -1);
    lua.push_table(2, 0);
    lua.push_number(1.5);
    lua.raw_set_item(-2, 2);
    let found = items(lua, -1, 2, no_fields).expect("the tables of another Lua");
    let kinds = [found[0].get().kind(), found[1].get().kind()];
    assert!(kinds == [ffi::LUA_TNIL, ffi::LUA_TNUMBER], "the tables of another Lua");
    found[1].set(Value::NIL);
    assert!(lua.length(-1) == 0, "the tables of another Lua");
    assert!(items(lua, -1, 3, no_fields).is_none(), "the tables of another Lua");
    lua.push_value(-1);
    lua.set_metatable(-2);
    assert!(items(lua, -1, 2, no_fields).is_none(), "the tables of another Lua");
    lua.push_table(2, 1);
    assert!(items(lua, -1, 2, no_fields).is_none(), "the tables of another Lua");
    for results in [0, 1, 2, super::lua::MULTIPLE] {
        lua.push_function(note_drops_results, 0);
        lua.push_value(-2);
        lua.call(1, results);
        lua.set_top(floor + 7);
        lua.raw_get_item(-1, 1);
        assert_eq!(lua.to_boolean(-1), results == 0, "the calls of another Lua");
        lua.pop(1);
    }
    lua.set_top(floor);
}

/// Stores in the table that is its argument whether its results are ignored.
unsafe extern "C-unwind" fn note_drops_results(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    lua.push_boolean(drops_results(state));
    lua.raw_set_item(1, 1);
    0
}
