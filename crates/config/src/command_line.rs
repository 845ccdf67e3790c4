//! The command line, which is that of redis-server: a configuration file, then directives as flags.
//!
//! ```text
//!   darter [--test-config] [/path/to/redis.conf | -] [--directive value …]… [--directive=value]…
//!   darter --check-journal DIR and the like: folder_task.rs
//! ```
//!
//! A flag takes all words up to the next one that begins with `--`. The command line comes after the file and the
//! environment, and wins.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::environment;
use crate::error::Error;
use crate::folder_task::FolderTask;
use crate::source::{Directive, Reading};
use crate::table::Table;

/// What the command line asks for.
#[derive(PartialEq, Eq, Debug)]
pub enum Invocation {
    /// Explain the settings.
    Help,
    /// Print the version.
    Version,
    /// Check the configuration.
    Test(Arguments),
    /// Work on the folder of a journal.
    Folder(FolderTask),
    /// Run the server.
    Serve(Arguments),
}

/// The settings on the command line, and those in the environment if it is considered.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct Arguments {
    source: Source,
    variables: Vec<(String, Vec<u8>)>,
    directives: Vec<(String, Vec<String>)>,
}

/// A configuration that was read.
#[derive(PartialEq, Eq, Debug)]
pub struct Configuration {
    /// The directives in the order in which they apply: the last one wins.
    pub directives: Vec<Directive>,
    /// The first configuration file, if there is one.
    pub file: Option<PathBuf>,
}

/// Where the configuration comes from.
#[derive(PartialEq, Eq, Debug, Default)]
enum Source {
    #[default]
    None,
    StandardInput,
    File(PathBuf),
}

/// The flag that asks to check the configuration.
const TEST: &str = "--test-config";
/// Flags of redis-server that run another program.
const OTHER_PROGRAMS: &[&str] = &["--sentinel", "--test-memory", "--check-system"];

impl Invocation {
    /// Parses the arguments after the program's name.
    ///
    /// # Errors
    /// If the first one is neither a file nor a flag, or a word belongs to no flag.
    pub fn parse<E: Copy>(table: &Table<E>, args: &[String]) -> Result<Invocation, Error> {
        let first = args.first().map(String::as_str);
        if args.iter().any(|arg| arg == "--help") || first == Some("-h") {
            return Ok(Invocation::Help);
        }
        if args.iter().any(|arg| arg == "--version") || first == Some("-v") {
            return Ok(Invocation::Version);
        }
        if let Some(task) = FolderTask::parse(args)? {
            return Ok(Invocation::Folder(task));
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
                        return Err(table.unknown(arg, "on the command line"));
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
    /// Also considers environment variables whose names begin with [`environment::ENVIRONMENT_PREFIX`].
    pub fn note_environment(&mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) {
        let named = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_vec()));
        self.variables = variables.into_iter().filter_map(named).collect();
    }

    /// Reads the configuration file, then the environment, then the command line.
    ///
    /// # Errors
    /// If something cannot be read, or does not consist of lines of words. Names and values are not checked.
    pub fn read<E: Copy>(&self, table: &Table<E>) -> Result<Configuration, Error> {
        let mut reading = Reading::new(table);
        let file = match &self.source {
            Source::None => None,
            Source::StandardInput => {
                reading.standard_input()?;
                None
            }
            Source::File(path) => {
                reading.file(path, "")?;
                // It may be named relative to where the program was started, and `dir` lead elsewhere.
                Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()))
            }
        };
        for directive in environment::directives(table, &self.variables)? {
            reading.add(directive)?;
        }
        for (name, words) in &self.directives {
            let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            reading.add(Directive { name: name.clone(), words, place: "on the command line".to_owned() })?;
        }
        Ok(Configuration { directives: reading.directives, file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::TABLE;

    fn parse(line: &str) -> Result<Invocation, Error> {
        let args: Vec<String> = line.split(' ').filter(|arg| !arg.is_empty()).map(str::to_owned).collect();
        Invocation::parse(&TABLE, &args)
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let arguments = match parse(line).expect(line) {
            Invocation::Serve(arguments) | Invocation::Test(arguments) => arguments,
            other => panic!("{other:?}"),
        };
        let directives = arguments.read(&TABLE).expect(line).directives;
        let shown = directives.iter().map(|Directive { name, words, place }| {
            assert_eq!(place, "on the command line");
            let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            format!("{name}({})", words.join(","))
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{line}");
    }

    #[test]
    fn flags_are_directives() {
        check("--port 7000 --proactor_threads=3 --save", "port(7000) proactor_threads(3) save()");
        check("--bind 127.0.0.1 -::1 --slow -1", "bind(127.0.0.1,-::1) slow(-1)");
        check("--test-config --a b --a c", "a(b) a(c)");
        check("", "");
        assert!(matches!(parse("--test-config"), Ok(Invocation::Test(_))));
    }

    #[test]
    fn flags_win_over_the_environment() {
        let Ok(Invocation::Serve(mut arguments)) = parse("--port 3") else { panic!("a server is started") };
        arguments.note_environment([("DARTER_SET_PORT".into(), "2".into()), ("HOME".into(), "/".into())]);
        let directives = arguments.read(&TABLE).unwrap().directives;
        let words: Vec<_> = directives.iter().map(|directive| directive.words[0].as_slice()).collect();
        assert_eq!(words, [b"2", b"3"]);
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
        for (line, expected) in [
            ("-p 1", "unknown setting '-p' on the command line; did you mean '--port'?"),
            ("--sentinel", "'--sentinel' is a mode of redis-server that Darter does not have"),
            ("a.conf b.conf", "unexpected argument 'b.conf'"),
        ] {
            assert_eq!(parse(line).expect_err(line).to_string(), expected);
        }
    }
}
