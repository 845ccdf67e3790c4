//! The mark: a small file beside the segments with the last slice that was durable.
//!
//! Each frame names the last slice that was durable when it was made, but a frame that was cut off or overwritten tells
//! nothing. So the disk thread also writes the last durable slice here: when the log rests, ten times a second while it
//! does not, and when the journal is closed. A log that ends before that slice has lost data.
//!
//! ```text
//!   journal-<id>.durable       two records, written in turn: one at byte 0, one at byte 4096
//!
//!    0  magic 8       "DARTERD1"
//!    8  journal id 8
//!   16  incarnation 4        which life of the journal: a later one may have dropped what was not durable
//!   20  zeros 4
//!   24  slice 8       it is durable, with all before it
//!   32  CRC-64 of the 32 bytes above 8
//! ```
//!
//! The mark stays true, so it is synced only when the journal is closed. After a power failure it may name an earlier
//! slice than it could. If it is missing or unreadable, only the frames count. A mark of an earlier incarnation does not
//! matter, because the manifest has the end of that incarnation.
//!
//! Not here: the times of writing it (`log_thread.rs`, `disk_thread.rs`).

use effectlog::Lsn;
use proactor::{DIRECT_BYTES, DiskFile, Open};

use crate::checksum::crc64;
use crate::error::Error;
use crate::folder::{Folder, LockedFolder};

const MAGIC: &[u8; 8] = b"DARTERD1";
const CHECKED_BYTES: usize = 32;
const RECORD_BYTES: usize = CHECKED_BYTES + 8;
/// The number of records. Each has a page of its own: while the system writes one to the disk, the other can be
/// changed.
const RECORDS: u64 = 2;

/// The content of a mark.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Mark {
    /// The incarnation of the journal.
    pub(crate) incarnation: u32,
    /// The last durable slice.
    pub(crate) slice: Lsn,
}

impl Mark {
    fn encode(self, journal_id: u64) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&journal_id.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[24..CHECKED_BYTES].copy_from_slice(&self.slice.get().to_le_bytes());
        let checksum = crc64(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; RECORD_BYTES], journal_id: u64) -> Option<Mark> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let mark = Mark { incarnation: word(16) as u32, slice: Lsn::new(word(24)) };
        (mark.encode(journal_id) == *bytes).then_some(mark)
    }

    /// Reads the mark of this journal. `None` if there is none, or it cannot be read.
    pub(crate) fn read(folder: &Folder, journal_id: u64) -> Option<Mark> {
        let file = folder.disk().open(&folder.mark(journal_id), Open::Read).ok()?;
        let record = |number: u64| {
            let mut bytes = [0; RECORD_BYTES];
            let is_whole = file.read_at(offset(number), &mut bytes).is_ok_and(|count| count == RECORD_BYTES);
            Mark::decode(&bytes, journal_id).filter(|_| is_whole)
        };
        (0..RECORDS).filter_map(record).max()
    }
}

fn offset(number: u64) -> u64 {
    number * DIRECT_BYTES as u64
}

/// Writes the file.
#[derive(Debug, Default)]
pub(crate) struct Marker {
    file: Option<DiskFile>,
    /// The last mark that was written.
    last: Option<Mark>,
    count: u64,
}

impl Marker {
    /// Writes a mark that is not written yet. No sync is needed: the mark is true, so it may become durable at any
    /// time.
    pub(crate) fn write(&mut self, folder: &LockedFolder, journal_id: u64, mark: Mark) -> Result<(), Error> {
        if self.last == Some(mark) {
            return Ok(());
        }
        let path = folder.mark(journal_id);
        if self.file.is_none() {
            let opened = folder.disk().open(&path, Open::Write);
            self.file = Some(opened.map_err(Error::io(&path, "open it"))?);
        }
        let Some(file) = &self.file else { return Ok(()) };
        let written = file.write_all_at(offset(self.count % RECORDS), &mark.encode(journal_id));
        written.map_err(Error::io(&path, "write it"))?;
        (self.last, self.count) = (Some(mark), self.count + 1);
        Ok(())
    }

    /// Makes it durable.
    pub(crate) fn sync(&self, folder: &LockedFolder, journal_id: u64) -> Result<(), Error> {
        let Some(file) = &self.file else { return Ok(()) };
        file.sync().map_err(Error::io(&folder.mark(journal_id), "make it durable"))?;
        folder.sync_names()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_back_and_no_bit_of_it_may_change() {
        let mark = Mark { incarnation: 3, slice: Lsn::new(4711) };
        let bytes = mark.encode(0xabcd);
        assert_eq!(Mark::decode(&bytes, 0xabcd), Some(mark));
        assert_eq!(Mark::decode(&bytes, 0xabce), None, "it is of another journal");
        for bit in 0..RECORD_BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Mark::decode(&changed, 0xabcd), None, "bit {bit}");
        }
        assert!(
            mark < Mark { incarnation: 4, slice: Lsn::NONE } && mark < Mark { slice: Lsn::new(4712), ..mark }
        );
    }
}
