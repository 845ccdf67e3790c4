//! The commands on jobs. Each names a queue, and touches only the list and the keys beside it.
//!
//! | file | commands |
//! |---|---|
//! | `cron` | CRON |
//! | `end` | JOB.DONE, JOB.FAIL, JOB.RELEASE, JOB.KEEP |
//! | `look` | JOB.GET, JOB.LIST |
//! | `put` | JOB.PUT |
//! | `tend` | JOB.DROP, JOB.RETRY |
//! | `take` | JOB.TAKE |

mod cron;
mod end;
mod look;
mod put;
mod take;
mod tend;

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{Acl, CommandError, Entry, Group, KeySpec, parse_i64};

/// The commands of this crate.
pub const ENTRIES: &[Entry] = &[
    cron::CRON,
    end::DONE,
    tend::DROP,
    end::FAIL,
    look::GET,
    end::KEEP,
    look::LIST,
    put::PUT,
    end::RELEASE,
    tend::RETRY,
    take::TAKE,
];

/// The longest lease and delay, in ms: about ten thousand years. As a time it is an integer that a double
/// represents exactly.
const MS_MAX: i64 = 1 << 48;

/// The longest name of a worker.
const WORKER_BYTES_MAX: usize = 512;

const BAD_LEASE: &str = "ERR a lease is a number of milliseconds from 1 to 281474976710656";
const BAD_MS: &str = "ERR a time is a number of milliseconds from 0 to 281474976710656";

/// The base of commands that change the jobs of the queue named by the first argument.
const CHANGING: Entry = Entry {
    since: "7.2.0",
    group: Group::Queue,
    flags: &[Write, Fast],
    acl: &[Acl::Queue],
    keys: &[KeySpec::one(1, &[RW, Update])],
    ..Entry::DEFAULT
};

/// The most bytes of a word that an error shows.
const SHOWN_BYTES_MAX: usize = 64;

/// The error for a word that a command does not accept there, or that lacks its value.
fn bad_word(word: &[u8], takes: &str) -> CommandError {
    let shown = word[..word.len().min(SHOWN_BYTES_MAX)].escape_ascii();
    CommandError::new(format!("ERR syntax error near '{shown}': {takes}"))
}

fn parse_lease(arg: &[u8]) -> Result<i64, CommandError> {
    let lease = parse_i64(arg).ok().filter(|lease| (1..=MS_MAX).contains(lease));
    lease.ok_or_else(|| CommandError::new(BAD_LEASE))
}

fn parse_ms(arg: &[u8]) -> Result<i64, CommandError> {
    let ms = parse_i64(arg).ok().filter(|ms| (0..=MS_MAX).contains(ms));
    ms.ok_or_else(|| CommandError::new(BAD_MS))
}

fn check_worker(worker: &[u8]) -> Result<(), CommandError> {
    match worker.len() {
        1..=WORKER_BYTES_MAX => Ok(()),
        _ => Err(CommandError::new("ERR the name of a worker has 1 to 512 bytes")),
    }
}

/// The number of an attempt, as JOB.TAKE returns it.
fn parse_attempt(arg: &[u8]) -> Result<u64, CommandError> {
    parse_positive(arg, "attempt")
}

/// A number for which 0 makes no sense.
pub(crate) fn parse_positive(arg: &[u8], what: &str) -> Result<u64, CommandError> {
    let number = parse_i64(arg).ok().filter(|number| *number > 0);
    number
        .map(i64::cast_unsigned)
        .ok_or_else(|| CommandError::new(format!("ERR {what} should be greater than 0")))
}
