//! Work on a journal's folder that the program does instead of running a server.
//!
//! ```text
//!   darter --check-journal DIR [--journal-repair truncate]
//!   darter --copy-journal DIR --to NEW [--journal-until MS]
//!   darter --export-aof DIR --to NEW [--journal-until MS]
//! ```
//!
//! The flags come in any order, with `-` or `_`, and with the value after a space or `=`. They cannot be combined with
//! settings.

use std::path::PathBuf;

use crate::error::{Error, shown};

/// Work on the folder of a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FolderTask {
    /// Tell what there is, and what a start would do.
    Check {
        /// The folder of the journal, or the one that it is in.
        folder: PathBuf,
        /// Give up what comes behind damage.
        repairs: bool,
    },
    /// Write a copy that a server starts from.
    Copy(Export),
    /// Write an append-only file for Redis.
    ExportAof(Export),
}

/// A task that writes to another folder; the journal itself is only read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// The folder of the journal, or the one that it is in.
    pub folder: PathBuf,
    /// The folder that is made.
    pub to: PathBuf,
    /// Ends behind the last slice that was written at this time, in milliseconds since 1970.
    pub until_unix_ms: Option<u64>,
}

const CHECK: &str = "check-journal";
const COPY: &str = "copy-journal";
const EXPORT_AOF: &str = "export-aof";
const REPAIR: &str = "journal-repair";
const TO: &str = "to";
const UNTIL: &str = "journal-until";
const FLAGS: &[&str] = &[CHECK, COPY, EXPORT_AOF, REPAIR, TO, UNTIL];

/// The flags that were given, each with its value.
#[derive(Default)]
struct Given(Vec<(&'static str, String)>);

impl FolderTask {
    /// Understands the arguments; `None` if they do not begin with a flag of such work.
    pub(crate) fn parse(args: &[String]) -> Result<Option<FolderTask>, Error> {
        if args.first().and_then(|arg| flag(arg)).is_none() {
            return Ok(None);
        }
        let mut given = Given::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let Some((name, value)) = flag(arg) else {
                return Err(wrong(format!("'{}' cannot be combined with --{}", shown(arg), given.first())));
            };
            let value = value.or_else(|| next_value(&mut args)).unwrap_or_default();
            if value.is_empty() {
                return Err(wrong(format!("--{name} needs a value")));
            }
            if given.0.iter().any(|(known, _)| *known == name) {
                return Err(wrong(format!("--{name} is given twice")));
            }
            given.0.push((name, value));
        }
        given.task().map(Some)
    }
}

/// The flag of an argument, and the value that stands in it.
fn flag(arg: &str) -> Option<(&'static str, Option<String>)> {
    let (name, value) = match arg.strip_prefix("--")?.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (arg.strip_prefix("--")?, None),
    };
    let name = name.replace('_', "-").to_ascii_lowercase();
    FLAGS.iter().find(|flag| **flag == name).map(|flag| (*flag, value))
}

/// The next argument if it is no flag.
fn next_value(args: &mut std::slice::Iter<'_, String>) -> Option<String> {
    let value = args.as_slice().first().filter(|arg| !arg.starts_with("--"))?;
    args.next();
    Some(value.clone())
}

fn wrong(why: String) -> Error {
    Error::FolderTask(why)
}

impl Given {
    fn first(&self) -> &'static str {
        self.0.first().map_or(CHECK, |(name, _)| name)
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(given, _)| *given == name)?;
        Some(self.0.remove(at).1)
    }

    fn task(mut self) -> Result<FolderTask, Error> {
        let (check, copy, export) = (self.take(CHECK), self.take(COPY), self.take(EXPORT_AOF));
        let task = match (check, copy, export) {
            (Some(folder), None, None) => {
                let repairs = match self.take(REPAIR).as_deref() {
                    None => false,
                    Some("truncate") => true,
                    Some(other) => {
                        return Err(wrong(format!(
                            "--journal-repair must be truncate, not '{}'",
                            shown(other)
                        )));
                    }
                };
                FolderTask::Check { folder: folder.into(), repairs }
            }
            (None, Some(folder), None) => FolderTask::Copy(self.export(COPY, folder)?),
            (None, None, Some(folder)) => FolderTask::ExportAof(self.export(EXPORT_AOF, folder)?),
            _ => {
                let why = "one of --check-journal DIR, --copy-journal DIR and --export-aof DIR is needed";
                return Err(wrong(why.to_owned()));
            }
        };
        match self.0.first() {
            None => Ok(task),
            Some((name, _)) => Err(wrong(format!("--{name} cannot be used here: see --help"))),
        }
    }

    fn export(&mut self, name: &str, folder: String) -> Result<Export, Error> {
        let to = self.take(TO);
        let to = to.ok_or_else(|| wrong(format!("--{name} needs --to NEW, the folder to create")))?;
        let until_unix_ms = match self.take(UNTIL) {
            None => None,
            Some(until) => Some(until.parse().map_err(|_| {
                wrong(format!("--journal-until is in milliseconds since 1970, not '{}'", shown(&until)))
            })?),
        };
        Ok(Export { folder: folder.into(), to: to.into(), until_unix_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<FolderTask>, Error> {
        let args: Vec<String> = line.split(' ').filter(|arg| !arg.is_empty()).map(str::to_owned).collect();
        FolderTask::parse(&args)
    }

    #[test]
    fn flags_come_in_any_order_and_spelling() {
        let check = |repairs| Some(FolderTask::Check { folder: "/a".into(), repairs });
        assert_eq!(parse("--check-journal /a").unwrap(), check(false));
        assert_eq!(parse("--check_journal=/a").unwrap(), check(false));
        assert_eq!(parse("--journal-repair truncate --check-journal /a").unwrap(), check(true));
        let export = |until_unix_ms| Export { folder: "a".into(), to: "b".into(), until_unix_ms };
        assert_eq!(parse("--to b --copy-journal a").unwrap(), Some(FolderTask::Copy(export(None))));
        let until = parse("--journal_until 12 --export_aof a --to=b").unwrap();
        assert_eq!(until, Some(FolderTask::ExportAof(export(Some(12)))));
        for line in ["", "--port 1", "a.conf --check-journal b", "--check"] {
            assert_eq!(parse(line).unwrap(), None, "{line}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let one = "one of --check-journal DIR, --copy-journal DIR and --export-aof DIR is needed";
        for (line, expected) in [
            ("--check-journal", "--check-journal needs a value"),
            ("--check-journal --journal-repair truncate", "--check-journal needs a value"),
            ("--check-journal a --port 1", "'--port' cannot be combined with --check-journal"),
            ("--check-journal a b", "'b' cannot be combined with --check-journal"),
            ("--check-journal a --to b", "--to cannot be used here: see --help"),
            ("--check-journal a --check_journal b", "--check-journal is given twice"),
            ("--journal-repair truncate", one),
            ("--check-journal a --export-aof b", one),
            ("--check-journal a --journal-repair all", "--journal-repair must be truncate, not 'all'"),
            ("--export-aof a", "--export-aof needs --to NEW, the folder to create"),
            (
                "--copy-journal a --to b --journal-until x",
                "--journal-until is in milliseconds since 1970, not 'x'",
            ),
        ] {
            assert_eq!(parse(line).expect_err(line).to_string(), expected);
        }
    }
}
