//! Reads a value of any encoding, part by part.

use std::io::Read;

use ds::stream::producers::RECORDS_MAX;
use ds::stream::{Group, ProducerLimits, Producers, StreamId};
use sketches::Sketch;

use crate::error::{Error, Why};
use crate::format::*;
use crate::packed::{Element, Packed, integers};
use crate::reader::Reader;
use crate::sketch::SketchFields;
use crate::stream;

/// A part of a value. Parts come in the order of the file.
#[derive(Debug)]
pub enum Part<'a> {
    /// A whole string.
    Str(Vec<u8>),
    /// The next element of a list.
    Element(&'a [u8]),
    /// A member of a set.
    Member(&'a [u8]),
    /// A member of a sorted set, and its score, which is not NaN.
    Scored(&'a [u8], f64),
    /// A field of a hash, its value, and its expiry.
    Field(&'a [u8], &'a [u8], Option<i64>),
    /// An entry of a stream.
    Entry {
        /// The id, which is larger than those before.
        id: StreamId,
        /// Field, value, field, value …, at least one pair.
        pairs: &'a [&'a [u8]],
        /// Whether it begins a node. Entries with the same fields may follow, which then take no memory for
        /// them.
        begins_node: bool,
    },
    /// An entry of a stream with the fields of the entry that began the node.
    SameFields {
        /// The id, which is larger than those before.
        id: StreamId,
        /// One value for each field.
        values: &'a [&'a [u8]],
    },
    /// The counters of a stream. They come after its entries and agree with them.
    LogEnd {
        /// The largest id that was ever assigned.
        last_id: StreamId,
        /// The largest id that was deleted.
        max_deleted_id: StreamId,
        /// How many entries were ever added.
        entries_added: i64,
    },
    /// A group of a stream.
    Group {
        /// Its name.
        name: &'a [u8],
        /// The group.
        group: Box<Group>,
        /// Whether the group says how many entries it has read. If not, that must be computed from its last
        /// id.
        counts_reads: bool,
    },
    /// A part of what a stream knows of its producers, behind its groups.
    Producers(ProducersPart<'a>),
    /// A whole sketch.
    Sketch(Box<Sketch>),
}

/// A part of what a stream knows of its producers.
#[derive(Debug)]
pub enum ProducersPart<'a> {
    /// The limits, which come first.
    Limits(ProducerLimits),
    /// A message: its producer, the id that the producer gave it, and its entry.
    Message(&'a [u8], &'a [u8], StreamId),
    /// How many messages were ever recorded, and how many were recognized.
    Counts(u64, u64),
}

impl ProducersPart<'_> {
    /// Adds this part; false if it is there already, or if there are more messages of a producer than can be. What a
    /// stream without producers has makes none.
    pub fn add_to(self, producers: &mut Option<Box<Producers>>) -> bool {
        let has_none = match &self {
            ProducersPart::Limits(limits) => *limits == ProducerLimits::default(),
            ProducersPart::Message(..) => false,
            ProducersPart::Counts(added, duplicates) => (*added, *duplicates) == (0, 0),
        };
        if has_none && producers.is_none() {
            return true;
        }
        let producers = producers.get_or_insert_with(|| Box::new(Producers::new(ProducerLimits::default())));
        match self {
            ProducersPart::Limits(limits) => **producers = Producers::new(limits),
            ProducersPart::Message(producer, message, id) => {
                if producers.count_of(producer) >= RECORDS_MAX as usize {
                    return false;
                }
                let before = producers.record_count();
                producers.insert(producer, message, id);
                return producers.record_count() > before;
            }
            ProducersPart::Counts(added, duplicates) => {
                (producers.added, producers.duplicates) = (added, duplicates);
            }
        }
        true
    }
}

/// Receives the parts of a value. Returns false for a part that it has already; that ends reading with an
/// error.
pub type Build<'b> = dyn FnMut(Part<'_>) -> bool + 'b;

/// Reads a value of type `value_type`. Passes its parts, perhaps none, to `build`.
pub fn read_value<R: Read>(
    reader: &mut Reader<R>,
    value_type: ValueType,
    build: &mut Build,
) -> Result<(), Error> {
    match value_type {
        ValueType::Str => {
            let string = reader.owned_string()?;
            build(Part::Str(string));
            Ok(())
        }
        ValueType::List => each_string(reader, build, |string| Part::Element(string)),
        ValueType::Set => each_string(reader, build, |string| Part::Member(string)),
        ValueType::Hash => fields(reader, build),
        ValueType::ZSetText => scored(reader, build, text_score),
        ValueType::ZSet => scored(reader, build, |reader| Ok(f64::from_le_bytes(reader.array()?))),
        ValueType::SetIntset => packed(reader, build, |bytes, build| {
            let mut text = itoa::Buffer::new();
            integers(bytes)?.try_for_each(|number| add(build, Part::Member(text.format(number).as_bytes())))
        }),
        ValueType::SetListpack => packed(reader, build, |bytes, build| {
            singles(Packed::listpack(bytes)?, build, |member| Part::Member(member))
        }),
        ValueType::ListZiplist => packed(reader, build, list_ziplist),
        ValueType::HashZipmap => {
            packed(reader, build, |bytes, build| field_pairs(Packed::zipmap(bytes)?, build))
        }
        ValueType::HashZiplist => {
            packed(reader, build, |bytes, build| field_pairs(Packed::ziplist(bytes)?, build))
        }
        ValueType::HashListpack => {
            packed(reader, build, |bytes, build| field_pairs(Packed::listpack(bytes)?, build))
        }
        ValueType::HashExpiring => expiring_fields(reader, build),
        ValueType::HashExpiringEach => each_expiring_field(reader, build),
        ValueType::HashExpiringListpack => {
            // The earliest time, which is there once more.
            reader.array::<8>()?;
            packed(reader, build, field_triples)
        }
        ValueType::ZSetZiplist => {
            packed(reader, build, |bytes, build| score_pairs(Packed::ziplist(bytes)?, build))
        }
        ValueType::ZSetListpack => {
            packed(reader, build, |bytes, build| score_pairs(Packed::listpack(bytes)?, build))
        }
        ValueType::ListQuicklist => {
            let count = reader.length()?;
            (0..count).try_for_each(|_| packed(reader, build, list_ziplist))
        }
        ValueType::ListQuicklist2 => quicklist(reader, build),
        ValueType::Stream
        | ValueType::Stream2
        | ValueType::Stream3
        | ValueType::Stream4
        | ValueType::Stream5 => stream::read(reader, value_type, build),
        ValueType::Module => {
            let offset = reader.offset();
            let sketch = SketchFields { reader }.read()?;
            if build(Part::Sketch(Box::new(sketch))) { Ok(()) } else { reader.corrupt(offset, DUPLICATE) }
        }
    }
}

/// Why a packed string or a part is refused.
pub(crate) type Refused = &'static str;

pub(crate) const DUPLICATE: Refused = "an element occurs twice";
const NOT_A_TIME: Refused = "a field has an impossible expiry";
const NOT_A_SCORE: Refused = "a score is not a number";

fn add(build: &mut Build, part: Part) -> Result<(), Refused> {
    if build(part) { Ok(()) } else { Err(DUPLICATE) }
}

/// Reads a count, and then that many strings.
fn each_string<R: Read>(
    reader: &mut Reader<R>,
    build: &mut Build,
    part: fn(&[u8]) -> Part<'_>,
) -> Result<(), Error> {
    let mut string = Vec::new();
    for _ in 0..reader.length()? {
        let offset = reader.offset();
        reader.string(&mut string)?;
        add(build, part(&string)).map_err(|what| reader.error(offset, Why::Corrupt(what)))?;
    }
    Ok(())
}

fn fields<R: Read>(reader: &mut Reader<R>, build: &mut Build) -> Result<(), Error> {
    let (mut field, mut value) = (Vec::new(), Vec::new());
    for _ in 0..reader.length()? {
        let offset = reader.offset();
        reader.string(&mut field)?;
        reader.string(&mut value)?;
        add(build, Part::Field(&field, &value, None))
            .map_err(|what| reader.error(offset, Why::Corrupt(what)))?;
    }
    Ok(())
}

fn expiring_fields<R: Read>(reader: &mut Reader<R>, build: &mut Build) -> Result<(), Error> {
    let earliest = u64::from_le_bytes(reader.array()?);
    let (mut field, mut value) = (Vec::new(), Vec::new());
    for _ in 0..reader.length()? {
        let offset = reader.offset();
        let expiry = match reader.length()? {
            0 => Ok(None),
            later => time(earliest.saturating_add(later - 1)),
        };
        reader.string(&mut field)?;
        reader.string(&mut value)?;
        expiry
            .and_then(|expiry| add(build, Part::Field(&field, &value, expiry)))
            .map_err(|what| reader.error(offset, Why::Corrupt(what)))?;
    }
    Ok(())
}

fn each_expiring_field<R: Read>(reader: &mut Reader<R>, build: &mut Build) -> Result<(), Error> {
    const NEVER: i64 = -1;
    let (mut field, mut value) = (Vec::new(), Vec::new());
    for _ in 0..reader.length()? {
        let offset = reader.offset();
        reader.string(&mut field)?;
        reader.string(&mut value)?;
        let expiry = match i64::from_le_bytes(reader.array()?) {
            NEVER => Ok(None),
            at_ms => time(at_ms as u64),
        };
        expiry
            .and_then(|expiry| add(build, Part::Field(&field, &value, expiry)))
            .map_err(|what| reader.error(offset, Why::Corrupt(what)))?;
    }
    Ok(())
}

/// The expiry of a field. Redis does not accept later times either.
fn time(at_ms: u64) -> Result<Option<i64>, Refused> {
    if at_ms < TIME_END { Ok(Some(at_ms as i64)) } else { Err(NOT_A_TIME) }
}

fn scored<R: Read>(
    reader: &mut Reader<R>,
    build: &mut Build,
    read_score: fn(&mut Reader<R>) -> Result<f64, Error>,
) -> Result<(), Error> {
    let mut member = Vec::new();
    for _ in 0..reader.length()? {
        let offset = reader.offset();
        reader.string(&mut member)?;
        let score = read_score(reader)?;
        if score.is_nan() {
            return reader.corrupt(offset, NOT_A_SCORE);
        }
        add(build, Part::Scored(&member, score)).map_err(|what| reader.error(offset, Why::Corrupt(what)))?;
    }
    Ok(())
}

/// A score in the format before version 8.
fn text_score<R: Read>(reader: &mut Reader<R>) -> Result<f64, Error> {
    let offset = reader.offset();
    match reader.byte()? {
        SCORE_NAN => Ok(f64::NAN),
        SCORE_INFINITY => Ok(f64::INFINITY),
        SCORE_NEGATIVE_INFINITY => Ok(f64::NEG_INFINITY),
        length => {
            let mut text = [0; SCORE_NAN as usize];
            let text = &mut text[..usize::from(length)];
            for byte in text.iter_mut() {
                *byte = reader.byte()?;
            }
            ds::num::parse_f64(text).ok_or_else(|| reader.error(offset, Why::Corrupt(NOT_A_SCORE)))
        }
    }
}

/// Reads a packed string; `walk` splits it.
pub(crate) fn packed<R: Read>(
    reader: &mut Reader<R>,
    build: &mut Build,
    walk: impl FnOnce(&[u8], &mut Build) -> Result<(), Refused>,
) -> Result<(), Error> {
    let offset = reader.offset();
    let mut bytes = Vec::new();
    reader.string(&mut bytes)?;
    walk(&bytes, build).map_err(|what| reader.error(offset, Why::Corrupt(what)))
}

fn list_ziplist(bytes: &[u8], build: &mut Build) -> Result<(), Refused> {
    singles(Packed::ziplist(bytes)?, build, |element| Part::Element(element))
}

fn singles(mut packed: Packed, build: &mut Build, part: fn(&[u8]) -> Part<'_>) -> Result<(), Refused> {
    while let Some(element) = packed.next()? {
        add(build, part(element.bytes(&mut itoa::Buffer::new())))?;
    }
    Ok(())
}

fn field_pairs(mut packed: Packed, build: &mut Build) -> Result<(), Refused> {
    while let Some((field, value)) = packed.next_pair()? {
        let (mut field_text, mut value_text) = (itoa::Buffer::new(), itoa::Buffer::new());
        add(build, Part::Field(field.bytes(&mut field_text), value.bytes(&mut value_text), None))?;
    }
    Ok(())
}

fn field_triples(bytes: &[u8], build: &mut Build) -> Result<(), Refused> {
    let mut fields = Packed::listpack(bytes)?;
    while let Some((field, value)) = fields.next_pair()? {
        let expiry = match fields.next()? {
            Some(Element::Int(0)) => None,
            Some(Element::Int(at_ms)) => time(at_ms as u64)?,
            _ => return Err(NOT_A_TIME),
        };
        let (mut field_text, mut value_text) = (itoa::Buffer::new(), itoa::Buffer::new());
        add(build, Part::Field(field.bytes(&mut field_text), value.bytes(&mut value_text), expiry))?;
    }
    Ok(())
}

fn score_pairs(mut packed: Packed, build: &mut Build) -> Result<(), Refused> {
    while let Some((member, score)) = packed.next_pair()? {
        let score = match score {
            Element::Int(number) => number as f64,
            Element::Text(text) => ds::num::parse_f64(text).ok_or(NOT_A_SCORE)?,
        };
        add(build, Part::Scored(member.bytes(&mut itoa::Buffer::new()), score))?;
    }
    Ok(())
}

fn quicklist<R: Read>(reader: &mut Reader<R>, build: &mut Build) -> Result<(), Error> {
    for _ in 0..reader.length()? {
        let offset = reader.offset();
        match reader.length()? {
            NODE_PLAIN => packed(reader, build, |element, build| add(build, Part::Element(element)))?,
            NODE_LISTPACK => packed(reader, build, |bytes, build| {
                singles(Packed::listpack(bytes)?, build, |element| Part::Element(element))
            })?,
            _ => return reader.corrupt(offset, "unknown kind of a list's node"),
        }
    }
    Ok(())
}
