//! Counters that several clients increment, and what clients have read.
//!
//! A counter only grows. So after a crash it must be at least the result of any acknowledged `INCR`, and at least what
//! any `GET` or message has shown: with `appendfsync always` no client sees a value that a crash can undo.

use super::found::Found;
use super::moment::{Crash, Moment, Span};

/// The shared counter, in database 0.
pub const COUNTER: &str = "shared:n";

/// The channel on which clients publish the counter's new value.
pub const CHANNEL: &str = "news";

/// A client that increments the shared counter.
#[derive(Debug, Default)]
pub struct Raiser {
    /// When it sent each request, and the reply.
    pub history: Vec<(Span, u64)>,
}

/// A client that reads counters, or receives their values.
#[derive(Debug, Default)]
pub struct Reader {
    /// When a reply arrived, for which database and key, and the number.
    pub history: Vec<(Moment, u32, String, u64)>,
}

/// The account of a shared counter.
#[derive(Debug, Default)]
pub struct Counter {
    base: u64,
    /// The clients that increment it.
    pub raisers: Vec<Raiser>,
}

impl Counter {
    /// A counter at 0.
    pub fn new(raisers: usize) -> Counter {
        Counter { base: 0, raisers: (0..raisers).map(|_| Raiser::default()).collect() }
    }

    /// Checks that the counter is between what was acknowledged and what was requested.
    pub(crate) fn check(&self, found: &Found, crash: Crash) -> Result<(), String> {
        let spans = || self.raisers.iter().flat_map(|raiser| &raiser.history);
        let number = found.number(0, COUNTER);
        let least = spans().filter(|(span, _)| span.must_be(crash)).map(|(_, number)| *number).max();
        let least = least.unwrap_or(0).max(self.base);
        let most = self.base + spans().filter(|(span, _)| span.may_be(crash)).count() as u64;
        if (least..=most).contains(&number) {
            return Ok(());
        }
        Err(format!("{COUNTER} is {number}: at least {least} was acknowledged, at most {most} was asked for"))
    }

    /// Continues from the data that was found.
    pub(crate) fn adopt(&mut self, found: &Found) {
        self.base = found.number(0, COUNTER);
        self.raisers.iter_mut().for_each(|raiser| raiser.history.clear());
    }
}

impl Reader {
    /// Checks that nothing it has read was undone.
    pub(crate) fn check(&self, found: &Found, crash: Crash) -> Result<(), String> {
        for (moment, db, key, number) in self.history.iter().filter(|(moment, ..)| *moment <= crash.promised)
        {
            let there = found.number(*db, key);
            if there < *number {
                return Err(format!("{key} was seen as {number} ({moment}), and now it is {there}"));
            }
        }
        Ok(())
    }
}
