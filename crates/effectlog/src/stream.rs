//! The replication stream: records as the bytes that a Redis replica reads and an append-only file contains.

use crate::dialect::Dialect;
use crate::record::{NO_DB, Units, write_number};

/// Writes records one after the other: `SELECT` where the database changes, `MULTI` and `EXEC` around units of several
/// effects. Pieces of another stream are written unchanged.
///
/// By default everything is written, for Darter. [`Stream::for_redis`] leaves out commands that Redis does
/// not know. So offsets of the two kinds cannot be compared.
#[derive(Debug, Default)]
pub struct Stream {
    /// The reader knows only commands of Redis.
    is_for_redis: bool,
    /// The database that the reader has selected; unknown at first.
    db: Option<u32>,
    /// The database selected before the first piece of another stream since [`Stream::take_copied_from`].
    copied_from: Option<u32>,
    /// Whether dialects are determined.
    tells_dialects: bool,
    dialect: Dialect,
}

impl Stream {
    /// For Redis as a replica: leaves out [Darter's own commands](crate::Effect::is_darters_own), and writes `MULTI`
    /// and `EXEC` only around several of the other commands.
    pub fn for_redis() -> Stream {
        Stream { is_for_redis: true, ..Stream::default() }
    }

    /// A stream of the same kind for a reader that has not selected a database.
    pub(crate) fn anew(&self) -> Stream {
        Stream { is_for_redis: self.is_for_redis, tells_dialects: self.tells_dialects, ..Stream::default() }
    }

    /// Whether the dialect is determined from now on.
    pub(crate) fn tell_dialects(&mut self, tells: bool) {
        self.tells_dialects = tells;
    }

    /// The dialect of the commands that were written since the last call.
    pub(crate) fn take_dialect(&mut self) -> Dialect {
        std::mem::take(&mut self.dialect)
    }

    /// The database selected before the first piece of another stream since the last call, if it is known.
    pub(crate) fn take_copied_from(&mut self) -> Option<u32> {
        self.copied_from.take().filter(|db| *db != NO_DB)
    }

    /// The database that the reader has selected.
    pub fn db(&self) -> Option<u32> {
        self.db
    }

    /// Appends the units of a record to `out`.
    pub fn write(&mut self, units: Units<'_>, out: &mut Vec<u8>) {
        let is_for_redis = self.is_for_redis;
        for unit in units {
            if let Some((db, piece)) = unit.copied() {
                // The copy selects the databases that it needs. Which one it leaves selected is known only
                // when the next copy comes.
                self.copied_from = self.copied_from.or(Some(db));
                self.db = None;
                if self.tells_dialects {
                    self.dialect.add_copy(piece);
                }
                out.extend_from_slice(piece);
                continue;
            }
            let effects = || unit.effects().filter(|effect| !is_for_redis || !effect.is_darters_own());
            let is_transaction = effects().nth(1).is_some();
            if is_transaction {
                out.extend_from_slice(b"*1\r\n$5\r\nMULTI\r\n");
            }
            for effect in effects() {
                if self.tells_dialects {
                    self.dialect.add(effect);
                }
                if self.db != Some(effect.db) && effect.db != NO_DB {
                    self.db = Some(effect.db);
                    let mut number = itoa::Buffer::new();
                    let number = number.format(effect.db);
                    out.extend_from_slice(b"*2\r\n$6\r\nSELECT\r\n");
                    write_number(out, b'$', number.len());
                    out.extend_from_slice(number.as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(effect.command);
            }
            if is_transaction {
                out.extend_from_slice(b"*1\r\n$4\r\nEXEC\r\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::RedisVersion;
    use crate::record::Record;

    #[test]
    fn a_stream_selects_databases_and_keeps_units_together() {
        let (mut record, mut stream, mut out) = (Record::default(), Stream::default(), Vec::new());
        record.push(0, &[b"A"]);
        record.end_unit();
        record.push(0, &[b"B"]);
        record.push(12, &[b"C", b"xy"]);
        record.end_unit();
        stream.write(record.units(), &mut out);
        let mut next = Record::default();
        next.push(12, &[b"D"]);
        next.end_unit();
        stream.write(next.units(), &mut out);
        let expected = "*2 $6 SELECT $1 0 *1 $1 A *1 $5 MULTI *1 $1 B *2 $6 SELECT $2 12 *2 $1 C $2 xy *1 $4 EXEC \
            *1 $1 D ";
        assert_eq!(String::from_utf8(out).unwrap().replace("\r\n", " "), expected);
    }

    #[test]
    fn a_stream_tells_what_its_readers_have_to_know_of_copies_too() {
        let (mut stream, mut out) = (Stream::default(), Vec::new());
        stream.tell_dialects(true);
        let mut own = Record::default();
        own.push(0, &[b"DARTER.MARK", b"k", b"1"]);
        own.end_unit();
        let mut copy = Record::default();
        copy.push_copy(0, b"*1\r\n$8\r\nHPERSIST\r\n");
        for (record, expected) in [(&own, (RedisVersion::V7_0, true)), (&copy, (RedisVersion::V7_4, false))] {
            stream.write(record.units(), &mut out);
            let Dialect { version, has_own } = stream.take_dialect();
            assert_eq!((version, has_own), expected);
        }
    }

    #[test]
    fn a_stream_for_redis_leaves_out_what_is_darters_own() {
        let mut record = Record::default();
        // Units of own effects alone, of one other, of several others with names that only look alike; an empty name.
        let units: [&[&str]; 4] = [
            &["1 DARTER.MARK k m", "1 darter.mark"],
            &["2 A", "1 DARTER.MARK k m"],
            &["1 DARTER.MARK k m", "2 DARTER DARTER.MARK", "2 DARTERS."],
            &["2 "],
        ];
        for unit in units {
            for effect in unit {
                let (db, args) = effect.split_once(' ').unwrap();
                let args: Vec<&[u8]> = args.split(' ').map(str::as_bytes).collect();
                record.push(db.parse().unwrap(), &args);
            }
            record.end_unit();
        }
        let written = |mut stream: Stream| {
            let mut out = Vec::new();
            stream.write(record.units(), &mut out);
            String::from_utf8(out).unwrap().replace("\r\n", " ")
        };
        let expected = "*2 $6 SELECT $1 2 *1 $1 A *1 $5 MULTI *2 $6 DARTER $11 DARTER.MARK *1 $8 DARTERS. *1 $4 EXEC *1 $0  ";
        assert_eq!(written(Stream::for_redis()), expected);
        assert_eq!(written(Stream::default()).matches(" DARTER.MARK $1 k").count(), 3);
    }
}
