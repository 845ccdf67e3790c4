//! The bytes of a file. Only blocks that are not all zeros take memory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::event::Bytes;

const BLOCK: u64 = 4096;

/// A file's bytes; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    pub(crate) bytes: u64,
    blocks: BTreeMap<u64, Arc<[u8; BLOCK as usize]>>,
}

impl File {
    /// Writes all of `bytes`; the file grows if necessary.
    pub(crate) fn write(&mut self, offset: u64, bytes: &Bytes) {
        self.bytes = self.bytes.max(offset + bytes.count());
        self.put(offset, bytes, 0, bytes.count());
    }

    /// Writes the part of `bytes` from `from` to `to`, and leaves the length as it is.
    pub(crate) fn put(&mut self, offset: u64, bytes: &Bytes, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let place = offset + at;
            let (block, start) = (place / BLOCK, place % BLOCK);
            let count = (BLOCK - start).min(to - at);
            let inside = start as usize..(start + count) as usize;
            match bytes {
                Bytes::Zeros(_) => {
                    if let Some(block) = self.blocks.get_mut(&block) {
                        Arc::make_mut(block)[inside].fill(0);
                    }
                }
                Bytes::Some(bytes) => {
                    let block = self.blocks.entry(block).or_insert_with(|| Arc::new([0; BLOCK as usize]));
                    Arc::make_mut(block)[inside].copy_from_slice(&bytes[at as usize..(at + count) as usize]);
                }
            }
            at += count;
        }
    }

    /// Shortens the file, or extends it with zeros.
    pub(crate) fn set_length(&mut self, bytes: u64) {
        if bytes < self.bytes {
            let gone = Bytes::Zeros(BLOCK);
            self.put(bytes, &gone, 0, BLOCK.min(self.bytes - bytes));
            self.blocks.split_off(&bytes.div_ceil(BLOCK));
        }
        self.bytes = bytes;
    }

    /// Writes the file to a new one on the disk, with holes for zeros.
    pub(crate) fn store(&self, path: &Path) -> io::Result<()> {
        let file = fs::File::create(path)?;
        file.set_len(self.bytes)?;
        for (index, block) in &self.blocks {
            let offset = index * BLOCK;
            let count = BLOCK.min(self.bytes.saturating_sub(offset));
            file.write_all_at(&block[..count as usize], offset)?;
        }
        Ok(())
    }

    /// The first offset at which it differs from these bytes, if it does.
    pub(crate) fn differs(&self, other: &[u8]) -> Option<u64> {
        if self.bytes != other.len() as u64 {
            return Some(self.bytes.min(other.len() as u64));
        }
        const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
        other.chunks(BLOCK as usize).enumerate().find_map(|(index, theirs)| {
            let ours = self.blocks.get(&(index as u64)).map_or(&ZEROS, |block| block);
            let at = ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs)?;
            Some(index as u64 * BLOCK + at as u64)
        })
    }
}
