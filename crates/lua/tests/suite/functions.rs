//! Libraries: what they may do while they are loaded, and what they leave behind.

use std::sync::Arc;

use lua::{FunctionEngine, Interrupt, Library, LibrarySet, MEMORY_BYTES_DEFAULT, Outcome};
use resp::{Output, Proto, Reply};

use crate::memory_host::{MemoryHost, raised};

/// A limit that hostile libraries reach quickly.
const SMALL_MEMORY_BYTES: usize = 4 * 1024 * 1024;

/// An engine, its host, and the libraries.
struct Bench {
    engine: FunctionEngine,
    host: MemoryHost,
    set: LibrarySet,
}

impl Bench {
    fn new(memory_bytes_max: usize) -> Bench {
        Bench {
            engine: FunctionEngine::new(memory_bytes_max, 0x0007_0205),
            host: MemoryHost::default(),
            set: LibrarySet::default(),
        }
    }

    /// Loads a library called `l`, replacing the previous one.
    fn load(&mut self, body: &str) -> Result<Arc<Library>, String> {
        let code = format!("#!lua name=l\n{body}");
        let loaded = self.set.load(code.as_bytes(), true, &mut self.engine, &mut self.host);
        self.engine.keep_only(&self.set);
        loaded.map_err(|error| error.to_string())
    }

    fn call(&mut self, name: &str) -> (String, Outcome) {
        let (library, index) = self.set.function(name.as_bytes()).expect("it was loaded");
        let mut out = Output::new();
        let mut reply = Reply::new(&mut out, Proto::Resp2);
        let outcome = self.engine.call(library, index, &[], &[], &mut self.host, &mut reply);
        (String::from_utf8_lossy(&out.to_vec()).into_owned(), outcome)
    }
}

#[test]
fn loading_can_be_ended() {
    for body in [
        "while true do end",
        "repeat until false",
        "local function f() return f() end f()",
        "redis.register_function('f', function() end) while true do end",
        "while true do local s = ('x'):rep(10):gsub('x', function() while true do end end) end",
    ] {
        let mut bench = Bench::new(MEMORY_BYTES_DEFAULT);
        bench.host.interrupt_at = Some((3, Interrupt::Killed));
        let error = bench.load(body).unwrap_err();
        assert_eq!(error, "ERR Error registering functions: ERR FUNCTION LOAD timeout", "{body}");
        assert_eq!((bench.host.tick_count, bench.engine.loaded_count()), (3, 0), "{body}");
        bench.host.interrupt_at = None;
        bench.load("redis.register_function('f', function() return 1 end)").unwrap();
        assert_eq!(bench.call("f").0, ":1\r\n", "after {body}");
    }
}

#[test]
fn functions_can_be_ended() {
    let mut bench = Bench::new(MEMORY_BYTES_DEFAULT);
    bench
        .load("redis.register_function('f', function() pcall(function() while true do end end) end)")
        .unwrap();
    bench.host.interrupt_at = Some((2, Interrupt::Killed));
    let error = "-ERR Script killed by user with FUNCTION KILL... script: f, on @user_function:2.\r\n";
    assert_eq!(bench.call("f"), (error.to_owned(), raised(b"ERR")));
    bench.host.interrupt_at = Some((4, Interrupt::Retry));
    assert_eq!(bench.call("f"), (String::new(), Outcome::Retry));
}

#[test]
fn memory_is_limited() {
    for body in [
        "local t = {} while true do t = {t, t} end",
        "local s = 'x' while true do s = s .. s end",
        "local s = ('x'):rep(2^31 - 1)",
        "for i = 1, 1e9 do redis.register_function('f' .. i, function() end) end",
        "local s = ('x'):rep(1e6) for i = 1, 100 do redis.register_function{function_name = 'f' .. i, callback = function() end, description = s} end",
        "redis.register_function(('x'):rep(3e6), function() end)",
    ] {
        let mut bench = Bench::new(SMALL_MEMORY_BYTES);
        let empty = bench.engine.memory_bytes();
        let error = bench.load(body).unwrap_err();
        assert!(error.ends_with("not enough memory"), "{body}: {error}");
        bench.load("redis.register_function('f', function() return 1 end)").unwrap();
        let left = bench.engine.memory_bytes();
        assert!(left < empty + SMALL_MEMORY_BYTES / 2, "{body}: {left}");
        assert_eq!(bench.call("f").0, ":1\r\n", "after {body}");
    }
}

#[test]
fn libraries_that_are_gone_leave_nothing() {
    let mut bench = Bench::new(SMALL_MEMORY_BYTES);
    for number in 0..500 {
        let body = format!(
            "local n, s = {number}, ('x'):rep(100000) redis.register_function('f', function() n = n + 1 return n + #s end)"
        );
        let library = bench.load(&body).unwrap();
        assert_eq!(bench.call("f").0, format!(":{}\r\n", number + 100_001));
        assert_eq!(bench.call("f").0, format!(":{}\r\n", number + 100_002), "a library keeps its variables");
        assert_eq!(bench.set.len(), 1);
        assert!(bench.set.holds(&library) && bench.engine.loaded_count() == 1);
    }
    bench.set.remove(b"l").unwrap();
    assert_eq!((bench.set.memory_bytes(), bench.set.function_count()), (0, 0));
    bench.engine.keep_only(&bench.set);
    assert_eq!(bench.engine.loaded_count(), 0);
}

#[test]
fn a_replacement_that_fails_changes_nothing() {
    let mut bench = Bench::new(MEMORY_BYTES_DEFAULT);
    bench.load("local n = 0 redis.register_function('f', function() n = n + 1 return n end)").unwrap();
    bench.call("f");
    let other = b"#!lua name=other\nredis.register_function('g', function() end)";
    bench.set.load(other, false, &mut bench.engine, &mut bench.host).unwrap();
    let bytes = bench.set.memory_bytes();
    for (body, expected) in [
        ("redis.register_function('h', function() end) x = 1", "readonly table"),
        (
            "redis.register_function('h', function() end) redis.register_function('G', function() end)",
            "ERR Function G already exists",
        ),
        // Functions whose names differ only in case are the same.
        (
            "redis.register_function('h', function() end) redis.register_function('H', function() end)",
            "ERR Function already exists in the library",
        ),
        ("", "ERR No functions registered"),
    ] {
        let error = bench.load(body).unwrap_err();
        assert!(error.ends_with(expected), "{body}: {error}");
        assert!(bench.set.function(b"h").is_none() && bench.set.memory_bytes() == bytes, "{body}");
    }
    assert_eq!(bench.call("F").0, ":2\r\n");
    assert_eq!(bench.engine.loaded_count(), 2);
}

#[test]
fn another_engine_loads_for_itself() {
    let mut first = Bench::new(MEMORY_BYTES_DEFAULT);
    let library = first
        .load("local n = 0 for i = 1, 3 do redis.register_function('f' .. i, function() n = n + i return n end) end")
        .unwrap();
    let mut second = Bench { set: first.set.clone(), ..Bench::new(MEMORY_BYTES_DEFAULT) };
    assert_eq!(second.call("f2").1, Outcome::Missing);
    for _ in 0..2 {
        second.engine.load_again(&library, &mut second.host).unwrap();
    }
    assert_eq!(
        (first.call("f2").0, second.call("f3").0, second.call("f1").0),
        (":2\r\n".into(), ":3\r\n".into(), ":4\r\n".into())
    );
    assert_eq!(second.engine.loaded_count(), 1);
    let mut small = Bench { set: first.set.clone(), ..Bench::new(MEMORY_BYTES_DEFAULT) };
    small.host.interrupt_at = Some((0, Interrupt::Killed));
    let endless =
        first.load("for i = 1, 1e5 do local x = i end redis.register_function('f', function() end)").unwrap();
    assert!(small.engine.load_again(&endless, &mut small.host).is_err());
    assert_eq!(small.engine.loaded_count(), 0);
}

#[test]
fn nothing_shared_can_be_changed() {
    for source in [
        "_G.x = 1",
        "rawset(_G, 'x', 1)",
        "string.x = 1",
        "redis.x = 1",
        "setmetatable(_G, {})",
        "getmetatable('').x = 1",
        "redis.call = nil",
    ] {
        let mut bench = Bench::new(MEMORY_BYTES_DEFAULT);
        bench.load(&format!("redis.register_function('f', function() {source} end)")).unwrap();
        assert!(
            bench.call("f").0.contains("Attempt to modify a readonly table"),
            "{source}: {}",
            bench.call("f").0
        );
    }
    // A table that was kept while loading stays the same, and is still read-only.
    let mut bench = Bench::new(MEMORY_BYTES_DEFAULT);
    bench.load("local early = redis redis.register_function('f', function() return {pcall(function() return early.call end), tostring(redis == early), type(redis.call)} end)").unwrap();
    assert_eq!(bench.call("f").0, "*3\r\n$-1\r\n$5\r\nfalse\r\n$8\r\nfunction\r\n");
}
