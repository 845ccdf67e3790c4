//! Compression of hashes that nobody uses at the moment, of which there are many alike: jobs of BullMQ, asynq and RQ.
//!
//! ```text
//!  key                      pattern
//!  bull:mail:17             bull:mail:      ─▶ dictionary A
//!  rq:job:550e8400-e29b…    rq:job:         ─▶ dictionary B
//!  user:17:settings         user:…:         ─▶ seen 20 KiB: not enough
//! ```
//!
//! Upkeep walks over the database in slices, again and again (a *pass*). Hashes that were not used for a while are compressed
//! by the dictionary of their pattern, which is the key without its last part and without parts that have digits. A pattern gets a dictionary when
//! so many bytes of its hashes were met in a pass; one pattern learns at a time. A record has a share of the dictionary that it is packed
//! by, so a dictionary goes with the last of them, wherever that is. What is in use is never compressed, and who writes to a hash expands it for
//! good, so no command packs anything.
//!
//! What could not be compressed is left alone: a pass tries hashes only that have come to rest since the pass before the last one, and
//! all of a pattern after it has learned. If what was learned does not help any more, it is learned again, after twice as many bytes.
//!
//! Invariants: a dictionary that has been used is not changed (what it learns makes a new one); a database of which a snapshot is being taken
//! is left alone, as the snapshot may have taken a part of a hash.
//!
//! Not here: what a compressed hash is (`ds::hash_compressed`), how it lies in its record (`record/`), and when slices come (`upkeep`).

use std::sync::Arc;

use ds::compact_table::{CompactTable, Held};
use ds::dictionary::{Dictionary, Learner};
use ds::hash_compressed::{CompressedHash, Compressible};
use ds::hashing::{self, Seed};
use ds::mover::Place;
use ds::packed::Packed;

use crate::access;
use crate::data_config::{Config, HashCompression, UnixMs};
use crate::record::{Record, RecordMut, RecordRef};
use crate::value::ValueRef;

/// Patterns of a database on a shard that are told apart, and dictionaries that they have at most.
pub const PATTERNS_MAX: usize = 64;
/// Hashes in a row that could not be compressed make only one in two to that power be tried.
const FAILURES_MAX: u8 = 6;
/// The bytes after which it is learned again double that often at most.
const REST_DOUBLINGS_MAX: u32 = 12;

/// What a call of [`Db::compress_hashes`](crate::Db::compress_hashes) has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Hashes that were compressed, and attempts to do so or to learn. Where there are none in a pass, the next one will hardly find any.
    pub compressed: u64,
    /// See [`compressed`](Self::compressed).
    pub attempts: u64,
    /// The pass is over.
    pub is_pass_over: bool,
}

/// Hashes whose keys are alike.
struct Pattern {
    id: u64,
    dictionary: Option<Arc<Dictionary>>,
    /// How often it has learned.
    learned: u32,
    /// All of its hashes are tried up to this pass, however long they have been there.
    fresh_until: u32,
    /// Bytes of its hashes that were met in this pass, or since it has learned.
    seen_bytes: u64,
    /// The same of those that were tried since then, and what they were packed into.
    plain_bytes: u64,
    packed_bytes: u64,
    /// Hashes in a row that could not be compressed, and how many are therefore still to be left alone.
    failures: u8,
    skipped: u8,
}

/// A pattern that learns.
struct Learning {
    pattern: u64,
    learner: Box<Learner>,
    /// What it will have learned.
    dictionary: Dictionary,
    /// It has begun in this pass. One pass later it decides, whatever it has seen.
    pass: u32,
    is_deciding: bool,
}

/// Where compressing a database stands; see the head of this file.
#[derive(Default)]
pub(crate) struct Compression {
    place: Place,
    pass: u32,
    /// When the pass began, and the two before it, the last one first.
    began_ms: [Option<UnixMs>; 3],
    /// How idle hashes had to be then.
    idle_seconds: u32,
    patterns: Vec<Pattern>,
    learning: Option<Learning>,
    /// For the items of a hash, and what they are packed into.
    run: Vec<u8>,
    packed: Vec<u8>,
}

/// What a slice goes by.
struct Slice<'a> {
    config: &'a Config,
    how: HashCompression,
    now: UnixMs,
    seed: &'a Seed,
    /// Hashes that have been idle for longer were tried in a pass before.
    tried_idle_seconds: u64,
    progress: Progress,
}

/// What keys have in common that belong to alike values: all parts but the last one, and but those that have digits.
fn pattern_of(seed: &Seed, key: &[u8]) -> u64 {
    let parts = key.iter().rposition(|&byte| byte == b':').map_or(&[][..], |end| &key[..end]);
    parts.split(|&byte| byte == b':').fold(0_u64, |pattern, part| {
        let is_varying = part.iter().any(u8::is_ascii_digit);
        let hash = if is_varying { 0 } else { hashing::hash(seed, part) };
        (pattern.rotate_left(23) ^ hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

impl Slice<'_> {
    /// For how long a record was not used, as exactly as it is known.
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

    /// A hash was packed; says whether it was of use.
    fn note(&mut self, plain_bytes: usize, packed_bytes: usize, is_compressed: bool) {
        self.failures = if is_compressed { 0 } else { FAILURES_MAX.min(self.failures + 1) };
        self.skipped = (1 << self.failures) - 1;
        self.plain_bytes += plain_bytes as u64;
        self.packed_bytes += packed_bytes.min(plain_bytes) as u64;
    }
}

impl Compression {
    /// Bytes it has allocated, the dictionaries included.
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

    /// Goes on with the pass over `table`, as long as there is time.
    pub(crate) fn advance(
        &mut self,
        table: &mut CompactTable<Record>,
        (config, seed, now): (&Config, &Seed, UnixMs),
        has_time: &mut dyn FnMut() -> bool,
    ) -> Progress {
        let how = config.hash_compression;
        if self.idle_seconds != how.idle_seconds {
            (self.began_ms, self.idle_seconds) = ([None; 3], how.idle_seconds);
        }
        if self.began_ms[0].is_none() {
            self.began_ms[0] = Some(now);
        }
        // The clocks of records count seconds, or minutes.
        let slack_s = if config.lfu.is_some() { 60 } else { 1 };
        let tried_idle_seconds = self.began_ms[2].map_or(u64::MAX, |began| {
            u64::from(how.idle_seconds) + now.saturating_sub(began).max(0) as u64 / 1000 + slack_s + 1
        });
        let mut slice = Slice { config, how, now, seed, tried_idle_seconds, progress: Progress::default() };
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

    /// Looks at a record, and compresses it if it is a hash for that.
    fn visit(&mut self, held: Held<'_, Record>, slice: &mut Slice<'_>) {
        let mut record = RecordMut(held);
        let lent = record.lend();
        let value = lent.value();
        if !matches!(value, ValueRef::Hash(_) | ValueRef::Compressed(_)) {
            return;
        }
        let idle_seconds = slice.idle_seconds(lent);
        if idle_seconds < slice.how.idle_seconds {
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
                // It may be packed by what its pattern knew before it learned again.
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
            | ValueRef::Stream(_) => None,
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
        // What is lent of the record ends here: it is about to be another.
        let (is_big, item_count) = (hash.is_big, hash.run.count);
        let is_compressed = record.compress(is_big, item_count, dictionary, &self.packed);
        slice.progress.compressed += u64::from(is_compressed);
        pattern.note(plain_bytes, self.packed.len(), is_compressed);
    }

    /// Decides about one sample; at the end the pattern has learned.
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

    fn end_pass(&mut self, slice: &mut Slice<'_>) {
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
        // Records that are there no more leave nothing behind.
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

/// Shows these items of a hash to the learner if their pattern learns, or lets it begin if it is time and no other does. False: neither.
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

/// Packs a run, and makes sure that it comes back.
fn pack(dictionary: &Dictionary, run: &[u8], packed: &mut Vec<u8>) {
    packed.clear();
    dictionary.pack(run, packed);
    let mut restored = vec![0; run.len()];
    let restored_len = dictionary.unpack(packed, &mut restored);
    assert!(restored_len == Some(run.len()) && restored == run, "what is packed comes back");
}

/// Whether a hash was packed by this dictionary.
fn is_by(hash: CompressedHash<'_>, dictionary: &Arc<Dictionary>) -> bool {
    std::ptr::eq(hash.dictionary, Arc::as_ptr(dictionary))
}

/// The items of a compressed hash, in the beginning of `buffer`.
fn expanded_run<'a>(hash: CompressedHash<'_>, buffer: &'a mut Vec<u8>) -> Packed<'a> {
    hash.expand(buffer).packed().expect("it was made of such")
}

/// The number of a new pattern, if there is room. Where there is none, one that has no dictionary and of which less was met makes room; all others are
/// taken to be as much rarer as this one was met.
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
