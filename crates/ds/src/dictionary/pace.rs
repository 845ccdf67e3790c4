//! Decides when a collection learns the text that its members have in common, and which of them it tries to
//! pack.
//!
//! ```text
//!  large enough     learning, for 64 samples        from then on each new member is packed
//!  ──┴──▶ a new member at a time ──▶
//! ```
//!
//! All of this is done while members are added, a few microseconds each time, so nothing has to wait and no list of
//! collections is needed. If packing does not help (members without a pattern), or no longer (jobs of other classes), a
//! collection learns again after twice as many members as before. The members of a hash are its values.

use super::{Dictionary, Learner, SAMPLES};

/// Shortest and longest members that are packed.
const PLAIN_BYTES_MIN: usize = 48;
const PLAIN_BYTES_MAX: usize = 4096;
/// A member is packed if that saves at least one part in this many.
const SAVED_PART_MIN: usize = 4;
/// Samples that are decided about whenever a member is added.
const DECIDED_AT_ONCE: usize = 2;
/// Added members after which a learner stops waiting for samples: some members do not count as samples.
const LEARNING_MEMBERS_MAX: u32 = 4 * SAMPLES as u32;
/// Minimum number of members that are added before a collection learns again, and limit of the doublings of that number.
const REST_MEMBERS: u32 = 256;
const REST_DOUBLINGS_MAX: u32 = 12;
/// Limit of the failures in a row that count: after `n` of them, only one member in `2^n` is tried.
const FAILURES_MAX: u8 = 6;
/// When this many bytes were tried, earlier results count half.
const RECENT_BYTES: usize = 256 << 10;

/// Whether a member has a length that is packed.
#[inline]
pub(crate) fn is_fit(member: &[u8]) -> bool {
    (PLAIN_BYTES_MIN..=PLAIN_BYTES_MAX).contains(&member.len())
}

/// Whether a member of `plain_bytes` bytes that packs into `packed_bytes` is worth packing.
#[inline]
pub(crate) fn saves_enough(plain_bytes: usize, packed_bytes: usize) -> bool {
    packed_bytes <= plain_bytes - plain_bytes / SAVED_PART_MIN
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Pace {
    learner: Option<Box<Learner>>,
    /// Members added since learning began, or ended.
    added: u32,
    /// How often it has learned.
    learned: u32,
    /// Bytes of the members that were tried since learning ended, before and after packing.
    plain_bytes: usize,
    packed_bytes: usize,
    /// Members in a row that could not be packed, and number of members that are therefore still to be skipped.
    failures: u8,
    skipped: u8,
}

impl Clone for Pace {
    /// The clone does not continue learning.
    fn clone(&self) -> Self {
        Self { learner: None, ..*self }
    }
}

impl Pace {
    /// Bytes that it has allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.learner.as_ref().map_or(0, |learner| size_of::<Learner>() + learner.memory_bytes())
    }

    /// Notes that a member was added, and begins to learn if it is time. Returns the learner if that waits for samples.
    pub(crate) fn add(&mut self, dictionary: Option<&Dictionary>) -> Option<&mut Learner> {
        self.added = self.added.saturating_add(1);
        if self.learner.is_none() && self.wants_to_learn() && dictionary.is_none_or(Dictionary::has_room) {
            self.learner = Some(Box::default());
            self.added = 0;
        }
        self.learner
            .as_deref_mut()
            .filter(|learner| !learner.has_seen_enough() && self.added < LEARNING_MEMBERS_MAX)
    }

    /// Decides about some samples, if it has seen enough. Returns true if learning has ended: there is a dictionary from then
    /// on if there was anything to learn.
    pub(crate) fn decide(&mut self, dictionary: &mut Option<Box<Dictionary>>) -> bool {
        let Some(learner) = &mut self.learner else { return false };
        let learns = dictionary.get_or_insert_default();
        let has_ended = (0..DECIDED_AT_ONCE).any(|_| learner.decide(learns).is_some());
        if has_ended {
            dictionary.take_if(|dictionary| dictionary.is_empty());
            *self = Self { learned: self.learned + 1, ..Self::default() };
        }
        has_ended
    }

    /// Gives up learning, and with it the memory of its samples. It begins again with the next member that is added, if it is time.
    pub(crate) fn stop_learning(&mut self) {
        self.learner = None;
    }

    /// Number of members added since learning began, or ended.
    pub(crate) fn added(&self) -> usize {
        self.added as usize
    }

    /// Whether it is learning.
    pub(crate) fn is_learning(&self) -> bool {
        self.learner.is_some()
    }

    /// The dictionary, if there is anything to pack with: the first one must be complete.
    pub(crate) fn usable<'d>(&self, dictionary: Option<&'d Dictionary>) -> Option<&'d Dictionary> {
        dictionary.filter(|dictionary| self.learned > 0 && !dictionary.is_empty())
    }

    fn wants_to_learn(&self) -> bool {
        let rest = if self.learned == 0 { 0 } else { REST_MEMBERS << self.learned.min(REST_DOUBLINGS_MAX) };
        self.added > rest && self.packed_bytes * 2 >= self.plain_bytes
    }

    /// Whether the next member, of `plain_bytes` bytes, is not to be tried, because others could not be
    /// packed.
    pub(crate) fn skips(&mut self, plain_bytes: usize) -> bool {
        let skips = self.skipped > 0;
        if skips {
            self.skipped -= 1;
            self.count(plain_bytes, plain_bytes);
        }
        skips
    }

    /// Notes that a member was tried, and whether it was packed.
    pub(crate) fn note(&mut self, plain_bytes: usize, packed_bytes: usize, is_packed: bool) {
        self.failures = if is_packed { 0 } else { FAILURES_MAX.min(self.failures + 1) };
        self.skipped = (1 << self.failures) - 1;
        self.count(plain_bytes, packed_bytes.min(plain_bytes));
    }

    fn count(&mut self, plain_bytes: usize, packed_bytes: usize) {
        self.plain_bytes += plain_bytes;
        self.packed_bytes += packed_bytes;
        if self.plain_bytes > RECENT_BYTES {
            self.plain_bytes /= 2;
            self.packed_bytes /= 2;
        }
    }
}
