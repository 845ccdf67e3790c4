//! For any subject and pattern, `string.find`, `match`, `gmatch` and `gsub` return and raise the same as
//! those of Lua 5.1.5. Lua's own functions, in a separate state, are the oracle. Inputs are short, because
//! nothing interrupts Lua's matcher.

#![allow(dead_code, reason = "a fuzz target uses one of the checks")]

use std::cell::RefCell;
use std::sync::Arc;

use lua::{Engine, Script};
use resp::{Output, Proto, Reply};

/// Longer subjects and patterns are cut: Lua's matcher may try every way to divide the subject among the
/// items.
const SUBJECT_BYTES_MAX: usize = 24;
const PATTERN_BYTES_MAX: usize = 14;
const REPLACEMENT_BYTES_MAX: usize = 12;
const MEMORY_BYTES: usize = 16 << 20;

/// Calls each function with `subject`, `pattern`, `replacement` and `place`, and joins everything that is
/// returned or raised.
const CALLS: &str = r#"
local told = {}
local function tell(name, ok, ...)
  local texts = {name, tostring(ok)}
  for i = 1, select('#', ...) do
    local value = select(i, ...)
    local text = tostring(value)
    -- The functions of each state have addresses of their own.
    if type(value) == 'function' then text = 'function' end
    texts[#texts + 1] = type(value) .. ' ' .. text
  end
  told[#told + 1] = table.concat(texts, '|')
end
local function try(name, call) tell(name, pcall(call)) end
local s, p, r, n = subject, pattern, replacement, place
try('find', function() return string.find(s, p) end)
try('find at', function() return string.find(s, p, n) end)
try('find plain', function() return string.find(s, p, n, true) end)
try('match', function() return string.match(s, p) end)
try('match at', function() return string.match(s, p, n) end)
try('method', function() return s:match(p, -2) end)
try('gmatch', function()
  local all = {}
  for a, b, c in string.gmatch(s, p) do
    all[#all + 1] = tostring(a) .. ' ' .. tostring(b) .. ' ' .. tostring(c)
  end
  return table.concat(all, ',')
end)
try('gsub', function() return string.gsub(s, p, r) end)
try('gsub max', function() return string.gsub(s, p, r, n) end)
try('gsub number', function() return string.gsub(s, p, 12.5) end)
try('gsub whole', function() return string.gsub(s, p, '<%0>') end)
try('gsub captures', function() return string.gsub(s, p, '%2%1') end)
try('gsub table', function() return string.gsub(s, p, {a = 'A', b = false, c = 1.5, [1] = 'one'}) end)
try('gsub index', function()
  return string.gsub(s, p, setmetatable({}, {__index = function(_, key) return '{' .. key .. '}' end}))
end)
try('gsub function', function()
  local count = 0
  return string.gsub(s, p, function(...)
    count = count + 1
    if count % 4 == 0 then return nil end
    if count % 4 == 1 then return false end
    if count % 4 == 2 then return count end
    return select('#', ...) .. ':' .. tostring((...))
  end)
end)
try('gsub nested', function()
  return string.gsub(s, p, function(a)
    pcall(string.gsub, s, '.', function(b) if b == 'b' then error('given up') end return '--' end)
    return (string.gsub(tostring(a) .. '.', p, '%0%0'))
  end)
end)
try('gsub raises', function() return string.gsub(s, p, function(a) error('raised at ' .. tostring(a)) end) end)
try('gsub wrong', function() return string.gsub(s, p, function() return {} end) end)
try('gsub wrong', function() return string.gsub(s, p, {a = print, b = true}) end)
return table.concat(told, '\n')
"#;

struct Pair {
    engine: Engine,
    oracle: mlua::Lua,
}

thread_local! {
    static PAIR: RefCell<Pair> = RefCell::new(Pair { engine: Engine::new(MEMORY_BYTES, 0x0007_0205), oracle: mlua::Lua::new() });
}

fn ours(engine: &mut Engine, args: &[&[u8]]) -> Vec<u8> {
    let prelude = "local print, subject, pattern, replacement, place = function() end, ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]) ";
    let source = [prelude, CALLS].concat();
    let script = Arc::new(Script::new(source.as_bytes()).expect("the script has no flags"));
    engine.compile(&script).expect("the script can be compiled");
    let mut output = Output::new();
    engine.eval(script.sha(), &[], args, &mut (), &mut Reply::new(&mut output, Proto::Resp2));
    let reply = output.to_vec();
    let start = reply.windows(2).position(|part| part == b"\r\n").expect("a reply has lines") + 2;
    assert!(reply.starts_with(b"$"), "{}", reply.escape_ascii());
    reply[start..reply.len() - 2].to_vec()
}

fn theirs(oracle: &mlua::Lua, args: &[&[u8]]) -> Vec<u8> {
    let prelude = "local subject, pattern, replacement, place = ... place = tonumber(place) ";
    let texts: Vec<mlua::LuaString> =
        args.iter().map(|arg| oracle.create_string(arg).expect("it has room")).collect();
    let chunk = oracle.load([prelude, CALLS].concat()).set_name("@user_script");
    let told: mlua::LuaString = chunk.call(mlua::Variadic::from_iter(texts)).expect("all errors are caught");
    told.as_bytes().to_vec()
}

pub(crate) fn check_pattern(subject: &[u8], pattern: &[u8], replacement: &[u8], place: i8) {
    let place = place.to_string();
    let args = [
        &subject[..subject.len().min(SUBJECT_BYTES_MAX)],
        &pattern[..pattern.len().min(PATTERN_BYTES_MAX)],
        &replacement[..replacement.len().min(REPLACEMENT_BYTES_MAX)],
        place.as_bytes(),
    ];
    PAIR.with_borrow_mut(|Pair { engine, oracle }| {
        let (ours, theirs) = (ours(engine, &args), theirs(oracle, &args));
        for (ours, theirs) in ours.split(|byte| *byte == b'\n').zip(theirs.split(|byte| *byte == b'\n')) {
            let [subject, pattern, replacement, place] = args.map(<[u8]>::escape_ascii);
            assert!(
                ours == theirs,
                "{pattern} in {subject}, {replacement}, {place}\nours   {}\ntheirs {}",
                ours.escape_ascii(),
                theirs.escape_ascii()
            );
        }
        assert_eq!(ours.len(), theirs.len());
    });
}

/// Splits `input` into the place, the lengths of the pattern and the replacement, these two, and the subject.
pub(crate) fn check_pattern_input(input: &[u8]) {
    let [place, lengths, rest @ ..] = input else { return };
    let (pattern, rest) = rest.split_at(rest.len().min(usize::from(lengths % 16)));
    let (replacement, subject) = rest.split_at(rest.len().min(usize::from(lengths / 16)));
    check_pattern(subject, pattern, replacement, place.cast_signed());
}
