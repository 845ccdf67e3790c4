//! The writer: turns slices into frames, and writes these into segments that are ready.
//!
//! | policy | how it writes | durable when |
//! |---|---|---|
//! | `Always` | past the system's cache, one call for many frames | the call returns |
//! | `Everysec`, `No` | through the cache | [`Journal::sync`](crate::Journal::sync) or the system likes |
//!
//! Before it writes, it checks that there are enough spares for all slices. So a full disk never leaves half a slice,
//! and a refused write can be tried again. A failed write is never tried again.
//!
//! Each frame names the last slice that was durable when the frame was built. An idle log should get an empty slice
//! ([`Writer::wants_confirmation`]), which records that the slice before was durable.
//!
//! Not here: the times of writes, allocating spares, and syncing.

use std::borrow::Borrow;
use std::sync::Arc;

use effectlog::{Lsn, Slice, StreamPosition};
use proactor::Open;

use crate::buffer::Buffer;
use crate::error::{Error, Trouble};
use crate::frame::{BLOCK_BYTES, Frame, padded_bytes};
use crate::journal::{SegmentFile, Shared};
use crate::manifest::{StreamId, tag};
use crate::mutant::{self, Mutant};
use crate::segment::{FramePlace, SegmentStart};

/// See [`Writer::margin_bytes`]. Threads react within a millisecond, if the log thread gets a core.
const MARGIN_BYTES: u64 = 16 << 20;

/// The promise about a slice that was written: `appendfsync`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// It is durable.
    Always,
    /// It is durable a second later, because the disk thread syncs.
    Everysec,
    /// It is durable when the system decides.
    No,
}

/// See the head of this file. Each open journal has one.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    policy: Policy,
    incarnation: u32,
    /// The place behind the last frame, whether written or in `buffer`.
    place: FramePlace,
    segment: Arc<SegmentFile>,
    segment_bytes: u64,
    /// The offset of `buffer` in the segment.
    offset: u64,
    /// Frames that are not written yet.
    buffer: Buffer,
    /// The tag of the stream's id, see [`tag`].
    stream_tag: u32,
    /// The last slice that is not empty, and the last one that a frame has declared durable.
    last_filled: Lsn,
    last_confirmed: Lsn,
}

impl Writer {
    /// Creates a writer for the segment that begins there, which is empty.
    pub(crate) fn begin(shared: &Arc<Shared>, policy: Policy, start: SegmentStart) -> Result<Writer, Error> {
        let (segment, segment_bytes) = open(shared, policy, start.number)?;
        let last = start.place.last_slice();
        Ok(Writer {
            shared: Arc::clone(shared),
            policy,
            incarnation: start.incarnation,
            place: start.place,
            segment,
            segment_bytes,
            offset: 0,
            buffer: Buffer::default(),
            stream_tag: shared.stream_id().as_ref().map_or(0, tag),
            last_filled: last,
            last_confirmed: last,
        })
    }

    /// Its policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The number and the position that the next slice must have.
    pub fn next(&self) -> (Lsn, StreamPosition) {
        (self.place.slice, self.place.position)
    }

    /// Makes a new journal begin with this slice at this position.
    ///
    /// # Panics
    ///
    /// If something was written, or the journal has a base.
    pub fn begin_at(&mut self, (slice, position): (Lsn, StreamPosition)) {
        assert!(self.offset == 0 && self.buffer.len() == 0, "the journal has begun");
        assert!(slice > Lsn::NONE, "there is no slice 0");
        (self.place.slice, self.place.position) = (slice, position);
        (self.last_filled, self.last_confirmed) = (slice.before(), slice.before());
        self.shared.begin_at(self.place);
    }

    /// Gives the stream this id from here on.
    pub fn name_stream(&mut self, id: &StreamId) {
        self.stream_tag = tag(id);
    }

    /// Whether only an empty slice could tell a reader that the last one was durable.
    pub fn wants_confirmation(&self) -> bool {
        self.last_filled > self.last_confirmed && self.shared.durable_slice() >= self.last_filled
    }

    /// Writes slices with this time of the wall clock. Returns the number of the last one. It writes all of them or, if
    /// spares are missing, none. With [`Policy::Always`], they are durable then.
    ///
    /// # Panics
    ///
    /// If they do not begin where the last one ended.
    pub fn append<S: Borrow<Slice>>(&mut self, slices: &[S], unix_ms: u64) -> Result<Lsn, Trouble> {
        self.shared.check()?;
        if let Some(needed) = self.lacks_spares(slices) {
            return Err(Trouble::NoSpare { needed });
        }
        if mutant::is_on(Mutant::RewritesBlock)
            && slices.iter().all(|slice| slice.borrow().payload.is_empty())
        {
            return self.confirm_in_place();
        }
        for slice in slices.iter().map(S::borrow) {
            assert_eq!((slice.number, slice.position), self.next(), "slices have no gap");
            self.append_slice(slice, unix_ms)?;
        }
        self.flush()?;
        assert!(!self.place.is_within_slice, "the last slice is written as a whole");
        let last = self.place.last_slice();
        self.shared.report(last, self.place.position, self.policy == Policy::Always);
        Ok(last)
    }

    /// Changes the policy. Data written under the old one are made durable before anything is promised under `Always`.
    pub fn set_policy(&mut self, policy: Policy) -> Result<(), Trouble> {
        let was_direct = self.policy == Policy::Always;
        let is_direct = policy == Policy::Always;
        if was_direct != is_direct {
            self.shared.sync()?;
            self.shared.forget_unsynced();
            let (segment, _) = self.reopen(policy)?;
            self.segment = segment;
        }
        self.policy = policy;
        self.shared.note_policy(policy);
        Ok(())
    }

    /// The free bytes in segments that are ready, including the rest of the open one.
    pub(crate) fn room_bytes(&self) -> u64 {
        self.segment_bytes - self.offset + self.shared.spare_bytes()
    }

    /// The space that must be left when commits have to stop. Changes that are committed until all threads know must
    /// fit.
    pub(crate) fn margin_bytes(&self) -> u64 {
        MARGIN_BYTES.min(self.segment_bytes / 4)
    }

    fn reopen(&self, policy: Policy) -> Result<(Arc<SegmentFile>, u64), Trouble> {
        open_path(&self.shared, policy, self.segment.path.clone()).map_err(|error| self.shared.fail(error))
    }

    /// The least number of spares to write these slices, if fewer are ready.
    fn lacks_spares<S: Borrow<Slice>>(&self, slices: &[S]) -> Option<usize> {
        let max = self.shared.tuning.payload_bytes_max;
        let mut left = self.segment_bytes - self.offset;
        let bytes = |slice: &S| {
            let payload_bytes = slice.borrow().payload.len();
            payload_bytes / max * padded_bytes(max) + padded_bytes(payload_bytes % max)
        };
        if slices.iter().map(bytes).sum::<usize>() as u64 <= left {
            return None;
        }
        let spares = self.shared.spare_sizes();
        let mut needed = 0;
        let mut take = |payload_bytes: usize| {
            let bytes = padded_bytes(payload_bytes) as u64;
            if bytes > left {
                // Segments that are made for it may be as large as any.
                left = spares.get(needed).copied().unwrap_or(self.shared.tuning.segment_bytes);
                needed += 1;
            }
            left -= bytes;
        };
        for slice in slices.iter().map(S::borrow) {
            (0..slice.payload.len() / max).for_each(|_| take(max));
            let rest = slice.payload.len() % max;
            if rest > 0 || slice.payload.is_empty() {
                take(rest);
            }
        }
        (needed > spares.len()).then_some(needed)
    }

    fn append_slice(&mut self, slice: &Slice, unix_ms: u64) -> Result<(), Trouble> {
        let max = self.shared.tuning.payload_bytes_max;
        let parts = slice.payload.len().div_ceil(max).max(1);
        for part in 0..parts {
            let payload = &slice.payload[part * max..slice.payload.len().min((part + 1) * max)];
            let is_last = part + 1 == parts;
            if self.offset + (self.buffer.len() + padded_bytes(payload.len())) as u64 > self.segment_bytes {
                self.flush()?;
                self.enter_next_segment()?;
            }
            let durable_slice = self.shared.durable_slice();
            assert!(durable_slice < slice.number, "slice {durable_slice} is durable and not written yet");
            let frame = Frame {
                journal_id: self.shared.id,
                incarnation: self.incarnation,
                is_first: part == 0,
                is_last,
                db: slice.db,
                slice: slice.number,
                position: self.place.position,
                durable_slice,
                unix_ms,
                stream_tag: self.stream_tag,
                before: self.place.checksum,
            };
            let checksum = frame.encode(payload, &mut self.buffer);
            self.place = FramePlace {
                slice: if is_last { slice.number.next() } else { slice.number },
                position: self.place.position.plus(payload.len()),
                checksum,
                is_within_slice: !is_last,
            };
            self.last_confirmed = durable_slice;
            if self.buffer.len() >= self.shared.tuning.write_bytes {
                self.flush()?;
            }
        }
        if !slice.payload.is_empty() {
            self.last_filled = slice.number;
        }
        Ok(())
    }

    /// Frees memory that was not needed since the last call: for calls some seconds apart.
    pub(crate) fn give_back_unused(&mut self) {
        self.buffer.give_back_unused();
    }

    /// Writes the content of the buffer.
    fn flush(&mut self) -> Result<(), Trouble> {
        if self.buffer.len() == 0 {
            return Ok(());
        }
        let end = self.offset + self.buffer.len() as u64;
        assert!(end <= self.segment_bytes, "a segment keeps the length that the manifest has");
        assert!(
            end.is_multiple_of(BLOCK_BYTES as u64),
            "a frame begins with a block, so that none is written twice"
        );
        let SegmentFile { path, file } = &*self.segment;
        let written = match self.policy {
            Policy::Always => file.write_durably_at(self.offset, self.buffer.bytes()),
            Policy::Everysec | Policy::No => file.write_all_at(self.offset, self.buffer.bytes()),
        };
        written.map_err(|error| self.shared.fail(Error::io(path, "write it")(error).at(self.offset)))?;
        self.offset = end;
        self.buffer.clear();
        Ok(())
    }

    fn enter_next_segment(&mut self) -> Result<(), Trouble> {
        assert!(self.buffer.len() == 0, "what belongs to the former segment is written");
        // Only this writer takes spares, and there were enough.
        let start = self.shared.take_spare(self.incarnation, self.place).expect("a spare is ready");
        let opened = open(&self.shared, self.policy, start.number);
        (self.segment, self.segment_bytes) = opened.map_err(|error| self.shared.fail(error))?;
        self.offset = 0;
        Ok(())
    }

    /// A deliberate mistake: rewrites the last frame to confirm it.
    #[cfg(test)]
    fn confirm_in_place(&mut self) -> Result<Lsn, Trouble> {
        use crate::frame::{BLOCK_BYTES, HEAD_BYTES, Head};
        let last = self.place.last_slice();
        let Some(offset) = self.offset.checked_sub(BLOCK_BYTES as u64) else { return Ok(last) };
        let mut block = [0; BLOCK_BYTES];
        let read = self.segment.file.read_at(offset, &mut block);
        let head = Head::decode(block.first_chunk().expect("a block is longer")).ok();
        let Some(head) = head.filter(|_| read.is_ok()) else { return Ok(last) };
        let frame = Frame { durable_slice: self.shared.durable_slice(), ..head.frame };
        self.place.checksum = frame.encode(&block[HEAD_BYTES..][..head.payload_bytes], &mut self.buffer);
        self.offset = offset;
        self.flush()?;
        Ok(last)
    }

    #[cfg(not(test))]
    fn confirm_in_place(&mut self) -> Result<Lsn, Trouble> {
        Ok(self.place.last_slice())
    }
}

fn open(shared: &Shared, policy: Policy, number: u64) -> Result<(Arc<SegmentFile>, u64), Error> {
    open_path(shared, policy, shared.folder.segment(shared.id, number))
}

fn open_path(
    shared: &Shared,
    policy: Policy,
    path: std::path::PathBuf,
) -> Result<(Arc<SegmentFile>, u64), Error> {
    let how = match policy {
        Policy::Always => Open::Direct,
        Policy::Everysec | Policy::No => Open::Write,
    };
    let file = shared.folder.disk().open(&path, how).map_err(Error::io(&path, "open it"))?;
    let bytes = file.size_bytes().map_err(Error::io(&path, "open it"))?;
    let segment = Arc::new(SegmentFile { path, file });
    if how == Open::Write {
        shared.add_unsynced(&segment);
    }
    Ok((segment, bytes))
}
