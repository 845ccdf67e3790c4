//! Scans a journal: reads whole slices, one after the other, and ends with a verdict.
//!
//! A frame *counts* if magic, journal, incarnation, both checksums, the chain to the frame before, slice and position fit. The
//! log ends before the first slice that does not count as a whole, say *k*. Then the rest of the segments is searched
//! for frames of this journal and incarnation. If one of them says that a slice ≥ *k* was durable, then *k* was durable and is
//! damaged. Otherwise *k* is a torn tail: it was being written when the power failed, and was never reported durable.
//!
//! ```text
//!   segment 12                      segment 13                   segment 14 (spare)
//!   ├ k-2 ┤ k-1 ┤ k, part 1 ┤ ▒▒▒▒▒ ┤ k+1, durable k-2 ┤ old…    ┤ zeros
//!               ▲ the log ends here                      the rest is searched to the end
//! ```
//!
//! Other files add to this. A log is also damaged if it does not reach its base, or does not reach a segment that, by the
//! manifest, began behind durable slices; if a segment is shorter than the manifest says; or if the [mark](crate::mark)
//! says that a slice behind its end was durable. The manifest also says where each incarnation but the last ended: anything
//! behind that is not read.
//!
//! The slices in the base are not needed. So damage to them does not end the scan: it continues behind the damage, at
//! the next intact frame of the base's last slices, or directly after the base ([`Skipped`]).
//!
//! One slice is in memory at a time. Not here: the meaning of slices, and the beginning of a new incarnation (`life.rs`).

use std::path::PathBuf;

use effectlog::{Lsn, Slice, StreamPosition};

use crate::error::{Error, ErrorKind};
use crate::folder::Folder;
use crate::frame::{BLOCK_BYTES, Frame, HEAD_BYTES, Head, NoFrame, padded_bytes};
use crate::manifest::{Manifest, StreamId};
use crate::mark::Mark as Durable;
use crate::reader::SegmentReader;
use crate::segment::{FramePlace, SegmentStart};

/// A slice, and where it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scanned {
    /// The slice.
    pub slice: Slice,
    /// The time at which it was written, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The number of the segment in which it begins.
    pub segment: u64,
    /// Its offset in that segment.
    pub offset: u64,
}

/// The state of a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Everything that was written is intact.
    Clean,
    /// The last writes are incomplete; they had never been reported durable.
    Torn {
        /// The reason why the first missing frame does not count.
        what: &'static str,
        /// The payload bytes of the dropped frames, as far as any can be read.
        dropped_bytes: u64,
    },
    /// Slices that had been durable are missing.
    Damaged {
        /// The reason why the first missing frame does not count.
        what: &'static str,
    },
    /// The log continues, but later than the requested time.
    Until,
}

/// Damage to slices that are part of the base and so are not needed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// The first slice that is not complete.
    pub slice: Lsn,
    /// The file with the first frame that does not count.
    pub file: PathBuf,
    /// The offset in it at which that frame should begin.
    pub offset: u64,
    /// The reason why it does not count.
    pub what: &'static str,
    /// The slice with which the log continues.
    pub until: Lsn,
}

/// The end of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    /// The state of the journal.
    pub verdict: Verdict,
    /// The place behind the last slice.
    pub place: FramePlace,
    /// The incarnation in which that slice was written.
    pub incarnation: u32,
    /// All segments up to the end, and the state before each.
    pub segments: Vec<SegmentStart>,
    /// The id of the stream up to there, if it is certain.
    pub stream: Option<StreamId>,
    /// The file with the first frame that does not count.
    pub file: PathBuf,
    /// The offset in it at which that frame should begin.
    pub offset: u64,
    /// The damage that was skipped before.
    pub skipped: Vec<Skipped>,
}

impl End {
    /// The error, if the journal is damaged.
    pub fn damage(&self) -> Option<Error> {
        let Verdict::Damaged { what } = self.verdict else { return None };
        let slice = self.place.slice;
        let what = match what {
            SHORTER => format!("{SHORTER}, so slice {slice} and later ones may be missing"),
            _ => format!("slice {slice}, which was durable, is damaged: {what}"),
        };
        let way_out = "restore the file, or give up what comes after with --journal-repair truncate";
        Some(Error::new(ErrorKind::Damaged, &self.file, what, way_out).at(self.offset))
    }
}

/// Slices behind the end of a log that once belonged to it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Rest {
    /// The number of slices, as far as any can be read.
    pub slices: u64,
    /// Bytes of their payload.
    pub bytes: u64,
    /// The times at which the first and the last of them were written, in milliseconds since 1970.
    pub unix_ms: Option<(u64, u64)>,
}

/// The error of a segment that was cut.
const SHORTER: &str = "the file is shorter than it was";

/// The reason why a frame does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Misfit {
    /// The segment does not exist.
    Missing,
    /// The segment ends before it.
    SegmentEnds,
    Head(NoFrame),
    OtherJournal,
    OtherTerm,
    /// It belongs to this slice, but another one is expected.
    OtherSlice(Lsn),
    OtherPart,
    OtherPosition,
    Chain,
    Payload,
}

impl Misfit {
    fn what(self) -> &'static str {
        match self {
            Misfit::Missing => "the file is missing, but the manifest lists it",
            Misfit::SegmentEnds => "the file ends",
            Misfit::Head(NoFrame::Magic) => "no frame begins here",
            Misfit::Head(NoFrame::Checksum) => "the checksum of a frame's head is wrong",
            Misfit::Head(NoFrame::Field(what)) => what,
            Misfit::OtherJournal => "a frame of another journal is here",
            Misfit::OtherTerm => "a frame of another life of the server is here",
            Misfit::OtherSlice(_) => "a frame of another slice is here",
            Misfit::OtherPart => "a frame of another part of the slice is here",
            Misfit::OtherPosition => "a frame of another position is here",
            Misfit::Chain => "the frame here was written behind another one",
            Misfit::Payload => "the checksum of a frame's payload is wrong",
        }
    }

    /// Whether these are remains of an earlier use of the segment, or its end: no sign that something was written here.
    fn is_remains(self, slice: Lsn) -> bool {
        match self {
            Misfit::SegmentEnds | Misfit::OtherJournal | Misfit::OtherTerm => true,
            Misfit::Head(no_frame) => no_frame == NoFrame::Magic,
            Misfit::OtherSlice(other) => other < slice,
            _ => false,
        }
    }
}

/// Reads a journal. If it is in use, the scan ends somewhere near the end of what was written.
#[derive(Debug)]
pub struct Scan {
    folder: Folder,
    manifest: Manifest,
    /// The mark when the scan began.
    durable: Option<Durable>,
    /// Slices up to this one are read but not returned.
    told_after: Lsn,
    /// Whether damage to slices in the base is skipped.
    skips: bool,
    skipped: Vec<Skipped>,
    until_unix_ms: Option<u64>,
    /// Its position, and the frame that must follow there.
    at: ScanMark,
    /// The position after the last whole slice.
    whole: ScanMark,
    /// The segments that the log has entered and whose beginnings the manifest does not have.
    begun: Vec<SegmentStart>,
    reader: Option<SegmentReader>,
    /// The slice that is being read.
    open: Option<Scanned>,
    stopped: Option<Stop>,
}

#[derive(Clone, Copy, Debug)]
struct ScanMark {
    /// The segment: an index into the manifest's segments and spares.
    index: usize,
    offset: u64,
    incarnation: u32,
    place: FramePlace,
    /// The tag in the frame before. 0: there was none.
    stream_tag: u32,
}

#[derive(Clone, Copy, Debug)]
enum Stop {
    Misfit(Misfit),
    /// By the manifest, the log continued.
    Short(Misfit),
    Until,
}

impl Scan {
    /// Reads the slices after the base: everything that recovery needs.
    pub fn behind_base(folder: &Folder, manifest: &Manifest) -> Result<Scan, Error> {
        Scan::new(folder, manifest, manifest.segment_behind_base(), manifest.base.slice, true)
    }

    /// Reads all existing slices.
    pub fn everything(folder: &Folder, manifest: &Manifest) -> Result<Scan, Error> {
        Scan::new(folder, manifest, 0, Lsn::NONE, true)
    }

    /// Reads from the slice that contains `position` of the stream on, and possibly some slices before it.
    pub(crate) fn from(
        folder: &Folder,
        manifest: &Manifest,
        position: StreamPosition,
    ) -> Result<Scan, Error> {
        let begins_before = |start: &SegmentStart| start.place.position <= position;
        let segments = &manifest.segments[..manifest.segments.partition_point(begins_before)];
        // A segment that begins within a slice lacks a part of that slice.
        let index = segments.iter().rposition(|start| !start.place.is_within_slice).unwrap_or(0);
        Scan::new(folder, manifest, index, Lsn::NONE, false)
    }

    fn new(
        folder: &Folder,
        manifest: &Manifest,
        index: usize,
        told_after: Lsn,
        skips: bool,
    ) -> Result<Scan, Error> {
        let SegmentStart { number, incarnation, place } = manifest.segments[index];
        let at = ScanMark { index, offset: 0, incarnation, place, stream_tag: 0 };
        // A slice whose beginning is gone is not returned.
        let told_after = told_after.max(if place.is_within_slice { place.slice } else { Lsn::NONE });
        // A caller that reads from the middle needs no verdict.
        let durable = if skips { Durable::read(folder, manifest.id) } else { None };
        let reader = SegmentReader::open(folder, manifest.id, number)?;
        Ok(Scan {
            folder: folder.clone(),
            manifest: manifest.clone(),
            durable,
            told_after,
            skips,
            skipped: Vec::new(),
            until_unix_ms: None,
            at,
            whole: at,
            begun: Vec::new(),
            reader,
            open: None,
            stopped: None,
        })
    }

    /// Ends before the first slice after the base that was written after this time.
    pub fn until(mut self, unix_ms: u64) -> Scan {
        self.until_unix_ms = Some(unix_ms);
        self
    }

    /// The next whole slice. `None` at the end, about which [`end`](Scan::end) says more.
    pub fn next_slice(&mut self) -> Result<Option<Scanned>, Error> {
        while self.stopped.is_none() {
            if self.reader.is_some() && self.enter_known_segment()? {
                continue;
            }
            let examined = match &mut self.reader {
                Some(reader) => examine(reader, self.manifest.id, &self.at)?,
                None => Err(Misfit::Missing),
            };
            match examined {
                Ok(head) => {
                    if self.is_too_late(&head) {
                        self.stopped = Some(Stop::Until);
                    } else if let Some(scanned) = self.take(&head)? {
                        return Ok(Some(scanned));
                    }
                }
                Err(misfit) => {
                    if let Some(stop) = self.enter_spare(misfit)?
                        && !self.skip_damage(misfit)?
                    {
                        self.stopped = Some(stop);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Continues behind damage to slices in the base. Returns false if it is other damage, or if no frame behind it
    /// certainly belongs there.
    fn skip_damage(&mut self, misfit: Misfit) -> Result<bool, Error> {
        let base = &self.manifest.base;
        let slice = self.whole.place.slice;
        if !self.skips || slice > base.slice {
            return Ok(false);
        }
        let (number, _) = self.segment(self.at.index).unwrap_or_default();
        let file = self.folder.segment(self.manifest.id, number);
        let (offset, what) = (self.at.offset, misfit.what());
        let next = self.segment(self.at.index + 1).and_then(|(_, start)| start);
        let next = next.filter(|next| next.place.is_before_slice(base.slice.next()));
        if let Some((at, frame)) = self.next_certain()? {
            (self.at.offset, self.at.place, self.at.stream_tag) = (at, before(&frame), frame.stream_tag);
        } else if let Some(next) = next {
            self.enter(next)?;
            // A slice whose beginning is gone is not returned.
            self.told_after =
                self.told_after.max(if next.place.is_within_slice { next.place.slice } else { Lsn::NONE });
        } else {
            return Ok(false);
        }
        (self.whole, self.open) = (self.at, None);
        let until = self.at.place.slice;
        self.skipped.push(Skipped { slice, file, offset, what, until });
        Ok(true)
    }

    /// The next frame in this segment with which a slice of the base begins, or the one after the base at its place.
    fn next_certain(&mut self) -> Result<Option<(u64, Frame)>, Error> {
        let (base, at) = (&self.manifest.base, self.at);
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let mut offset = at.offset;
        while let Some(bytes) = reader.bytes(offset, HEAD_BYTES)?.first_chunk() {
            let begin = offset;
            offset += BLOCK_BYTES as u64;
            let Ok(head) = Head::decode(bytes) else { continue };
            let frame = head.frame;
            let is_ours =
                (frame.journal_id, frame.incarnation) == (self.manifest.id, at.incarnation) && frame.is_first;
            let is_behind = frame.slice >= at.place.slice && frame.position >= at.place.position;
            let is_of_base = frame.slice <= base.slice
                || (frame.slice, frame.position) == (base.slice.next(), base.position);
            if is_ours
                && is_behind
                && is_of_base
                && head.fits(reader.bytes(begin + HEAD_BYTES as u64, head.payload_bytes)?)
            {
                return Ok(Some((begin, frame)));
            }
        }
        Ok(None)
    }

    /// The number of a segment, and its beginning according to the manifest.
    fn segment(&self, index: usize) -> Option<(u64, Option<SegmentStart>)> {
        match self.manifest.segments.get(index) {
            Some(start) => Some((start.number, Some(*start))),
            None => {
                self.manifest.spares.get(index - self.manifest.segments.len()).map(|number| (*number, None))
            }
        }
    }

    /// Continues in the next segment if the manifest has it begin here.
    fn enter_known_segment(&mut self) -> Result<bool, Error> {
        let Some((_, Some(next))) = self.segment(self.at.index + 1) else { return Ok(false) };
        if next.place != self.at.place {
            return Ok(false);
        }
        self.enter(next)?;
        if !next.place.is_within_slice {
            self.whole = self.at;
        }
        Ok(true)
    }

    fn enter(&mut self, start: SegmentStart) -> Result<(), Error> {
        let SegmentStart { number, incarnation, place } = start;
        self.at = ScanMark { index: self.at.index + 1, offset: 0, incarnation, place, ..self.at };
        self.reader = SegmentReader::open(&self.folder, self.manifest.id, number)?;
        Ok(())
    }

    /// Continues in the next segment if the log does, because no frame counts here. Otherwise returns why it ends.
    fn enter_spare(&mut self, misfit: Misfit) -> Result<Option<Stop>, Error> {
        let (number, start) = match self.segment(self.at.index + 1) {
            _ if misfit == Misfit::Missing => return Ok(Some(Stop::Short(misfit))),
            None => return Ok(Some(Stop::Misfit(misfit))),
            Some((_, Some(_))) => return Ok(Some(Stop::Short(misfit))),
            Some((number, None)) => {
                (number, SegmentStart { number, incarnation: self.at.incarnation, place: self.at.place })
            }
        };
        let Some(mut reader) = SegmentReader::open(&self.folder, self.manifest.id, number)? else {
            (self.at.index, self.at.offset) = (self.at.index + 1, 0);
            return Ok(Some(Stop::Short(Misfit::Missing)));
        };
        if examine(&mut reader, self.manifest.id, &ScanMark { offset: 0, ..self.at })?.is_err() {
            return Ok(Some(Stop::Misfit(misfit)));
        }
        self.begun.push(start);
        self.enter(start)?;
        Ok(None)
    }

    fn is_too_late(&self, head: &Head) -> bool {
        let is_behind = head.frame.is_first && head.frame.slice > self.manifest.base.slice;
        is_behind && self.until_unix_ms.is_some_and(|until| head.frame.unix_ms > until)
    }

    /// Takes a frame that counts. Returns the slice if the frame completes one that must be returned.
    fn take(&mut self, head: &Head) -> Result<Option<Scanned>, Error> {
        let Head { frame, payload_bytes, .. } = *head;
        let FramePlace { slice, position, checksum, .. } = self.at.place;
        let is_next = (frame.slice, frame.position, frame.before) == (slice, position, checksum);
        assert!(is_next, "a frame counts only where it belongs");
        if frame.slice > self.told_after {
            let segment = self.segment(self.at.index).map_or(0, |(number, _)| number);
            let open = self.open.get_or_insert_with(|| Scanned {
                slice: Slice {
                    number: frame.slice,
                    position: frame.position,
                    db: frame.db,
                    payload: Vec::new(),
                },
                unix_ms: frame.unix_ms,
                segment,
                offset: self.at.offset,
            });
            if let Some(reader) = &mut self.reader {
                let payload = reader.bytes(self.at.offset + HEAD_BYTES as u64, payload_bytes)?;
                open.slice.payload.extend_from_slice(payload);
            }
        }
        self.at.offset += padded_bytes(payload_bytes) as u64;
        self.at.place = FramePlace {
            slice: if frame.is_last { frame.slice.next() } else { frame.slice },
            position: frame.position.plus(payload_bytes),
            checksum: head.checksum,
            is_within_slice: !frame.is_last,
        };
        self.at.stream_tag = frame.stream_tag;
        if !frame.is_last {
            return Ok(None);
        }
        self.whole = self.at;
        let scanned = self.open.take();
        if let Some(Scanned { slice, .. }) = &scanned {
            assert_eq!(
                (slice.number, slice.end()),
                (frame.slice, self.at.place.position),
                "a slice is whole"
            );
        }
        Ok(scanned)
    }

    /// Whether the log now continues after its end of a moment ago, because a server writes to it.
    ///
    /// Only for a folder that is read without its lock. Under the lock no server writes, and a frame that counts only
    /// on the second try is a reason to trust the disk less, not to continue.
    pub(crate) fn has_grown(&self) -> Result<bool, Error> {
        let begins = [(self.at.index, self.at.offset), (self.at.index + 1, 0)];
        for (index, offset) in begins {
            let Some((number, start)) = self.segment(index) else { continue };
            let at = ScanMark { offset, ..self.at };
            // The manifest knows the beginning of the next segment, so the log has not grown since it was written.
            if index != at.index && start.is_some() {
                continue;
            }
            if let Some(mut reader) = SegmentReader::open(&self.folder, self.manifest.id, number)?
                && examine(&mut reader, self.manifest.id, &at)?.is_ok()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The slices of this journal after the last whole slice, in this incarnation and later ones. Must be called after the
    /// last slice.
    pub(crate) fn rest(&self) -> Result<Rest, Error> {
        let (mut rest, mut last) = (Rest::default(), None);
        let (mut index, mut offset) = (self.whole.index, self.whole.offset);
        while let Some((number, _)) = self.segment(index) {
            if let Some(mut reader) = SegmentReader::open(&self.folder, self.manifest.id, number)? {
                while let Some(bytes) = reader.bytes(offset, HEAD_BYTES)?.first_chunk() {
                    offset += BLOCK_BYTES as u64;
                    let Ok(Head { frame, payload_bytes, .. }) = Head::decode(bytes) else { continue };
                    let is_ours =
                        frame.journal_id == self.manifest.id && frame.incarnation >= self.whole.incarnation;
                    if !is_ours || frame.slice < self.whole.place.slice {
                        continue;
                    }
                    rest.slices += u64::from(last.replace(frame.slice) != Some(frame.slice));
                    rest.bytes += payload_bytes as u64;
                    let (from, to) = rest.unix_ms.unwrap_or((frame.unix_ms, frame.unix_ms));
                    rest.unix_ms = Some((from.min(frame.unix_ms), to.max(frame.unix_ms)));
                    offset += (padded_bytes(payload_bytes) - BLOCK_BYTES) as u64;
                }
            }
            (index, offset) = (index + 1, 0);
        }
        Ok(rest)
    }

    /// The end of the log, after the last slice.
    ///
    /// # Panics
    ///
    /// If [`next_slice`](Scan::next_slice) has not returned `None`.
    pub fn end(mut self) -> Result<End, Error> {
        self.conclude()
    }

    /// The end of the log, after the last slice. Keeps the scan for further questions.
    pub(crate) fn conclude(&mut self) -> Result<End, Error> {
        let stop = self.stopped.expect("all slices were read");
        let verdict = match stop {
            Stop::Until => Verdict::Until,
            Stop::Short(misfit) => Verdict::Damaged { what: misfit.what() },
            Stop::Misfit(misfit) => match self.judge(misfit)? {
                Verdict::Torn { what, .. } if self.was_durable() => Verdict::Damaged { what },
                Verdict::Clean if self.was_durable() => Verdict::Damaged { what: misfit.what() },
                verdict => verdict,
            },
        };
        let known = self.manifest.segments.iter().chain(&self.begun);
        let segments: Vec<SegmentStart> = known.take(self.whole.index + 1).copied().collect();
        let number = self.segment(self.at.index).map_or(0, |(number, _)| number);
        let file = self.folder.segment(self.manifest.id, number);
        let ScanMark { incarnation, place, stream_tag, .. } = self.whole;
        let stream = self.manifest.stream_at(place.position, stream_tag);
        let skipped = self.skipped.clone();
        Ok(End { verdict, place, incarnation, segments, stream, file, offset: self.at.offset, skipped })
    }

    /// Whether the mark has a slice behind the end as durable.
    fn was_durable(&self) -> bool {
        let last = self.whole.place.last_slice();
        self.durable
            .is_some_and(|durable| durable.incarnation >= self.manifest.incarnation && durable.slice > last)
    }

    /// Decides whether a log that ends in a segment of the last incarnation is torn or damaged.
    fn judge(&mut self, misfit: Misfit) -> Result<Verdict, Error> {
        let what = misfit.what();
        let missing = self.whole.place.slice;
        if missing <= self.manifest.base.slice {
            return Ok(Verdict::Damaged { what: "the log ends before its base" });
        }
        let mut dropped_bytes = self.at.place.position.since(self.whole.place.position);
        let mut is_torn = dropped_bytes > 0 || self.at.place.is_within_slice || !misfit.is_remains(missing);
        let (mut index, mut offset) = (self.at.index, self.at.offset);
        while let Some((number, _)) = self.segment(index) {
            let Some(mut reader) = SegmentReader::open(&self.folder, self.manifest.id, number)? else {
                (self.at.index, self.at.offset) = (index, 0);
                return Ok(Verdict::Damaged { what: Misfit::Missing.what() });
            };
            if self.manifest.lengths.get(&number).is_some_and(|bytes| reader.file_bytes() < *bytes) {
                (self.at.index, self.at.offset) = (index, offset.min(reader.file_bytes()));
                return Ok(Verdict::Damaged { what: SHORTER });
            }
            while let Some(bytes) = reader.bytes(offset, HEAD_BYTES)?.first_chunk() {
                offset += BLOCK_BYTES as u64;
                let Ok(head) = Head::decode(bytes) else { continue };
                let is_ours = (head.frame.journal_id, head.frame.incarnation)
                    == (self.manifest.id, self.at.incarnation);
                if !is_ours || head.frame.slice < missing {
                    continue;
                }
                if head.frame.durable_slice >= missing {
                    return Ok(Verdict::Damaged { what });
                }
                is_torn = true;
                dropped_bytes += head.payload_bytes as u64;
                offset += (padded_bytes(head.payload_bytes) - BLOCK_BYTES) as u64;
            }
            (index, offset) = (index + 1, 0);
        }
        Ok(if is_torn { Verdict::Torn { what, dropped_bytes } } else { Verdict::Clean })
    }
}

/// The place before a frame with which a slice begins.
fn before(frame: &Frame) -> FramePlace {
    let Frame { slice, position, before, .. } = *frame;
    FramePlace { slice, position, checksum: before, is_within_slice: false }
}

/// The head of the frame at a place, if the frame counts. Its payload is complete.
fn examine(
    reader: &mut SegmentReader,
    journal_id: u64,
    at: &ScanMark,
) -> Result<Result<Head, Misfit>, Error> {
    let Some(bytes) = reader.bytes(at.offset, HEAD_BYTES)?.first_chunk() else {
        return Ok(Err(Misfit::SegmentEnds));
    };
    let head = match Head::decode(bytes) {
        Ok(head) => head,
        Err(no_frame) => return Ok(Err(Misfit::Head(no_frame))),
    };
    let (frame, place) = (&head.frame, &at.place);
    let misfit = if frame.journal_id != journal_id {
        Misfit::OtherJournal
    } else if frame.incarnation != at.incarnation {
        Misfit::OtherTerm
    } else if frame.slice != place.slice {
        Misfit::OtherSlice(frame.slice)
    } else if frame.is_first == place.is_within_slice {
        Misfit::OtherPart
    } else if frame.position != place.position {
        Misfit::OtherPosition
    } else if frame.before != place.checksum {
        Misfit::Chain
    } else if !head.fits(reader.bytes(at.offset + HEAD_BYTES as u64, head.payload_bytes)?) {
        Misfit::Payload
    } else {
        return Ok(Ok(head));
    };
    Ok(Err(misfit))
}
