//! Compression of similar hashes that are currently unused: jobs of BullMQ, asynq and RQ.
//!
//! ```text
//!  key                      pattern
//!  bull:mail:17             bull:mail:      ─▶ dictionary A
//!  rq:job:550e8400-e29b…    rq:job:         ─▶ dictionary B
//!  user:17:settings         user:…:         ─▶ seen 20 KiB: not enough
//! ```
//!
//! Background work walks over the database in slices, again and again (a *pass*). Hashes that have not been
//! used for a while are compressed with the dictionary of their pattern: the key without its last part and
//! without parts that contain digits. A pattern gets a dictionary when a pass has met enough bytes of its
//! hashes; one pattern learns at a time. Each record owns a reference to its dictionary, so a dictionary is
//! freed with its last record, wherever that is. Hashes in use are never compressed, and a command that
//! writes to a hash expands it for good, so no command compresses anything.
//!
//! Hashes that could not be compressed are left alone: a pass only tries hashes that became idle since the
//! pass before the last one, and all hashes of a pattern after it has learned. If a dictionary no longer
//! helps, the pattern learns again after twice as many bytes.
//!
//! Invariants: a dictionary that has been used does not change (learning creates a new one); a database whose
//! snapshot is being taken is left alone, because the snapshot may have captured a part of a hash.
//!
//! Not here: the compressed form of a hash (`ds::hash_compressed`), how a record stores it (`record/`), and
//! when slices come (`background`).

use std::sync::Arc;

use ds::compact_table::{CompactTable, Held};
use ds::dictionary::{Dictionary, Learner};
use ds::hash_compressed::{CompressedHash, Compressible};
use ds::hashing::{self, Seed};
use ds::mover::WalkPosition;
use ds::packed::Packed;

use crate::access;
use crate::data_config::{Config, HashCompression, UnixMs};
use crate::record::{Record, RecordMut, RecordRef};
use crate::value::ValueRef;

/// Maximum number of patterns, and of their dictionaries, per database and shard.
pub const PATTERNS_MAX: usize = 64;
/// Limit of the failures in a row that count: after `n` of them, only one hash in `2^n` is tried.
const FAILURES_MAX: u8 = 6;
/// Maximum number of times that the bytes between two learnings are doubled.
const REST_DOUBLINGS_MAX: u32 = 12;

/// Result of a call of [`Db::compress_hashes`](crate::Db::compress_hashes).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompressionProgress {
    /// Number of hashes compressed.
    pub compressed: u64,
    /// Number of attempts to compress or to learn. After a pass without any, the next one will hardly find work.
    pub attempts: u64,
    /// Whether the pass is over.
    pub is_pass_over: bool,
}

/// Hashes with similar keys.
struct Pattern {
    id: u64,
    dictionary: Option<Arc<Dictionary>>,
    /// How often it has learned.
    learned: u32,
    /// All of its hashes are tried up to this pass, regardless of how long they have been idle.
    fresh_until: u32,
    /// Bytes of its hashes that were met in this pass, or since it has learned.
    seen_bytes: u64,
    /// Bytes of the hashes tried since it has learned, before and after packing.
    plain_bytes: u64,
    packed_bytes: u64,
    /// Hashes in a row that could not be compressed, and number of hashes that are therefore still to be skipped.
    failures: u8,
    skipped: u8,
}

/// A pattern that is learning.
struct Learning {
    pattern: u64,
    learner: Box<Learner>,
    /// The dictionary that will result.
    dictionary: Dictionary,
    /// The pass in which it began. It decides one pass later, regardless of how much it has seen.
    pass: u32,
    is_deciding: bool,
}

/// State of compressing a database.
#[derive(Default)]
pub(crate) struct Compression {
    place: WalkPosition,
    pass: u32,
    /// When this pass and the two before it began, most recent first.
    began_ms: [Option<UnixMs>; 3],
    /// The idle time for which these passes were made.
    idle_seconds: u32,
    patterns: Vec<Pattern>,
    learning: Option<Learning>,
    /// Buffers for the items of a hash, and for their packed form.
    run: Vec<u8>,
    packed: Vec<u8>,
}

/// Parameters and progress of a slice.
struct CompressionSlice<'a> {
    config: &'a Config,
    how: HashCompression,
    now: UnixMs,
    seed: &'a Seed,
    /// Hashes that have been idle for longer were tried in an earlier pass.
    tried_idle_seconds: u64,
    progress: CompressionProgress,
}

/// Hash of a key's pattern: the parts except the last one, where all parts with digits count as equal.
fn pattern_of(seed: &Seed, key: &[u8]) -> u64 {
    let parts = key.iter().rposition(|&byte| byte == b':').map_or(&[][..], |end| &key[..end]);
    parts.split(|&byte| byte == b':').fold(0_u64, |pattern, part| {
        let is_varying = part.iter().any(u8::is_ascii_digit);
        let hash = if is_varying { 0 } else { hashing::hash(seed, part) };
        (pattern.rotate_left(23) ^ hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

impl CompressionSlice<'_> {
    /// How long a record has been unused, as exactly as this is known.
    fn idle_seconds(&self, record: RecordRef<'_>) -> u32 {
        match self.config.lfu {
            None => record.idle_seconds(access::lru_clock(self.now)),
            Some(_) => access::lfu_idle_minutes(record.access(), self.now) * 60,
        }
    }
}

impl Pattern {
    fn new(id: u64) -> Self {
        Pattern {
            id,
            dictionary: None,
            learned: 0,
            fresh_until: 0,
            seen_bytes: 0,
            plain_bytes: 0,
            packed_bytes: 0,
            failures: 0,
            skipped: 0,
        }
    }

    /// Whether it is time to learn, for the first time or again.
    fn wants_to_learn(&self, bytes_min: u64) -> bool {
        let has_room = self.dictionary.as_ref().is_none_or(|dictionary| dictionary.has_room());
        let rest_bytes = bytes_min << self.learned.min(REST_DOUBLINGS_MAX);
        has_room && self.seen_bytes >= rest_bytes && self.packed_bytes * 2 >= self.plain_bytes
    }

    /// Records the result of packing a hash.
    fn note(&mut self, plain_bytes: usize, packed_bytes: usize, is_compressed: bool) {
        self.failures = if is_compressed { 0 } else { FAILURES_MAX.min(self.failures + 1) };
        self.skipped = (1 << self.failures) - 1;
        self.plain_bytes += plain_bytes as u64;
        self.packed_bytes += packed_bytes.min(plain_bytes) as u64;
    }
}

impl Compression {
    /// Bytes that it has allocated, including the dictionaries.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_pattern = |pattern: &Pattern| {
            size_of::<Pattern>()
                + pattern.dictionary.as_ref().map_or(0, |dictionary| dictionary.memory_bytes())
        };
        let of_learning = |learning: &Learning| {
            size_of::<Learner>() + learning.learner.memory_bytes() + learning.dictionary.memory_bytes()
        };
        self.patterns.iter().map(of_pattern).sum::<usize>()
            + self.learning.as_ref().map_or(0, of_learning)
            + self.run.capacity()
            + self.packed.capacity()
    }

    /// Continues the pass over `table` as long as there is time.
    pub(crate) fn advance(
        &mut self,
        table: &mut CompactTable<Record>,
        (config, seed, now): (&Config, &Seed, UnixMs),
        has_time: &mut dyn FnMut() -> bool,
    ) -> CompressionProgress {
        let how = config.hash_compression;
        if self.idle_seconds != how.idle_seconds {
            (self.began_ms, self.idle_seconds) = ([None; 3], how.idle_seconds);
        }
        if self.began_ms[0].is_none() {
            self.began_ms[0] = Some(now);
        }
        // Records store times in seconds or minutes.
        let slack_s = if config.lfu.is_some() { 60 } else { 1 };
        let tried_idle_seconds = self.began_ms[2].map_or(u64::MAX, |began| {
            u64::from(how.idle_seconds) + now.saturating_sub(began).max(0) as u64 / 1000 + slack_s + 1
        });
        let mut slice = CompressionSlice {
            config,
            how,
            now,
            seed,
            tried_idle_seconds,
            progress: CompressionProgress::default(),
        };
        while self.learning.as_ref().is_some_and(|learning| learning.is_deciding) {
            slice.progress.attempts += 1;
            self.decide();
            if !has_time() {
                return slice.progress;
            }
        }
        let mut place = self.place;
        let is_over = table.visit_held(&mut place, has_time, &mut |held| self.visit(held, &mut slice));
        self.place = place;
        if is_over {
            self.end_pass(&mut slice);
        }
        slice.progress
    }

    /// Compresses a record that has been idle, if it is a suitable hash. A collection that was about to learn
    /// a dictionary of its own gives that up.
    fn visit(&mut self, held: Held<'_, Record>, slice: &mut CompressionSlice<'_>) {
        let mut record = RecordMut(held);
        let idle_seconds = slice.idle_seconds(record.lend());
        if idle_seconds < slice.how.idle_seconds {
            return;
        }
        record.stop_learning();
        let lent = record.lend();
        let value = lent.value();
        if !matches!(value, ValueRef::Hash(_) | ValueRef::Compressed(_)) {
            return;
        }
        let id = pattern_of(slice.seed, lent.key());
        let known = self.patterns.iter().position(|pattern| pattern.id == id);
        let is_fresh = |pattern: &Pattern| pattern.fresh_until >= self.pass;
        let hash = match value {
            ValueRef::Hash(hash) => {
                let is_tried = u64::from(idle_seconds) > slice.tried_idle_seconds;
                let leaves_alone = |pattern: &Pattern| pattern.dictionary.is_some() && !is_fresh(pattern);
                if is_tried && known.is_some_and(|number| leaves_alone(&self.patterns[number])) {
                    return;
                }
                Compressible::of(hash, &mut self.run)
            }
            ValueRef::Compressed(hash) => {
                // It may be packed with the dictionary from before its pattern learned again.
                let is_outdated = |pattern: &Pattern| {
                    is_fresh(pattern) && pattern.dictionary.as_ref().is_some_and(|now| !is_by(hash, now))
                };
                if !known.is_some_and(|number| is_outdated(&self.patterns[number])) {
                    return;
                }
                let run = expanded_run(hash, &mut self.run);
                Some(Compressible { is_big: hash.is_big, run })
            }
            ValueRef::Str(_)
            | ValueRef::List(_)
            | ValueRef::Set(_)
            | ValueRef::ZSet(_)
            | ValueRef::Stream(_)
            | ValueRef::Sketch(_) => None,
        };
        let Some(hash) = hash else { return };
        let plain_bytes = hash.run.bytes.len();
        let Some(number) =
            known.or_else(|| add_pattern(&mut self.patterns, &self.learning, id, plain_bytes as u64))
        else {
            return;
        };
        let pattern = &mut self.patterns[number];
        pattern.seen_bytes += plain_bytes as u64;
        slice.progress.attempts += u64::from(learn_from(
            &mut self.learning,
            pattern,
            hash.run.bytes,
            (self.pass, slice.how.bytes_min),
        ));
        let Some(dictionary) = &pattern.dictionary else { return };
        if pattern.skipped > 0 {
            pattern.skipped -= 1;
            return;
        }
        slice.progress.attempts += 1;
        pack(dictionary, hash.run.bytes, &mut self.packed);
        // The borrow of the record ends here, because it is about to be replaced.
        let (is_big, item_count) = (hash.is_big, hash.run.count);
        let is_compressed = record.compress(is_big, item_count, dictionary, &self.packed);
        slice.progress.compressed += u64::from(is_compressed);
        pattern.note(plain_bytes, self.packed.len(), is_compressed);
    }

    /// Decides about one sample; after the last one, the pattern has learned.
    fn decide(&mut self) {
        let Some(learning) = &mut self.learning else { return };
        let Some(added_bytes) = learning.learner.decide(&mut learning.dictionary) else { return };
        let Some(Learning { pattern, dictionary, .. }) = self.learning.take() else { return };
        let Some(pattern) = self.patterns.iter_mut().find(|known| known.id == pattern) else {
            unreachable!("a pattern that learns is kept")
        };
        pattern.learned += 1;
        (pattern.seen_bytes, pattern.plain_bytes, pattern.packed_bytes) = (0, 0, 0);
        (pattern.failures, pattern.skipped) = (0, 0);
        if added_bytes > 0 {
            pattern.dictionary = Some(Arc::new(dictionary));
            pattern.fresh_until = self.pass + 1;
        }
    }

    fn end_pass(&mut self, slice: &mut CompressionSlice<'_>) {
        slice.progress.is_pass_over = true;
        let pass = self.pass;
        self.pass += 1;
        self.began_ms = [None, self.began_ms[0], self.began_ms[1]];
        if let Some(learning) = &mut self.learning {
            learning.is_deciding |= learning.pass < pass;
        }
        let learns = self.learning.as_ref().map(|learning| learning.pattern);
        self.patterns.retain_mut(|pattern| {
            let is_used = pattern.dictionary.as_ref().is_some_and(|shared| Arc::strong_count(shared) > 1);
            let is_kept = is_used
                || learns == Some(pattern.id)
                || pattern.fresh_until > pass
                || pattern.dictionary.is_none() && pattern.learned > 0 && pattern.seen_bytes > 0;
            if pattern.learned == 0 {
                pattern.seen_bytes = 0;
            }
            is_kept
        });
        // Keep no memory after all records are gone.
        if self.patterns.is_empty() {
            (self.patterns, self.run, self.packed) = (Vec::new(), Vec::new(), Vec::new());
        }
    }
}

impl Learning {
    fn new(pattern: &Pattern, pass: u32) -> Self {
        let dictionary = pattern.dictionary.as_deref().cloned().unwrap_or_default();
        Learning { pattern: pattern.id, learner: Box::default(), dictionary, pass, is_deciding: false }
    }
}

/// Passes the items of a hash to the learner if their pattern is learning. If none is learning and it is time, starts
/// learning. Returns whether it did either.
fn learn_from(
    learning: &mut Option<Learning>,
    pattern: &Pattern,
    run: &[u8],
    (pass, bytes_min): (u32, u64),
) -> bool {
    match learning {
        Some(learning) if learning.pattern == pattern.id && !learning.is_deciding => {
            learning.learner.look_at(run);
            learning.is_deciding = learning.learner.has_seen_enough();
        }
        None if pattern.wants_to_learn(bytes_min) => *learning = Some(Learning::new(pattern, pass)),
        Some(_) | None => return false,
    }
    true
}

/// Packs a listpack and checks that it can be restored.
fn pack(dictionary: &Dictionary, run: &[u8], packed: &mut Vec<u8>) {
    packed.clear();
    dictionary.pack(run, packed);
    let mut restored = vec![0; run.len()];
    let restored_len = dictionary.unpack(packed, &mut restored);
    assert!(restored_len == Some(run.len()) && restored == run, "what is packed comes back");
}

/// Whether a hash was packed with this dictionary.
fn is_by(hash: CompressedHash<'_>, dictionary: &Arc<Dictionary>) -> bool {
    std::ptr::eq(hash.dictionary, Arc::as_ptr(dictionary))
}

/// The items of a compressed hash, expanded into the beginning of `buffer`.
fn expanded_run<'a>(hash: CompressedHash<'_>, buffer: &'a mut Vec<u8>) -> Packed<'a> {
    hash.expand(buffer).packed().expect("it was made of such")
}

/// Adds a pattern and returns its index. If there is no room, it replaces the rarest pattern without a
/// dictionary, if fewer bytes of that one were met. Otherwise returns `None` and reduces that pattern's count
/// by `bytes`, as if it had become rarer by as much.
fn add_pattern(
    patterns: &mut Vec<Pattern>,
    learning: &Option<Learning>,
    id: u64,
    bytes: u64,
) -> Option<usize> {
    if patterns.len() < PATTERNS_MAX {
        patterns.push(Pattern::new(id));
        return Some(patterns.len() - 1);
    }
    let learns = learning.as_ref().map(|learning| learning.pattern);
    let may_go = |pattern: &Pattern| pattern.dictionary.is_none() && learns != Some(pattern.id);
    let candidates = patterns.iter_mut().enumerate().filter(|(_, pattern)| may_go(pattern));
    let (number, rarest) = candidates.min_by_key(|(_, pattern)| pattern.seen_bytes)?;
    if rarest.seen_bytes > bytes {
        rarest.seen_bytes -= bytes;
        return None;
    }
    *rarest = Pattern::new(id);
    Some(number)
}
