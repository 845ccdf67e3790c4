//! The flags of `darter --queues`, which are those of redis-cli.
//!
//! ```text
//!   darter --queues [-h host] [-p port] [--user name] [--pass text] [-n db] [-i seconds]
//! ```
//!
//! They come in any order. If a flag comes twice, the last one counts. `-h` is the host here; without `--queues` it
//! asks for help.

use std::time::Duration;

use crate::remote::error::Error;
use crate::remote::figures::shown;

/// How many characters of a quoted word an error shows.
pub(crate) const SHOWN_LETTERS_MAX: usize = 64;
/// The longest pause, about a month.
const PAUSE_SECONDS_MAX: f64 = 2_592_000.0;
/// The shortest pause.
const PAUSE_SECONDS_MIN: f64 = 0.05;

/// The arguments of `--queues`.
#[derive(PartialEq, Debug)]
pub(crate) struct Task {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: u32,
    /// The pause before it is shown again; `None`: it is shown once.
    pub(crate) every: Option<Duration>,
}

impl Task {
    /// Parses the arguments. `password` is used if they contain none.
    pub(crate) fn parse(args: &[String], password: Option<String>) -> Result<Task, Error> {
        let mut task =
            Task { host: "127.0.0.1".to_owned(), port: 6379, user: None, password, db: 0, every: None };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let (flag, inner) = match arg.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
                _ => (arg.as_str(), None),
            };
            if arg == "--queues" {
                continue;
            }
            if !["-h", "-p", "--user", "--pass", "-a", "-n", "-i"].contains(&flag) {
                let arg = shown(arg.as_bytes(), SHOWN_LETTERS_MAX);
                return Err(Error::Usage(format!("'{arg}' cannot be combined with --queues: see --help")));
            }
            let value = inner.or_else(|| args.next().filter(|value| *value != "--queues").cloned());
            let value = value.ok_or_else(|| Error::Usage(format!("{flag} needs a value")))?;
            match flag {
                "-h" => task.host = value,
                "-p" => task.port = number(flag, "a port", &value)?,
                "--user" => task.user = Some(value),
                "-n" => task.db = number(flag, "the number of a database", &value)?,
                "-i" => task.every = Some(pause(&value)?),
                _ => task.password = Some(value),
            }
        }
        if task.user.is_some() && task.password.is_none() {
            return Err(Error::Usage(
                "--user needs a password: set REDISCLI_AUTH, or pass --pass".to_owned(),
            ));
        }
        Ok(task)
    }
}

/// Parses the number after a flag. `what` describes it in errors.
pub(crate) fn number<N: std::str::FromStr>(flag: &str, what: &str, value: &str) -> Result<N, Error> {
    value.parse().map_err(|_| wrong(flag, what, value))
}

fn pause(value: &str) -> Result<Duration, Error> {
    let seconds: f64 = number("-i", "a number of seconds", value)?;
    if !(PAUSE_SECONDS_MIN..=PAUSE_SECONDS_MAX).contains(&seconds) {
        return Err(wrong("-i", "a number of seconds from 0.05 to a month", value));
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn wrong(flag: &str, what: &str, value: &str) -> Error {
    Error::Usage(format!("{flag} is {what}, not '{}'", shown(value.as_bytes(), SHOWN_LETTERS_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str, password: Option<&str>) -> Result<Task, Error> {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Task::parse(&args, password.map(str::to_owned))
    }

    #[test]
    fn flags_are_those_of_redis_cli() {
        let plain = parse("--queues", None).unwrap();
        let expected =
            Task { host: "127.0.0.1".to_owned(), port: 6379, user: None, password: None, db: 0, every: None };
        assert_eq!(plain, expected);
        let all = parse("-h ::1 -p 7 --queues --user u --pass p -n 3 -i 0.5", Some("env")).unwrap();
        let expected = Task {
            host: "::1".to_owned(),
            port: 7,
            user: Some("u".to_owned()),
            password: Some("p".to_owned()),
            db: 3,
            every: Some(Duration::from_millis(500)),
        };
        assert_eq!(all, expected);
        assert_eq!(parse("--queues --user=u", Some("env")).unwrap().password.as_deref(), Some("env"));
        assert_eq!(parse("--queues -a --x=y", None).unwrap().password.as_deref(), Some("--x=y"));
        assert_eq!(parse("--queues --pass=a=b", None).unwrap().password.as_deref(), Some("a=b"));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (line, expected) in [
            ("--queues -p", "-p needs a value"),
            ("-h --queues", "-h needs a value"),
            ("--queues -p 70000", "-p is a port, not '70000'"),
            ("--queues -n -1", "-n is the number of a database, not '-1'"),
            ("--queues -i x", "-i is a number of seconds, not 'x'"),
            ("--queues -i 0", "-i is a number of seconds from 0.05 to a month, not '0'"),
            ("--queues -i NaN", "-i is a number of seconds from 0.05 to a month, not 'NaN'"),
            ("--queues -i 1e300", "-i is a number of seconds from 0.05 to a month, not '1e300'"),
            ("--queues --port 1", "'--port' cannot be combined with --queues: see --help"),
            ("redis.conf --queues", "'redis.conf' cannot be combined with --queues: see --help"),
            ("--queues --user u", "--user needs a password: set REDISCLI_AUTH, or pass --pass"),
        ] {
            assert_eq!(parse(line, None).expect_err(line).to_string(), expected);
        }
    }
}
