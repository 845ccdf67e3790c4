//! The kinds of settings: how their text is read and shown.
//!
//! Every value has a canonical text (what `CONFIG GET` answers and `CONFIG REWRITE` writes) and a number, so that
//! the hot path reads one atomic: 0 or 1, the number itself, bytes, the number of a choice, bits; for other kinds the
//! length of the text, so 0 means that it is empty. The texts of errors are those of Redis.
//!
//! Not here: kinds that only one subsystem understands, such as the letters of events. It declares them ([`Special`]).

/// The values that a setting may have.
#[derive(Clone, Copy, Debug)]
pub enum SettingKind {
    /// `yes` or `no`.
    Bool,
    /// `yes` or `no`; a line may also have `true`, `false`, `1` or `0`. For settings that Redis does not have.
    Switch,
    /// A whole number.
    Integer {
        /// The least value.
        min: i64,
        /// The greatest value.
        max: i64,
    },
    /// The permissions of a file.
    Octal,
    /// Bytes, with a unit or without: `1k` is 1000, `1kb` is 1024, and so on with m, mb, g, gb.
    Memory {
        /// The least value.
        min: i64,
        /// The greatest value.
        max: i64,
    },
    /// A number of bytes, or a percentage from 0 to 100, which is stored as a negative number.
    MemoryOrPercent,
    /// One of these words; each stands for a number.
    Choice(&'static [(&'static str, i64)]),
    /// Any text.
    Text,
    /// Words, shown with one space between them.
    Words,
    /// A subsystem reads the value.
    Special(&'static Special),
}

/// A kind that a subsystem declares.
#[derive(Debug)]
pub struct Special {
    /// The name of its argument in the help.
    pub placeholder: &'static str,
    /// The function that reads it.
    pub read: Read,
    /// Whether a directive without a value means the empty text.
    pub may_be_bare: bool,
    /// Whether several lines of a configuration add up. The first one replaces the default. `CONFIG SET` replaces all.
    pub lines_add_up: bool,
}

/// A function that reads a value. Its errors are in Redis' words.
#[derive(Debug)]
pub enum Read {
    /// One word.
    Word(fn(&str) -> Result<SettingValue, String>),
    /// Several words, which a line has without quotes. The second argument is the text that they add to or change.
    Words(fn(&[&str], &str) -> Result<SettingValue, String>),
}

/// The value of a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingValue {
    /// The number that the hot path reads; see the head of this file.
    pub number: i64,
    /// The canonical text.
    pub text: String,
}

impl SettingKind {
    /// Parses `words`. `current`: the value before, for kinds that add to it.
    ///
    /// # Errors
    /// Why the words are invalid, in Redis' words.
    pub fn parse(self, words: &[&str], current: &str) -> Result<SettingValue, String> {
        // CONFIG SET passes all words in one, without quotes, and the stored text has no quotes either.
        let several = || -> Vec<&str> { words.iter().flat_map(|word| word.split_whitespace()).collect() };
        match (self, words) {
            (SettingKind::Words, _) => Ok(SettingValue::text(several().join(" "))),
            (SettingKind::Special(Special { read: Read::Words(read), .. }), _) => read(&several(), current),
            (_, [word]) => self.parse_word(word),
            _ => Err("wrong number of arguments".to_owned()),
        }
    }

    fn parse_word(self, word: &str) -> Result<SettingValue, String> {
        match self {
            SettingKind::Bool | SettingKind::Switch => match word.to_ascii_lowercase().as_str() {
                "yes" => Ok(SettingValue { number: 1, text: "yes".to_owned() }),
                "no" => Ok(SettingValue { number: 0, text: "no".to_owned() }),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            SettingKind::Integer { min, max } => {
                let number = ds::num::parse_i64(word.as_bytes())
                    .ok_or("argument couldn't be parsed into an integer")?;
                SettingValue::within(number, min, max)
            }
            SettingKind::Octal => {
                let number = i64::from_str_radix(word, 8)
                    .map_err(|_| "argument couldn't be parsed as an octal number")?;
                if !(0..=0o777).contains(&number) {
                    return Err("argument must be between 0 and 777 inclusive".to_owned());
                }
                Ok(SettingValue { number, text: format!("{number:o}") })
            }
            SettingKind::Memory { min, max } => {
                SettingValue::within(memory_bytes(word).ok_or("argument must be a memory value")?, min, max)
            }
            SettingKind::MemoryOrPercent => memory_or_percent(word),
            SettingKind::Choice(choices) => {
                let found = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
                found.map(|&(name, number)| SettingValue { number, text: name.to_owned() }).ok_or_else(|| {
                    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                    format!("argument(s) must be one of the following: {}", names.join(", "))
                })
            }
            SettingKind::Special(Special { read: Read::Word(read), .. }) => read(word),
            SettingKind::Special(Special { read: Read::Words(read), .. }) => read(&[word], ""),
            SettingKind::Text | SettingKind::Words => Ok(SettingValue::text(word.to_owned())),
        }
    }

    /// Prepares the words of a line for [`SettingKind::parse`]. Some directives may stand without a value, or accept
    /// more words for yes and no than `CONFIG SET`.
    pub(crate) fn words_of_line<'a>(self, words: &[&'a str]) -> Vec<&'a str> {
        match (self, words) {
            (SettingKind::Bool | SettingKind::Switch, []) => vec!["yes"],
            (SettingKind::Switch, [word]) => match word.to_ascii_lowercase().as_str() {
                "true" | "1" => vec!["yes"],
                "false" | "0" => vec!["no"],
                _ => vec![*word],
            },
            (
                SettingKind::Text
                | SettingKind::Words
                | SettingKind::Special(Special { may_be_bare: true, .. }),
                [],
            ) => vec![""],
            _ => words.to_vec(),
        }
    }

    /// Whether several lines of a configuration add up. Otherwise the last one wins.
    pub(crate) fn lines_add_up(self) -> bool {
        matches!(self, SettingKind::Special(Special { lines_add_up: true, .. }))
    }

    /// Whether the text consists of words, which a line has without quotes.
    pub(crate) fn has_words(self) -> bool {
        matches!(self, SettingKind::Words | SettingKind::Special(Special { read: Read::Words(_), .. }))
    }

    /// Whether the value is one word of any text, which may begin with dashes.
    pub(crate) fn is_one_text(self) -> bool {
        matches!(self, SettingKind::Text | SettingKind::Special(Special { read: Read::Word(_), .. }))
    }

    /// The name of the argument in the help.
    pub(crate) fn placeholder(self) -> &'static str {
        match self {
            SettingKind::Bool | SettingKind::Switch => "yes|no",
            SettingKind::Integer { .. } => "number",
            SettingKind::Octal => "octal",
            SettingKind::Memory { .. } => "memory",
            SettingKind::MemoryOrPercent => "memory or %",
            SettingKind::Choice(_) => "choice",
            SettingKind::Text => "text",
            SettingKind::Words => "words",
            SettingKind::Special(special) => special.placeholder,
        }
    }
}

impl SettingValue {
    /// A text. Its number is its length in bytes: 0 only if it is empty.
    pub fn text(text: String) -> SettingValue {
        SettingValue { number: text.len() as i64, text }
    }

    fn within(number: i64, min: i64, max: i64) -> Result<SettingValue, String> {
        if (min..=max).contains(&number) {
            Ok(SettingValue { number, text: number.to_string() })
        } else {
            Err(format!("argument must be between {min} and {max} inclusive"))
        }
    }
}

fn memory_or_percent(word: &str) -> Result<SettingValue, String> {
    if let Some(bytes) = memory_bytes(word) {
        return SettingValue::within(bytes, 0, i64::MAX);
    }
    let percent = word.strip_suffix('%').and_then(|number| ds::num::parse_i64(number.as_bytes()));
    match percent {
        Some(percent @ 0..=100) => Ok(SettingValue { number: -percent, text: format!("{percent}%") }),
        Some(101..) => Err("percentage argument must be less or equal to 100".to_owned()),
        Some(..0) | None => Err("argument must be a memory or percent value".to_owned()),
    }
}

/// Parses a number of bytes with an optional unit, as `redis.conf` explains; `None` if it is invalid or too large. As in
/// Redis, nothing is 0.
pub fn memory_bytes(word: &str) -> Option<i64> {
    if word.is_empty() {
        return Some(0);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: SettingKind, word: &str, expected: Result<&str, &str>) {
        let parsed = kind.parse(&[word], "");
        assert_eq!(
            parsed.as_ref().map(|value| value.text.as_str()).map_err(String::as_str),
            expected,
            "{word}"
        );
    }

    #[test]
    fn memory_has_units() {
        let kind = SettingKind::Memory { min: 0, max: i64::MAX };
        for (word, bytes) in [
            ("0", 0),
            ("", 0),
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
        for word in ["k", "-1", "1x", "1 kb", "1.5g", "9223372036854775807kb"] {
            check(kind, word, Err("argument must be a memory value"));
        }
    }

    #[test]
    fn memory_may_be_a_share() {
        let kind = SettingKind::MemoryOrPercent;
        for (word, text, number) in
            [("1kb", "1024", 1024), ("0", "0", 0), ("5%", "5%", -5), ("100%", "100%", -100)]
        {
            let value = SettingValue { number, text: text.to_owned() };
            assert_eq!(kind.parse(&[word], ""), Ok(value));
        }
        check(kind, "101%", Err("percentage argument must be less or equal to 100"));
        for word in ["%", "-1", "-1%", "1.5%", "1x", "1 %"] {
            check(kind, word, Err("argument must be a memory or percent value"));
        }
    }

    #[test]
    fn numbers_choices_and_switches_name_what_they_want() {
        check(SettingKind::Bool, "YES", Ok("yes"));
        check(SettingKind::Bool, "1", Err("argument must be 'yes' or 'no'"));
        let port = SettingKind::Integer { min: 0, max: 65535 };
        check(port, "6379", Ok("6379"));
        check(port, "70000", Err("argument must be between 0 and 65535 inclusive"));
        check(port, "1e3", Err("argument couldn't be parsed into an integer"));
        check(SettingKind::Octal, "700", Ok("700"));
        check(SettingKind::Octal, "800", Err("argument couldn't be parsed as an octal number"));
        let choice = SettingKind::Choice(&[("roam", 0), ("home", 1)]);
        check(choice, "HOME", Ok("home"));
        check(choice, "x", Err("argument(s) must be one of the following: roam, home"));
    }

    #[test]
    fn special_kinds_are_read_by_their_owner() {
        fn sum(words: &[&str], current: &str) -> Result<SettingValue, String> {
            let number = words
                .iter()
                .try_fold(current.len() as i64, |sum, word| Some(sum + word.parse::<i64>().ok()?));
            number
                .map(|number| SettingValue { number, text: words.join("+") })
                .ok_or_else(|| "no sum".to_owned())
        }
        const SUM: SettingKind = SettingKind::Special(&Special {
            placeholder: "numbers",
            read: Read::Words(sum),
            may_be_bare: true,
            lines_add_up: true,
        });
        check(SUM, " 1  2", Ok("1+2"));
        check(SUM, "x", Err("no sum"));
        assert_eq!(SUM.parse(&["1", "2"], "xxx").map(|value| value.number), Ok(6));
        assert_eq!(SUM.words_of_line(&[]), [""]);
        assert!(SUM.has_words() && SUM.lines_add_up() && SUM.placeholder() == "numbers");
    }

    #[test]
    fn lines_may_say_more_than_config_set() {
        assert_eq!(SettingKind::Switch.words_of_line(&["TRUE"]), ["yes"]);
        assert_eq!(SettingKind::Bool.words_of_line(&["true"]), ["true"]);
        assert_eq!(SettingKind::Bool.words_of_line(&[]), ["yes"]);
        assert_eq!(SettingKind::Text.words_of_line(&[]), [""]);
        assert!(SettingKind::Octal.words_of_line(&[]).is_empty());
        check(SettingKind::Switch, "true", Err("argument must be 'yes' or 'no'"));
    }
}
