//! Writes a background snapshot to its files, on a thread of its own.
//!
//! The writer writes chunks as they arrive, each to its file. The files become the snapshot when all of them
//! are durable. Any failure before that leaves the old snapshot. Replicas read their snapshot while it is
//! written; it is cancelled when its last reader is gone.

use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Weak};

use crate::output::Output;
use crate::scribe::{Saving, Sent, WriterItem};
use crate::snapshots::{Settings, Snapshots};
use crate::spool::Spool;

/// The outcome of a writer's step, for the simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriterStep {
    /// It has written something.
    Wrote,
    /// There is nothing to write yet.
    Waits,
    /// The writer has ended.
    Ended,
}

/// Called when there is room again for captured data, and at the end.
pub type Tell = Box<dyn Fn() + Send>;

/// See the head of this file.
pub struct Writer {
    snapshots: &'static Snapshots,
    tell: Tell,
    saving: Arc<Saving>,
    chunks: Receiver<Sent>,
    output: Output<'static>,
    /// The beginning of the first file until it is written: the header and the number of keys.
    head: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(
        snapshots: &'static Snapshots,
        settings: Settings,
        (saving, chunks): (Arc<Saving>, Receiver<Sent>),
        head: Vec<u8>,
        tell: Tell,
        spool: Option<Weak<Spool>>,
    ) -> Writer {
        let output = Output::new(snapshots, settings, saving.form, true, spool);
        Writer { snapshots, tell, saving, chunks, output, head }
    }

    /// Writes all chunks, to the end.
    pub fn run(mut self) {
        loop {
            // Received chunks do not count until they are written.
            let ended = match self.chunks.recv() {
                Ok((chunk, _memory)) => self.take(chunk),
                Err(_) => self.take(WriterItem::Abandoned),
            };
            if ended {
                return;
            }
        }
    }

    /// Writes the next chunk, if there is one.
    pub fn step(&mut self) -> WriterStep {
        let ended = match self.chunks.try_recv() {
            Ok((chunk, _memory)) => self.take(chunk),
            Err(TryRecvError::Empty) => return WriterStep::Waits,
            Err(TryRecvError::Disconnected) => self.take(WriterItem::Abandoned),
        };
        if ended { WriterStep::Ended } else { WriterStep::Wrote }
    }

    /// Handles a chunk. Returns true if it was the last one.
    fn take(&mut self, chunk: WriterItem) -> bool {
        if let WriterItem::GivenUp(_waiting) = chunk {
            assert!(self.saving.has_failed(), "files go of a save that may still become the snapshot");
            self.output.end_spool(false);
            self.output.discard();
            return false;
        }
        let bytes = chunk.waiting_bytes();
        let is_last = matches!(chunk, WriterItem::End | WriterItem::Abandoned);
        if !self.saving.has_failed()
            && let Err(error) = self.write(chunk)
        {
            self.fail(&error);
        }
        if self.saving.has_failed() {
            // The other readers must be gone before the last ones reach their end.
            self.output.end_spool(false);
        }
        if is_last {
            self.finish();
        } else if self.saving.note_written(bytes) {
            (self.tell)();
        }
        is_last
    }

    /// Fails: the files cannot be written, or their last reader is gone.
    fn fail(&self, error: &io::Error) {
        if self.output.is_abandoned() {
            self.saving.fail("no replica reads it any more".to_owned(), true);
        } else {
            self.saving.fail(self.output.trouble(error), false);
        }
    }

    fn write(&mut self, chunk: WriterItem) -> io::Result<()> {
        if self.output.is_abandoned() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if !self.head.is_empty() {
            self.output.file(0)?.bytes(&std::mem::take(&mut self.head))?;
        }
        match chunk {
            WriterItem::Bytes { file, bytes } => self.output.file(file)?.bytes(&bytes),
            WriterItem::Text { file, head, text } => {
                let file = self.output.file(file)?;
                file.bytes(&head)?;
                file.string(&text)
            }
            WriterItem::End | WriterItem::Abandoned | WriterItem::GivenUp(_) => Ok(()),
        }
    }

    /// Completes the files: they become the snapshot, or are complete for their readers, or are removed.
    fn finish(&mut self) {
        let mut written = None;
        if !self.saving.has_failed() {
            self.saving.assert_complete();
            let completed = self.output.complete(Some(&self.saving));
            written = completed.inspect_err(|error| self.fail(error)).ok();
        }
        let saved = written.ok_or_else(|| self.saving.failure().expect("what has failed says why"));
        let is_complete = saved.is_ok();
        self.output.discard();
        self.snapshots.end_background_save(&self.saving, saved);
        self.output.end_spool(is_complete);
        (self.tell)();
    }
}
