//! The stream of replication: records as the bytes that a Redis replica reads and an append-only file holds.

use crate::record::{Record, write_number};

/// Writes records one behind the other: `SELECT` where the database changes, `MULTI` and `EXEC` around units of several
/// effects.
#[derive(Debug, Default)]
pub struct Stream {
    /// The database that the reader has selected; at first it is not known.
    db: Option<u32>,
}

impl Stream {
    /// Appends `record` to `out`.
    pub fn write(&mut self, record: &Record, out: &mut Vec<u8>) {
        for unit in record.units() {
            if unit.is_transaction() {
                out.extend_from_slice(b"*1\r\n$5\r\nMULTI\r\n");
            }
            for effect in unit.effects() {
                if self.db != Some(effect.db) {
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
            if unit.is_transaction() {
                out.extend_from_slice(b"*1\r\n$4\r\nEXEC\r\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_selects_databases_and_keeps_units_together() {
        let (mut record, mut stream, mut out) = (Record::default(), Stream::default(), Vec::new());
        record.push(0, &[b"A"]);
        record.end_unit();
        record.push(0, &[b"B"]);
        record.push(12, &[b"C", b"xy"]);
        record.end_unit();
        stream.write(&record, &mut out);
        let mut next = Record::default();
        next.push(12, &[b"D"]);
        next.end_unit();
        stream.write(&next, &mut out);
        let expected = "*2 $6 SELECT $1 0 *1 $1 A *1 $5 MULTI *1 $1 B *2 $6 SELECT $2 12 *2 $1 C $2 xy *1 $4 EXEC \
            *1 $1 D ";
        assert_eq!(String::from_utf8(out).unwrap().replace("\r\n", " "), expected);
    }
}
