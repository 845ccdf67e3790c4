//! Schedules: examples, what croner says of three hundred, and a model that tries every minute around changes of the clocks.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;

use super::*;

/// Thursday, 2026-01-15, 10:30:59 in UTC.
const NOW: u64 = 1_768_473_059;

const BERLIN: &str = "Europe/Berlin";

/// At two o'clock it is three.
const SPRING: &str = "2027-03-28T01:00:00Z";
/// At three o'clock it is two.
const AUTUMN: &str = "2027-10-31T01:00:00Z";

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
    for (text, error) in [
        ("", "five fields are needed: minute, hour, day, month and day of the week"),
        ("* * * *", "five fields are needed"),
        ("* * * * * *", "five fields are needed"),
        (
            "60 * * * *",
            "the minute '60' is not allowed: it takes numbers from 0 to 59, *, ranges such as 0-3",
        ),
        ("* 24 * * *", "the hour '24' is not allowed: it takes numbers from 0 to 23"),
        ("* * 0 * *", "the day of the month '0' is not allowed: it takes numbers from 1 to 31"),
        ("* * 5,32W * *", "the day of the month '32w' is not allowed"),
        ("* * * 13 *", "the month '13' is not allowed: it takes numbers from 1 to 12"),
        ("* * * mon *", "the month 'mon' is not allowed"),
        ("* * * * 8", "the day of the week '8' is not allowed: it takes numbers from 0 to 7"),
        ("* * * * mon#6", "the day of the week 'mon#6' is not allowed"),
        ("* * * * L", "the day of the week 'l' is not allowed"),
        ("\0 * * * *", "the minute '\\0' is not allowed"),
        ("ä * * * *", "the minute 'ä' is not allowed"),
        ("@often", "of names, @hourly, @daily, @weekly, @monthly and @yearly are known"),
        (&long, "it is longer than 256 bytes"),
    ] {
        let found = Schedule::parse(text).expect_err(text);
        assert!(found.starts_with(error), "{text}: {found}");
    }
    for item in [
        "x",
        "5-",
        "9-5",
        "*/0",
        "-1",
        "1-70",
        "99999999999999999999",
        "+5",
        "5,",
        "*,5",
        "1-2-3",
        "/",
        "1//2",
    ] {
        assert!(Schedule::parse(&format!("{item} * * * *")).is_err(), "{item}");
    }
}

fn ms(time: &str) -> i64 {
    time.parse::<Timestamp>().expect("a time").as_millisecond()
}

/// The times that come one after another from this one on, which `text` names in the zone.
fn times(text: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    let (schedule, zone) = (Schedule::parse_with_seconds(text), Zone::named(zone));
    let (schedule, zone) = (schedule.expect("a schedule"), zone.expect("a zone"));
    let next = |ms: &i64| schedule.next_ms(*ms, &zone);
    let times = std::iter::successors(Some(ms(from)), next).skip(1).take(count);
    times.map(|ms| Timestamp::from_millisecond(ms).expect("a time").to_string()).collect()
}

#[test]
fn days_are_named_by_their_place_in_the_month() {
    for (text, expected) in [
        ("0 0 L * *", ["2027-01-31", "2027-02-28", "2027-03-31"]),
        ("0 0 LW * *", ["2027-01-29", "2027-02-26", "2027-03-31"]),
        // Sundays on 31 January and 28 February: back to Friday, not into the next month.
        ("0 0 1W,31w * *", ["2027-01-29", "2027-02-01", "2027-03-01"]),
        ("0 0 * * 5L", ["2027-01-29", "2027-02-26", "2027-03-26"]),
        ("0 0 * * mon#1,fril", ["2027-01-04", "2027-01-29", "2027-02-01"]),
        ("0 0 * * sat-sun", ["2027-01-02", "2027-01-03", "2027-01-09"]),
        ("0 0 13 * +fri", ["2027-08-13", "2028-10-13", "2029-04-13"]),
        ("0 0 ? * 3", ["2027-01-06", "2027-01-13", "2027-01-20"]),
        ("@Monthly", ["2027-02-01", "2027-03-01", "2027-04-01"]),
        ("0 0 29 2 *", ["2028-02-29", "2032-02-29", "2036-02-29"]),
    ] {
        let expected = expected.map(|date| format!("{date}T00:00:00Z"));
        assert_eq!(times(text, "UTC", "2027-01-01T00:00:00Z", 3), expected, "{text}");
    }
}

#[test]
fn the_hour_that_is_missing_and_the_hour_that_is_twice() {
    for (text, from, expected) in [
        // Fixed times come right after the hour in which they are missing, once.
        ("30 2 * * *", SPRING, ["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"]),
        ("0,30 2 * * *", SPRING, ["2027-03-28T01:00:00Z", "2027-03-29T00:00:00Z"]),
        ("10-12 2 * * *", SPRING, ["2027-03-28T01:00:00Z", "2027-03-29T00:10:00Z"]),
        ("30 2,14 * * *", SPRING, ["2027-03-28T01:00:00Z", "2027-03-28T12:30:00Z"]),
        ("0 1-4 * * *", SPRING, ["2027-03-28T01:00:00Z", "2027-03-28T02:00:00Z"]),
        ("30 2 28 3 *", SPRING, ["2027-03-28T01:00:00Z", "2028-03-28T00:30:00Z"]),
        ("15 30 2 * * *", SPRING, ["2027-03-28T01:00:00Z", "2027-03-29T00:30:15Z"]),
        // Recurring ones go by the clock on the wall.
        ("*/30 * * * *", SPRING, ["2027-03-28T01:00:00Z", "2027-03-28T01:30:00Z"]),
        ("30 * * * *", SPRING, ["2027-03-28T01:30:00Z", "2027-03-28T02:30:00Z"]),
        ("0 */2 * * *", SPRING, ["2027-03-28T02:00:00Z", "2027-03-28T04:00:00Z"]),
        ("*/20 2 * * *", SPRING, ["2027-03-29T00:00:00Z", "2027-03-29T00:20:00Z"]),
        // The hour comes twice: fixed times the first time only.
        ("30 2 * * *", AUTUMN, ["2027-10-31T00:30:00Z", "2027-11-01T01:30:00Z"]),
        ("0,30 2 * * *", AUTUMN, ["2027-10-31T00:30:00Z", "2027-11-01T01:00:00Z"]),
        ("10-12 2 * * *", AUTUMN, ["2027-10-31T00:10:00Z", "2027-10-31T00:11:00Z"]),
        ("30 2,14 * * *", AUTUMN, ["2027-10-31T00:30:00Z", "2027-10-31T13:30:00Z"]),
        ("0 1-4 * * *", AUTUMN, ["2027-10-31T02:00:00Z", "2027-10-31T03:00:00Z"]),
        ("*/30 * * * *", AUTUMN, ["2027-10-31T00:30:00Z", "2027-10-31T01:00:00Z"]),
        ("30 * * * *", AUTUMN, ["2027-10-31T00:30:00Z", "2027-10-31T01:30:00Z"]),
        ("59 */2 * * *", AUTUMN, ["2027-10-31T00:59:00Z", "2027-10-31T01:59:00Z"]),
    ] {
        // An hour before it, or just after the beginning of the hour that comes twice.
        let from = if from == SPRING { "2027-03-28T00:59:59.999Z" } else { "2027-10-31T00:00:00Z" };
        assert_eq!(times(text, BERLIN, from, 2), expected, "{text}");
    }
    let after_ten = "2027-10-31T00:12:00Z";
    assert_eq!(times("10-12 2 * * *", BERLIN, after_ten, 1), ["2027-11-01T01:10:00Z"]);
    assert_eq!(
        times("*/20 * * * * *", "UTC", "2027-01-01T00:00:00.5Z", 3),
        ["2027-01-01T00:00:20Z", "2027-01-01T00:00:40Z", "2027-01-01T00:01:00Z"]
    );
    assert_eq!(times("0 0 30 2 *", "UTC", "2027-01-01T00:00:00Z", 3), [""; 0]);
    // A day that is missing, midnight that is missing, and half an hour that is.
    assert_eq!(times("0 9 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", 1), ["2011-12-30T10:00:00Z"]);
    assert_eq!(times("@daily", "America/Santiago", "2027-09-04T12:00:00Z", 1), ["2027-09-05T04:00:00Z"]);
    assert_eq!(
        times("15 2 * * *", "Australia/Lord_Howe", "2027-10-02T15:00:00Z", 1),
        ["2027-10-02T15:30:00Z"]
    );
}

/// Schedules agree with croner, another implementation, where no clocks are changed.
#[test]
fn other_implementations_agree() {
    let mut count = 0;
    for line in include_str!("tests/agreed.txt").lines().filter(|line| !line.starts_with('#')) {
        let [text, zone, from, expected] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let expected: Vec<&str> = expected.split(' ').collect();
        assert_eq!(times(text, zone, from, expected.len()), expected, "{line}");
        count += 1;
    }
    assert!(count > 100);
}

/// Whether a field of numbers, ranges, steps and lists names a value.
fn has(field: &str, value: i8, last: i8) -> bool {
    field.split(',').any(|part| {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let number = |text: &str| text.parse::<i8>().expect("a number");
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (number(from), number(to)),
            None if range == "*" => (0, last),
            None if part.contains('/') => (number(range), last),
            None => (number(range), number(range)),
        };
        (from..=to).contains(&value) && (value - from) % number(step) == 0
    })
}

/// The times that the documentation promises for a schedule in a zone, by trying all minutes between two times.
fn by_trying(
    [minute, hour, weekday]: [&str; 3],
    zone: &TimeZone,
    from: Timestamp,
    to: Timestamp,
) -> Vec<Timestamp> {
    let is_named = |time: DateTime| {
        let day = time.weekday().to_sunday_zero_offset();
        has(minute, time.minute(), 59)
            && has(hour, time.hour(), 23)
            && (has(weekday, day, 7) || day == 0 && has(weekday, 7, 7))
    };
    let recurs = |field: &str, last: i8| {
        let parts = |part: &str| part == "*" || part.contains('/') && !part.contains('-');
        field.split(',').any(parts) || (0..=last).all(|value| has(field, value, last))
    };
    let mut found: Vec<Timestamp> = Vec::new();
    if recurs(minute, 59) || recurs(hour, 23) {
        let minutes = std::iter::successors(Some(from), |time| time.checked_add(1.minute()).ok());
        found.extend(minutes.take_while(|time| *time < to).filter(|time| is_named(zone.to_datetime(*time))));
    } else {
        let (begin, end) = (zone.to_datetime(from), zone.to_datetime(to));
        let minutes = std::iter::successors(Some(begin), |time| time.checked_add(1.minute()).ok());
        for named in minutes.take_while(|time| *time < end).filter(|time| is_named(*time)) {
            let time = zone.to_ambiguous_timestamp(named);
            found.push(match time.offset() {
                // The first minute at which the wall clock shows a later time.
                AmbiguousOffset::Gap { .. } => {
                    let before = time.earlier().expect("a time");
                    let mut minutes =
                        std::iter::successors(Some(before), |time| time.checked_add(1.minute()).ok());
                    minutes.find(|time| zone.to_datetime(*time) > named).expect("clocks go on")
                }
                _ => time.earlier().expect("a time"),
            });
        }
        found.sort_unstable();
        found.dedup();
    }
    found
}

fn field(last: u32) -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => (0..=last).prop_map(|value| value.to_string()),
        1 => (0..=last, 0..=last).prop_map(|(one, other)| format!("{}-{}", one.min(other), one.max(other))),
        1 => (1..=last).prop_map(|step| format!("*/{step}")),
        1 => (0..=last, 1..=last).prop_map(|(from, step)| format!("{from}/{step}")),
        1 => (0..=last, 1..5_u32).prop_map(move |(from, step)| format!("{from}-{last}/{step}")),
    ];
    prop_oneof![1 => Just("*".to_owned()), 4 => prop::collection::vec(part, 1..4).prop_map(|parts| parts.join(","))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_time_is_the_one_that_trying_finds(
        minute in field(59),
        hour in prop_oneof![field(23), prop::sample::select(vec!["0", "1", "2", "3", "1,2", "2,3", "0-3", "1-2"]).prop_map(str::to_owned)],
        weekday in prop_oneof![Just("*".to_owned()), field(6), Just("7".to_owned())],
        (zone, change) in prop::sample::select(vec![
            (BERLIN, SPRING),
            (BERLIN, AUTUMN),
            ("America/New_York", "2027-03-14T07:00:00Z"),
            ("America/New_York", "2027-11-07T06:00:00Z"),
            ("Australia/Lord_Howe", "2027-04-03T15:00:00Z"),
            ("Australia/Lord_Howe", "2027-10-02T15:30:00Z"),
            ("America/Santiago", "2027-04-04T03:00:00Z"),
            ("America/Santiago", "2027-09-05T04:00:00Z"),
            ("UTC", "2028-02-29T00:00:00Z"),
        ]),
    ) {
        let text = format!("{minute} {hour} * * {weekday}");
        let (schedule, zone) = (Schedule::parse(&text).expect("a schedule"), Zone::named(zone).expect("a zone"));
        let change: Timestamp = change.parse().expect("a time");
        // Beyond the ends, times of civil days are cut off.
        let (from, to) = (change - 30.hours(), change + 30.hours());
        let next = |after: &Timestamp| {
            let next_ms = schedule.next_ms(after.as_millisecond(), &zone)?;
            Timestamp::from_millisecond(next_ms).ok().filter(|next| *next < to)
        };
        let found: Vec<Timestamp> = std::iter::successors(Some(from - 1.millisecond()), next).skip(1).collect();
        prop_assert_eq!(found, by_trying([&minute, &hour, &weekday], &zone.0, from, to), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9a-zA-Z*/,#@+? LW-]{0,40}") {
        let _ = Schedule::parse_with_seconds(&text);
    }
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
