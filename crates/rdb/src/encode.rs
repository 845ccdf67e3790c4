//! Writes values and files, with the encodings that the requested version has.

use std::io::{self, Read, Write};

use ds::stream::Stream;

use crate::crc64::{combined, crc64};
use crate::format::*;
use crate::lzf::Compressor;
use crate::packed::listpack;
use crate::{VERSION, VERSION_OF_7_2};

/// How many bytes are collected for one write.
const BUFFER_BYTES: usize = 64 * 1024;
/// The shortest string that is compressed, and how many bytes that must save.
const COMPRESSED_BYTES_MIN: usize = 21;
const COMPRESSION_GAIN_MIN: usize = 4;
/// The most bytes in a node of a list. A larger element is a node of its own.
const NODE_BYTES_MAX: usize = 8 * 1024;

/// The format of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Strings are compressed if that makes them shorter.
    pub compresses: bool,
    /// The version. Its readers can read everything except what values have only of `keeps_all`.
    pub version: u32,
    /// Values keep what Redis 7.0 does not know: when fields of hashes expire, which Redis from 7.4 on can read, and when
    /// members of sets do, which Redis skips; the messages of streams' producers, and that pending entries were released,
    /// which Redis from 8.8 on can read.
    /// Without this, fields and members do not expire, the messages are left out, and a consumer without a name has the entries.
    pub keeps_all: bool,
}

impl Style {
    /// The format that all known servers can read.
    pub fn of(compresses: bool) -> Style {
        Style { compresses, version: VERSION, keeps_all: true }
    }

    /// The type of a stream.
    pub fn stream_type_of(self, stream: &Stream) -> ValueType {
        let is_newer =
            || stream.producers.is_some() || stream.groups.values().any(|group| group.released_len() > 0);
        if self.keeps_all && is_newer() { ValueType::Stream5 } else { self.stream_type() }
    }

    /// The type of streams that have nothing but what Redis 7.0 knows.
    pub fn stream_type(self) -> ValueType {
        if self.version >= VERSION_OF_7_2 { ValueType::Stream3 } else { ValueType::Stream2 }
    }

    /// Whether [`ValueType::SetListpack`] may be used.
    pub fn packs_sets(self) -> bool {
        self.version >= VERSION_OF_7_2
    }
}

/// Writes to `out` in large pieces. While this exists, no other writer may use `out`.
#[derive(Debug)]
pub struct Encoder<W> {
    out: W,
    buffer: Vec<u8>,
    written: u64,
    /// The checksum of the bytes written, if it is computed.
    checksum: u64,
    sums: bool,
    style: Style,
    compressor: Option<Compressor>,
    /// Buffers for a compressed string and a listpack.
    compressed: Vec<u8>,
    pack: Vec<u8>,
}

impl<W: Write> Encoder<W> {
    /// Encodes in the format that all known servers can read.
    pub fn new(out: W, compresses: bool) -> Self {
        Encoder::styled(out, Style::of(compresses))
    }

    /// Encodes in this format.
    pub fn styled(out: W, style: Style) -> Self {
        Encoder {
            out,
            buffer: Vec::new(),
            written: 0,
            checksum: 0,
            sums: true,
            style,
            compressor: style.compresses.then(Compressor::default),
            compressed: Vec::new(),
            pack: Vec::new(),
        }
    }

    /// Encodes in this format, without a checksum.
    pub fn unsummed(out: W, style: Style) -> Self {
        Encoder { sums: false, ..Encoder::styled(out, style) }
    }

    /// How many bytes were encoded.
    pub fn offset(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// The format.
    pub fn style(&self) -> Style {
        self.style
    }

    /// The output.
    pub fn output(&self) -> &W {
        &self.out
    }

    /// Writes the remaining bytes, and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.add_to_checksum(None);
        self.out.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes bytes unchanged.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() <= BUFFER_BYTES {
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        self.flush()?;
        if bytes.len() <= BUFFER_BYTES {
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        self.add_to_checksum(Some(bytes));
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Adds these bytes to the checksum, or (`None`) the collected ones.
    fn add_to_checksum(&mut self, bytes: Option<&[u8]>) {
        if self.sums {
            self.checksum = crc64(self.checksum, bytes.unwrap_or(&self.buffer));
        }
    }

    /// A length, or any other unsigned number.
    pub fn length(&mut self, length: u64) -> io::Result<()> {
        match length {
            ..0x40 => self.bytes(&[length as u8]),
            0x40..0x4000 => self.bytes(&(0x4000 | length as u16).to_be_bytes()),
            0x4000..0x1_0000_0000 => {
                self.bytes(&[LENGTH_32_BITS])?;
                self.bytes(&(length as u32).to_be_bytes())
            }
            _ => {
                self.bytes(&[LENGTH_64_BITS])?;
                self.bytes(&length.to_be_bytes())
            }
        }
    }

    /// A string: an integer in binary form, others compressed or as they are.
    pub fn string(&mut self, text: &[u8]) -> io::Result<()> {
        // The longest text of an integer that takes less in binary.
        if text.len() <= 11
            && let Some(number) = ds::num::parse_i64(text)
            && let Ok(number) = i32::try_from(number)
        {
            return self.integer(number);
        }
        if text.len() >= COMPRESSED_BYTES_MIN && self.compressed(text)? {
            return Ok(());
        }
        self.length(text.len() as u64)?;
        self.bytes(text)
    }

    fn integer(&mut self, number: i32) -> io::Result<()> {
        let special = |kind: u8| SPECIAL << 6 | kind;
        if let Ok(number) = i8::try_from(number) {
            self.bytes(&[special(SPECIAL_I8), number as u8])
        } else if let Ok(number) = i16::try_from(number) {
            self.bytes(&[special(SPECIAL_I16)])?;
            self.bytes(&number.to_le_bytes())
        } else {
            self.bytes(&[special(SPECIAL_I32)])?;
            self.bytes(&number.to_le_bytes())
        }
    }

    /// Writes `text` compressed. False if that does not make it shorter.
    fn compressed(&mut self, text: &[u8]) -> io::Result<bool> {
        let Some(compressor) = &mut self.compressor else { return Ok(false) };
        let mut compressed = std::mem::take(&mut self.compressed);
        compressed.clear();
        let is_shorter = compressor.compress(text, text.len() - COMPRESSION_GAIN_MIN, &mut compressed);
        if is_shorter {
            self.bytes(&[SPECIAL << 6 | SPECIAL_LZF])?;
            self.length(compressed.len() as u64)?;
            self.length(text.len() as u64)?;
            self.bytes(&compressed)?;
        }
        compressed.shrink_to(BUFFER_BYTES);
        self.compressed = compressed;
        Ok(is_shorter)
    }

    // ---- values
    // ---------------------------------------------------------------------------------------------

    /// The type of the next value. In a file the key comes between the two.
    pub fn value_type(&mut self, value_type: ValueType) -> io::Result<()> {
        self.bytes(&[value_type as u8])
    }

    /// A count and strings: the members of a [`ValueType::Set`], or the fields and values of a
    /// [`ValueType::Hash`] in turn.
    pub fn strings(&mut self, count: usize, strings: impl Iterator<Item: AsRef<[u8]>>) -> io::Result<()> {
        self.length(count as u64)?;
        for string in strings {
            self.string(string.as_ref())?;
        }
        Ok(())
    }

    /// The fields of a [`ValueType::HashExpiring`], their values and their expiries. No expiry may be before
    /// `earliest`.
    pub fn expiring_fields<'a, V: AsRef<[u8]>>(
        &mut self,
        earliest: i64,
        count: usize,
        mut fields: impl Iterator<Item = (&'a [u8], V, Option<i64>)>,
    ) -> io::Result<()> {
        self.bytes(&earliest.to_le_bytes())?;
        self.length(count as u64)?;
        fields.try_for_each(|(field, value, expiry)| {
            self.expiring_field(earliest, field, value.as_ref(), expiry)
        })
    }

    /// One such field.
    pub fn expiring_field(
        &mut self,
        earliest: i64,
        field: &[u8],
        value: &[u8],
        expiry: Option<i64>,
    ) -> io::Result<()> {
        self.length(expiry.map_or(0, |at_ms| (at_ms - earliest) as u64 + 1))?;
        self.string(field)?;
        self.string(value)
    }

    /// The members and scores of a [`ValueType::ZSet`].
    pub fn scored<M: AsRef<[u8]>>(
        &mut self,
        count: usize,
        members: impl Iterator<Item = (M, f64)>,
    ) -> io::Result<()> {
        self.length(count as u64)?;
        for (member, score) in members {
            self.scored_member(member.as_ref(), score)?;
        }
        Ok(())
    }

    /// One such member.
    pub fn scored_member(&mut self, member: &[u8], score: f64) -> io::Result<()> {
        self.string(member)?;
        self.bytes(&score.to_le_bytes())
    }

    /// The integers of a [`ValueType::SetIntset`], which must be ascending.
    pub fn intset(&mut self, integers: &[i64]) -> io::Result<()> {
        let fits = |min: i64, max: i64| integers.iter().all(|number| (min..=max).contains(number));
        let width = match () {
            () if fits(i16::MIN.into(), i16::MAX.into()) => 2,
            () if fits(i32::MIN.into(), i32::MAX.into()) => 4,
            () => 8,
        };
        let mut pack = std::mem::take(&mut self.pack);
        pack.clear();
        pack.extend_from_slice(&(width as u32).to_le_bytes());
        pack.extend_from_slice(&(integers.len() as u32).to_le_bytes());
        integers.iter().for_each(|number| pack.extend_from_slice(&number.to_le_bytes()[..width]));
        self.packed(pack)
    }

    /// The items of a [`ValueType::HashListpack`], [`ValueType::ZSetListpack`] or [`ValueType::SetListpack`].
    /// Together they must be well below 4 GiB.
    pub fn listpack(&mut self, items: impl Iterator<Item: AsRef<[u8]>>) -> io::Result<()> {
        let mut pack = std::mem::take(&mut self.pack);
        pack.clear();
        listpack::begin(&mut pack);
        let count = items.map(|item| listpack::push(item.as_ref(), &mut pack)).count();
        listpack::end(count, &mut pack);
        self.packed(pack)
    }

    fn packed(&mut self, mut pack: Vec<u8>) -> io::Result<()> {
        self.string(&pack)?;
        pack.shrink_to(BUFFER_BYTES);
        self.pack = pack;
        Ok(())
    }

    /// The elements of a [`ValueType::ListQuicklist2`].
    pub fn quicklist<E: AsRef<[u8]>>(&mut self, elements: impl Iterator<Item = E> + Clone) -> io::Result<()> {
        let mut nodes = Nodes { elements: elements.clone().peekable() };
        let mut node_count = 0;
        while nodes.next(|_| {}).is_some() {
            node_count += 1;
        }
        self.length(node_count)?;
        let mut nodes = Nodes { elements: elements.peekable() };
        let mut pack = std::mem::take(&mut self.pack);
        loop {
            pack.clear();
            listpack::begin(&mut pack);
            let mut alone: Option<E> = None;
            let Some(count) = nodes.next(|element| {
                if is_node(element.as_ref()) {
                    alone = Some(element);
                } else {
                    listpack::push(element.as_ref(), &mut pack);
                }
            }) else {
                break;
            };
            if let Some(element) = alone {
                self.length(NODE_PLAIN)?;
                self.string(element.as_ref())?;
            } else {
                listpack::end(count, &mut pack);
                self.length(NODE_LISTPACK)?;
                self.string(&pack)?;
            }
        }
        self.pack = pack;
        Ok(())
    }

    // ---- files
    // ----------------------------------------------------------------------------------------------

    /// The beginning of a file.
    pub fn header(&mut self) -> io::Result<()> {
        self.bytes(MAGIC)?;
        self.bytes(format!("{:04}", self.style.version).as_bytes())
    }

    /// A field of information about the file.
    pub fn aux(&mut self, name: &str, value: &[u8]) -> io::Result<()> {
        self.bytes(&[OP_AUX])?;
        self.string(name.as_bytes())?;
        self.string(value)
    }

    /// A library of functions.
    pub fn function(&mut self, code: &[u8]) -> io::Result<()> {
        self.bytes(&[OP_FUNCTION2])?;
        self.string(code)
    }

    /// The database of the following keys, how many keys it has, and how many of them expire.
    pub fn database(&mut self, db: u32, key_count: u64, volatile_count: u64) -> io::Result<()> {
        self.select(db)?;
        self.bytes(&[OP_RESIZEDB])?;
        self.length(key_count)?;
        self.length(volatile_count)
    }

    /// The expiry of the next key.
    pub fn expiry(&mut self, at_ms: i64) -> io::Result<()> {
        self.bytes(&[OP_EXPIRETIME_MS])?;
        self.bytes(&at_ms.to_le_bytes())
    }

    /// The marks of memcached's clients on the next key. They come before its expiry.
    pub fn marks(&mut self, text: &str) -> io::Result<()> {
        self.aux(MARKS_AUX, text.as_bytes())
    }

    /// When the elements of the next key, a queue, arrived. This comes before its expiry.
    pub fn arrivals(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.aux(ARRIVALS_AUX, bytes)
    }

    /// When members of the next key, a set, expire. This comes before its expiry.
    pub fn expiries(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.aux(EXPIRIES_AUX, bytes)
    }

    /// For how many seconds the next key was not used.
    pub fn idle(&mut self, seconds: u64) -> io::Result<()> {
        self.bytes(&[OP_IDLE])?;
        self.length(seconds)
    }

    /// The access counter of the next key.
    pub fn frequency(&mut self, counter: u8) -> io::Result<()> {
        self.bytes(&[OP_FREQ, counter])
    }

    /// The database of the following keys.
    pub fn select(&mut self, db: u32) -> io::Result<()> {
        self.bytes(&[OP_SELECTDB])?;
        self.length(u64::from(db))
    }

    /// Appends the output of another encoder: reads all of `from`, which has this checksum and length.
    pub fn append(&mut self, from: &mut impl Read, (checksum, len): (u64, u64)) -> io::Result<()> {
        self.flush()?;
        if io::copy(from, &mut self.out)? != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.checksum = combined(self.checksum, checksum, len);
        self.written += len;
        Ok(())
    }

    /// Writes the remaining bytes. Returns the output, and checksum and length for [`Encoder::append`].
    pub fn into_piece(mut self) -> io::Result<(W, (u64, u64))> {
        self.flush()?;
        Ok((self.out, (self.checksum, self.written)))
    }

    /// The end of a file, with its checksum if `has_checksum`.
    pub fn end(&mut self, has_checksum: bool) -> io::Result<()> {
        self.bytes(&[OP_EOF])?;
        self.flush()?;
        let checksum = if has_checksum { self.checksum } else { 0 };
        self.bytes(&checksum.to_le_bytes())
    }
}

impl Encoder<Vec<u8>> {
    /// Encodes into chunks that others write, without a checksum.
    pub fn of_chunks(style: Style) -> Self {
        Encoder::unsummed(Vec::new(), style)
    }

    /// Appends the output of `encode` to `chunk`. Inside `encode`, [`Encoder::offset`] counts from the
    /// beginning of the chunk.
    pub fn add_to<R>(&mut self, chunk: &mut Vec<u8>, encode: impl FnOnce(&mut Self) -> io::Result<R>) -> R {
        self.out = std::mem::take(chunk);
        self.written = self.out.len() as u64;
        let result = encode(self).and_then(|result| self.flush().map(|()| result));
        *chunk = std::mem::take(&mut self.out);
        result.expect("memory takes everything")
    }
}

/// Whether an element of a list is a node of its own.
fn is_node(element: &[u8]) -> bool {
    listpack::element_bytes_max(element) > NODE_BYTES_MAX
}

/// Divides the elements of a list into nodes.
struct Nodes<I: Iterator> {
    elements: std::iter::Peekable<I>,
}

impl<E: AsRef<[u8]>, I: Iterator<Item = E>> Nodes<I> {
    /// Passes the elements of the next node to `visit`. Returns their number.
    fn next(&mut self, mut visit: impl FnMut(E)) -> Option<usize> {
        let first = self.elements.next()?;
        let (mut count, mut bytes) = (1, listpack::element_bytes_max(first.as_ref()));
        visit(first);
        let fits = |bytes: &mut usize, element: &E| {
            *bytes += listpack::element_bytes_max(element.as_ref());
            *bytes <= NODE_BYTES_MAX
        };
        while let Some(element) = self.elements.next_if(|element| fits(&mut bytes, element)) {
            visit(element);
            count += 1;
        }
        Some(count)
    }
}
