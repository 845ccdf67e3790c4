//! `table.sort`, `foreach` and `foreachi` written anew, and checks before Lua's other table functions. All
//! count their work in steps.
//!
//! Calls of Lua's own functions cannot be interrupted, and some take long: for `sort`, numbers can be
//! arranged so that it takes quadratic time, and `foreach` may call functions other than the script's, in
//! which the hook does not run. Our `sort` makes the same comparisons and moves as Lua's, in the same order.
//! So equal items, and items that an invalid order function compares, end up as in Redis.

use std::ffi::c_int;

use mlua_sys as ffi;

use super::base::{original, raise_text};
use super::command::take_steps;
use super::guard::{push_hidden, refuse_guarded};
use super::lua::{self, Lua, lua_State};
use crate::steps::{STEP_BYTES, TABLE_STEP_COUNT};

/// The lowest position for `table.insert`: far below the start of any list, but quickly reached.
const INSERT_POSITION_MIN: c_int = -1_000_000;
/// Stack slots for `sort`: it recurses only into parts that are at most half as long.
const SORT_SLOTS: c_int = 40;
/// Steps that a call of a function counts as.
const CALL_STEP_COUNT: usize = 100;

/// The length of the first argument, a table, as a C `int`.
fn length_of(lua: Lua) -> c_int {
    lua.check_kind(1, ffi::LUA_TTABLE);
    lua.length(1) as c_int
}

/// `table.insert`. Lua moves every position from the given one to the end, even if nothing is there.
pub(super) unsafe extern "C-unwind" fn insert(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    refuse_guarded(lua);
    if lua.top() == 3 && lua.is(1, ffi::LUA_TTABLE) {
        let position = lua.check_int(2);
        if position < INSERT_POSITION_MIN {
            raise_text(lua, "bad argument #2 to 'insert' (position out of bounds)");
        }
        take_steps(lua, usize::try_from(i64::from(length_of(lua)) - i64::from(position)).unwrap_or(0));
    }
    original(lua)
}

/// `table.remove`. A guarded table has no items, so nothing is removed and nothing refused.
pub(super) unsafe extern "C-unwind" fn remove(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    if push_hidden(lua, 1) {
        return 0;
    }
    if lua.top() > 1 {
        let length = length_of(lua);
        take_steps(
            lua,
            length.saturating_sub(lua::optional_integer(lua, 2, i64::from(length)) as c_int).max(0) as usize,
        );
    }
    original(lua)
}

/// `table.concat`, which traverses the list once.
pub(super) unsafe extern "C-unwind" fn concat(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    if lua.is(1, ffi::LUA_TTABLE) {
        take_steps(lua, lua.length(1));
    }
    original(lua)
}

/// `table.maxn`, which traverses the table.
pub(super) unsafe extern "C-unwind" fn maxn(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    take_steps(lua, TABLE_STEP_COUNT);
    original(lua)
}

/// `table.foreach`. For a guarded table it reads the hidden one. The function gets keys and values, never the
/// table.
pub(super) unsafe extern "C-unwind" fn foreach(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    if push_hidden(lua, 1) {
        lua.replace(1);
    }
    lua.check_kind(1, ffi::LUA_TTABLE);
    lua.check_kind(2, ffi::LUA_TFUNCTION);
    lua.set_top(2);
    lua.push_nil();
    while lua.next(1) {
        take_steps(lua, CALL_STEP_COUNT);
        lua.push_value(2);
        lua.push_value(-3);
        lua.push_value(-3);
        lua.call(2, 1);
        if !lua.is(-1, ffi::LUA_TNIL) {
            return 1;
        }
        lua.pop(2);
    }
    0
}

/// `table.foreachi`.
pub(super) unsafe extern "C-unwind" fn foreachi(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    let length = length_of(lua);
    lua.check_kind(2, ffi::LUA_TFUNCTION);
    lua.set_top(2);
    for position in 1..=length {
        take_steps(lua, CALL_STEP_COUNT);
        lua.push_value(2);
        lua.push_number(f64::from(position));
        lua.raw_get_item(1, position);
        lua.call(2, 1);
        if !lua.is(-1, ffi::LUA_TNIL) {
            return 1;
        }
        lua.pop(1);
    }
    0
}

/// `table.sort`. A guarded table has no items, so nothing is sorted.
pub(super) unsafe extern "C-unwind" fn sort(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    if push_hidden(lua, 1) {
        return 0;
    }
    let length = length_of(lua);
    if !lua.check_stack(SORT_SLOTS) {
        raise_text(lua, "stack overflow ()");
    }
    let has_order = lua.kind(2) > ffi::LUA_TNIL;
    if has_order {
        lua.check_kind(2, ffi::LUA_TFUNCTION);
    }
    lua.set_top(2);
    sort_part(lua, 1, length, has_order);
    0
}

/// Whether the value at `left` sorts before the value at `right`; both indexes count from the top.
fn comes_before(lua: Lua, left: c_int, right: c_int, has_order: bool) -> bool {
    if !has_order {
        let bytes = if lua.is(left, ffi::LUA_TSTRING) { lua.length(left) } else { 0 };
        take_steps(lua, 1 + bytes / STEP_BYTES);
        return lua::less_than(lua, left, right);
    }
    take_steps(lua, CALL_STEP_COUNT);
    lua.push_value(2);
    lua.push_value(left - 1);
    lua.push_value(right - 2);
    lua.call(2, 1);
    let is_before = lua.to_boolean(-1);
    lua.pop(1);
    is_before
}

/// Pops two values: stores the upper at `first` and the lower at `second`.
fn store(lua: Lua, first: c_int, second: c_int) {
    lua.raw_set_item(1, first);
    lua.raw_set_item(1, second);
}

/// Swaps two items if the second sorts before the first, and returns whether it did.
fn put_in_order(lua: Lua, first: c_int, second: c_int, has_order: bool) -> bool {
    lua.raw_get_item(1, first);
    lua.raw_get_item(1, second);
    let is_swapped = comes_before(lua, -1, -2, has_order);
    if is_swapped {
        store(lua, first, second);
    } else {
        lua.pop(2);
    }
    is_swapped
}

/// Sorts the items from `low` to `high`: Sedgewick's quicksort, with the median of the first, the middle and
/// the last item as pivot.
fn sort_part(lua: Lua, mut low: c_int, mut high: c_int, has_order: bool) {
    while low < high {
        put_in_order(lua, low, high, has_order);
        if high - low == 1 {
            return;
        }
        let middle = low + (high - low) / 2;
        if !put_in_order(lua, low, middle, has_order) {
            put_in_order(lua, middle, high, has_order);
        }
        if high - low == 2 {
            return;
        }
        let pivot = divide(lua, low, high, middle, has_order);
        // Recurse into the smaller part, so that the recursion stays shallow.
        if pivot - low < high - pivot {
            sort_part(lua, low, pivot - 1, has_order);
            low = pivot + 1;
        } else {
            sort_part(lua, pivot + 1, high, has_order);
            high = pivot - 1;
        }
    }
}

/// Partitions around the item at `middle`: smaller items before it, the others after it. Returns its new
/// position.
fn divide(lua: Lua, low: c_int, high: c_int, middle: c_int, has_order: bool) -> c_int {
    lua.raw_get_item(1, middle);
    lua.push_value(-1);
    lua.raw_get_item(1, high - 1);
    store(lua, middle, high - 1);
    // The pivot is on top, and stays there while both ends move towards each other.
    let (mut left, mut right) = (low, high - 1);
    loop {
        left += 1;
        lua.raw_get_item(1, left);
        while comes_before(lua, -1, -2, has_order) {
            if left > high {
                raise_text(lua, "invalid order function for sorting");
            }
            lua.pop(1);
            left += 1;
            lua.raw_get_item(1, left);
        }
        right -= 1;
        lua.raw_get_item(1, right);
        while comes_before(lua, -3, -1, has_order) {
            if right < low {
                raise_text(lua, "invalid order function for sorting");
            }
            lua.pop(1);
            right -= 1;
            lua.raw_get_item(1, right);
        }
        if right < left {
            break;
        }
        store(lua, left, right);
    }
    lua.pop(3);
    lua.raw_get_item(1, high - 1);
    lua.raw_get_item(1, left);
    store(lua, high - 1, left);
    left
}
