//! The result of reading the configuration at the start: the settings, and the directives that are not settings.
//!
//! Errors are collected: the start reports the first one, `--test-config` all of them.

use std::mem;

use crate::{Arguments, Directive, WithoutEffect, shown};

use crate::error::Error;
use crate::settings::Settings;
use crate::settings::table::{IO_THREADS, LOADMODULE, PROACTOR_THREADS, RENAME_COMMAND, TABLE, USER};

/// Why modules are refused.
const NO_MODULES: &str = "modules are not loaded; remove the line";

/// The parts of a configuration other than the values of settings.
#[derive(Debug, Default)]
pub struct Found {
    /// Directives without effect whose value is not the default.
    pub without_effect: Vec<WithoutEffect>,
    /// Lines about users. They are parsed when the commands are known.
    pub users: Vec<Directive>,
    /// Renamed commands, in this order.
    pub renames: Vec<Rename>,
    /// Errors that prevent the start.
    pub errors: Vec<Error>,
}

/// A command that is renamed or disabled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rename {
    /// The command's name.
    pub from: Vec<u8>,
    /// The new name; empty: the command is disabled.
    pub to: Vec<u8>,
    /// The place of the directive.
    pub place: String,
}

impl Settings {
    /// Reads the configuration that `arguments` name. Invalid lines are reported in `Found`.
    pub fn read(arguments: &Arguments) -> Result<(Settings, Found), Error> {
        let configuration = arguments.read(&TABLE)?;
        let mut settings = Settings::default();
        settings.values_mut().note_config_file(configuration.file);
        let found = settings.apply(configuration.directives);
        Ok((settings, found))
    }

    /// Applies `directives` in this order.
    pub(crate) fn apply(&mut self, directives: Vec<Directive>) -> Found {
        let mut found = Found::default();
        let read = self.values_mut().apply(directives, |directive| found.note(directive));
        self.note_output_limits();
        let asks = read.is_given(IO_THREADS) && !self.is_on(PROACTOR_THREADS);
        self.note_io_threads(asks);
        Found { without_effect: read.without_effect, errors: read.errors, ..found }
    }
}

impl Found {
    /// Records a directive that is not a setting.
    fn note(&mut self, directive: Directive) -> Result<(), Error> {
        if directive.name.eq_ignore_ascii_case(USER) {
            self.users.push(directive);
            return Ok(());
        }
        let Directive { name, words, place } = directive;
        if name.eq_ignore_ascii_case(LOADMODULE) {
            return Err(Error::Refused { name: LOADMODULE, place, why: NO_MODULES });
        }
        debug_assert!(name.eq_ignore_ascii_case(RENAME_COMMAND));
        let words: [Vec<u8>; 2] = words.try_into().map_err(|words: Vec<Vec<u8>>| Error::BadRename {
            name: words.first().map_or_else(String::new, |name| shown(&String::from_utf8_lossy(name))),
            place: place.clone(),
            why: "wrong number of arguments",
        })?;
        let [from, to] = words;
        self.renames.push(Rename { from, to, place });
        Ok(())
    }

    /// Fails with the first error, if there is one.
    pub fn check(&mut self) -> Result<(), Error> {
        let mut errors = mem::take(&mut self.errors).into_iter();
        let Some(first) = errors.next() else { return Ok(()) };
        Err(match errors.len() {
            0 => first,
            more => Error::Several { first: Box::new(first), more },
        })
    }
}

impl Rename {
    /// The error for renaming this command.
    pub fn refused(&self, why: &'static str) -> Error {
        Error::BadRename { name: shown(&String::from_utf8_lossy(&self.from)), place: self.place.clone(), why }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Invocation, directives};

    use super::*;
    use crate::settings::table::{BIND, CLIENT_OUTPUT_BUFFER_LIMIT, PORT, SAVE, SLOWLOG_LOG_SLOWER_THAN};

    fn arguments(line: &str) -> Result<(Settings, Found), Error> {
        let args: Vec<String> = line.split(' ').filter(|arg| !arg.is_empty()).map(str::to_owned).collect();
        match Invocation::parse(&TABLE, &args)? {
            Invocation::Serve(arguments) => Settings::read(&arguments),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn settings(line: &str) -> Settings {
        arguments(line).expect(line).0
    }

    #[track_caller]
    fn check_error(line: &str, expected: &str) {
        let error = arguments(line).and_then(|(_, mut found)| found.check()).expect_err(line);
        assert_eq!(error.to_string(), expected);
    }

    fn loaded(text: &str) -> Result<Settings, Error> {
        let mut settings = Settings::default();
        let directives = directives(&TABLE, text.as_bytes(), "x.conf")?;
        settings.apply(directives).check().map(|()| settings)
    }

    #[test]
    fn flags_are_directives() {
        let found = settings("--port 7000 --proactor-threads=3 --num-shards 9 --bind 127.0.0.1 -::1 --save");
        assert_eq!(found.number(PORT), 7000);
        assert_eq!(found.thread_count(), Some((3, "proactor-threads")));
        assert_eq!(found.shard_count(3), 9);
        assert_eq!(&*found.text(BIND), "127.0.0.1 -::1");
        let found = settings("--save 3600 1 --save 60 5 --singlehop-blocking=false --SHARD_ENTRY home");
        assert_eq!(&*found.text(SAVE), "3600 1 60 5");
        assert!(!found.singlehop_blocking());
        let found = settings("--slowlog-log-slower-than -1 --appendfsync always --singlehop_blocking");
        assert_eq!(found.number(SLOWLOG_LOG_SLOWER_THAN), -1);
        assert_eq!(&*found.text(TABLE.find("appendfsync").unwrap()), "always");
        assert!(found.singlehop_blocking());
    }

    #[test]
    fn threads_for_input_and_output_are_threads() {
        assert_eq!(settings("--io-threads 3").thread_count(), Some((3, "io-threads")));
        assert_eq!(settings("--io-threads 1").thread_count(), Some((1, "io-threads")));
        assert_eq!(
            settings("--io-threads 3 --proactor-threads 2").thread_count(),
            Some((2, "proactor-threads"))
        );
        assert_eq!(settings("--io-threads 3 --proactor-threads 0").thread_count(), Some((3, "io-threads")));
    }

    #[test]
    fn errors_on_the_command_line_name_what_is_wrong() {
        check_error("--prot 1", "unknown setting 'prot' on the command line; did you mean 'port'?");
        check_error(
            "--threads 4",
            "unknown setting 'threads' on the command line; did you mean 'proactor-threads'?",
        );
        check_error(
            "--maxclient 1",
            "unknown setting 'maxclient' on the command line; did you mean 'maxclients'?",
        );
        check_error("--xyzzy-plugh 1", "unknown setting 'xyzzy-plugh' on the command line");
        check_error("-p 1", "unknown setting '-p' on the command line; did you mean '--port'?");
        check_error(
            "--port",
            "bad value '' for 'port' on the command line: wrong number of arguments (TCP port to listen on; 0: none)",
        );
    }

    #[test]
    fn lines_about_one_class_leave_the_others() {
        let settings = loaded(
            "client-output-buffer-limit normal 1mb 0 0\nclient-output-buffer-limit pubsub 2mb 0 0\n\
             rename-command FLUSHALL \"\"\nsave 3600 1\nsave \"\"\n",
        )
        .unwrap();
        assert_eq!(settings.output_limit(0).hard_bytes, 1 << 20);
        assert_eq!(settings.output_limit(2).hard_bytes, 2 << 20);
        assert!(settings.text(CLIENT_OUTPUT_BUFFER_LIMIT).starts_with("normal 1048576 0 0 slave 268435456 "));
        assert_eq!(&*settings.text(SAVE), "");
    }

    #[test]
    fn errors_name_the_line() {
        for (text, expected) in [
            ("\nfoo bar\n", "unknown setting 'foo' in x.conf, line 2"),
            ("port \"1", "unbalanced quotes in x.conf, line 1"),
            (
                "include /nonexistent/darter.conf",
                "cannot read /nonexistent/darter.conf, included in x.conf, line 1: No such file or directory (os error 2)",
            ),
            (
                "cluster-enabled no\ncluster-enabled yes",
                "'cluster-enabled' in x.conf, line 2 is refused: there are no clusters; `cluster-mode emulated` answers as \
                 a cluster of one node does",
            ),
            (
                "loadmodule x.so",
                "'loadmodule' in x.conf, line 1 is refused: modules are not loaded; remove the line",
            ),
            (
                "port x\nfoo 1\nbar 1",
                "bad value 'x' for 'port' in x.conf, line 1: argument couldn't be parsed into an \
             integer (TCP port to listen on; 0: none); --test-config names this and 2 more",
            ),
            (
                "rename-command FLUSHALL",
                "cannot rename 'FLUSHALL' in x.conf, line 1: wrong number of arguments",
            ),
        ] {
            assert_eq!(loaded(text).expect_err(text).to_string(), expected);
        }
    }
}
