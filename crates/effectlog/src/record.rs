//! A record: units of effects in one buffer.
//!
//! ```text
//!   record   unit, unit, …
//!   unit     count of effects, u32 │ bytes of effects, u64 │ effect, effect, …
//!   copy     0, u32 │ bytes of what follows, u64 │ database selected before, u32 │ bytes, u64 │ what another server's stream says
//!   effect   database, u32 │ bytes of command, u64 │ command: `*<count>\r\n`, and `$<bytes>\r\n<bytes>\r\n` for each argument
//! ```
//!
//! Numbers are little-endian. A command is encoded as in the replication stream, so the stream's writer only
//! copies. The heads of the last unit are filled in when it ends; a unit without effects leaves nothing. So a
//! count of 0 can mark a piece of another server's stream, which a replica copies as it came.

use heap::{Exempt, Exemption};

/// The first byte of a module's value in a payload of `DUMP`.
const TYPE_OF_MODULES: u8 = 7;
/// The prefixes of commands that only Darter knows, and Redis with a module, in any case.
const OWN: [&[u8]; 6] = [b"DARTER.", b"BF.", b"CF.", b"CMS.", b"TOPK.", b"TDIGEST."];

/// The database of an effect that needs none, such as `PING`.
pub const NO_DB: u32 = u32::MAX;

/// Marks a piece of another stream, in the place of the number of effects.
const COPIED: u32 = 0;
/// The size of the numbers before a unit and before an effect.
const HEAD_BYTES: usize = 12;
/// The expected size of a command beyond the bytes of its arguments: for the command, and for each argument.
const COMMAND_BYTES: usize = 8;
const ARG_BYTES: usize = 12;

/// Effects in the order in which they happened. Evictions are effects, too, so the memory of records does not
/// count against `maxmemory`; `journal-pending-max` limits what waits.
#[derive(PartialEq, Eq, Debug)]
pub struct Record {
    bytes: Vec<u8>,
    memory: Exemption,
    /// The unit that is not complete: the position of its head, and its number of effects.
    open: Option<(usize, u32)>,
}

impl Default for Record {
    fn default() -> Record {
        Record { bytes: Vec::new(), memory: Exemption::none(Exempt::Journal), open: None }
    }
}

impl Record {
    /// Adds the effect of running `args` on database `db`. It belongs to the open unit, or begins one.
    pub fn push(&mut self, db: u32, args: &[&[u8]]) {
        // At once: a record begins without memory, and most have one effect.
        let arg_bytes: usize = args.iter().map(|arg| arg.len() + ARG_BYTES).sum();
        self.reserve(2 * HEAD_BYTES + COMMAND_BYTES + arg_bytes);
        let bytes = &mut self.bytes;
        let (_, count) = self.open.get_or_insert_with(|| {
            let start = bytes.len();
            bytes.extend_from_slice(&[0; HEAD_BYTES]);
            (start, 0)
        });
        // Saturating is enough: callers only ask whether there are several.
        *count = count.saturating_add(1);
        let head = bytes.len();
        bytes.extend_from_slice(&[0; HEAD_BYTES]);
        write_number(bytes, b'*', args.len());
        for arg in args {
            write_number(bytes, b'$', arg.len());
            bytes.extend_from_slice(arg);
            bytes.extend_from_slice(b"\r\n");
        }
        fill(bytes, head, db);
    }

    /// Adds a piece of another stream as one unit. `db`: the database that was selected there before it ([`NO_DB`]:
    /// unknown).
    pub fn push_copy(&mut self, db: u32, piece: &[u8]) {
        self.end_unit();
        self.reserve(2 * HEAD_BYTES + piece.len());
        let unit = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2 * HEAD_BYTES]);
        self.bytes.extend_from_slice(piece);
        fill(&mut self.bytes, unit + HEAD_BYTES, db);
        fill(&mut self.bytes, unit, COPIED);
    }

    #[inline]
    fn reserve(&mut self, bytes: usize) {
        if self.bytes.capacity() - self.bytes.len() < bytes {
            self.change_memory(|memory| memory.reserve(bytes));
        }
    }

    #[cold]
    fn change_memory(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        heap::at_once(|| {
            change(&mut self.bytes);
            self.memory.resize(heap::block_bytes(self.bytes.capacity()));
        });
    }

    /// Ends the unit, if one is open.
    pub fn end_unit(&mut self) {
        if let Some((head, count)) = self.open.take() {
            fill(&mut self.bytes, head, count);
        }
    }

    /// Whether the record has no effects.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The size of the record in bytes.
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    /// The units of the record. All must have ended.
    pub fn units(&self) -> Units<'_> {
        Units::of(self.bytes())
    }

    /// The bytes that [`Units::of`] reads.
    pub(crate) fn bytes(&self) -> &[u8] {
        debug_assert!(self.open.is_none(), "a unit that is not complete is nobody's business");
        &self.bytes
    }

    /// Empties the record. At most `bytes_max` of its memory are kept.
    pub(crate) fn clear(&mut self, bytes_max: usize) {
        self.open = None;
        self.bytes.clear();
        if self.bytes.capacity() > bytes_max {
            self.change_memory(|memory| memory.shrink_to(bytes_max));
        }
    }
}

/// Writes the head at position `head`: `number`, and how many bytes follow the head.
fn fill(bytes: &mut [u8], head: usize, number: u32) {
    let length = (bytes.len() - head - HEAD_BYTES) as u64;
    bytes[head..][..4].copy_from_slice(&number.to_le_bytes());
    bytes[head + 4..][..8].copy_from_slice(&length.to_le_bytes());
}

/// Takes a head and the bytes that it announces off the front of `bytes`. Returns its number and those bytes.
fn split<'r>(bytes: &mut &'r [u8]) -> Option<(u32, &'r [u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (body, rest) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
    *bytes = rest;
    Some((u32::from_le_bytes(*number), body))
}

/// Writes `<sign><number>\r\n`.
pub(crate) fn write_number(bytes: &mut Vec<u8>, sign: u8, number: usize) {
    // Most are short, and there are two for each argument.
    if number < 1000 {
        let digit = |unit: usize| b'0' + (number / unit % 10) as u8;
        let line = [sign, digit(100), digit(10), digit(1), b'\r', b'\n'];
        return match number {
            100.. => bytes.extend_from_slice(&line),
            10.. => bytes.extend_from_slice(&[sign, line[2], line[3], b'\r', b'\n']),
            _ => bytes.extend_from_slice(&[sign, line[3], b'\r', b'\n']),
        };
    }
    bytes.push(sign);
    bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    bytes.extend_from_slice(b"\r\n");
}

/// The units of a record, oldest first.
#[derive(Clone, Debug)]
pub struct Units<'r>(&'r [u8]);

impl<'r> Units<'r> {
    /// The units in the bytes of a record.
    pub(crate) fn of(bytes: &'r [u8]) -> Units<'r> {
        Units(bytes)
    }
}

impl<'r> Iterator for Units<'r> {
    type Item = Unit<'r>;

    fn next(&mut self) -> Option<Unit<'r>> {
        let (count, effects) = split(&mut self.0)?;
        Some(Unit { count, effects })
    }
}

/// Effects that are applied together or not at all. A unit has at least one effect, or is a piece of another stream.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'r> {
    count: u32,
    effects: &'r [u8],
}

impl<'r> Unit<'r> {
    /// Whether the unit needs `MULTI` and `EXEC`, because it has several effects.
    pub fn is_transaction(self) -> bool {
        self.count > 1
    }

    /// For a piece of another stream: the database that was selected before it ([`NO_DB`]: unknown), and the piece.
    pub fn copied(self) -> Option<(u32, &'r [u8])> {
        let mut piece = self.effects;
        if self.count == COPIED { split(&mut piece) } else { None }
    }

    /// The effects in order. A piece of another stream has none.
    pub fn effects(self) -> Effects<'r> {
        Effects(if self.count == COPIED { &[] } else { self.effects })
    }
}

/// The effects of a unit, in order.
#[derive(Clone, Debug)]
pub struct Effects<'r>(&'r [u8]);

impl<'r> Iterator for Effects<'r> {
    type Item = Effect<'r>;

    fn next(&mut self) -> Option<Effect<'r>> {
        let (db, command) = split(&mut self.0)?;
        Some(Effect { db, command })
    }
}

/// A command that makes a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effect<'r> {
    /// The database that the command runs on.
    pub db: u32,
    /// The command in the protocol.
    pub command: &'r [u8],
}

impl<'r> Effect<'r> {
    /// The first command of a stream, and the rest. Its database is unknown here.
    pub(crate) fn split_first(stream: &'r [u8]) -> (Effect<'r>, &'r [u8]) {
        let mut rest = stream;
        for _ in 0..take_number(&mut rest) {
            let length = take_number(&mut rest);
            rest = &rest[length + b"\r\n".len()..];
        }
        (Effect { db: NO_DB, command: &stream[..stream.len() - rest.len()] }, rest)
    }

    /// The command's name, in any case.
    pub(crate) fn name(self) -> &'r [u8] {
        let mut rest = self.command;
        let _argument_count = take_number(&mut rest);
        let name_bytes = take_number(&mut rest);
        &rest[..name_bytes]
    }

    /// Whether Redis 7.0 does not know the command: Darter's own, and those of sketches.
    pub fn is_darters_own(self) -> bool {
        let name = self.name();
        OWN.iter().any(|own| name.get(..own.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(own)))
            || name.eq_ignore_ascii_case(b"RESTORE") && self.restores_sketch()
    }

    /// Whether `RESTORE key ttl payload` has a payload of a module.
    fn restores_sketch(self) -> bool {
        self.args().get(3).and_then(|payload| payload.first()) == Some(&TYPE_OF_MODULES)
    }

    /// The command's arguments, with its name first.
    pub fn args(self) -> Vec<&'r [u8]> {
        let mut rest = self.command;
        let mut args = Vec::with_capacity(take_number(&mut rest));
        while !rest.is_empty() {
            let length = take_number(&mut rest);
            args.push(&rest[..length]);
            rest = &rest[length + b"\r\n".len()..];
        }
        args
    }
}

/// Takes a line of [`write_number`] off the front.
fn take_number(rest: &mut &[u8]) -> usize {
    let end = rest.iter().position(|byte| *byte == b'\r').expect("a line ends");
    let number = rest[1..end].iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
    *rest = &rest[end + b"\r\n".len()..];
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_effects_are_read_back() {
        let mut record = Record::default();
        assert!(record.is_empty());
        record.end_unit();
        record.push(3, &[b"SET", b"k", b"\r\n$1"]);
        record.end_unit();
        record.end_unit();
        record.push(0, &[b"DEL", b""]);
        record.push(u32::MAX, &[b"FLUSHALL"]);
        record.end_unit();
        let shown =
            |effect: Effect<'_>| format!("{} {}", effect.db, effect.args().join(&b' ').escape_ascii());
        let units: Vec<Vec<String>> =
            record.units().map(|unit| unit.effects().map(shown).collect()).collect();
        let expected: [&[&str]; 2] = [&["3 SET k \\r\\n$1"], &["0 DEL ", "4294967295 FLUSHALL"]];
        assert_eq!(units, expected);
        let is_transaction: Vec<bool> = record.units().map(Unit::is_transaction).collect();
        assert_eq!(is_transaction, [false, true]);
        record.clear(0);
        assert!(record.is_empty() && record.units().next().is_none());
    }

    #[test]
    fn a_piece_of_another_stream_is_read_back_as_it_was() {
        let mut record = Record::default();
        record.push(3, &[b"A"]);
        record.push_copy(7, b"\n*1\r\n$4\r\nPING\r\n");
        record.push_copy(NO_DB, b"");
        record.push(3, &[b"B"]);
        record.end_unit();
        let copied: Vec<_> = record.units().map(Unit::copied).collect();
        let piece = &b"\n*1\r\n$4\r\nPING\r\n"[..];
        assert_eq!(copied, [None, Some((7, piece)), Some((NO_DB, b"")), None]);
        assert_eq!(record.units().map(|unit| unit.effects().count()).collect::<Vec<_>>(), [1, 0, 0, 1]);
    }
}
