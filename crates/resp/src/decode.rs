//! Parses replies for clients: bytes to [`Value`], RESP2 and RESP3 alike.
//!
//! Stateless: each call begins at the front of the input, so a large reply should be read in large pieces. Attributes
//! are parsed and dropped. Aggregates nest at most [`DEPTH_MAX`] deep. Space is reserved for a few elements ahead,
//! bounded by what the input can contain, whatever count is announced.

use crate::integer::parse_integer;
use crate::value::Value;

/// Deepest nesting of arrays, maps, sets, pushes and attributes.
const DEPTH_MAX: usize = 128;
/// Length of the shortest element, `_\r\n`.
const VALUE_BYTES_MIN: usize = 3;
/// Maximum number of elements that space is reserved for before they arrive.
const RESERVED_ITEMS_MAX: usize = 64;
/// Longest line that is examined byte by byte; a number with this many digits cannot overflow.
const PLAIN_LINE_BYTES_MAX: usize = 16;

/// The input is not a RESP reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No type has this byte.
    #[error("unknown reply type 0x{0:02x}")]
    UnknownType(u8),
    /// A line contains a lone CR or LF, or a string is not followed by CR LF.
    #[error("line end expected")]
    LineEnd,
    /// A length or an integer is not a canonical decimal.
    #[error("invalid integer")]
    InvalidInteger,
    /// A double, truth value, null, big number or verbatim string is malformed.
    #[error("invalid {0}")]
    Invalid(&'static str),
    /// Nested too deeply.
    #[error("nested too deeply")]
    TooDeep,
}

/// Decodes the reply at the front of `input` and returns it with its length; `Ok(None)` if it is incomplete.
///
/// # Errors
/// If no continuation of `input` could be a reply.
pub fn decode(input: &[u8]) -> Result<Option<(Value, usize)>, DecodeError> {
    let mut reader = ValueReader { rest: input };
    match reader.value(DEPTH_MAX) {
        Ok(value) => Ok(Some((value, input.len() - reader.rest.len()))),
        Err(DecodeStop::Incomplete) => Ok(None),
        Err(DecodeStop::Invalid(error)) => Err(error),
    }
}

/// Returns the length of the reply at the front of `input`, and whether it is an error; `Ok(None)` if it is incomplete.
/// For readers that count replies without looking into them: allocates nothing and does not validate scalars.
///
/// # Errors
/// If the framing of the reply is malformed.
pub fn measure(input: &[u8]) -> Result<Option<(usize, bool)>, DecodeError> {
    let mut reader = ValueReader { rest: input };
    match reader.skip() {
        Ok(kind) => Ok(Some((input.len() - reader.rest.len(), matches!(kind, b'-' | b'!')))),
        Err(DecodeStop::Incomplete) => Ok(None),
        Err(DecodeStop::Invalid(error)) => Err(error),
    }
}

/// Fast path: the length of a usual reply, which is a line of a few bytes other than an error, or a string. `None` for
/// all others, and for malformed or incomplete ones.
#[inline]
fn plain_length(input: &[u8]) -> Option<usize> {
    let (mut end, mut number, mut is_number) = (1, 0_usize, true);
    while *input.get(end)? >= b' ' {
        let digit = input[end].wrapping_sub(b'0');
        is_number &= digit < 10;
        number = number.wrapping_mul(10).wrapping_add(usize::from(digit));
        end += 1;
        if end > PLAIN_LINE_BYTES_MAX {
            return None;
        }
    }
    let line_end = |end: usize| input.get(end..end + 2) == Some(b"\r\n");
    match input[0] {
        b'+' | b':' if line_end(end) => Some(end + 2),
        b'$' if is_number && end > 1 && (input[1] != b'0' || end == 2) => {
            let body_end = end + 2 + number;
            (line_end(end) && line_end(body_end)).then_some(body_end + 2)
        }
        _ => None,
    }
}

/// Why decoding stopped.
enum DecodeStop {
    Incomplete,
    Invalid(DecodeError),
}

impl From<DecodeError> for DecodeStop {
    fn from(error: DecodeError) -> DecodeStop {
        DecodeStop::Invalid(error)
    }
}

struct ValueReader<'a> {
    rest: &'a [u8],
}

impl<'a> ValueReader<'a> {
    fn value(&mut self, depth_left: usize) -> Result<Value, DecodeStop> {
        loop {
            let (&kind, rest) = self.rest.split_first().ok_or(DecodeStop::Incomplete)?;
            if !b"+-:$*_,#(=!%~>|".contains(&kind) {
                return Err(DecodeError::UnknownType(kind).into());
            }
            self.rest = rest;
            let line = self.line()?;
            return Ok(match kind {
                b'+' => Value::Simple(line.to_vec()),
                b'-' => Value::Error(line.to_vec()),
                b':' => Value::Int(integer(line)?),
                b'$' if line == b"-1" => Value::Null,
                b'$' => Value::Bulk(self.body(line)?.to_vec()),
                b'!' => Value::Error(self.body(line)?.to_vec()),
                b'=' => verbatim(self.body(line)?)?,
                b'_' if line.is_empty() => Value::Null,
                b'_' => return Err(DecodeError::Invalid("null").into()),
                b',' => Value::Double(double(line)?),
                b'#' => Value::Bool(boolean(line)?),
                b'(' => Value::BigNumber(big_number(line)?),
                b'*' if line == b"-1" => Value::NullArray,
                b'*' => Value::Array(self.items(line, depth_left)?),
                b'~' => Value::Set(self.items(line, depth_left)?),
                b'>' => Value::Push(self.items(line, depth_left)?),
                b'%' => Value::Map(self.pairs(line, depth_left)?),
                _ => {
                    self.pairs(line, depth_left)?;
                    continue;
                }
            });
        }
    }

    /// Skips one reply and returns its type. Nested replies are counted, not recursed into.
    fn skip(&mut self) -> Result<u8, DecodeStop> {
        let mut pending: usize = 1;
        let mut outermost = None;
        while pending > 0 {
            let (&kind, rest) = self.rest.split_first().ok_or(DecodeStop::Incomplete)?;
            pending -= 1;
            if let Some(length) = plain_length(self.rest) {
                self.rest = &self.rest[length..];
                outermost.get_or_insert(kind);
                continue;
            }
            self.rest = rest;
            let line = self.line()?;
            match kind {
                b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {}
                b'$' | b'*' if line == b"-1" => {}
                b'$' | b'!' | b'=' => _ = self.body(line)?,
                b'*' | b'~' | b'>' => pending = pending.saturating_add(count(line)?),
                b'%' => pending = pending.saturating_add(count(line)?.saturating_mul(2)),
                // An attribute precedes the reply to which it belongs.
                b'|' => pending = pending.saturating_add(count(line)?.saturating_mul(2)).saturating_add(1),
                _ => return Err(DecodeError::UnknownType(kind).into()),
            }
            if kind != b'|' {
                outermost.get_or_insert(kind);
            }
        }
        Ok(outermost.unwrap_or(b'_'))
    }

    /// The bytes up to CR LF.
    fn line(&mut self) -> Result<&'a [u8], DecodeStop> {
        let end = memchr::memchr2(b'\r', b'\n', self.rest).ok_or(DecodeStop::Incomplete)?;
        let line = &self.rest[..end];
        self.rest = &self.rest[end..];
        self.line_end()?;
        Ok(line)
    }

    fn line_end(&mut self) -> Result<(), DecodeStop> {
        match self.rest {
            [b'\r', b'\n', rest @ ..] => {
                self.rest = rest;
                Ok(())
            }
            [] | [b'\r'] => Err(DecodeStop::Incomplete),
            _ => Err(DecodeError::LineEnd.into()),
        }
    }

    /// As many bytes as the number in `line`, followed by CR LF.
    fn body(&mut self, line: &[u8]) -> Result<&'a [u8], DecodeStop> {
        let (body, rest) = self.rest.split_at_checked(count(line)?).ok_or(DecodeStop::Incomplete)?;
        self.rest = rest;
        self.line_end()?;
        Ok(body)
    }

    fn items(&mut self, line: &[u8], depth_left: usize) -> Result<Vec<Value>, DecodeStop> {
        let count = count(line)?;
        let depth_left = depth_left.checked_sub(1).ok_or(DecodeError::TooDeep)?;
        let mut items = Vec::with_capacity(self.reserved(count));
        for _ in 0..count {
            items.push(self.value(depth_left)?);
        }
        Ok(items)
    }

    fn pairs(&mut self, line: &[u8], depth_left: usize) -> Result<Vec<(Value, Value)>, DecodeStop> {
        let count = count(line)?;
        let depth_left = depth_left.checked_sub(1).ok_or(DecodeError::TooDeep)?;
        let mut pairs = Vec::with_capacity(self.reserved(count));
        for _ in 0..count {
            pairs.push((self.value(depth_left)?, self.value(depth_left)?));
        }
        Ok(pairs)
    }

    fn reserved(&self, count: usize) -> usize {
        count.min(self.rest.len() / VALUE_BYTES_MIN).min(RESERVED_ITEMS_MAX)
    }
}

fn integer(text: &[u8]) -> Result<i64, DecodeError> {
    parse_integer(text).ok_or(DecodeError::InvalidInteger)
}

fn count(text: &[u8]) -> Result<usize, DecodeError> {
    usize::try_from(integer(text)?).map_err(|_| DecodeError::InvalidInteger)
}

fn double(text: &[u8]) -> Result<f64, DecodeError> {
    let text = std::str::from_utf8(text).map_err(|_| DecodeError::Invalid("double"))?;
    text.parse().map_err(|_| DecodeError::Invalid("double"))
}

fn boolean(text: &[u8]) -> Result<bool, DecodeError> {
    match text {
        b"t" => Ok(true),
        b"f" => Ok(false),
        _ => Err(DecodeError::Invalid("truth value")),
    }
}

fn big_number(text: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(DecodeError::Invalid("big number"));
    }
    Ok(text.to_vec())
}

fn verbatim(body: &[u8]) -> Result<Value, DecodeError> {
    match body {
        [a, b, c, b':', text @ ..] => Ok(Value::Verbatim { format: [*a, *b, *c], text: text.to_vec() }),
        _ => Err(DecodeError::Invalid("verbatim string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: Result<Value, DecodeError>) {
        match expected {
            Ok(value) => {
                let followed = format!("{input}+next\r\n");
                let is_error = matches!(value, Value::Error(_));
                assert_eq!(measure(followed.as_bytes()), Ok(Some((input.len(), is_error))), "{input:?}");
                assert_eq!(decode(followed.as_bytes()), Ok(Some((value, input.len()))), "{input:?}");
                for end in 0..input.len() {
                    assert_eq!(decode(&input.as_bytes()[..end]), Ok(None), "{input:?} cut at {end}");
                    assert_eq!(measure(&input.as_bytes()[..end]), Ok(None), "{input:?} cut at {end}");
                }
            }
            Err(error) => assert_eq!(decode(input.as_bytes()), Err(error), "{input:?}"),
        }
    }

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn scalars() {
        check("+OK\r\n", Ok(Value::Simple(b"OK".into())));
        check("+\r\n", Ok(Value::Simple(b"".into())));
        check("-ERR x\r\n", Ok(Value::Error(b"ERR x".into())));
        check("!5\r\nERR\r\n\r\n", Ok(Value::Error(b"ERR\r\n".into())));
        check(":-12\r\n", Ok(Value::Int(-12)));
        check("$3\r\na\r\n\r\n", Ok(bulk("a\r\n")));
        check("$0\r\n\r\n", Ok(bulk("")));
        check("$-1\r\n", Ok(Value::Null));
        check("*-1\r\n", Ok(Value::NullArray));
        check("_\r\n", Ok(Value::Null));
        check(",1.5e+300\r\n", Ok(Value::Double(1.5e300)));
        check(",inf\r\n", Ok(Value::Double(f64::INFINITY)));
        check(",-inf\r\n", Ok(Value::Double(f64::NEG_INFINITY)));
        check("#t\r\n", Ok(Value::Bool(true)));
        check("#f\r\n", Ok(Value::Bool(false)));
        check("(-123\r\n", Ok(Value::BigNumber(b"-123".into())));
        check("=6\r\ntxt:hi\r\n", Ok(Value::Verbatim { format: *b"txt", text: b"hi".into() }));
    }

    #[test]
    fn aggregates() {
        check("*0\r\n", Ok(Value::Array(vec![])));
        check(
            "*2\r\n:1\r\n*1\r\n$1\r\na\r\n",
            Ok(Value::Array(vec![Value::Int(1), Value::Array(vec![bulk("a")])])),
        );
        check(
            "%1\r\n+a\r\n~1\r\n_\r\n",
            Ok(Value::Map(vec![(Value::Simple(b"a".into()), Value::Set(vec![Value::Null]))])),
        );
        check(">1\r\n:1\r\n", Ok(Value::Push(vec![Value::Int(1)])));
        check("|1\r\n+a\r\n:1\r\n|0\r\n:2\r\n", Ok(Value::Int(2)));
        check("*1\r\n|1\r\n+a\r\n:1\r\n:2\r\n", Ok(Value::Array(vec![Value::Int(2)])));
    }

    #[test]
    fn malformed_replies() {
        check("x", Err(DecodeError::UnknownType(b'x')));
        check("\r\n", Err(DecodeError::UnknownType(b'\r')));
        check("+a\rb\r\n", Err(DecodeError::LineEnd));
        check("+a\n", Err(DecodeError::LineEnd));
        check("$1\r\nab\r\n", Err(DecodeError::LineEnd));
        check("$-2\r\n", Err(DecodeError::InvalidInteger));
        check("$?\r\n", Err(DecodeError::InvalidInteger));
        check("*01\r\n", Err(DecodeError::InvalidInteger));
        check(":\r\n", Err(DecodeError::InvalidInteger));
        check("%-1\r\n", Err(DecodeError::InvalidInteger));
        check("_x\r\n", Err(DecodeError::Invalid("null")));
        check(",x\r\n", Err(DecodeError::Invalid("double")));
        check(",\r\n", Err(DecodeError::Invalid("double")));
        check("#x\r\n", Err(DecodeError::Invalid("truth value")));
        check("(1x\r\n", Err(DecodeError::Invalid("big number")));
        check("(-\r\n", Err(DecodeError::Invalid("big number")));
        check("=3\r\ntxt\r\n", Err(DecodeError::Invalid("verbatim string")));
    }

    #[test]
    fn plain_replies_are_measured_like_all_others() {
        let plain =
            ["+OK\r\n", ":-12\r\n", "$3\r\na\r\n\r\n", "$0\r\n\r\n", "$10\r\n0123456789\r\n", "+\r\n"];
        for input in plain {
            let followed = format!("{input}$1\r\n");
            assert_eq!(plain_length(followed.as_bytes()), Some(input.len()), "{input:?}");
            assert_eq!(
                decode(followed.as_bytes()).map(|found| found.map(|(_, length)| length)),
                Ok(Some(input.len()))
            );
            for end in 0..input.len() {
                assert_eq!(plain_length(&input.as_bytes()[..end]), None, "{input:?} cut at {end}");
            }
        }
        let others = ["-ERR x\r\n", "$-1\r\n", "$01\r\na\r\n", "$\r\n\r\n", "$1\r\nab\r\n", "$1x\r\na\r\n"];
        let broken =
            ["+a\rb\r\n", "+a\n\r\n", "$1\na\r\n", ":\t\r\n", "$9999999999999999\r\n", "*0\r\n", "_\r\n"];
        for input in others.into_iter().chain(broken) {
            assert_eq!(plain_length(input.as_bytes()), None, "{input:?}");
        }
    }

    #[test]
    fn announced_counts_reserve_nothing() {
        for kind in ["*", "%", "~", ">", "|"] {
            assert_eq!(
                decode(format!("{kind}9223372036854775807\r\n").repeat(DEPTH_MAX).as_bytes()),
                Ok(None)
            );
        }
        assert_eq!(decode(b"$9223372036854775807\r\nabc"), Ok(None));
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |depth| format!("{}:1\r\n", "*1\r\n".repeat(depth));
        assert!(matches!(decode(nested(DEPTH_MAX).as_bytes()), Ok(Some(_))));
        check(&nested(DEPTH_MAX + 1), Err(DecodeError::TooDeep));
        check(&nested(1_000_000), Err(DecodeError::TooDeep));
    }
}
