//! Reads segments of a journal that is being written, from a position of the stream on, for a replica that was away.
//!
//! Not here: the time that segments stay (`Journal::set_base`). If they are removed or reused meanwhile, that is an
//! error.

use std::time::Duration;

use effectlog::{RedisVersion, StreamPosition};

use crate::error::Error;
use crate::journal::Journal;
use crate::scan::{Scan, Scanned};

/// The interval at which it checks whether the log thread has written more.
const LOOK: Duration = Duration::from_millis(1);

/// See the head of this file.
#[derive(Debug)]
pub struct ReadBack {
    journal: Journal,
    /// The scan, which ends where nothing more had been written, and the slice up to which data had certainly been
    /// written.
    scan: Option<(Scan, StreamPosition)>,
    position: StreamPosition,
    end: StreamPosition,
}

impl Journal {
    /// Reads the stream from `position`, which was written, up to `end`, which may not be written yet.
    pub fn read_back(&self, position: StreamPosition, end: StreamPosition) -> ReadBack {
        ReadBack { journal: self.clone(), scan: None, position, end }
    }
}

impl ReadBack {
    /// The next part of the stream, the rest of a slice, in the form that this release of Redis understands (`None`:
    /// unchanged). Returns `None` at the end. Waits for the log thread.
    ///
    /// # Errors
    ///
    /// If the next part has been removed or is damaged, or the journal has failed.
    pub fn next(&mut self, version: Option<RedisVersion>) -> Result<Option<Vec<u8>>, Error> {
        while self.position < self.end {
            let (scan, written) = match &mut self.scan {
                Some(scan) => scan,
                None => {
                    let written = self.journal.written_position();
                    self.scan.insert((self.journal.scan_from(self.position)?, written))
                }
            };
            match scan.next_slice()? {
                Some(Scanned { slice, .. }) if slice.end() <= self.position => {}
                Some(Scanned { slice, .. }) if slice.position > self.position => {
                    return Err(self.journal.gone(self.position));
                }
                Some(Scanned { slice, .. }) => {
                    let known = self.position.since(slice.position) as usize;
                    self.position = slice.end();
                    let mut bytes = slice.into_payload(version);
                    bytes.drain(..known);
                    return Ok(Some(bytes));
                }
                None => {
                    let written = *written;
                    self.scan = None;
                    if let Some(error) = self.journal.failure() {
                        return Err(error);
                    }
                    if self.position < written {
                        // It existed before this check, and cannot be read or was removed.
                        self.journal.note_unreadable(written);
                        return Err(self.journal.gone(self.position));
                    }
                    std::thread::sleep(LOOK);
                }
            }
        }
        Ok(None)
    }
}
