//! The payload of `DUMP`: type and value, then the version and a checksum of everything. `FUNCTION DUMP` has
//! libraries instead of a value, in the form that they have in files. If members of a set expire, the type is preceded by a
//! field with the times, as in files; Redis refuses such a payload.

use crate::crc64::crc64;
use crate::format::{EXPIRIES_AUX, OP_AUX, OP_FUNCTION_PRE_GA, OP_FUNCTION2};
use crate::reader::Reader;
use crate::{VERSION, VERSION_MAX};

/// Appends version and checksum to a type and value.
pub fn seal_payload(payload: &mut Vec<u8>) {
    payload.extend_from_slice(&(VERSION as u16).to_le_bytes());
    payload.extend_from_slice(&crc64(0, payload).to_le_bytes());
}

/// The type and value in `payload`, if version and checksum are valid.
pub fn open_payload(payload: &[u8]) -> Option<&[u8]> {
    let (checked, checksum) = payload.split_last_chunk()?;
    let (value, version) = checked.split_last_chunk()?;
    let is_known = u32::from(u16::from_le_bytes(*version)) <= VERSION_MAX;
    (is_known && crc64(0, checked) == u64::from_le_bytes(*checksum)).then_some(value)
}

/// The parts of an opened payload: when members of a set expire, if it says so, and the rest. `None` if it is damaged.
pub fn split_expiries(opened: &[u8]) -> Option<(Option<Vec<u8>>, &[u8])> {
    if opened.first() != Some(&OP_AUX) {
        return Some((None, opened));
    }
    let mut reader = Reader::new(&opened[1..]);
    let name = reader.owned_string().ok()?;
    let expiries = reader.owned_string().ok()?;
    let rest = opened[1..].get(usize::try_from(reader.offset()).ok()?..)?;
    (name == EXPIRIES_AUX.as_bytes()).then_some((Some(expiries), rest))
}

/// Why the next library in a payload cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoLibrary {
    /// It is from a release candidate of Redis 7.0.
    PreRelease,
    /// It is something else.
    Other,
    /// It is damaged.
    Broken,
}

/// The codes of the libraries in the result of [`open_payload`].
#[derive(Debug)]
pub struct Libraries<'a> {
    reader: Reader<&'a [u8]>,
    length: u64,
}

impl<'a> Libraries<'a> {
    /// Reads the content of a payload.
    pub fn new(opened: &'a [u8]) -> Self {
        Libraries { reader: Reader::new(opened), length: opened.len() as u64 }
    }
}

impl Iterator for Libraries<'_> {
    type Item = Result<Vec<u8>, NoLibrary>;

    /// After an error there are no further items.
    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.offset() >= self.length {
            return None;
        }
        Some(match self.reader.byte() {
            Ok(OP_FUNCTION2) => self.reader.owned_string().map_err(|_| NoLibrary::Broken),
            Ok(OP_FUNCTION_PRE_GA) => Err(NoLibrary::PreRelease),
            Ok(_) | Err(_) => Err(NoLibrary::Other),
        })
    }
}
