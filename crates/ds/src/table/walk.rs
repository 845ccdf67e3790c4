//! Walks over a table: cursors, background slices, random picks, freeing in pieces.

use super::numbering::{POSITION_END, hash_at, position, positions_at};
use super::segment::Segment;
use super::{State, Table};
use crate::random::Random;

/// More buckets than a segment of usual size has.
const SEGMENT_BUCKETS_MAX: usize = 1024;
/// How often a random pick may meet an empty bucket before it takes the next entry it sees.
const RANDOM_TRIES_MAX: usize = 1000;

impl<T> Table<T> {
    /// The segment at a position, its first position and the number of its positions.
    fn segment_at(&self, position: u64) -> (&Segment<T>, u64, u64) {
        let segments = self.segments();
        let (first, count) = positions_at(segments.len(), position);
        (self.segment(hash_at(position)), first, count)
    }

    /// Visits entries in order of their positions from `cursor` on: at least `count` and at least one,
    /// unless fewer are left. Returns the cursor for the next call, 0 when nothing is left; it fits in 48
    /// bits.
    ///
    /// Begin with cursor 0. Whatever is present from the first call to the last is visited at least once,
    /// no matter what happens to the table in between. One call costs O(`count`) plus one segment.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, visit: &mut dyn FnMut(&'a T)) -> u64 {
        let wanted = count.max(1);
        let mut visited = 0;
        let mut from = cursor;
        while from < POSITION_END && visited < wanted {
            let (segment, first, positions) = self.segment_at(from);
            // Where entries are spread evenly, a bit more than the share of the segment that holds those wanted;
            // twice as much each time where they are not.
            let share = (wanted - visited).saturating_mul(5) / 4 + 4;
            let shares = (segment.len() / share) as u64 + 1;
            let mut step = (positions / shares).max(1);
            while from < first + positions && visited < wanted {
                let to = from.saturating_add(step).min(first + positions);
                visited += segment.visit_range(from, to, visit);
                step = step.saturating_mul(2);
                from = to;
            }
        }
        if from < POSITION_END { from } else { 0 }
    }

    /// Visits all entries of `segments_max` segments from `cursor` on and removes those for which `keep` is
    /// false. Returns the cursor for the next slice, 0 at the end of the table.
    ///
    /// The promise of [`scan`](Self::scan) holds here too. A segment has some hundred entries.
    pub fn scan_retain(
        &mut self,
        cursor: u64,
        segments_max: usize,
        keep: &mut dyn FnMut(&mut T) -> bool,
    ) -> u64 {
        let mut from = cursor;
        for _ in 0..segments_max.max(1) {
            if from >= POSITION_END {
                break;
            }
            let (_, first, positions) = self.segment_at(from);
            let mut retain = |segment: &mut Segment<T>| {
                let len_before = segment.len();
                segment.entries.retain(|slot| position(slot.hash) < from || keep(&mut slot.value));
                segment.shrink();
                len_before - segment.len()
            };
            match &mut self.state {
                State::Single(segment) => {
                    retain(segment);
                }
                State::Split(segments) => {
                    let number = segments.number_of(hash_at(from));
                    segments.len -= segments.change(number, retain);
                }
            }
            from = first + positions;
            self.merge_sparse();
        }
        if from < POSITION_END { from } else { 0 }
    }

    fn merge_sparse(&mut self) {
        while let State::Split(segments) = &self.state
            && segments.is_sparse()
        {
            self.merge_last();
        }
    }

    /// A random entry, each equally likely as long as segments have their usual size; `None` if there is
    /// none.
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
            // Smaller segments are picked as if they had as many buckets as the largest, the rest empty.
            let buckets =
                if segments.len() == 1 { 1 } else { SEGMENT_BUCKETS_MAX }.max(entries.num_buckets());
            if let Some(slot) = entries.get_bucket(random.below(buckets as u64) as usize) {
                return Some(&slot.value);
            }
        }
        let start = random.below(segments.len() as u64) as usize;
        let (before, after) = segments.split_at(start);
        let slots = after.iter().chain(before).flat_map(|segment| segment.entries.iter());
        slots.map(|slot| &slot.value).next()
    }

    /// Takes one segment's entries out; `None` when the table is empty. Frees a large table in slices.
    pub fn drain_segment(&mut self) -> Option<Vec<T>> {
        while let State::Split(segments) = &mut self.state {
            let last = segments.all.len() - 1;
            let entries = segments.change(last, |segment| std::mem::take(&mut segment.entries));
            segments.len -= entries.len();
            self.merge_last();
            if !entries.is_empty() {
                return Some(entries.into_iter().map(|slot| slot.value).collect());
            }
        }
        let State::Single(segment) = &mut self.state else { return None };
        let entries = std::mem::take(&mut segment.entries);
        (!entries.is_empty()).then(|| entries.into_iter().map(|slot| slot.value).collect())
    }
}
