//! Replies, written in the protocol version that the client chose.
//!
//! A command says what it replies (a map, a double, nothing); this file decides how that looks in RESP2 and in RESP3.
//! Aggregates whose length is only known at the end are *deferred*: take a [`Mark`], write the elements, then
//! `finish_*` inserts the header in front of them. Deferred replies nest; the innermost is finished first.
//!
//! | reply   | RESP2              | RESP3          |
//! |---------|--------------------|----------------|
//! | null    | `$-1`, array `*-1` | `_`            |
//! | map     | array of 2n        | `%n`           |
//! | set     | array              | `~n`           |
//! | push    | array              | `>n`           |
//! | double  | bulk string        | `,text`        |
//! | bool    | `:1`, `:0`         | `#t`, `#f`     |
//! | verbatim| bulk string        | `=n`, `txt:…`  |
//! | big number | bulk string     | `(digits`      |
//!
//! The caller must write as many elements as a header announces; they are not counted here.

use std::sync::Arc;

use crate::bulks::Bulks;
use crate::double::DoubleBuffer;
use crate::header::{Header, write_header};
use crate::output::{Mark, Output};

/// The protocol version of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proto {
    /// The version that every client starts with.
    Resp2,
    /// Chosen by `HELLO 3`.
    Resp3,
}

/// Writes one client's replies to its output.
#[derive(Debug)]
pub struct Reply<'a> {
    out: &'a mut Output,
    proto: Proto,
}

impl<'a> Reply<'a> {
    /// Writes to `out` in version `proto`.
    #[inline]
    pub fn new(out: &'a mut Output, proto: Proto) -> Reply<'a> {
        Reply { out, proto }
    }

    /// The protocol version that is written.
    #[inline]
    #[must_use]
    pub fn proto(&self) -> Proto {
        self.proto
    }

    /// Sets the protocol version of the following replies.
    pub fn set_proto(&mut self, proto: Proto) {
        self.proto = proto;
    }

    /// The underlying output, for bytes that are already encoded.
    #[inline]
    pub fn out(&mut self) -> &mut Output {
        self.out
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_padded(*b"+OK\r\n\0\0\0", 5);
    }

    /// A status such as `PONG`. CR and LF become spaces.
    pub fn simple(&mut self, text: &str) {
        self.line(b"+", text.as_bytes());
    }

    /// An error with its code, such as `ERR syntax error`. CR and LF become spaces; at both ends they are dropped.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let text = text.as_ref();
        let start = text.iter().position(|byte| !is_line_end(byte)).unwrap_or(text.len());
        let end = text.iter().rposition(|byte| !is_line_end(byte)).map_or(start, |last| last + 1);
        self.line(b"-", &text[start..end]);
    }

    fn line(&mut self, kind: &[u8], text: &[u8]) {
        self.out.extend_from_slice(kind);
        for (index, part) in text.split(|byte| matches!(byte, b'\r' | b'\n')).enumerate() {
            if index > 0 {
                self.out.extend_from_slice(b" ");
            }
            self.out.extend_from_slice(part);
        }
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer.
    #[inline]
    pub fn int(&mut self, number: i64) {
        write_header(self.out, b':', number);
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.out.extend_bulk(bytes);
    }

    /// Several bulk strings in a row; each costs less than a single one.
    #[inline]
    pub fn bulks(&mut self, write: impl FnOnce(&mut Bulks)) {
        Bulks::write(self.out, write);
    }

    /// A bulk string that is shared with other owners. Large ones are not copied.
    pub fn bulk_shared(&mut self, bytes: Arc<Vec<u8>>) {
        self.header(b'$', bytes.len());
        self.out.push_shared(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer as a bulk string.
    pub fn bulk_int(&mut self, number: i64) {
        self.bulk(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Null.
    #[inline]
    pub fn null(&mut self) {
        match self.proto {
            Proto::Resp2 => self.out.extend_padded(*b"$-1\r\n\0\0\0", 5),
            Proto::Resp3 => self.out.extend_padded(*b"_\r\n\0\0\0\0\0", 3),
        }
    }

    /// A null array: the reply of a blocking command that timed out.
    pub fn null_array(&mut self) {
        match self.proto {
            Proto::Resp2 => self.out.extend_padded(*b"*-1\r\n\0\0\0", 5),
            Proto::Resp3 => self.null(),
        }
    }

    /// Begins an array of `count` elements.
    #[inline]
    pub fn array(&mut self, count: usize) {
        self.header(b'*', count);
    }

    /// Begins a map of `pair_count` keys, each followed by its value.
    pub fn map(&mut self, pair_count: usize) {
        let (kind, count) = self.map_header(pair_count);
        self.header(kind, count);
    }

    /// Begins a set of `count` elements.
    pub fn set(&mut self, count: usize) {
        self.header(self.aggregate_kind(b'~'), count);
    }

    /// Begins a push message of `count` elements, which is not the reply to a request.
    pub fn push(&mut self, count: usize) {
        self.header(self.aggregate_kind(b'>'), count);
    }

    /// A double in its shortest form.
    pub fn double(&mut self, value: f64) {
        match self.proto {
            Proto::Resp2 => self.bulk_double(value),
            Proto::Resp3 => self.framed_line(b",", DoubleBuffer::new().format_bytes(value)),
        }
    }

    /// A double whose text is not the shortest form.
    pub fn double_text(&mut self, text: &str) {
        match self.proto {
            Proto::Resp2 => self.bulk(text.as_bytes()),
            Proto::Resp3 => self.framed_line(b",", text.as_bytes()),
        }
    }

    /// A double in its shortest form, as a bulk string in both versions.
    pub fn bulk_double(&mut self, value: f64) {
        self.bulk(DoubleBuffer::new().format_bytes(value));
    }

    /// A boolean.
    pub fn bool(&mut self, value: bool) {
        let line = match (self.proto, value) {
            (Proto::Resp2, false) => b":0\r\n\0\0\0\0",
            (Proto::Resp2, true) => b":1\r\n\0\0\0\0",
            (Proto::Resp3, false) => b"#f\r\n\0\0\0\0",
            (Proto::Resp3, true) => b"#t\r\n\0\0\0\0",
        };
        self.out.extend_padded(*line, 4);
    }

    /// Text to be displayed as it is. `format` has three characters: `txt` or `mkd`.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        debug_assert_eq!(format.len(), 3);
        match self.proto {
            Proto::Resp2 => self.bulk(text),
            Proto::Resp3 => {
                self.header(b'=', format.len() + 1 + text.len());
                self.out.extend_from_slice(format.as_bytes());
                self.out.extend_from_slice(b":");
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// An integer of any size, in decimal digits.
    pub fn big_number(&mut self, digits: &str) {
        match self.proto {
            Proto::Resp2 => self.bulk(digits.as_bytes()),
            Proto::Resp3 => self.framed_line(b"(", digits.as_bytes()),
        }
    }

    /// Marks the beginning of an aggregate of unknown length. Pass the mark to exactly one `finish_*` or to [`Reply::rollback`].
    #[inline]
    #[must_use]
    pub fn deferred(&self) -> Mark {
        self.out.mark()
    }

    /// Turns the `count` elements written since `mark` into an array.
    pub fn finish_array(&mut self, mark: Mark, count: usize) {
        self.insert_header(mark, b'*', count);
    }

    /// Turns the `pair_count` keys and values written since `mark` into a map.
    pub fn finish_map(&mut self, mark: Mark, pair_count: usize) {
        let (kind, count) = self.map_header(pair_count);
        self.insert_header(mark, kind, count);
    }

    /// Turns the `count` elements written since `mark` into a set.
    pub fn finish_set(&mut self, mark: Mark, count: usize) {
        self.insert_header(mark, self.aggregate_kind(b'~'), count);
    }

    /// Turns the `count` elements written since `mark` into a push message.
    pub fn finish_push(&mut self, mark: Mark, count: usize) {
        self.insert_header(mark, self.aggregate_kind(b'>'), count);
    }

    /// Drops everything written since `mark`.
    pub fn rollback(&mut self, mark: Mark) {
        self.out.truncate(mark);
    }

    #[inline]
    fn header(&mut self, kind: u8, count: usize) {
        write_header(self.out, kind, count as i64);
    }

    fn insert_header(&mut self, mark: Mark, kind: u8, count: usize) {
        self.out.insert_at(mark, Header::new(kind, count as i64).as_slice());
    }

    fn framed_line(&mut self, kind: &[u8], text: &[u8]) {
        self.out.extend_from_slice(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    fn aggregate_kind(&self, resp3: u8) -> u8 {
        match self.proto {
            Proto::Resp2 => b'*',
            Proto::Resp3 => resp3,
        }
    }

    fn map_header(&self, pair_count: usize) -> (u8, usize) {
        match self.proto {
            Proto::Resp2 => (b'*', pair_count * 2),
            Proto::Resp3 => (b'%', pair_count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(write: impl Fn(&mut Reply<'_>), resp2: &str, resp3: &str) {
        for (proto, expected) in [(Proto::Resp2, resp2), (Proto::Resp3, resp3)] {
            let mut out = Output::new();
            write(&mut Reply::new(&mut out, proto));
            assert_eq!(String::from_utf8_lossy(&out.to_vec()), expected, "{proto:?}");
        }
    }

    #[test]
    fn scalars() {
        check(|r| r.ok(), "+OK\r\n", "+OK\r\n");
        check(|r| r.simple("PONG"), "+PONG\r\n", "+PONG\r\n");
        check(|r| r.simple("a\r\nb"), "+a  b\r\n", "+a  b\r\n");
        check(|r| r.error("ERR no\r\nno\n"), "-ERR no  no\r\n", "-ERR no  no\r\n");
        check(|r| r.error(""), "-\r\n", "-\r\n");
        check(|r| r.int(-42), ":-42\r\n", ":-42\r\n");
        check(|r| r.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n");
        check(|r| r.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n");
        check(|r| r.bulk_int(i64::MIN), "$20\r\n-9223372036854775808\r\n", "$20\r\n-9223372036854775808\r\n");
        check(|r| r.null(), "$-1\r\n", "_\r\n");
        check(|r| r.null_array(), "*-1\r\n", "_\r\n");
        check(|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n");
        check(|r| r.double_text("1.50"), "$4\r\n1.50\r\n", ",1.50\r\n");
        check(|r| r.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
        check(|r| r.double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n");
        check(|r| r.bulk_double(3.0), "$1\r\n3\r\n", "$1\r\n3\r\n");
        check(|r| r.bool(true), ":1\r\n", "#t\r\n");
        check(|r| r.bool(false), ":0\r\n", "#f\r\n");
        check(|r| r.verbatim("txt", b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n");
        check(|r| r.big_number("123"), "$3\r\n123\r\n", "(123\r\n");
    }

    #[test]
    fn aggregates() {
        check(|r| r.array(300), "*300\r\n", "*300\r\n");
        check(|r| r.map(2), "*4\r\n", "%2\r\n");
        check(|r| r.set(2), "*2\r\n", "~2\r\n");
        check(|r| r.push(2), "*2\r\n", ">2\r\n");
    }

    #[test]
    fn deferred_lengths_nest_and_roll_back() {
        let nested = |r: &mut Reply<'_>| {
            let outer = r.deferred();
            let inner = r.deferred();
            r.int(1);
            r.int(2);
            r.finish_map(inner, 1);
            let dropped = r.deferred();
            r.bulk(b"gone");
            r.rollback(dropped);
            let set = r.deferred();
            r.finish_set(set, 0);
            let push = r.deferred();
            r.finish_push(push, 0);
            r.finish_array(outer, 3);
        };
        check(nested, "*3\r\n*2\r\n:1\r\n:2\r\n*0\r\n*0\r\n", "*3\r\n%1\r\n:1\r\n:2\r\n~0\r\n>0\r\n");
    }

    #[test]
    fn shared_and_large_bulks_are_framed() {
        for length in [0, 3, 5000, 100_000] {
            let body = "x".repeat(length);
            let expected = format!("${length}\r\n{body}\r\n:1\r\n");
            let shared = Arc::new(body.clone().into_bytes());
            let write = |r: &mut Reply<'_>| {
                r.bulk_shared(Arc::clone(&shared));
                r.int(1);
            };
            check(write, &expected, &expected);
            let write = |r: &mut Reply<'_>| {
                r.bulk(body.as_bytes());
                r.int(1);
            };
            check(write, &expected, &expected);
        }
    }
}
