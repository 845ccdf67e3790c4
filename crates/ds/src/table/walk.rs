//! Walks over a table: cursors, background slices, random picks, freeing in pieces.

use super::segment::{BUCKETS_MAX, Segment};
use super::{POSITION_BITS, State, Table};
use crate::random::Random;

const POSITION_END: u64 = 1 << POSITION_BITS;
/// How often a random pick may meet an empty bucket before it takes the next entry it sees.
const RANDOM_TRIES_MAX: usize = 1000;

impl<T> Table<T> {
    fn segment_at(&self, position: u64) -> &Segment<T> {
        self.segment(position << (64 - POSITION_BITS))
    }

    /// Visits entries in order of their hashes from `cursor` on: at least `count` and at least one, unless
    /// fewer are left. Returns the cursor for the next call, 0 when nothing is left; it fits in 48 bits.
    ///
    /// Begin with cursor 0. Whatever is present from the first call to the last is visited at least once, no matter what
    /// happens to the table in between. One call costs O(`count`) plus one segment.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, visit: &mut dyn FnMut(&'a T)) -> u64 {
        let mut position = cursor;
        let mut wanted = count.max(1);
        while position < POSITION_END {
            let segment = self.segment_at(position);
            let (visited, rest) = segment.scan(position, wanted, visit);
            position = rest.unwrap_or_else(|| segment.end_position());
            wanted = wanted.saturating_sub(visited);
            if wanted == 0 {
                break;
            }
        }
        if position < POSITION_END { position } else { 0 }
    }

    /// Visits all entries of `segments_max` segments from `cursor` on and removes those for which `keep` is false.
    /// Returns the cursor for the next slice, 0 at the end of the table.
    ///
    /// The promise of [`scan`](Self::scan) holds here too. A slice costs at most 448 visits a segment.
    pub fn scan_retain(
        &mut self,
        cursor: u64,
        segments_max: usize,
        keep: &mut dyn FnMut(&mut T) -> bool,
    ) -> u64 {
        let mut position = cursor;
        for _ in 0..segments_max.max(1) {
            if position >= POSITION_END {
                break;
            }
            let hash = position << (64 - POSITION_BITS);
            let segment = self.segment_mut(hash);
            let end = segment.end_position();
            let len_before = segment.len();
            segment.entries.retain(|slot| slot.position() < position || keep(&mut slot.value));
            let removed = len_before - segment.len();
            let is_sparse = segment.is_sparse();
            if let State::Split(directory) = &mut self.state {
                directory.len -= removed;
            }
            if is_sparse {
                self.give_back(hash);
            }
            position = end;
        }
        if position < POSITION_END { position } else { 0 }
    }

    /// A random entry, each equally likely as long as segments have their usual size; `None` if there is none.
    ///
    /// Picks a segment and a bucket in it until that holds an entry: as all buckets of the table are
    /// equally likely, so are the entries, however full their segments are.
    pub fn random(&self, random: u64, random2: u64) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        let mut random = Random::new(random ^ random2.rotate_left(32));
        let segments = self.segments();
        for _ in 0..RANDOM_TRIES_MAX {
            let entries = &segments[random.below(segments.len() as u64) as usize].entries;
            // Small segments are picked as if they had the usual number of buckets, the rest empty.
            let buckets = if segments.len() == 1 { 1 } else { BUCKETS_MAX }.max(entries.num_buckets());
            if let Some(slot) = entries.get_bucket(random.below(buckets as u64) as usize) {
                return Some(&slot.value);
            }
        }
        let start = random.below(segments.len() as u64) as usize;
        let (before, after) = segments.split_at(start);
        let slots = after.iter().chain(before).flat_map(|segment| segment.entries.iter());
        slots.map(|slot| &slot.value).next()
    }

    /// Takes at most one segment's entries out; `None` when the table is empty. Frees a large table in slices.
    pub fn drain_segment(&mut self) -> Option<Vec<T>> {
        let (taken, hash) = match &mut self.state {
            State::Single(segment) => (std::mem::take(&mut segment.entries), 0),
            State::Split(directory) => {
                let number = directory.last_occupied()?;
                let segment = &mut directory.segments[number];
                let taken = std::mem::take(&mut segment.entries);
                directory.len -= taken.len();
                (taken, (segment.end_position() - 1) << (64 - POSITION_BITS))
            }
        };
        self.give_back(hash);
        (!taken.is_empty()).then(|| taken.into_iter().map(|slot| slot.value).collect())
    }
}
