//! Where the keys of a command are, in the notation of `COMMAND INFO`.

use smallvec::SmallVec;

/// An effect of a command on a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyFlag {
    /// Read-only.
    RO,
    /// Read and write.
    RW,
    /// Overwritten without regard to its old value.
    OW,
    /// Removed.
    RM,
    /// Its value is returned, copied or used.
    Access,
    /// Its value changes in a way that depends on the old value.
    Update,
    /// An element is added.
    Insert,
    /// An element is deleted.
    Delete,
    /// Not a key of the keyspace, though placed like one.
    NotKey,
    /// Not all keys are found by the key spec.
    Incomplete,
    /// Which of the flags apply depends on the arguments.
    VariableFlags,
}

impl KeyFlag {
    /// The name in `COMMAND INFO`.
    pub fn name(self) -> &'static str {
        match self {
            KeyFlag::RO => "RO",
            KeyFlag::RW => "RW",
            KeyFlag::OW => "OW",
            KeyFlag::RM => "RM",
            KeyFlag::Access => "access",
            KeyFlag::Update => "update",
            KeyFlag::Insert => "insert",
            KeyFlag::Delete => "delete",
            KeyFlag::NotKey => "not_key",
            KeyFlag::Incomplete => "incomplete",
            KeyFlag::VariableFlags => "variable_flags",
        }
    }
}

/// Says that an option's values are all arguments before the searched word; none of them equals that word.
pub const UP_TO_WORD: usize = usize::MAX;

/// Where the search for keys begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// At this argument.
    Index(usize),
    /// After this word, which is searched for from this argument (negative: backwards from the end).
    Keyword(&'static str, i32),
    /// After this option. Clients are told to search for it from an argument, as with [`Begin::Keyword`]. The
    /// server starts where the options begin and skips the options listed here, with the number of their
    /// values, because a value may read like an option; [`UP_TO_WORD`] skips all values up to the word.
    Option(&'static str, i32, usize, &'static [(&'static str, usize)]),
    /// The place cannot be described by a key spec.
    Unknown,
}

/// The extent of the keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Find {
    /// `last` is relative to the first key (negative: from the end). Every `step`th argument is a key. With `limit` 2
    /// only the first half of the remaining arguments counts, with 3 a third, and so on.
    Range {
        /// Last key, relative to the first; negative from the end of the arguments.
        last: i32,
        /// The distance between keys.
        step: usize,
        /// 0 and 1: no limit; n: the first nth of the rest.
        limit: usize,
    },
    /// The number of keys is an argument.
    KeyNum {
        /// The position of the number, relative to the beginning.
        number: usize,
        /// The position of the first key, relative to the beginning.
        first: usize,
        /// The distance between keys.
        step: usize,
    },
    /// The extent cannot be described by a key spec.
    Unknown,
}

/// One group of keys of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeySpec {
    /// What the command does with them.
    pub flags: &'static [KeyFlag],
    /// Where they begin.
    pub begin: Begin,
    /// How far they go.
    pub find: Find,
    /// `notes` of `COMMAND INFO`.
    pub notes: &'static str,
}

impl KeySpec {
    /// The one key at argument `index`.
    pub const fn one(index: usize, flags: &'static [KeyFlag]) -> KeySpec {
        KeySpec::range(index, 0, 1, flags)
    }

    /// Keys from argument `first` to `last` (relative, or negative from the end), every `step`th.
    pub const fn range(first: usize, last: i32, step: usize, flags: &'static [KeyFlag]) -> KeySpec {
        assert!(step > 0, "keys lie one after the other");
        KeySpec { flags, begin: Begin::Index(first), find: Find::Range { last, step, limit: 0 }, notes: "" }
    }

    /// The key spec with a remark for `COMMAND INFO`.
    pub const fn notes(self, notes: &'static str) -> KeySpec {
        KeySpec { notes, ..self }
    }

    /// A number of keys at argument `index` and the keys after it.
    pub const fn numbered(index: usize, flags: &'static [KeyFlag]) -> KeySpec {
        assert!(index > 0, "the number of keys is behind the name");
        KeySpec {
            flags,
            begin: Begin::Index(index),
            find: Find::KeyNum { number: 0, first: 1, step: 1 },
            notes: "",
        }
    }

    /// Whether it finds keys of the keyspace, rather than arguments that are only placed like keys.
    pub fn is_key(&self) -> bool {
        !self.flags.contains(&KeyFlag::NotKey)
    }

    /// Finds the keys of this group among `args`; false if the arguments contradict it.
    pub fn find(&self, args: &[&[u8]], found: &mut SmallVec<[KeyRef; 8]>) -> bool {
        let Some(first) = self.first(args) else { return !matches!(self.begin, Begin::Index(_)) };
        let write = !self.flags.contains(&KeyFlag::RO);
        let (start, end, step) = match self.find {
            Find::Range { last, step, limit } => {
                let end = if last >= 0 {
                    first + last as usize
                } else {
                    let rest = args.len().saturating_sub(first);
                    let part = if limit > 1 { rest / limit } else { rest };
                    match (first + part).checked_sub(last.unsigned_abs() as usize) {
                        Some(end) => end,
                        None => return false,
                    }
                };
                (first, end, step)
            }
            Find::KeyNum { number, first: offset, step } => {
                let Some(count) = args.get(first + number).and_then(|arg| ds::num::parse_i64(arg)) else {
                    return false;
                };
                if count < 0 {
                    return false;
                }
                if count == 0 {
                    return true;
                }
                let start = first + offset;
                let Some(end) =
                    (count as usize - 1).checked_mul(step).and_then(|span| span.checked_add(start))
                else {
                    return false;
                };
                (start, end, step)
            }
            Find::Unknown => return true,
        };
        if end < start || end >= args.len() {
            return false;
        }
        // Most calls have one key: an iterator would cost more than finding it.
        let mut index = start;
        while index <= end {
            found.push(KeyRef { index, write });
            index += step;
        }
        true
    }

    fn first(&self, args: &[&[u8]]) -> Option<usize> {
        match self.begin {
            Begin::Index(index) => (index < args.len()).then_some(index),
            Begin::Keyword(word, from) if from >= 0 => {
                let from = from as usize;
                args.iter()
                    .skip(from)
                    .position(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
                    .map(|at| from + at + 1)
            }
            Begin::Keyword(word, from) => {
                let from = args.len().checked_sub(from.unsigned_abs() as usize)?;
                args[..=from]
                    .iter()
                    .rposition(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
                    .map(|at| at + 1)
            }
            Begin::Option(word, _, first, options) => {
                let mut at = first;
                while !args.get(at)?.eq_ignore_ascii_case(word.as_bytes()) {
                    let is_named =
                        |(name, _): &&(&str, usize)| args[at].eq_ignore_ascii_case(name.as_bytes());
                    at += match options.iter().find(is_named)?.1 {
                        UP_TO_WORD => {
                            1 + args[at + 1..]
                                .iter()
                                .position(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))?
                        }
                        value_count => 1 + value_count,
                    };
                }
                Some(at + 1)
            }
            Begin::Unknown => None,
        }
    }
}

/// A key among the arguments of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRef {
    /// The index of the argument.
    pub index: usize,
    /// Whether the command may change it.
    pub write: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(spec: KeySpec, line: &str, expected: Option<&[usize]>) {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut found = SmallVec::new();
        let ok = spec.find(&args, &mut found);
        let indexes: Vec<usize> = found.iter().map(|key| key.index).collect();
        assert_eq!(ok.then_some(&indexes[..]), expected, "{line}");
    }

    #[test]
    fn keys_are_found_where_the_spec_says() {
        check(KeySpec::one(1, &[]), "get a", Some(&[1]));
        check(KeySpec::range(1, -1, 1, &[]), "del a b c", Some(&[1, 2, 3]));
        check(KeySpec::range(1, -1, 2, &[]), "mset a 1 b 2", Some(&[1, 3]));
        check(KeySpec::range(1, -2, 1, &[]), "blpop a b 0", Some(&[1, 2]));
        check(KeySpec::numbered(2, &[]), "eval x 2 a b c", Some(&[3, 4]));
        check(KeySpec::numbered(2, &[]), "eval x 0 a", Some(&[]));
        check(KeySpec::numbered(2, &[]), "eval x 9 a", None);
        check(KeySpec::numbered(2, &[]), "eval x 9223372036854775807 a", None);
        let store = KeySpec { begin: Begin::Keyword("STORE", 5), ..KeySpec::one(0, &[]) };
        check(store, "georadius k 1 2 3 m STORE dst", Some(&[7]));
        check(store, "georadius k 1 2 3 m", Some(&[]));
        let streams = KeySpec {
            begin: Begin::Option("STREAMS", 1, 1, &[("COUNT", 1), ("GROUP", 2), ("NOACK", 0)]),
            ..KeySpec::range(1, -1, 1, &[])
        };
        let streams = KeySpec { find: Find::Range { last: -1, step: 1, limit: 2 }, ..streams };
        check(streams, "xread streams a b 1 2", Some(&[2, 3]));
        check(streams, "x group streams c noack count 1 STREAMS streams 1", Some(&[8]));
        check(streams, "x count streams streams a 1", Some(&[4]));
        check(streams, "x streams a b 1", Some(&[2]));
        check(streams, "x streams", None);
        check(streams, "x count 1", Some(&[]));
        check(streams, "x what streams a 1", Some(&[]));
    }
}
