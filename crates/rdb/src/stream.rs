//! The encoding of streams: nodes of entries, the counters of the log, and groups.
//!
//! ```text
//! value:     count  node*  length  last id  [ first id  largest deleted id  entries added ]   count  group*   [[[ producers ]]]
//! node:      string(16: first id, BE)  string(listpack: head, then entries)
//! head:      live count, deleted count, field count, field …, 0
//! entry:     flags, ms and seq less those of the node, [ field count, field, ] value, …, how many elements it is so far
//! group:     name  last id  [ entries read ]  count  pending*  count  consumer*
//! pending:   id(16, BE)  time(8, LE)  number of deliveries
//! consumer:  name  seen at(8, LE)  [[ active at(8, LE) ]]  count  id(16, BE)*
//! producers: seconds  most messages of each  count  producer*  messages recorded  messages recognized
//! producer:  name  count  ( id of the message   id )*
//!
//! [ ]: not in type 15, [[ ]]: from type 21 on, [[[ ]]]: in types 26 and 27 (Redis 8.6 and 8.8)
//! ```
//!
//! Behind the consumers of a group, type 27 has the pending entries that were released, in their order: `count id(16, BE)*`.
//! For readers that do not know it, a consumer without a name has them.
//!
//! Entries are decoded with the nodes in which they were written, because entries of a node share their fields: divided
//! otherwise, a value could take far more memory, and time, than its dump.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::mem;

use ds::stream::producers::{DURATION_S_MAX, RECORDS_MAX};
use ds::stream::{ConsumerId, Group, Log, Pending, ProducerLimits, Producers, Stream, StreamId};

use crate::decode::{Build, DUPLICATE, Part, ProducersPart, Refused, packed};
use crate::encode::Encoder;
use crate::error::{Error, Why};
use crate::format::ValueType;
use crate::packed::{Element, Packed, listpack};
use crate::reader::Reader;

/// Flags of an entry.
const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;
/// Stands for an unknown count.
const UNKNOWN: u64 = u64::MAX;
/// Stands for the last activity of a consumer that was never active.
const NEVER: i64 = -1;
/// The most bytes of a node.
const NODE_BYTES_MAX: usize = 2 << 30;

const DAMAGED: Refused = "a node of a stream is damaged";
const NOT_ASCENDING: Refused = "the ids of a stream do not ascend";

// ---- writing
// ------------------------------------------------------------------------------------------------

/// The next part of a stream that is written in parts.
#[derive(Debug)]
pub enum StreamPart {
    /// The nodes, from this id on.
    Nodes(StreamId),
    /// The groups, from this name on.
    Groups(Vec<u8>),
    /// The producers, from this name on.
    Producers(Vec<u8>),
}

impl Default for StreamPart {
    fn default() -> Self {
        StreamPart::Nodes(StreamId::MIN)
    }
}

impl<W: Write> Encoder<W> {
    /// A stream of type [`crate::Style::stream_type_of`].
    pub fn stream(&mut self, stream: &Stream) -> io::Result<()> {
        let rest = self.stream_part(stream, StreamPart::default(), u64::MAX)?;
        assert!(rest.is_none(), "nothing is that long");
        Ok(())
    }

    /// Writes a part of a stream, until `until` bytes are encoded in all. Returns the part that comes next.
    pub fn stream_part(
        &mut self,
        stream: &Stream,
        mut part: StreamPart,
        until: u64,
    ) -> io::Result<Option<StreamPart>> {
        let log = &stream.log;
        if let StreamPart::Nodes(from) = part {
            if from == StreamId::MIN {
                self.length(log.node_count() as u64)?;
            }
            let mut pack = Vec::new();
            for (id, node) in log.nodes(from) {
                if self.offset() >= until {
                    return Ok(Some(StreamPart::Nodes(id)));
                }
                let first = pack_node(node, &mut pack);
                self.string(&id_bytes(first))?;
                self.string(&pack)?;
            }
            self.length(log.len() as u64)?;
            [log.last_id, log.first_id(), log.max_deleted_id].into_iter().try_for_each(|id| self.id(id))?;
            self.length(log.entries_added as u64)?;
            self.length(stream.groups.len() as u64)?;
            part = StreamPart::Groups(Vec::new());
        }
        let value_type = self.style().stream_type_of(stream);
        if let StreamPart::Groups(from) = part {
            for (name, group) in stream.groups.iter().skip_while(|(name, _)| name[..] < from[..]) {
                if self.offset() >= until {
                    return Ok(Some(StreamPart::Groups(name.to_vec())));
                }
                self.group(name, group, value_type)?;
            }
            part = StreamPart::Producers(Vec::new());
        }
        let StreamPart::Producers(from) = part else { unreachable!("the groups are done") };
        if value_type != ValueType::Stream5 {
            return Ok(None);
        }
        let none = Producers::new(ProducerLimits::default());
        let next = self.producers(stream.producers.as_deref().unwrap_or(&none), &from, until)?;
        Ok(next.map(StreamPart::Producers))
    }

    /// Writes the producers from `from` on, where the empty name begins, until `until` bytes are encoded in all. Returns
    /// the name that comes next.
    fn producers(&mut self, producers: &Producers, from: &[u8], until: u64) -> io::Result<Option<Vec<u8>>> {
        if from.is_empty() {
            let ProducerLimits { duration_s, records_max } = producers.limits();
            self.length(duration_s.into())?;
            self.length(records_max.into())?;
            self.length(producers.len() as u64)?;
        }
        for (name, count) in producers.names(from) {
            if self.offset() >= until {
                return Ok(Some(name.to_vec()));
            }
            self.string(name)?;
            self.length(count as u64)?;
            for (message, id) in producers.records(name) {
                self.string(message)?;
                self.id(id)?;
            }
        }
        self.length(producers.added)?;
        self.length(producers.duplicates)?;
        Ok(None)
    }

    fn id(&mut self, id: StreamId) -> io::Result<()> {
        self.length(id.ms)?;
        self.length(id.seq)
    }

    fn group(&mut self, name: &[u8], group: &Group, value_type: ValueType) -> io::Result<()> {
        let all = StreamId::MIN..=StreamId::MAX;
        self.string(name)?;
        self.id(group.last_id)?;
        self.length(group.entries_read().map_or(UNKNOWN, |read| read as u64))?;
        self.length(group.pending_len() as u64)?;
        for (id, pending) in group.pending_range(all.clone()) {
            self.bytes(&id_bytes(id))?;
            self.bytes(&pending.delivered_ms.to_le_bytes())?;
            self.length(pending.delivery_count as u64)?;
        }
        let released = released_of(group);
        // Who does not know released entries reads that they belong to a consumer without a name.
        let mut nameless = if value_type == ValueType::Stream5 { &[][..] } else { &released[..] };
        let is_new = !nameless.is_empty() && group.find(b"").is_none();
        self.length((group.consumers().len() + usize::from(is_new)) as u64)?;
        if is_new {
            self.consumer((b"", 0, None), value_type, mem::take(&mut nameless).iter().copied())?;
        }
        for consumer in group.consumers() {
            let number = group.find(consumer.name()).expect("it is one of the group");
            let own: Vec<StreamId> = group.pending_range_of(number, all.clone()).map(|(id, _)| id).collect();
            // The consumer without a name comes first.
            let more = mem::take(&mut nameless);
            let who = (consumer.name(), consumer.seen_ms, consumer.active_ms);
            self.consumer(who, value_type, own.into_iter().chain(more.iter().copied()))?;
        }
        if value_type == ValueType::Stream5 {
            self.length(released.len() as u64)?;
            released.iter().try_for_each(|id| self.bytes(&id_bytes(*id)))?;
        }
        Ok(())
    }

    /// A consumer: its name and times, and the entries that are pending for it.
    fn consumer(
        &mut self,
        (name, seen_ms, active_ms): (&[u8], i64, Option<i64>),
        value_type: ValueType,
        own: impl Iterator<Item = StreamId> + Clone,
    ) -> io::Result<()> {
        self.string(name)?;
        self.bytes(&seen_ms.to_le_bytes())?;
        if has_active_times(value_type) {
            self.bytes(&active_ms.unwrap_or(NEVER).to_le_bytes())?;
        }
        self.length(own.clone().count() as u64)?;
        own.into_iter().try_for_each(|id| self.bytes(&id_bytes(id)))
    }
}

/// All released entries of a group: first those that can be claimed, in their order, then those that the log has no more.
fn released_of(group: &Group) -> Vec<StreamId> {
    let mut released: Vec<StreamId> = group.released().collect();
    if released.len() < group.released_len() {
        let known: BTreeSet<StreamId> = released.iter().copied().collect();
        let all = group.pending_range(StreamId::MIN..=StreamId::MAX);
        let gone = all.filter(|(id, pending)| pending.consumer.is_none() && !known.contains(id));
        released.extend(gone.map(|(id, _)| id));
    }
    released
}

/// Packs the entries of a node into `pack`; returns the id of the first.
fn pack_node<'a>(
    node: impl Iterator<Item = (StreamId, ds::stream::Fields<'a>)> + Clone,
    pack: &mut Vec<u8>,
) -> StreamId {
    let live_count = node.clone().count();
    let (first, master) = node.clone().next().expect("a node has entries");
    pack.clear();
    listpack::begin(pack);
    let mut pack = Pack { bytes: pack, count: 0 };
    [live_count as i64, 0, master.len() as i64].into_iter().for_each(|number| pack.number(number));
    master.for_each(|(field, _)| pack.text(field));
    pack.number(0);
    for (id, fields) in node {
        // Fields that are the same memory are not compared byte by byte.
        let mut both = fields.zip(master);
        let is_same = fields.len() == master.len()
            && both.all(|((field, _), (other, _))| std::ptr::eq(field, other) || field == other);
        let start = pack.count;
        pack.number(if is_same { SAME_FIELDS } else { 0 });
        pack.number(id.ms.wrapping_sub(first.ms) as i64);
        pack.number(id.seq.wrapping_sub(first.seq) as i64);
        if !is_same {
            pack.number(fields.len() as i64);
        }
        for (field, value) in fields {
            if !is_same {
                pack.text(field);
            }
            pack.text(value);
        }
        pack.number((pack.count - start) as i64);
    }
    listpack::end(pack.count, pack.bytes);
    first
}

/// A listpack under construction.
struct Pack<'a> {
    bytes: &'a mut Vec<u8>,
    count: usize,
}

impl Pack<'_> {
    fn text(&mut self, text: &[u8]) {
        listpack::push(text, self.bytes);
        self.count += 1;
    }

    fn number(&mut self, number: i64) {
        self.text(itoa::Buffer::new().format(number).as_bytes());
    }
}

fn id_bytes(id: StreamId) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}

// ---- reading
// ------------------------------------------------------------------------------------------------

pub(crate) fn read<R: Read>(
    reader: &mut Reader<R>,
    value_type: ValueType,
    build: &mut Build,
) -> Result<(), Error> {
    let has_counts = value_type != ValueType::Stream;
    let mut entries = Entries { count: 0, last: StreamId::MIN };
    let mut name = Vec::new();
    for _ in 0..reader.length()? {
        let offset = reader.offset();
        reader.string(&mut name)?;
        let first = <[u8; 16]>::try_from(&name[..]);
        let first = first.map_err(|_| reader.error(offset, Why::Corrupt(DAMAGED)))?;
        packed(reader, build, |bytes, build| entries.read_node(id(first), bytes, build))?;
    }
    let offset = reader.offset();
    if reader.length()? != entries.count {
        return reader.corrupt(offset, "the number of entries of a stream is wrong");
    }
    let last_id = read_id(reader)?;
    let (mut max_deleted_id, mut entries_added) = (StreamId::MIN, entries.count as i64);
    if has_counts {
        // The log knows its first entry.
        read_id(reader)?;
        max_deleted_id = read_id(reader)?;
        entries_added = read_count(reader)?;
    }
    if last_id < entries.last || (entries_added as u64) < entries.count {
        return reader.corrupt(offset, "the counters of a stream contradict its entries");
    }
    build(Part::LogEnd { last_id, max_deleted_id, entries_added });
    for _ in 0..reader.length()? {
        let offset = reader.offset();
        reader.string(&mut name)?;
        let group = read_group(reader, value_type)?;
        if !build(Part::Group { name: &name, group: Box::new(group), counts_reads: has_counts }) {
            return reader.corrupt(offset, DUPLICATE);
        }
    }
    match value_type {
        ValueType::Stream4 | ValueType::Stream5 => read_producers(reader, last_id, build),
        _ => Ok(()),
    }
}

fn read_producers<R: Read>(
    reader: &mut Reader<R>,
    last_id: StreamId,
    build: &mut Build,
) -> Result<(), Error> {
    let offset = reader.offset();
    let (seconds, count) = (reader.length()?, reader.length()?);
    if !(1..=u64::from(DURATION_S_MAX)).contains(&seconds) || !(1..=u64::from(RECORDS_MAX)).contains(&count) {
        return reader.corrupt(offset, "the limits of a stream's producers are out of range");
    }
    let limits = ProducerLimits { duration_s: seconds as u32, records_max: count as u32 };
    build(Part::Producers(ProducersPart::Limits(limits)));
    let (mut name, mut message) = (Vec::new(), Vec::new());
    for _ in 0..reader.length()? {
        let offset = reader.offset();
        reader.string(&mut name)?;
        let count = reader.length()?;
        if name.is_empty() || count > u64::from(RECORDS_MAX) {
            return reader.corrupt(offset, "a producer of a stream has no name, or too many messages");
        }
        let mut last = StreamId::MIN;
        for _ in 0..count {
            let offset = reader.offset();
            reader.string(&mut message)?;
            let id = read_id(reader)?;
            if message.is_empty() || id < last || id > last_id {
                return reader.corrupt(offset, "a producer's message contradicts the stream");
            }
            last = id;
            if !build(Part::Producers(ProducersPart::Message(&name, &message, id))) {
                return reader.corrupt(offset, DUPLICATE);
            }
        }
    }
    let (added, duplicates) = (reader.length()?, reader.length()?);
    build(Part::Producers(ProducersPart::Counts(added, duplicates)));
    Ok(())
}

/// Whether the type stores when consumers were active.
pub(crate) fn has_active_times(value_type: ValueType) -> bool {
    matches!(value_type, ValueType::Stream3 | ValueType::Stream4 | ValueType::Stream5)
}

fn id(bytes: [u8; 16]) -> StreamId {
    let number = u128::from_be_bytes(bytes);
    StreamId { ms: (number >> 64) as u64, seq: number as u64 }
}

fn read_id<R: Read>(reader: &mut Reader<R>) -> Result<StreamId, Error> {
    Ok(StreamId { ms: reader.length()?, seq: reader.length()? })
}

/// Reads a count. If it exceeds the range of the result, returns the greatest number.
fn read_count<R: Read>(reader: &mut Reader<R>) -> Result<i64, Error> {
    Ok(i64::try_from(reader.length()?).unwrap_or(i64::MAX))
}

fn read_time<R: Read>(reader: &mut Reader<R>) -> Result<i64, Error> {
    let offset = reader.offset();
    let time = i64::from_le_bytes(reader.array()?);
    if time < 0 { reader.corrupt(offset, "a time is before 1970") } else { Ok(time) }
}

/// The entries read so far.
struct Entries {
    /// How many of them are not deleted.
    count: u64,
    /// The id of the last entry, deleted or not.
    last: StreamId,
}

impl Entries {
    fn read_node(&mut self, first: StreamId, bytes: &[u8], build: &mut Build) -> Result<(), Refused> {
        if bytes.len() > NODE_BYTES_MAX {
            return Err("a node of a stream is longer than 2 GiB");
        }
        let mut node = Packed::listpack(bytes)?;
        let (live_count, deleted_count) = (count(&mut node)?, count(&mut node)?);
        let mut fields = Vec::new();
        for _ in 0..count(&mut node)? {
            fields.push(text(&mut node)?);
        }
        if number(&mut node)? != 0 {
            return Err(DAMAGED);
        }
        let (mut live, mut deleted) = (0, 0);
        // The first entry with the fields of the node begins a node of the log, whose fields they are then.
        let mut begun_with_same = None;
        while let Some(flags) = node.next()? {
            let Element::Int(flags) = flags else { return Err(DAMAGED) };
            let is_same = flags & SAME_FIELDS != 0;
            let (ms, seq) = (number(&mut node)? as u64, number(&mut node)? as u64);
            let id = StreamId { ms: first.ms.wrapping_add(ms), seq: first.seq.wrapping_add(seq) };
            if id <= self.last {
                return Err(NOT_ASCENDING);
            }
            self.last = id;
            let pair_count = if is_same { fields.len() as u64 } else { count(&mut node)? };
            let mut texts: Vec<Cow<[u8]>> = Vec::new();
            for _ in 0..if is_same { pair_count } else { pair_count.saturating_mul(2) } {
                texts.push(text(&mut node)?);
            }
            let element_count = texts.len() as u64 + if is_same { 3 } else { 4 };
            if pair_count == 0 || count(&mut node)? != element_count {
                return Err(DAMAGED);
            }
            if flags & DELETED != 0 {
                deleted += 1;
                continue;
            }
            live += 1;
            let texts: Vec<&[u8]> = texts.iter().map(|text| &text[..]).collect();
            let is_added = if is_same && begun_with_same == Some(true) {
                build(Part::SameFields { id, values: &texts })
            } else {
                let begins_node = is_same || begun_with_same.is_none();
                if begins_node {
                    begun_with_same = Some(is_same);
                }
                let pairs = match is_same {
                    true => fields.iter().zip(texts).flat_map(|(field, value)| [&field[..], value]).collect(),
                    false => texts,
                };
                if Log::is_too_large(&pairs) {
                    return Err("an entry is longer than 1 GiB");
                }
                build(Part::Entry { id, pairs: &pairs, begins_node })
            };
            if !is_added {
                return Err(NOT_ASCENDING);
            }
        }
        self.count += live;
        if (live, deleted) == (live_count, deleted_count) { Ok(()) } else { Err(DAMAGED) }
    }
}

fn number(node: &mut Packed) -> Result<i64, Refused> {
    match node.next()? {
        Some(Element::Int(number)) => Ok(number),
        _ => Err(DAMAGED),
    }
}

fn count(node: &mut Packed) -> Result<u64, Refused> {
    u64::try_from(number(node)?).map_err(|_| DAMAGED)
}

fn text<'a>(node: &mut Packed<'a>) -> Result<Cow<'a, [u8]>, Refused> {
    Ok(match node.next()?.ok_or(DAMAGED)? {
        Element::Text(text) => Cow::Borrowed(text),
        Element::Int(number) => Cow::Owned(itoa::Buffer::new().format(number).as_bytes().to_vec()),
    })
}

/// A pending entry whose consumer has not been read yet.
struct Unowned {
    id: StreamId,
    delivered_ms: i64,
    delivery_count: i64,
    is_left: bool,
}

fn read_group<R: Read>(reader: &mut Reader<R>, value_type: ValueType) -> Result<Group, Error> {
    let last_id = read_id(reader)?;
    let entries_read = match value_type {
        ValueType::Stream => None,
        _ => Some(reader.length()?).filter(|read| *read != UNKNOWN),
    };
    let entries_read = entries_read.map(|read| i64::try_from(read).unwrap_or(i64::MAX));
    let mut group = Group::new(last_id, entries_read);
    let mut pending: Vec<Unowned> = Vec::new();
    for _ in 0..reader.length()? {
        let offset = reader.offset();
        let id = id(reader.array()?);
        if pending.last().is_some_and(|last| id <= last.id) {
            return reader.corrupt(offset, "the ids of pending entries do not ascend");
        }
        let (delivered_ms, delivery_count) = (read_time(reader)?, read_count(reader)?);
        pending.push(Unowned { id, delivered_ms, delivery_count, is_left: true });
    }
    let mut name = Vec::new();
    for _ in 0..reader.length()? {
        let offset = reader.offset();
        reader.string(&mut name)?;
        let seen_ms = read_time(reader)?;
        let (consumer, is_new) = group.find_or_create(&name, seen_ms);
        if !is_new {
            return reader.corrupt(offset, DUPLICATE);
        }
        // Before it was written, that it was seen is the best that is known.
        group.consumer_mut(consumer).active_ms = match value_type {
            _ if has_active_times(value_type) => {
                Some(i64::from_le_bytes(reader.array()?)).filter(|time| *time >= 0)
            }
            _ => Some(seen_ms),
        };
        read_owned(reader, &mut group, consumer, &mut pending)?;
    }
    if value_type == ValueType::Stream5 {
        read_released(reader, &mut group, &mut pending)?;
    }
    if pending.iter().any(|pending| pending.is_left) {
        return reader.corrupt(reader.offset(), "a pending entry has no consumer");
    }
    Ok(group)
}

/// Reads which of the `pending` entries were released.
fn read_released<R: Read>(
    reader: &mut Reader<R>,
    group: &mut Group,
    pending: &mut [Unowned],
) -> Result<(), Error> {
    for _ in 0..reader.length()? {
        let found = read_unowned(reader, pending, "a released entry is not pending, or has a consumer")?;
        group.assign(found.id, Pending::released(found.delivery_count));
    }
    Ok(())
}

/// Reads an id, and takes the pending entry that has it.
fn read_unowned<'p, R: Read>(
    reader: &mut Reader<R>,
    pending: &'p mut [Unowned],
    refusal: Refused,
) -> Result<&'p Unowned, Error> {
    let offset = reader.offset();
    let id = id(reader.array()?);
    let found = pending.binary_search_by_key(&id, |pending| pending.id);
    let Some(found) = found.ok().map(|at| &mut pending[at]).filter(|found| found.is_left) else {
        return reader.corrupt(offset, refusal);
    };
    found.is_left = false;
    Ok(found)
}

/// Reads which of the `pending` entries belong to the consumer.
fn read_owned<R: Read>(
    reader: &mut Reader<R>,
    group: &mut Group,
    consumer: ConsumerId,
    pending: &mut [Unowned],
) -> Result<(), Error> {
    for _ in 0..reader.length()? {
        let refusal = "an entry is pending for a consumer but not for its group";
        let Unowned { id, delivered_ms, delivery_count, .. } = *read_unowned(reader, pending, refusal)?;
        group.assign(id, Pending { consumer: Some(consumer), delivered_ms, delivery_count });
    }
    Ok(())
}
