//! The command line, which is that of redis-server: a configuration file, then directives as flags.
//!
//! ```text
//!   darter [--test-config] [/path/to/redis.conf | -] [--directive value …]… [--directive=value]…
//! ```
//!
//! A flag takes all words up to the next one that begins with `--`. What stands on the command line comes after the file and
//! wins.

use std::path::PathBuf;

use super::source::{Directive, Reading};
use super::{Found, Settings};
use crate::error::Error;

/// What the command line asks for.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Invocation {
    /// Tell about the settings.
    Help,
    /// Tell the version.
    Version,
    /// Judge the configuration.
    Test(Arguments),
    /// Run a server.
    Serve(Arguments),
}

/// What the command line says about the server.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Arguments {
    source: Source,
    directives: Vec<(String, Vec<String>)>,
}

/// Where the configuration is read from.
#[derive(PartialEq, Eq, Debug, Default)]
enum Source {
    #[default]
    None,
    StandardInput,
    File(PathBuf),
}

/// The flag before a configuration that is to be judged.
const TEST: &str = "--test-config";
/// Flags of redis-server that do something else than run a server.
const OTHER_PROGRAMS: &[&str] = &["--sentinel", "--test-memory", "--check-system"];

impl Invocation {
    /// Understands the arguments, the program's name left out.
    pub(crate) fn parse(args: &[String]) -> Result<Invocation, Error> {
        let first = args.first().map(String::as_str);
        if args.iter().any(|arg| arg == "--help") || first == Some("-h") {
            return Ok(Invocation::Help);
        }
        if args.iter().any(|arg| arg == "--version") || first == Some("-v") {
            return Ok(Invocation::Version);
        }
        let is_test = first == Some(TEST);
        let args = if is_test { &args[1..] } else { args };
        let mut arguments = Arguments::default();
        for (index, arg) in args.iter().enumerate() {
            if OTHER_PROGRAMS.contains(&arg.as_str()) {
                return Err(Error::NoSuchProgram(arg.clone()));
            }
            if let Some(flag) = arg.strip_prefix("--").filter(|flag| !flag.is_empty()) {
                let (name, words) = match flag.split_once('=') {
                    Some((name, word)) => (name, vec![word.to_owned()]),
                    None => (flag, Vec::new()),
                };
                arguments.directives.push((name.to_owned(), words));
            } else if let Some((_, words)) = arguments.directives.last_mut() {
                words.push(arg.clone());
            } else if index == 0 {
                arguments.source = match arg.as_str() {
                    "-" => Source::StandardInput,
                    _ if arg.starts_with('-') => {
                        return Err(Error::unknown_setting(arg, "on the command line"));
                    }
                    path => Source::File(PathBuf::from(path)),
                };
            } else {
                return Err(Error::StrayArgument(arg.clone()));
            }
        }
        Ok(if is_test { Invocation::Test(arguments) } else { Invocation::Serve(arguments) })
    }
}

impl Arguments {
    /// Reads the configuration that they name, and applies them. What is wrong with it is among what was found.
    pub(crate) fn settings(&self) -> Result<(Settings, Found), Error> {
        let (mut settings, mut reading) = (Settings::default(), Reading::default());
        match &self.source {
            Source::None => {}
            Source::StandardInput => reading.standard_input()?,
            Source::File(path) => {
                reading.file(path, "")?;
                // It may be named relative to where the server was started, and `dir` lead elsewhere.
                settings.config_file = Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()));
            }
        }
        for (name, words) in &self.directives {
            let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            reading.add(Directive { name: name.clone(), words, place: "on the command line".to_owned() })?;
        }
        let found = settings.apply(reading.directives);
        Ok((settings, found))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{find, table};
    use super::*;

    fn parse(line: &str) -> Result<Invocation, Error> {
        let args: Vec<String> = line.split(' ').filter(|arg| !arg.is_empty()).map(str::to_owned).collect();
        Invocation::parse(&args)
    }

    #[track_caller]
    fn settings(line: &str) -> Settings {
        match parse(line) {
            Ok(Invocation::Serve(arguments)) => arguments.settings().expect(line).0,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn check_error(line: &str, expected: &str) {
        let error = match parse(line) {
            Ok(Invocation::Serve(arguments)) => {
                arguments.settings().and_then(|(_, mut found)| found.check()).expect_err(line)
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => error,
        };
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn flags_are_directives() {
        let found = settings("--port 7000 --proactor_threads=3 --num-shards 9 --bind 127.0.0.1 -::1 --save");
        assert_eq!(found.number(table::PORT), 7000);
        assert_eq!(found.thread_count(), 3);
        assert_eq!(found.shard_count(3), 9);
        assert_eq!(&*found.text(table::BIND), "127.0.0.1 -::1");
        let found = settings("--save 3600 1 --save 60 5 --singlehop_blocking=false --SHARD_ENTRY home");
        assert_eq!(&*found.text(table::SAVE), "3600 1 60 5");
        assert!(!found.singlehop_blocking());
        let found = settings("--slowlog-log-slower-than -1 --appendfsync always --singlehop_blocking");
        assert_eq!(found.number(table::SLOWLOG_LOG_SLOWER_THAN), -1);
        assert_eq!(&*found.text(find("appendfsync").unwrap()), "always");
        assert!(found.singlehop_blocking());
    }

    #[test]
    fn threads_for_input_and_output_are_threads() {
        assert_eq!(settings("--io-threads 3").thread_count(), 3);
        assert_eq!(settings("--io-threads 1").thread_count(), 1);
        assert_eq!(settings("--io-threads 3 --proactor_threads 2").thread_count(), 2);
        assert_eq!(settings("--io-threads 3 --proactor_threads 0").thread_count(), 3);
    }

    #[test]
    fn help_and_version_go_before_everything() {
        for (line, expected) in
            [("-h", Invocation::Help), ("--port 1 --help", Invocation::Help), ("-v", Invocation::Version)]
        {
            assert_eq!(parse(line).unwrap(), expected);
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        check_error("--prot 1", "unknown setting 'prot' on the command line; did you mean 'port'?");
        check_error(
            "--threads 4",
            "unknown setting 'threads' on the command line; did you mean 'proactor_threads'?",
        );
        check_error("--xyzzy-plugh 1", "unknown setting 'xyzzy-plugh' on the command line");
        check_error("-p 1", "unknown setting '-p' on the command line; did you mean '--port'?");
        check_error(
            "--port abc",
            "bad value 'abc' for 'port' on the command line: argument couldn't be parsed into an integer \
             (TCP port to listen on; 0: none)",
        );
        check_error(
            "--port",
            "bad value '' for 'port' on the command line: wrong number of arguments (TCP port to listen on; 0: none)",
        );
        check_error("--sentinel", "'--sentinel' is not something that this program does");
        check_error("a.conf b.conf", "unexpected argument 'b.conf'");
    }
}
