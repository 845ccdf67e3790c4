//! Learning: which of some samples become part of the text.
//!
//! A run of eight bytes that is in several samples is worth knowing. Samples are taken as a whole, so that what stands between
//! such runs keeps its room and a packed member can walk along; but only those that have enough runs which are not known yet.
//!
//! A [`Learner`] is shown samples, one at a time, and then decides about one at a time: nobody has to wait for all of it.

use super::{Dictionary, TEXT_BYTES_MAX};

/// Samples that are looked at.
pub const SAMPLES: usize = 64;
/// Bytes of a sample that are looked at, at most.
pub const SAMPLE_BYTES_MAX: usize = 1024;

/// Runs that a sample must add.
const NEW_RUNS_MIN: usize = 24;
const SLOTS: usize = 8192;

/// What is known of a run.
#[derive(Clone, Copy, Default)]
struct Run {
    /// More of its hash.
    tag: u16,
    /// Samples that have it; 0 if there is no run.
    samples: u8,
    /// The last of them.
    last: u8,
    is_known: bool,
}

/// Looks at samples; see the head of this file.
pub struct Learner {
    runs: Box<[Run]>,
    samples: Vec<Box<[u8]>>,
    /// Samples that were decided about, and bytes that were added because of them.
    decided: usize,
    added_bytes: usize,
}

/// The hashes of all runs.
fn hashes(sample: &[u8]) -> impl Iterator<Item = (usize, u16)> {
    sample.windows(size_of::<u64>()).filter_map(<[u8]>::first_chunk).map(|run| {
        let hash = u64::from_le_bytes(*run).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((hash >> (u64::BITS - SLOTS.ilog2())) as usize, (hash >> 32) as u16)
    })
}

impl Default for Learner {
    fn default() -> Self {
        Self::new()
    }
}

impl Learner {
    /// One that has seen nothing.
    pub fn new() -> Self {
        let runs = vec![Run::default(); SLOTS].into_boxed_slice();
        Self { runs, samples: Vec::with_capacity(SAMPLES), decided: 0, added_bytes: 0 }
    }

    /// Bytes it has allocated.
    pub fn memory_bytes(&self) -> usize {
        let samples = self.samples.iter().map(|sample| sample.len()).sum::<usize>();
        size_of_val(&*self.runs) + self.samples.capacity() * size_of::<Box<[u8]>>() + samples
    }

    /// Whether it has seen as many samples as it wants to.
    pub fn has_seen_enough(&self) -> bool {
        self.samples.len() == SAMPLES
    }

    /// Looks at a sample, unless it has seen enough, or the same.
    pub fn look_at(&mut self, sample: &[u8]) {
        let sample = &sample[..sample.len().min(SAMPLE_BYTES_MAX)];
        if self.has_seen_enough() || self.samples.iter().any(|other| **other == *sample) {
            return;
        }
        let number = self.samples.len() as u8 + 1;
        for (slot, tag) in hashes(sample) {
            let run = &mut self.runs[slot];
            if run.tag == tag && run.samples > 0 {
                run.samples += u8::from(run.last != number);
                run.last = number;
            } else if run.samples <= 1 {
                *run = Run { tag, samples: 1, last: number, is_known: false };
            }
        }
        self.samples.push(sample.into());
    }

    /// Decides about the next sample. At the end says how many bytes the dictionary has grown by.
    pub fn decide(&mut self, dictionary: &mut Dictionary) -> Option<usize> {
        if self.decided == 0 {
            let text = std::mem::take(&mut dictionary.text);
            self.know(&text);
            dictionary.text = text;
        }
        let Some(sample) = self.samples.get_mut(self.decided).map(std::mem::take) else {
            return Some(self.added_bytes);
        };
        self.decided += 1;
        let has_room = dictionary.text.len() + sample.len() <= TEXT_BYTES_MAX;
        let is_new = |&(slot, tag): &(usize, u16)| {
            let run = &self.runs[slot];
            run.tag == tag && run.samples > 1 && !run.is_known
        };
        if has_room && hashes(&sample).filter(is_new).count() >= NEW_RUNS_MIN {
            dictionary.append(&sample);
            self.added_bytes += sample.len();
            self.know(&sample);
        }
        None
    }

    fn know(&mut self, text: &[u8]) {
        for (slot, tag) in hashes(text) {
            let run = &mut self.runs[slot];
            run.is_known |= run.tag == tag;
        }
    }
}
