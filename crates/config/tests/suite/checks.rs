//! Properties of all configuration files and command lines, checked by tests and by the fuzzer.

use config::{
    Change, Foreign, Invocation, Read, Setting, SettingKind, Special, Table, Value, Values, directives,
};

const NUMBER: SettingKind = SettingKind::Integer { min: -5, max: 99_999 };
const COUNT: usize = 8;

fn numbers(words: &[&str], current: &str) -> Result<Value, String> {
    match words.iter().find(|word| word.parse::<u32>().is_err()) {
        Some(word) => Err(format!("{word} is no number")),
        None => Ok(Value::text(format!("{current} {}", words.join(" ")).trim().to_owned())),
    }
}

/// Whose lines add up.
const NUMBERS: SettingKind = SettingKind::Special(&Special {
    placeholder: "numbers",
    read: Read::Words(numbers),
    may_be_bare: true,
    lines_add_up: true,
});

/// A setting of each kind.
static TABLE: Table = Table {
    settings: &[
        Setting { name: "number", kind: NUMBER, default: "7", ..Setting::of("") },
        Setting {
            name: "memory",
            kind: SettingKind::Memory { min: 0, max: i64::MAX },
            default: "1024",
            ..Setting::of("")
        },
        Setting { name: "switch", kind: SettingKind::Switch, default: "yes", ..Setting::of("") },
        Setting { name: "words", kind: SettingKind::Words, default: "a b", ..Setting::of("") },
        Setting { name: "text", alias: Some("another-text"), ..Setting::of("") },
        Setting { name: "numbers", kind: NUMBERS, default: "1 2", ..Setting::of("") },
        Setting {
            name: "mode",
            kind: SettingKind::Octal,
            default: "0",
            change: Change::AtStart,
            ..Setting::of("")
        },
        Setting {
            name: "promise",
            kind: SettingKind::Bool,
            default: "no",
            refused: "nobody",
            ..Setting::of("")
        },
    ],
    foreign: &[
        Foreign::of("foreign", NUMBER, "10").also("20"),
        Foreign::of("foreign-promise", SettingKind::Words, "").also("no one").refused("nobody"),
    ],
    groups: &[""],
    others: &["user"],
};

/// The values of a text, and whether nothing is wrong with it; `None`: it is not made of lines of words.
fn read(text: &[u8]) -> Option<(Values<COUNT>, bool)> {
    let mut values = Values::new(&TABLE);
    let found = values.apply(directives(&TABLE, text, "x").ok()?, |_| Ok(()));
    Some((values, found.errors.is_empty()))
}

/// Any bytes as a configuration file: what is accepted is rewritten to a text that says the same.
pub(crate) fn check_configuration(text: &[u8]) {
    // The files of this machine are not part of the check.
    if text.to_ascii_lowercase().windows(7).any(|part| part == b"include") {
        return;
    }
    let Some((values, true)) = read(text) else { return };
    let rewritten = values.rewritten(text, "user", &[]);
    let (again, is_right) = read(&rewritten).expect("what was rewritten can be read");
    assert!(is_right, "{}", rewritten.escape_ascii());
    for (id, setting) in TABLE.all() {
        assert_eq!(values.text(id), again.text(id), "{}: {}", setting.name, rewritten.escape_ascii());
    }
}

/// Any words as a command line, one a line: one that names no file says the same as a file with its directives.
pub(crate) fn check_command_line(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let args: Vec<String> = text.split('\n').map(str::to_owned).collect();
    // The files of this machine, and standard input, are not part of the check.
    if text.to_ascii_lowercase().contains("include") || !args[0].starts_with("--") {
        return;
    }
    let arguments = match Invocation::parse(&TABLE, &args) {
        Ok(Invocation::Serve(arguments)) => arguments,
        Ok(Invocation::Test(_)) => return,
        Ok(Invocation::Help | Invocation::Version | Invocation::Folder(_)) => return,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let Ok(read) = arguments.read(&TABLE) else { return };
    assert!(read.file.is_none());
    let mut values = Values::<COUNT>::new(&TABLE);
    let found = values.apply(read.directives, |_| Ok(()));
    if found.errors.is_empty() {
        assert!(self::read(&values.rewritten(b"", "user", &[])).is_some());
    }
}
