//! The one that writes a background snapshot to its file, on a thread of its own.
//!
//! It writes chunks as they come. What comes in a lane goes to a file of that lane, and at the end behind everything
//! else. The file becomes the snapshot when all of it is durable; whatever goes wrong before leaves the old one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Seek};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rdb::Encoder;

use super::names::temporary_path;
use super::saving::{Chunk, Saving};
use crate::settings::{RDB_SAVE_INCREMENTAL_FSYNC, RDBCHECKSUM};
use crate::shared::Shared;
use crate::system;

/// So much is written before the system is told to begin with the writing to disk.
const SYNCED_BYTES: u64 = 4 * 1024 * 1024;

/// See the head of this file.
pub(crate) struct Writer {
    shared: &'static Shared,
    saving: Arc<Saving>,
    chunks: Receiver<Chunk>,
    /// What begins the file: the header, and how many keys there are.
    head: Vec<u8>,
    /// By lane; none before the first chunk, and after something went wrong.
    files: BTreeMap<u8, Encoder<File>>,
    /// Of the file of lane 0.
    synced_bytes: u64,
}

impl Writer {
    pub(super) fn new(
        shared: &'static Shared,
        saving: Arc<Saving>,
        chunks: Receiver<Chunk>,
        head: Vec<u8>,
    ) -> Writer {
        Writer { shared, saving, chunks, head, files: BTreeMap::new(), synced_bytes: 0 }
    }

    /// Writes everything that comes, to the end.
    pub(super) fn run(mut self) {
        loop {
            let chunk = self.chunks.recv().unwrap_or(Chunk::Abandoned);
            if self.take(chunk) {
                return;
            }
        }
    }

    /// Writes up to so many chunks that have come; true at the end.
    pub(super) fn run_some(&mut self, count: u64) -> bool {
        (0..count).any(|_| self.chunks.try_recv().is_ok_and(|chunk| self.take(chunk)))
    }

    /// Takes a chunk; true if it was the last one.
    fn take(&mut self, chunk: Chunk) -> bool {
        let bytes = chunk.waiting_bytes();
        let is_last = matches!(chunk, Chunk::End | Chunk::Abandoned);
        if !self.saving.has_failed() {
            let written = match chunk {
                Chunk::Bytes { lane, bytes } => self.file(lane).and_then(|file| file.bytes(&bytes)),
                Chunk::Text { head, text } => {
                    self.file(0).and_then(|file| file.bytes(&head).and_then(|()| file.string(&text)))
                }
                Chunk::End | Chunk::Abandoned => Ok(()),
            };
            if let Err(error) = written.and_then(|()| self.begin_sync()) {
                self.saving.fail(error.to_string(), false);
            }
        }
        if is_last {
            self.finish();
        } else if self.saving.note_written(bytes) {
            self.shared.tell_of_snapshot();
        }
        is_last
    }

    fn path(&self, lane: u8) -> PathBuf {
        temporary_path(&self.shared.settings, Some(lane))
    }

    fn file(&mut self, lane: u8) -> io::Result<&mut Encoder<File>> {
        if !self.files.contains_key(&lane) {
            let file =
                File::options().read(true).write(true).create(true).truncate(true).open(self.path(lane))?;
            let mut encoder = Encoder::styled(file, self.saving.style);
            if lane == 0 {
                encoder.bytes(&self.head)?;
            }
            self.files.insert(lane, encoder);
        }
        Ok(self.files.get_mut(&lane).expect("it was just put there"))
    }

    /// Has the disk begin with what was written, so that the end need not wait for all of it.
    fn begin_sync(&mut self) -> io::Result<()> {
        let Some(main) = self.files.get(&0) else { return Ok(()) };
        let offset = main.offset();
        if offset - self.synced_bytes >= SYNCED_BYTES
            && self.shared.settings.is_on(RDB_SAVE_INCREMENTAL_FSYNC)
        {
            system::write_out(main.output(), self.synced_bytes, offset);
            self.synced_bytes = offset;
        }
        Ok(())
    }

    /// The file becomes the snapshot, or goes.
    fn finish(&mut self) {
        let lanes: BTreeSet<u8> = self.files.keys().copied().chain([0]).collect();
        let saved = self.complete();
        for lane in lanes {
            // What has become the snapshot is not there any more.
            let _ = fs::remove_file(self.path(lane));
        }
        self.shared.end_background_save(&self.saving, saved);
    }

    /// Puts the parts together and makes them the snapshot; its length and name. The error is why there is none.
    fn complete(&mut self) -> Result<(u64, String), String> {
        let text = |error: io::Error| error.to_string();
        if let Some(why) = self.saving.failure() {
            return Err(why);
        }
        self.file(0).map_err(text)?;
        let mut files = std::mem::take(&mut self.files);
        let mut main = files.remove(&0).expect("it was just asked for");
        for lane in files.into_values() {
            let (mut file, piece) = lane.into_piece().map_err(text)?;
            file.rewind().map_err(text)?;
            main.append(&mut file, piece).map_err(text)?;
        }
        main.end(self.shared.settings.is_on(RDBCHECKSUM)).map_err(text)?;
        let bytes = main.offset();
        main.finish().and_then(|file| file.sync_all()).map_err(text)?;
        let name = self.shared.make_snapshot(&self.path(0), Some(&self.saving))?;
        Ok((bytes, name))
    }
}
