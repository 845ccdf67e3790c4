//! Splits a line into arguments, with Redis' quoting: inline requests, configuration lines, transcripts.
//!
//! Blanks separate arguments. Double quotes allow `\n \r \t \b \a`, `\xHH`, and a backslash before any other character
//! for that character; single quotes allow `\'` only. A quote may open in the middle of an argument, but the argument
//! must end where it closes. The parts are collected in one buffer; an argument is a [`ArgSpan`] of it.

/// The place of an argument in its buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArgSpan {
    pub(crate) start: usize,
    pub(crate) length: usize,
}

impl ArgSpan {
    pub(crate) fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.start..self.start + self.length]
    }
}

/// The arguments of `line`, or `None` if its quotes are unbalanced.
#[must_use]
pub fn split_args(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut bytes, mut args) = (Vec::new(), Vec::new());
    split_into(line, &mut bytes, |span| args.push(span))?;
    Some(args.into_iter().map(|span| span.of(&bytes).to_vec()).collect())
}

/// Appends the arguments' bytes to `bytes` and passes each one's span to `found`. Returns `None` if the quotes are unbalanced.
pub(crate) fn split_into(line: &[u8], bytes: &mut Vec<u8>, mut found: impl FnMut(ArgSpan)) -> Option<()> {
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        // The vertical tab is a blank in C but not in Rust.
        if let [b'\x0b', after @ ..] = rest {
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return Some(());
        }
        let start = bytes.len();
        rest = take_arg(rest, bytes)?;
        found(ArgSpan { start, length: bytes.len() - start });
    }
}

/// Moves one argument from the front of `rest` to `bytes` and returns what follows it.
fn take_arg<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Option<&'a [u8]> {
    while let [first, after @ ..] = rest {
        match first {
            b' ' | b'\n' | b'\r' | b'\t' => return Some(after),
            b'"' => return end_of_quoted(take_double_quoted(after, bytes)?),
            b'\'' => return end_of_quoted(take_single_quoted(after, bytes)?),
            &byte => bytes.push(byte),
        }
        rest = after;
    }
    Some(rest)
}

/// Checks that a closing quote is followed by nothing or a blank.
fn end_of_quoted(rest: &[u8]) -> Option<&[u8]> {
    match rest {
        [] | [b' ' | b'\t' | b'\n' | b'\r' | b'\x0b' | b'\x0c', ..] => Some(rest),
        _ => None,
    }
}

fn take_double_quoted<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes.push(hex_value(*high) << 4 | hex_value(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                bytes.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => b'\x08',
                    b'a' => b'\x07',
                    &other => other,
                });
                after
            }
            [byte, after @ ..] => {
                bytes.push(*byte);
                after
            }
            [] => return None,
        };
    }
}

fn take_single_quoted<'a>(mut rest: &'a [u8], bytes: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\'', after @ ..] => return Some(after),
            [b'\\', b'\'', after @ ..] => {
                bytes.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                bytes.push(*byte);
                after
            }
            [] => return None,
        };
    }
}

/// The value of a hexadecimal digit.
fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<&[&[u8]]>) {
        let expected = expected.map(|args| args.iter().map(|arg| arg.to_vec()).collect());
        assert_eq!(split_args(line.as_bytes()), expected, "{line:?}");
    }

    #[test]
    fn blanks_separate() {
        check("", Some(&[]));
        check(" \t\r\n\x0b\x0c", Some(&[]));
        check("PING", Some(&[b"PING"]));
        check("  a\tb \r c ", Some(&[b"a", b"b", b"c"]));
        check("\x0becho a\x0bb\x0c", Some(&[b"echo", b"a\x0bb\x0c"]));
    }

    #[test]
    fn quotes_and_escapes() {
        check(r#"echo "a\x41\n\"\q\xg1""#, Some(&[b"echo", b"aA\n\"qxg1"]));
        check(r#""\r\t\b\a\\\xfF""#, Some(&[b"\r\t\x08\x07\\\xff"]));
        check(r"echo 'a\'b\n'", Some(&[b"echo", b"a'b\\n"]));
        check(r#"a"b c" ''"#, Some(&[b"ab c", b""]));
        check(r#""""#, Some(&[b""]));
        check("'x'\x0b\"y\"", Some(&[b"x", b"y"]));
    }

    #[test]
    fn unbalanced_quotes() {
        for line in [r#""a"#, "'a", r#""a"b"#, "'a'b", r#""a\"#, r#""a\""#, r"'a\'", r#""a""b""#, "\"", "a'"]
        {
            check(line, None);
        }
    }
}
