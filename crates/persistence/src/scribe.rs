//! Captures records for a snapshot that is saved in the background. Threads and writer share its state.
//!
//! ```text
//!  shard ── cut (keyspace) ──▶ Scribe ── Chunk ──▶ ▒▒▒▒ at most `waiting_bytes_max` ──▶ Writer ──▶ file
//!  shard ── cut ─────────────▶ Scribe ── Chunk ──▶ ▒▒▒▒
//! ```
//!
//! Each database of each shard has a scribe. It encodes records into chunks: whole entries, preceded by the
//! number of their database. So chunks of all threads can be written to one file in any order. A large value
//! takes many chunks. These have a *lane*, which is a file of its own.
//!
//! A large string is not copied: the chunk holds a reference to it, and the writer encodes it.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use engine::dump::InParts;
use heap::{Exempt, Exemption};
use keyspace::access::lru_clock;
use keyspace::{Lfu, Marks, RecordRef, StrRef, Taken, UnixMs, ValueRef, Witness};
use rdb::{Encoder, Style, ValueType};

use crate::output::SnapshotForm;
use crate::purpose::Purpose;
use crate::tuning::Tuning;

/// Values larger than this are captured in parts.
const WHOLE_BYTES_MAX: usize = 64 * 1024;
/// The number of large values that can be captured at the same time. Lane 0 is for all other values.
pub(crate) const LANES: u8 = 16;
/// All lanes for large values, each a bit.
const ALL_LANES: u64 = ((1 << LANES) - 1) << 1;

/// Selects which information about the use of keys is saved; the eviction policy needs it.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Whether the idle time is saved.
    pub is_idle_wanted: bool,
    /// The LFU settings, if the frequency of use is saved.
    pub lfu: Option<Lfu>,
    /// The time of the save.
    pub now: UnixMs,
}

impl Usage {
    /// Writes the use of a key before the key.
    fn encode<W: io::Write>(self, record: RecordRef<'_>, encoder: &mut Encoder<W>) -> io::Result<()> {
        match self.lfu {
            Some(lfu) => encoder.frequency(lfu.counter(record.access(), self.now)),
            None if self.is_idle_wanted => encoder.idle(record.idle_seconds(lru_clock(self.now)).into()),
            None => Ok(()),
        }
    }
}

/// Writes everything of a record except the value.
fn write_record_head<W: io::Write>(
    record: RecordRef<'_>,
    value_type: ValueType,
    usage: Usage,
    encoder: &mut Encoder<W>,
) -> io::Result<()> {
    let marks = record.marks();
    if marks != Marks::default() {
        encoder.marks(&marks.to_text())?;
    }
    if let ValueRef::List(list) = record.value()
        && let Some(seen) = list.seen()
    {
        encoder.arrivals(&seen.arrivals().to_bytes())?;
    }
    if encoder.style().keeps_all
        && let Some(expiries) = engine::dump::expiry_bytes(record.value())
    {
        encoder.expiries(&expiries)?;
    }
    if let Some(expiry) = record.expiry() {
        encoder.expiry(expiry)?;
    }
    usage.encode(record, encoder)?;
    encoder.value_type(value_type)?;
    encoder.string(record.key())
}

/// Writes a record as a whole, unless the style has no such values.
pub(crate) fn write_record<W: io::Write>(
    record: RecordRef<'_>,
    usage: Usage,
    encoder: &mut Encoder<W>,
) -> io::Result<()> {
    if !engine::dump::has(encoder.style(), record.value()) {
        return Ok(());
    }
    write_record_head(record, engine::dump::value_type(record.value(), encoder.style()), usage, encoder)?;
    engine::dump::write(record.value(), encoder)
}

/// An item for the writer.
pub(crate) enum WriterItem {
    /// Encoded entries, or a part of one, for this file.
    Bytes { file: u16, bytes: Vec<u8> },
    /// A string that has yet to be encoded, preceded by its key, for this file.
    Text { file: u16, head: Vec<u8>, text: Arc<Vec<u8>> },
    /// All chunks were sent.
    End,
    /// The save ends because the server does.
    Abandoned,
    /// The save was cancelled, and a thread waits until its disk space is free, that is, until the writer
    /// drops this.
    GivenUp(Sender<()>),
}

/// A chunk on its way. Records that are evicted before they are saved go from the database to here, so
/// waiting chunks do not count against `maxmemory`.
pub(crate) type Sent = (WriterItem, Exemption);

/// A snapshot being saved.
pub struct Saving {
    to_writer: Sender<Sent>,
    /// Its purpose.
    pub purpose: Purpose,
    /// The beginning, in milliseconds since 1970.
    pub started_ms: u64,
    /// The number of changes at the cut.
    pub changes: u64,
    /// The number of keys at the cut.
    pub key_count: u64,
    /// The number of these that were saved.
    pub keys_done: AtomicU64,
    pub(crate) form: SnapshotForm,
    usage: Usage,
    tuning: Tuning,
    waiting_bytes_max: AtomicUsize,
    waiting_bytes: AtomicUsize,
    /// The largest amount that ever waited, in bytes.
    pub peak_bytes: AtomicUsize,
    /// The reason why it has failed. From then, captured records are discarded.
    failure: Mutex<Option<String>>,
    has_failed: AtomicBool,
    /// Whether it was cancelled.
    is_given_up: AtomicBool,
    /// The number of scribes that have not ended, plus one for the thread that begins the save.
    open_count: AtomicUsize,
    /// Free lanes, each a bit.
    free_lanes: AtomicU64,
    /// So many threads visit the shards, those with the lowest numbers.
    visitors: AtomicU16,
}

impl Saving {
    pub(crate) fn new(
        to_writer: Sender<Sent>,
        purpose: Purpose,
        started_ms: u64,
        (changes, key_count): (u64, u64),
        (form, usage): (SnapshotForm, Usage),
        tuning: Tuning,
        thread_count: usize,
    ) -> Saving {
        Saving {
            to_writer,
            purpose,
            started_ms,
            changes,
            key_count,
            keys_done: AtomicU64::new(0),
            form,
            usage,
            tuning,
            waiting_bytes_max: AtomicUsize::new(tuning.waiting_bytes_per_thread * thread_count),
            waiting_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
            failure: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            open_count: AtomicUsize::new(1),
            free_lanes: AtomicU64::new(ALL_LANES),
            visitors: AtomicU16::new(thread_count.clamp(1, usize::from(u16::MAX)) as u16),
        }
    }

    /// Only so many threads visit the shards, those with the lowest numbers, and as much waits to be written. To be called before they
    /// hear of it.
    pub fn set_visitors(&self, count: u16) {
        let count = count.max(1);
        self.visitors.store(count, Ordering::Relaxed);
        let bytes_max = self.tuning.waiting_bytes_per_thread * usize::from(count);
        self.waiting_bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Whether this thread visits the shards that have `home` as their home.
    pub fn is_visitor(&self, thread: u16, home: u16) -> bool {
        home % self.visitors.load(Ordering::Relaxed) == thread
    }

    /// Whether the limit of waiting bytes is reached, so that only records that cannot wait may be added.
    #[inline]
    pub fn is_full(&self) -> bool {
        let max = self.waiting_bytes_max.load(Ordering::Relaxed);
        self.waiting_bytes.load(Ordering::Relaxed) >= max && !self.has_failed()
    }

    /// Notes that this many bytes were written. Returns true if this has just made room again.
    pub(crate) fn note_written(&self, bytes: usize) -> bool {
        let before = self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(bytes <= before, "{bytes} bytes were written, and only {before} waited");
        let enough = self.waiting_bytes_max.load(Ordering::Relaxed) / 2;
        before >= enough && before - bytes < enough
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Notes that the save has failed. The first reason counts.
    pub(crate) fn fail(&self, why: String, is_given_up: bool) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_none() {
            *failure = Some(why);
            self.is_given_up.store(is_given_up, Ordering::Relaxed);
        }
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// The reason why it failed, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asserts that nothing is missing, before it becomes the snapshot.
    pub(crate) fn assert_complete(&self) {
        let (done, waiting) =
            (self.keys_done.load(Ordering::Relaxed), self.waiting_bytes.load(Ordering::Relaxed));
        assert_eq!(
            done, self.key_count,
            "the snapshot lacks keys that were there at the cut, or has some twice"
        );
        assert_eq!(waiting, 0, "bytes of a snapshot wait to be written after its end");
        let lanes = self.free_lanes.load(Ordering::Relaxed);
        assert_eq!(lanes, ALL_LANES, "a large value is not written to its end");
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    pub(crate) fn send(&self, chunk: WriterItem) {
        let bytes = chunk.waiting_bytes();
        let waiting = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak_bytes.fetch_max(waiting, Ordering::Relaxed);
        // A writer that is gone has reported why.
        let memory = Exemption::new(Exempt::Snapshot, chunk.memory_bytes());
        let _ = self.to_writer.send((chunk, memory));
    }

    /// Notes that nothing more will be captured.
    pub(crate) fn abandon(&self) {
        self.send(WriterItem::Abandoned);
    }

    /// Notes that a scribe, or the thread that began the save, is done.
    pub fn close_one(&self) {
        let before = self.open_count.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "a save was closed by more than have opened it");
        if before == 1 {
            self.send(WriterItem::End);
        }
    }

    fn take_lane(&self) -> Option<u8> {
        let take = |free: u64| (free != 0).then(|| free & (free - 1));
        let before = self.free_lanes.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).ok()?;
        Some(before.trailing_zeros() as u8)
    }

    fn put_lane_back(&self, lane: u8) {
        let before = self.free_lanes.fetch_or(1 << lane, Ordering::AcqRel);
        assert!(before & 1 << lane == 0, "lane {lane} was free, so two large values were in one file");
    }
}

impl WriterItem {
    /// Its memory in bytes.
    fn memory_bytes(&self) -> usize {
        match self {
            WriterItem::Bytes { bytes, .. } => heap::block_bytes(bytes.capacity()),
            WriterItem::Text { head, text, .. } => {
                heap::block_bytes(head.capacity()) + heap::block_bytes(text.capacity())
            }
            WriterItem::End | WriterItem::Abandoned | WriterItem::GivenUp(_) => 0,
        }
    }

    /// Bytes that this item keeps in memory.
    pub(crate) fn waiting_bytes(&self) -> usize {
        match self {
            WriterItem::Bytes { bytes, .. } => bytes.len(),
            WriterItem::Text { head, text, .. } => head.len() + text.len(),
            WriterItem::End | WriterItem::Abandoned | WriterItem::GivenUp(_) => 0,
        }
    }
}

/// A large value that was captured in part.
struct Amid {
    key: Box<[u8]>,
    value: InParts,
    lane: u8,
}

/// Encodes the records of one database of one shard.
pub struct Scribe {
    saving: Arc<Saving>,
    db: u32,
    /// The file for all values except large ones.
    file: u16,
    chunk: Vec<u8>,
    chunk_memory: Exemption,
    /// The number of keys that end in the chunk.
    key_count: u64,
    amid: Option<Amid>,
}

thread_local! {
    /// The encoder's memory is large, so all scribes of a thread share it.
    static ENCODER: RefCell<Option<Encoder<Vec<u8>>>> = const { RefCell::new(None) };
}

/// Appends the output of `encode` to `chunk`.
fn encode<R>(
    style: Style,
    chunk: &mut Vec<u8>,
    encode: impl FnOnce(&mut Encoder<Vec<u8>>) -> io::Result<R>,
) -> R {
    ENCODER.with_borrow_mut(|encoder| {
        if encoder.as_ref().is_none_or(|encoder| encoder.style() != style) {
            *encoder = Some(Encoder::of_chunks(style));
        }
        let encoder = encoder.as_mut().expect("it was just put there");
        encoder.add_to(chunk, encode)
    })
}

impl Scribe {
    /// Creates the scribe of this database of a shard whose home is `thread`.
    pub fn new(saving: &Arc<Saving>, db: u32, thread: u16) -> Scribe {
        let open_count = saving.open_count.fetch_add(1, Ordering::Relaxed);
        assert!(open_count > 0, "a scribe comes after the end of its snapshot was sent");
        let file = saving.form.file_of(thread);
        let chunk_memory = Exemption::none(Exempt::Snapshot);
        Scribe {
            saving: Arc::clone(saving),
            db,
            file,
            chunk: Vec::new(),
            chunk_memory,
            key_count: 0,
            amid: None,
        }
    }

    fn flush(&mut self) {
        self.saving.keys_done.fetch_add(std::mem::take(&mut self.key_count), Ordering::Relaxed);
        if !self.chunk.is_empty() {
            let bytes = std::mem::take(&mut self.chunk);
            self.chunk_memory.resize(0);
            self.saving.send(WriterItem::Bytes { file: self.file, bytes });
        }
    }

    /// Captures a whole record.
    fn take_whole(&mut self, record: RecordRef<'_>) {
        let (db, usage, is_first) = (self.db, self.saving.usage, self.chunk.is_empty());
        if is_first {
            self.chunk.reserve_exact(self.saving.tuning.chunk_bytes);
            self.chunk_memory.resize(heap::block_bytes(self.chunk.capacity()));
        }
        let text = match record.value() {
            ValueRef::Str(StrRef::Shared(text)) if text.len() > WHOLE_BYTES_MAX => Some(text),
            _ => None,
        };
        encode(self.saving.form.style, &mut self.chunk, |encoder| {
            if is_first {
                encoder.select(db)?;
            }
            let value_type = engine::dump::value_type(record.value(), encoder.style());
            write_record_head(record, value_type, usage, encoder)?;
            if text.is_none() { engine::dump::write(record.value(), encoder) } else { Ok(()) }
        });
        self.key_count += 1;
        if let Some(text) = text {
            let (head, text) = (std::mem::take(&mut self.chunk), Arc::clone(text));
            self.saving.send(WriterItem::Text { file: self.file, head, text });
            self.flush();
        } else if self.chunk.len() >= self.saving.tuning.chunk_bytes {
            self.flush();
        }
    }

    /// Captures the next part of a record, or with `at_once` all that remains.
    fn take_part(&mut self, record: RecordRef<'_>, at_once: bool, is_first: bool) -> Taken {
        let (db, usage) = (self.db, self.saving.usage);
        let until = if at_once { u64::MAX } else { self.saving.tuning.part_bytes };
        let Some(Amid { value, lane, .. }) = &mut self.amid else { unreachable!("it has begun") };
        let mut bytes = Vec::new();
        let is_done = encode(self.saving.form.style, &mut bytes, |encoder| {
            if is_first {
                encoder.select(db)?;
                let value_type = InParts::value_type(record.value(), encoder.style());
                write_record_head(record, value_type, usage, encoder)?;
            }
            value.write(record.value(), until, encoder)
        });
        let lane = *lane;
        self.saving.send(WriterItem::Bytes { file: self.saving.form.file_of_lane(lane), bytes });
        if !is_done {
            return Taken::Part;
        }
        self.amid = None;
        self.saving.put_lane_back(lane);
        self.key_count += 1;
        Taken::All
    }

    fn take_next(&mut self, record: RecordRef<'_>, at_once: bool) -> Taken {
        if self.saving.has_failed() {
            self.amid = None;
            return Taken::All;
        }
        if !engine::dump::has(self.saving.form.style, record.value()) {
            self.key_count += 1;
            return Taken::All;
        }
        if self.amid.as_ref().is_some_and(|amid| *amid.key == *record.key()) {
            if !at_once && self.saving.is_full() {
                return Taken::Part;
            }
            return self.take_part(record, at_once, false);
        }
        if !at_once {
            if self.saving.is_full() {
                return Taken::Nothing;
            }
            if self.is_large(record) {
                assert!(
                    self.amid.is_none(),
                    "a large value begins amid another one, which would stay half written"
                );
                let Some(lane) = self.saving.take_lane() else { return Taken::Nothing };
                self.amid = Some(Amid { key: record.key().into(), value: InParts::default(), lane });
                return self.take_part(record, false, true);
            }
        }
        self.take_whole(record);
        Taken::All
    }
}

impl Witness for Scribe {
    /// A chunk for the writer never counts.
    fn take(&mut self, record: RecordRef<'_>, at_once: bool) -> Taken {
        heap::at_once(|| self.take_next(record, at_once))
    }

    fn is_full(&self) -> bool {
        self.saving.is_full()
    }

    fn is_large(&self, record: RecordRef<'_>) -> bool {
        let value = record.value();
        !matches!(value, ValueRef::Str(_))
            && !self.saving.has_failed()
            && (value.len() > self.saving.tuning.whole_len_max || record.memory_bytes() > WHOLE_BYTES_MAX)
    }

    fn end(mut self: Box<Self>) {
        let has_failed = self.saving.has_failed();
        assert!(self.amid.is_none() || has_failed, "the records end amid a large value");
        self.flush();
        self.saving.close_one();
    }
}
