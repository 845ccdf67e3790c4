//! Cron schedules: parses them, and finds their next time in a time zone.
//!
//! `fields` parses them and searches the calendar; jiff knows the time zones. When clocks are changed, schedules do
//! what Vixie cron documents, which depends on whether a schedule names fixed times or recurring ones. A recurring schedule
//! has a second, minute or hour that is written as such: `*`, `*/15`, `5/15`, or all values.
//!
//! ```text
//! local time     01:00      02:00 ─ ─ ─ ─ 03:00      04:00       the hour is missing
//! fixed 30 2 * * *                        ▲ 02:30 comes right after it, with all that was in it
//! recurring 30 * * * *   ▲                     ▲          ▲      2:30 is shown by no clock
//!
//! local time     01:00      02:00      02:00      03:00          the hour comes twice
//! fixed 30 2 * * *               ▲                               once, the first time
//! recurring 30 * * * *   ▲       ▲          ▲          ▲
//! ```

mod fields;
#[cfg(test)]
mod tests;

use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

use self::fields::Fields;

/// The longest text of a schedule.
const TEXT_BYTES_MAX: usize = 256;
/// The longest name of a time zone.
const NAME_BYTES_MAX: usize = 64;

/// The times at which something is done, in the syntax of cron.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule(Fields);

impl Schedule {
    /// The schedule that these five fields describe: minute, hour, day of the month, month and day of the week.
    ///
    /// # Errors
    /// A sentence about the fault in the text.
    pub fn parse(text: &str) -> Result<Schedule, String> {
        Self::parse_by(text, false)
    }

    /// The schedule that these five fields describe, with an optional field for the second before them.
    ///
    /// # Errors
    /// A sentence about the fault in the text.
    pub fn parse_with_seconds(text: &str) -> Result<Schedule, String> {
        Self::parse_by(text, true)
    }

    fn parse_by(text: &str, may_have_seconds: bool) -> Result<Schedule, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("it is longer than {TEXT_BYTES_MAX} bytes"));
        }
        Fields::parse(text, may_have_seconds).map(Schedule)
    }

    /// Whether it names the minute of this second since 1970, in UTC.
    pub fn is_due(&self, seconds: u64) -> bool {
        let minute = Timestamp::from_second((seconds - seconds % 60).cast_signed());
        let minute = minute.map(|minute| TimeZone::UTC.to_datetime(minute));
        minute.is_ok_and(|minute| self.0.next(minute) == Some(minute))
    }

    /// Whether it names recurring times: they go by the clock on the wall when that is changed. Otherwise they are fixed.
    pub fn recurs(&self) -> bool {
        self.0.recur()
    }

    /// When it comes next after this time, both in ms since 1970; `None` if it never does.
    pub fn next_ms(&self, after_ms: i64, zone: &Zone) -> Option<i64> {
        let after = Timestamp::from_second(after_ms.div_euclid(1000)).ok()?;
        let next = if self.recurs() { self.next_shown(after, zone) } else { self.next_fixed(after, zone) };
        next.map(Timestamp::as_millisecond)
    }

    /// The next moment at which the clock on the wall shows a time that is named.
    fn next_shown(&self, after: Timestamp, Zone(zone): &Zone) -> Option<Timestamp> {
        let mut from = after.checked_add(1.second()).ok()?;
        loop {
            let offset = zone.to_offset(from);
            let next = offset.to_timestamp(self.0.next(offset.to_datetime(from))?).ok()?;
            match zone.following(from).next().map(|change| change.timestamp()) {
                // The clock is changed before: look again from there on.
                Some(change) if change <= next => from = change,
                Some(_) | None => return Some(next),
            }
        }
    }

    /// The next of the named times, each of which comes once even when clocks are changed.
    fn next_fixed(&self, after: Timestamp, Zone(zone): &Zone) -> Option<Timestamp> {
        let mut from = zone.to_datetime(after);
        loop {
            let named = self.0.next(from)?;
            let time = match zone.to_ambiguous_timestamp(named).offset() {
                AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                    offset.to_timestamp(named).ok()?
                }
                // By the clock as it is after the change, the time lies before the change.
                AmbiguousOffset::Gap { after, .. } => {
                    zone.following(after.to_timestamp(named).ok()?).next()?.timestamp()
                }
            };
            if time > after {
                return Some(time);
            }
            from = named.checked_add(1.second()).ok()?;
        }
    }
}

/// A time zone.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// The time zone of this name in the IANA's database: the machine's, or else the one that came with the server.
    pub fn named(name: &str) -> Option<Zone> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-/".contains(&byte);
        if name.len() > NAME_BYTES_MAX || !name.bytes().all(is_name) {
            return None;
        }
        TimeZone::get(name).ok().map(Zone)
    }
}
