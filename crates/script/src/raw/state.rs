//! One Lua state: set up once, then compiling and running scripts.
//!
//! A script finds the world that it found the last time: everything it can reach between runs is read-only,
//! and `KEYS` and `ARGV` are set anew.

use std::ffi::{CStr, c_int};

use mlua::ffi;

use super::base;
use super::command;
use super::context::Context;
use super::guard;
use super::lua::{CFunction, Lua, REGISTRY, lua_State};
use super::stack::Stack;
use crate::TICK_INSTRUCTION_COUNT;
use crate::host::{Host, Interrupt};

/// The name that error messages give to scripts.
const CHUNK_NAME: &CStr = c"@user_script";
/// Lua's libraries that scripts see (all of `string`, `math`, `table` and `coroutine`; `os.clock` alone of
/// `os`).
const LIBRARY_NAMES: [&str; 4] = ["string", "math", "table", "coroutine"];
/// Libraries of ours that stay as they are.
const OWN_NAMES: [&str; 6] = ["redis", "cjson", "cmsgpack", "struct", "bit", "os"];

/// A compiled script.
#[derive(Debug)]
pub(crate) struct Function(c_int);

/// How a run ended; the value or the error is on top of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Returned,
    Raised,
}

/// A Lua state and what belongs to it.
pub(crate) struct State {
    lua: Lua,
    /// Boxed: Lua holds a pointer to it.
    context: Box<Context>,
    /// Registry references: the hidden table of globals, the error handler.
    globals: c_int,
    handler: c_int,
}

impl Drop for State {
    fn drop(&mut self) {
        self.context.heap.set_trusting(true);
        self.lua.close();
    }
}

impl State {
    /// A state that may use so much memory. `install` stores the libraries in the table on top.
    pub(crate) fn new(memory_bytes_max: usize, install: impl FnOnce(&mut Stack<'_>)) -> State {
        let context = Box::new(Context::new(memory_bytes_max));
        let lua = Lua::open(&context.heap).expect("a heap that trusts has memory");
        open_libraries(lua);
        lua.push_table(0, 64);
        base::copy_base(lua);
        copy_libraries(lua);
        lua.check_stack(ffi::LUA_MINSTACK);
        install(&mut Stack::new(lua, &context));
        install_commands(lua);
        for name in LIBRARY_NAMES.iter().chain(&OWN_NAMES) {
            lua.raw_get_field(-1, name);
            guard::guard(lua);
            lua.raw_set_field(-2, name);
        }
        let globals = guard::install_globals(lua);
        lua.push_function(handle_error, 0);
        let handler = lua.keep();
        lua.set_top(0);
        context.heap.set_crowded_from_here();
        State { lua, context, globals, handler }
    }

    /// Compiles a script.
    ///
    /// # Errors
    /// Lua's message.
    pub(crate) fn compile(&mut self, source: &[u8]) -> Result<Function, Vec<u8>> {
        let lua = self.lua;
        lua.push_bytes(CHUNK_NAME.to_bytes());
        // Precompiled chunks are read as text, which they are not.
        let status = if source.first() == Some(&ffi::LUA_SIGNATURE[0]) {
            lua.load(&[b" ", source].concat(), CHUNK_NAME)
        } else {
            lua.load(source, CHUNK_NAME)
        };
        let result = if status == 0 {
            Ok(Function(lua.keep()))
        } else {
            Err(lua.bytes(-1).unwrap_or(b"not enough memory").to_vec())
        };
        lua.set_top(0);
        result
    }

    /// Lets go of a compiled script.
    pub(crate) fn forget(&mut self, function: Function) {
        self.lua.forget(function.0);
    }

    /// Runs a script. `finish` sees how it ended, unless the host wants it run again: then the answer is
    /// `None`.
    pub(crate) fn run<R>(
        &mut self,
        function: &Function,
        keys: &[&[u8]],
        args: &[&[u8]],
        host: &mut dyn Host,
        finish: impl FnOnce(&mut Stack<'_>, Ending) -> R,
    ) -> Option<R> {
        let (lua, context) = (self.lua, &*self.context);
        context.interrupt.set(None);
        context.is_resp3.set(false);
        lua.raw_get_item(REGISTRY, self.handler);
        lua.raw_get_item(REGISTRY, function.0);
        lua.raw_get_item(REGISTRY, self.globals);
        set_array(lua, "KEYS", keys);
        set_array(lua, "ARGV", args);
        lua.pop(1);
        lua.set_hook(Some(command::tick), ffi::LUA_MASKCOUNT, TICK_INSTRUCTION_COUNT);
        context.heap.set_trusting(false);
        let status = context.with_host(host, || lua.protected_call(0, 1, 1));
        context.heap.set_trusting(true);
        lua.set_hook(None, 0, 0);
        let interrupt = context.interrupt.get();
        let result = (interrupt != Some(Interrupt::Retry)).then(|| {
            lua.check_stack(ffi::LUA_MINSTACK);
            let ending = if status == 0 { Ending::Returned } else { Ending::Raised };
            finish(&mut Stack::new(lua, context), ending)
        });
        lua.set_top(0);
        if status == ffi::LUA_ERRMEM || context.heap.is_over() {
            lua.collect_garbage();
        }
        result
    }

    /// Starts `math.random` anew.
    pub(crate) fn seed_random(&mut self, seed: i32) {
        self.context.random.seed(seed);
    }

    /// Frees what no script needs any more.
    pub(crate) fn collect_garbage(&mut self) {
        self.lua.collect_garbage();
    }

    /// Memory in use by Lua.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.context.heap.used_bytes()
    }
}

/// Sets a global, in the table on top, to an array of strings.
fn set_array(lua: Lua, name: &str, items: &[&[u8]]) {
    let length = c_int::try_from(items.len()).expect("a request has fewer than 2^31 arguments");
    lua.push_table(length, 0);
    for (position, item) in (1..=length).zip(items) {
        lua.push_bytes(item);
        lua.raw_set_item(-2, position);
    }
    lua.raw_set_field(-2, name);
}

/// Opens Lua's libraries into the first table of globals, which no script sees.
fn open_libraries(lua: Lua) {
    let openers: [CFunction; 5] =
        [ffi::luaopen_base, ffi::luaopen_string, ffi::luaopen_table, ffi::luaopen_math, ffi::luaopen_os];
    for opener in openers {
        lua.push_function(opener, 0);
        lua.call(0, 0);
    }
}

/// Copies the rest of Lua's libraries to the table on top, with our functions in place of some.
fn copy_libraries(lua: Lua) {
    for name in LIBRARY_NAMES {
        lua.raw_get_field(super::lua::GLOBALS, name);
        lua.raw_set_field(-2, name);
    }
    lua.push_table(0, 1);
    lua.raw_get_field(super::lua::GLOBALS, "os");
    lua.raw_get_field(-1, "clock");
    lua.raw_set_field(-3, "clock");
    lua.pop(1);
    lua.raw_set_field(-2, "os");
    for (library, name, function) in base::REPLACED {
        in_library(lua, library, || {
            lua.push_function(function, 0);
            lua.raw_set_field(-2, name);
        });
    }
    for (library, name, wrapper) in base::WRAPPED {
        in_library(lua, library, || {
            lua.raw_get_field(-1, name);
            base::wrap(lua, wrapper);
            lua.raw_set_field(-2, name);
        });
    }
}

/// Runs `body` with the library, or for "" the table of globals itself, on top.
fn in_library(lua: Lua, library: &str, body: impl FnOnce()) {
    if library.is_empty() {
        lua.push_value(-1);
    } else {
        lua.raw_get_field(-1, library);
    }
    body();
    lua.pop(1);
}

/// Adds the functions of `redis` that ask the host.
fn install_commands(lua: Lua) {
    let functions: [(&str, CFunction); 3] =
        [("call", command::call), ("pcall", command::pcall), ("acl_check_cmd", command::check_permission)];
    in_library(lua, "redis", || {
        for (name, function) in functions {
            lua.push_function(function, 0);
            lua.raw_set_field(-2, name);
        }
    });
}

/// What Lua calls for an error that the script did not catch: makes a table of it and notes where it was
/// raised.
unsafe extern "C-unwind" fn handle_error(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    let context = Context::of(lua);
    context.heap.set_trusting(true);
    lua.set_top(1);
    if !lua.is(1, ffi::LUA_TTABLE) {
        let text = match lua.kind(1) {
            ffi::LUA_TBOOLEAN if lua.to_boolean(1) => "true",
            ffi::LUA_TBOOLEAN => "false",
            ffi::LUA_TSTRING | ffi::LUA_TNUMBER => "",
            _ => lua.kind_name(1),
        };
        lua.push_table(0, 4);
        lua.push_bytes(b"ERR ");
        if text.is_empty() {
            lua.push_value(1);
        } else {
            lua.push_bytes(text.as_bytes());
        }
        lua.concat(2);
        lua.raw_set_field(-2, "err");
        lua.replace(1);
    }
    // The function that raised; if that is a C function, its caller.
    let place = match lua.place(1) {
        Some(place) if place.is_c => lua.place(2),
        place => place,
    };
    if let Some(place) = place
        && !guard::push_hidden(lua, 1)
    {
        lua.push_c_string(place.source);
        lua.raw_set_field(1, "source");
        lua.push_number(f64::from(place.line));
        lua.raw_set_field(1, "line");
    }
    lua.set_top(1);
    context.heap.set_trusting(false);
    1
}
