//! Learning: chooses the samples that become part of a dictionary's text.
//!
//! A run of eight bytes that occurs in several samples is worth learning. Samples are added as a whole, so that the gaps between
//! such runs keep their length and a packed member can follow along; but only samples with enough runs that are not known yet.
//!
//! A [`Learner`] looks at one sample at a time, and then decides about one at a time, so that each step is short.

use super::{Dictionary, TEXT_BYTES_MAX};

/// Number of samples that are examined.
pub const SAMPLES: usize = 64;
/// Samples are cut to this length.
pub const SAMPLE_BYTES_MAX: usize = 1024;

/// New runs that a sample must contribute.
const NEW_RUNS_MIN: usize = 24;
const SLOTS: usize = 8192;

/// An entry for a run in the table of runs.
#[derive(Clone, Copy, Default)]
struct RunEntry {
    /// Further bits of its hash.
    tag: u16,
    /// Number of samples with the run; 0 in an empty entry.
    samples: u8,
    /// Number of the last sample with the run.
    last: u8,
    is_known: bool,
}

/// Collects samples and decides which of them a dictionary learns.
pub struct Learner {
    runs: Box<[RunEntry]>,
    samples: Vec<Box<[u8]>>,
    /// Number of samples decided about, and bytes added by them.
    decided: usize,
    added_bytes: usize,
}

/// The hashes of all runs: slot in the table, and tag.
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
    /// A learner that has seen nothing.
    pub fn new() -> Self {
        let runs = vec![RunEntry::default(); SLOTS].into_boxed_slice();
        Self { runs, samples: Vec::with_capacity(SAMPLES), decided: 0, added_bytes: 0 }
    }

    /// Bytes that it has allocated.
    pub fn memory_bytes(&self) -> usize {
        let samples = self.samples.iter().map(|sample| sample.len()).sum::<usize>();
        size_of_val(&*self.runs) + self.samples.capacity() * size_of::<Box<[u8]>>() + samples
    }

    /// Whether it has seen as many samples as it needs.
    pub fn has_seen_enough(&self) -> bool {
        self.samples.len() == SAMPLES
    }

    /// Examines a sample, unless it has seen enough samples, or the same one.
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
                *run = RunEntry { tag, samples: 1, last: number, is_known: false };
            }
        }
        self.samples.push(sample.into());
    }

    /// Decides about the next sample. When all are done, returns the number of bytes by which the dictionary has grown.
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
