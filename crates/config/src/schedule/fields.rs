//! The fields of a schedule: the parser, and the search for the next time of day and date that they name.
//!
//! ```text
//! field   = part { "," part }                     `?` stands for `*` in the fields of days
//! part    = range [ "/" step ]                    `5/10` means from 5 to the end, `/10` means `*/10`
//! range   = "*" | value [ "-" value ]
//! day     = part | "L" | "LW" | value "W"         last day, last weekday, weekday nearest to a day; all of the month
//! weekday = [ "+" ] part [ "L" | "#" 1…5 ]        last, first … fifth of its kind in the month
//! ```
//!
//! The fields know nothing of time zones: what they name is written on a calendar and shown by a clock on a wall.

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time};

/// Days that the search looks at before it gives up: the calendar repeats itself after 400 years.
const DAYS_MAX: u32 = 146_097;
/// The fifth is the last that a month can have of a weekday.
const NTH_MAX: u32 = 5;
const DAYS_OF_WEEK: u32 = 7;

const SATURDAY: u32 = 6;
const SUNDAY: u32 = 0;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Names for whole schedules, and what they stand for.
const NAMED: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

const BAD_NAME: &str = "of names, @hourly, @daily, @weekly, @monthly and @yearly are known";
const BAD_COUNT: &str = "five fields are needed: minute, hour, day, month and day of the week";
const BAD_COUNT_SIX: &str = "five fields are needed: minute, hour, day, month and day of the week; or six, with the second before them";

/// The grammar of one field.
struct Kind {
    name: &'static str,
    values: (u32, u32),
    names: &'static [&'static str],
    /// The words allowed in the field besides numbers, ranges, steps and lists.
    more: &'static str,
}

const SECOND: Kind = Kind { name: "second", values: (0, 59), names: &[], more: "" };
const MINUTE: Kind = Kind { name: "minute", ..SECOND };
const HOUR: Kind = Kind { name: "hour", values: (0, 23), ..SECOND };
const DAY: Kind = Kind {
    name: "day of the month",
    values: (1, 31),
    more: "; L for the last day, LW for the last weekday, 15W for the weekday nearest to the 15th",
    ..SECOND
};
const MONTH: Kind = Kind { name: "month", values: (1, 12), names: &MONTHS, more: "; names such as jan" };
const WEEKDAY: Kind = Kind {
    name: "day of the week",
    values: (0, 7),
    names: &WEEKDAYS,
    more: "; names such as mon; 5L for the last Friday of the month, 5#2 for the second",
};

/// A set of numbers below 64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Bits(u64);

impl Bits {
    fn has(self, value: u32) -> bool {
        self.0 >> value & 1 == 1
    }

    fn add(&mut self, value: u32) {
        self.0 |= 1 << value;
    }

    /// The first value from this one on.
    fn first_from(self, value: u32) -> Option<u32> {
        let rest = self.0.checked_shr(value)?;
        (rest != 0).then(|| value + rest.trailing_zeros())
    }
}

/// Values of a field, and whether they recur by their notation: `*`, `*/15`, `5/15`, or all there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Values {
    bits: Bits,
    recur: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Days {
    /// `*`: the other field of days decides alone.
    are_all: bool,
    days: Bits,
    has_last: bool,
    has_last_workday: bool,
    /// Days of the month for which the nearest workday is meant.
    nearest: Bits,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Weekdays {
    are_all: bool,
    /// Whether the day of the month has to be named as well.
    are_demanded: bool,
    days: Bits,
    /// Weekdays that name only the last of a month, in `last`; the first, the second … in `nth`.
    last: Bits,
    nth: [Bits; NTH_MAX as usize],
}

/// The fields of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fields {
    seconds: Values,
    minutes: Values,
    hours: Values,
    days: Days,
    months: Values,
    weekdays: Weekdays,
}

impl Fields {
    /// From text, in which a field for seconds may come first if `may_have_seconds`.
    ///
    /// # Errors
    /// Which field is wrong, and what it may be.
    pub(super) fn parse(text: &str, may_have_seconds: bool) -> Result<Fields, String> {
        let mut text = text.trim().to_lowercase();
        if text.starts_with('@') {
            let (_, fields) = NAMED.iter().find(|(name, _)| *name == text).ok_or(BAD_NAME)?;
            text = (*fields).to_owned();
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let (second, [minute, hour, day, month, weekday]) = match words[..] {
            [minute, hour, day, month, weekday] => ("0", [minute, hour, day, month, weekday]),
            [second, ref rest @ ..] if may_have_seconds && rest.len() == 5 => {
                (second, [rest[0], rest[1], rest[2], rest[3], rest[4]])
            }
            _ => return Err(if may_have_seconds { BAD_COUNT_SIX } else { BAD_COUNT }.to_owned()),
        };
        Ok(Fields {
            seconds: SECOND.parse(second)?,
            minutes: MINUTE.parse(minute)?,
            hours: HOUR.parse(hour)?,
            days: Days::parse(day)?,
            months: MONTH.parse(month)?,
            weekdays: Weekdays::parse(weekday)?,
        })
    }

    /// Whether they name recurring times rather than fixed ones.
    pub(super) fn recur(&self) -> bool {
        self.seconds.recur || self.minutes.recur || self.hours.recur
    }

    /// The first time that they name, from this one on; `None` if no such time exists.
    pub(super) fn next(&self, from: DateTime) -> Option<DateTime> {
        if self.has_date(from.date())
            && let Some(time) = self.next_of_day(from.time())
        {
            return Some(from.date().to_datetime(time));
        }
        let mut date = from.date();
        for _ in 0..DAYS_MAX {
            date = if self.months.bits.has(number(date.month())) {
                date.tomorrow().ok()?
            } else {
                date.first_of_month().checked_add(1.month()).ok()?
            };
            if self.has_date(date) {
                return self.next_of_day(Time::midnight()).map(|time| date.to_datetime(time));
            }
        }
        None
    }

    /// The first time of a day from this one on.
    fn next_of_day(&self, from: Time) -> Option<Time> {
        let [seconds, minutes, hours] = [self.seconds, self.minutes, self.hours].map(|values| values.bits);
        let [hour, minute, second] = [from.hour(), from.minute(), from.second()].map(number);
        let is_here = hours.has(hour);
        let in_minute = seconds.first_from(second).filter(|_| is_here && minutes.has(minute));
        let in_hour = || minutes.first_from(minute + 1).filter(|_| is_here);
        let (hour, minute, second) = if let Some(second) = in_minute {
            (hour, minute, second)
        } else if let Some(minute) = in_hour() {
            (hour, minute, seconds.first_from(0)?)
        } else {
            (hours.first_from(hour + 1)?, minutes.first_from(0)?, seconds.first_from(0)?)
        };
        Time::new(hour as i8, minute as i8, second as i8, 0).ok()
    }

    fn has_date(&self, date: Date) -> bool {
        if !self.months.bits.has(number(date.month())) {
            return false;
        }
        let day = OfMonth {
            day: number(date.day()),
            len: number(date.days_in_month()),
            weekday: number(date.weekday().to_sunday_zero_offset()),
        };
        match (self.days.are_all, self.weekdays.are_all) {
            (true, true) => true,
            (false, true) => self.days.have(day),
            (true, false) => self.weekdays.have(day),
            (false, false) if self.weekdays.are_demanded => self.days.have(day) && self.weekdays.have(day),
            (false, false) => self.days.have(day) || self.weekdays.have(day),
        }
    }
}

/// A day in its month of `len` days.
#[derive(Clone, Copy)]
struct OfMonth {
    day: u32,
    len: u32,
    weekday: u32,
}

impl OfMonth {
    /// Another day of the same month.
    fn other(self, day: u32) -> OfMonth {
        let weekday = (self.weekday + 5 * DAYS_OF_WEEK + day - self.day) % DAYS_OF_WEEK;
        OfMonth { day, weekday, ..self }
    }

    /// The workday nearest to this day in its month.
    fn nearest_workday(self) -> u32 {
        match self.weekday {
            SATURDAY if self.day > 1 => self.day - 1,
            SATURDAY => self.day + 2,
            SUNDAY if self.day < self.len => self.day + 1,
            SUNDAY => self.day - 2,
            _ => self.day,
        }
    }
}

impl Days {
    fn parse(field: &str) -> Result<Days, String> {
        let mut found = Days { are_all: matches!(field, "*" | "?"), ..Days::default() };
        for part in field.split(',') {
            match part {
                "l" => found.has_last = true,
                "lw" => found.has_last_workday = true,
                _ if found.are_all => {}
                part => match part.strip_suffix('w') {
                    Some(day) => found.nearest.add(DAY.value(day).ok_or_else(|| DAY.error(part))?),
                    None => DAY.add(part, &mut found.days)?,
                },
            }
        }
        Ok(found)
    }

    fn have(&self, day: OfMonth) -> bool {
        let is_near =
            |other: &u32| self.nearest.has(*other) && day.other(*other).nearest_workday() == day.day;
        self.days.has(day.day)
            || self.has_last && day.day == day.len
            || self.has_last_workday && day.other(day.len).nearest_workday() == day.day
            // No day is moved by more than two.
            || (day.day.saturating_sub(2).max(1)..=(day.day + 2).min(day.len)).any(|other| is_near(&other))
    }
}

impl Weekdays {
    fn parse(field: &str) -> Result<Weekdays, String> {
        let (are_demanded, field) = field.strip_prefix('+').map_or((false, field), |rest| (true, rest));
        let are_all = matches!(field, "*" | "?");
        let mut found = Weekdays { are_all, are_demanded, ..Weekdays::default() };
        for part in field.split(',') {
            let bits = &mut Bits::default();
            let into = if let Some((days, nth)) = part.split_once('#') {
                let nth = digits(nth).and_then(|nth| found.nth.get_mut((nth as usize).checked_sub(1)?));
                WEEKDAY.add(days, bits).map_err(|_| WEEKDAY.error(part))?;
                nth.ok_or_else(|| WEEKDAY.error(part))?
            } else if let Some(days) = part.strip_suffix('l') {
                WEEKDAY.add(days, bits).map_err(|_| WEEKDAY.error(part))?;
                &mut found.last
            } else {
                if !are_all {
                    WEEKDAY.add(part, bits)?;
                }
                &mut found.days
            };
            // Sunday has two numbers.
            into.0 |= bits.0 | bits.0 >> DAYS_OF_WEEK;
        }
        Ok(found)
    }

    fn have(&self, day: OfMonth) -> bool {
        let is_last = day.day + DAYS_OF_WEEK > day.len;
        let nth = self.nth[((day.day - 1) / DAYS_OF_WEEK) as usize];
        self.days.has(day.weekday) || nth.has(day.weekday) || is_last && self.last.has(day.weekday)
    }
}

impl Kind {
    fn parse(&self, field: &str) -> Result<Values, String> {
        let (first, last) = self.values;
        let mut values = Values::default();
        if field == "*" {
            (first..=last).for_each(|value| values.bits.add(value));
        } else {
            for part in field.split(',') {
                self.add(part, &mut values.bits)?;
                values.recur |= part.split_once('/').is_some_and(|(range, _)| !range.contains('-'));
            }
        }
        values.recur |= (first..=last).all(|value| values.bits.has(value));
        Ok(values)
    }

    /// Adds what a part of a list names.
    fn add(&self, part: &str, bits: &mut Bits) -> Result<(), String> {
        let (from, to, step) = self.range(part).ok_or_else(|| self.error(part))?;
        (from..=to).step_by(step).for_each(|value| bits.add(value));
        Ok(())
    }

    /// First, last and step.
    fn range(&self, part: &str) -> Option<(u32, u32, usize)> {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (self.value(from)?, self.end(to)?),
            None if matches!(range, "*" | "") && step.is_some() => self.values,
            None => {
                let value = self.value(range)?;
                (value, if step.is_some() { self.values.1 } else { value })
            }
        };
        let step = step.map_or(Some(1), digits)?;
        (from <= to && step > 0).then_some((from, to, step as usize))
    }

    fn value(&self, word: &str) -> Option<u32> {
        let (first, last) = self.values;
        let named = || self.names.iter().position(|name| *name == word).map(|at| at as u32 + first);
        digits(word).or_else(named).filter(|value| (first..=last).contains(value))
    }

    /// The value at the end of a range: Sunday comes after Saturday there.
    fn end(&self, word: &str) -> Option<u32> {
        let value = self.value(word)?;
        Some(if word == WEEKDAYS[0] { DAYS_OF_WEEK } else { value })
    }

    fn error(&self, part: &str) -> String {
        let Kind { name, values: (first, last), more, .. } = self;
        format!(
            "the {name} '{}' is not allowed: it takes numbers from {first} to {last}, *, ranges such as \
             {first}-{}, steps such as */2, and lists of these{more}",
            part.escape_debug(),
            first + 3
        )
    }
}

fn digits(word: &str) -> Option<u32> {
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| is_number)
}

/// Parts of dates and times are small and never negative.
fn number(part: i8) -> u32 {
    u32::from(part.unsigned_abs())
}
