//! The command line, which is that of redis-server: a configuration file, then directives as flags.
//!
//! ```text
//!   darter [--test-config] [/path/to/redis.conf] [--directive value …]… [--directive=value]… [-]
//!   darter --check-journal DIR and the like: folder_task.rs
//! ```
//!
//! `argument.rs` classifies each argument. The command line comes after the file, standard input and the environment,
//! and wins.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use resp::split_args;

use crate::argument::{Argument, arguments};
use crate::environment;
use crate::error::{Error, shown};
use crate::folder_task::FolderTask;
use crate::source::{Directive, Reading};
use crate::table::Table;

/// The action that the command line asks for.
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
    /// The configuration file.
    file: Option<PathBuf>,
    /// Whether there is more of it on standard input.
    reads_input: bool,
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

/// The flag that asks to check the configuration.
const TEST: &str = "--test-config";
/// Flags of redis-server that run another program.
const OTHER_PROGRAMS: &[&str] = &["sentinel", "test-memory", "check-system"];
/// Where a directive is, for errors.
const PLACE: &str = "on the command line";

impl Invocation {
    /// Parses the arguments after the program's name.
    ///
    /// # Errors
    /// If the first one is neither a file nor a flag, a word belongs to no flag, or a flag is followed by a file.
    pub fn parse(table: &Table, args: &[String]) -> Result<Invocation, Error> {
        match args.first().map(String::as_str) {
            Some("-h") => return Ok(Invocation::Help),
            Some("-v") => return Ok(Invocation::Version),
            _ => {}
        }
        let is_test = args.first().is_some_and(|first| first == TEST);
        let rest = if is_test { &args[1..] } else { args };
        let all = arguments(table, rest);
        for argument in &all {
            match argument {
                Argument::Name { name: "help", has_dashes: true } => return Ok(Invocation::Help),
                Argument::Name { name: "version", has_dashes: true } => return Ok(Invocation::Version),
                _ => {}
            }
        }
        if let Some(task) = FolderTask::parse(args)? {
            return Ok(Invocation::Folder(task));
        }
        let mut arguments = Arguments::default();
        for argument in all {
            arguments.add(table, argument)?;
        }
        arguments.check_order(table)?;
        Ok(if is_test { Invocation::Test(arguments) } else { Invocation::Serve(arguments) })
    }
}

impl Arguments {
    fn add(&mut self, table: &Table, argument: Argument<'_>) -> Result<(), Error> {
        let (name, words) = match argument {
            Argument::Name { name, has_dashes: true } if OTHER_PROGRAMS.contains(&name) => {
                return Err(Error::NoSuchProgram(format!("--{name}")));
            }
            Argument::File("") => return Ok(()),
            Argument::File(path) => {
                self.file = Some(PathBuf::from(path));
                return Ok(());
            }
            Argument::StandardInput => {
                self.reads_input = true;
                return Ok(());
            }
            Argument::Word(word) => {
                let (_, words) = self.directives.last_mut().expect("a word belongs to a directive");
                words.push(word.to_owned());
                return Ok(());
            }
            Argument::Dash(arg) => return Err(table.unknown(arg, PLACE)),
            Argument::Name { name, has_dashes: false } if table.find(name).is_none() => {
                return Err(Error::StrayArgument(name.to_owned()));
            }
            Argument::Name { name, .. } => (name, Vec::new()),
            Argument::NameAndWord(name, word) => (name, vec![word.to_owned()]),
            Argument::Line(name, rest) => {
                let unbalanced = || Error::UnbalancedQuotes { place: PLACE.to_owned() };
                let words = split_args(rest.as_bytes()).ok_or_else(unbalanced)?;
                let text = |word: Vec<u8>| String::from_utf8_lossy(&word).into_owned();
                (name, words.into_iter().map(text).collect())
            }
        };
        self.directives.push((name.to_owned(), words));
        Ok(())
    }

    /// Refuses a configuration file behind a flag, which takes it for one more word of its value.
    fn check_order(&self, table: &Table) -> Result<(), Error> {
        let takes_one = |name: &str| table.find(name).is_some_and(|id| !table.setting(id).kind.has_words());
        for (name, words) in &self.directives {
            if let [_, .., last] = &words[..]
                && takes_one(name)
                && Path::new(last).is_file()
            {
                return Err(Error::LateFile { path: shown(last), name: shown(name) });
            }
        }
        Ok(())
    }

    /// Also considers environment variables whose names begin with [`environment::ENVIRONMENT_PREFIX`].
    pub fn note_environment(&mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) {
        let named = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_vec()));
        self.variables = variables.into_iter().filter_map(named).collect();
    }

    /// Reads the configuration file, then the environment, then the command line.
    ///
    /// # Errors
    /// If something cannot be read, or does not consist of lines of words. Names and values are not checked.
    pub fn read(&self, table: &Table) -> Result<Configuration, Error> {
        let mut reading = Reading::new(table);
        let mut file = None;
        if let Some(path) = &self.file {
            reading.file(path, "")?;
            // Resolve a relative path now, before `dir` changes the working directory.
            file = Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()));
        }
        if self.reads_input {
            reading.standard_input()?;
        }
        for directive in environment::directives(table, &self.variables)? {
            reading.add(directive)?;
        }
        for (name, words) in &self.directives {
            let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            reading.add(Directive { name: name.clone(), words, place: PLACE.to_owned() })?;
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
        check("--requirepass --secret --port 1", "requirepass(--secret) port(1)");
        check("", "");
        assert!(matches!(parse("--test-config"), Ok(Invocation::Test(_))));
    }

    #[test]
    fn a_directive_may_be_one_argument() {
        let args = ["--port 7000", "--requirepass 'a b'", "--save=1", "--bind "].map(str::to_owned);
        let Ok(Invocation::Serve(arguments)) = Invocation::parse(&TABLE, &args) else {
            panic!("it is valid")
        };
        let directives = arguments.directives.iter().map(|(name, words)| format!("{name}{words:?}"));
        let expected = r#"port["7000"] requirepass["a b"] save["1"] bind[]"#;
        assert_eq!(directives.collect::<Vec<_>>().join(" "), expected);
        let unbalanced = Invocation::parse(&TABLE, &["--port '1".to_owned()]).expect_err("a quote is open");
        assert_eq!(unbalanced.to_string(), "unbalanced quotes on the command line");
    }

    #[test]
    fn a_file_behind_a_flag_is_named() {
        let scratch = scratch::Scratch::new("late");
        let path = scratch.file("late.conf", "");
        let error = parse(&format!("--port 7000 {path}")).expect_err("the file is too late").to_string();
        let takes_words = parse(&format!("--bind 127.0.0.1 {path}")).is_ok();
        let expected = format!(
            "'{path}' is taken for a value of 'port': the configuration file is the first argument, before all flags"
        );
        assert_eq!((error, takes_words), (expected, true));
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
            ("port 7000", "unexpected argument '7000'"),
        ] {
            assert_eq!(parse(line).expect_err(line).to_string(), expected);
        }
    }
}
