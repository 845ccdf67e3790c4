//! Finds requests in a stream of bytes.
//!
//! A request is a line of words; a request that stores something has a value of the announced length after the line.
//! The line is parsed again only when the whole value has arrived.
//!
//! Not here: the meaning of words, except those that determine where the request ends.

use smallvec::SmallVec;

use super::flags::MetaFlags;
use super::number::{parse_i32, parse_u32, parse_u64};
use super::{Verb, base64};
use crate::http::is_http;

/// Maximum length of a key, as it is sent.
pub const KEY_BYTES_MAX: usize = 250;
/// Maximum length of a line that does not ask for many keys.
const LINE_BYTES_MAX: usize = 2048;
/// Maximum length of a line that asks for many keys; memcached has no limit.
const LONG_LINE_BYTES_MAX: usize = 2 << 20;
/// Maximum number of leading blanks of such a long line.
const INDENT_MAX: usize = 100;
/// Bytes that memcached stores beside key, value and flags; they count towards the limit of an item's size.
const ITEM_HEAD_BYTES: usize = 59;
/// Bytes that memcached stores for flags other than 0.
const ITEM_FLAGS_BYTES: usize = 4;

const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";

/// The words of a request; the value, if there is one, is the last of them.
pub type Words<'a> = SmallVec<[&'a [u8]; 16]>;

/// Limits on items and lines.
#[derive(Clone, Copy, Debug)]
pub struct ItemLimits {
    /// Maximum size of an item, measured as memcached does.
    pub item_bytes_max: usize,
    /// Whether a line may be longer if it asks for many items.
    pub takes_long_lines: bool,
}

impl ItemLimits {
    /// Whether an item of this size is allowed.
    #[must_use]
    pub fn allow(self, key_bytes: usize, value_bytes: usize, flags: u32) -> bool {
        let flags_bytes = if flags == 0 { 0 } else { ITEM_FLAGS_BYTES };
        key_bytes + value_bytes + flags_bytes + ITEM_HEAD_BYTES <= self.item_bytes_max
    }
}

/// What is at the front of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// A request; its words were added to the output parameter.
    Request {
        /// The command.
        verb: Verb,
        /// Bytes that it takes.
        consumed: usize,
        /// Number of bytes after it that belong to it and have to be skipped ([`MemcachedParser::skip`]).
        skipped: u64,
    },
    /// An invalid request. The reply is a line without its end; empty if none is wanted.
    Refused {
        /// The reply.
        reply: &'static str,
        /// Bytes that it takes.
        consumed: usize,
        /// Number of bytes after it that have to be skipped.
        skipped: u64,
    },
    /// Bytes that had to be skipped.
    Skipped {
        /// Number of bytes.
        consumed: usize,
    },
    /// More input is needed.
    Incomplete,
    /// A line that is too long: the following input cannot be interpreted.
    Broken,
    /// A line of HTTP: the following input is not meant for this server.
    Http,
}

/// The parser of one connection.
#[derive(Debug, Default)]
pub struct MemcachedParser {
    /// Number of bytes of the input that are known to contain no line end.
    scanned: usize,
    /// Number of bytes needed, if known.
    bytes_wanted: usize,
    /// Number of bytes still to be skipped.
    to_skip: u64,
    /// The last request's key, decoded from base64.
    key: Vec<u8>,
    /// Whether the last request's key was in base64.
    has_binary_key: bool,
}

impl MemcachedParser {
    /// Length of the request at the front of the input, as far as it is known.
    #[must_use]
    pub fn bytes_wanted(&self) -> usize {
        self.bytes_wanted
    }

    /// Skips this many bytes of the following input.
    pub fn skip(&mut self, bytes: u64) {
        self.to_skip = bytes;
    }

    /// The decoded key of the last request if it was in base64; empty if it was invalid.
    #[must_use]
    pub fn binary_key(&self) -> Option<&[u8]> {
        self.has_binary_key.then_some(&self.key)
    }

    /// Parses the front of the input and adds the words of a request to `words`.
    pub fn parse<'i>(&mut self, input: &'i [u8], limits: ItemLimits, words: &mut Words<'i>) -> Parsed {
        if self.to_skip > 0 {
            let consumed = usize::try_from(self.to_skip).unwrap_or(usize::MAX).min(input.len());
            self.to_skip -= consumed as u64;
            return if consumed == 0 { Parsed::Incomplete } else { Parsed::Skipped { consumed } };
        }
        if input.len() < self.bytes_wanted {
            return Parsed::Incomplete;
        }
        let Some(end) = memchr::memchr(b'\n', &input[self.scanned..]) else {
            self.scanned = input.len();
            return if is_too_long(input, limits) { Parsed::Broken } else { Parsed::Incomplete };
        };
        let line_bytes = self.scanned + end + 1;
        // The same result as if the line had arrived in pieces.
        if line_bytes > LINE_BYTES_MAX && is_too_long(&input[..line_bytes - 1], limits) {
            return Parsed::Broken;
        }
        let line = match &input[..line_bytes - 1] {
            [line @ .., b'\r'] if !line.is_empty() => line,
            line => line,
        };
        let parsed = Request { parser: self, input, line_bytes, limits, words }.parse(line);
        if parsed != Parsed::Incomplete {
            (self.scanned, self.bytes_wanted) = (0, 0);
        }
        parsed
    }
}

/// Whether a line (without its end) exceeds the limit.
fn is_too_long(line: &[u8], limits: ItemLimits) -> bool {
    let indent = line.iter().position(|&byte| byte != b' ').unwrap_or(line.len());
    let asks_for_many = limits.takes_long_lines
        && indent <= INDENT_MAX
        && (line[indent..].starts_with(b"get ") || line[indent..].starts_with(b"gets "));
    line.len() > if asks_for_many { LONG_LINE_BYTES_MAX } else { LINE_BYTES_MAX }
}

/// Whether the last word of a request's line says that no reply is wanted.
#[inline]
#[must_use]
pub fn has_noreply(words: &[&[u8]]) -> bool {
    words.last().is_some_and(|word| *word == b"noreply")
}

/// A request while it is parsed.
struct Request<'p, 'w, 'i> {
    parser: &'p mut MemcachedParser,
    input: &'i [u8],
    /// Length of the line, including its end.
    line_bytes: usize,
    limits: ItemLimits,
    words: &'w mut Words<'i>,
}

impl<'i> Request<'_, '_, 'i> {
    #[inline]
    fn parse(mut self, line: &'i [u8]) -> Parsed {
        // A line ends at a zero byte, as C strings do.
        let line = memchr::memchr(0, line).map_or(line, |end| &line[..end]);
        self.words.extend(line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()));
        let count = self.words.len();
        let verb = self.words.first().filter(|word| word.len() >= 2).and_then(|word| Verb::of(word));
        let Some(verb) = verb.filter(|verb| word_counts(*verb).contains(&count)) else {
            if self.words.first().is_some_and(|word| is_http(word)) {
                return Parsed::Http;
            }
            let is_shutdown = self.words.first().is_some_and(|word| *word == b"shutdown");
            return self.refuse(if is_shutdown { "ERROR: shutdown not enabled" } else { "ERROR" });
        };
        self.parser.has_binary_key = false;
        match verb {
            Verb::Get | Verb::Gets => self.with_keys(verb, 1),
            Verb::Gat | Verb::Gats => self.with_keys(verb, 2),
            Verb::Set | Verb::Add | Verb::Replace | Verb::Append | Verb::Prepend | Verb::Cas => {
                self.storage(verb)
            }
            Verb::Touch | Verb::Incr | Verb::Decr => match self.key_is_too_long() {
                true => self.refuse_loudly(BAD_FORMAT, has_noreply(self.words)),
                false => self.request(verb),
            },
            Verb::Delete => self.delete(),
            Verb::MetaGet | Verb::MetaDelete | Verb::MetaArithmetic => self.meta(verb, 2),
            Verb::MetaSet => self.meta_set(),
            Verb::MetaDebug => self.meta_debug(),
            Verb::FlushAll
            | Verb::Stats
            | Verb::Version
            | Verb::Verbosity
            | Verb::CacheMemlimit
            | Verb::Quit
            | Verb::MetaNoop
            | Verb::TooLarge => self.request(verb),
        }
    }

    /// A request that consists of its line only.
    #[inline]
    fn request(&self, verb: Verb) -> Parsed {
        Parsed::Request { verb, consumed: self.line_bytes, skipped: 0 }
    }

    fn refuse(&mut self, reply: &'static str) -> Parsed {
        self.words.clear();
        Parsed::Refused { reply, consumed: self.line_bytes, skipped: 0 }
    }

    /// Refuses a request; if it has `noreply`, without a reply.
    fn refuse_loudly(&mut self, reply: &'static str, has_noreply: bool) -> Parsed {
        self.refuse(if has_noreply { "" } else { reply })
    }

    fn key_is_too_long(&self) -> bool {
        self.words.get(1).is_some_and(|key| key.len() > KEY_BYTES_MAX)
    }

    fn with_keys(&mut self, verb: Verb, first: usize) -> Parsed {
        // An invalid time is reported first.
        let has_time = first == 1 || parse_i32(self.words[1]).is_some();
        if has_time && self.words[first..].iter().any(|key| key.len() > KEY_BYTES_MAX) {
            return self.refuse(BAD_FORMAT);
        }
        self.request(verb)
    }

    fn delete(&mut self) -> Parsed {
        const USAGE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
        let is_right = matches!(self.words[2..], [] | [b"0" | b"noreply"] | [b"0", b"noreply"]);
        let has_noreply = self.words.len() > 2 && has_noreply(self.words);
        match (is_right, self.key_is_too_long()) {
            (false, _) => self.refuse_loudly(USAGE, has_noreply),
            (true, true) => self.refuse_loudly(BAD_FORMAT, has_noreply),
            (true, false) => self.request(Verb::Delete),
        }
    }

    /// `<verb> <key> <flags> <exptime> <bytes> [<cas>] [noreply]`
    fn storage(&mut self, verb: Verb) -> Parsed {
        let words = &self.words[..];
        let noreply = has_noreply(words);
        let length = parse_i32(words[4]).and_then(|length| usize::try_from(length).ok());
        let is_right = !self.key_is_too_long()
            && parse_u32(words[2]).is_some()
            && parse_i32(words[3]).is_some()
            && (verb != Verb::Cas || parse_u64(words[5]).is_some());
        let (Some(length), true) = (length.filter(|length| *length <= i32::MAX as usize - 2), is_right)
        else {
            return self.refuse_loudly(BAD_FORMAT, noreply);
        };
        if !self.limits.allow(words[1].len(), length, parse_u32(words[2]).unwrap_or(0)) {
            return Parsed::Request {
                verb: Verb::TooLarge,
                consumed: self.line_bytes,
                skipped: length as u64 + 2,
            };
        }
        self.with_value(verb, length, noreply)
    }

    /// A request with a value, which becomes the last word.
    fn with_value(&mut self, verb: Verb, length: usize, is_silent: bool) -> Parsed {
        let consumed = self.line_bytes + length + 2;
        let Some(block) = self.input.get(self.line_bytes..consumed) else {
            self.parser.bytes_wanted = consumed;
            self.words.clear();
            return Parsed::Incomplete;
        };
        let Some(value) = block.strip_suffix(b"\r\n") else {
            self.words.clear();
            return Parsed::Refused { reply: if is_silent { "" } else { BAD_CHUNK }, consumed, skipped: 0 };
        };
        self.words.push(value);
        Parsed::Request { verb, consumed, skipped: 0 }
    }

    /// A meta command with flags from word `start` on.
    fn meta(&mut self, verb: Verb, start: usize) -> Parsed {
        if self.key_is_too_long() {
            return self.refuse(BAD_FORMAT);
        }
        if self.words[start..].iter().any(|word| word[0] == b'b') {
            self.decode_key();
        }
        self.request(verb)
    }

    fn decode_key(&mut self) {
        let parser = &mut *self.parser;
        parser.key.clear();
        if !base64::decode(self.words[1], &mut parser.key) {
            parser.key.clear();
        }
        parser.has_binary_key = true;
    }

    fn meta_debug(&mut self) -> Parsed {
        if self.words.len() < 2 || self.key_is_too_long() {
            return self.refuse(BAD_FORMAT);
        }
        if self.words.get(2).is_some_and(|word| *word == b"b") {
            self.decode_key();
            if self.parser.key.is_empty() {
                return self.refuse(BAD_FORMAT);
            }
        }
        self.request(Verb::MetaDebug)
    }

    /// `ms <key> <bytes> <flag>*`
    fn meta_set(&mut self) -> Parsed {
        const WORDS_MAX: usize = 19;
        if self.key_is_too_long() || self.words.len() == 2 {
            return self.refuse(BAD_FORMAT);
        }
        if self.words.len() > WORDS_MAX {
            return self.refuse("CLIENT_ERROR options flags too long");
        }
        let length = parse_i32(self.words[2]).and_then(|length| usize::try_from(length).ok());
        let Some(length) = length.filter(|length| *length <= i32::MAX as usize - 2) else {
            return self.refuse(BAD_FORMAT);
        };
        self.meta(Verb::MetaSet, 3);
        let key = self.parser.binary_key().unwrap_or(self.words[1]);
        let mut shown = self.words.clone();
        if key.is_empty() {
            shown[1] = b"";
        }
        // The value of an invalid request is skipped.
        let flags = match MetaFlags::parse(Verb::MetaSet, &shown) {
            Ok(flags) => flags,
            Err(reply) => {
                let skipped = length as u64 + 2;
                self.words.clear();
                return Parsed::Refused { reply, consumed: self.line_bytes, skipped };
            }
        };
        if !self.limits.allow(key.len(), length, flags.client_flags) {
            let (consumed, skipped) = (self.line_bytes, length as u64 + 2);
            return Parsed::Request { verb: Verb::TooLarge, consumed, skipped };
        }
        self.with_value(Verb::MetaSet, length, false)
    }
}

/// Allowed number of words of a request.
fn word_counts(verb: Verb) -> std::ops::RangeInclusive<usize> {
    const ANY: usize = usize::MAX;
    match verb {
        Verb::Get | Verb::Gets | Verb::Gat | Verb::Gats => 2..=ANY,
        Verb::Set | Verb::Add | Verb::Replace | Verb::Append | Verb::Prepend => 5..=6,
        Verb::Cas => 6..=7,
        Verb::Touch | Verb::Incr | Verb::Decr => 3..=4,
        Verb::Delete => 2..=4,
        Verb::FlushAll => 1..=3,
        Verb::Verbosity | Verb::CacheMemlimit => 2..=3,
        Verb::MetaGet | Verb::MetaSet | Verb::MetaDelete | Verb::MetaArithmetic => 2..=ANY,
        Verb::Stats | Verb::Version | Verb::Quit | Verb::MetaNoop | Verb::MetaDebug | Verb::TooLarge => {
            1..=ANY
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ItemLimits = ItemLimits { item_bytes_max: 1 << 20, takes_long_lines: true };

    /// The results of parsing `input`: verbs with their words, and replies of refused requests.
    fn read(input: &[u8], piece: usize) -> Vec<String> {
        let (mut parser, mut seen, mut from) = (MemcachedParser::default(), Vec::new(), 0);
        for end in (0..=input.len()).step_by(piece).chain([input.len()]) {
            loop {
                let mut words = Words::new();
                let consumed = match parser.parse(&input[from..end], LIMITS, &mut words) {
                    Parsed::Request { verb, consumed, skipped } => {
                        let words: Vec<_> =
                            words.iter().map(|word| word.escape_ascii().to_string()).collect();
                        seen.push(format!("{verb:?} {}", words.join(" ")));
                        parser.skip(skipped);
                        consumed
                    }
                    Parsed::Refused { reply, consumed, skipped } => {
                        seen.push(format!("! {reply}"));
                        parser.skip(skipped);
                        consumed
                    }
                    Parsed::Skipped { consumed } => consumed,
                    Parsed::Incomplete => break,
                    ended @ (Parsed::Broken | Parsed::Http) => {
                        seen.push(format!("{ended:?}").to_lowercase());
                        return seen;
                    }
                };
                from += consumed;
            }
        }
        seen
    }

    #[track_caller]
    fn check(input: &str, expected: &[&str]) {
        for piece in [1, 2, 7, input.len()] {
            assert_eq!(read(input.as_bytes(), piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn requests_are_found() {
        check("get a b\r\nversion\n", &["Get get a b", "Version version"]);
        check("set k 1 0 3\r\na\r\n\r\nmn\r\n", &["Set set k 1 0 3 a\\r\\n", "MetaNoop mn"]);
        check("ms k 2 T0\r\nhi\r\n  mg   k  v \r\n", &["MetaSet ms k 2 T0 hi", "MetaGet mg k v"]);
        check("get a\0b c\r\n", &["Get get a"]);
        check("bget k\r\n", &["Get bget k"]);
    }

    #[test]
    fn what_is_wrong_is_refused_and_what_follows_is_read() {
        let (bad, error) = ("! CLIENT_ERROR bad command line format", "! ERROR");
        check("\r\n\na\r\nGET k\r\nget\r\n", &[error; 5]);
        check("set k 0 0 x\r\nabc\r\n", &[bad, error]);
        check("set k 0 0 -1 noreply\r\nmn\r\n", &["! ", "MetaNoop mn"]);
        check("set k 0 0 1\r\nabc\r\n", &["! CLIENT_ERROR bad data chunk", error]);
        check("ms k 1 q\r\nabc\r\n", &["! CLIENT_ERROR bad data chunk", error]);
        check("ms k 1 !\r\nabcmn\r\n", &["! CLIENT_ERROR invalid flag", "MetaNoop mn"]);
        check("shutdown\r\n", &["! ERROR: shutdown not enabled"]);
        check("delete k 1 noreply\r\ndelete k 0\r\n", &["! ", "Delete delete k 0"]);
        let long = "k".repeat(251);
        check(&format!("get a {long}\r\nincr {long} 1\r\nms {long} 1\r\n"), &[bad; 3]);
        check(&format!("get {}\r\n", &long[1..]), &[&format!("Get get {}", &long[1..])]);
    }

    #[test]
    fn a_value_that_is_too_large_is_passed_over() {
        let value = "x".repeat(1 << 20);
        for (line, seen) in
            [("set k 0 0 1048576", "TooLarge set k 0 0 1048576"), ("ms k 1048576", "TooLarge ms k 1048576")]
        {
            let input = format!("{line}\r\n{value}\r\nmn\r\n");
            assert_eq!(read(input.as_bytes(), 4096), [seen, "MetaNoop mn"]);
        }
        assert!(LIMITS.allow(1, (1 << 20) - 60, 0) && !LIMITS.allow(1, (1 << 20) - 59, 0));
        assert!(LIMITS.allow(1, (1 << 20) - 64, 1) && !LIMITS.allow(1, (1 << 20) - 63, 1));
    }

    #[test]
    fn a_line_without_an_end_is_given_up() {
        assert_eq!(read(&[b'x'; LINE_BYTES_MAX], 100), [""; 0]);
        assert_eq!(read(&[b'x'; LINE_BYTES_MAX + 1], 100), ["broken"]);
        let ended = [&[b'x'; LINE_BYTES_MAX + 1][..], b"\n"].concat();
        assert_eq!(read(&ended, ended.len()), ["broken"]);
        let many = [&b"get "[..], &[b'x'; LONG_LINE_BYTES_MAX]].concat();
        assert_eq!(read(&many, 1 << 16), ["broken"]);
        assert_eq!(read(&many[..LONG_LINE_BYTES_MAX], 1 << 16), [""; 0]);
    }

    #[test]
    fn keys_in_base64_are_decoded() {
        let key = |line: &[u8]| {
            let mut parser = MemcachedParser::default();
            parser.parse(line, LIMITS, &mut Words::new());
            parser.binary_key().map(<[u8]>::to_vec)
        };
        assert_eq!(key(b"mg aGVsbG8= v b\r\n"), Some(b"hello".to_vec()));
        assert_eq!(key(b"mg aGVsbG8 b\r\n"), Some(Vec::new()));
        assert_eq!(key(b"mg aGVsbG8=\r\n"), None);
    }
}
