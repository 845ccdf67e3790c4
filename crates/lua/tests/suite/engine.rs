//! Runs that end early, hostile scripts, and the views that scripts have of replies and of each other.

use std::sync::Arc;

use lua::{Interrupt, Outcome, Script};
use resp::{Output, Proto, Reply};

use crate::memory_host::{Bench, errors, raised};

/// A limit that hostile scripts reach quickly.
const SMALL_MEMORY_BYTES: usize = 16 * 1024 * 1024;

fn check(source: &str, expected: &str) {
    assert_eq!(Bench::new().eval(source), expected, "{source}");
}

fn check_interrupt(source: &str, interrupt: Interrupt) {
    let mut bench = Bench::new();
    bench.host.interrupt_at = Some((3, interrupt));
    let (reply, outcome) = bench.run(source.as_bytes(), &[], &[]);
    let why = match interrupt {
        Interrupt::Killed => Some("-ERR Script killed by user with SCRIPT KILL... script: "),
        Interrupt::TimeOver => Some("-ERR Script killed by script-time-max... script: "),
        Interrupt::Retry => None,
    };
    match why {
        Some(why) => {
            let reply = String::from_utf8_lossy(&reply).into_owned();
            assert!(reply.starts_with(why), "{source}: {reply}");
            assert_eq!(outcome, Some(raised(b"ERR")));
        }
        None => assert_eq!((reply.as_slice(), outcome), (&b""[..], Some(Outcome::Retry)), "{source}"),
    }
    assert_eq!(bench.host.tick_count, 3, "{source}: no more questions once the answer is no");
    bench.host.interrupt_at = None;
    assert_eq!(bench.eval("return 1"), ":1\r\n", "after {source}");
}

#[test]
fn interrupts_cannot_be_caught() {
    for source in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "pcall(function() while true do end end) return 1",
        "repeat until false",
        "local function f() return f() end f()",
        "while true do xpcall(function() while true do end end, function(e) while true do end end) end",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do pcall(coroutine.wrap(function() while true do end end)) end",
        "local t = setmetatable({}, {__index = function() while true do end end}) pcall(function() return t.x end) return 1",
        "while true do redis.pcall('ping') end",
        "while true do load(function() while true do end end) end",
        "while true do pcall(string.gsub, 'aaa', 'a', function() while true do end end) end",
        "while true do pcall(table.sort, {3,2,1}, function() while true do end end) end",
    ] {
        check_interrupt(source, Interrupt::Killed);
        check_interrupt(source, Interrupt::TimeOver);
        check_interrupt(source, Interrupt::Retry);
    }
}

/// Tables that contain others many times.
#[test]
fn small_values_make_only_so_much_text() {
    for source in [
        "local t = {1} for i = 1, 12 do t = {t, t, t, t, t} end return cjson.encode(t)",
        "local t = {} for i = 1, 12 do t = {t, t, t, t, t} end return cjson.encode(t)",
        "local t = {} for i = 1, 12 do t = {t, t, t, t, t} end return cmsgpack.pack(t)",
    ] {
        let reply = Bench::with_memory(SMALL_MEMORY_BYTES / 16).eval(source);
        assert!(reply.contains("not enough memory"), "{source}: {reply:.300}");
    }
}

/// Each of these is one call of a native function that would take minutes or hours.
#[test]
fn long_calls_are_interrupted() {
    for source in [
        "return string.find(('a'):rep(1e5), ('a-'):rep(50) .. 'b')",
        "return string.match(('a'):rep(1e5), ('a*'):rep(50) .. 'b')",
        "for x in string.gmatch(('a'):rep(1e5), ('a?'):rep(50) .. 'b') do end",
        "return string.gsub(('a'):rep(1e5), ('a-'):rep(50) .. 'b', '')",
        "return string.gsub(('a'):rep(1e5), ('a-'):rep(50) .. 'b', function() end)",
        "return string.gsub(('a'):rep(1e5), ('a-'):rep(50) .. 'b', {})",
        "return string.gsub(('a'):rep(1e5), '()', ('%1'):rep(1e5):gsub('%d', '2'))",
        "return string.gsub(('a'):rep(1e5), '(b*)', ('%1'):rep(1e5))",
        "return pcall(string.find, ('('):rep(1e6), ('%b()'):rep(3))",
        "return pcall(string.find, ('a'):rep(1e6), '(.-)%1b')",
        "return pcall(string.find, ('a'):rep(1e6), '[' .. ('b'):rep(1e6) .. ']')",
        "return xpcall(function() return ('a'):rep(1e5):find(('a-'):rep(50) .. 'b') end, function() return 1 end)",
        "return load(function() return ('a'):rep(1e5):find(('a-'):rep(50) .. 'b') end)",
        "return string.gsub('a', 'a', function() return ('a'):rep(1e5):find(('a-'):rep(50) .. 'b') end)",
        "local t = {} for i = 1, 1e5 do t[i] = -i end return table.foreachi(t, string.find)",
        "local t = {} for i = 1, 1e5 do t[i] = -i end return table.sort(t, string.find)",
        "local t = {} for i = 1, 1e5 do t[i] = i end for i = 1, 1e5 do t[i] = nil end
         t = {t, t, t, t, t, t, t, t, t, t} return cmsgpack.pack({t, t, t, t, t, t, t, t, t, t, t})",
        "local t = {} for i = 1, 1e5 do t[i] = i end for i = 1, 1e5 do t[i] = nil end
         t = {t, t, t, t, t, t, t, t, t, t} return cjson.encode({t, t, t, t, t, t, t, t, t, t, t})",
        "local t = {} for i = 1, 1e5 do t[i] = i * 7919 % 100003 end table.sort(t)",
        "local s, t = ('x'):rep(1e6), {} for i = 1, 200 do t[i] = s .. i * 7919 % 211 end table.sort(t)",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.insert(t, 1, 1) end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.remove(t, 1) table.insert(t, 1) end",
        "local s = ('x'):rep(1e6) while true do local t = s .. 'y' end",
        "local s = ('1'):rep(12e5) while true do local t = s + 0 end",
    ] {
        check_interrupt(source, Interrupt::Killed);
        check_interrupt(source, Interrupt::TimeOver);
    }
}

/// Writing a reply of many small values would take minutes.
#[test]
fn long_replies_are_interrupted() {
    let mut bench = Bench::new();
    bench.host.interrupt_at = Some((3, Interrupt::TimeOver));
    let reply = bench.eval("local t = {} for i = 1, 9 do t = {t, t, t, t, t, t, t, t, t, t} end return t");
    assert_eq!(reply, "-ERR Script killed by script-time-max...\r\n");
    bench.host.interrupt_at = None;
    assert_eq!(bench.eval("return {1, {2}}"), "*2\r\n:1\r\n*1\r\n:2\r\n");
}

/// A call that an error ends leaves nothing that affects other calls.
#[test]
fn replacements_that_are_given_up_leave_nothing() {
    check(
        "return string.gsub('abc', '%w', function(c) pcall(string.gsub, 'xyz', '.', function(d) if d == 'y' then error() end return '--' end) return c .. c end)",
        "$6\r\naabbcc\r\n",
    );
    check(
        "local f = function(c) return (('12'):gsub('.', function(d) return c .. d end)) end return string.gsub('ab', '.', f)",
        "$8\r\na1a2b1b2\r\n",
    );
    check(
        "local n = 0 return string.gsub('ab', '.', function(c) n = n + 1
         local inner = coroutine.wrap(function() string.gsub('q', 'q', function() error('x') end) end)
         pcall(inner) load(function() string.gsub('zz', 'z', error) end) return c .. n end)",
        "$4\r\na1b2\r\n",
    );
    let mut bench = Bench::with_memory(SMALL_MEMORY_BYTES);
    let looped = "local s = ('x'):rep(1e5) .. 'y' for i = 1, 2000 do
        pcall(string.gsub, s, '.', function(c) if c == 'y' or i > 5 then error() end return 'zz' end) end return 1";
    assert_eq!(bench.eval(looped), ":1\r\n");
    assert!(
        bench.eval("return string.gsub(('x'):rep(1e6), 'x', function(c) error('end') end)").contains("end")
    );
    assert_eq!(
        bench.eval("return #string.gsub(('x'):rep(1e6), 'x', function(c) return 'zz' end)"),
        ":2000000\r\n"
    );
}

#[test]
fn interrupts_of_commands_cannot_be_caught() {
    for source in [
        "redis.call('COMMAND')",
        "pcall(redis.call, 'COMMAND') return redis.call('ping')",
        "redis.pcall('COMMAND') return 1",
        "return {xpcall(function() redis.call('COMMAND') end, function() return redis.pcall('ping') end)}",
        "coroutine.resume(coroutine.create(function() redis.call('COMMAND') end)) redis.call('ping') return 1",
    ] {
        let mut bench = Bench::new();
        let (reply, outcome) = bench.run(source.replace("COMMAND", "retry").as_bytes(), &[], &[]);
        assert_eq!((reply.as_slice(), outcome), (&b""[..], Some(Outcome::Retry)), "{source}");
        assert_eq!(bench.host.call_count, 1, "{source}");
        let reply = bench.eval(&source.replace("COMMAND", "kill"));
        assert!(reply.starts_with("-ERR Script killed by user"), "{source}: {reply}");
        assert_eq!(bench.host.call_count, 2, "{source}");
    }
}

#[test]
fn memory_is_limited() {
    for source in [
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 1e9 do t[i] = 'value ' .. i end",
        "return string.rep('x', 2^31 - 1)",
        "return #string.rep('x', 1e7)",
        "local t = {} for i = 1, 100 do t[i] = string.rep('x', 1e6) end return table.concat(t)",
        "local s = string.rep('[', 900) .. string.rep('1,', 1e6) return cjson.decode('[' .. string.rep('{},', 1e6) .. '1]')",
        "return cmsgpack.unpack('\\221\\255\\255\\255\\255' .. string.rep('\\144', 3e6))",
        "local t = {string.rep('x', 1e6)} for i = 1, 12 do t = {t, t, t} end return cmsgpack.pack(t)",
        "return struct.pack('c2147483647', 'x') .. struct.pack('!16777216bi1073741824', 1, 1)",
        "local t = {} for i = 1, 5000 do t[i] = string.rep('x', 1e6) .. i end return 1",
        "local s, t = string.rep('x', 1e6), {} for i = 1, 5000 do t[i] = s end redis.log(1, unpack(t))",
        "local t = {string.rep('x', 1e6)} for i = 1, 12 do t = {t, t, t} end return cjson.encode(t)",
        "return (string.gsub(('x'):rep(1e5), '(x*)', ('%1'):rep(1e5)))",
        "return (string.gsub(('x'):rep(1e6), 'x', function() return ('y'):rep(1000) end))",
        "return (('x'):rep(1e6):match(('('):rep(32) .. '.*' .. (').'):rep(32)))",
        "local f = function() end while true do local g = f f = function() return g end end",
        "return (string.rep('ab', 1e6):gsub('a', string.rep('x', 1000)))",
    ] {
        let mut bench = Bench::with_memory(SMALL_MEMORY_BYTES);
        let empty = bench.engine.memory_bytes();
        let reply = bench.eval(source);
        assert!(
            reply.contains("not enough memory")
                || reply.contains("bad argument")
                || reply.contains("larger than"),
            "{source}: {reply:.300}"
        );
        assert!(bench.engine.memory_bytes() < 2 * SMALL_MEMORY_BYTES, "{source}");
        bench.engine.flush();
        assert!(
            bench.engine.memory_bytes() < empty + 1024 * 1024,
            "{source}: {}",
            bench.engine.memory_bytes()
        );
        assert_eq!(bench.eval("return #string.rep('x', 1e6)"), ":1000000\r\n", "after {source}");
    }
}

#[test]
fn a_script_may_catch_the_end_of_memory() {
    let mut bench = Bench::with_memory(SMALL_MEMORY_BYTES);
    let reply = bench.eval("local ok, e = pcall(string.rep, 'x', 2^30) return {tostring(ok), e}");
    assert_eq!(reply, "*2\r\n$5\r\nfalse\r\n$17\r\nnot enough memory\r\n");
    let reply = bench
        .eval("local ok, e = pcall(function() local t = {} while true do t[#t + 1] = 1 end end) return e");
    assert_eq!(reply, "$17\r\nnot enough memory\r\n");
}

#[test]
fn garbage_is_no_reason_to_run_out() {
    let mut bench = Bench::with_memory(SMALL_MEMORY_BYTES);
    let source = "local n = 0 for i = 1, 20000 do n = n + #(string.rep('x', 10000) .. i) end return n";
    assert_eq!(bench.eval(source), ":200088894\r\n");
    let source = "for i = 1, 1000 do cjson.decode(cjson.encode({string.rep('x', 100000), i})) end return 1";
    assert_eq!(bench.eval(source), ":1\r\n");
}

#[test]
fn a_script_begins_with_room_whatever_others_left() {
    // Few instructions, much memory: nothing else would collect garbage while they run.
    let large = "return #string.rep('x', 5e6)";
    for bomb in [
        "collectgarbage('stop') local t = {} for i = 1, 10 do t[i] = string.rep(string.char(64 + i), 1e6) end return 1",
        "collectgarbage('setpause', 1e6) local t = {} for i = 1, 10 do t[i] = string.rep(string.char(64 + i), 1e6) end return 1",
        "pcall(function() local t = {} for i = 1, 1e3 do t[i] = string.rep('x', 1e6) .. i end end) return 1",
        "pcall(function() local t = {} while true do t[#t + 1] = {} end end) return 1",
    ] {
        let mut bench = Bench::with_memory(SMALL_MEMORY_BYTES);
        for _ in 0..3 {
            assert_eq!(bench.eval(bomb), ":1\r\n");
            assert_eq!(bench.eval(large), ":5000000\r\n", "after {bomb}");
        }
    }
}

#[test]
fn what_a_script_says_to_the_collector_ends_with_it() {
    let mut bench = Bench::with_memory(SMALL_MEMORY_BYTES);
    assert_eq!(bench.eval("return collectgarbage('setpause', 1000)"), ":200\r\n");
    assert_eq!(
        bench.eval("return {collectgarbage('setpause', 200), collectgarbage('setstepmul', 1)}"),
        "*2\r\n:200\r\n:200\r\n"
    );
    bench.eval("collectgarbage('stop')");
    let empty = bench.engine.memory_bytes();
    for number in 0..2_000 {
        bench.eval(&format!("local t = {{}} for i = 1, 100 do t[i] = {{}} end return {number}"));
    }
    assert!(bench.engine.memory_bytes() < empty + 4 * 1024 * 1024, "{}", bench.engine.memory_bytes());
}

#[test]
fn depth_is_limited() {
    for (source, expected) in [
        ("local function f() return 1 + f() end return f()", "stack overflow"),
        ("local function f() return pcall(f) end return f()", ""),
        ("local function f() local ok, e = pcall(f) error(e) end f()", ""),
        ("local function f() return coroutine.wrap(f)() end return f()", "C stack overflow"),
        ("local function f() string.gsub('a', 'a', f) end f()", "C stack overflow"),
        ("return ('a'):rep(9000):find(('a?'):rep(9000))", "pattern too complex"),
        ("return ('a'):rep(9000):find(('a?'):rep(8000))", ":1"),
        ("return ('a'):rep(1e6):find(('a'):rep(1e6) .. '.-')", ":1"),
        (
            "return (('('):rep(33) .. (')'):rep(33)):match(('('):rep(33) .. (')'):rep(33))",
            "too many captures",
        ),
        ("return loadstring('return ' .. ('('):rep(10000) .. '1' .. (')'):rep(10000))()", "nil value"),
        ("return select('#', loadstring('return ' .. ('{'):rep(10000)))", ":2"),
        ("local s = 'return 1' .. (' .. 1'):rep(10000) return select(2, loadstring(s))", "$"),
        (
            "return cjson.decode(('['):rep(100000))",
            "too many nested data structures (1001) at character 1001",
        ),
        (
            "cjson.decode_max_depth(1e9) return cjson.decode(('['):rep(100000))",
            "too many nested data structures",
        ),
        (
            "cjson.decode_max_depth(1e9) return cjson.decode(('{\"a\":'):rep(100000))",
            "too many nested data structures",
        ),
        ("cjson.encode_max_depth(1e9) local t = {} t[1] = t return cjson.encode(t)", "excessive nesting"),
        ("local t = {} t[1] = t return cmsgpack.pack(t)", "$17"),
        ("return {unpack({}, 1, 8000)}", "too many results"),
        ("return {unpack({1, 2}, -2, 2147483647)}", "too many results"),
        ("return {unpack({1, 2}, -2147483648, 2147483647)}", "too many results"),
        ("return {unpack({1, 2}, 2147483647, 2147483647)}", "*0"),
        ("return redis.call('echo', unpack({}, 1, 7900))", "must be strings or integers"),
        ("return #string.rep('', 2147483647)", ":0"),
        ("return #string.rep('', -1)", ":0"),
    ] {
        let reply = Bench::new().eval(source);
        assert!(reply.contains(expected), "{source}: {reply:.300}");
    }
}

#[test]
fn replies_may_be_deep_and_not_endless() {
    let mut bench = Bench::new();
    let reply = bench.eval("local t = {} t[1] = t return t");
    let depth = reply.matches("*1\r\n").count();
    assert!((7000..8000).contains(&depth), "{depth}");
    assert!(reply.ends_with("*1\r\n-ERR reached lua stack limit\r\n"));
    let reply = bench.eval("local t = {map = {}} t.map.a = t return t");
    assert!(reply.ends_with("-ERR reached lua stack limit\r\n"), "{reply:.100}");
    let reply = bench.eval(
        "local s = string.rep('x', 1e6) local t = {s, s, s} for i = 1, 12 do t = {t, t, t} end return t",
    );
    assert_eq!(reply, "-ERR the script's reply is too large\r\n");
}

#[test]
fn an_item_is_not_inserted_far_below_the_first_one() {
    // Lua would move two thousand million items that do not exist, and nothing could interrupt it.
    let reply = Bench::new().eval("local t = {1} table.insert(t, -2147483647, 2) return #t");
    assert!(reply.contains("bad argument #2 to 'insert' (position out of bounds)"), "{reply}");
    check("local t = {1} table.insert(t, -5, 2) return t[-5]", ":2\r\n");
    check("local t = {1} table.insert(t, 2147483647, 2) return t[2147483647]", ":2\r\n");
    check(
        "local t = {1, 2} table.insert(t, 1, 3) table.insert(t, 4) return t",
        "*4\r\n:3\r\n:1\r\n:2\r\n:4\r\n",
    );
}

#[test]
fn nothing_shared_can_be_changed() {
    for source in [
        "rawset(_G, 'x', 1)",
        "_G.x = 1",
        "x = 1",
        "string.x = 1",
        "table.insert(redis, 1)",
        "table.insert(_G, 1, 1)",
        "setmetatable(_G, {})",
        "setmetatable(redis, nil)",
        "setmetatable(cjson, {__index = 1})",
        "bit.band = nil",
        "getmetatable('').__index = {}",
        "getmetatable('').x = 1",
        "getmetatable(_G).__index = nil",
        "rawset(getmetatable(''), '__index', 1)",
        "rawset(getmetatable(_G), '__index', 1)",
        "_G.redis.call = nil",
        "rawset(getmetatable('').__index, 'x', 1)",
        "rawset(rawget(_G, 'string'), 'x', 1)",
        "for k, v in pairs(_G) do if k == 'redis' then v.call = 1 end end",
        "select(2, next(_G)).x = 1 _G.x = 1",
        "KEYS = {}",
        "loadstring('x = 1')()",
        "load(coroutine.wrap(function() coroutine.yield('x = 1') end))()",
        "table.setn(redis, 1)",
        "os.clock = 1",
    ] {
        let reply = Bench::new().eval(source);
        assert!(
            reply.contains("Attempt to modify a readonly table") || reply.contains("attempt to index"),
            "{source}: {reply}"
        );
    }
    check("table.foreach(redis, function(k, v) if k == 'call' then error('seen') end end)", &{
        let sha = lua::Sha1Hex::of(
            b"table.foreach(redis, function(k, v) if k == 'call' then error('seen') end end)",
        );
        format!("-ERR user_script:1: seen script: {sha}, on @user_script:1.\r\n")
    });
    check("return type(getmetatable(redis))", "$3\r\nnil\r\n");
    check("local n = 0 for k in pairs(_G) do n = n + 1 end return n > 30", ":1\r\n");
    check("return _G._G == _G", ":1\r\n");
    check("return type(os.clock())", "$6\r\nnumber\r\n");
    for name in [
        "print", "dofile", "loadfile", "require", "module", "debug", "io", "package", "getfenv", "setfenv",
        "newproxy",
    ] {
        assert!(
            Bench::new().eval(&format!("return {name}")).contains("nonexistent global variable"),
            "{name}"
        );
    }
}

#[test]
fn precompiled_chunks_are_refused() {
    for source in [
        "return tostring(loadstring(string.dump(function() return 1 end)))",
        "return tostring(load(coroutine.wrap(function() coroutine.yield(string.dump(function() return 1 end)) end)))",
        "local s, i = string.dump(function() end), 0 return tostring(load(function() i = i + 1 if i <= #s then return s:sub(i, i) end end))",
    ] {
        check(source, "$3\r\nnil\r\n");
    }
    let (reply, _) = Bench::new().run(b"\x1bLua", &[], &[]);
    assert_eq!(
        reply,
        b"-ERR Error compiling script (new function): user_script:1: unexpected symbol near 'char(27)'\r\n"
    );
}

#[test]
fn keys_and_arguments_are_set_for_each_run() {
    let mut bench = Bench::new();
    let source = b"return {#KEYS, #ARGV, KEYS[1], ARGV[1]}";
    assert_eq!(bench.run(source, &[b"k\0", b"l"], &[b"a"]).0, b"*4\r\n:2\r\n:1\r\n$2\r\nk\0\r\n$1\r\na\r\n");
    assert_eq!(bench.run(source, &[], &[]).0, b"*2\r\n:0\r\n:0\r\n");
    bench.eval("redis.setresp(3) return 1");
    assert_eq!(bench.eval("return redis.call('reply', '$-1\\r\\n') == false"), ":1\r\n");
}

#[test]
fn arguments_have_their_order_whatever_they_are() {
    check("return redis.call('JOIN', 'a', 1, '', 2.5, 'b', -0, 3)", "$14\r\na,1,,2.5,b,0,3\r\n");
    check("return redis.call('JOIN', 1, 2)", "$3\r\n1,2\r\n");
    check("return redis.call('JOIN', 'a b', 'c')", "$5\r\na b,c\r\n");
    check("local t = {} for i = 1, 40 do t[i] = i end return #redis.call('JOIN', unpack(t))", ":110\r\n");
}

#[test]
fn each_status_is_a_table_of_its_own() {
    let change = "local a = redis.call('SET', 'k', 'v') a.ok = 'changed' a.more = 1";
    let look = "local b = redis.call('SET', 'k', 'v') return {b.ok, tostring(b.more), redis.call('PING').ok}";
    check(&format!("{change} {look}"), "*3\r\n$2\r\nOK\r\n$3\r\nnil\r\n$4\r\nPONG\r\n");
    check("return coroutine.wrap(function() return redis.pcall('PING') end)()", "+PONG\r\n");
}

fn check_conversion(reply: &str, expression: &str, expected: &str) {
    let source = format!("redis.setresp(3) local r = redis.pcall('reply', ARGV[1]) return {expression}");
    let (got, _) = Bench::new().run(source.as_bytes(), &[], &[reply.as_bytes()]);
    assert_eq!(String::from_utf8_lossy(&got), expected, "{reply:?} {expression}");
}

#[test]
fn converts_replies() {
    check_conversion(":-12\r\n", "r", ":-12\r\n");
    check_conversion("+OK\r\n", "r.ok", "$2\r\nOK\r\n");
    check_conversion("-WRONGTYPE a b\r\n", "r.err", "$13\r\nWRONGTYPE a b\r\n");
    check_conversion("-WRONG\r\n", "r.err", "$9\r\nERR WRONG\r\n");
    check_conversion("-ERR x\r\n", "r.ignore_error_stats_update", ":1\r\n");
    check_conversion("*-1\r\n", "r == false", ":1\r\n");
    check_conversion("_\r\n", "r == nil", ":1\r\n");
    check_conversion("#f\r\n", "r == false", ":1\r\n");
    check_conversion(",1.5\r\n", "r.double", ":1\r\n");
    check_conversion(",-inf\r\n", "tostring(r.double)", "$4\r\n-inf\r\n");
    check_conversion("(123\r\n", "r.big_number", "$3\r\n123\r\n");
    check_conversion("=5\r\ntxt:a\r\n", "r", "$1\r\na\r\n");
    check_conversion("=5\r\ntxt:a\r\n", "r.verbatim_string.format", "$3\r\ntxt\r\n");
    check_conversion("%1\r\n+a\r\n:1\r\n", "next(r.map).ok", "$1\r\na\r\n");
    check_conversion("%2\r\n_\r\n:1\r\n$1\r\nb\r\n:2\r\n", "r.map.b", ":2\r\n");
    check_conversion("~1\r\n$1\r\nb\r\n", "r.set.b", ":1\r\n");
    check_conversion("|1\r\n+a\r\n:1\r\n:7\r\n", "r", ":7\r\n");
    check_conversion(
        "*3\r\n:1\r\n_\r\n*1\r\n$1\r\nx\r\n",
        "{r[1], r[2] == nil, r[3][1]}",
        "*3\r\n:1\r\n#t\r\n$1\r\nx\r\n".replace("#t", ":1").as_str(),
    );
    for malformed in
        ["", "$5\r\nab\r\n", ":x\r\n", "*99999999999\r\n", "?", "*1\r\n", ",x\r\n", "=1\r\na\r\n"]
    {
        let (got, _) = Bench::new().run(b"return redis.call('reply', ARGV[1])", &[], &[malformed.as_bytes()]);
        assert!(got.starts_with(b"-ERR user_script:1: a command's reply could not be read"), "{malformed:?}");
    }
}

#[test]
fn counts_errors_of_commands_once() {
    let mut bench = Bench::new();
    let mut outcome = |source: &str| bench.run(source.as_bytes(), &[], &[]).1;
    assert_eq!(outcome("redis.call('set')"), Some(Outcome::Raised(errors(1, &[]))));
    assert_eq!(outcome("error('x')"), Some(raised(b"ERR")));
    assert_eq!(outcome("error({err='MINE x'})"), Some(raised(b"MINE")));
    assert_eq!(outcome("redis.pcall('set') return 1"), Some(Outcome::Returned(errors(0, &[]))));
    assert_eq!(outcome("return redis.pcall('set')"), Some(Outcome::Returned(errors(1, &[]))));
    assert_eq!(
        outcome("return {redis.error_reply('A x'), {err='B'}, {{err='A y'}}, redis.pcall('set'), {ok='C'}}"),
        Some(Outcome::Returned(errors(4, &[(b"A", 2), (b"B", 1)])))
    );
}

#[test]
fn asks_the_host() {
    let mut bench = Bench::new();
    assert_eq!(bench.eval("redis.log(redis.LOG_WARNING, 'a', 1, {}, 'b') return 1"), ":1\r\n");
    assert_eq!(bench.host.log, [(3, b"a 1 b".to_vec())]);
    assert_eq!(
        bench.eval("return {redis.acl_check_cmd('get', 'a'), redis.acl_check_cmd('flushall')}"),
        "*2\r\n:1\r\n$-1\r\n"
    );
    for (flags, is_silent) in [("NONE", true), ("ALL", false), ("NONE", true), ("AOF", false)] {
        bench.eval(&format!("redis.set_repl(redis.REPL_{flags})"));
        assert_eq!(bench.host.is_silent, is_silent, "{flags}");
    }
    let large = "x".repeat(100_000);
    assert_eq!(bench.run(b"return #redis.call('echo', ARGV[1])", &[], &[large.as_bytes()]).0, b":100000\r\n");
}

#[test]
fn finds_what_is_in_the_cache_only() {
    let mut bench = Bench::new();
    let mut cache = lua::ScriptCache::new();
    let script =
        cache.insert(Arc::new(Script::new(b"#!lua flags=no-writes\nreturn 1").unwrap()), lua::Origin::Load);
    let mut out = Output::new();
    let mut reply = Reply::new(&mut out, Proto::Resp2);
    let returned = Outcome::Returned(errors(0, &[]));
    assert_eq!(bench.engine.flags(script.sha()), None);
    assert_eq!(bench.engine.eval(script.sha(), &[], &[], &mut bench.host, &mut reply), Outcome::Missing);
    bench.engine.compile(&script).unwrap();
    assert!(bench.engine.flags(script.sha()).unwrap().no_writes);
    assert_eq!(bench.engine.eval(script.sha(), &[], &[], &mut bench.host, &mut reply), returned);
    cache.flush();
    // A client that looked it up before the flush still runs it. Later look-ups do not find it.
    assert_eq!(bench.engine.eval(script.sha(), &[], &[], &mut bench.host, &mut reply), returned);
    assert!(bench.engine.script(script.sha()).is_none());
    assert_eq!(bench.engine.flags(script.sha()), None);
    assert_eq!(bench.engine.compiled_count(), 0);
}

#[test]
fn a_script_that_two_threads_compiled_is_forgotten_by_both() {
    let source = b"return 'raced'";
    let mut cache = lua::ScriptCache::new();
    let mut engines = [Bench::new(), Bench::new()];
    // Both compile it before either has put it into the cache.
    let scripts = [0, 1].map(|_| Arc::new(Script::new(source).unwrap()));
    for (bench, script) in engines.iter_mut().zip(&scripts) {
        bench.engine.compile(script).unwrap();
    }
    for (bench, script) in engines.iter_mut().zip(scripts) {
        let present = cache.insert(script, lua::Origin::Eval);
        bench.engine.compile(&present).unwrap();
    }
    let sha = lua::Sha1Hex::of(source);
    assert!(engines.iter().all(|bench| bench.engine.script(&sha).is_some()));
    cache.flush();
    assert!(engines.iter().all(|bench| bench.engine.script(&sha).is_none()));
}

#[test]
fn compiled_scripts_do_not_pile_up() {
    let mut bench = Bench::new();
    for number in 0..5000 {
        bench.eval(&format!("return {number}"));
    }
    assert!(bench.engine.compiled_count() <= 2000);
    assert!(bench.engine.memory_bytes() < 4 * 1024 * 1024, "{}", bench.engine.memory_bytes());
}

/// The tables are refilled for later runs, which must not see what a script did to them.
#[test]
fn keys_and_arguments_begin_anew() {
    const SHOW: &[u8] = b"local out = {} for _, t in ipairs({KEYS, ARGV}) do table.insert(out, #t) for k, v in pairs(t) do \
        table.insert(out, tostring(k) .. '=' .. v) end table.insert(out, tostring(getmetatable(t))) end return table.concat(out, ' ')";
    let changes: [&[u8]; 9] = [
        b"KEYS[1] = 'x' ARGV[2] = 'x'",
        b"KEYS[1] = nil ARGV[1] = nil ARGV[2] = nil",
        b"KEYS.field = 'x' ARGV.field = 'x'",
        b"KEYS.field = 'x' KEYS.field = nil ARGV[3] = 'x' ARGV[3] = nil",
        b"KEYS[2] = 'x' KEYS[3] = 'x' ARGV[4] = 'x'",
        b"setmetatable(KEYS, {__index = ARGV}) setmetatable(ARGV, {})",
        b"table.remove(KEYS) table.insert(ARGV, 1, 'x') table.sort(ARGV)",
        b"for i = 1, 100 do KEYS[i] = i ARGV[-i] = i end",
        b"local ok = pcall(function() KEYS[1] = nil error('x') end) collectgarbage()",
    ];
    let mut bench = Bench::new();
    for change in changes {
        for (keys, args, shown) in [
            (&[b"k" as &[u8]] as &[&[u8]], &[b"a" as &[u8], b"b"] as &[&[u8]], "1 1=k nil 2 1=a 2=b nil"),
            (&[b"k"], &[], "1 1=k nil 0 nil"),
            (&[], &[b"c", b"d"], "0 nil 2 1=c 2=d nil"),
            (&[b"l"], &[b"c", b"d"], "1 1=l nil 2 1=c 2=d nil"),
        ] {
            bench.run(change, keys, args);
            let (reply, _) = bench.run(SHOW, keys, args);
            let reply = String::from_utf8_lossy(&reply).into_owned();
            assert_eq!(
                reply,
                format!("${}\r\n{shown}\r\n", shown.len()),
                "{}",
                String::from_utf8_lossy(change)
            );
        }
    }
    let many: Vec<&[u8]> = vec![b"x"; 1000];
    for _ in 0..2 {
        assert_eq!(bench.run(b"return {#KEYS, #ARGV}", &many, &many[..33]).0, b"*2\r\n:1000\r\n:33\r\n");
        assert_eq!(bench.run(b"return {#KEYS, #ARGV}", &many[..1], &many[..32]).0, b"*2\r\n:1\r\n:32\r\n");
    }
}

/// A reply that the script ignores is not converted to a value. An error is raised all the same.
#[test]
fn replies_may_be_dropped() {
    check("redis.call('ping') return 1", ":1\r\n");
    check("redis.pcall('nosuch') return 1", ":1\r\n");
    check(
        "local t = setmetatable({}, {__newindex = function(t, k) return redis.call(k) end}) t.ping = 1 return 1",
        ":1\r\n",
    );
    check("return select('#', redis.call('ping'))", ":1\r\n");
    check("local ok, reply = pcall(redis.call, 'ping') return reply.ok", "$4\r\nPONG\r\n");
    check(
        "local a, b, c = redis.call('ping') return {a.ok, tostring(b), tostring(c)}",
        "*3\r\n$4\r\nPONG\r\n$3\r\nnil\r\n$3\r\nnil\r\n",
    );
    let reply = Bench::new().eval("redis.call('nosuch') return 1");
    assert!(reply.starts_with("-ERR "), "{reply}");
    check("local ok, why = pcall(function() redis.call('nosuch') end) return ok and 1 or 2", ":2\r\n");
}

/// A script that only uses fields of libraries reads them past the guard, and must not notice.
#[test]
fn libraries_are_guarded_whatever_a_script_does_with_them() {
    for (source, expected) in [
        ("return redis.nosuch == nil and _G.redis.call == redis.call", ":1\r\n"),
        ("return not pcall(loadstring('redis.x = 1')) and redis.x == nil", ":1\r\n"),
        ("return not pcall(function() _G.string.rep = 1 end) and string.rep('x', 3)", "$3\r\nxxx\r\n"),
        ("return not pcall(rawset, _G.table, 'x', 1) and table.x == nil", ":1\r\n"),
        ("return type(cjson.null) .. type(_G.KEYS) .. math.floor(1.5)", "$14\r\nuserdatatable1\r\n"),
        ("return ARGV == _G.ARGV and KEYS == _G.KEYS and string.len(redis.sha1hex('')) == 40", ":1\r\n"),
        (
            "return select(2, pcall(function() return redis.x.y end))",
            "$55\r\nuser_script:1: attempt to index field 'x' (a nil value)\r\n",
        ),
        (
            "return select(2, pcall(function() return nosuch.x end))",
            "$78\r\nuser_script:1: Script attempted to access nonexistent global variable 'nosuch'\r\n",
        ),
    ] {
        check(source, expected);
    }
}
