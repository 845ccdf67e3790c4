//! A decoded reply, and its text as `redis-cli` shows it.

use std::fmt;

use crate::double::DoubleBuffer;

/// A decoded reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `+`: a status, such as `OK`.
    Simple(Vec<u8>),
    /// `-` or `!`: an error with its code.
    Error(Vec<u8>),
    /// `:`
    Int(i64),
    /// `$`
    Bulk(Vec<u8>),
    /// `$-1` or `_`
    Null,
    /// `*-1`, only in RESP2.
    NullArray,
    /// `*`
    Array(Vec<Value>),
    /// `%`, in the order sent.
    Map(Vec<(Value, Value)>),
    /// `~`, in the order sent.
    Set(Vec<Value>),
    /// `>`
    Push(Vec<Value>),
    /// `,`
    Double(f64),
    /// `#`
    Bool(bool),
    /// `(`: an integer of any size, in decimal digits.
    BigNumber(Vec<u8>),
    /// `=`
    Verbatim {
        /// `txt` or `mkd`.
        format: [u8; 3],
        /// The text without its format.
        text: Vec<u8>,
    },
}

/// As `redis-cli` prints it on a terminal, without the last line end.
///
/// ```text
/// 1) "bulk"
/// 2) 1) (integer) 7
///    2) (nil)
/// ```
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, 0)
    }
}

impl Value {
    /// Writes the value; lines after the first are indented by `indent` spaces.
    fn show(&self, f: &mut fmt::Formatter<'_>, indent: usize) -> fmt::Result {
        match self {
            Value::Simple(text) => show_line(text, f),
            Value::Error(text) => {
                f.write_str("(error) ")?;
                show_line(text, f)
            }
            Value::Int(number) => write!(f, "(integer) {number}"),
            Value::Bulk(bytes) => show_quoted(bytes, f),
            Value::Null | Value::NullArray => f.write_str("(nil)"),
            Value::Array(items) => show_items(items, ")", "(empty array)", f, indent),
            Value::Set(items) => show_items(items, "~", "(empty set)", f, indent),
            Value::Push(items) => show_items(items, ")", "(empty push)", f, indent),
            Value::Map(pairs) if pairs.is_empty() => f.write_str("(empty hash)"),
            Value::Map(pairs) => {
                let width = decimal_width(pairs.len());
                let inner = indent + width + 2;
                for (index, (key, value)) in pairs.iter().enumerate() {
                    show_number(index, width, "#", f, indent)?;
                    key.show(f, inner)?;
                    f.write_str(" => ")?;
                    value.show(f, inner)?;
                }
                Ok(())
            }
            Value::Double(value) => write!(f, "(double) {}", DoubleBuffer::new().format(*value)),
            Value::Bool(value) => write!(f, "({value})"),
            Value::BigNumber(digits) => write!(f, "(big number) {}", String::from_utf8_lossy(digits)),
            Value::Verbatim { text, .. } => write!(f, "{}", String::from_utf8_lossy(text)),
        }
    }
}

fn show_items(
    items: &[Value],
    separator: &str,
    if_empty: &str,
    f: &mut fmt::Formatter<'_>,
    indent: usize,
) -> fmt::Result {
    if items.is_empty() {
        return f.write_str(if_empty);
    }
    let width = decimal_width(items.len());
    for (index, item) in items.iter().enumerate() {
        show_number(index, width, separator, f, indent)?;
        item.show(f, indent + width + 2)?;
    }
    Ok(())
}

/// Writes the element's number, on a new line unless it is the first.
fn show_number(
    index: usize,
    width: usize,
    separator: &str,
    f: &mut fmt::Formatter<'_>,
    indent: usize,
) -> fmt::Result {
    if index > 0 {
        write!(f, "\n{:indent$}", "")?;
    }
    write!(f, "{:width$}{separator} ", index + 1)
}

fn decimal_width(number: usize) -> usize {
    number.checked_ilog10().map_or(1, |digits| digits as usize + 1)
}

/// Writes a line as it is, and bytes that are not UTF-8 as `\xff`.
fn show_line(text: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for chunk in text.utf8_chunks() {
        f.write_str(chunk.valid())?;
        chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
    }
    Ok(())
}

/// Writes in double quotes, with the escapes that [`crate::split_args`] parses.
fn show_quoted(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
            b'\n' => f.write_str("\\n")?,
            b'\r' => f.write_str("\\r")?,
            b'\t' => f.write_str("\\t")?,
            b'\x07' => f.write_str("\\a")?,
            b'\x08' => f.write_str("\\b")?,
            b' '..=b'~' => write!(f, "{}", char::from(byte))?,
            _ => write!(f, "\\x{byte:02x}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(value: Value, expected: &str) {
        assert_eq!(value.to_string(), expected);
    }

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn scalars() {
        check(Value::Simple(b"OK".into()), "OK");
        check(Value::Error(b"ERR no".into()), "(error) ERR no");
        check(Value::Int(-1), "(integer) -1");
        check(Value::Bulk(b"a\x01\n\xff\"\\\x07\x08\t\r ".into()), r#""a\x01\n\xff\"\\\a\b\t\r ""#);
        check(Value::Null, "(nil)");
        check(Value::NullArray, "(nil)");
        check(Value::Double(3.5), "(double) 3.5");
        check(Value::Bool(true), "(true)");
        check(Value::Bool(false), "(false)");
        check(Value::BigNumber(b"12".into()), "(big number) 12");
        check(Value::Verbatim { format: *b"txt", text: b"hi\nthere".into() }, "hi\nthere");
    }

    #[test]
    fn aggregates() {
        check(Value::Array(vec![]), "(empty array)");
        check(Value::Map(vec![]), "(empty hash)");
        check(Value::Set(vec![]), "(empty set)");
        check(Value::Push(vec![]), "(empty push)");
        check(Value::Set(vec![bulk("a")]), "1~ \"a\"");
        let inner = Value::Map(vec![(bulk("c"), Value::Int(2)), (bulk("d"), Value::Null)]);
        check(
            Value::Map(vec![(bulk("a"), Value::Int(1)), (bulk("b"), inner)]),
            "1# \"a\" => (integer) 1\n2# \"b\" => 1# \"c\" => (integer) 2\n   2# \"d\" => (nil)",
        );
        let mut items: Vec<Value> = (1..=9).map(Value::Int).collect();
        items.push(Value::Array(vec![Value::Int(1), Value::Push(vec![bulk("x"), Value::Null])]));
        let lines: Vec<String> = (1..=9).map(|number| format!(" {number}) (integer) {number}")).collect();
        check(
            Value::Array(items),
            &format!("{}\n10) 1) (integer) 1\n    2) 1) \"x\"\n       2) (nil)", lines.join("\n")),
        );
    }

    proptest! {
        #[test]
        fn quoted_text_splits_back(bytes: Vec<u8>) {
            let shown = Value::Bulk(bytes.clone()).to_string();
            prop_assert_eq!(crate::split_args(shown.as_bytes()), Some(vec![bytes]));
        }
    }
}
