//! Properties of all rules and ACL files, checked by tests and by the fuzzer.

use acl::{Grammar, User, parse_file};
use engine::{Acl, Channels, Databases, Entry, Flag, KeyFlag, KeySpec, Table};

const SUBCOMMAND: Entry = Entry { flags: &[Flag::Admin], ..Entry::DEFAULT };

/// Some commands of every kind.
const ENTRIES: &[Entry] = &[
    Entry { name: "auth", flags: &[Flag::NoAuth, Flag::Fast], acl: &[Acl::Connection], ..Entry::DEFAULT },
    Entry {
        name: "config",
        subcommands: &[Entry { name: "get", ..SUBCOMMAND }, Entry { name: "set", ..SUBCOMMAND }],
        ..Entry::DEFAULT
    },
    Entry {
        name: "copy",
        flags: &[Flag::Write],
        acl: &[Acl::Keyspace],
        keys: &[
            KeySpec::one(1, &[KeyFlag::RO, KeyFlag::Access]),
            KeySpec::one(2, &[KeyFlag::OW, KeyFlag::Update]),
        ],
        databases: Databases::OwnAndAfter(3, "DB"),
        ..Entry::DEFAULT
    },
    Entry {
        name: "exists",
        flags: &[Flag::ReadOnly],
        keys: &[KeySpec::one(1, &[KeyFlag::RO])],
        ..Entry::DEFAULT
    },
    Entry {
        name: "flushall",
        flags: &[Flag::Write],
        acl: &[Acl::Keyspace],
        databases: Databases::All,
        ..Entry::DEFAULT
    },
    Entry {
        name: "get",
        flags: &[Flag::ReadOnly, Flag::Fast],
        keys: &[KeySpec::one(1, &[KeyFlag::RO, KeyFlag::Access])],
        ..Entry::DEFAULT
    },
    Entry { name: "psubscribe", flags: &[Flag::PubSub], channels: Channels::Patterns(1), ..Entry::DEFAULT },
    Entry { name: "publish", flags: &[Flag::PubSub], channels: Channels::One(1), ..Entry::DEFAULT },
    Entry {
        name: "select",
        flags: &[Flag::Fast],
        acl: &[Acl::Connection],
        databases: Databases::Numbered(&[1]),
        ..Entry::DEFAULT
    },
    Entry { name: "subscribe", flags: &[Flag::PubSub], channels: Channels::From(1), ..Entry::DEFAULT },
];

pub(crate) fn table() -> Table {
    Table::new(&[ENTRIES])
}

/// Any bytes as rules, one on each line: what is accepted is shown as a line that makes the same user again, who may do
/// the same.
pub(crate) fn check_rules(input: &[u8]) {
    let table = table();
    for all_channels in [false, true] {
        let grammar = Grammar { table: &table, all_channels };
        let rules: Vec<&[u8]> = input.split(|&byte| byte == b'\n').collect();
        let mut user = User::new(b"u", grammar);
        for end in 0..rules.len() {
            // Each alone, so that one that is wrong does not hide the others.
            if let Ok(changed) = user.changed(grammar, &rules[end..=end]) {
                user = changed;
            }
        }
        let together = User::new(b"u", grammar).changed(grammar, &rules);
        for user in [Some(user), together.ok()].into_iter().flatten() {
            let line = user.line();
            let shown = line.escape_ascii().to_string();
            let again = parse_file(grammar, "file", &line).unwrap_or_else(|errors| {
                panic!("{shown} is refused: {}", errors.escape_ascii());
            });
            assert_eq!(again, [user], "{shown}");
        }
    }
}

/// Any bytes as an ACL file: errors name a line, and what is accepted is written and read again the same.
pub(crate) fn check_file(input: &[u8]) {
    let table = table();
    let grammar = Grammar { table: &table, all_channels: false };
    match parse_file(grammar, "file", input) {
        Ok(users) => {
            let lines: Vec<Vec<u8>> = users.iter().map(User::line).collect();
            assert_eq!(parse_file(grammar, "file", &lines.join(&b'\n')), Ok(users));
        }
        Err(errors) => {
            let errors = String::from_utf8_lossy(&errors);
            assert!(errors.contains("file:") || errors.contains("on line "), "{errors}");
            assert!(errors.ends_with("was performed"), "{errors}");
        }
    }
}
