//! Values and databases that have left the keyspace and take long to free: they are freed in slices.
//!
//! If a snapshot has not saved a flushed database yet, the database is first shown to it, as far as the
//! snapshot has room.
//!
//! Not here: how often a slice is freed (`cron.rs`, `eviction/`).

use std::collections::VecDeque;

use engine::Garbage;

use observe::ThreadStats;

/// Number of values and databases that may wait without the thread being considered behind.
const PIECES_MAX: usize = 64;

/// The values and databases that a thread still has to free.
#[derive(Default)]
pub struct Bin {
    pieces: VecDeque<Garbage>,
}

impl Bin {
    /// Adds something that has left the keyspace.
    pub fn add(&mut self, garbage: Garbage, stats: &ThreadStats) {
        self.pieces.push_back(garbage);
        stats.garbage.set(self.pieces.len() as u64);
    }

    /// Whether something can be freed now. `has_room`: the snapshot has room for a database that must be
    /// shown to it.
    pub fn has_work(&self, has_room: bool) -> bool {
        self.pieces.iter().any(|garbage| !garbage.is_cut() || has_room)
    }

    /// Whether too much that can be freed now is waiting: more arrives than a few slices in each turn free.
    pub fn is_behind(&self) -> bool {
        self.pieces.len() > PIECES_MAX && self.pieces.front().is_some_and(|garbage| !garbage.is_cut())
    }

    /// Frees a slice, or shows it to the snapshot as long as the closure that `time` returns allows. Returns
    /// false if nothing is left.
    #[inline]
    pub fn free_slice<F: FnMut() -> bool>(&mut self, time: impl FnOnce() -> F, stats: &ThreadStats) -> bool {
        let Some(garbage) = self.pieces.pop_front() else { return false };
        self.free_slice_of(garbage, time, stats);
        true
    }

    #[cold]
    fn free_slice_of<F: FnMut() -> bool>(
        &mut self,
        mut garbage: Garbage,
        time: impl FnOnce() -> F,
        stats: &ThreadStats,
    ) {
        if garbage.is_cut() {
            garbage.continue_cut(&mut time());
            self.pieces.push_back(garbage);
        } else {
            let (object_count, is_gone) = garbage.free_slice();
            stats.lazily_freed.add(object_count as u64);
            if !is_gone {
                self.pieces.push_front(garbage);
            }
        }
        stats.garbage.set(self.pieces.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use ds::list::End;
    use keyspace::List;
    use keyspace::Value;

    use super::*;

    /// A list of `len` elements that has left the keyspace.
    fn list(len: usize) -> Garbage {
        let mut list = List::new();
        for number in 0..len {
            list.push(End::Tail, number.to_string().as_bytes());
        }
        Garbage::Value(Value::List(Box::new(list)))
    }

    #[test]
    fn it_is_behind_while_more_waits_than_may() {
        let stats = ThreadStats::new(0);
        let mut bin = Bin::default();
        (0..PIECES_MAX).for_each(|_| bin.add(list(1000), &stats));
        assert!(!bin.is_behind());
        bin.add(list(1000), &stats);
        assert!(bin.is_behind());
        while bin.is_behind() {
            assert!(bin.free_slice(|| || false, &stats));
        }
        assert_eq!(stats.garbage.get(), PIECES_MAX as u64);
    }

    #[test]
    fn what_is_large_goes_in_slices_and_all_of_it_goes() {
        let stats = ThreadStats::new(0);
        let mut bin = Bin::default();
        bin.add(list(100_000), &stats);
        bin.add(list(3), &stats);
        let free = |bin: &mut Bin| bin.free_slice(|| || true, &stats);
        assert!(free(&mut bin) && bin.has_work(false));
        assert_eq!((stats.garbage.get(), stats.lazily_freed.get()), (2, 0));
        let slice_count = (0..).take_while(|_| free(&mut bin)).count();
        assert!(slice_count >= 2, "{slice_count}");
        assert!(!bin.has_work(true));
        assert_eq!((stats.garbage.get(), stats.lazily_freed.get()), (0, 2));
    }
}
