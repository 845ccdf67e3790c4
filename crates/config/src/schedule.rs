//! Schedules as cron has them: minute, hour, day of the month, month, day of the week, in UTC.
//!
//! Each is `*`, a number, a range `a-b`, one of them with a step `/n`, or several with commas between. If neither of the
//! days is `*`, one of them is enough. Sunday is 0 or 7.

use ds::calendar::date;

/// The range of each field.
const FIELDS: [(u32, u32); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)];

/// The times at which something is done, in the syntax of cron.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// The numbers in each field, as bits.
    fields: [u64; 5],
    /// Whether the day of the month and the day of the week are `*`.
    any_day: [bool; 2],
}

impl Schedule {
    /// Parses a schedule. The error says what is wrong.
    pub fn parse(text: &str) -> Result<Schedule, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.len() != FIELDS.len() {
            return Err("five fields are needed: minute, hour, day, month and day of the week".to_owned());
        }
        let mut fields = [0; 5];
        for ((field, word), (min, max)) in fields.iter_mut().zip(&words).zip(FIELDS) {
            for item in word.split(',') {
                *field |=
                    bits(item, min, max).ok_or_else(|| format!("'{word}' is not from {min} to {max}"))?;
            }
        }
        fields[4] |= fields[4] >> 7 & 1;
        Ok(Schedule { fields, any_day: [words[2].starts_with('*'), words[4].starts_with('*')] })
    }

    /// Whether the schedule includes the minute of this time, in seconds since 1970.
    pub fn is_due(&self, seconds: u64) -> bool {
        let day = seconds / 86_400;
        let (_, month, day_of_month) = date(day);
        // The first day was a Thursday.
        let now = [seconds / 60 % 60, seconds / 3600 % 24, day_of_month, month, (day + 4) % 7];
        let has = |field: usize| self.fields[field] >> now[field] & 1 != 0;
        let is_day = if self.any_day.contains(&true) { has(2) && has(4) } else { has(2) || has(4) };
        has(0) && has(1) && has(3) && is_day
    }
}

fn bits(item: &str, min: u32, max: u32) -> Option<u64> {
    let (range, step) = match item.split_once('/') {
        Some((range, step)) => (range, Some(step.parse::<u32>().ok().filter(|step| *step > 0)?)),
        None => (item, None),
    };
    let (first, last) = match range.split_once('-') {
        _ if range == "*" => (min, max),
        Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
        None => {
            let first: u32 = range.parse().ok()?;
            (first, if step.is_some() { max } else { first })
        }
    };
    let is_valid = min <= first && first <= last && last <= max;
    is_valid.then(|| {
        (first..=last).step_by(step.unwrap_or(1) as usize).fold(0, |bits, number| bits | 1 << number)
    })
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
        for text in
            ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8"]
        {
            assert!(Schedule::parse(text).is_err(), "{text}");
        }
        for item in ["x", "5-", "9-5", "*/0", "1,,2", "-1", "1-70"] {
            assert!(Schedule::parse(&format!("{item} * * * *")).is_err(), "{item}");
        }
    }
}
