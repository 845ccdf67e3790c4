//! Values in Redis' dump format: what `DUMP`, `RESTORE` and snapshots share.
//!
//! Small collections are written in the packed form that they have in memory, others element by element. Reading builds
//! a value element by element with the limits in force, from any encoding.
//!
//! Not here: the bytes of the format (`rdb`), and what surrounds a value in a file or in a payload.

use std::io::{self, Write};

use ds::Kind;
use ds::hash::{Hash, HashRef};
use ds::list::End;
use ds::packed::Packed;
use ds::set::Set;
use ds::stream::{Stream, StreamLimits};
use ds::zset::{ZSet, ZSetRef};
use keyspace::List;
use keyspace::{Config, SHARED_BYTES_MIN, Str, UnixMs, Value, ValueRef};
use rdb::{Encoder, Part, SketchPart, StreamPart, Style, ValueType};
use sketches::Sketch;
use std::borrow::Cow;

/// Collections that take more memory are not packed: that takes it a second time.
const PACKED_BYTES_MAX: usize = 64 * 1024;

/// How [`write`] encodes `value` in this style.
pub fn value_type(value: ValueRef<'_>, style: Style) -> ValueType {
    let is_short = |packed: Packed<'_>| packed.bytes.len() <= PACKED_BYTES_MAX;
    match value {
        ValueRef::Str(_) => ValueType::Str,
        ValueRef::List(_) => ValueType::ListQuicklist2,
        ValueRef::Set(set) if set.encoding() == "intset" => ValueType::SetIntset,
        ValueRef::Set(set) if style.packs_sets() && set.packed().is_some_and(is_short) => {
            ValueType::SetListpack
        }
        ValueRef::Set(_) => ValueType::Set,
        ValueRef::ZSet(zset) if zset.packed().is_some_and(is_short) => ValueType::ZSetListpack,
        ValueRef::ZSet(_) => ValueType::ZSet,
        ValueRef::Hash(hash) if first_expiry(hash, style).is_some() => ValueType::HashExpiring,
        ValueRef::Hash(hash) if hash.packed().is_some_and(is_short) => ValueType::HashListpack,
        ValueRef::Compressed(hash) if !hash.is_big => ValueType::HashListpack,
        ValueRef::Hash(_) | ValueRef::Compressed(_) => ValueType::Hash,
        ValueRef::Stream(stream) => style.stream_type_of(stream),
        ValueRef::Sketch(_) => ValueType::Module,
    }
}

/// Whether this style has such values at all: Redis 7.0 does not know sketches.
pub fn has(style: Style, value: ValueRef<'_>) -> bool {
    style.keeps_all || !matches!(value, ValueRef::Sketch(_))
}

/// Writes `value`, which is of [`value_type`]; the type itself was written before.
pub fn write<W: Write>(value: ValueRef<'_>, encoder: &mut Encoder<W>) -> io::Result<()> {
    let value_type = value_type(value, encoder.style());
    match value {
        ValueRef::Compressed(hash) => write_hash(hash.expand(&mut Vec::new()), value_type, encoder),
        ValueRef::Str(string) => encoder.string(&string.bytes()),
        ValueRef::List(list) => encoder.quicklist(list.iter(0, false)),
        ValueRef::Set(set) if value_type == ValueType::SetIntset => {
            let integers: Vec<i64> = set.iter().filter_map(|member| ds::num::parse_i64(&member)).collect();
            encoder.intset(&integers)
        }
        ValueRef::Set(set) if value_type == ValueType::SetListpack => encoder.listpack(set.iter()),
        ValueRef::Set(set) => encoder.strings(set.len(), set.iter()),
        ValueRef::ZSet(zset) if value_type == ValueType::ZSetListpack => write_packed_zset(zset, encoder),
        ValueRef::ZSet(zset) => encoder.scored(zset.len(), zset.iter()),
        ValueRef::Hash(hash) => write_hash(hash, value_type, encoder),
        ValueRef::Stream(stream) => encoder.stream(stream),
        ValueRef::Sketch(sketch) => encoder.sketch(sketch),
    }
}

fn write_hash<W: Write>(
    hash: HashRef<'_>,
    value_type: ValueType,
    encoder: &mut Encoder<W>,
) -> io::Result<()> {
    let items = hash.iter().flat_map(|(field, value)| [Cow::Borrowed(field), value.bytes()]);
    match value_type {
        ValueType::HashExpiring => write_expiring(hash, encoder),
        ValueType::HashListpack => encoder.listpack(items),
        _ => encoder.strings(hash.len(), items),
    }
}

/// When the first field expires, if that is written.
fn first_expiry(hash: HashRef<'_>, style: Style) -> Option<UnixMs> {
    hash.first_expiry().filter(|_| style.keeps_all)
}

fn write_expiring<W: Write>(hash: HashRef<'_>, encoder: &mut Encoder<W>) -> io::Result<()> {
    let earliest = hash.first_expiry().unwrap_or_default();
    let fields = hash.iter().map(|(field, value)| (field, value.bytes(), hash.expiry(field)));
    encoder.expiring_fields(earliest, hash.len(), fields)
}

fn write_packed_zset<W: Write>(zset: ZSetRef<'_>, encoder: &mut Encoder<W>) -> io::Result<()> {
    let mut scores = Vec::with_capacity(zset.len());
    for (_, score) in zset.iter() {
        let mut text = Vec::new();
        ds::num::format_f64_17g(score, &mut text);
        scores.push(text);
    }
    let items =
        zset.iter().zip(&scores).flat_map(|((member, _), score)| [member, Cow::Borrowed(score.as_slice())]);
    encoder.listpack(items)
}

/// When members of the set `value` expire, as bytes: for each its time in ms, its length (both little-endian, of 8 and 4
/// bytes), and the member. They stand before the set, which is encoded like any other, so that Redis can read it.
pub fn expiry_bytes(value: ValueRef<'_>) -> Option<Vec<u8>> {
    let ValueRef::Set(set) = value else { return None };
    set.first_expiry()?;
    let mut bytes = Vec::new();
    for (member, at_ms) in set.expiries() {
        bytes.extend_from_slice(&at_ms.to_le_bytes());
        bytes.extend_from_slice(&(member.len() as u32).to_le_bytes());
        bytes.extend_from_slice(member);
    }
    Some(bytes)
}

/// Sets when members of a set expire, as [`expiry_bytes`] says. `None` if these are not the times of such a set.
pub fn set_expiries(value: &mut Value, mut bytes: &[u8]) -> Option<()> {
    let Value::Set(set) = value else { return None };
    while !bytes.is_empty() {
        let (at_ms, rest) = bytes.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let (member, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        if !set.lend().contains(member) {
            return None;
        }
        set.set_expiry(member, i64::from_le_bytes(*at_ms));
        bytes = rest;
    }
    Some(())
}

/// Elements of a table that are looked at together.
const SCANNED_AT_ONCE: usize = 64;

/// `value` as `DUMP` has it.
pub fn payload(value: ValueRef<'_>, compresses: bool) -> Vec<u8> {
    let mut payload = value_bytes(value, compresses).expect("memory takes all that is written");
    rdb::seal_payload(&mut payload);
    payload
}

fn value_bytes(value: ValueRef<'_>, compresses: bool) -> io::Result<Vec<u8>> {
    let mut encoder = Encoder::new(Vec::new(), compresses);
    if let Some(expiries) = expiry_bytes(value) {
        encoder.expiries(&expiries)?;
    }
    encoder.value_type(value_type(value, encoder.style()))?;
    write(value, &mut encoder)?;
    encoder.finish()
}

/// A collection that is written in parts, element by element; it must not change before the end.
#[derive(Debug, Default)]
pub struct InParts {
    has_begun: bool,
    /// The next element's index or rank, or the cursor in a table.
    next: u64,
    of_stream: StreamPart,
    of_sketch: SketchPart,
    /// The sketch that is written, if it is not the value itself.
    sketch: Option<Box<Sketch>>,
}

impl InParts {
    /// How `value`, a collection, is encoded in this style.
    pub fn value_type(value: ValueRef<'_>, style: Style) -> ValueType {
        match value {
            ValueRef::Str(_) => ValueType::Str,
            ValueRef::List(_) => ValueType::List,
            ValueRef::Set(_) => ValueType::Set,
            ValueRef::ZSet(_) => ValueType::ZSet,
            ValueRef::Hash(hash) if first_expiry(hash, style).is_some() => ValueType::HashExpiring,
            ValueRef::Hash(_) | ValueRef::Compressed(_) => ValueType::Hash,
            ValueRef::Stream(stream) => style.stream_type_of(stream),
            ValueRef::Sketch(_) => ValueType::Module,
        }
    }

    /// Writes the next part, until the encoder has encoded `until` bytes; true at the end. The type was written before.
    pub fn write<W: Write>(
        &mut self,
        value: ValueRef<'_>,
        until: u64,
        encoder: &mut Encoder<W>,
    ) -> io::Result<bool> {
        if let ValueRef::Sketch(sketch) = value {
            return self.write_sketch(sketch, until, encoder);
        }
        if let ValueRef::Stream(stream) = value {
            let next = encoder.stream_part(stream, std::mem::take(&mut self.of_stream), until)?;
            let is_done = next.is_none();
            self.of_stream = next.unwrap_or_default();
            return Ok(is_done);
        }
        let mut buffer = Vec::new();
        let value = value.expanded(&mut buffer);
        let expiring = match value {
            ValueRef::Hash(hash) => first_expiry(hash, encoder.style()),
            _ => None,
        };
        if !self.has_begun {
            self.has_begun = true;
            if let Some(earliest) = expiring {
                encoder.bytes(&earliest.to_le_bytes())?;
            }
            encoder.length(value.len() as u64)?;
        }
        while encoder.offset() < until {
            let mut result = Ok(());
            let mut note = |written: io::Result<()>| {
                if result.is_ok() {
                    result = written
                }
            };
            let cursor = match value {
                ValueRef::Set(set) => {
                    set.scan(self.next, SCANNED_AT_ONCE, &mut |member| note(encoder.string(member)))
                }
                ValueRef::Hash(hash) => hash.scan(self.next, SCANNED_AT_ONCE, &mut |field, value| {
                    let value = &value.bytes();
                    note(match expiring {
                        Some(earliest) => encoder.expiring_field(earliest, field, value, hash.expiry(field)),
                        None => encoder.string(field).and_then(|()| encoder.string(value)),
                    });
                }),
                ValueRef::List(list) => {
                    let elements = list.iter(self.next as i64, false).take(SCANNED_AT_ONCE);
                    elements.for_each(|element| note(encoder.string(&element)));
                    self.after(list.len())
                }
                ValueRef::ZSet(zset) => {
                    let members = zset.iter_from_rank(self.next as usize, false).take(SCANNED_AT_ONCE);
                    members.for_each(|(member, score)| note(encoder.scored_member(&member, score)));
                    self.after(zset.len())
                }
                ValueRef::Str(_) | ValueRef::Stream(_) | ValueRef::Sketch(_) | ValueRef::Compressed(_) => {
                    unreachable!("this is for the other collections")
                }
            };
            result?;
            self.next = cursor;
            if cursor == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn write_sketch<W: Write>(
        &mut self,
        sketch: &Sketch,
        until: u64,
        encoder: &mut Encoder<W>,
    ) -> io::Result<bool> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.sketch = sketch.written().map(Box::new);
        }
        let sketch = self.sketch.as_deref().unwrap_or(sketch);
        let next = encoder.sketch_part(sketch, self.of_sketch, until)?;
        self.of_sketch = next.unwrap_or_default();
        Ok(next.is_none())
    }

    /// The index after those just written; 0 at the end.
    fn after(&self, len: usize) -> u64 {
        let next = self.next + SCANNED_AT_ONCE as u64;
        if next < len as u64 { next } else { 0 }
    }
}

/// The limits that make an entry of a stream begin a node, and those that let it follow in the last one.
const NEW_NODE: StreamLimits = StreamLimits { node_bytes_max: 0, node_entries_max: 1 };
const SAME_NODE: StreamLimits = StreamLimits { node_bytes_max: 0, node_entries_max: 0 };

/// A value that is being read.
#[derive(Debug)]
pub struct Builder<'c> {
    /// `None`: a part will say what it is.
    value: Option<Value>,
    config: &'c Config,
}

impl<'c> Builder<'c> {
    /// Nothing yet of a value that is encoded like this.
    pub fn new(value_type: ValueType, config: &'c Config) -> Self {
        let value = value_type.kind().map(|kind| match kind {
            Kind::Str => Value::Str(Str::text(b"")),
            Kind::List => Value::List(Box::new(List::new())),
            Kind::Set => Value::Set(Box::new(Set::new())),
            Kind::ZSet => Value::ZSet(Box::new(ZSet::new())),
            Kind::Hash => Value::Hash(Box::new(Hash::new())),
            Kind::Stream => Value::Stream(Box::new(Stream::new())),
            Kind::Bloom | Kind::Cuckoo | Kind::CountMin | Kind::TopK | Kind::TDigest => {
                unreachable!("a module's value says itself which")
            }
        });
        Builder { value, config }
    }

    /// Takes a part; false if the value has it already.
    pub fn add(&mut self, part: Part) -> bool {
        let Some(value) = &mut self.value else {
            let Part::Sketch(sketch) = part else { unreachable!("{part:?} is no part of a sketch") };
            self.value = Some(Value::Sketch(sketch));
            return true;
        };
        match (value, part) {
            (Value::Str(string), Part::Str(bytes)) => {
                *string = if bytes.len() >= SHARED_BYTES_MIN { Str::from(bytes) } else { Str::new(&bytes) };
                true
            }
            (Value::List(list), Part::Element(element)) => {
                list.push(End::Tail, element);
                list.compress_inner(&self.config.list);
                true
            }
            (Value::Set(set), Part::Member(member)) => set.insert(member, &self.config.set),
            (Value::ZSet(zset), Part::Scored(member, score)) => {
                zset.insert(member, score, &self.config.zset).is_none()
            }
            (Value::Hash(hash), Part::Field(field, value, expiry)) => {
                let is_new = hash.set(field, value, &self.config.hash);
                if let Some(at_ms) = expiry {
                    hash.set_expiry(field, at_ms);
                }
                is_new
            }
            (Value::Stream(stream), Part::Entry { id, pairs, begins_node }) => {
                let limits = if begins_node { NEW_NODE } else { SAME_NODE };
                stream.log.append(id, pairs, &limits).is_ok()
            }
            (Value::Stream(stream), Part::SameFields { id, values }) => {
                stream.log.append_same(id, values).is_ok()
            }
            (Value::Stream(stream), Part::LogEnd { last_id, max_deleted_id, entries_added }) => {
                let log = &mut stream.log;
                (log.last_id, log.max_deleted_id, log.entries_added) =
                    (last_id, max_deleted_id, entries_added);
                true
            }
            (Value::Stream(stream), Part::Group { name, mut group, counts_reads }) => {
                if !counts_reads {
                    group.set_entries_read(stream.log.entries_until(group.last_id));
                }
                stream.groups.insert(name.into(), *group).is_none()
            }
            (Value::Stream(stream), Part::Producers(part)) => part.add_to(&mut stream.producers),
            (value, part) => unreachable!("{part:?} is no part of a {}", value.lend().kind().name()),
        }
    }

    /// The value; `None` if it is a collection without elements, which no key may hold.
    pub fn finish(self) -> Option<Value> {
        self.value.filter(|value| !value.is_empty())
    }
}
