//! Which part of a key decides on which shard the key is placed.
//!
//! Keys that are used together should be on the same shard. A client can request this with a hash tag (`{user1}:a`), as in
//! Redis Cluster. Clients that build key names inside their scripts often use none, but all key names of a queue have a common
//! prefix. For these there are *colocation rules*: `bull:{*}:` says that the part `emails` of `bull:emails:17` decides. A hash
//! tag in the key takes precedence, then the first rule that matches the key; otherwise the whole key decides.
//!
//! ```text
//!   bull:{*}:        bull:emails:17      begins with `bull:`; the shortest part up to the next `:`
//!   {dramatiq}:      dramatiq:default    begins with `dramatiq:`; always `dramatiq`
//! ```
//!
//! A key that matches no rule costs one look at a table of first bytes.

use std::ops::Range;
use std::sync::Arc;

/// Maximum number of rules.
pub const RULES_MAX: usize = 64;

/// The rules of a store, in order. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Colocation {
    /// Bitmap of the first bytes of all rules' prefixes.
    first_bytes: [u64; 4],
    rules: Arc<[ColocationRule]>,
}

/// One colocation rule.
#[derive(Debug)]
struct ColocationRule {
    /// The prefix of the keys that it matches.
    prefix: Box<[u8]>,
    part: DecidingPart,
}

/// The part of a key that decides.
#[derive(Debug)]
enum DecidingPart {
    /// The text after the prefix, up to this delimiter.
    Until(Box<[u8]>),
    /// This range of the prefix.
    Fixed(Range<usize>),
}

/// The hash tag of Redis Cluster: the text between the first `{` and the next `}`, unless that is empty; otherwise the whole key.
#[inline]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = find(b'{', key) else { return key };
    match find(b'}', &key[open + 1..]) {
        None | Some(0) => key,
        Some(length) => &key[open + 1..open + 1 + length],
    }
}

/// Up to this length, [`find`] searches eight bytes at a time. `memchr` is made for longer texts, and each key is
/// searched several times.
const SHORT_BYTES_MAX: usize = 64;

#[inline]
fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    if bytes.len() > SHORT_BYTES_MAX {
        return memchr::memchr(byte, bytes);
    }
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    // The lowest byte of the result with its top bit set is the first match; higher bytes may have theirs set wrongly.
    let wanted = |word: &[u8; 8]| {
        let differing = u64::from_le_bytes(*word) ^ (ONES * u64::from(byte));
        differing.wrapping_sub(ONES) & !differing & ONES << 7
    };
    let place = |found: u64| found.trailing_zeros() as usize / 8;
    let Some(last) = bytes.last_chunk::<8>() else { return bytes.iter().position(|known| *known == byte) };
    let (words, _) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let found = wanted(word);
        if found != 0 {
            return Some(index * 8 + place(found));
        }
    }
    // Overlaps with what has been searched.
    let found = wanted(last);
    (found != 0).then(|| bytes.len() - 8 + place(found))
}

impl Colocation {
    /// Parses rules.
    ///
    /// # Errors
    /// A text that names the first invalid rule and the reason, or says that there are too many.
    pub fn parse<'a>(rules: impl IntoIterator<Item = &'a str>) -> Result<Colocation, String> {
        let mut colocation = Colocation::default();
        let mut read: Vec<ColocationRule> = Vec::new();
        for text in rules {
            let refused = |why: &str| Err(format!("'{text}': {why}"));
            let rule = match ColocationRule::parse(text) {
                Ok(rule) => rule,
                Err(why) => return refused(why),
            };
            if read.iter().any(|earlier| earlier.covers(&rule)) {
                return refused("an earlier rule fits all keys that this one fits");
            }
            if read.len() == RULES_MAX {
                return Err(format!("at most {RULES_MAX} rules are allowed"));
            }
            let first = rule.prefix[0];
            colocation.first_bytes[usize::from(first / 64)] |= 1 << (first % 64);
            read.push(rule);
        }
        colocation.rules = read.into();
        Ok(colocation)
    }

    /// The part of `key` that decides where it is placed.
    #[inline]
    pub fn placing_part<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        let tag = hash_tag(key);
        if tag.len() == key.len() && self.may_fit(key) { self.fitted_part(key) } else { tag }
    }

    #[inline]
    fn may_fit(&self, key: &[u8]) -> bool {
        key.first().is_some_and(|first| self.first_bytes[usize::from(first / 64)] & 1 << (first % 64) != 0)
    }

    fn fitted_part<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        self.rules.iter().find_map(|rule| rule.part_of(key)).unwrap_or(key)
    }
}

impl ColocationRule {
    fn parse(text: &str) -> Result<ColocationRule, &'static str> {
        const SHAPE: &str = "a rule has one part in braces that decides, such as bull:{*}: or {dramatiq}:";
        let (before, rest) = text.split_once('{').ok_or(SHAPE)?;
        let (part, after) = rest.split_once('}').ok_or(SHAPE)?;
        let has_more = |text: &str| text.contains(['{', '}', '*']);
        if part.is_empty() || has_more(before) || has_more(after) || (part != "*" && has_more(part)) {
            return Err(SHAPE);
        }
        match part {
            "*" if before.is_empty() => {
                Err("it would fit every key; write how the keys begin in front of {*}")
            }
            "*" if after.is_empty() => Err("write behind {*} where the part ends, such as bull:{*}:"),
            "*" => Ok(ColocationRule {
                prefix: before.as_bytes().into(),
                part: DecidingPart::Until(after.as_bytes().into()),
            }),
            fixed => Ok(ColocationRule {
                prefix: [before, fixed, after].concat().into_bytes().into(),
                part: DecidingPart::Fixed(before.len()..before.len() + fixed.len()),
            }),
        }
    }

    fn part_of<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        let rest = key.strip_prefix(&*self.prefix)?;
        match &self.part {
            DecidingPart::Fixed(range) => Some(&key[range.clone()]),
            DecidingPart::Until(end) => {
                // Searching for a single byte needs no preparation.
                let length = match **end {
                    [byte] => find(byte, rest),
                    _ => memchr::memmem::find(rest, end),
                };
                let length = length.filter(|length| *length > 0)?;
                Some(&rest[..length])
            }
        }
    }

    /// Whether it matches all keys that `other` matches.
    fn covers(&self, other: &ColocationRule) -> bool {
        let ends_alike = match (&self.part, &other.part) {
            (DecidingPart::Fixed(_), _) => true,
            (DecidingPart::Until(end), DecidingPart::Until(other_end)) => end == other_end,
            (DecidingPart::Until(_), DecidingPart::Fixed(_)) => false,
        };
        ends_alike && other.prefix.starts_with(&self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_tags_follow_the_cluster_rule() {
        for (key, tag) in [
            ("a{b}c", "b"),
            ("{}x", "{}x"),
            ("a{b", "a{b"),
            ("a{{b}}", "{b"),
            ("{a}{b}", "a"),
            ("plain", "plain"),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes());
        }
    }

    #[test]
    fn a_byte_is_found_where_it_is_first() {
        for length in 0..SHORT_BYTES_MAX + 10 {
            let mut bytes: Vec<u8> =
                (0..length).map(|index| [b'z', b'|', 0xFB, 0, b'y'][index % 5]).collect();
            assert_eq!(find(b'{', &bytes), None);
            for place in (0..length).rev() {
                bytes[place] = b'{';
                assert_eq!(find(b'{', &bytes), Some(place), "{length}");
            }
        }
    }

    #[track_caller]
    fn check(rules: &str, key: &str, part: &str) {
        let colocation = Colocation::parse(rules.split_whitespace()).expect("the rules make sense");
        let found = colocation.placing_part(key.as_bytes());
        assert_eq!(String::from_utf8_lossy(found), part, "{rules} {key}");
    }

    #[test]
    fn a_part_of_the_key_decides_where_a_rule_fits() {
        const RULES: &str = "bull:{*}: {dramatiq}: a:{b}:c t:{*}-- bull:x{*}/";
        check(RULES, "bull:emails:17", "emails");
        check(RULES, "bull:emails:", "emails");
        check(RULES, "bull:emails:17:logs", "emails");
        // The part is empty, or has no end.
        check(RULES, "bull::17", "bull::17");
        check(RULES, "bull:emails", "bull:emails");
        check(RULES, "bull", "bull");
        check(RULES, "bulls:emails:17", "bulls:emails:17");
        check(RULES, "", "");
        check(RULES, "dramatiq:default.msgs", "dramatiq");
        // For other keys, the whole key decides.
        check(RULES, "dramatiq", "dramatiq");
        check(RULES, "a:b:cd", "b");
        check(RULES, "a:b:d", "a:b:d");
        check(RULES, "t:one--two--", "one");
        // A hash tag comes first, then the first rule.
        check(RULES, "bull:emails:{17}", "17");
        check(RULES, "bull:xy/z", "y");
        check(RULES, "bull:xy/z:1", "xy/z");
        check("", "bull:emails:17", "bull:emails:17");
    }

    #[track_caller]
    fn check_refused(rules: &str, why: &str) {
        assert_eq!(Colocation::parse(rules.split_whitespace()).map(drop), Err(why.to_owned()));
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        let shape = "a rule has one part in braces that decides, such as bull:{*}: or {dramatiq}:";
        for rule in [
            "bull", "bull:*:", "{", "}a{", "{}", "a{}:", "{a}{b}", "a*{b}", "{a*}:", "a{*}b*", "a{*}{*}b",
            "{{a}}",
        ] {
            check_refused(rule, &format!("'{rule}': {shape}"));
        }
        check_refused("{*}:", "'{*}:': it would fit every key; write how the keys begin in front of {*}");
        check_refused("a{*}", "'a{*}': write behind {*} where the part ends, such as bull:{*}:");
        for rules in ["a:{*}: a:{*}:", "a:{*}: a:b{*}:", "{a} {a}:", "{a} a{*}:"] {
            let second = rules.split(' ').next_back().unwrap();
            check_refused(rules, &format!("'{second}': an earlier rule fits all keys that this one fits"));
        }
        let many: Vec<String> = (0..=RULES_MAX).map(|number| format!("{number}:{{*}}:")).collect();
        check_refused(&many.join(" "), "at most 64 rules are allowed");
    }
}
