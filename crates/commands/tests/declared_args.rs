//! The arguments that an entry declares are those that its function parses.
//!
//! ```text
//! Entry.args ──▶ a list of arguments, options in any order ──▶ run: anything but a syntax error
//!                        └─▶ the list and a word that is not an option ──▶ run: an error
//! keyword_is(…, "WORD") in a family's files ──▶ some entry of the family declares WORD
//! ```
//!
//! Functions parse by hand (why: `docs/decisions/options.md`), so a word may be parsed and not declared, or
//! declared and not parsed: this test finds both. Values are valid, so that only the form can be wrong.
//!
//! Not here: whether an option does what it says (transcripts), and how redis-server replies to the same
//! lists (`blackbox`).

#![expect(clippy::disallowed_methods, reason = "this test reads the sources of the commands")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use commands::FAMILIES;
use ds::random::Random;
use engine::{Arg, ArgKind, Command, Entry, Local, Run};
use resp::Proto;

/// Lists per command: enough that each of its words is in some of them.
const LISTS: usize = 60;
/// A word that is neither an option nor a value of one.
const NO_OPTION: &str = "nonsense";

/// Words of commands that exclude each other, which their declarations do not say.
const EXCLUSIVE: &[(&str, &[&str])] = &[
    ("increx", &["PERSIST", "ENX"]),
    ("restore", &["IDLETIME", "FREQ"]),
    ("restore-asking", &["IDLETIME", "FREQ"]),
    ("zrange", &["BYLEX", "WITHSCORES"]),
];

/// Words of commands that require one of several others.
const ASKS_FOR: &[(&str, &str, &[&str])] = &[
    ("xadd", "LIMIT", &["~"]),
    ("xtrim", "LIMIT", &["~"]),
    ("zrange", "LIMIT", &["BYSCORE", "BYLEX"]),
    ("zrangestore", "LIMIT", &["BYSCORE", "BYLEX"]),
];

/// Commands that parse their options only if the key exists, as Redis does.
const LOOKS_LATE: &[&str] = &["hscan", "sscan", "zscan"];

/// The file of the one command whose subcommands are declared as a string, as Redis does.
const UNDECLARED: &str = "hll/debug.rs";

/// Generates lists of arguments.
struct Lists {
    random: Random,
    /// The value of the argument `numkeys`, `numfields` or `numids`, or the number of keys.
    count: Option<u64>,
}

/// Takes out the center of a search: a polygon has none, although it is declared as required, for the other shapes.
fn leave_out_center(list: &mut Vec<String>) {
    for (word, length) in [("FROMMEMBER", 2), ("FROMLONLAT", 3)] {
        if let Some(at) = list.iter().position(|arg| arg == word) {
            list.drain(at..at + length);
        }
    }
}

impl Lists {
    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.random.below(choices.len() as u64) as usize]
    }

    /// A list that `command` declares.
    fn list(&mut self, command: &Command) -> Vec<String> {
        let mut list: Vec<String> = command.full_name.split('|').map(str::to_owned).collect();
        self.count = None;
        self.args(command.entry.args, &mut list);
        if list.iter().any(|arg| arg == "BYPOLYGON") {
            leave_out_center(&mut list);
        }
        list
    }

    /// Appends the arguments one after the other; neighbouring optional ones that begin with a word come in
    /// any order.
    fn args(&mut self, args: &[Arg], list: &mut Vec<String>) {
        for run in args.chunk_by(|one, next| is_option(one) && is_option(next)) {
            let mut run: Vec<&Arg> = run.iter().collect();
            self.random.shuffle(&mut run);
            for arg in run {
                if !arg.optional || self.random.below(2) == 0 {
                    self.arg(arg, list);
                }
            }
        }
    }

    fn arg(&mut self, arg: &Arg, list: &mut Vec<String>) {
        let count = match (arg.multiple, self.count) {
            (false, _) => 1,
            (true, Some(count)) => count,
            (true, None) => 1 + self.random.below(2),
        };
        if arg.multiple && arg.kind == ArgKind::Key {
            // The same number of ids follows.
            self.count = Some(count);
        }
        for index in 0..count {
            if let Some(token) = arg.token
                && (index == 0 || arg.multiple_token)
            {
                list.push(token.to_owned());
            }
            match arg.kind {
                ArgKind::PureToken => {}
                ArgKind::OneOf => {
                    let chosen = self.random.below(arg.args.len() as u64) as usize;
                    self.arg(&arg.args[chosen], list);
                }
                ArgKind::Block => self.args(arg.args, list),
                ArgKind::Key => list.push(format!("key{}", self.random.below(3))),
                ArgKind::Integer | ArgKind::UnixTime => {
                    let number = self.integer(arg.name);
                    list.push(number.to_string());
                }
                ArgKind::Double => list.push(self.one_of(&["1", "2.5"]).to_owned()),
                ArgKind::Pattern => list.push("*".to_owned()),
                ArgKind::String => list.push(self.string(arg.name).to_owned()),
            }
        }
    }

    fn integer(&mut self, name: &str) -> u64 {
        match name {
            "numkeys" | "numfields" | "numids" | "num-members" | "nummembers" => {
                *self.count.insert(1 + self.random.below(2))
            }
            "num-vertices" => *self.count.insert(3),
            "cursor" => 0,
            "db" | "destination-db" | "index1" | "index2" => self.random.below(2),
            _ => 1 + self.random.below(5),
        }
    }

    fn string(&mut self, name: &str) -> &'static str {
        match name {
            "encoding" => "u8",
            "min" | "max" => "1",
            "start" | "end" | "id" | "last-id" | "lastid" | "max-deleted-id" | "threshold" => "5-1",
            "min-idle-time" => "0",
            _ => "value",
        }
    }
}

fn is_option(arg: &Arg) -> bool {
    arg.optional && begins_with_word(arg)
}

fn begins_with_word(arg: &Arg) -> bool {
    match arg.kind {
        _ if arg.token.is_some() => true,
        ArgKind::OneOf => arg.args.iter().all(begins_with_word),
        ArgKind::Block => begins_with_word(&arg.args[0]),
        _ => false,
    }
}

/// Whether any number of words, or a word that is not there yet, may come last.
fn has_open_end(args: &[Arg]) -> bool {
    args.iter().rev().take_while(|arg| arg.optional).any(|arg| !begins_with_word(arg) || has_value_last(arg))
        || args.iter().rev().find(|arg| !arg.optional).is_some_and(has_value_last)
}

/// Whether its last part may be repeated.
fn has_value_last(arg: &Arg) -> bool {
    match arg.kind {
        _ if arg.multiple && !arg.multiple_token => true,
        ArgKind::OneOf => arg.args.iter().any(has_value_last),
        ArgKind::Block => has_open_end(arg.args),
        _ => false,
    }
}

fn tokens(args: &[Arg], found: &mut BTreeSet<&'static str>) {
    for arg in args {
        found.extend(arg.token);
        tokens(arg.args, found);
    }
}

/// Whether the words of `list` can be combined, which declarations cannot always say.
fn goes_together(command: &Command, list: &[String]) -> bool {
    let has = |word: &str| list.iter().any(|arg| arg == word);
    let mut exclusive = EXCLUSIVE.iter().filter(|(name, _)| *name == command.full_name);
    let mut asking = ASKS_FOR.iter().filter(|(name, ..)| *name == command.full_name);
    exclusive.all(|(_, words)| words.iter().filter(|word| has(word)).count() < 2)
        && asking.all(|(_, word, others)| !has(word) || others.iter().any(|other| has(other)))
}

fn callable(local: &Local) -> impl Iterator<Item = &Command> {
    local.table().all().iter().filter(|command| matches!(command.entry.run, Run::Function(_)))
}

fn reply(local: &mut Local, list: &[String]) -> String {
    local.line("FLUSHALL");
    let list: Vec<&[u8]> = list.iter().map(String::as_bytes).collect();
    String::from_utf8_lossy(&local.reply(Proto::Resp2, &list)).into_owned()
}

fn is_about_form(reply: &str) -> bool {
    reply.starts_with("-ERR syntax error")
        || reply.starts_with("-ERR wrong number")
        || reply.starts_with("-ERR unknown")
}

#[test]
fn what_is_declared_is_parsed_and_nothing_else() {
    let local = Local::new(&[FAMILIES, sketching::FAMILIES].concat());
    let mut store = Local::new(&[FAMILIES, sketching::FAMILIES].concat());
    let mut wrong = Vec::new();
    for command in callable(&local) {
        let mut lists = Lists { random: Random::new(1), count: None };
        let mut unseen = BTreeSet::new();
        tokens(command.entry.args, &mut unseen);
        let before = wrong.len();
        for _ in 0..LISTS {
            let mut list = lists.list(command);
            if !goes_together(command, &list) {
                continue;
            }
            unseen.retain(|token| !list.iter().any(|arg| arg == token));
            let answer = reply(&mut store, &list);
            if is_about_form(&answer) {
                wrong.push(format!("{}: {answer}", list.join(" ")));
            }
            if !has_open_end(command.entry.args) && !LOOKS_LATE.contains(&&*command.full_name) {
                list.push(NO_OPTION.to_owned());
                let answer = reply(&mut store, &list);
                if !answer.starts_with('-') {
                    wrong.push(format!("{} is taken: {answer}", list.join(" ")));
                }
            }
            if wrong.len() > before + 2 {
                break;
            }
        }
        if wrong.len() == before && !unseen.is_empty() {
            wrong.push(format!("{}: never tried {unseen:?}", command.full_name));
        }
    }
    assert!(wrong.is_empty(), "declared, but not parsed so:\n{}", wrong.join("\n"));
}

/// The words that the code of a file compares arguments with.
fn parsed_words(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let calls = code.split("keyword_is(").skip(1);
    calls
        .filter_map(|call| {
            let call = call.split(')').next()?;
            Some(call.split('"').nth(1)?.to_ascii_uppercase())
        })
        .collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder of a family") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

fn declared(entries: &[Entry], found: &mut BTreeSet<&'static str>) {
    for entry in entries {
        tokens(entry.args, found);
        declared(entry.subcommands, found);
    }
}

#[test]
fn every_word_that_is_parsed_is_declared() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    sources(&root.join("../../sketching/src"), &mut files);
    let mut known = BTreeSet::new();
    [FAMILIES, sketching::FAMILIES].concat().iter().for_each(|entries| declared(entries, &mut known));
    let mut wrong = Vec::new();
    // The commands of memcached's protocol declare no arguments.
    let is_checked = |file: &&PathBuf| {
        !file.components().any(|part| part.as_os_str() == "memcached") && !file.ends_with(UNDECLARED)
    };
    for file in files.iter().filter(is_checked) {
        let text = std::fs::read_to_string(file).expect("a source file");
        let unknown = parsed_words(&text).into_iter().filter(|word| !known.contains(&**word));
        wrong.extend(unknown.map(|word| format!("{}: {word}", file.display())));
    }
    assert!(wrong.is_empty(), "parsed, but declared by no entry:\n{}", wrong.join("\n"));
}
