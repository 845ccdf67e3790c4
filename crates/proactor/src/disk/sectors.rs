//! The bytes of a simulated file: those that reads return, and those that are durable.
//!
//! ```text
//!   bytes      AAAAAAAA BBBBBBBB CCCC        the content that reads return
//!   durable    AAAAAAAA bbbbbbbb             the content that a crash is certain to leave, except
//!   unsynced            ^        ^           in the sectors that were written since the last sync
//! ```
//!
//! At a crash each unsynced sector gets its new content, its durable content, or some of both. The length
//! becomes one of the two or something between them. A sector that was never made durable may contain
//! anything.
//!
//! The system also writes at times of its own: when a sector that is already unsynced is written again, its
//! previous content may have become durable.

use std::collections::BTreeSet;
use std::io;

use crate::Entropy;

/// The unit that is written as a whole, or torn.
pub(super) const SECTOR_BYTES: usize = 512;

/// See the head of this file.
#[derive(Clone, Default, Debug)]
pub(super) struct Sectors {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    unsynced: BTreeSet<usize>,
}

fn sectors_of(offset: usize, len: usize) -> std::ops::Range<usize> {
    offset / SECTOR_BYTES..(offset + len).div_ceil(SECTOR_BYTES)
}

impl Sectors {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn read(&self, offset: usize, into: &mut [u8]) -> usize {
        let rest = self.bytes.get(offset..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        count
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8], entropy: &mut Entropy) {
        let end = offset + bytes.len();
        let from = offset.min(self.bytes.len());
        for sector in sectors_of(from, end - from) {
            if !self.unsynced.insert(sector) && entropy.one_in(2) {
                self.write_out(sector);
            }
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(bytes);
    }

    /// Empties the file. That is not durable until a sync, either.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.unsynced = sectors_of(0, self.durable.len()).collect();
    }

    /// Makes everything written durable.
    pub(super) fn sync(&mut self) {
        self.durable.resize(self.bytes.len(), 0);
        while let Some(sector) = self.unsynced.pop_first() {
            self.write_out(sector);
        }
    }

    /// Makes this part durable.
    pub(super) fn sync_part(&mut self, offset: usize, len: usize) {
        for sector in sectors_of(offset, len) {
            self.write_out(sector);
            self.unsynced.remove(&sector);
        }
    }

    /// A sync fails: the system has reported that, and forgets about it, so it considers unwritten sectors
    /// clean.
    pub(super) fn fail_to_sync(&mut self, entropy: &mut Entropy) {
        while let Some(sector) = self.unsynced.pop_first() {
            if entropy.one_in(2) {
                self.write_out(sector);
            }
        }
    }

    /// From now on reads return the bytes on the disk, except for those that have yet to be written.
    pub(super) fn forget(&mut self) {
        for sector in sectors_of(0, self.bytes.len()).filter(|sector| !self.unsynced.contains(sector)) {
            let start = sector * SECTOR_BYTES;
            let end = (start + SECTOR_BYTES).min(self.bytes.len());
            let on_disk = self.durable.get(start..).unwrap_or_default();
            let count = on_disk.len().min(end - start);
            self.bytes[start..start + count].copy_from_slice(&on_disk[..count]);
            self.bytes[start + count..end].fill(0);
        }
    }

    /// A crash: only the bytes on the disk are left, and become the content.
    pub(super) fn crash(&mut self, entropy: &mut Entropy) {
        let (before, written) = (self.durable.len(), self.bytes.len());
        let unsynced = std::mem::take(&mut self.unsynced);
        // Whole files are lost or kept more often than single sectors.
        let mode = entropy.below(4);
        for sector in unsynced {
            self.crash_sector(sector, mode, entropy);
        }
        let len = match entropy.below(3) {
            0 => before,
            1 => written,
            _ => before.min(written) + entropy.below(before.abs_diff(written) as u64 + 1) as usize,
        };
        self.durable.resize(len, 0);
        self.bytes.clone_from(&self.durable);
    }

    fn crash_sector(&mut self, sector: usize, mode: u64, entropy: &mut Entropy) {
        let start = sector * SECTOR_BYTES;
        let was_durable = start < self.durable.len();
        let end = (start + SECTOR_BYTES).min(self.bytes.len());
        if mode == 0 || start >= end {
            return;
        }
        let is_kept = mode == 1 || entropy.one_in(3);
        if is_kept {
            self.write_out(sector);
        } else if entropy.one_in(2) {
            // Torn: the new bytes up to some point, or from there on.
            let at = start + entropy.below((end - start) as u64 + 1) as usize;
            let (from, to) = if entropy.one_in(2) { (start, at) } else { (at, end) };
            self.reach(to);
            self.durable[from..to].copy_from_slice(&self.bytes[from..to]);
        } else if !was_durable && entropy.one_in(4) {
            self.reach(end);
            self.durable[start..end].fill_with(|| entropy.next_u64() as u8);
        }
    }

    fn reach(&mut self, end: usize) {
        if self.durable.len() < end {
            self.durable.resize(end, 0);
        }
    }

    /// Makes the current content of a sector durable.
    fn write_out(&mut self, sector: usize) {
        let start = sector * SECTOR_BYTES;
        let end = (start + SECTOR_BYTES).min(self.bytes.len());
        if start < end {
            self.reach(end);
            self.durable[start..end].copy_from_slice(&self.bytes[start..end]);
        }
    }

    /// How many bytes of space the file needs in addition to be written up to `end`.
    pub(super) fn growth(&self, end: usize) -> u64 {
        (sectors_of(0, end).len().saturating_sub(sectors_of(0, self.bytes.len()).len()) * SECTOR_BYTES) as u64
    }

    /// Bytes of space that it takes on the disk.
    pub(super) fn taken_bytes(&self) -> u64 {
        (sectors_of(0, self.bytes.len()).len() * SECTOR_BYTES) as u64
    }
}

/// An offset as an index.
pub(super) fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge.into())
}
