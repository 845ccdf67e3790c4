//! Tests of COMMAND with a table of a few commands, without a server.

use engine::KeyFlag::{Access, RO};
use engine::{CommandError, CommandResult, Ctx, Entry, Flag, Group, KeySpec, Local, Run, Table, key, string};
use resp::Proto;

use crate::catalog::{ENTRIES, page};

const READ: Entry = Entry {
    name: "read",
    summary: "Reads | tells.",
    since: "2.6.0",
    group: Group::String,
    arity: -2,
    flags: &[Flag::ReadOnly, Flag::Fast],
    keys: &[KeySpec::range(1, -1, 1, &[RO, Access])],
    args: &[key("key", 0).multiple(), string("count").token("COUNT").optional()],
    note: "for tests only",
    run: Run::Function(nothing),
    ..Entry::DEFAULT
};

const BOX: Entry = Entry {
    name: "box",
    subcommands: &[Entry { name: "open", run: Run::Function(nothing), ..Entry::DEFAULT }],
    ..Entry::DEFAULT
};

fn nothing(_: &mut Ctx) -> CommandResult {
    Err(CommandError::fixed("ERR it is declared only"))
}

const FAMILIES: &[&[Entry]] = &[&[READ, BOX], ENTRIES];

#[track_caller]
fn check(line: &str, expected: &str) {
    let reply = Local::new(FAMILIES).line(line);
    assert_eq!(reply.replace("\r\n", " ").trim_end(), expected, "{line}");
}

#[test]
fn commands_and_containers_are_counted_and_listed() {
    check("COMMAND COUNT", ":3");
    check("COMMAND LIST FILTERBY PATTERN b*", "*2 $3 box $8 box|open");
    check("COMMAND LIST FILTERBY ACLCAT fast", "*1 $4 read");
    check("COMMAND LIST FILTERBY ACLCAT nothing", "*0");
    check("COMMAND LIST FILTERBY MODULE any", "*0");
    check("COMMAND LIST FILTERBY", "-ERR syntax error");
}

#[test]
fn a_description_comes_from_the_entry() {
    check("COMMAND INFO nothing", "*1 $-1");
    let key = "*1 *6 $5 flags *2 +RO +access $12 begin_search *4 $4 type $5 index $4 spec *2 $5 index :1 \
               $9 find_keys *4 $4 type $5 range $4 spec *6 $7 lastkey :-1 $7 keystep :1 $5 limit :0";
    let read = format!("*1 *10 $4 read :-2 *2 +readonly +fast :1 :-1 :1 *2 +@read +@fast *0 {key} *0");
    check("COMMAND INFO read", &read);
}

#[test]
fn documents_come_from_the_entry() {
    let reply =
        String::from_utf8(Local::new(FAMILIES).reply(Proto::Resp3, &[b"COMMAND", b"DOCS", b"read", b"none"]));
    let reply = reply.expect("it is text");
    assert!(reply.starts_with("%1\r\n$4\r\nread\r\n%5\r\n"), "{reply}");
    for part in ["$14\r\nReads | tells.", "$6\r\nstring", "$5\r\ntoken\r\n$5\r\nCOUNT", "~1\r\n+optional"] {
        assert!(reply.contains(part), "{part}: {reply}");
    }
}

#[test]
fn keys_are_found_by_the_specs() {
    check("COMMAND GETKEYS read a b", "*2 $1 a $1 b");
    check("COMMAND GETKEYSANDFLAGS read a", "*1 *2 $1 a *2 +RO +access");
    check("COMMAND GETKEYS read", "-ERR Invalid number of arguments specified for command");
    check("COMMAND GETKEYS box open", "-ERR The command has no key arguments");
    check("COMMAND GETKEYS none a", "-ERR Invalid command specified");
}

#[test]
fn the_page_has_every_command_and_no_mere_container() {
    let differences =
        "# Differences\n\n## How it's done\n\n`READ a` is\n\n## No more\n\n`READER`, `BOX OPEN`\n";
    let page = page(&Table::new(FAMILIES), differences);
    let link = "[How it's done](differences.md#how-its-done)";
    let since = "[2.6.0](https://redis.io/docs/latest/commands/read/)";
    let read = format!(
        "| `READ key [key ...] [COUNT count]` | Reads \\| tells. | O(1) | {since} | for tests only; {link} |"
    );
    assert!(page.contains("| [Strings](#strings) | "), "{page}");
    assert!(page.contains(&format!("\n## Strings\n\n| Command | What it does | Complexity | Since | Unlike Redis |\n|---|---|---|---|---|\n{read}\n")), "{page}");
    assert!(page.contains("`BOX OPEN`") && !page.contains("`BOX`"), "{page}");
}
