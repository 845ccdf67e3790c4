//! Kinds of settings that only one part of the server understands: letters of events, save points, limits of output,
//! and others.
//!
//! Errors are worded as in Redis. Not here: the kinds that any setting may have (`crate::SettingKind`).

use crate::{Read, Schedule, SettingKind, SettingValue, Special, memory_bytes};
use ds::placing::Colocation;
use keyspace::Class;
use proactor::CpuSet;

/// Letters of keyspace events; the number has the bits of [`Class`].
pub(crate) const EVENT_CLASSES: SettingKind = SettingKind::Special(&Special {
    placeholder: "letters",
    read: Read::Word(event_classes),
    may_be_bare: true,
    lines_add_up: false,
});
/// Limits of output buffers. A given limit replaces that of its class.
pub(crate) const OUTPUT_LIMITS: SettingKind = SettingKind::Special(&Special {
    placeholder: "class hard soft seconds …",
    read: Read::Words(output_limits),
    may_be_bare: false,
    lines_add_up: false,
});
/// Pairs of seconds and changes. Given pairs are added.
pub(crate) const SAVE_POINTS: SettingKind = SettingKind::Special(&Special {
    placeholder: "seconds changes …",
    read: Read::Words(save_points),
    may_be_bare: true,
    lines_add_up: true,
});
/// Numbers from 0 to 100.
pub(crate) const PERCENTILES: SettingKind = SettingKind::Special(&Special {
    placeholder: "percentages",
    read: Read::Words(percentiles),
    may_be_bare: true,
    lines_add_up: false,
});
/// A schedule in the syntax of cron; empty: never.
pub(crate) const SCHEDULE: SettingKind = SettingKind::Special(&Special {
    placeholder: "fields",
    read: Read::Word(schedule),
    may_be_bare: false,
    lines_add_up: false,
});
/// Words of `SHUTDOWN`, or `default`. The number has one bit for each.
pub(crate) const SHUTDOWN_FLAGS: SettingKind = SettingKind::Special(&Special {
    placeholder: "words",
    read: Read::Words(shutdown_flags),
    may_be_bare: false,
    lines_add_up: false,
});
/// Processors; empty: any.
pub(crate) const CPUS: SettingKind = SettingKind::Special(&Special {
    placeholder: "processors",
    read: Read::Word(cpus),
    may_be_bare: false,
    lines_add_up: false,
});
/// The host and port of a primary; empty or `no one`: none.
pub(crate) const PRIMARY: SettingKind = SettingKind::Special(&Special {
    placeholder: "host port",
    read: Read::Words(primary),
    may_be_bare: true,
    lines_add_up: false,
});
/// Rules for keys that are placed in the same shard.
pub(crate) const COLOCATION: SettingKind = SettingKind::Special(&Special {
    placeholder: "rules",
    read: Read::Words(colocation),
    may_be_bare: true,
    lines_add_up: false,
});
/// A file name without a directory.
pub(crate) const FILE_NAME: SettingKind = SettingKind::Special(&Special {
    placeholder: "text",
    read: Read::Word(file_name),
    may_be_bare: false,
    lines_add_up: false,
});
/// Where the document of groups is: URLs of etcd, or a folder; empty: nowhere.
pub(crate) const TOPOLOGY_STORE: SettingKind = SettingKind::Special(&Special {
    placeholder: "URL[,URL...]",
    read: Read::Word(topology_store),
    may_be_bare: true,
    lines_add_up: false,
});
/// The name of a cluster or a group.
pub(crate) const TOPOLOGY_NAME: SettingKind = SettingKind::Special(&Special {
    placeholder: "name",
    read: Read::Word(cluster_name),
    may_be_bare: false,
    lines_add_up: false,
});
/// The name of a node; empty: one is drawn.
pub(crate) const TOPOLOGY_NODE: SettingKind = SettingKind::Special(&Special {
    placeholder: "name",
    read: Read::Word(cluster_node_id),
    may_be_bare: true,
    lines_add_up: false,
});

/// The longest name of a cluster, a group or a node.
const CLUSTER_NAME_BYTES_MAX: usize = 64;

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
/// Events of modules. Darter has no modules, but the letter is part of `A`.
const MODULE_CLASS: u32 = 1 << 13;
/// The classes of `A`.
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

/// The limit of one class of clients in `client-output-buffer-limit`. 0: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutputLimit {
    /// A client with more output is disconnected at once.
    pub hard_bytes: u64,
    /// A client with more output is disconnected if it stays above this limit.
    pub soft_bytes: u64,
    /// How long a client may stay above the soft limit.
    pub soft_seconds: u64,
}

impl OutputLimit {
    /// Whether this much output is above the soft or the hard limit.
    pub fn is_exceeded_by(&self, bytes: u64) -> bool {
        [self.hard_bytes, self.soft_bytes].iter().any(|limit| *limit > 0 && bytes > *limit)
    }
}

/// A bit of `shutdown-on-sigterm`: does not save.
pub const SHUTDOWN_NOSAVE: i64 = 1;
/// Saves, even without save points.
pub const SHUTDOWN_SAVE: i64 = 2;
/// Does not wait for clients and replicas.
pub const SHUTDOWN_NOW: i64 = 4;
/// Ends the process even if saving fails.
pub const SHUTDOWN_FORCE: i64 = 8;

/// Ends the process only if no data are lost.
pub const SHUTDOWN_SAFE: i64 = 16;
/// Hands over to a replica first.
pub const SHUTDOWN_FAILOVER: i64 = 32;

/// The words of `shutdown-on-sigterm`.
const SHUTDOWN_WORDS: [(&str, i64); 7] = [
    ("default", 0),
    ("save", SHUTDOWN_SAVE),
    ("nosave", SHUTDOWN_NOSAVE),
    ("now", SHUTDOWN_NOW),
    ("force", SHUTDOWN_FORCE),
    ("safe", SHUTDOWN_SAFE),
    ("failover", SHUTDOWN_FAILOVER),
];

/// The classes of `client-output-buffer-limit`.
const OUTPUT_CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

fn shutdown_flags(words: &[&str], _: &str) -> Result<SettingValue, String> {
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
    Ok(SettingValue { number: bits, text })
}

fn primary(words: &[&str], _: &str) -> Result<SettingValue, String> {
    match words {
        [] | [""] => Ok(SettingValue::text(String::new())),
        [no, one] if no.eq_ignore_ascii_case("no") && one.eq_ignore_ascii_case("one") => {
            Ok(SettingValue::text(String::new()))
        }
        [host, port] if port.parse::<u16>().is_ok() => Ok(SettingValue::text(format!("{host} {port}"))),
        [_, _] => Err("Invalid master port".to_owned()),
        _ => Err("wrong number of arguments".to_owned()),
    }
}

fn colocation(words: &[&str], _: &str) -> Result<SettingValue, String> {
    let rules: Vec<&str> = words.iter().flat_map(|word| word.split_whitespace()).collect();
    Colocation::parse(rules.iter().copied())?;
    Ok(SettingValue::text(rules.join(" ")))
}

fn event_classes(word: &str) -> Result<SettingValue, String> {
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
    Ok(SettingValue { number: i64::from(bits), text })
}

fn output_limits(words: &[&str], current: &str) -> Result<SettingValue, String> {
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
        let limit = bytes(four[1]).zip(bytes(four[2])).zip(four[3].parse::<u32>().ok());
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
    Ok(SettingValue::text(parts.join(" ")))
}

/// Parses the canonical text of `client-output-buffer-limit`. Missing numbers mean no limit.
pub(crate) fn parse_output_limits(text: &str) -> [OutputLimit; 3] {
    let words: Vec<&str> = text.split(' ').collect();
    let number = |index: usize| words.get(index).and_then(|word| word.parse().ok()).unwrap_or(0);
    std::array::from_fn(|class| OutputLimit {
        hard_bytes: number(class * 4 + 1),
        soft_bytes: number(class * 4 + 2),
        soft_seconds: number(class * 4 + 3),
    })
}

fn save_points(words: &[&str], current: &str) -> Result<SettingValue, String> {
    if words.iter().all(|word| word.is_empty()) {
        return Ok(SettingValue::text(String::new()));
    }
    let is_valid = words.len().is_multiple_of(2)
        && words.chunks(2).all(|pair| {
            let number = |word: &str, min| word.parse::<i64>().is_ok_and(|number| number >= min);
            number(pair[0], 1) && number(pair[1], 0)
        });
    if !is_valid {
        return Err("Invalid save parameters".to_owned());
    }
    Ok(SettingValue::text(format!("{current} {}", words.join(" ")).trim_start().to_owned()))
}

fn percentiles(words: &[&str], _: &str) -> Result<SettingValue, String> {
    let mut shown = Vec::new();
    for word in words.iter().filter(|word| !word.is_empty()) {
        let number = word.parse::<f64>().ok().filter(|number| (0.0..=100.0).contains(number));
        let Some(number) = number else {
            return Err("Invalid latency-tracking-info-percentiles parameters".to_owned());
        };
        shown.push(number.to_string());
    }
    Ok(SettingValue::text(shown.join(" ")))
}

fn schedule(word: &str) -> Result<SettingValue, String> {
    if !word.is_empty() {
        Schedule::parse(word)?;
    }
    Ok(SettingValue::text(word.to_owned()))
}

fn cpus(word: &str) -> Result<SettingValue, String> {
    if word.is_empty() || CpuSet::parse(word).is_some() {
        Ok(SettingValue::text(word.to_owned()))
    } else {
        Err("argument must be a list of processors, as 0,2 or 0-7 or 0-7:2".to_owned())
    }
}

fn file_name(word: &str) -> Result<SettingValue, String> {
    if word.contains(['/', '\\']) {
        return Err("dbfilename can't be a path, just a filename".to_owned());
    }
    Ok(SettingValue::text(word.to_owned()))
}

fn topology_store(word: &str) -> Result<SettingValue, String> {
    let wrong =
        "argument must be URLs of etcd such as http://etcd-1:2379,http://etcd-2:2379, or folder:/path";
    let is_right = match word.strip_prefix("folder:") {
        Some(path) => path.starts_with('/'),
        None => word.split(',').all(|url| {
            let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
            host.is_some_and(|host| !host.is_empty() && !host.contains(char::is_whitespace))
        }),
    };
    let is_right = is_right || word.is_empty();
    is_right.then(|| SettingValue::text(word.to_owned())).ok_or_else(|| wrong.to_owned())
}

/// The names that `topology` accepts: they are parts of keys and of files' names.
fn cluster_name(word: &str) -> Result<SettingValue, String> {
    let is_name = word.len() <= CLUSTER_NAME_BYTES_MAX
        && word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    is_name.then(|| SettingValue::text(word.to_owned())).ok_or_else(|| {
        format!(
            "argument must have 1 to {CLUSTER_NAME_BYTES_MAX} letters, digits, '-', '_' and '.' (ASCII), and begin with a \
             letter or digit"
        )
    })
}

fn cluster_node_id(word: &str) -> Result<SettingValue, String> {
    if word.is_empty() { Ok(SettingValue::text(String::new())) } else { cluster_name(word) }
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
    fn event_letters_are_shown_in_their_order() {
        check(EVENT_CLASSES, "KEA", Ok("AKE"));
        check(EVENT_CLASSES, "nmK$gd", Ok("g$dnKm"));
        check(EVENT_CLASSES, "AKEnm", Ok("AKEm"));
        check(EVENT_CLASSES, "", Ok(""));
        check(EVENT_CLASSES, "Q", Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'."));
    }

    #[test]
    fn output_limits_replace_their_class_only() {
        let all = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
        let value = OUTPUT_LIMITS.parse(&["normal 1mb 2 3"], all).unwrap();
        assert_eq!(value.text, "normal 1048576 2 3 slave 268435456 67108864 60 pubsub 33554432 8388608 60");
        let value = OUTPUT_LIMITS.parse(&["replica", "0", "0", "0"], all).unwrap();
        assert_eq!(parse_output_limits(&value.text)[1], OutputLimit::default());
        assert!(OUTPUT_LIMITS.parse(&["normal 1 2"], all).is_err());
        assert!(OUTPUT_LIMITS.parse(&["other 1 2 3"], all).is_err());
        assert!(OUTPUT_LIMITS.parse(&["normal 1 2 x"], all).is_err());
    }

    #[test]
    fn save_points_come_in_pairs() {
        check(SAVE_POINTS, "3600 1 60 5", Ok("3600 1 60 5"));
        check(SAVE_POINTS, "", Ok(""));
        for word in ["60", "60 -1", "0 1", "x y"] {
            check(SAVE_POINTS, word, Err("Invalid save parameters"));
        }
        assert_eq!(SAVE_POINTS.parse(&["60", "5"], "3600 1").unwrap().text, "3600 1 60 5");
        check(PERCENTILES, "50 99.9 100", Ok("50 99.9 100"));
        check(PERCENTILES, "50 abc", Err("Invalid latency-tracking-info-percentiles parameters"));
    }
    #[test]
    fn stores_and_names_of_clusters_are_checked() {
        for word in ["", "http://a", "https://a:1,http://[::1]:2379", "folder:/var/lib/x y"] {
            check(TOPOLOGY_STORE, word, Ok(word));
        }
        let wrong =
            "argument must be URLs of etcd such as http://etcd-1:2379,http://etcd-2:2379, or folder:/path";
        for word in
            ["a:2379", "http://", "http://a,", "http://a, http://b", "folder:", "folder:x", "etcd://a"]
        {
            check(TOPOLOGY_STORE, word, Err(wrong));
        }
        let wrong = "argument must have 1 to 64 letters, digits, '-', '_' and '.' (ASCII), and begin with a letter or digit";
        check(TOPOLOGY_NAME, "node-1.example", Ok("node-1.example"));
        for word in ["", "a/b", "-a", "a b", "\u{e4}", &"a".repeat(65)] {
            check(TOPOLOGY_NAME, word, Err(wrong));
        }
        check(TOPOLOGY_NODE, "", Ok(""));
        check(TOPOLOGY_NODE, "a/b", Err(wrong));
    }
}
