//! Sketches, as values of modules: the form in which RedisBloom saves them.
//!
//! ```text
//!   length: name of the module's type, 9 characters of 6 bits, and 10 bits of its version
//!   fields: {kind: length} {length | 8 bytes | string}      kind 0: the end
//! ```
//!
//! The [fields](sketches::form) of each kind of sketch are described in its crate.

use std::io::{self, Read, Write};

use ds::Kind;
use sketches::{Bloom, CountMin, Cuckoo, Field, FieldSource, Sketch, TDigest, TopK};
use sketches::{bloom, count_min, cuckoo, t_digest, top_k};

use crate::encode::Encoder;
use crate::error::{Error, Why};
use crate::format::*;
use crate::reader::Reader;

/// The characters of names, by their 6 bits.
const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const NAME_CHARACTERS: u32 = 9;
const VERSION_BITS: u32 = 10;

/// The number that stands for a name and a version.
fn module_id(name: &str, version: u64) -> u64 {
    let bits = |character: u8| CHARACTERS.iter().position(|known| *known == character);
    let name = name.bytes().fold(0, |id, character| id << 6 | bits(character).unwrap_or_default() as u64);
    name << VERSION_BITS | version
}

/// The name and the version for which a number stands.
fn module_name(id: u64) -> (String, u64) {
    let shifts = (0..NAME_CHARACTERS).rev().map(|index| VERSION_BITS + 6 * index);
    let name = shifts.map(|shift| char::from(CHARACTERS[(id >> shift & 0x3f) as usize])).collect();
    (name, id & ((1 << VERSION_BITS) - 1))
}

fn id_of(sketch: &Sketch) -> u64 {
    let (kind, version) = match sketch {
        Sketch::Bloom(_) => (Kind::Bloom, bloom::VERSION),
        Sketch::Cuckoo(_) => (Kind::Cuckoo, cuckoo::VERSION),
        Sketch::CountMin(_) => (Kind::CountMin, count_min::VERSION),
        Sketch::TopK(_) => (Kind::TopK, top_k::VERSION),
        Sketch::TDigest(_) => (Kind::TDigest, t_digest::VERSION),
    };
    module_id(kind.name(), version)
}

/// Where the writing of a sketch continues.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SketchPart {
    /// Whether the name was written.
    has_begun: bool,
    /// The number of the next field, and how much of it was written.
    field: usize,
    offset: usize,
}

/// How much of a long string is written at once.
const PIECE_BYTES: usize = 32 * 1024;

impl<W: Write> Encoder<W> {
    /// Writes a sketch.
    pub fn sketch(&mut self, sketch: &Sketch) -> io::Result<()> {
        let written = sketch.written();
        let sketch = written.as_ref().unwrap_or(sketch);
        self.length(id_of(sketch))?;
        for field in (0..).map_while(|index| sketch.field(index)) {
            self.field(field)?;
        }
        self.length(MODULE_EOF)
    }

    fn field(&mut self, field: Field<'_>) -> io::Result<()> {
        match field {
            Field::Unsigned(number) => {
                self.length(MODULE_UINT)?;
                self.length(number)
            }
            Field::Signed(number) => {
                // Redis saves signed numbers as unsigned ones.
                self.length(MODULE_UINT)?;
                self.length(number as u64)
            }
            Field::Double(number) => {
                self.length(MODULE_DOUBLE)?;
                self.bytes(&number.to_le_bytes())
            }
            Field::Bytes(bytes) => {
                self.length(MODULE_STRING)?;
                self.string(bytes)
            }
        }
    }

    /// Writes a part of a sketch that is [ready to be written](Sketch::written), until `until` bytes are encoded in all. Returns the part that comes next.
    pub fn sketch_part(
        &mut self,
        sketch: &Sketch,
        mut part: SketchPart,
        until: u64,
    ) -> io::Result<Option<SketchPart>> {
        if !part.has_begun {
            self.length(id_of(sketch))?;
            part.has_begun = true;
        }
        while let Some(field) = sketch.field(part.field) {
            if self.offset() >= until {
                return Ok(Some(part));
            }
            if let Field::Bytes(bytes) = field {
                if part.offset == 0 {
                    self.length(MODULE_STRING)?;
                    self.length(bytes.len() as u64)?;
                }
                let piece = &bytes[part.offset..];
                let piece = &piece[..piece.len().min(PIECE_BYTES)];
                self.bytes(piece)?;
                part.offset += piece.len();
                if part.offset < bytes.len() {
                    continue;
                }
            } else {
                self.field(field)?;
            }
            part = SketchPart { field: part.field + 1, offset: 0, ..part };
        }
        self.length(MODULE_EOF)?;
        Ok(None)
    }
}

/// SketchFields that are read.
pub(crate) struct SketchFields<'r, R> {
    pub(crate) reader: &'r mut Reader<R>,
}

impl<R: Read> SketchFields<'_, R> {
    /// Reads the name of a module's type and a sketch.
    pub(crate) fn read(mut self) -> Result<Sketch, Error> {
        let offset = self.reader.offset();
        let (name, version) = module_name(self.reader.length()?);
        let kind = Kind::SKETCHES.into_iter().find(|kind| kind.name() == name);
        let fields = &mut self;
        let sketch = match kind {
            Some(Kind::Bloom) => Sketch::Bloom(Bloom::read(version, fields)?),
            Some(Kind::Cuckoo) => Sketch::Cuckoo(Cuckoo::read(version, fields)?),
            Some(Kind::CountMin) => Sketch::CountMin(CountMin::read(version, fields)?),
            Some(Kind::TopK) => Sketch::TopK(TopK::read(version, fields)?),
            Some(Kind::TDigest) => Sketch::TDigest(TDigest::read(version, fields)?),
            Some(Kind::Str | Kind::List | Kind::Set | Kind::ZSet | Kind::Hash | Kind::Stream) | None => {
                return Err(self.reader.error(offset, Why::UnknownModule { name, version, key: None }));
            }
        };
        let offset = self.reader.offset();
        if self.reader.length()? == MODULE_EOF {
            Ok(sketch)
        } else {
            self.reader.corrupt(offset, "a sketch does not end")
        }
    }

    fn expect(&mut self, kind: u64) -> Result<(), Error> {
        let offset = self.reader.offset();
        if self.reader.length()? == kind {
            return Ok(());
        }
        self.reader.corrupt(offset, "another type of field in a sketch")
    }
}

impl<R: Read> FieldSource for SketchFields<'_, R> {
    type Error = Error;

    fn unsigned(&mut self) -> Result<u64, Error> {
        self.expect(MODULE_UINT)?;
        self.reader.length()
    }

    fn signed(&mut self) -> Result<i64, Error> {
        Ok(self.unsigned()? as i64)
    }

    fn double(&mut self) -> Result<f64, Error> {
        self.expect(MODULE_DOUBLE)?;
        Ok(f64::from_le_bytes(self.reader.array()?))
    }

    fn bytes(&mut self) -> Result<Vec<u8>, Error> {
        self.expect(MODULE_STRING)?;
        self.reader.owned_string()
    }

    fn refuse(&mut self) -> Error {
        self.reader.error(self.reader.offset(), Why::Corrupt("a sketch contradicts itself"))
    }
}
