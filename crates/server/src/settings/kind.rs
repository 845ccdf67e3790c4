//! What a setting may be: how its text is read, and how it is shown.
//!
//! Every value has a canonical text (what `CONFIG GET` answers and `CONFIG REWRITE` writes) and a number, so that
//! the hot path reads one atomic: 0 or 1, the number itself, bytes, the number of a choice, bits; of other kinds the
//! length of the text, which says whether there is one. The texts of errors are those of Redis.

use command::Class;
use proactor::CpuSet;

use crate::snapshot::Schedule;

/// Letters of `notify-keyspace-events` in the order in which Redis shows them.
const CLASSES: &[(char, u32)] = &[
    ('g', Class::Generic as u32),
    ('$', Class::String as u32),
    ('l', Class::List as u32),
    ('s', Class::Set as u32),
    ('h', Class::Hash as u32),
    ('z', Class::ZSet as u32),
    ('x', Class::Expired as u32),
    ('e', Class::Evicted as u32),
    ('t', Class::Stream as u32),
    ('d', MODULE_CLASS),
    ('n', Class::New as u32),
    ('K', Class::Keyspace as u32),
    ('E', Class::Keyevent as u32),
    ('m', Class::KeyMiss as u32),
];
/// Events of modules, which there are none of; the letter is part of `A`.
const MODULE_CLASS: u32 = 1 << 13;
/// What `A` stands for.
const ALL_CLASSES: u32 = Class::Generic as u32
    | Class::String as u32
    | Class::List as u32
    | Class::Set as u32
    | Class::Hash as u32
    | Class::ZSet as u32
    | Class::Expired as u32
    | Class::Evicted as u32
    | Class::Stream as u32
    | MODULE_CLASS;

/// What a setting may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `yes` or `no`.
    Bool,
    /// A whole number.
    Integer { min: i64, max: i64 },
    /// The permissions of a file.
    Octal,
    /// Bytes, with a unit or without: `1k` is 1000, `1kb` is 1024, and so on with m, mb, g, gb.
    Memory { min: i64, max: i64 },
    /// The same, or a number with `%` from 0 to 100, which is stored negative.
    MemoryOrPercent,
    /// One of these words, each with its number.
    Choice(&'static [(&'static str, i64)]),
    /// Any text.
    Text,
    /// The name of a file, without a directory.
    FileName,
    /// Words, shown with one space between them.
    Words,
    /// Letters of keyspace events; the number has the bits of [`Class`].
    EventClasses,
    /// Limits of output buffers per class of clients: what is given replaces that of its class.
    OutputLimits,
    /// Pairs of seconds and changes; what is given is added to what was there.
    SavePoints,
    /// Numbers from 0 to 100.
    Percentiles,
    /// When something is done, as cron has it; empty: never.
    Schedule,
    /// Words of `SHUTDOWN`, or `default`; the number has a bit for each.
    ShutdownFlags,
    /// Processors; empty: any.
    Cpus,
}

/// What a setting is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Value {
    /// What the hot path reads; see the head of this file.
    pub(crate) number: i64,
    /// The canonical text.
    pub(crate) text: String,
}

/// The limit of one class of clients in `client-output-buffer-limit`; 0 is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OutputLimit {
    /// A client above it is disconnected at once.
    pub(crate) hard_bytes: u64,
    /// A client above it is disconnected if it stays there.
    pub(crate) soft_bytes: u64,
    /// How long it may stay there.
    pub(crate) soft_seconds: u64,
}

/// The bits of `shutdown-on-sigterm`.
pub(crate) const SHUTDOWN_NOSAVE: i64 = 1;
pub(crate) const SHUTDOWN_SAVE: i64 = 2;
pub(crate) const SHUTDOWN_NOW: i64 = 4;
pub(crate) const SHUTDOWN_FORCE: i64 = 8;

/// Its words.
const SHUTDOWN_WORDS: [(&str, i64); 5] = [
    ("default", 0),
    ("save", SHUTDOWN_SAVE),
    ("nosave", SHUTDOWN_NOSAVE),
    ("now", SHUTDOWN_NOW),
    ("force", SHUTDOWN_FORCE),
];

/// The classes of `client-output-buffer-limit`.
pub(crate) const OUTPUT_CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

impl Kind {
    /// Reads `words`; `current` is what kinds that add to something add to.
    pub(crate) fn parse(self, words: &[&str], current: &str) -> Result<Value, String> {
        // CONFIG SET has all words in one, without quotes.
        let several = || -> Vec<String> {
            match words {
                [line] => line.split_whitespace().map(str::to_owned).collect(),
                _ => words.iter().map(|&word| word.to_owned()).collect(),
            }
        };
        match self {
            Kind::Words => Ok(Value::text(several().join(" "))),
            Kind::ShutdownFlags => shutdown_flags(&several()),
            Kind::SavePoints => save_points(&several(), current),
            Kind::OutputLimits => output_limits(&several(), current),
            Kind::Percentiles => percentiles(&several()),
            _ => match words {
                [word] => self.parse_word(word),
                _ => Err("wrong number of arguments".to_owned()),
            },
        }
    }

    fn parse_word(self, word: &str) -> Result<Value, String> {
        match self {
            Kind::Bool => match word.to_ascii_lowercase().as_str() {
                "yes" => Ok(Value { number: 1, text: "yes".to_owned() }),
                "no" => Ok(Value { number: 0, text: "no".to_owned() }),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            Kind::Integer { min, max } => {
                let number = ds::num::parse_i64(word.as_bytes())
                    .ok_or("argument couldn't be parsed into an integer")?;
                Value::within(number, min, max)
            }
            Kind::Octal => {
                let number = i64::from_str_radix(word, 8)
                    .map_err(|_| "argument couldn't be parsed as an octal number")?;
                if !(0..=0o777).contains(&number) {
                    return Err("argument must be between 0 and 777 inclusive".to_owned());
                }
                Ok(Value { number, text: format!("{number:o}") })
            }
            Kind::Memory { min, max } => {
                Value::within(memory_bytes(word).ok_or("argument must be a memory value")?, min, max)
            }
            Kind::MemoryOrPercent => memory_or_percent(word),
            Kind::Choice(choices) => {
                let found = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
                found.map(|&(name, number)| Value { number, text: name.to_owned() }).ok_or_else(|| {
                    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                    format!("argument(s) must be one of the following: {}", names.join(", "))
                })
            }
            Kind::EventClasses => event_classes(word),
            Kind::Schedule if !word.is_empty() => Schedule::parse(word).map(|_| Value::text(word.to_owned())),
            Kind::Cpus if !word.is_empty() && CpuSet::parse(word).is_none() => {
                Err("argument must be a list of processors, as 0,2 or 0-7 or 0-7:2".to_owned())
            }
            Kind::FileName if word.contains(['/', '\\']) => {
                Err("dbfilename can't be a path, just a filename".to_owned())
            }
            Kind::Text
            | Kind::FileName
            | Kind::Words
            | Kind::OutputLimits
            | Kind::SavePoints
            | Kind::ShutdownFlags
            | Kind::Schedule
            | Kind::Cpus
            | Kind::Percentiles => Ok(Value::text(word.to_owned())),
        }
    }

    /// Whether its text is made of words, which a configuration line has without quotes.
    pub(crate) fn has_words(self) -> bool {
        matches!(
            self,
            Kind::Words | Kind::OutputLimits | Kind::SavePoints | Kind::ShutdownFlags | Kind::Percentiles
        )
    }

    /// How the help calls its argument.
    pub(crate) fn placeholder(self) -> &'static str {
        match self {
            Kind::Bool => "yes|no",
            Kind::Integer { .. } => "number",
            Kind::Octal => "octal",
            Kind::Memory { .. } => "memory",
            Kind::MemoryOrPercent => "memory or %",
            Kind::Choice(_) => "choice",
            Kind::Text | Kind::FileName => "text",
            Kind::Words => "words",
            Kind::EventClasses => "letters",
            Kind::OutputLimits => "class hard soft seconds …",
            Kind::SavePoints => "seconds changes …",
            Kind::Percentiles => "percentages",
            Kind::Schedule => "fields",
            Kind::ShutdownFlags => "words",
            Kind::Cpus => "processors",
        }
    }
}

impl Value {
    fn text(text: String) -> Value {
        Value { number: text.len() as i64, text }
    }

    fn within(number: i64, min: i64, max: i64) -> Result<Value, String> {
        if (min..=max).contains(&number) {
            Ok(Value { number, text: number.to_string() })
        } else {
            Err(format!("argument must be between {min} and {max} inclusive"))
        }
    }
}

fn memory_or_percent(word: &str) -> Result<Value, String> {
    if let Some(bytes) = memory_bytes(word) {
        return Value::within(bytes, 0, i64::MAX);
    }
    let percent = word.strip_suffix('%').and_then(|number| ds::num::parse_i64(number.as_bytes()));
    match percent {
        Some(percent @ 0..=100) => Ok(Value { number: -percent, text: format!("{percent}%") }),
        Some(101..) => Err("percentage argument must be less or equal to 100".to_owned()),
        Some(..0) | None => Err("argument must be a memory or percent value".to_owned()),
    }
}

/// Bytes with an optional unit, as `redis.conf` explains them.
pub(crate) fn memory_bytes(word: &str) -> Option<i64> {
    let digits = word.len() - word.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = word.split_at(digits);
    let factor: i64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(factor)
}

fn shutdown_flags(words: &[String]) -> Result<Value, String> {
    let mut bits = 0;
    for word in words {
        bits |= match SHUTDOWN_WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)) {
            Some((_, bit)) => *bit,
            None => 1 << 63,
        };
    }
    if words.is_empty() || bits < 0 {
        let names: Vec<&str> = SHUTDOWN_WORDS.iter().map(|(name, _)| *name).collect();
        return Err(format!("argument(s) must be one of the following: {}", names.join(", ")));
    }
    if bits & SHUTDOWN_SAVE != 0 && bits & SHUTDOWN_NOSAVE != 0 {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".to_owned());
    }
    let shown: Vec<&str> =
        SHUTDOWN_WORDS.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect();
    let text = if shown.is_empty() { "default".to_owned() } else { shown.join(" ") };
    Ok(Value { number: bits, text })
}

fn event_classes(word: &str) -> Result<Value, String> {
    let mut bits = 0;
    for letter in word.chars() {
        bits |= match CLASSES.iter().find(|(known, _)| *known == letter) {
            Some((_, bit)) => *bit,
            None if letter == 'A' => ALL_CLASSES,
            None => return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned()),
        };
    }
    let is_all = bits & ALL_CLASSES == ALL_CLASSES;
    let mut text = String::from(if is_all { "A" } else { "" });
    // Redis leaves the letter of new keys out beside `A`.
    let hidden = if is_all { ALL_CLASSES | Class::New as u32 } else { 0 };
    text.extend(CLASSES.iter().filter(|(_, bit)| bits & bit & !hidden != 0).map(|(letter, _)| letter));
    Ok(Value { number: i64::from(bits), text })
}

fn output_limits(words: &[String], current: &str) -> Result<Value, String> {
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    let mut limits = parse_output_limits(current);
    for four in words.chunks(4) {
        let class = four[0].to_ascii_lowercase();
        let class = if class == "replica" { "slave" } else { class.as_str() };
        let Some(index) = OUTPUT_CLASSES.iter().position(|known| *known == class) else {
            return Err("Invalid client class specified in buffer limit configuration.".to_owned());
        };
        let bytes = |word: &str| memory_bytes(word).map(|bytes| bytes as u64);
        let limit = bytes(&four[1]).zip(bytes(&four[2])).zip(four[3].parse::<u32>().ok());
        let Some(((hard_bytes, soft_bytes), soft_seconds)) = limit else {
            return Err(
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.".to_owned()
            );
        };
        limits[index] = OutputLimit { hard_bytes, soft_bytes, soft_seconds: u64::from(soft_seconds) };
    }
    let parts: Vec<String> = OUTPUT_CLASSES
        .iter()
        .zip(limits)
        .map(|(class, limit)| {
            format!("{class} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_seconds)
        })
        .collect();
    Ok(Value::text(parts.join(" ")))
}

/// Reads the canonical text of `client-output-buffer-limit`; what is missing is without limit.
pub(crate) fn parse_output_limits(text: &str) -> [OutputLimit; 3] {
    let words: Vec<&str> = text.split(' ').collect();
    let number = |index: usize| words.get(index).and_then(|word| word.parse().ok()).unwrap_or(0);
    std::array::from_fn(|class| OutputLimit {
        hard_bytes: number(class * 4 + 1),
        soft_bytes: number(class * 4 + 2),
        soft_seconds: number(class * 4 + 3),
    })
}

fn save_points(words: &[String], current: &str) -> Result<Value, String> {
    if words.iter().all(String::is_empty) {
        return Ok(Value::text(String::new()));
    }
    let is_valid = words.len().is_multiple_of(2)
        && words.chunks(2).all(|pair| {
            let number = |word: &str, min| word.parse::<i64>().is_ok_and(|number| number >= min);
            number(&pair[0], 1) && number(&pair[1], 0)
        });
    if !is_valid {
        return Err("Invalid save parameters".to_owned());
    }
    Ok(Value::text(format!("{current} {}", words.join(" ")).trim_start().to_owned()))
}

fn percentiles(words: &[String]) -> Result<Value, String> {
    let mut shown = Vec::new();
    for word in words.iter().filter(|word| !word.is_empty()) {
        let number = word.parse::<f64>().ok().filter(|number| (0.0..=100.0).contains(number));
        let Some(number) = number else {
            return Err("Invalid latency-tracking-info-percentiles parameters".to_owned());
        };
        shown.push(number.to_string());
    }
    Ok(Value::text(shown.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: Kind, word: &str, expected: Result<&str, &str>) {
        let parsed = kind.parse(&[word], "");
        assert_eq!(
            parsed.as_ref().map(|value| value.text.as_str()).map_err(String::as_str),
            expected,
            "{word}"
        );
    }

    #[test]
    fn memory_has_units() {
        let kind = Kind::Memory { min: 0, max: i64::MAX };
        for (word, bytes) in [
            ("0", 0),
            ("7b", 7),
            ("1k", 1000),
            ("1KB", 1024),
            ("2m", 2_000_000),
            ("2mb", 2_i64 << 20),
            ("1g", 1_000_000_000),
            ("3Gb", 3_i64 << 30),
        ] {
            check(kind, word, Ok(&bytes.to_string()));
        }
        for word in ["", "k", "-1", "1x", "1 kb", "1.5g", "9223372036854775807kb"] {
            check(kind, word, Err("argument must be a memory value"));
        }
    }

    #[test]
    fn memory_may_be_a_share() {
        let kind = Kind::MemoryOrPercent;
        for (word, text, number) in
            [("1kb", "1024", 1024), ("0", "0", 0), ("5%", "5%", -5), ("100%", "100%", -100)]
        {
            let value = Value { number, text: text.to_owned() };
            assert_eq!(kind.parse(&[word], ""), Ok(value));
        }
        check(kind, "101%", Err("percentage argument must be less or equal to 100"));
        for word in ["", "%", "-1", "-1%", "1.5%", "1x", "1 %"] {
            check(kind, word, Err("argument must be a memory or percent value"));
        }
    }

    #[test]
    fn numbers_choices_and_switches_name_what_they_want() {
        check(Kind::Bool, "YES", Ok("yes"));
        check(Kind::Bool, "1", Err("argument must be 'yes' or 'no'"));
        let port = Kind::Integer { min: 0, max: 65535 };
        check(port, "6379", Ok("6379"));
        check(port, "70000", Err("argument must be between 0 and 65535 inclusive"));
        check(port, "1e3", Err("argument couldn't be parsed into an integer"));
        check(Kind::Octal, "700", Ok("700"));
        check(Kind::Octal, "800", Err("argument couldn't be parsed as an octal number"));
        let choice = Kind::Choice(&[("roam", 0), ("home", 1)]);
        check(choice, "HOME", Ok("home"));
        check(choice, "x", Err("argument(s) must be one of the following: roam, home"));
    }

    #[test]
    fn event_letters_are_shown_in_their_order() {
        check(Kind::EventClasses, "KEA", Ok("AKE"));
        check(Kind::EventClasses, "nmK$gd", Ok("g$dnKm"));
        check(Kind::EventClasses, "AKEnm", Ok("AKEm"));
        check(Kind::EventClasses, "", Ok(""));
        check(Kind::EventClasses, "Q", Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'."));
    }

    #[test]
    fn output_limits_replace_their_class_only() {
        let all = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
        let value = Kind::OutputLimits.parse(&["normal 1mb 2 3"], all).unwrap();
        assert_eq!(value.text, "normal 1048576 2 3 slave 268435456 67108864 60 pubsub 33554432 8388608 60");
        let value = Kind::OutputLimits.parse(&["replica", "0", "0", "0"], all).unwrap();
        assert_eq!(parse_output_limits(&value.text)[1], OutputLimit::default());
        assert!(Kind::OutputLimits.parse(&["normal 1 2"], all).is_err());
        assert!(Kind::OutputLimits.parse(&["other 1 2 3"], all).is_err());
        assert!(Kind::OutputLimits.parse(&["normal 1 2 x"], all).is_err());
    }

    #[test]
    fn save_points_come_in_pairs() {
        check(Kind::SavePoints, "3600 1 60 5", Ok("3600 1 60 5"));
        check(Kind::SavePoints, "", Ok(""));
        for word in ["60", "60 -1", "0 1", "x y"] {
            check(Kind::SavePoints, word, Err("Invalid save parameters"));
        }
        assert_eq!(Kind::SavePoints.parse(&["60", "5"], "3600 1").unwrap().text, "3600 1 60 5");
        check(Kind::Percentiles, "50 99.9 100", Ok("50 99.9 100"));
        check(Kind::Percentiles, "50 abc", Err("Invalid latency-tracking-info-percentiles parameters"));
    }
}
