//! Reads a file item by item.
//!
//! A caller that skips values ([`FileReader::skip_value`]) learns where items begin. Others can then read the
//! bytes between two items as a part of a file.

use std::io::Read;

use crate::crc64::{combined, crc64};
use crate::decode::{Build, read_value};
use crate::error::{Error, Why};
use crate::format::*;
use crate::reader::Reader;
use crate::skip::{skip_module_fields, skip_value};

/// A part of a file.
#[derive(Debug)]
pub enum Item {
    /// The database of the following keys.
    Database(u64),
    /// About how many keys the database has, and how many of them expire.
    Sizes(u64, u64),
    /// A field of information about the file: name and value.
    Aux(Vec<u8>, Vec<u8>),
    /// The position and code of a library of functions.
    Library(u64, Vec<u8>),
    /// A key. Its value must be read with [`FileReader::value`] before the next item.
    Key(KeyItem),
    /// The end of the file.
    End,
}

/// A key and its properties.
#[derive(Debug)]
pub struct KeyItem {
    /// The key.
    pub key: Vec<u8>,
    /// The position of the key.
    pub offset: u64,
    /// The type of its value.
    pub value_type: ValueType,
    /// The expiry, in milliseconds since 1970.
    pub expiry_ms: Option<i64>,
    /// For how many seconds it was not used.
    pub idle_seconds: Option<u64>,
    /// Its logarithmic access counter.
    pub frequency: Option<u8>,
    /// The marks of memcached's clients, as text.
    pub marks: Option<Vec<u8>>,
    /// When members of a set expire, if some do.
    pub expiries: Option<Vec<u8>>,
    /// When the elements of a queue arrived, if that is stored.
    pub arrivals: Option<Vec<u8>>,
}

/// Reads a file, or a part of one.
#[derive(Debug)]
pub struct FileReader<R> {
    reader: Reader<R>,
    /// The version of a file; `None` for a part, which ends after any item.
    version: Option<u32>,
    family: Family,
    verifies: bool,
    /// The checksum at the end of the file.
    stored_checksum: u64,
}

/// A checksum, and the number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Checksum {
    crc: u64,
    len: u64,
}

impl Checksum {
    /// The checksum of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Checksum { crc: crc64(0, bytes), len: bytes.len() as u64 }
    }

    /// The number that is written.
    pub fn value(self) -> u64 {
        self.crc
    }

    /// The checksum of the same bytes followed by `others`.
    pub fn then(self, others: Checksum) -> Self {
        Checksum { crc: combined(self.crc, others.crc, others.len), len: self.len + others.len }
    }
}

impl<R: Read> FileReader<R> {
    /// Reads the head of a file. If `verifies`, the checksum at the end is compared, if there is one.
    pub fn new(source: R, verifies: bool) -> Result<Self, Error> {
        let mut reader = Reader::at(source, 0, verifies);
        let head: [u8; 9] = reader.array()?;
        let (family, version) = Family::of_head(&head).map_err(|why| reader.error(0, why))?;
        Ok(FileReader { reader, version: Some(version), family, verifies, stored_checksum: 0 })
    }

    /// Reads whole items from a part of a file that begins at `offset`. `sums`: whether [`FileReader::sum`]
    /// will be called.
    pub fn of_part(source: R, offset: u64, sums: bool) -> Self {
        let reader = Reader::at(source, offset, sums);
        FileReader { reader, version: None, family: Family::Redis, verifies: false, stored_checksum: 0 }
    }

    /// Sets the family of the file that the part belongs to.
    pub fn of_family(self, family: Family) -> Self {
        FileReader { family, ..self }
    }

    /// The family of the file.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The position of the next item.
    pub fn offset(&self) -> u64 {
        self.reader.offset()
    }

    /// The source. It is ahead of the items.
    pub fn source_mut(&mut self) -> &mut R {
        self.reader.source_mut()
    }

    /// The checksum of the part that was read, which began at `offset`.
    pub fn sum(&mut self, offset: u64) -> Checksum {
        Checksum { crc: self.reader.checksum(), len: self.reader.offset() - offset }
    }

    /// Checks a file that was not verified while it was read. `sum`: the checksum of everything before
    /// [`Item::End`]. Fails if the file has another one.
    pub fn verify(&self, sum: Checksum) -> Result<(), Error> {
        if self.stored_checksum != 0 && self.stored_checksum != sum.then(Checksum::of(&[OP_EOF])).crc {
            return Err(self.reader.error(self.offset() - 8, Why::Checksum));
        }
        Ok(())
    }

    /// The next item.
    pub fn next_item(&mut self) -> Result<Item, Error> {
        let (mut expiry_ms, mut idle_seconds, mut frequency) = (None, None, None);
        let (mut unsupported, mut marks, mut arrivals, mut expiries) = (None, None, None, None);
        if self.version.is_none() && self.reader.is_at_end()? {
            return Ok(Item::End);
        }
        loop {
            let reader = &mut self.reader;
            let offset = reader.offset();
            let is_about_key = (marks.is_some() || arrivals.is_some() || expiries.is_some())
                || (expiry_ms.is_some() || idle_seconds.is_some() || frequency.is_some());
            match reader.byte()? {
                OP_EXPIRETIME => expiry_ms = Some(i64::from(i32::from_le_bytes(reader.array()?)) * 1000),
                OP_EXPIRETIME_MS => expiry_ms = Some(i64::from_le_bytes(reader.array()?)),
                OP_FREQ => frequency = Some(reader.byte()?),
                OP_IDLE => idle_seconds = Some(reader.length()?),
                opcode @ OP_SLOT_INFO.. if is_about_key => {
                    return Err(reader.error(offset, no_key(opcode)));
                }
                OP_EOF => return self.end(offset),
                OP_SELECTDB => return Ok(Item::Database(reader.length()?)),
                OP_RESIZEDB => return Ok(Item::Sizes(reader.length()?, reader.length()?)),
                OP_AUX => match (reader.owned_string()?, reader.owned_string()?) {
                    (name, text) if name == MARKS_AUX.as_bytes() => marks = Some(text),
                    (name, bytes) if name == ARRIVALS_AUX.as_bytes() => arrivals = Some(bytes),
                    (name, bytes) if name == EXPIRIES_AUX.as_bytes() => expiries = Some(bytes),
                    (name, value) => return Ok(Item::Aux(name, value)),
                },
                OP_FUNCTION2 => return Ok(Item::Library(offset, reader.owned_string()?)),
                OP_SLOT_INFO => (0..3).try_for_each(|_| reader.length().map(|_| ()))?,
                OP_MODULE_AUX => skip_module_aux(reader)?,
                OP_FUNCTION_PRE_GA => {
                    let what = "functions of a release candidate of Redis 7.0 cannot be read";
                    return Err(
                        reader.error(offset, Why::Unsupported { code: OP_FUNCTION_PRE_GA, what, key: None })
                    );
                }
                OP_KEY_META if self.family == Family::Redis => {
                    skip_key_meta(reader)?;
                    let what = "metadata of modules cannot be read";
                    unsupported = Some(Why::Unsupported { code: OP_KEY_META, what, key: None });
                }
                OP_KEY_META => {
                    let what = "slots were being moved when it was saved";
                    return Err(reader.error(offset, Why::Unsupported { code: OP_KEY_META, what, key: None }));
                }
                code => {
                    let known = ValueType::from_code(code, self.family);
                    // The key comes first for values of any type.
                    let key = reader.owned_string()?;
                    let value_type = match known.and_then(|known| unsupported.map_or(Ok(known), Err)) {
                        Ok(value_type) => value_type,
                        Err(why) => return Err(reader.error(offset, about(key, why))),
                    };
                    return Ok(Item::Key(KeyItem {
                        key,
                        offset,
                        value_type,
                        expiry_ms,
                        idle_seconds,
                        frequency,
                        marks,
                        expiries,
                        arrivals,
                    }));
                }
            }
        }
    }

    /// Reads the value of the last key.
    pub fn value(&mut self, value_type: ValueType, build: &mut Build) -> Result<(), Error> {
        read_value(&mut self.reader, value_type, build)
    }

    /// Skips the value of the last key. Errors inside it are not found if they do not affect where it ends.
    pub fn skip_value(&mut self, value_type: ValueType) -> Result<(), Error> {
        skip_value(&mut self.reader, value_type)
    }

    fn end(&mut self, offset: u64) -> Result<Item, Error> {
        let Some(version) = self.version else {
            return self.reader.corrupt(offset, "an end amid a part");
        };
        if version >= VERSION_OF_CHECKSUM {
            let (offset, computed) = (self.reader.offset(), self.reader.checksum());
            self.stored_checksum = u64::from_le_bytes(self.reader.array()?);
            if self.verifies && ![0, computed].contains(&self.stored_checksum) {
                return Err(self.reader.error(offset, Why::Checksum));
            }
        }
        Ok(Item::End)
    }
}

/// Skips a module's own data. Its parts have lengths.
fn skip_module_aux<R: Read>(reader: &mut Reader<R>) -> Result<(), Error> {
    reader.length()?;
    skip_module_fields(reader)
}

/// Skips modules' data about a key.
fn skip_key_meta<R: Read>(reader: &mut Reader<R>) -> Result<(), Error> {
    for _ in 0..reader.length()? {
        reader.array::<4>()?;
        skip_module_fields(reader)?;
    }
    Ok(())
}

/// The error for an opcode where a key should be.
fn no_key(code: u8) -> Why {
    Why::Unsupported { code, what: "an opcode where a key is expected", key: None }
}

/// Adds the key to an error.
fn about(key: Vec<u8>, mut why: Why) -> Why {
    if let Why::Unsupported { key: of, .. } | Why::UnknownModule { key: of, .. } = &mut why {
        *of = Some(key);
    }
    why
}
