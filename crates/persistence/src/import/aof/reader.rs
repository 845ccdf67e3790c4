//! The commands in a file, one by one.
//!
//! A file that ends in the middle of a command is *torn*, as a crash leaves it. If a damaged length makes a
//! command reach to the end of the file, it looks the same, but there are whole commands inside: that is an
//! error, not a torn end.

use std::io::Read;

use memchr::memchr;
use memchr::memmem::Finder;

use crate::import::aof::error::{Error, Why};

/// How many bytes are read at once.
const BUFFER_BYTES: usize = 256 * 1024;
/// The longest line with a number: the sign byte, the digits and the line end.
const LINE_BYTES_MAX: usize = 32;
/// How many bytes are reserved for an argument before it is read.
const RESERVED_BYTES_MAX: usize = 64 * 1024;

/// A command in a file.
#[derive(Debug, Default)]
pub struct Record {
    bytes: Vec<u8>,
    /// Where each argument ends.
    ends: Vec<usize>,
    /// The position of the command.
    pub offset: u64,
}

impl Record {
    /// The arguments, at least one.
    pub fn args<'a>(&'a self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut start = 0;
        self.ends.iter().map(move |end| &self.bytes[std::mem::replace(&mut start, *end)..*end])
    }

    fn clear(&mut self, offset: u64) {
        self.bytes.clear();
        // Frees the memory of a large command.
        self.bytes.shrink_to(BUFFER_BYTES);
        self.ends.clear();
        self.offset = offset;
    }
}

/// Reads the commands of a file.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    buffer: Vec<u8>,
    /// How far the buffer has been consumed.
    at: usize,
    /// The position of the buffer in the file.
    offset: u64,
    argument_bytes_max: u64,
}

impl<R: Read> Reader<R> {
    /// `source` begins at `offset` in its file. An argument may have at most `argument_bytes_max`.
    pub fn new(source: R, offset: u64, argument_bytes_max: u64) -> Self {
        Reader { source, buffer: Vec::new(), at: 0, offset, argument_bytes_max }
    }

    /// The position of the next command.
    pub fn offset(&self) -> u64 {
        self.offset + self.at as u64
    }

    /// Reads the next command into `record`; false at the end of the file.
    ///
    /// # Errors
    /// [`Why::Torn`] if the file ends in the middle of a command.
    pub fn next(&mut self, record: &mut Record) -> Result<bool, Error> {
        loop {
            if !self.has(1)? {
                return Ok(false);
            }
            if self.buffer[self.at] != b'#' {
                break;
            }
            self.skip_line()?;
        }
        record.clear(self.offset());
        let torn = |source: Error| match source.why {
            Why::Torn => Error { offset: record.offset, why: Why::Torn },
            _ => source,
        };
        let count = self.length(b'*', "a byte that begins no command").map_err(torn)?;
        if count == 0 {
            return Err(Error { offset: record.offset, why: Why::Format("an empty command") });
        }
        for _ in 0..count {
            let start = self.offset();
            let length = self.length(b'$', "a byte that begins no argument").map_err(torn)?;
            if length > self.argument_bytes_max {
                return Err(Error { offset: start, why: Why::Format("an argument longer than any can be") });
            }
            match self.take_argument(length as usize, &mut record.bytes) {
                Err(Error { why: Why::Torn, .. }) if has_commands(&record.bytes) => {
                    let why = Why::Format("a length that reaches over the commands behind it");
                    return Err(Error { offset: start, why });
                }
                taken => taken.map_err(torn)?,
            }
            record.ends.push(record.bytes.len());
        }
        Ok(true)
    }

    /// Reads an argument and its line end.
    fn take_argument(&mut self, length: usize, into: &mut Vec<u8>) -> Result<(), Error> {
        let mut left = length;
        into.reserve(left.min(RESERVED_BYTES_MAX));
        while left > 0 {
            if !self.has(1)? {
                return Err(self.error(Why::Torn));
            }
            let count = left.min(self.buffer.len() - self.at);
            into.extend_from_slice(&self.buffer[self.at..self.at + count]);
            self.at += count;
            left -= count;
        }
        let has_end = self.has(2)?;
        let rest = &self.buffer[self.at..];
        match rest.get(..2) {
            Some(b"\r\n") => {
                self.at += 2;
                Ok(())
            }
            _ if !has_end && b"\r\n".starts_with(rest) => Err(self.error(Why::Torn)),
            _ => Err(self.error(Why::Format("no line end after an argument"))),
        }
    }

    /// Reads a line with a number after `sign`.
    fn length(&mut self, sign: u8, no_sign: &'static str) -> Result<u64, Error> {
        if !self.has(1)? {
            return Err(self.error(Why::Torn));
        }
        if self.buffer[self.at] != sign {
            return Err(self.error(Why::Format(no_sign)));
        }
        let mut looked_at = self.buffer.len() - self.at;
        let end = loop {
            let line = &self.buffer[self.at..];
            let line = &line[..line.len().min(LINE_BYTES_MAX)];
            if let Some(end) = memchr(b'\n', line) {
                break end;
            }
            if line.len() == LINE_BYTES_MAX {
                return Err(self.error(Why::Format("no number")));
            }
            if !self.has(looked_at + 1)? {
                let is_beginning = line_begins_number(&self.buffer[self.at + 1..]);
                let why = if is_beginning { Why::Torn } else { Why::Format("no number") };
                return Err(self.error(why));
            }
            looked_at = self.buffer.len() - self.at;
        };
        let line = &self.buffer[self.at..self.at + end];
        let digits = line[1..].strip_suffix(b"\r").filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let number = digits.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
        let Some(number) = number else { return Err(self.error(Why::Format("no number"))) };
        self.at += end + 1;
        Ok(number)
    }

    /// Skips an annotation.
    fn skip_line(&mut self) -> Result<(), Error> {
        loop {
            let rest = &self.buffer[self.at..];
            if let Some(end) = memchr(b'\n', rest) {
                self.at += end + 1;
                return Ok(());
            }
            self.at = self.buffer.len();
            if !self.has(1)? {
                return Ok(());
            }
        }
    }

    /// Whether the file has `count` more bytes. If so, they are in the buffer.
    fn has(&mut self, count: usize) -> Result<bool, Error> {
        while self.buffer.len() - self.at < count {
            self.buffer.drain(..self.at);
            self.offset += std::mem::take(&mut self.at) as u64;
            let before = self.buffer.len();
            let read = (&mut self.source).take(BUFFER_BYTES as u64).read_to_end(&mut self.buffer);
            read.map_err(|cause| self.error(cause.into()))?;
            if self.buffer.len() == before {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn error(&self, why: Why) -> Error {
        Error { offset: self.offset(), why }
    }
}

/// Whether `text` may be the beginning of a number and its line end.
fn line_begins_number(text: &[u8]) -> bool {
    let digits = text.strip_suffix(b"\r").unwrap_or(text);
    digits.iter().all(u8::is_ascii_digit)
}

/// Whether `bytes` contains what looks like the beginning of a command.
fn has_commands(bytes: &[u8]) -> bool {
    let finder = Finder::new(b"\r\n*");
    finder.find_iter(bytes).any(|place| {
        let rest = &bytes[place + 3..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && rest[digits..].starts_with(b"\r\n$")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n";

    /// Gives one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let count = into.len().min(1);
            self.0.read(&mut into[..count])
        }
    }

    fn read(text: &[u8]) -> (Vec<String>, Option<String>) {
        let (mut reader, mut record) = (Reader::new(Slow(text), 0, 1000), Record::default());
        let mut found = Vec::new();
        loop {
            match reader.next(&mut record) {
                Ok(false) => return (found, None),
                Ok(true) => {
                    let words: Vec<_> = record.args().map(|arg| arg.escape_ascii().to_string()).collect();
                    found.push(words.join(" "));
                }
                Err(error) => return (found, Some(error.to_string())),
            }
        }
    }

    #[test]
    fn commands_and_annotations() {
        let text = format!("#TS:1700000000\r\n{SET}*1\r\n$0\r\n\r\n#end");
        assert_eq!(read(text.as_bytes()), (vec!["SET a \\r\\n".to_owned(), String::new()], None));
    }

    #[test]
    fn every_torn_end_is_known_as_one() {
        for length in 1..SET.len() {
            let text = [SET, &SET[..length]].concat();
            let torn = format!("the file ends in the middle of a command at offset {}", SET.len());
            assert_eq!(read(text.as_bytes()), (vec!["SET a \\r\\n".to_owned()], Some(torn)), "{length}");
        }
    }

    #[test]
    fn damage_is_named_with_its_place() {
        for (text, error) in [
            ("SET a b\r\n", "a byte that begins no command at offset 0"),
            ("*0\r\n", "an empty command at offset 0"),
            ("*-1\r\n", "no number at offset 0"),
            ("*1\n", "no number at offset 0"),
            ("*11111111111111111111111111111111111111111", "no number at offset 0"),
            ("*1x", "no number at offset 0"),
            ("*1\r\nGET", "a byte that begins no argument at offset 4"),
            ("*1\r\n$2\r\nGET\r\n", "no line end after an argument at offset 10"),
            ("*1\r\n$1001\r\n", "an argument longer than any can be at offset 4"),
            ("\0\0\0", "a byte that begins no command at offset 0"),
            (
                "*1\r\n$400\r\nGET\r\n*1\r\n$3\r\nGET\r\n",
                "a length that reaches over the commands behind it at offset 4",
            ),
        ] {
            assert_eq!(read(text.as_bytes()), (Vec::new(), Some(error.to_owned())), "{text:?}");
        }
    }
}
