//! Schedules as cron has them, and the time zones in which they are meant.
//!
//! croner parses and searches them, jiff knows the time zones. What croner does when clocks are changed is what Vixie cron does: a
//! fixed time in the hour that is missing comes right after it, one in the hour that is repeated comes once, and what comes every
//! so many minutes goes on through both.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The longest text of a schedule.
const TEXT_BYTES_MAX: usize = 256;
/// The longest name of a time zone.
const NAME_BYTES_MAX: usize = 64;

/// The times at which something is done, in the syntax of cron.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule(Cron);

impl Schedule {
    /// The schedule that these five fields describe: minute, hour, day of the month, month and day of the week.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Schedule, String> {
        Self::parse_by(text, Seconds::Disallowed)
    }

    /// The same, with an optional field for the second before the others.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse_with_seconds(text: &str) -> Result<Schedule, String> {
        Self::parse_by(text, Seconds::Optional)
    }

    fn parse_by(text: &str, seconds: Seconds) -> Result<Schedule, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("it is longer than {TEXT_BYTES_MAX} bytes"));
        }
        let count = text.split_whitespace().count();
        let has_fields = count == 5 || count == 6 && seconds != Seconds::Disallowed;
        if !has_fields && !text.trim_start().starts_with('@') {
            return Err("five fields are needed: minute, hour, day, month and day of the week".to_owned());
        }
        let parser =
            CronParser::builder().seconds(seconds).year(Year::Disallowed).sloppy_ranges(true).build();
        parser.parse(text).map(Schedule).map_err(|error| match text.trim_start().starts_with('@') {
            true => "of names, @hourly, @daily, @weekly, @monthly and @yearly are known".to_owned(),
            false => error.to_string(),
        })
    }

    /// Whether it names the minute of this second since 1970, in UTC.
    pub fn is_due(&self, seconds: u64) -> bool {
        let minute = Timestamp::from_second((seconds - seconds % 60).cast_signed());
        minute.is_ok_and(|minute| self.0.is_time_matching(&minute.to_zoned(TimeZone::UTC)).unwrap_or(false))
    }

    /// When it comes next after this time, both in ms since 1970; `None` if it never does.
    pub fn next_ms(&self, after_ms: i64, zone: &Zone) -> Option<i64> {
        let after = Timestamp::from_millisecond(after_ms).ok()?.to_zoned(zone.0.clone());
        let next = self.0.find_next_occurrence(&after, false).ok()?;
        Some(next.timestamp().as_millisecond())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Thursday, 2026-01-15, 10:30:59 in UTC.
    const NOW: u64 = 1_768_473_059;

    #[test]
    fn schedules_name_minutes() {
        for (text, is_due) in [
            ("* * * * *", true),
            ("30 10 15 1 4", true),
            ("*/15 * * * *", true),
            ("*/20 * * * *", false),
            ("0,30 8-12 * * *", true),
            ("10/20 * * * *", true),
            ("30 10 15 1 *", true),
            ("30 10 16 1 *", false),
            ("30 10 * * 1-5", true),
            ("30 10 * JAN thu", true),
            ("30 10 * * 0,6", false),
            // One of the days is enough.
            ("30 10 1 * 4", true),
            ("30 10 15 * 1", true),
            ("30 10 1 * 1", false),
            ("30 10 * 2 *", false),
        ] {
            assert_eq!(Schedule::parse(text).expect(text).is_due(NOW), is_due, "{text}");
        }
        // Sunday the 18th has two numbers.
        assert!(["0", "7"].iter().all(|day| {
            Schedule::parse(&format!("* * * * {day}")).expect("a schedule").is_due(NOW + 3 * 86_400)
        }));
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        let long = "*".repeat(TEXT_BYTES_MAX + 1);
        for text in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "\0 * * * *",
            "ä * * * *",
            &long,
        ] {
            assert!(Schedule::parse(text).is_err(), "{text}");
        }
        for item in ["x", "5-", "9-5", "*/0", "-1", "1-70", "99999999999999999999"] {
            assert!(Schedule::parse(&format!("{item} * * * *")).is_err(), "{item}");
        }
    }

    /// The times that come one after another from this one on, which `text` names in the zone.
    fn times(text: &str, zone: &str, from: &str) -> Vec<String> {
        let (schedule, zone) = (Schedule::parse_with_seconds(text), Zone::named(zone));
        let (schedule, zone) = (schedule.expect("a schedule"), zone.expect("a zone"));
        let from: Timestamp = from.parse().expect("a time");
        let next = |ms: &i64| schedule.next_ms(*ms, &zone);
        let times = std::iter::successors(Some(from.as_millisecond()), next).skip(1).take(3);
        times.map(|ms| Timestamp::from_millisecond(ms).expect("a time").to_string()).collect()
    }

    #[test]
    fn the_hour_that_is_missing_and_the_hour_that_is_twice() {
        let berlin = "Europe/Berlin";
        // At two o'clock it is three.
        assert_eq!(
            times("30 2 * * *", berlin, "2027-03-27T12:00:00Z"),
            ["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z", "2027-03-30T00:30:00Z"]
        );
        assert_eq!(
            times("*/30 * * * *", berlin, "2027-03-28T00:30:00Z"),
            ["2027-03-28T01:00:00Z", "2027-03-28T01:30:00Z", "2027-03-28T02:00:00Z"]
        );
        // At three o'clock it is two.
        assert_eq!(
            times("30 2 * * *", berlin, "2027-10-30T12:00:00Z"),
            ["2027-10-31T00:30:00Z", "2027-11-01T01:30:00Z", "2027-11-02T01:30:00Z"]
        );
        assert_eq!(
            times("*/30 * * * *", berlin, "2027-10-31T00:30:00Z"),
            ["2027-10-31T01:00:00Z", "2027-10-31T01:30:00Z", "2027-10-31T02:00:00Z"]
        );
        assert_eq!(
            times("*/20 * * * * *", "UTC", "2027-01-01T00:00:00.5Z"),
            ["2027-01-01T00:00:20Z", "2027-01-01T00:00:40Z", "2027-01-01T00:01:00Z"]
        );
        assert_eq!(times("0 0 30 2 *", "UTC", "2027-01-01T00:00:00Z"), [""; 0]);
    }

    #[test]
    fn zones_have_names() {
        assert!(["UTC", "America/New_York", "Etc/GMT+5"].iter().all(|name| Zone::named(name).is_some()));
        assert!(
            ["", "Mars", "../../etc/passwd", "Europe/Berlin\0", "x".repeat(5000).as_str()]
                .iter()
                .all(|name| Zone::named(name).is_none())
        );
    }
}
