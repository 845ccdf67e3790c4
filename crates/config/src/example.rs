//! A small table for the tests.

use crate::consequence::Consequence;
use crate::foreign::Foreign;
use crate::kind::{Read, SettingKind, Special, Value};
use crate::setting::{Change, Id, Setting};
use crate::table::Table;

pub(crate) const PORT: Id = Id::new(0);
pub(crate) const BIND: Id = Id::new(1);
pub(crate) const TIMEOUT: Id = Id::new(2);
pub(crate) const REQUIREPASS: Id = Id::new(3);
pub(crate) const SAVE: Id = Id::new(5);
pub(crate) const DIR: Id = Id::new(6);
pub(crate) const PIN: Id = Id::new(7);
pub(crate) const COUNT: usize = 9;

const NUMBER: SettingKind = SettingKind::Integer { min: 0, max: 99_999 };

fn sums(words: &[&str], current: &str) -> Result<Value, String> {
    match words.iter().find(|word| word.parse::<u32>().is_err()) {
        Some(word) => Err(format!("{word} is no number")),
        None => Ok(Value::text(format!("{current} {}", words.join(" ")).trim().to_owned())),
    }
}

const SUMS: SettingKind = SettingKind::Special(&Special {
    placeholder: "numbers",
    read: Read::Words(sums),
    may_be_bare: true,
    lines_add_up: true,
});

pub(crate) static TABLE: Table = Table {
    settings: &[
        Setting {
            name: "port",
            kind: NUMBER,
            default: "6379",
            effect: Some(Consequence::Listen),
            doc: "Where to listen",
            ..Setting::of("Network")
        },
        Setting {
            name: "bind",
            kind: SettingKind::Words,
            default: "* -::*",
            doc: "Addresses",
            ..Setting::of("Network")
        },
        Setting {
            name: "timeout",
            kind: NUMBER,
            unit: "seconds",
            default: "0",
            doc: "Until when",
            ..Setting::of("Network")
        },
        Setting { name: "requirepass", doc: "The password", is_secret: true, ..Setting::of("Process") },
        Setting {
            name: "proactor-threads",
            kind: NUMBER,
            default: "0",
            change: Change::AtStart,
            doc: "Threads",
            ..Setting::of("Process")
        },
        Setting {
            name: "save",
            alias: Some("save-points"),
            kind: SUMS,
            default: "1 2",
            doc: "When to save",
            ..Setting::of("Process")
        },
        Setting { name: "dir", change: Change::Protected, doc: "Where to save", ..Setting::of("Process") },
        Setting {
            name: "pin",
            kind: SettingKind::Switch,
            default: "yes",
            doc: "Stay there",
            ..Setting::of("Process")
        },
        Setting {
            name: "appendonly",
            kind: SettingKind::Bool,
            default: "no",
            doc: "A file",
            refused: "there is no file",
            ..Setting::of("Process")
        },
    ],
    foreign: &[
        Foreign::of("activerehashing", SettingKind::Bool, "yes").any(),
        Foreign::of("hz", NUMBER, "10").also("20"),
        Foreign::of("replicaof", SettingKind::Words, "").also("no one").refused("there is no replication"),
    ],
    groups: &["Process", "Network"],
    others: &["user", "rename-command"],
};
