//! An open journal: its segments, its manifest, and how far it is durable. All threads share it.
//!
//! ```text
//!   log thread     Writer ──takes a spare──▶ in use: segments, spares, what is not synced   (a lock for moments)
//!   helper thread  prepare_spare, sync ────▶ kept: the manifest as it is on the disk         (a lock over I/O)
//!   checkpoint     set_base ───────────────▶
//! ```
//!
//! * A spare segment is allocated, or was used before. Then its name is made durable, and then the manifest that lists
//!   it. Only then may the log continue in it. So the manifest lists every segment that the log uses.
//! * A segment is removed only when a manifest that does not list it is durable.
//! * Data are reported durable only when a sync of them and of everything before has succeeded. After one failure,
//!   nothing more is reported durable.
//! * The thread that writes never takes the lock that is held during I/O.
//!
//! Not here: the beginning of a journal (`life.rs`), frames and their order (`writer.rs`), and the times of these
//! operations.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use effectlog::{AtomicLsn, AtomicStreamPosition, Lsn, StreamPosition};
use proactor::{DiskFile, Open};

use crate::error::{Error, ErrorKind, Trouble};
use crate::folder::LockedFolder;
use crate::manifest::{Base, Manifest, Stream, StreamId};
use crate::mark::{Mark, Marker};
use crate::mutant::{self, Mutant};
use crate::scan::Scan;
use crate::segment::{FramePlace, SegmentName, SegmentStart, Tuning};
use crate::writer::Policy;

/// The figures of a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Its id.
    pub id: u64,
    /// Its incarnation.
    pub incarnation: u32,
    /// Segments in use.
    pub segments: usize,
    /// Segments that are ready.
    pub spares: usize,
    /// The base.
    pub base: Base,
    /// Whether the base is still being written.
    pub is_pending: bool,
    /// The position in the stream at the end of the last slice that was written.
    pub written_position: StreamPosition,
}

/// See the head of this file. Clones are the same journal.
#[derive(Clone, Debug)]
pub struct Journal(pub(crate) Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) folder: Arc<LockedFolder>,
    pub(crate) tuning: Tuning,
    pub(crate) id: u64,
    written_slice: AtomicLsn,
    written_position: AtomicStreamPosition,
    durable_slice: AtomicLsn,
    has_failed: AtomicBool,
    in_use: Mutex<InUse>,
    kept: Mutex<Kept>,
    marker: Mutex<Marker>,
    /// The incarnation, which does not change while it is open.
    incarnation: u32,
}

/// The state that the log thread uses.
#[derive(Debug)]
struct InUse {
    /// The policy by which the log writes.
    policy: Policy,
    /// The segments, oldest first. The last one is being written.
    segments: Vec<SegmentStart>,
    spares: VecDeque<u64>,
    /// The bytes of each of them.
    sizes: BTreeMap<u64, u64>,
    /// Segments that may have unsynced data, oldest first. The last one is being written, unless its writes need no
    /// sync.
    unsynced: Vec<Arc<SegmentFile>>,
    /// The manifest on disk, for callers that cannot wait while another one is written.
    listed: Arc<Manifest>,
    /// The base, as in the manifest.
    base: Base,
    /// The position before which data on disk cannot be read.
    readable_from: StreamPosition,
    is_pending: bool,
    failure: Option<Error>,
}

/// The state on disk.
#[derive(Debug)]
struct Kept {
    manifest: Manifest,
    is_pending: bool,
    /// A spare that is ready except that the manifest does not list it.
    unlisted: Option<u64>,
    /// Segments that are no longer needed.
    free: Vec<String>,
    number_max: u64,
}

/// An open segment.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub(crate) path: PathBuf,
    pub(crate) file: DiskFile,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Journal {
    /// The last slice that was written.
    pub fn written_slice(&self) -> Lsn {
        self.0.written_slice.load(Ordering::Acquire)
    }

    /// The last slice that is durable, with all before it.
    pub fn durable_slice(&self) -> Lsn {
        self.0.durable_slice.load(Ordering::Acquire)
    }

    /// The error, if something has failed.
    pub fn failure(&self) -> Option<Error> {
        if self.0.has_failed.load(Ordering::Acquire) { locked(&self.0.in_use).failure.clone() } else { None }
    }

    /// Its figures. Never waits.
    pub fn facts(&self) -> Facts {
        let in_use = locked(&self.0.in_use);
        Facts {
            id: self.0.id,
            incarnation: self.0.incarnation,
            segments: in_use.segments.len(),
            spares: in_use.spares.len(),
            base: in_use.base.clone(),
            is_pending: in_use.is_pending,
            written_position: self.0.written_position.load(Ordering::Acquire),
        }
    }

    /// Makes everything that was written durable. Returns the last durable slice. Any thread may call this while
    /// another one writes.
    pub fn sync(&self) -> Result<Lsn, Trouble> {
        self.0.sync()
    }

    /// The number of segments that are ready after the one in use.
    pub fn spare_count(&self) -> usize {
        locked(&self.0.in_use).spares.len()
    }

    /// The first position of the stream that segments can provide: the beginning of the oldest one, if none is damaged.
    pub fn first_position(&self) -> StreamPosition {
        let in_use = locked(&self.0.in_use);
        in_use.segments[0].place.position.max(in_use.readable_from)
    }

    pub(crate) fn written_position(&self) -> StreamPosition {
        self.0.written_position.load(Ordering::Acquire)
    }

    /// Notes that data before this position cannot be read any more.
    pub(crate) fn note_unreadable(&self, position: StreamPosition) {
        let mut in_use = locked(&self.0.in_use);
        in_use.readable_from = in_use.readable_from.max(position);
    }

    /// Whether [`read_back`](Self::read_back) can read from `position` on.
    pub fn reaches_back_to(&self, position: StreamPosition) -> bool {
        (self.first_position()..=self.written_position()).contains(&position)
    }

    /// Writes the last durable slice to a file of its own. For a thread that may wait.
    pub(crate) fn mark(&self) {
        let shared = &*self.0;
        let mark = Mark { incarnation: shared.incarnation, slice: shared.durable_slice() };
        // If this fails, the next start knows less, with no other effect.
        let _ = locked(&shared.marker).write(&shared.folder, shared.id, mark);
    }

    /// Writes the last durable slice durably, because nothing more will be written.
    pub fn seal(&self) {
        self.mark();
        let _ = locked(&self.0.marker).sync(&self.0.folder, self.0.id);
    }

    pub(crate) fn scan_from(&self, position: StreamPosition) -> Result<Scan, Error> {
        let manifest = Arc::clone(&locked(&self.0.in_use).listed);
        Scan::from(&self.0.folder, &manifest, position)
    }

    /// The error when the segments with `position` have been removed.
    pub(crate) fn gone(&self, position: StreamPosition) -> Error {
        let what = format!("position {position} of the stream is no longer there");
        Error::new(ErrorKind::Later, &self.0.folder.manifest_path(), what, "raise repl-backlog-size")
    }

    /// Creates one spare segment if fewer than `wanted` (or the usual number) are ready. Returns whether it did. For a
    /// thread that may wait.
    pub fn prepare_spare(&self, wanted: usize) -> Result<bool, Trouble> {
        let shared = &*self.0;
        let mut kept = locked(&shared.kept);
        shared.check()?;
        if locked(&shared.in_use).spares.len() >= wanted.max(shared.tuning.spares) {
            return Ok(false);
        }
        let number = match kept.unlisted {
            Some(number) => number,
            None => shared.make_spare(&mut kept, wanted)?,
        };
        kept.unlisted = Some(number);
        let manifest = shared.manifest(&kept, None, Some(number));
        shared.write_manifest(&mut kept, manifest)?;
        kept.unlisted = None;
        let mut in_use = locked(&shared.in_use);
        let last = in_use.spares.back().copied().or(in_use.segments.last().map(|last| last.number));
        assert!(last.is_none_or(|last| last < number), "segments are used in the order of their numbers");
        in_use.spares.push_back(number);
        Ok(true)
    }

    /// Records the id of the stream from its position on. The manifest has the id when this returns, or as soon as one
    /// can be written. For a thread that may wait.
    pub fn name_stream(&self, stream: Stream) -> Result<(), Trouble> {
        let shared = &*self.0;
        let mut kept = locked(&shared.kept);
        shared.check()?;
        kept.manifest.stream = Some(stream);
        if kept.is_pending {
            // The manifest with the base will have it.
            return Ok(());
        }
        let manifest = shared.manifest(&kept, None, None);
        shared.write_manifest(&mut kept, manifest)
    }

    /// Sets a base that is complete and durable under its name. Slices up to its own are no longer needed, except for
    /// about the last `backlog_bytes` of the stream. Removes the previous base.
    pub fn set_base(&self, base: &Base, backlog_bytes: u64) -> Result<(), Trouble> {
        let shared = &*self.0;
        shared.check()?;
        if shared.written_slice.load(Ordering::Acquire) < base.slice {
            return Err(Trouble::Behind);
        }
        if shared.durable_slice.load(Ordering::Acquire) < base.slice {
            let durable = shared.sync()?;
            assert!(durable >= base.slice, "slices that a base replaces are durable");
        }
        let mut kept = locked(&shared.kept);
        // The base's name must be durable before a manifest has it.
        sync_names(&shared.folder).map_err(|error| shared.fail(error))?;
        let former = kept.manifest.former.clone();
        let old_base = kept.manifest.base.file.clone().filter(|old| Some(old) != base.file.as_ref());
        let mut manifest = shared.manifest(&kept, Some(base), None);
        let needed_from = manifest.base.position.minus(backlog_bytes);
        let needless = manifest.segment_behind_base();
        let needless =
            manifest.segments[1..=needless].partition_point(|next| next.place.position <= needed_from);
        let dropped: Vec<u64> = manifest.segments.drain(..needless).map(|start| start.number).collect();
        if mutant::is_on(Mutant::RecyclesEarly) {
            shared.free(&mut kept, &dropped);
        }
        let was_pending = std::mem::replace(&mut kept.is_pending, false);
        shared.write_manifest(&mut kept, manifest).inspect_err(|_| kept.is_pending = was_pending)?;
        shared.free(&mut kept, &dropped);
        // A file that cannot be removed now is removed at the next start.
        if was_pending {
            let _ = shared.remove_former(&mut kept, &former);
        }
        if let Some(old_base) = old_base {
            let _ = shared.folder.remove_base(&old_base);
        }
        Ok(())
    }
}

impl Shared {
    /// Creates the journal with this manifest, whose last segment is empty.
    pub(crate) fn new(
        folder: Arc<LockedFolder>,
        tuning: Tuning,
        policy: Policy,
        manifest: Manifest,
        is_pending: bool,
    ) -> Shared {
        tuning.check();
        let last = *manifest.segments.last().expect("a journal has a segment");
        let numbers =
            manifest.segments.iter().map(|start| start.number).chain(manifest.spares.iter().copied());
        let sizes = numbers.map(|number| (number, folder.segment_bytes(manifest.id, number))).collect();
        let durable = last.place.last_slice();
        let in_use = InUse {
            policy,
            segments: manifest.segments.clone(),
            spares: manifest.spares.iter().copied().collect(),
            sizes,
            unsynced: Vec::new(),
            listed: Arc::new(manifest.clone()),
            base: manifest.base.clone(),
            readable_from: StreamPosition::START,
            is_pending,
            failure: None,
        };
        let number_max = manifest.last_number();
        let kept = Kept { manifest, is_pending, unlisted: None, free: Vec::new(), number_max };
        Shared {
            folder,
            tuning,
            id: kept.manifest.id,
            written_slice: AtomicLsn::new(durable),
            written_position: AtomicStreamPosition::new(last.place.position),
            durable_slice: AtomicLsn::new(durable),
            has_failed: AtomicBool::new(false),
            incarnation: kept.manifest.incarnation,
            in_use: Mutex::new(in_use),
            kept: Mutex::new(kept),
            marker: Mutex::default(),
        }
    }

    /// Fails if an earlier operation has failed.
    pub(crate) fn check(&self) -> Result<(), Trouble> {
        if !self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let failure = locked(&self.in_use).failure.clone();
        Err(Trouble::Failed(failure.expect("what has failed is known")))
    }

    /// Notes that nothing more becomes durable.
    pub(crate) fn fail(&self, error: Error) -> Trouble {
        let mut in_use = locked(&self.in_use);
        let first = in_use.failure.get_or_insert(error).clone();
        self.has_failed.store(true, Ordering::Release);
        Trouble::Failed(first)
    }

    /// The id of the stream.
    pub(crate) fn stream_id(&self) -> Option<StreamId> {
        locked(&self.kept).manifest.stream.map(|stream| stream.id)
    }

    pub(crate) fn durable_slice(&self) -> Lsn {
        self.durable_slice.load(Ordering::Acquire)
    }

    /// Makes the journal begin at this place. The manifest that says so is written with the base, and does not count
    /// before.
    pub(crate) fn begin_at(&self, place: FramePlace) {
        let mut in_use = locked(&self.in_use);
        assert!(in_use.is_pending, "what its slices are applied to is there, and ends elsewhere");
        assert!(in_use.segments.len() == 1, "a journal that begins has one segment");
        in_use.segments[0].place = place;
        in_use.base = Base { slice: place.last_slice(), position: place.position, file: None };
        drop(in_use);
        self.written_slice.store(place.last_slice(), Ordering::Release);
        self.written_position.store(place.position, Ordering::Release);
        self.durable_slice.store(place.last_slice(), Ordering::Release);
    }

    /// Reports that everything up to `slice`, whose end has this position in the stream, was written. It is durable if
    /// nothing before it is unsynced.
    pub(crate) fn report(&self, slice: Lsn, position: StreamPosition, is_durable: bool) {
        let before = self.written_slice.load(Ordering::Relaxed);
        assert!(slice >= before, "slice {slice} is written after slice {before}");
        assert!(position >= self.written_position.load(Ordering::Relaxed), "the stream never gets shorter");
        self.written_position.store(position, Ordering::Release);
        self.written_slice.store(slice, Ordering::Release);
        if is_durable && !self.has_failed.load(Ordering::Acquire) {
            self.durable_slice.fetch_max(slice, Ordering::AcqRel);
        }
    }

    pub(crate) fn sync(&self) -> Result<Lsn, Trouble> {
        self.check()?;
        // Data written after this may be synced or not.
        let written = self.written_slice.load(Ordering::Acquire);
        let unsynced = locked(&self.in_use).unsynced.clone();
        let Some(last) = unsynced.last() else { return Ok(self.durable_slice()) };
        for segment in &unsynced {
            if mutant::is_on(Mutant::DurableOutOfOrder) && !Arc::ptr_eq(segment, last) {
                continue;
            }
            let synced = segment.file.sync().map_err(Error::io(&segment.path, "make it durable"));
            synced.map_err(|error| self.fail(error))?;
        }
        self.check()?;
        // The last segment may have been written to meanwhile.
        let is_done = |segment: &Arc<SegmentFile>| {
            !Arc::ptr_eq(segment, last) && unsynced.iter().any(|synced| Arc::ptr_eq(synced, segment))
        };
        locked(&self.in_use).unsynced.retain(|segment| !is_done(segment));
        Ok(self.durable_slice.fetch_max(written, Ordering::AcqRel).max(written))
    }

    /// The bytes of the spare segments that are ready, in the order of their use.
    pub(crate) fn spare_sizes(&self) -> Vec<u64> {
        let in_use = locked(&self.in_use);
        in_use.spares.iter().filter_map(|number| in_use.sizes.get(number).copied()).collect()
    }

    /// Their sum.
    pub(crate) fn spare_bytes(&self) -> u64 {
        let in_use = locked(&self.in_use);
        in_use.spares.iter().filter_map(|number| in_use.sizes.get(number)).sum()
    }

    /// Takes a spare, which begins at this place.
    pub(crate) fn take_spare(&self, incarnation: u32, place: FramePlace) -> Option<SegmentStart> {
        let mut in_use = locked(&self.in_use);
        let number = in_use.spares.pop_front()?;
        let start = SegmentStart { number, incarnation, place };
        if let Some(last) = in_use.segments.last() {
            assert!(
                last.number < number && last.incarnation <= incarnation,
                "segments are used in the order of their numbers"
            );
            assert!(last.place.position <= place.position, "a segment continues the one before");
        }
        in_use.segments.push(start);
        Some(start)
    }

    /// Notes that writes to this segment need a sync to be durable.
    pub(crate) fn add_unsynced(&self, segment: &Arc<SegmentFile>) {
        locked(&self.in_use).unsynced.push(Arc::clone(segment));
    }

    /// Sets the policy by which the log writes.
    pub(crate) fn note_policy(&self, policy: Policy) {
        locked(&self.in_use).policy = policy;
    }

    /// Notes that everything written is synced and later writes need no sync.
    pub(crate) fn forget_unsynced(&self) {
        locked(&self.in_use).unsynced.clear();
    }

    /// Creates the next segment, with a durable name. Returns its number. `wanted` is the number of spares that the log
    /// waits for.
    fn make_spare(&self, kept: &mut Kept, wanted: usize) -> Result<u64, Trouble> {
        let number = kept.number_max + 1;
        let path = self.folder.segment(self.id, number);
        let made = match kept.free.pop() {
            Some(old) => {
                let old = self.folder.path().join(old);
                self.folder.disk().rename(&old, &path).map_err(Error::io(&old, "rename it"))
            }
            None => {
                let in_use = locked(&self.in_use);
                let (policy, log_bytes) = (in_use.policy, in_use.log_bytes());
                let (largest, is_short) =
                    (in_use.sizes.values().max().copied().unwrap_or(0), in_use.spares.len() < wanted);
                drop(in_use);
                let bytes = self.tuning.next_segment_bytes(log_bytes, largest, is_short);
                make_segment(&self.folder, bytes, policy, self.id, number)
            }
        };
        made.map_err(Trouble::NotReady)?;
        let bytes = self.folder.segment_bytes(self.id, number);
        let former = locked(&self.in_use).sizes.insert(number, bytes);
        assert!(former.is_none(), "segment {number} exists");
        sync_names(&self.folder).map_err(|error| self.fail(error))?;
        kept.number_max = number;
        Ok(number)
    }

    /// The manifest for the segments in use, with this base or the current one.
    fn manifest(&self, kept: &Kept, base: Option<&Base>, unlisted: Option<u64>) -> Manifest {
        let in_use = locked(&self.in_use);
        // The base of the last manifest would be wrong: a pending journal may have begun elsewhere since.
        let base = base.unwrap_or(&in_use.base).clone();
        let durable = self.durable_slice();
        let is_durable_before = |start: &&SegmentStart| {
            let last = if start.place.is_within_slice { start.place.slice } else { start.place.last_slice() };
            last <= durable || mutant::is_on(Mutant::ListsUnsynced)
        };
        let segments: Vec<SegmentStart> =
            in_use.segments.iter().take_while(is_durable_before).copied().collect();
        let rest = in_use.segments[segments.len()..].iter().map(|start| start.number);
        let spares = rest.chain(in_use.spares.iter().copied()).chain(unlisted).collect();
        // The lengths are determined when the manifest is written.
        let lengths = BTreeMap::new();
        Manifest { base, segments, spares, lengths, ..kept.manifest.clone() }
    }

    fn write_manifest(&self, kept: &mut Kept, manifest: Manifest) -> Result<(), Trouble> {
        if mutant::is_on(Mutant::ManifestInPlace) {
            self.write_manifest_in_place(&manifest).map_err(Trouble::NotReady)?;
        } else {
            self.folder.write_next_manifest(&manifest).map_err(Trouble::NotReady)?;
            self.folder.put_manifest_in_place(kept.is_pending).map_err(|error| self.fail(error))?;
        }
        let mut in_use = locked(&self.in_use);
        in_use.base.clone_from(&manifest.base);
        in_use.listed = Arc::new(manifest.clone());
        in_use.is_pending = kept.is_pending;
        kept.manifest = manifest;
        Ok(())
    }

    fn write_manifest_in_place(&self, manifest: &Manifest) -> Result<(), Error> {
        let path = self.folder.manifest_path();
        let write = || {
            let file = self.folder.disk().open(&path, Open::Empty)?;
            file.write_all_at(0, manifest.encode().as_bytes())?;
            file.sync()
        };
        write().map_err(Error::io(&path, "write it"))
    }

    /// Frees these segments: some are kept for reuse, the others are removed.
    fn free(&self, kept: &mut Kept, numbers: &[u64]) {
        let mut in_use = locked(&self.in_use);
        // The log will be about as long again. Half of that stays ready.
        let mut kept_bytes_left = in_use.log_bytes() / 2;
        let written = in_use.segments.last().map(|last| last.number);
        assert!(written.is_some_and(|number| !numbers.contains(&number)), "the segment in use is not freed");
        in_use.segments.retain(|start| !numbers.contains(&start.number));
        let sizes: Vec<u64> = numbers.iter().map(|number| in_use.sizes.remove(number).unwrap_or(0)).collect();
        drop(in_use);
        for (number, bytes) in numbers.iter().zip(sizes) {
            let name = SegmentName { journal_id: self.id, number: *number }.to_string();
            let is_usable = self.tuning.can_use(bytes) && bytes <= kept_bytes_left;
            if is_usable && kept.free.len() < self.tuning.free_max && !kept.free.contains(&name) {
                kept_bytes_left -= bytes;
                kept.free.push(name);
            } else if !kept.free.contains(&name) {
                // A file that cannot be removed now is removed at the next start.
                let _ = self.folder.remove(&name);
            }
        }
        if mutant::is_on(Mutant::RecyclesEarly) {
            while let Some(name) = kept.free.pop() {
                let _ = self.folder.remove(&name);
            }
        }
    }

    /// Removes the journals that this one has replaced.
    fn remove_former(&self, kept: &mut Kept, former: &[u64]) -> Result<(), Trouble> {
        self.folder.remove_files_of(former).map_err(Trouble::NotReady)?;
        sync_names(&self.folder).map_err(|error| self.fail(error))?;
        let manifest = Manifest { former: Vec::new(), ..self.manifest(kept, None, None) };
        self.write_manifest(kept, manifest)
    }
}

impl InUse {
    /// The total size of the segments in use.
    fn log_bytes(&self) -> u64 {
        self.segments.iter().filter_map(|start| self.sizes.get(&start.number)).sum()
    }
}

pub(crate) fn sync_names(folder: &LockedFolder) -> Result<(), Error> {
    if mutant::is_on(Mutant::UnsyncedNames) { Ok(()) } else { folder.sync_names() }
}

/// Creates a segment of this many zeros. The zeros are durable; its name is not.
pub(crate) fn make_segment(
    folder: &LockedFolder,
    bytes: u64,
    policy: Policy,
    id: u64,
    number: u64,
) -> Result<(), Error> {
    let path = folder.segment(id, number);
    let make = || {
        let file = folder.disk().open(&path, Open::Empty)?;
        match policy {
            Policy::Always => file.pre_write(bytes),
            // Writing everything twice would cost more than longer syncs, for which no client waits.
            Policy::Everysec | Policy::No => file.reserve(bytes),
        }
    };
    make().map_err(|error| {
        // The first error is the one to report.
        let _ = folder.disk().remove(&path);
        Error::io(&path, "make a segment")(error)
    })
}
