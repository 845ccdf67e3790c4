//! Native functions: Rust functions that scripts can call, written without `unsafe`.
//!
//! A [`Native`] gets a [`Stack`], reads its arguments, pushes its results and returns how many, or a
//! [`Failure`]. Nothing that a `Stack` does makes Lua jump: memory is claimed before it is used, stack room
//! is made before a push, keys are checked before they are stored. So a native function may own vectors and
//! strings like any Rust code. [`enter`] raises the error after all of them are dropped.

use std::cell::RefCell;
use std::ffi::c_int;

use mlua_sys as ffi;

use super::command;
use super::context::{Context, Running};
use super::layout;
use super::lua::{Function, Lua, lua_State};
use crate::host::Host;
use crate::random::Random;
use crate::registry::Registry;
use crate::steps::{Over, Steps};

/// Slots that Lua guarantees at the start of a callback.
const SLOTS_MIN: c_int = ffi::LUA_MINSTACK;
/// Approximate cost of a table field and an array item, for claiming memory before a table is made.
const FIELD_BYTES: usize = 40;
const ITEM_BYTES: usize = 16;
/// The most common status reply.
const STATUS_USUAL: &[u8] = b"OK";
/// The error of a script whose memory is exhausted.
pub(super) const OUT_OF_MEMORY: &str = "not enough memory";

/// A Rust function for scripts. Returns the number of results that it left on top.
pub(crate) type Native = fn(&mut Stack<'_>) -> Result<c_int, Failure>;

/// Why a native function failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error message, to be prefixed with the caller's position.
    Message(Vec<u8>),
    /// "bad argument #n to 'function' (text)".
    Argument(c_int, Vec<u8>),
    /// The value on top is the error.
    Raise,
    /// The state's memory is exhausted.
    Memory,
}

impl Failure {
    pub(crate) fn message(text: impl Into<Vec<u8>>) -> Failure {
        Failure::Message(text.into())
    }

    pub(crate) fn argument(position: c_int, text: impl Into<Vec<u8>>) -> Failure {
        Failure::Argument(position, text.into())
    }
}

/// The kind of value in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LuaKind {
    /// Above the top.
    None,
    Nil,
    Boolean,
    Number,
    String,
    Table,
    /// A bare pointer. Scripts only have `cjson.null`.
    Pointer,
    Function,
    /// Full userdata or a coroutine.
    Other,
}

/// The values of one call: arguments from index 1 upwards, then those that the function pushes.
///
/// Negative indexes count from the top. Arguments stay in place for the whole call, so their bytes live as
/// long.
pub(crate) struct Stack<'a> {
    lua: Lua,
    context: &'a Context,
    arg_count: c_int,
    top: c_int,
    /// The highest index that there is room for.
    top_max: c_int,
}

impl<'a> Stack<'a> {
    /// A view of the current frame.
    #[inline]
    pub(super) fn new(lua: Lua, context: &'a Context) -> Stack<'a> {
        let top = lua.top();
        Stack { lua, context, arg_count: top, top, top_max: top + SLOTS_MIN }
    }

    #[inline]
    pub(super) fn context(&self) -> &'a Context {
        self.context
    }

    /// The number of arguments.
    pub(crate) fn arg_count(&self) -> c_int {
        self.arg_count
    }

    /// The highest index in use.
    pub(crate) fn top(&self) -> c_int {
        self.top
    }

    pub(crate) fn random(&self) -> &Random {
        &self.context.random
    }

    pub(crate) fn set_resp3(&self, is_resp3: bool) {
        self.context.is_resp3.set(is_resp3);
    }

    pub(crate) fn is_resp3(&self) -> bool {
        self.context.is_resp3.get()
    }

    pub(super) fn running(&self) -> Running {
        self.context.running.get()
    }

    /// The functions registered by the library that is being loaded; `None` if none is.
    pub(crate) fn registry(&self) -> &'a RefCell<Option<Registry>> {
        &self.context.registry
    }

    /// Asks the running script's host.
    pub(crate) fn ask_host<R>(&self, body: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
        self.context.ask_host(body)
    }

    fn check_index(&self, index: c_int) {
        let is_valid = if index > 0 { index <= self.top } else { index < 0 && -index <= self.top };
        assert!(is_valid, "index {index} of a stack of {}", self.top);
    }

    // Arguments.

    /// The bytes of an argument; a number is converted to text.
    pub(crate) fn arg_bytes(&self, position: c_int) -> Result<&'a [u8], Failure> {
        if position <= self.arg_count
            && let Some(bytes) = self.lua.bytes(position)
        {
            return Ok(bytes);
        }
        Err(self.arg_kind_failure(position, "string"))
    }

    /// An argument that is a number or parses as one.
    pub(crate) fn arg_number(&self, position: c_int) -> Result<f64, Failure> {
        if position <= self.arg_count && self.lua.is_number(position) {
            return Ok(self.lua.to_number(position));
        }
        Err(self.arg_kind_failure(position, "number"))
    }

    /// Such an argument as an integer, converted as C does on this machine.
    pub(crate) fn arg_integer(&self, position: c_int) -> Result<i64, Failure> {
        self.arg_number(position).map(integer_of)
    }

    /// "bad argument … (number expected, got nil)".
    pub(crate) fn arg_kind_failure(&self, position: c_int, expected: &str) -> Failure {
        let kind = if position <= self.arg_count { self.lua.kind_name(position) } else { "no value" };
        Failure::argument(position, format!("{expected} expected, got {kind}"))
    }

    // Reading.

    #[inline]
    pub(crate) fn kind(&self, index: c_int) -> LuaKind {
        if index > self.top {
            return LuaKind::None;
        }
        self.check_index(index);
        match self.lua.kind(index) {
            ffi::LUA_TNIL => LuaKind::Nil,
            ffi::LUA_TBOOLEAN => LuaKind::Boolean,
            ffi::LUA_TNUMBER => LuaKind::Number,
            ffi::LUA_TSTRING => LuaKind::String,
            ffi::LUA_TTABLE => LuaKind::Table,
            ffi::LUA_TLIGHTUSERDATA => LuaKind::Pointer,
            ffi::LUA_TFUNCTION => LuaKind::Function,
            _ => LuaKind::Other,
        }
    }

    pub(crate) fn kind_name(&self, index: c_int) -> &'static str {
        self.check_index(index);
        self.lua.kind_name(index)
    }

    /// The bytes of a string; `None` for all other kinds.
    #[inline]
    pub(crate) fn bytes(&self, index: c_int) -> Option<&[u8]> {
        (self.kind(index) == LuaKind::String).then(|| self.lua.bytes(index).expect("the slot holds a string"))
    }

    /// The bytes of a string, or of a number, which is converted to a string in its slot.
    pub(crate) fn text(&self, index: c_int) -> Option<&[u8]> {
        matches!(self.kind(index), LuaKind::String | LuaKind::Number)
            .then(|| self.lua.bytes(index).expect("a string or a number has a text"))
    }

    /// The number, or a string parsed as one, or 0.
    #[inline]
    pub(crate) fn number(&self, index: c_int) -> f64 {
        self.check_index(index);
        self.lua.to_number(index)
    }

    pub(crate) fn boolean(&self, index: c_int) -> bool {
        self.check_index(index);
        self.lua.to_boolean(index)
    }

    /// Whether the value is the null pointer.
    pub(crate) fn is_null(&self, index: c_int) -> bool {
        self.kind(index) == LuaKind::Pointer && self.lua.to_pointer(index).is_null()
    }

    // Pushing.

    /// Makes room for `slots` pushes. False at Lua's limit for one function.
    pub(crate) fn reserve(&mut self, slots: c_int) -> bool {
        if self.top_max - self.top >= slots {
            return true;
        }
        if !self.lua.check_stack(slots) {
            return false;
        }
        self.top_max = self.top + slots;
        true
    }

    #[inline]
    fn claim_slot(&mut self) -> Result<(), Failure> {
        if self.top == self.top_max && !self.reserve(SLOTS_MIN) && !self.reserve(1) {
            return Err(Failure::message("stack overflow"));
        }
        self.top += 1;
        Ok(())
    }

    /// Fails unless `bytes` more fit into the script's memory. For data that grows outside of it before being
    /// pushed.
    #[inline]
    pub(crate) fn claim_memory(&self, bytes: usize) -> Result<(), Failure> {
        if self.context.heap.has_room(bytes) { Ok(()) } else { Err(Failure::Memory) }
    }

    /// Counts steps of a function that may take long.
    #[inline]
    pub(crate) fn take_steps(&mut self, count: usize) -> Result<(), Failure> {
        let (lua, context) = (self.lua, self.context);
        let may_go_on = || command::may_go_on(lua, context);
        match Steps::new(&context.steps_left, &may_go_on).take(count) {
            Ok(()) => Ok(()),
            Err(Over) => Err(command::push_present_interrupt(self)),
        }
    }

    #[inline]
    pub(crate) fn push_nil(&mut self) -> Result<(), Failure> {
        self.claim_slot()?;
        self.lua.push_nil();
        Ok(())
    }

    #[inline]
    pub(crate) fn push_boolean(&mut self, boolean: bool) -> Result<(), Failure> {
        self.claim_slot()?;
        self.lua.push_boolean(boolean);
        Ok(())
    }

    #[inline]
    pub(crate) fn push_number(&mut self, number: f64) -> Result<(), Failure> {
        self.claim_slot()?;
        self.lua.push_number(number);
        Ok(())
    }

    #[inline]
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.claim_memory(bytes.len())?;
        self.claim_slot()?;
        self.lua.push_bytes(bytes);
        Ok(())
    }

    /// Pushes the null pointer, which is `cjson.null`.
    pub(crate) fn push_null(&mut self) -> Result<(), Failure> {
        self.claim_slot()?;
        self.lua.push_pointer(std::ptr::null_mut());
        Ok(())
    }

    /// Pushes a table with room for this many array items and other fields.
    #[inline]
    pub(crate) fn push_table(&mut self, items: usize, fields: usize) -> Result<(), Failure> {
        self.claim_memory(
            items.saturating_mul(ITEM_BYTES).saturating_add(fields.saturating_mul(FIELD_BYTES)),
        )?;
        let (Ok(items), Ok(fields)) = (c_int::try_from(items), c_int::try_from(fields)) else {
            return Err(Failure::Memory);
        };
        self.claim_slot()?;
        self.lua.push_table(items, fields);
        Ok(())
    }

    /// Pushes `{ok = text}`. Only in functions whose upvalues come from [`push_status_words`].
    #[inline]
    pub(crate) fn push_status(&mut self, text: &[u8]) -> Result<(), Failure> {
        self.push_table(0, 1)?;
        self.claim_memory(text.len())?;
        for _ in 0..2 {
            self.claim_slot()?;
        }
        self.lua.push_value(ffi::lua_upvalueindex(1));
        if text == STATUS_USUAL {
            self.lua.push_value(ffi::lua_upvalueindex(2));
        } else {
            self.lua.push_bytes(text);
        }
        self.lua.raw_set(-3);
        self.top -= 2;
        Ok(())
    }

    /// Pushes a copy of the value at `index`.
    pub(crate) fn push_copy(&mut self, index: c_int) -> Result<(), Failure> {
        self.check_index(index);
        self.claim_slot()?;
        self.lua.push_value(index);
        Ok(())
    }

    /// Pushes the table that this native function was registered with.
    pub(crate) fn push_own_table(&mut self) -> Result<(), Failure> {
        self.claim_slot()?;
        self.lua.push_value(ffi::lua_upvalueindex(2));
        Ok(())
    }

    /// Stores native functions without a table of their own in the table on top.
    pub(crate) fn set_functions(&mut self, functions: &[(&str, Native)]) -> Result<(), Failure> {
        for (name, native) in functions {
            self.push_nil()?;
            self.push_native(*native)?;
            self.set_field(-2, name)?;
        }
        Ok(())
    }

    /// Moves the value on top below the `count` values under it.
    pub(crate) fn sink(&mut self, count: c_int) {
        let index = self.top - count;
        assert!(index > self.arg_count, "arguments stay");
        self.lua.insert(index);
    }

    /// Pops a table and pushes a native function that has it as its own table.
    pub(crate) fn push_native(&mut self, native: Native) -> Result<(), Failure> {
        assert!(self.top > 0, "a native function has a value of its own");
        self.claim_slot()?;
        self.top -= 1;
        push_native(self.lua, native);
        Ok(())
    }

    /// Pops a value and stores it at `index`, which must not be an argument.
    pub(crate) fn replace(&mut self, index: c_int) {
        assert!(index > self.arg_count && index < self.top, "arguments stay");
        self.top -= 1;
        self.lua.replace(index);
    }

    /// Pops a function and keeps it beyond this call.
    pub(crate) fn keep(&mut self) -> Result<Function, Failure> {
        assert!(self.kind(-1) == LuaKind::Function && self.top > self.arg_count, "a function is kept");
        self.claim_memory(ITEM_BYTES)?;
        self.top -= 1;
        Ok(Function(self.lua.keep()))
    }

    /// Pops `count` values, which must not be arguments.
    #[inline]
    pub(crate) fn pop(&mut self, count: c_int) {
        assert!(self.top - count >= self.arg_count, "arguments stay");
        self.top -= count;
        self.lua.set_top(self.top);
    }

    // Tables. None of these runs metamethods.

    #[inline]
    fn check_table(&self, index: c_int) {
        assert!(self.kind(index) == LuaKind::Table, "a table is expected");
    }

    /// A border of a table: its length if it has no holes.
    #[inline]
    pub(crate) fn table_length(&self, table: c_int) -> usize {
        self.check_table(table);
        self.lua.length(table)
    }

    /// False if the table certainly has nothing but the items of its array.
    #[inline]
    pub(crate) fn has_fields(&self, table: c_int) -> bool {
        self.check_table(table);
        layout::fields(self.lua, table) != self.context.no_fields.get()
    }

    /// Pushes the item at `position`.
    #[inline]
    pub(crate) fn get_item(&mut self, table: c_int, position: c_int) -> Result<(), Failure> {
        self.check_table(table);
        self.claim_slot()?;
        self.lua.raw_get_item(table, position);
        Ok(())
    }

    /// Pushes the field `name`.
    pub(crate) fn get_field(&mut self, table: c_int, name: &str) -> Result<(), Failure> {
        self.check_table(table);
        self.claim_slot()?;
        self.lua.raw_get_field(table, name);
        Ok(())
    }

    /// Pops a value and stores it at `position`.
    #[inline]
    pub(crate) fn set_item(&mut self, table: c_int, position: c_int) -> Result<(), Failure> {
        self.check_table(table);
        self.claim_memory(ITEM_BYTES)?;
        self.lua.raw_set_item(table, position);
        self.top -= 1;
        Ok(())
    }

    /// Pops a value and stores it as field `name`.
    pub(crate) fn set_field(&mut self, table: c_int, name: &str) -> Result<(), Failure> {
        self.check_table(table);
        self.claim_memory(FIELD_BYTES)?;
        self.claim_slot()?;
        self.lua.raw_set_field(table, name);
        self.top -= 2;
        Ok(())
    }

    /// Pops a value and the key below it, and stores them.
    #[inline]
    pub(crate) fn set(&mut self, table: c_int) -> Result<(), Failure> {
        self.check_table(table);
        self.claim_memory(FIELD_BYTES)?;
        match self.kind(-2) {
            LuaKind::Nil => return Err(self.refuse_key("table index is nil")),
            LuaKind::Number if self.lua.to_number(-2).is_nan() => {
                return Err(self.refuse_key("table index is NaN"));
            }
            _ => {}
        }
        self.lua.raw_set(table);
        self.top -= 2;
        Ok(())
    }

    /// Lua's own error for an invalid key, which names no position.
    fn refuse_key(&mut self, text: &str) -> Failure {
        match self.push_bytes(text.as_bytes()) {
            Ok(()) => Failure::Raise,
            Err(failure) => failure,
        }
    }

    /// Replaces the key on top by the next key and its value; at the end, pops it and returns false. Start
    /// with nil. The key must be the one that the last call left, and the table must not have changed since.
    #[inline]
    pub(crate) fn next(&mut self, table: c_int) -> Result<bool, Failure> {
        self.check_table(table);
        self.claim_slot()?;
        let found = self.lua.next(table);
        if !found {
            self.top -= 2;
        }
        Ok(found)
    }
}

/// Converts a number to a 64-bit integer like C: towards zero, and to the least integer if it does not fit.
pub(crate) fn integer_of(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// How a callback ends. Has no destructor.
#[derive(Clone, Copy)]
pub(super) enum Exit {
    /// Return this many values from the top.
    Return(c_int),
    /// Raise the value on top.
    Raise,
    /// The string on top is the error about this argument.
    Argument(c_int),
}

/// Runs `body` on the current frame while the heap is trusting. Leaves the values that [`leave`] needs on the
/// stack.
pub(super) fn enter(lua: Lua, body: impl FnOnce(&mut Stack<'_>) -> Result<c_int, Failure>) -> Exit {
    let context = Context::of(lua);
    context.heap.set_trusting(true);
    let result = body(&mut Stack::new(lua, context));
    let exit = match result {
        Ok(_) if context.heap.is_over() => fail(lua, Failure::Memory),
        Ok(count) => Exit::Return(count),
        Err(failure) => fail(lua, failure),
    };
    context.heap.set_trusting(false);
    exit
}

/// Pushes the error value of `failure`.
fn fail(lua: Lua, failure: Failure) -> Exit {
    match failure {
        Failure::Raise => Exit::Raise,
        Failure::Memory => {
            lua.set_top(0);
            lua.push_bytes(OUT_OF_MEMORY.as_bytes());
            Exit::Raise
        }
        Failure::Message(text) => {
            lua.set_top(0);
            lua.push_place(1);
            lua.push_bytes(&text);
            lua.concat(2);
            Exit::Raise
        }
        Failure::Argument(position, text) => {
            lua.set_top(0);
            lua.push_bytes(&text);
            Exit::Argument(position)
        }
    }
}

/// Ends a callback. Raises unless it returns results, so the caller must not hold anything with a destructor.
#[inline]
pub(super) fn leave(lua: Lua, exit: Exit) -> c_int {
    match exit {
        Exit::Return(count) => count,
        Exit::Raise => lua.raise(),
        Exit::Argument(position) => lua.raise_argument(position),
    }
}

/// Pushes the upvalues that [`Stack::push_status`] needs.
pub(super) fn push_status_words(lua: Lua) {
    lua.push_bytes(b"ok");
    lua.push_bytes(STATUS_USUAL);
}

/// The C function behind every native function. The native function's pointer is the first upvalue.
unsafe extern "C-unwind" fn trampoline(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    let pointer = lua.to_pointer(ffi::lua_upvalueindex(1));
    // SAFETY: `push_native` put a pointer to a native function there, and scripts cannot reach upvalues.
    let native = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Native>(pointer) };
    let exit = enter(lua, native);
    leave(lua, exit)
}

/// Pops a value and pushes a function that runs `native` and has the value as its own.
pub(super) fn push_native(lua: Lua, native: Native) {
    lua.push_pointer(native as *mut std::ffi::c_void);
    lua.insert(-2);
    lua.push_function(trampoline, 2);
}
