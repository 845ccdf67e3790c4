//! The command line, which is that of redis-server: a configuration file, then directives as flags.
//!
//! ```text
//!   darter [/path/to/redis.conf | -] [--directive value …]… [--directive=value]…
//! ```
//!
//! A flag takes all words up to the next one that begins with `--`. What stands on the command line comes after the file and
//! wins.

use std::path::PathBuf;

use super::{Found, Settings, file};
use crate::error::Error;

/// What the command line asks for.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Invocation {
    /// Tell about the settings.
    Help,
    /// Tell the version.
    Version,
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
        Ok(Invocation::Serve(arguments))
    }
}

impl Arguments {
    /// Reads the configuration that they name, and applies them.
    pub(crate) fn settings(&self) -> Result<(Settings, Found), Error> {
        let (mut settings, mut found) = (Settings::default(), Found::default());
        match &self.source {
            Source::None => {}
            Source::StandardInput => {
                let text = std::io::read_to_string(std::io::stdin())
                    .map_err(|source| Error::Io { what: "cannot read standard input".to_owned(), source })?;
                file::load(&settings, &text, "standard input", 0, &mut found)?;
            }
            Source::File(path) => {
                file::load_path(&settings, path, 0, &mut found)?;
                // It may be named relative to where the server was started, and `dir` lead elsewhere.
                settings.config_file = Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()));
            }
        }
        for (name, words) in &self.directives {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            settings.assign(name, &words, "on the command line", &mut found)?;
        }
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
            Ok(Invocation::Serve(arguments)) => arguments.settings().map(|_| ()).expect_err(line),
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
