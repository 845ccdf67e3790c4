//! Parses requests: arrays of bulk strings, or inline lines.
//!
//! The caller keeps what it received in one buffer and passes it to [`RequestParser::parse`] after every read, from the
//! first byte not yet consumed. The parser remembers its position, so input that trickles in byte by byte costs as much
//! in total as input in one piece. A complete small request is one forward scan that allocates nothing: arguments are
//! stored as ranges of the caller's buffer.
//!
//! As in Redis, a first byte other than `*` begins an inline line, which ends at LF. Every other line ends at its first CR, and
//! the byte after a CR and the two bytes after a bulk are skipped unchecked. A line without an end within `inline_bytes_max` +
//! 1 bytes is refused. Redis searches its whole buffer for the end, and so accepts longer lines if they arrive at once; here
//! the result does not depend on how the input was split. Redis also stops searching at a NUL, which is an ordinary byte here.
//!
//! After an error the connection has to be closed, because the beginning of the next request is unknown.

use std::ops::Range;

use smallvec::{Array, SmallVec};

use crate::inline::{ArgSpan, split_into};
use crate::integer::parse_integer;

/// Limits of a client that has not authenticated.
const UNAUTHENTICATED_ARGS_MAX: i64 = 10;
const UNAUTHENTICATED_BULK_BYTES_MAX: i64 = 16 * 1024;
/// Argument ranges beyond this capacity are freed before the next request.
const ARGS_KEPT_MAX: usize = 1024;
/// A buffer for inline arguments beyond this capacity is freed before the next request.
const INLINE_BYTES_KEPT_MAX: usize = 4 * 1024;

/// Maximum number of arguments that [`RequestParser::parse_whole`] handles: no more than any client may send.
const WHOLE_ARGS_MAX: usize = UNAUTHENTICATED_ARGS_MAX as usize;
/// Longest line that `short_length` reads: a type byte, seven digits, CR, LF.
const SHORT_LINE_BYTES_MAX: usize = 10;

/// Maximum value of [`Limits::bulk_bytes_max`]. Lengths of keys, elements and strings in snapshots have 32 bits, of
/// which a little is reserved for what is stored beside them.
pub const BULK_BYTES_LIMIT: u64 = u32::MAX as u64 - (1 << 20) + 1;

/// Limits on requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest bulk string (`proto-max-bulk-len`), at most [`BULK_BYTES_LIMIT`].
    pub bulk_bytes_max: u64,
    /// Longest line: an inline request, or the line of a length.
    pub inline_bytes_max: usize,
    /// Maximum number of arguments of one request.
    pub args_max: i64,
    /// Whether the client may send large requests. Before authentication, it may send 10 arguments of 16 KiB.
    pub authenticated: bool,
}

impl Default for Limits {
    /// Redis 7's limits.
    fn default() -> Limits {
        Limits {
            bulk_bytes_max: 512 * 1024 * 1024,
            inline_bytes_max: 64 * 1024,
            args_max: i64::from(i32::MAX),
            authenticated: true,
        }
    }
}

/// Result of parsing the input so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The beginning of a request.
    Incomplete,
    /// A request; [`RequestParser::args`] returns its arguments.
    Request {
        /// Bytes that it takes at the front of the input.
        consumed: usize,
    },
    /// An empty line or an array without elements: nothing to run and nothing to reply.
    Empty {
        /// Bytes that it takes at the front of the input.
        consumed: usize,
    },
}

/// A violation of the protocol. The text follows `ERR Protocol error: `.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The line with the number of arguments does not end.
    #[error("too big mbulk count string")]
    CountLineTooLong,
    /// The number of arguments is not a number or is too large.
    #[error("invalid multibulk length")]
    InvalidCount,
    /// Too many arguments for a client that has not authenticated.
    #[error("unauthenticated multibulk length")]
    UnauthenticatedCount,
    /// The line with a bulk's length does not end.
    #[error("too big bulk count string")]
    LengthLineTooLong,
    /// An argument that is not a bulk string; holds the byte found in place of `$`.
    #[error("expected '$', got '{}'", char::from(*.0))]
    ExpectedBulk(u8),
    /// The length of a bulk is not a number, is negative or is too large.
    #[error("invalid bulk length")]
    InvalidLength,
    /// Too long an argument for a client that has not authenticated.
    #[error("unauthenticated bulk length")]
    UnauthenticatedLength,
    /// An inline line that does not end.
    #[error("too big inline request")]
    InlineTooLong,
    /// An inline line with an open quote, or with text right after a closing quote.
    #[error("unbalanced quotes in request")]
    UnbalancedQuotes,
}

impl ProtocolError {
    /// The text of the error reply.
    pub fn reply(&self) -> Vec<u8> {
        // The byte that the client sent is one character of the text.
        format!("ERR Protocol error: {self}").chars().map(|char| char as u8).collect()
    }
}

/// What the parser expects at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Stage {
    /// The first byte of a request.
    #[default]
    Start,
    /// A line of words.
    Inline,
    /// `*<count>`.
    Count,
    /// `$<length>`.
    Length,
    /// This many bytes and a line end.
    Body(usize),
}

/// Parses the requests of one connection.
#[derive(Debug, Default)]
pub struct RequestParser {
    stage: Stage,
    /// Offset in the input up to which everything is parsed.
    position: usize,
    /// Bytes after `position` that are known to contain no line end.
    scanned: usize,
    args_left: i64,
    args: SmallVec<[ArgSpan; 8]>,
    bytes_wanted: usize,
    /// The unquoted arguments of an inline request, to which `args` then refers.
    inline: Vec<u8>,
    is_inline: bool,
}

/// Result of reading a line with a length.
enum Line {
    Incomplete,
    TooLong,
    /// The number, if it is valid, and the length of the line including its end.
    Complete(Option<i64>, usize),
}

impl RequestParser {
    /// A parser at the beginning of a connection. Allocates nothing.
    #[must_use]
    pub fn new() -> RequestParser {
        RequestParser::default()
    }

    /// Continues parsing. `input` is everything received and not yet consumed: if the last call returned
    /// [`Parsed::Incomplete`], at least its bytes, and what has arrived since.
    ///
    /// # Errors
    /// The error to be sent before the connection is closed.
    #[inline]
    pub fn parse(&mut self, input: &[u8], limits: &Limits) -> Result<Parsed, ProtocolError> {
        if self.stage == Stage::Start {
            let Some(&first) = input.first() else { return Ok(Parsed::Incomplete) };
            self.start(first);
        }
        let result = match self.stage {
            Stage::Inline => self.parse_inline(input, limits),
            _ => self.parse_array(input, limits),
        };
        if !matches!(result, Ok(Parsed::Incomplete)) {
            self.stage = Stage::Start;
        }
        result
    }

    /// Fast path: parses the request at the front of `input` if it is ordinary and complete. Puts its arguments into
    /// `out` and returns the bytes that it takes. Otherwise returns `None`, and `parse` has to be called. Nearly all
    /// requests are parsed this way, without storing ranges.
    #[inline]
    pub fn parse_whole<'a, A: Array<Item = &'a [u8]>>(
        &self,
        input: &'a [u8],
        limits: &Limits,
        out: &mut SmallVec<A>,
    ) -> Option<usize> {
        if self.stage != Stage::Start || input.first() != Some(&b'*') {
            return None;
        }
        let (count, line_bytes) = short_length(input)?;
        let length_max = limits.bulk_bytes_max.min(UNAUTHENTICATED_BULK_BYTES_MAX as u64) as usize;
        let count = usize::try_from(count).ok()?;
        if count == 0 || count > WHOLE_ARGS_MAX || limits.inline_bytes_max < SHORT_LINE_BYTES_MAX {
            return None;
        }
        out.clear();
        let mut rest = &input[line_bytes..];
        for _ in 0..count {
            let (length, line_bytes) = short_length(rest)?;
            let length = length as usize;
            if rest[0] != b'$' || length > length_max {
                return None;
            }
            let (bulk, after) = rest.split_at_checked(line_bytes + length + 2)?;
            out.push(&bulk[line_bytes..line_bytes + length]);
            rest = after;
        }
        Some(input.len() - rest.len())
    }

    /// Forgets all parsed input, as if newly created.
    pub fn reset(&mut self) {
        *self = RequestParser::new();
    }

    /// Number of arguments of the request just parsed.
    #[inline]
    #[must_use]
    pub fn arg_count(&self) -> usize {
        self.args.len()
    }

    /// Replaces the contents of `out` by the arguments of the request just parsed. `input` is what
    /// [`RequestParser::parse`] was given. Must be called before the next call of `parse`.
    #[inline]
    pub fn args<'a>(&'a self, input: &'a [u8], out: &mut SmallVec<[&'a [u8]; 16]>) {
        let buffer = if self.is_inline { &self.inline } else { input };
        out.clear();
        out.extend(self.args.iter().map(|span| span.of(buffer)));
    }

    /// The ranges in `input` of the arguments of the request just parsed; see [`RequestParser::args`]. The arguments of
    /// an inline request, which may be quoted, are returned as one range.
    pub fn words<A: Array<Item = Range<usize>>>(&self, input: &[u8]) -> SmallVec<A> {
        if self.is_inline {
            return std::iter::once(0..input.trim_ascii_end().len()).collect();
        }
        self.args.iter().map(|span| span.start..span.start + span.length).collect()
    }

    /// Number of bytes beyond the last call's input that the incomplete bulk still needs; 0 if there is none. A hint
    /// for reserving space. The client has only announced them: reserve no more than you would grant anyway.
    #[must_use]
    pub fn bytes_wanted(&self) -> usize {
        self.bytes_wanted
    }

    #[inline]
    fn start(&mut self, first: u8) {
        self.position = 0;
        self.scanned = 0;
        self.bytes_wanted = 0;
        self.args.clear();
        self.is_inline = first != b'*';
        self.stage = if self.is_inline { Stage::Inline } else { Stage::Count };
        if self.args.capacity() > ARGS_KEPT_MAX {
            self.args = SmallVec::new();
        }
        if self.inline.capacity() > INLINE_BYTES_KEPT_MAX {
            self.inline = Vec::new();
        }
    }

    fn parse_array(&mut self, input: &[u8], limits: &Limits) -> Result<Parsed, ProtocolError> {
        if self.stage == Stage::Count {
            let (count, line_bytes) = match self.length_line(input, limits) {
                Line::Complete(count, line_bytes) => (count, line_bytes),
                Line::Incomplete => return Ok(Parsed::Incomplete),
                Line::TooLong => return Err(ProtocolError::CountLineTooLong),
            };
            let count = count.filter(|&count| count <= limits.args_max).ok_or(ProtocolError::InvalidCount)?;
            if count > UNAUTHENTICATED_ARGS_MAX && !limits.authenticated {
                return Err(ProtocolError::UnauthenticatedCount);
            }
            self.advance(line_bytes);
            if count <= 0 {
                return Ok(Parsed::Empty { consumed: self.position });
            }
            self.args_left = count;
            self.stage = Stage::Length;
        }
        while self.args_left > 0 {
            let length = match self.stage {
                Stage::Body(length) => length,
                _ => match self.bulk_length(input, limits)? {
                    Some(length) => length,
                    None => return Ok(Parsed::Incomplete),
                },
            };
            let available = input.len() - self.position;
            if available < length + 2 {
                self.stage = Stage::Body(length);
                self.bytes_wanted = length + 2 - available;
                return Ok(Parsed::Incomplete);
            }
            self.args.push(ArgSpan { start: self.position, length });
            self.advance(length + 2);
            self.args_left -= 1;
            self.stage = Stage::Length;
        }
        self.bytes_wanted = 0;
        Ok(Parsed::Request { consumed: self.position })
    }

    /// Parses `$<length>` and advances past it; `None` if its line is incomplete.
    #[inline]
    fn bulk_length(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        let (length, line_bytes) = match self.length_line(input, limits) {
            Line::Complete(length, line_bytes) => (length, line_bytes),
            Line::Incomplete => {
                self.bytes_wanted = 0;
                return Ok(None);
            }
            Line::TooLong => return Err(ProtocolError::LengthLineTooLong),
        };
        let kind = input[self.position];
        if kind != b'$' {
            return Err(ProtocolError::ExpectedBulk(kind));
        }
        let length = length
            .filter(|&length| u64::try_from(length).is_ok_and(|length| length <= limits.bulk_bytes_max))
            .ok_or(ProtocolError::InvalidLength)?;
        if length > UNAUTHENTICATED_BULK_BYTES_MAX && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedLength);
        }
        self.advance(line_bytes);
        usize::try_from(length).map(Some).map_err(|_| ProtocolError::InvalidLength)
    }

    #[inline]
    fn advance(&mut self, bytes: usize) {
        self.position += bytes;
        // `scanned` is only valid for the current position.
        if bytes > 0 {
            self.scanned = 0;
        }
    }

    /// Parses the line at `position`, whose first byte is its type, without advancing.
    #[inline]
    fn length_line(&mut self, input: &[u8], limits: &Limits) -> Line {
        let rest = &input[self.position..];
        match short_length(rest) {
            Some((length, line_bytes)) if line_bytes <= limits.inline_bytes_max => {
                Line::Complete(Some(length), line_bytes)
            }
            _ => self.long_length_line(rest, limits),
        }
    }

    #[cold]
    fn long_length_line(&mut self, rest: &[u8], limits: &Limits) -> Line {
        match self.find_in_line(b'\r', rest, limits) {
            // The byte after the CR must have arrived, whatever it is.
            Ok(Some(end)) if end + 1 < rest.len() => {
                // If a lone CR replaces the type byte, there is no text at all.
                Line::Complete(rest.get(1..end).and_then(parse_integer), end + 2)
            }
            Ok(_) => Line::Incomplete,
            Err(LineTooLong) => Line::TooLong,
        }
    }

    /// The offset in `rest` of the first `end`, which must be within the limit for lines. Examines no byte twice.
    fn find_in_line(&mut self, end: u8, rest: &[u8], limits: &Limits) -> Result<Option<usize>, LineTooLong> {
        let window = &rest[..rest.len().min(limits.inline_bytes_max.saturating_add(1))];
        let unseen = window.get(self.scanned..).unwrap_or_default();
        if let Some(offset) = memchr::memchr(end, unseen) {
            let found = self.scanned + offset;
            // The CR may be found again while the byte after it is missing.
            self.scanned = found;
            return Ok(Some(found));
        }
        self.scanned = self.scanned.max(window.len());
        if window.len() > limits.inline_bytes_max { Err(LineTooLong) } else { Ok(None) }
    }

    fn parse_inline(&mut self, input: &[u8], limits: &Limits) -> Result<Parsed, ProtocolError> {
        let end = match self.find_in_line(b'\n', input, limits) {
            Ok(Some(end)) => end,
            Ok(None) => return Ok(Parsed::Incomplete),
            Err(LineTooLong) => return Err(ProtocolError::InlineTooLong),
        };
        self.inline.clear();
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        split_into(line, &mut self.inline, |span| self.args.push(span))
            .ok_or(ProtocolError::UnbalancedQuotes)?;
        let consumed = end + 1;
        Ok(if self.args.is_empty() { Parsed::Empty { consumed } } else { Parsed::Request { consumed } })
    }
}

/// A line has no end within the limit.
struct LineTooLong;

/// Fast path for the usual line: a type byte, up to seven digits, CR, and any byte. Returns the number and the length of the line.
#[inline]
fn short_length(rest: &[u8]) -> Option<(i64, usize)> {
    let [_, first @ b'0'..=b'9', after @ ..] = rest else { return None };
    if let [b'\r', _, ..] = after {
        return Some((i64::from(first - b'0'), 4));
    }
    let mut length = i64::from(first - b'0');
    for (index, &byte) in after.iter().take(7).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            length = length * 10 + i64::from(digit);
            continue;
        }
        let is_canonical = *first != b'0';
        let is_whole = byte == b'\r' && index + 1 < after.len();
        return (is_canonical && is_whole).then_some((length, index + 4));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProtocolError as E;

    /// The arguments of each request at the front of `input`, then an error if one follows. Empty requests have no arguments.
    fn requests(input: &[u8], limits: &Limits) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let mut parser = RequestParser::new();
        let mut rest = input;
        let mut found = Vec::new();
        loop {
            let consumed = match parser.parse(rest, limits)? {
                Parsed::Incomplete => return Ok(found),
                Parsed::Empty { consumed } => {
                    found.push(Vec::new());
                    consumed
                }
                Parsed::Request { consumed } => {
                    let mut args = SmallVec::new();
                    parser.args(rest, &mut args);
                    assert_eq!(args.len(), parser.arg_count());
                    let mut whole = SmallVec::new();
                    if let Some(whole_bytes) = parser.parse_whole(rest, limits, &mut whole) {
                        assert_eq!((whole, whole_bytes), (args.clone(), consumed));
                    }
                    found.push(args.iter().map(|arg| arg.to_vec()).collect());
                    consumed
                }
            };
            rest = &rest[consumed..];
        }
    }

    /// `expected` has requests separated by `;`, and arguments by `,`.
    fn check(input: &[u8], expected: &str) {
        let found = requests(input, &Limits::default()).expect("the input is a request");
        let shown: Vec<String> = found
            .iter()
            .map(|args| args.iter().map(|arg| arg.escape_ascii().to_string()).collect::<Vec<_>>().join(","))
            .collect();
        assert_eq!(shown.join(";"), expected, "{}", input.escape_ascii());
    }

    fn check_error(input: &[u8], expected: ProtocolError) {
        assert_eq!(requests(input, &Limits::default()), Err(expected), "{}", input.escape_ascii());
    }

    #[test]
    fn arrays_of_bulk_strings() {
        check(b"", "");
        check(b"*1\r\n$4\r\nPING\r\n", "PING");
        check(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n", "GET,k;PING");
        check(b"*2\r\n$0\r\n\r\n$5\r\na\r\nb\x00\r\n", r",a\r\nb\x00");
        check(b"*0\r\n*-1\r\n*-7\r\n*1\r\n$1\r\nx\r\n", ";;;x");
        check(b"*1\rX$4\rYPINGzz", "PING");
        check(b"*1\r\n$4\r\nPING\r", "");
        check(b"*1\n", "");
        check(b"*1\r\nx", "");
        check(b"*2147483647\r\n", "");
        check(b"*1\r\n$536870912\r\n", "");
        let long = [b"*1\r\n$1234567\r\n".to_vec(), vec![b'a'; 1_234_567], b"\r\n".to_vec()].concat();
        assert_eq!(requests(&long, &Limits::default()), Ok(vec![vec![vec![b'a'; 1_234_567]]]));
        let many =
            [b"*5000\r\n".to_vec(), b"$1\r\na\r\n".repeat(5000), b"*1\r\n$1\r\nb\r\n".to_vec()].concat();
        let found = requests(&many, &Limits::default()).expect("both requests are whole");
        assert_eq!(found, [vec![b"a".to_vec(); 5000], vec![b"b".to_vec()]]);
    }

    #[test]
    fn inline_lines() {
        check(b"PING\r\n", "PING");
        check(b"PING\nGET k\r\n", "PING;GET,k");
        check(b"\n\r\n  \r\nPING\n", ";;;PING");
        check(b"PING\r", "");
        check(b"a\rb\r\r\n", "a,b");
        check(b" *1\r\n+PING\r\n", "*1;+PING");
        check(b"SET \"a b\\x00\" ''\r\n\"\"\n", r"SET,a b\x00,;");
        check(b"a\x00b\n", r"a\x00b");
    }

    #[test]
    fn malformed_requests() {
        for count in ["", "x", "01", "-0", "+1", " 1", "1 ", "2147483648", "9223372036854775808", "00"] {
            check_error(format!("*{count}\r\n").as_bytes(), E::InvalidCount);
        }
        for length in ["", "x", "04", "-1", "+1", " 1", "536870913", "9223372036854775807", "1:"] {
            check_error(format!("*1\r\n${length}\r\n").as_bytes(), E::InvalidLength);
        }
        check_error(b"*1\r\nx\r\n", E::ExpectedBulk(b'x'));
        check_error(b"*1\r\n\r\n", E::ExpectedBulk(b'\r'));
        check_error(b"*2\r\n$1\r\na\r\n:1\r\n", E::ExpectedBulk(b':'));
        check_error(b"echo \"a\r\n", E::UnbalancedQuotes);
        check_error(b"*1\r\n$1\r\na\r\necho 'a'b\r\n", E::UnbalancedQuotes);
    }

    #[test]
    fn endless_lines() {
        let line = |head: &str, length: usize| [head.as_bytes(), &vec![b'1'; length]].concat();
        check(&line("*", 65535), "");
        check_error(&line("*", 65536), E::CountLineTooLong);
        check(&line("*1\r\n$", 65535), "");
        check_error(&line("*1\r\n$", 65536), E::LengthLineTooLong);
        check(&line("", 65536), "");
        check_error(&line("", 65537), E::InlineTooLong);
        check_error(&[line("", 65537), b"\n".to_vec()].concat(), E::InlineTooLong);
        check_error(&[line("*", 65535), b"\r\n".to_vec()].concat(), E::InvalidCount);
        let widest = [line("", 65536), b"\n".to_vec()].concat();
        assert_eq!(requests(&widest, &Limits::default()), Ok(vec![vec![vec![b'1'; 65536]]]));
    }

    #[test]
    fn clients_without_password_send_little() {
        let limits = Limits { authenticated: false, ..Limits::default() };
        let check = |input: &str, expected| assert_eq!(requests(input.as_bytes(), &limits), expected);
        check("*10\r\n$16384\r\n", Ok(vec![]));
        check("*11\r\n", Err(E::UnauthenticatedCount));
        check("*2147483648\r\n", Err(E::InvalidCount));
        check("*1\r\n$16385\r\n", Err(E::UnauthenticatedLength));
        check("*1\r\n$536870913\r\n", Err(E::InvalidLength));
    }

    #[test]
    fn a_line_scanned_in_part_leaves_no_trace_on_the_next() {
        let mut parser = RequestParser::new();
        let input = b"*2\r\n$12\r\nabcdefghijkl\r\n$x\r\n";
        assert_eq!(parser.parse(&input[..7], &Limits::default()), Ok(Parsed::Incomplete));
        assert_eq!(parser.parse(input, &Limits::default()), Err(E::InvalidLength));
    }

    #[test]
    fn limits_are_configurable() {
        let limits = Limits { bulk_bytes_max: 3, inline_bytes_max: 4, args_max: 2, authenticated: true };
        let check = |input: &str, expected| assert_eq!(requests(input.as_bytes(), &limits), expected);
        check("*2\r\n$3\r\n", Ok(vec![]));
        check("*3\r\n", Err(E::InvalidCount));
        check("*1\r\n$4\r\n", Err(E::InvalidLength));
        check("abcd\n", Ok(vec![vec![b"abcd".to_vec()]]));
        check("abcde\n", Err(E::InlineTooLong));
        check("*0001\r\n", Err(E::CountLineTooLong));
    }

    #[test]
    fn error_texts() {
        let check = |error: ProtocolError, text: &str| assert_eq!(error.to_string(), text);
        check(E::CountLineTooLong, "too big mbulk count string");
        check(E::InvalidCount, "invalid multibulk length");
        check(E::UnauthenticatedCount, "unauthenticated multibulk length");
        check(E::LengthLineTooLong, "too big bulk count string");
        check(E::ExpectedBulk(b'x'), "expected '$', got 'x'");
        check(E::InvalidLength, "invalid bulk length");
        check(E::UnauthenticatedLength, "unauthenticated bulk length");
        check(E::InlineTooLong, "too big inline request");
        check(E::UnbalancedQuotes, "unbalanced quotes in request");
        assert_eq!(E::ExpectedBulk(0xff).reply(), b"ERR Protocol error: expected '$', got '\xff'");
    }

    #[test]
    fn wanted_bytes_are_those_of_the_bulk_begun() {
        let limits = Limits::default();
        let mut parser = RequestParser::new();
        let input = b"*2\r\n$3\r\nabc\r\n$100\r\nxyz\r\n";
        for (end, wanted) in [(3, 0), (7, 0), (8, 5), (12, 1), (13, 0), (16, 0), (19, 102), (22, 99)] {
            assert_eq!(parser.parse(&input[..end], &limits), Ok(Parsed::Incomplete));
            assert_eq!(parser.bytes_wanted(), wanted, "after {end} bytes");
        }
        parser.reset();
        assert_eq!(parser.parse(b"*0\r\n", &limits), Ok(Parsed::Empty { consumed: 4 }));
        assert_eq!((parser.bytes_wanted(), parser.arg_count()), (0, 0));
    }

    #[test]
    fn announced_counts_reserve_nothing() {
        let mut parser = RequestParser::new();
        assert_eq!(parser.parse(b"*2147483647\r\n$1\r\na\r\n", &Limits::default()), Ok(Parsed::Incomplete));
        assert!(!parser.args.spilled());
    }
}
