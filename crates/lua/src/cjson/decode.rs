//! JSON to Lua values.
//!
//! As in the original, the text ends at its first zero byte. Unless `decode_invalid_numbers` is off, any text
//! that C's `strtod` accepts is a number.

use super::{NESTING_MAX, Settings, number};
use crate::raw::{Failure, Stack};

pub(super) fn decode(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    if stack.arg_count() != 1 {
        return Err(Failure::argument(1, "expected 1 argument"));
    }
    let text = stack.arg_bytes(1)?;
    // The first character of JSON is ASCII, so a zero byte among the first two bytes means UTF-16 or UTF-32.
    if text.len() >= 2 && text[..2].contains(&0) {
        return Err(Failure::message("JSON parser does not support UTF-16 or UTF-32"));
    }
    let settings = Settings::load(stack)?;
    let mut decoder = Decoder { stack, settings, text, position: 0, unescaped: Vec::new(), depth: 0 };
    let token = decoder.token();
    decoder.value(token)?;
    let token = decoder.token();
    if token.kind != TokenKind::End {
        return Err(Decoder::unexpected("the end", token));
    }
    Ok(1)
}

/// A token. Text is a slice of the input or, if it had escapes, is in the decoder's buffer.
#[derive(Clone, Copy, PartialEq)]
enum TokenKind<'a> {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Colon,
    Comma,
    Text(&'a [u8]),
    UnescapedText,
    Number(f64),
    Boolean(bool),
    Null,
    End,
    Error(&'static str),
}

#[derive(Clone, Copy)]
struct Token<'a> {
    kind: TokenKind<'a>,
    /// Where the token begins, or where the error is.
    position: usize,
}

impl TokenKind<'_> {
    /// Its name in error messages.
    fn name(self) -> &'static str {
        match self {
            TokenKind::ObjectBegin => "T_OBJ_BEGIN",
            TokenKind::ObjectEnd => "T_OBJ_END",
            TokenKind::ArrayBegin => "T_ARR_BEGIN",
            TokenKind::ArrayEnd => "T_ARR_END",
            TokenKind::Colon => "T_COLON",
            TokenKind::Comma => "T_COMMA",
            TokenKind::Text(_) | TokenKind::UnescapedText => "T_STRING",
            TokenKind::Number(_) => "T_NUMBER",
            TokenKind::Boolean(_) => "T_BOOLEAN",
            TokenKind::Null => "T_NULL",
            TokenKind::End => "T_END",
            TokenKind::Error(text) => text,
        }
    }
}

struct Decoder<'a, 'b> {
    stack: &'a mut Stack<'b>,
    settings: Settings,
    text: &'b [u8],
    position: usize,
    unescaped: Vec<u8>,
    depth: i32,
}

impl<'b> Decoder<'_, 'b> {
    fn unexpected(expected: &str, token: Token<'_>) -> Failure {
        let (found, character) = (token.kind.name(), token.position + 1);
        Failure::message(format!("Expected {expected} but found {found} at character {character}"))
    }

    /// The byte `ahead` bytes after the current one; zero at the end.
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.position + ahead).copied().unwrap_or(0)
    }

    fn rest(&self) -> &'b [u8] {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn token(&mut self) -> Token<'b> {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.position += 1;
        }
        let position = self.position;
        let single = match self.peek(0) {
            b'{' => TokenKind::ObjectBegin,
            b'}' => TokenKind::ObjectEnd,
            b'[' => TokenKind::ArrayBegin,
            b']' => TokenKind::ArrayEnd,
            b':' => TokenKind::Colon,
            b',' => TokenKind::Comma,
            0 => return Token { kind: TokenKind::End, position },
            b'"' => return self.text_token(position),
            _ => return Token { kind: self.word(), position },
        };
        self.position += 1;
        Token { kind: single, position }
    }

    /// A number, or one of the words `true`, `false` and `null`.
    fn word(&mut self) -> TokenKind<'b> {
        let first = self.peek(0);
        let allows_invalid = self.settings.decode_invalid != 0;
        if first == b'-' || first.is_ascii_digit() {
            if !allows_invalid && self.is_invalid_number() {
                return TokenKind::Error("invalid number");
            }
            return self.number();
        }
        for (word, kind) in [
            ("true", TokenKind::Boolean(true)),
            ("false", TokenKind::Boolean(false)),
            ("null", TokenKind::Null),
        ] {
            if self.rest().starts_with(word.as_bytes()) {
                self.position += word.len();
                return kind;
            }
        }
        let may_be_number = matches!(first, b'+' | b'i' | b'I' | b'n' | b'N');
        if may_be_number && allows_invalid && self.is_invalid_number() {
            return self.number();
        }
        TokenKind::Error("invalid token")
    }

    fn number(&mut self) -> TokenKind<'b> {
        // `strtod` stops at a zero byte, which is not part of a number.
        match number::read(self.rest()) {
            Some((number, length)) => {
                self.position += length;
                TokenKind::Number(number)
            }
            None => TokenKind::Error("invalid number"),
        }
    }

    /// Whether a number starts here that C accepts and JSON does not: with a plus sign or a leading zero,
    /// hexadecimal, infinite, or NaN.
    fn is_invalid_number(&self) -> bool {
        if self.peek(0) == b'+' {
            return true;
        }
        let sign = usize::from(self.peek(0) == b'-');
        match self.peek(sign) {
            b'0' => matches!(self.peek(sign + 1), b'x' | b'X' | b'0'..=b'9'),
            0..=b'9' => false,
            _ => {
                let word = self.text.get(self.position + sign..self.position + sign + 3).unwrap_or_default();
                word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")
            }
        }
    }

    /// A string. In the common case, without escapes, it is not copied.
    fn text_token(&mut self, position: usize) -> Token<'b> {
        self.position += 1;
        let rest = self.rest();
        let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0)).unwrap_or(rest.len());
        if rest.get(plain) == Some(&b'"') {
            self.position += plain + 1;
            return Token { kind: TokenKind::Text(&rest[..plain]), position };
        }
        self.unescaped.clear();
        loop {
            match self.peek(0) {
                b'"' => {
                    self.position += 1;
                    return Token { kind: TokenKind::UnescapedText, position };
                }
                0 => {
                    let kind = TokenKind::Error("unexpected end of string");
                    return Token { kind, position: self.position };
                }
                b'\\' => {
                    if let Err(text) = self.escape() {
                        return Token { kind: TokenKind::Error(text), position: self.position };
                    }
                }
                byte => {
                    self.unescaped.push(byte);
                    self.position += 1;
                }
            }
        }
    }

    fn escape(&mut self) -> Result<(), &'static str> {
        let byte = match self.peek(1) {
            b'u' => return self.unicode_escape().ok_or("invalid unicode escape code"),
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 0x08,
            b't' => b'\t',
            b'n' => b'\n',
            b'f' => 0x0c,
            b'r' => b'\r',
            _ => return Err("invalid escape code"),
        };
        self.unescaped.push(byte);
        self.position += 2;
        Ok(())
    }

    /// Parses four hexadecimal digits, starting `ahead` bytes after the current one.
    fn hex4(&self, ahead: usize) -> Option<u32> {
        let start = self.position + ahead;
        self.text
            .get(start..start + 4)?
            .iter()
            .try_fold(0, |value, byte| char::from(*byte).to_digit(16).map(|digit| value * 16 + digit))
    }

    fn unicode_escape(&mut self) -> Option<()> {
        let mut code = self.hex4(2)?;
        let mut length = 6;
        if code & 0xf800 == 0xd800 {
            if code & 0x400 != 0 || (self.peek(6), self.peek(7)) != (b'\\', b'u') {
                return None;
            }
            let low = self.hex4(8).filter(|low| low & 0xfc00 == 0xdc00)?;
            code = (((code & 0x3ff) << 10) | (low & 0x3ff)) + 0x10000;
            length = 12;
        }
        let character = char::from_u32(code)?;
        self.unescaped.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.position += length;
        Some(())
    }

    /// Pushes the value that begins with `token`.
    fn value(&mut self, token: Token<'b>) -> Result<(), Failure> {
        self.stack.take_steps(1)?;
        match token.kind {
            TokenKind::Text(text) => self.stack.push_bytes(text),
            TokenKind::UnescapedText => self.stack.push_bytes(&self.unescaped),
            TokenKind::Number(number) => self.stack.push_number(number),
            TokenKind::Boolean(boolean) => self.stack.push_boolean(boolean),
            TokenKind::Null => self.stack.push_null(),
            TokenKind::ObjectBegin => self.object(),
            TokenKind::ArrayBegin => self.array(),
            _ => Err(Self::unexpected("value", token)),
        }
    }

    fn descend(&mut self, slots: i32) -> Result<(), Failure> {
        self.depth += 1;
        if self.depth <= self.settings.decode_depth_max.min(NESTING_MAX) && self.stack.reserve(slots) {
            return Ok(());
        }
        let (depth, position) = (self.depth, self.position);
        Err(Failure::message(format!(
            "Found too many nested data structures ({depth}) at character {position}"
        )))
    }

    fn object(&mut self) -> Result<(), Failure> {
        self.descend(3)?;
        self.stack.push_table(0, 0)?;
        let mut token = self.token();
        while token.kind != TokenKind::ObjectEnd {
            match token.kind {
                TokenKind::Text(text) => self.stack.push_bytes(text)?,
                TokenKind::UnescapedText => self.stack.push_bytes(&self.unescaped)?,
                _ => return Err(Self::unexpected("object key string", token)),
            }
            token = self.token();
            if token.kind != TokenKind::Colon {
                return Err(Self::unexpected("colon", token));
            }
            token = self.token();
            self.value(token)?;
            self.stack.set(-3)?;
            token = self.token();
            match token.kind {
                TokenKind::ObjectEnd => break,
                TokenKind::Comma => {}
                _ => return Err(Self::unexpected("comma or object end", token)),
            }
            token = self.token();
            if token.kind == TokenKind::ObjectEnd {
                return Err(Self::unexpected("object key string", token));
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn array(&mut self) -> Result<(), Failure> {
        self.descend(2)?;
        self.stack.push_table(0, 0)?;
        let mut token = self.token();
        if token.kind != TokenKind::ArrayEnd {
            for position in 1.. {
                self.value(token)?;
                self.stack.set_item(-2, position)?;
                token = self.token();
                match token.kind {
                    TokenKind::ArrayEnd => break,
                    TokenKind::Comma => {}
                    _ => return Err(Self::unexpected("comma or array end", token)),
                }
                token = self.token();
            }
        }
        self.depth -= 1;
        Ok(())
    }
}
