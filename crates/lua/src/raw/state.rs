//! A Lua state: set up once, then used to compile and run scripts, or to load libraries and run their
//! functions.
//!
//! Every script finds the same environment: everything that outlives a run is read-only, and `KEYS` and
//! `ARGV` are set for each run. A script that has ended leaves nothing behind, so no code still refers to the
//! tables that were `KEYS` and `ARGV`. A later run with an equal number of items refills them, if the script
//! left them as they were made ([`ItemTables`]).

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};

use mlua_sys as ffi;

use super::base;
use super::chunk::{self, Uses};
use super::command;
use super::context::{Context, Running};
use super::guard;
use super::layout::{self, Value};
use super::lua::{CFunction, Function, Lua, REGISTRY, lua_State};
use super::patterns;
use super::stack::{self, LuaKind, Stack};
use crate::error;
use crate::host::{Host, Interrupt};
use crate::registry::{Registered, Registry};

/// The chunk names of scripts and libraries, which error messages show.
const SCRIPT_NAME: &CStr = c"@user_script";
const LIBRARY_NAME: &CStr = c"@user_function";
/// Lua's libraries that scripts see: all of `string`, `math`, `table` and `coroutine`. (Of `os` they see only
/// `os.clock`.)
const LIBRARY_NAMES: [&str; 4] = ["string", "math", "table", "coroutine"];
/// Our libraries, which scripts cannot change.
const OWN_NAMES: [&str; 6] = ["redis", "cjson", "cmsgpack", "struct", "bit", "os"];

/// Why a library could not be loaded, with Lua's message.
#[derive(Debug)]
pub(crate) enum LoadFailure {
    Compiling(Vec<u8>),
    Running(Vec<u8>),
}

/// How a run ended. The value or the error is on top of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Returned,
    Raised,
}

/// The bottom of the stack, which every run needs: the error handler, the hidden table of globals, the names
/// `KEYS` and `ARGV`, the tables that these two globals have had, by length, and a second table of globals in
/// which the libraries are not guarded.
const HANDLER: c_int = 1;
const HIDDEN_GLOBALS: c_int = 2;
const KEYS_NAME: c_int = 3;
const ARGV_NAME: c_int = 4;
const KEYS_TABLES: c_int = 5;
const ARGV_TABLES: c_int = 6;
const OPEN_GLOBALS: c_int = 7;
const FIXED_COUNT: c_int = 7;
/// The longest `KEYS` and `ARGV` tables that are kept, and the longest items that stay in a table while
/// another one is the global.
const KEPT_ITEMS_MAX: usize = 32;
const KEPT_ITEM_BYTES_MAX: usize = 128;

/// A Lua state and everything that belongs to it.
pub(crate) struct State {
    lua: Lua,
    /// Boxed, because Lua holds a pointer to it.
    context: Box<Context>,
    /// Registry reference of the hidden table of globals.
    globals: c_int,
    keys: ItemTables,
    argv: ItemTables,
    /// Registry reference of the globals that a library sees while it is loaded; `None` in a state for
    /// scripts.
    load_globals: Option<c_int>,
}

impl Drop for State {
    fn drop(&mut self) {
        self.context.heap.set_trusting(true);
        self.lua.close();
    }
}

impl State {
    /// A state for scripts with a memory limit. `install` adds the libraries to the table on top.
    pub(crate) fn new(memory_bytes_max: usize, install: impl FnOnce(&mut Stack<'_>)) -> State {
        State::open(memory_bytes_max, install, |_, _| None)
    }

    /// A state for functions. `install_for_loading` adds the functions that a library sees while it is
    /// loaded.
    pub(crate) fn for_functions(
        memory_bytes_max: usize,
        install: impl FnOnce(&mut Stack<'_>),
        install_for_loading: impl FnOnce(&mut Stack<'_>),
    ) -> State {
        State::open(memory_bytes_max, install, |lua, context| {
            lua.push_table(0, 1);
            install_for_loading(&mut Stack::new(lua, context));
            lua.raw_get_field(-1, "redis");
            guard::refuse_unknown(lua);
            guard::guard(lua);
            lua.raw_set_field(-2, "redis");
            guard::refuse_unknown(lua);
            Some(lua.keep())
        })
    }

    fn open(
        memory_bytes_max: usize,
        install: impl FnOnce(&mut Stack<'_>),
        make_load_globals: impl FnOnce(Lua, &Context) -> Option<c_int>,
    ) -> State {
        let context = Box::new(Context::new(memory_bytes_max));
        let lua = Lua::open(&context.heap).expect("a heap that trusts has memory");
        layout::check(lua);
        open_libraries(lua);
        lua.push_table(0, 64);
        let open_globals = lua.top();
        lua.push_table(0, 64);
        base::copy_base(lua);
        copy_libraries(lua);
        lua.check_stack(ffi::LUA_MINSTACK);
        install(&mut Stack::new(lua, &context));
        install_commands(lua);
        for name in LIBRARY_NAMES.iter().chain(&OWN_NAMES) {
            lua.raw_get_field(-1, name);
            lua.push_value(-1);
            lua.raw_set_field(open_globals, name);
            guard::guard(lua);
            lua.raw_set_field(-2, name);
        }
        let load_globals = make_load_globals(lua, &context);
        let globals = guard::install_globals(lua);
        add_others(lua, globals);
        guard::refuse_unknown(lua);
        let open_globals = lua.keep();
        lua.set_top(0);
        lua.push_function(handle_error, 0);
        lua.raw_get_item(REGISTRY, globals);
        lua.push_bytes(b"KEYS");
        lua.push_bytes(b"ARGV");
        lua.push_table(KEPT_ITEMS_MAX as c_int + 1, 0);
        lua.push_table(KEPT_ITEMS_MAX as c_int + 1, 0);
        let no_fields = layout::fields(lua, ARGV_TABLES);
        context.no_fields.set(no_fields);
        lua.raw_get_item(REGISTRY, open_globals);
        let keys = ItemTables { name: KEYS_NAME, tables: KEYS_TABLES, no_fields, shown: Cell::default() };
        let argv = ItemTables { name: ARGV_NAME, tables: ARGV_TABLES, no_fields, shown: Cell::default() };
        assert_eq!(lua.top(), FIXED_COUNT, "nothing else stays");
        lua.reset_collector();
        context.heap.set_crowded_from_here();
        State { lua, context, globals, keys, argv, load_globals }
    }

    /// Compiles a script or the code of a library.
    ///
    /// # Errors Lua's message.
    pub(crate) fn compile(&mut self, source: &[u8]) -> Result<Function, Vec<u8>> {
        let lua = self.lua;
        let name = if self.load_globals.is_some() { LIBRARY_NAME } else { SCRIPT_NAME };
        lua.push_bytes(name.to_bytes());
        // A precompiled chunk is compiled as text, which fails.
        let status = if source.first() == Some(&ffi::LUA_SIGNATURE[0]) {
            lua.load(&[b" ", source].concat(), name)
        } else {
            lua.load(source, name)
        };
        let result = if status == 0 {
            if self.load_globals.is_none() {
                self.unguard_reads();
            }
            Ok(Function(lua.keep()))
        } else {
            Err(lua.bytes(-1).unwrap_or(b"not enough memory").to_vec())
        };
        lua.set_top(FIXED_COUNT);
        result
    }

    /// Lets the compiled script on top read globals from the hidden table, if it has no instruction that
    /// assigns a global: no function available to scripts returns another function's globals, so neither the
    /// script nor anything that it makes can write there. If the script also uses libraries only to call
    /// their functions by name, it reads these from the unguarded tables, which it has no way to hold.
    fn unguard_reads(&self) {
        let libraries: Vec<&str> = LIBRARY_NAMES.iter().chain(&OWN_NAMES).copied().collect();
        let globals = match chunk::uses(&self.lua.dump(), &libraries) {
            Uses::Fields => OPEN_GLOBALS,
            Uses::Values => HIDDEN_GLOBALS,
            Uses::Assigned => return,
        };
        self.lua.push_value(globals);
        self.lua.set_environment(-2);
    }

    /// Forgets a compiled script.
    pub(crate) fn forget(&mut self, function: Function) {
        self.lua.forget(function.0);
    }

    /// Runs a script or a function. `finish` gets the ending. If the host wants the script to run again,
    /// `finish` is not called and the result is `None`.
    pub(crate) fn run<R>(
        &mut self,
        function: &Function,
        keys: &[&[u8]],
        args: &[&[u8]],
        host: &mut dyn Host,
        finish: impl FnOnce(&mut Stack<'_>, Ending) -> R,
    ) -> Option<R> {
        let (lua, context) = (self.lua, &*self.context);
        let (running, arg_count) = if self.load_globals.is_some() {
            lua.raw_get_item(REGISTRY, function.0);
            push_array(lua, keys);
            push_array(lua, args);
            (Running::Function, 2)
        } else {
            self.keys.show(lua, keys);
            self.argv.show(lua, args);
            lua.raw_get_item(REGISTRY, function.0);
            (Running::Script, 0)
        };
        let status = self.call(running, host, arg_count, 1, HANDLER);
        let result = (context.interrupt.get() != Some(Interrupt::Retry)).then(|| {
            lua.check_stack(ffi::LUA_MINSTACK);
            let ending = if status == 0 { Ending::Returned } else { Ending::Raised };
            // A reply can be so large that the host is asked while it is written.
            context.with_host(host, || finish(&mut Stack::new(lua, context), ending))
        });
        lua.set_hook(None, 0, 0);
        self.tidy_up(status);
        result
    }

    /// Runs the code of a library, which registers its functions.
    ///
    /// # Errors
    /// The fault in the code. The state then contains nothing of the library.
    pub(crate) fn load(
        &mut self,
        source: &[u8],
        host: &mut dyn Host,
    ) -> Result<Vec<Registered>, LoadFailure> {
        let load_globals = self.load_globals.expect("libraries are loaded into states for functions");
        let main = self.compile(source).map_err(LoadFailure::Compiling)?;
        let lua = self.lua;
        lua.raw_get_item(REGISTRY, main.0);
        self.forget(main);
        guard::show_globals(lua, load_globals);
        self.context.registry.replace(Some(Registry::default()));
        let status = self.call(Running::Library, host, 0, 0, 0);
        let registered = self.context.registry.take().unwrap_or_default().functions;
        guard::show_globals(lua, self.globals);
        let result = if status == 0 {
            Ok(registered)
        } else {
            registered.into_iter().for_each(|function| self.forget(function.callback));
            Err(LoadFailure::Running(load_error(&mut Stack::new(lua, &self.context))))
        };
        self.tidy_up(status);
        result
    }

    /// Calls the function below its arguments, which the host may interrupt. Returns Lua's status.
    fn call(
        &self,
        running: Running,
        host: &mut dyn Host,
        args: c_int,
        results: c_int,
        handler: c_int,
    ) -> c_int {
        let (lua, context) = (self.lua, &*self.context);
        context.running.set(running);
        context.interrupt.set(None);
        context.is_resp3.set(false);
        lua.set_hook(Some(command::tick), ffi::LUA_MASKCOUNT, command::HOOK_INSTRUCTION_COUNT);
        context.heap.set_trusting(false);
        let status = context.with_host(host, || lua.protected_call(args, results, handler));
        context.heap.set_trusting(true);
        lua.set_hook(None, 0, 0);
        status
    }

    /// Removes values that a call left on the stack, and collects garbage if memory is short, so that the
    /// next call, perhaps of another client, starts with free memory and with the collector's default
    /// settings.
    fn tidy_up(&self, status: c_int) {
        self.lua.set_top(FIXED_COUNT);
        patterns::give_up(&self.context);
        if self.context.collector_was_set.take() {
            self.lua.reset_collector();
        }
        let heap = &self.context.heap;
        if status == ffi::LUA_ERRMEM || heap.is_over() || heap.is_crowded() {
            self.lua.collect_garbage();
            heap.set_crowded_from_here();
        }
    }

    /// Seeds `math.random`.
    pub(crate) fn seed_random(&mut self, seed: i32) {
        self.context.random.seed(seed);
    }

    /// Collects garbage.
    pub(crate) fn collect_garbage(&mut self) {
        self.lua.collect_garbage();
        self.context.heap.set_crowded_from_here();
    }

    /// Memory that Lua uses.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.context.heap.used_bytes()
    }
}

/// The tables that one of the globals `KEYS` and `ARGV` has had.
struct ItemTables {
    /// Stack index of its name.
    name: c_int,
    /// Stack index of the table that holds them by length.
    tables: c_int,
    /// See [`layout::fields`].
    no_fields: *const c_void,
    /// The length of the table that is the global now, if that table is kept.
    shown: Cell<Option<usize>>,
}

impl ItemTables {
    /// Sets the global to a table of exactly these items, as if it were new.
    fn show(&self, lua: Lua, items: &[&[u8]]) {
        let length = items.len();
        if let Some(shown) = self.shown.get()
            && shown != length
        {
            self.put_away(lua, shown);
        }
        if length > KEPT_ITEMS_MAX {
            self.shown.set(None);
            push_array(lua, items);
        } else if let Some(present) = self.push(lua, length) {
            for ((position, item), there) in (1..).zip(items).zip(present) {
                // Keys are often the same as in the last call.
                if there.get().bytes() != Some(item) {
                    lua.push_bytes(item);
                    lua.raw_set_item(-2, position);
                }
            }
            if self.shown.replace(Some(length)) == Some(length) {
                return lua.pop(1);
            }
        } else {
            push_array(lua, items);
            lua.push_value(-1);
            lua.raw_set_item(self.tables, place(length));
            self.shown.set(Some(length));
        }
        for globals in [HIDDEN_GLOBALS, OPEN_GLOBALS] {
            lua.push_value(self.name);
            lua.push_value(-2);
            lua.raw_set(globals);
        }
        lua.pop(1);
    }

    /// Pushes the table of this length. If there is no such table, or the script changed it, pushes nothing
    /// and returns `None`.
    fn push<'a>(&self, lua: Lua, length: usize) -> Option<&'a [Cell<Value>]> {
        lua.raw_get_item(self.tables, place(length));
        if lua.is(-1, ffi::LUA_TTABLE)
            && let Some(items) = layout::items(lua, -1, length, self.no_fields)
        {
            return Some(items);
        }
        lua.pop(1);
        None
    }

    /// Prepares the table of this length for being kept while another one is the global: only short items
    /// stay, a few hundred kilobytes in all. A table that a script has changed is dropped, because it may
    /// hold any amount.
    fn put_away(&self, lua: Lua, length: usize) {
        match self.push(lua, length) {
            Some(items) => {
                for item in items {
                    if item.get().bytes().is_none_or(|bytes| bytes.len() > KEPT_ITEM_BYTES_MAX) {
                        item.set(Value::NIL);
                    }
                }
            }
            None => lua.push_nil(),
        }
        // The table, or nil.
        lua.raw_set_item(self.tables, place(length));
    }
}

/// Where the table of this length is kept: Lua counts from one.
fn place(length: usize) -> c_int {
    length as c_int + 1
}

/// Pushes an array of strings.
fn push_array(lua: Lua, items: &[&[u8]]) {
    let length = c_int::try_from(items.len()).expect("a request has fewer than 2^31 arguments");
    lua.push_table(length, 0);
    for (position, item) in (1..=length).zip(items) {
        lua.push_bytes(item);
        lua.raw_set_item(-2, position);
    }
}

/// The text of the error on top, which ended the loading of a library.
fn load_error(stack: &mut Stack<'_>) -> Vec<u8> {
    if stack.kind(-1) == LuaKind::Table && stack.get_field(-1, "err").is_ok() {
        return error::until_zero(stack.text(-1).unwrap_or(b"ERR unknown error")).to_vec();
    }
    [b"ERR ", error::until_zero(stack.text(-1).unwrap_or(b"unknown error"))].concat()
}

/// Adds the fields of the table with this registry reference to the table on top, except those that it has
/// already.
fn add_others(lua: Lua, reference: c_int) {
    let to = lua.top();
    lua.raw_get_item(REGISTRY, reference);
    lua.push_nil();
    while lua.next(to + 1) {
        lua.push_value(-2);
        lua.raw_get(to);
        if lua.is(-1, ffi::LUA_TNIL) {
            lua.push_value(-3);
            lua.push_value(-3);
            lua.raw_set(to);
        }
        lua.pop(2);
    }
    lua.pop(1);
}

/// Opens Lua's libraries into the initial table of globals, which no script sees.
fn open_libraries(lua: Lua) {
    let openers: [CFunction; 5] =
        [ffi::luaopen_base, ffi::luaopen_string, ffi::luaopen_table, ffi::luaopen_math, ffi::luaopen_os];
    for opener in openers {
        lua.push_function(opener, 0);
        lua.call(0, 0);
    }
}

/// Copies Lua's libraries to the table on top, with some functions replaced or wrapped by ours.
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

/// Runs `body` with a library on top; if `library` is "", with the table of globals on top.
fn in_library(lua: Lua, library: &str, body: impl FnOnce()) {
    if library.is_empty() {
        lua.push_value(-1);
    } else {
        lua.raw_get_field(-1, library);
    }
    body();
    lua.pop(1);
}

/// Adds the functions of `redis` that need the host.
fn install_commands(lua: Lua) {
    let functions: [(&str, CFunction); 3] =
        [("call", command::call), ("pcall", command::pcall), ("acl_check_cmd", command::check_permission)];
    in_library(lua, "redis", || {
        for (name, function) in functions {
            stack::push_status_words(lua);
            lua.push_function(function, 2);
            lua.raw_set_field(-2, name);
        }
    });
}

/// Lua's handler for errors that the script did not catch. Turns the error into a table and adds where it was
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
    // The position of the function that raised or, if that is a C function, of its caller.
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
