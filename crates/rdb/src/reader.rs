//! Reads bytes, lengths and strings from any source, and keeps the offset.

use std::io::Read;

use crate::crc64::crc64;
use crate::error::{Error, Why};
use crate::format::*;
use crate::lzf;

/// The longest string that can be read. Data structures cannot hold more.
pub const STRING_BYTES_MAX: u64 = u32::MAX as u64 - 64;

/// How many bytes are read from the source at once.
const BUFFER_BYTES: usize = 64 * 1024;
/// How many bytes are reserved for a string before any of them is read.
const RESERVED_BYTES_MAX: u64 = 1 << 20;

const UNKNOWN_STRING: &str = "unknown form of a string";

/// A source of bytes with a position.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    buffer: Vec<u8>,
    /// How much of the buffer is consumed.
    at: usize,
    /// How much of the buffer is in `checksum`, if that is computed.
    checked: usize,
    checksum: u64,
    sums: bool,
    /// The position of the buffer.
    buffer_offset: u64,
    /// A buffer for a compressed string.
    packed: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads from `source`, in large pieces.
    pub fn new(source: R) -> Self {
        Reader::at(source, 0, false)
    }

    /// Reads from a source that begins at `offset`. `sums`: whether the checksum is computed.
    pub(crate) fn at(source: R, offset: u64, sums: bool) -> Self {
        let (buffer, packed) = (Vec::new(), Vec::new());
        Reader { source, buffer, at: 0, checked: 0, checksum: 0, sums, buffer_offset: offset, packed }
    }

    /// The source. It is some bytes ahead.
    pub(crate) fn source_mut(&mut self) -> &mut R {
        &mut self.source
    }

    /// How many bytes were read.
    pub fn offset(&self) -> u64 {
        self.buffer_offset + self.at as u64
    }

    /// An error at position `offset`.
    pub fn error(&self, offset: u64, why: impl Into<Why>) -> Error {
        Error { offset, why: why.into() }
    }

    pub(crate) fn corrupt<T>(&self, offset: u64, what: &'static str) -> Result<T, Error> {
        Err(self.error(offset, Why::Corrupt(what)))
    }

    /// The checksum of everything that was read.
    pub(crate) fn checksum(&mut self) -> u64 {
        if self.sums {
            self.checksum = crc64(self.checksum, &self.buffer[self.checked..self.at]);
            self.checked = self.at;
        }
        self.checksum
    }

    /// Fills the buffer, which must be consumed. Fails at the end.
    fn refill(&mut self) -> Result<(), Error> {
        if self.try_refill()? { Ok(()) } else { Err(self.error(self.offset(), Why::Truncated)) }
    }

    /// Whether everything is read.
    pub(crate) fn is_at_end(&mut self) -> Result<bool, Error> {
        Ok(self.at == self.buffer.len() && !self.try_refill()?)
    }

    /// Fills the buffer, which must be consumed. False at the end.
    fn try_refill(&mut self) -> Result<bool, Error> {
        self.checksum();
        self.buffer_offset += self.buffer.len() as u64;
        self.buffer.resize(BUFFER_BYTES, 0);
        (self.at, self.checked) = (0, 0);
        let got = loop {
            match self.source.read(&mut self.buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(*got.as_ref().unwrap_or(&0));
        got.map(|count| count > 0).map_err(|error| self.error(self.offset(), error))
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        let mut done = 0;
        while done < N {
            if self.at == self.buffer.len() {
                self.refill()?;
            }
            let piece = (N - done).min(self.buffer.len() - self.at);
            bytes[done..done + piece].copy_from_slice(&self.buffer[self.at..self.at + piece]);
            self.at += piece;
            done += piece;
        }
        Ok(bytes)
    }

    /// Appends the next `count` bytes to `out`. Its memory grows with the bytes that are read.
    fn bytes(&mut self, count: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut left = count;
        while left > 0 {
            if self.at == self.buffer.len() {
                self.refill()?;
            }
            if out.capacity() == out.len() {
                let more = left.min(RESERVED_BYTES_MAX.max(out.len() as u64));
                out.reserve_exact(more as usize);
            }
            let piece = (self.buffer.len() - self.at).min(left as usize).min(out.capacity() - out.len());
            out.extend_from_slice(&self.buffer[self.at..self.at + piece]);
            self.at += piece;
            left -= piece as u64;
        }
        Ok(())
    }

    /// Skips the next `count` bytes.
    pub(crate) fn skip(&mut self, count: u64) -> Result<(), Error> {
        let mut left = count;
        while left > 0 {
            if self.at == self.buffer.len() {
                self.refill()?;
            }
            let piece = (self.buffer.len() - self.at).min(left as usize);
            self.at += piece;
            left -= piece as u64;
        }
        Ok(())
    }

    /// Skips a string.
    pub(crate) fn skip_string(&mut self) -> Result<(), Error> {
        let offset = self.offset();
        match self.length_or_special()? {
            Ok(length) => {
                self.check_length(offset, length)?;
                self.skip(length)
            }
            Err(SPECIAL_I8) => self.skip(1),
            Err(SPECIAL_I16) => self.skip(2),
            Err(SPECIAL_I32) => self.skip(4),
            Err(SPECIAL_LZF) => {
                let (packed_length, length) = (self.length()?, self.length()?);
                self.check_length(offset, packed_length)?;
                self.check_length(offset, length)?;
                self.skip(packed_length)
            }
            Err(_) => self.corrupt(offset, UNKNOWN_STRING),
        }
    }

    /// A length, or the kind of a special string.
    fn length_or_special(&mut self) -> Result<Result<u64, u8>, Error> {
        let offset = self.offset();
        let first = self.byte()?;
        let low = first & 0x3f;
        Ok(match first >> 6 {
            LENGTH_6_BITS => Ok(u64::from(low)),
            LENGTH_14_BITS => Ok(u64::from(low) << 8 | u64::from(self.byte()?)),
            SPECIAL => Err(low),
            _ if first == LENGTH_32_BITS => Ok(u64::from(u32::from_be_bytes(self.array()?))),
            _ if first == LENGTH_64_BITS => Ok(u64::from_be_bytes(self.array()?)),
            _ => return self.corrupt(offset, "unknown form of a length"),
        })
    }

    /// A length or any other unsigned number.
    pub fn length(&mut self) -> Result<u64, Error> {
        let offset = self.offset();
        match self.length_or_special()? {
            Ok(length) => Ok(length),
            Err(_) => self.corrupt(offset, "a string where a length is expected"),
        }
    }

    /// Reads a string into `out`, whose memory is reused.
    pub fn string(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let offset = self.offset();
        out.clear();
        let number = match self.length_or_special()? {
            Ok(length) => {
                self.check_length(offset, length)?;
                return self.bytes(length, out);
            }
            Err(SPECIAL_I8) => i32::from(i8::from_le_bytes(self.array()?)),
            Err(SPECIAL_I16) => i32::from(i16::from_le_bytes(self.array()?)),
            Err(SPECIAL_I32) => i32::from_le_bytes(self.array()?),
            Err(SPECIAL_LZF) => return self.compressed_string(offset, out),
            Err(_) => return self.corrupt(offset, UNKNOWN_STRING),
        };
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        Ok(())
    }

    /// Reads a string into new memory of the right size.
    pub(crate) fn owned_string(&mut self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        self.string(&mut out)?;
        out.shrink_to_fit();
        Ok(out)
    }

    fn compressed_string(&mut self, offset: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        let (packed_length, length) = (self.length()?, self.length()?);
        self.check_length(offset, packed_length)?;
        self.check_length(offset, length)?;
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        self.bytes(packed_length, &mut packed)?;
        let done = lzf::decompress(&packed, length as usize, out);
        // A string that was much longer than most leaves no memory behind.
        packed.shrink_to(RESERVED_BYTES_MAX as usize);
        self.packed = packed;
        done.ok_or_else(|| self.error(offset, Why::Corrupt("a compressed string is damaged")))
    }

    fn check_length(&self, offset: u64, length: u64) -> Result<(), Error> {
        if length > STRING_BYTES_MAX { self.corrupt(offset, "a string is longer than 4 GiB") } else { Ok(()) }
    }
}
