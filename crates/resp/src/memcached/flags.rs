//! The flags of meta commands: words of a letter, in some cases followed by a value.

use super::Verb;
use super::number::{parse_i32, parse_u32, parse_u64};

/// Maximum number of words of a meta command, including its name.
const WORDS_MAX: usize = 19;
/// Maximum length of an opaque flag, including its letter.
const OPAQUE_BYTES_MAX: usize = 32;

/// How a meta command stores or counts (`M`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MetaMode {
    /// Not given: set, or count up.
    #[default]
    Unsaid,
    /// `ME`
    Add,
    /// `MA`
    Append,
    /// `MP`
    Prepend,
    /// `MR`
    Replace,
    /// `MD`
    CountDown,
}

/// The parsed flags. Flags that only request something in the reply are not included; the reply reads them in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MetaFlags {
    /// `b`: the key is in base64.
    pub is_key_binary: bool,
    /// `q`: no reply in the common case.
    pub is_quiet: bool,
    /// `v`: return the value.
    pub value: bool,
    /// `u`: do not count the access.
    pub no_update: bool,
    /// `I`: mark as stale, or allow storing an older value.
    pub marks_stale: bool,
    /// `M`
    pub mode: MetaMode,
    /// `C`: only if the item has this cas number.
    pub compare: Option<u64>,
    /// `E`: the new cas number of the item.
    pub cas: Option<u64>,
    /// `F`: the item's flags.
    pub client_flags: u32,
    /// `T`: the item's time to live.
    pub exptime: Option<i32>,
    /// `N`: create the item with this time to live if it is missing.
    pub vivify: Option<i32>,
    /// `R`: a client that reads it with less time to live left is told to fetch a new value.
    pub recache: Option<i32>,
    /// `J`: the initial number.
    pub initial: u64,
    /// `D`: the increment.
    pub delta: u64,
}

const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";

impl MetaFlags {
    /// Parses the flags in `words`, the words of a request: its name, the key, for `ms` the length, and flags. If the
    /// key is in base64, `words` has it decoded, or empty if it is invalid.
    ///
    /// # Errors
    /// The text of the reply.
    pub fn parse(verb: Verb, words: &[&[u8]]) -> Result<MetaFlags, &'static str> {
        let is_read = verb == Verb::MetaGet;
        if words.len() > WORDS_MAX {
            return Err(if is_read {
                "CLIENT_ERROR options flags are too long"
            } else {
                "CLIENT_ERROR options flags too long"
            });
        }
        let start = if verb == Verb::MetaSet { 3 } else { 2 };
        let flags = MetaFlags::read(&words[start..], words[1].is_empty());
        let is_terse = matches!(verb, Verb::MetaDelete | Verb::MetaArithmetic);
        let (mut flags, mode) = match flags {
            Err(_) if is_terse => return Err("CLIENT_ERROR invalid or duplicate flag"),
            flags => flags?,
        };
        // The mode before the opaque flag: of two errors, memcached reports the later one.
        flags.mode = match verb {
            Verb::MetaSet => store_mode(mode).ok_or("CLIENT_ERROR invalid mode for ms M token")?,
            Verb::MetaArithmetic => count_mode(mode).ok_or("CLIENT_ERROR invalid mode for ma M token")?,
            _ => MetaMode::Unsaid,
        };
        if words[start..].iter().any(|word| word[0] == b'O' && word.len() > OPAQUE_BYTES_MAX) {
            return Err("CLIENT_ERROR opaque token too long");
        }
        Ok(flags)
    }

    /// Parses the flags and the letter of the mode. Of several errors the last one is reported, except that an unknown
    /// or repeated flag ends parsing.
    fn read(words: &[&[u8]], key_is_broken: bool) -> Result<(MetaFlags, Option<u8>), &'static str> {
        let mut flags = MetaFlags { delta: 1, ..MetaFlags::default() };
        let (mut seen, mut error, mut error_text, mut mode) = (0u128, false, BAD_FORMAT, None);
        for word in words {
            let (letter, rest) = (word[0], &word[1..]);
            if letter >= 127 || seen & 1 << letter != 0 {
                return Err("CLIENT_ERROR duplicate flag");
            }
            seen |= 1 << letter;
            let mut fail = |text| (error, error_text) = (true, text);
            match letter {
                b'b' => {
                    flags.is_key_binary = true;
                    if key_is_broken {
                        fail("CLIENT_ERROR error decoding key");
                    }
                }
                b'N' | b'T' | b'R' => {
                    let number = parse_i32(rest);
                    match letter {
                        b'N' => flags.vivify = number,
                        b'T' => flags.exptime = number,
                        _ => flags.recache = number,
                    }
                    if number.is_none() {
                        fail(BAD_TOKEN);
                    }
                }
                b'C' | b'E' => {
                    let number = parse_u64(rest);
                    *(if letter == b'C' { &mut flags.compare } else { &mut flags.cas }) = number;
                    if number.is_none() {
                        fail(BAD_TOKEN);
                    }
                }
                b'F' => match parse_u32(rest) {
                    Some(number) => flags.client_flags = number,
                    None => error = true,
                },
                b'J' => match parse_u64(rest) {
                    Some(number) => flags.initial = number,
                    None => fail("CLIENT_ERROR invalid numeric initial value"),
                },
                b'D' => match parse_u64(rest) {
                    Some(number) => flags.delta = number,
                    None => fail("CLIENT_ERROR invalid numeric delta value"),
                },
                b'M' if rest.len() == 1 => mode = Some(rest[0]),
                b'M' => fail("CLIENT_ERROR incorrect length for M token"),
                b'q' => flags.is_quiet = true,
                b'v' => flags.value = true,
                b'u' => flags.no_update = true,
                b'I' => flags.marks_stale = true,
                b'O' | b'P' | b'L' | b'k' | b's' | b't' | b'c' | b'f' | b'h' | b'l' => {}
                _ => return Err("CLIENT_ERROR invalid flag"),
            }
        }
        if error { Err(error_text) } else { Ok((flags, mode)) }
    }
}

fn store_mode(letter: Option<u8>) -> Option<MetaMode> {
    match letter {
        None | Some(b'S') => Some(MetaMode::Unsaid),
        Some(b'E') => Some(MetaMode::Add),
        Some(b'A') => Some(MetaMode::Append),
        Some(b'P') => Some(MetaMode::Prepend),
        Some(b'R') => Some(MetaMode::Replace),
        Some(_) => None,
    }
}

fn count_mode(letter: Option<u8>) -> Option<MetaMode> {
    match letter {
        None | Some(b'I' | b'+') => Some(MetaMode::Unsaid),
        Some(b'D' | b'-') => Some(MetaMode::CountDown),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(verb: Verb, line: &str, error: Option<&str>) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        assert_eq!(MetaFlags::parse(verb, &words).err(), error, "{line}");
    }

    #[test]
    fn errors_are_those_of_memcached() {
        check(Verb::MetaGet, "mg k v t T30 Oabc", None);
        check(Verb::MetaGet, "mg k k k", Some("CLIENT_ERROR duplicate flag"));
        check(Verb::MetaGet, "mg k S", Some("CLIENT_ERROR invalid flag"));
        check(Verb::MetaGet, "mg k T", Some(BAD_TOKEN));
        check(Verb::MetaGet, "mg k Tx J", Some("CLIENT_ERROR invalid numeric initial value"));
        check(Verb::MetaGet, "mg k F", Some(BAD_FORMAT));
        check(Verb::MetaDelete, "md k T", Some("CLIENT_ERROR invalid or duplicate flag"));
        check(Verb::MetaSet, "ms k 2 MX", Some("CLIENT_ERROR invalid mode for ms M token"));
        check(Verb::MetaSet, "ms k 2 MXX", Some("CLIENT_ERROR incorrect length for M token"));
        check(Verb::MetaArithmetic, "ma k MX", Some("CLIENT_ERROR invalid mode for ma M token"));
        let opaque = format!("mg k O{}", "1".repeat(32));
        check(Verb::MetaGet, &opaque, Some("CLIENT_ERROR opaque token too long"));
        check(Verb::MetaGet, &opaque[..opaque.len() - 1], None);
        let many = "mg k k O P L s t c f v h u q N5 T5 R5 MI F1 J1";
        check(Verb::MetaGet, many, Some("CLIENT_ERROR options flags are too long"));
        check(Verb::MetaGet, &many[..many.len() - 3], None);
    }

    #[test]
    fn values_are_read() {
        let words: Vec<&[u8]> = "ms k 2 MA C5 F7 T-1 I q".split(' ').map(str::as_bytes).collect();
        let flags = MetaFlags::parse(Verb::MetaSet, &words).expect("it is right");
        assert_eq!((flags.mode, flags.compare, flags.client_flags), (MetaMode::Append, Some(5), 7));
        assert_eq!((flags.exptime, flags.marks_stale, flags.is_quiet), (Some(-1), true, true));
    }
}
