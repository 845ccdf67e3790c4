//! Reads a segment from front to back, with read-ahead.

use std::io;
use std::path::PathBuf;

use proactor::{DiskFile, Open};

use crate::error::Error;
use crate::folder::Folder;

/// The bytes that are read at a time.
const READ_BYTES: usize = 1 << 20;

/// An open segment, and the part of it that was read last.
#[derive(Debug)]
pub(crate) struct SegmentReader {
    pub(crate) path: PathBuf,
    file: DiskFile,
    /// The file's length when it was opened.
    file_bytes: u64,
    /// The offset in the file at which `bytes` begins.
    from: u64,
    /// The bytes that were read are at its front. It is never shortened, so that it need not be filled with zeros for
    /// each read.
    bytes: Vec<u8>,
    filled: usize,
}

impl SegmentReader {
    /// Opens a segment. `None` if it does not exist.
    pub(crate) fn open(
        folder: &Folder,
        journal_id: u64,
        number: u64,
    ) -> Result<Option<SegmentReader>, Error> {
        let path = folder.segment(journal_id, number);
        let opened = folder.disk().open(&path, Open::Read).and_then(|file| Ok((file.size_bytes()?, file)));
        match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(&path, "open it")(error)),
            Ok((file_bytes, file)) => {
                Ok(Some(SegmentReader { path, file, file_bytes, from: 0, bytes: Vec::new(), filled: 0 }))
            }
        }
    }

    /// The file's length when it was opened.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The `count` bytes at `offset`. Fewer at the end of the file.
    pub(crate) fn bytes(&mut self, offset: u64, count: usize) -> Result<&[u8], Error> {
        let is_there = offset >= self.from && offset + count as u64 <= self.from + self.filled as u64;
        if !is_there {
            self.read(offset, count).map_err(|error| Error::io(&self.path, "read it")(error).at(offset))?;
        }
        let rest = &self.bytes[(offset - self.from) as usize..self.filled];
        Ok(&rest[..count.min(rest.len())])
    }

    fn read(&mut self, offset: u64, count: usize) -> io::Result<()> {
        let known = offset.checked_sub(self.from).filter(|known| *known <= self.filled as u64);
        match known.map(|known| known as usize) {
            Some(known) => {
                self.bytes.copy_within(known..self.filled, 0);
                self.filled -= known;
            }
            None => self.filled = 0,
        }
        self.from = offset;
        let left = self.file_bytes.saturating_sub(offset + self.filled as u64);
        let wanted = self.filled + left.min(count.max(READ_BYTES) as u64) as usize;
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
        while self.filled < wanted {
            let at = offset + self.filled as u64;
            match self.file.read_at(at, &mut self.bytes[self.filled..wanted]) {
                Ok(0) => break,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
