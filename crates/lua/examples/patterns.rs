//! Runs Lua's string functions on short strings, ours or Lua's own, for `valgrind --tool=callgrind`.
//!
//! `patterns ours|lua CASE COUNT` runs the case COUNT times. The difference of two counts is the calls' cost.

use std::sync::Arc;

use lua::{Engine, MEMORY_BYTES_DEFAULT, Script};
use resp::{Output, Proto, Reply};

const CASES: [(&str, &str); 14] = [
    ("nothing", "f(s)"),
    ("match key", "f(s, '^([^:]+):(%d+)$')"),
    ("match digits", "f(s, '%d+')"),
    ("match lazy", "f(s, '(.-):(.*)')"),
    ("find plain", "f(s, ':', 1, true)"),
    ("find literal", "f(s, 'wait')"),
    ("find class", "f(s, '%d')"),
    ("find nothing", "f(s, '%u%l+')"),
    ("gsub char", "f(s, ':', '_')"),
    ("gsub class", "f(s, '[^%w]', '%%%0')"),
    ("gsub function", "f(s, '%d', function(d) return d end)"),
    ("gmatch words", "for w in f(s, '[^:]+') do end"),
    ("sort", "f({5, 3, 9, 1, 7, 2, 8, 6, 4, 10})"),
    ("loop", "for j = 1, 100 do s2 = j end"),
];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, whose, case, count] = &args[..] else { panic!("patterns ours|lua CASE COUNT") };
    let (_, body) = CASES.iter().find(|(name, _)| name == case).expect("a case");
    let function = match case.split(' ').next() {
        Some("nothing") => "type",
        Some("sort") => "table.sort",
        Some("loop") => "nil",
        Some(name) => &format!("string.{name}"),
        None => unreachable!("a split has a first part"),
    };
    let source = format!(
        "local f, s, s2 = {function}, 'bull:mails:wait:1234' for i = 1, {count} do {body} end return 1"
    );
    if whose == "lua" {
        let lua = mlua::Lua::new();
        lua.load(source).exec().expect("the script runs");
        return;
    }
    let mut engine = Engine::new(MEMORY_BYTES_DEFAULT, 0x0007_0205);
    let script = Arc::new(Script::new(source.as_bytes()).expect("a script"));
    engine.compile(&script).expect("it compiles");
    let mut out = Output::new();
    engine.eval(script.sha(), &[], &[], &mut (), &mut Reply::new(&mut out, Proto::Resp2));
    assert_eq!(out.to_vec(), b":1\r\n");
}
