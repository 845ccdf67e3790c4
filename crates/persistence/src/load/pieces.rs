//! Reads a snapshot with several threads.
//!
//! ```text
//!                                     ┌──▶ loader: decodes, inserts ─┐
//!  file ──▶ cutter ── Piece ──▶ ▒▒▒▒ ─┼──▶ loader                    ├──▶ databases, a lock for each shard
//!           (where do items end?)     └──▶ loader                    ┘
//! ```
//!
//! The calling thread goes over the file without decoding values. It cuts the file between items into pieces,
//! which the loaders take when they are idle. A piece with a long value is handed over before it is complete,
//! and the rest follows while the loader reads, so memory is bounded. The loader of a piece computes its
//! checksum.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use rdb::{Checksum, Family, FileReader, Item, Why};

use super::{Counted, Others, Target, on_heap_to_serve};
use crate::tuning::Tuning;

/// Pieces that wait for each loader. Also the parts of a piece that wait for its loader.
const WAITING_MAX: usize = 2;

/// Whole items of a file.
struct Piece {
    offset: u64,
    /// The database of the first keys.
    db: usize,
    family: Family,
    bytes: Vec<u8>,
    /// The bytes that were read.
    at: usize,
    /// The source of the rest. Its last part is empty.
    rest: Option<Receiver<Vec<u8>>>,
}

impl Read for Piece {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.bytes.len()
            && let Some(rest) = &self.rest
        {
            // In this case the cutter has an error.
            self.bytes = rest.recv().map_err(|_| io::ErrorKind::UnexpectedEof)?;
            self.at = 0;
            if self.bytes.is_empty() {
                self.rest = None;
            }
        }
        let count = (&self.bytes[self.at..]).read(into)?;
        self.at += count;
        Ok(count)
    }
}

/// Reads a file for the thread that finds the ends of items, and keeps the bytes for the loaders.
struct Cutter<'a> {
    file: Counted<'a>,
    tuning: Tuning,
    /// `None` at the end, which ends the loaders.
    pieces: Option<SyncSender<Piece>>,
    /// Whether all bytes that are being read belong to one value.
    is_amid_value: bool,
    /// The bytes from `offset` on that have not been handed over.
    bytes: Vec<u8>,
    offset: u64,
    db: usize,
    family: Family,
    /// The receiver of the next part of an incomplete piece.
    rest: Option<SyncSender<Vec<u8>>>,
}

impl Read for Cutter<'_> {
    /// The bytes read before have been examined.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.is_amid_value && self.bytes.len() >= self.tuning.piece_bytes_max {
            self.hand_over(self.bytes.len(), true)?;
        }
        let count = self.file.read(into)?;
        self.bytes.extend_from_slice(&into[..count]);
        Ok(count)
    }
}

impl Cutter<'_> {
    /// Notes that an item ends at `offset`, after which keys belong to the database `db`.
    fn note_end(&mut self, offset: u64, db: usize, is_last: bool) -> io::Result<()> {
        assert!(offset >= self.offset, "items end in the order in which they begin");
        let count = (offset - self.offset) as usize;
        if count >= self.tuning.piece_bytes_min || self.rest.is_some() || is_last {
            self.hand_over(count, false)?;
            self.db = db;
        }
        if is_last {
            self.pieces = None;
        }
        Ok(())
    }

    /// Hands the first bytes to a loader. `is_open` if more of the piece follows.
    fn hand_over(&mut self, count: usize, is_open: bool) -> io::Result<()> {
        assert!(count <= self.bytes.len(), "only what was read is handed over");
        let left = self.bytes.split_off(count);
        let bytes = std::mem::replace(&mut self.bytes, left);
        let offset = self.offset;
        self.offset += count as u64;
        let is_sent = if let Some(rest) = &self.rest {
            let is_sent = count == 0 || rest.send(bytes).is_ok();
            let is_ended = is_open || rest.send(Vec::new()).is_ok();
            self.rest.take_if(|_| !is_open);
            is_sent && is_ended
        } else {
            let (sender, rest) = sync_channel(WAITING_MAX);
            let rest = is_open.then_some(rest);
            self.rest = is_open.then_some(sender);
            let piece = Piece { offset, db: self.db, family: self.family, bytes, at: 0, rest };
            self.pieces.as_ref().is_some_and(|pieces| pieces.send(piece).is_ok())
        };
        // A loader that has gone has an error.
        if is_sent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}

/// The state that the loaders of a file share.
struct Loaders<'a> {
    target: &'a Target<'a>,
    pieces: Arc<Mutex<Receiver<Piece>>>,
    sums: bool,
    has_failed: &'a AtomicBool,
}

impl Loaders<'_> {
    /// Loads pieces until none is left. Returns their offsets and checksums.
    fn work(self) -> Result<Vec<(u64, Checksum)>, rdb::Error> {
        let mut sums = Vec::new();
        loop {
            let next = self.pieces.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(piece) = next else { return Ok(sums) };
            if self.has_failed.load(Ordering::Relaxed) {
                continue;
            }
            match self.load(piece) {
                Ok(sum) => sums.push(sum),
                Err(error) => {
                    self.has_failed.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
            heap::settle();
        }
    }

    fn load(&self, piece: Piece) -> Result<(u64, Checksum), rdb::Error> {
        let (offset, db, family) = (piece.offset, piece.db, piece.family);
        let mut part = FileReader::of_part(piece, offset, self.sums).of_family(family);
        // The cutter handles items that are not keys.
        self.target.take_items(&mut part, db, &mut |_| Ok(()))?;
        Ok((offset, part.sum(offset)))
    }
}

impl Others<'_, '_> {
    /// Reads a whole file with this many loaders. Returns its end.
    pub(super) fn read_with(&mut self, loader_count: usize, file: Counted) -> Result<u64, rdb::Error> {
        let sums = self.target.load.has_checksum;
        let (pieces, received) = sync_channel(WAITING_MAX * loader_count);
        let (received, has_failed) = (Arc::new(Mutex::new(received)), AtomicBool::new(false));
        let cutter = Cutter {
            file,
            tuning: self.target.load.tuning,
            pieces: Some(pieces),
            is_amid_value: false,
            bytes: Vec::new(),
            offset: 0,
            db: 0,
            family: Family::Redis,
            rest: None,
        };
        let (cut, loaded) = std::thread::scope(|scope| {
            let loaders: Vec<_> = (0..loader_count)
                .map(|_| {
                    let (target, pieces) = (self.target, Arc::clone(&received));
                    let loaders = Loaders { target, pieces, sums, has_failed: &has_failed };
                    scope.spawn(|| on_heap_to_serve(|| loaders.work()))
                })
                .collect();
            // When no loader is left, the cutter cannot send.
            drop(received);
            let cut = self.cut(cutter, &has_failed);
            let join =
                |loader: std::thread::ScopedJoinHandle<'_, _>| loader.join().expect("it did not panic");
            (cut, loaders.into_iter().map(join).collect::<Vec<_>>())
        });
        let mut all_sums = Vec::new();
        let mut errors = Vec::new();
        for loaded in loaded {
            match loaded {
                Ok(sums) => all_sums.extend(sums),
                // The loader lacks bytes because the cutter has an error.
                Err(rdb::Error { why: Why::Io(_), .. }) => {}
                Err(error) => errors.push(error),
            }
        }
        // The first error in the file counts. The cutter, which is ahead of all loaders, may have stopped
        // because of it.
        if let Some(error) = errors.into_iter().min_by_key(|error| error.offset) {
            return Err(error);
        }
        let Some((file, head)) = cut? else { return Ok(0) };
        if sums {
            all_sums.sort_by_key(|(offset, _)| *offset);
            file.verify(all_sums.into_iter().fold(head, |sum, (_, piece)| sum.then(piece)))?;
        }
        Ok(file.offset())
    }

    /// Goes over the file and cuts it. Returns the length and the checksum of the head, or `None` if the load
    /// was stopped or a loader failed.
    fn cut<'c>(
        &mut self,
        cutter: Cutter<'c>,
        has_failed: &AtomicBool,
    ) -> Result<Option<(FileReader<Cutter<'c>>, Checksum)>, rdb::Error> {
        let mut file = FileReader::new(cutter, false)?;
        let (head_end, family) = (file.offset(), file.family());
        let cutter = file.source_mut();
        cutter.family = family;
        let head = Checksum::of(&cutter.bytes[..head_end as usize]);
        cutter.bytes.drain(..head_end as usize);
        cutter.offset = head_end;
        let mut border = head_end;
        let cut = self.cut_items(&mut file, &mut border, has_failed);
        if cut.is_err() && border >= file.source_mut().offset {
            // There may be an error in an earlier part.
            let _ = file.source_mut().note_end(border, 0, true);
        }
        Ok(cut?.then_some((file, head)))
    }

    /// Cuts the file from the first item on. `border` is the beginning of the last item. Returns false if the
    /// load was ended.
    fn cut_items(
        &mut self,
        file: &mut FileReader<Cutter>,
        border: &mut u64,
        has_failed: &AtomicBool,
    ) -> Result<bool, rdb::Error> {
        let mut db = 0;
        loop {
            *border = file.offset();
            let is_gone = |handed_over: io::Result<()>| handed_over.is_err();
            if is_gone(file.source_mut().note_end(*border, db, false))
                || has_failed.load(Ordering::Relaxed)
                || self.target.is_stopped()
            {
                return Ok(false);
            }
            match file.next_item()? {
                Item::End => return Ok(!is_gone(file.source_mut().note_end(*border, db, true))),
                Item::Key(key) => {
                    file.source_mut().is_amid_value = true;
                    file.skip_value(key.value_type)?;
                    file.source_mut().is_amid_value = false;
                }
                Item::Database(number) => db = self.target.database(number, file.offset())?,
                item => self.take(item)?,
            }
        }
    }
}
