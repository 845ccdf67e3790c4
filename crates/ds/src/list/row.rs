//! The row of a list's nodes: a deque that never moves more than one chunk of them.
//!
//! ```text
//! first: [ n n n ]   rest: [ n n n n ] [ n n n n ] [ n n ]
//! ```
//!
//! A plain deque of millions of nodes takes milliseconds to move when it outgrows its allocation. Here only the row of
//! chunks does, a few hundred times shorter. A short list has the first chunk and nothing else.
//!
//! Invariant: chunks between the first and the last are full, and none is empty but a lone first one. So an index
//! is found by division. What is inserted in the middle pushes one node of each chunk behind it on to the next.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use crate::mover::{Mover, move_box, move_deque};

/// Unit tests have small chunks, so that their lists have many.
const CHUNK_LEN: usize = if cfg!(test) { 4 } else { 512 };

/// A first chunk without others keeps its capacity while that is at most this, or a quarter of it is in use.
const CAPACITY_KEPT: usize = 64;

/// A deque in chunks; see the head of this file.
#[derive(Clone)]
pub(super) struct Row<T> {
    first: VecDeque<T>,
    #[expect(clippy::box_collection, reason = "most lists have none: the box saves them 24 bytes")]
    rest: Option<Box<VecDeque<VecDeque<T>>>>,
}

impl<T> Default for Row<T> {
    fn default() -> Self {
        Self { first: VecDeque::new(), rest: None }
    }
}

impl<T> Row<T> {
    pub(super) fn len(&self) -> usize {
        let behind_first =
            self.rest.as_ref().and_then(|rest| Some((rest.len() - 1) * CHUNK_LEN + rest.back()?.len()));
        self.first.len() + behind_first.unwrap_or(0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Bytes it has allocated, without what the items own.
    pub(super) fn memory_bytes(&self) -> usize {
        let chunk_bytes = |chunk: &VecDeque<T>| chunk.capacity() * size_of::<T>();
        let rest = self.rest.as_ref().map_or(0, |rest| {
            let row_bytes = size_of_val(&**rest) + rest.capacity() * size_of::<VecDeque<T>>();
            row_bytes + rest.iter().map(chunk_bytes).sum::<usize>()
        });
        chunk_bytes(&self.first) + rest
    }

    /// Moves the memory that it has itself, but for that of full chunks, which are large.
    pub(super) fn relocate(&mut self, mover: &mut dyn Mover) {
        move_deque(&mut self.first, mover);
        if let Some(rest) = &mut self.rest {
            move_box(rest, mover);
            move_deque(rest, mover);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.rest.iter().flat_map(|rest| rest.iter().flatten()))
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = T> {
        self.first.into_iter().chain(self.rest.into_iter().flat_map(|rest| rest.into_iter().flatten()))
    }

    pub(super) fn get(&self, at: usize) -> Option<&T> {
        let (chunk, within) = self.place(at);
        match chunk.checked_sub(1) {
            None => self.first.get(within),
            Some(chunk) => self.rest.as_ref()?.get(chunk)?.get(within),
        }
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let (chunk, within) = self.place(at);
        match chunk.checked_sub(1) {
            None => self.first.get_mut(within),
            Some(chunk) => self.rest.as_mut()?.get_mut(chunk)?.get_mut(within),
        }
    }

    pub(super) fn back(&self) -> Option<&T> {
        self.rest.as_ref().map_or(&self.first, |rest| &rest[rest.len() - 1]).back()
    }

    pub(super) fn back_mut(&mut self) -> Option<&mut T> {
        let chunk = self.chunk_count() - 1;
        self.chunk_mut(chunk).back_mut()
    }

    /// Adds an item before the one at `at`, or at the end if that is the length.
    pub(super) fn insert(&mut self, at: usize, item: T) {
        if self.first.capacity() == 0 {
            self.first.reserve_exact(1);
        }
        if at == 0 && self.first.len() == CHUNK_LEN {
            let full = std::mem::replace(&mut self.first, VecDeque::with_capacity(CHUNK_LEN));
            self.rest.get_or_insert_default().push_front(full);
        }
        let fits_first = at <= self.first.len() && self.first.len() < CHUNK_LEN;
        let (mut chunk, mut within) = if fits_first { (0, at) } else { self.place(at) };
        let mut item = item;
        loop {
            if chunk == self.chunk_count() {
                self.rest.get_or_insert_default().push_back(VecDeque::with_capacity(CHUNK_LEN));
            }
            let target = self.chunk_mut(chunk);
            let pushed_on = if target.len() == CHUNK_LEN { target.pop_back() } else { None };
            target.insert(within, item);
            let Some(next) = pushed_on else { return };
            (item, chunk, within) = (next, chunk + 1, 0);
        }
    }

    pub(super) fn push_back(&mut self, item: T) {
        self.insert(self.len(), item);
    }

    /// Takes the item at `at` out.
    pub(super) fn remove(&mut self, at: usize) -> Option<T> {
        let (chunk, within) = self.place(at);
        if chunk >= self.chunk_count() {
            return None;
        }
        let item = self.chunk_mut(chunk).remove(within)?;
        if chunk > 0 {
            for next in chunk + 1..self.chunk_count() {
                let moved = self.chunk_mut(next).pop_front().expect("no chunk of the rest is empty");
                self.chunk_mut(next - 1).push_back(moved);
            }
        }
        self.tidy();
        Some(item)
    }

    /// Gives back memory that nothing uses.
    pub(super) fn shrink_to_fit(&mut self) {
        self.first.shrink_to_fit();
    }

    /// Lets go of an empty chunk at either end, and of capacity.
    fn tidy(&mut self) {
        let Some(rest) = &mut self.rest else {
            let (len, capacity) = (self.first.len(), self.first.capacity());
            if capacity > CAPACITY_KEPT && len < capacity / 4 {
                self.first.shrink_to(capacity / 2);
            }
            return;
        };
        if self.first.is_empty()
            && let Some(next) = rest.pop_front()
        {
            self.first = next;
        }
        if rest.back().is_some_and(VecDeque::is_empty) {
            rest.pop_back();
        }
        if rest.is_empty() {
            self.rest = None;
        } else if rest.capacity() > CAPACITY_KEPT && rest.len() < rest.capacity() / 4 {
            rest.shrink_to(rest.capacity() / 2);
        }
    }

    fn chunk_count(&self) -> usize {
        1 + self.rest.as_ref().map_or(0, |rest| rest.len())
    }

    fn chunk_mut(&mut self, chunk: usize) -> &mut VecDeque<T> {
        match (chunk.checked_sub(1), &mut self.rest) {
            (Some(chunk), Some(rest)) => &mut rest[chunk],
            _ => &mut self.first,
        }
    }

    /// The chunk of an index and the place in it.
    fn place(&self, at: usize) -> (usize, usize) {
        match at.checked_sub(self.first.len()) {
            None => (0, at),
            Some(behind) => (1 + behind / CHUNK_LEN, behind % CHUNK_LEN),
        }
    }

    pub(super) fn debug_validate(&self) {
        assert!(self.first.len() <= CHUNK_LEN);
        let Some(rest) = &self.rest else { return };
        assert!(
            !self.first.is_empty() && rest.back().is_some_and(|last| (1..=CHUNK_LEN).contains(&last.len()))
        );
        assert!(rest.iter().rev().skip(1).all(|chunk| chunk.len() == CHUNK_LEN));
    }
}

impl<T> Index<usize> for Row<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        self.get(at).expect("the index is below the length")
    }
}

impl<T> IndexMut<usize> for Row<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        self.get_mut(at).expect("the index is below the length")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn behaves_like_one_deque() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut row, mut model) = (Row::default(), VecDeque::new());
            for step in 0..400_u32 {
                let len = model.len();
                let ends = [0, len, random.below(len as u64 + 1) as usize];
                let at = ends[random.below(3) as usize];
                // Grows first, then shrinks.
                if random.below(400) > u64::from(step) {
                    row.insert(at, step);
                    model.insert(at, step);
                } else {
                    let at = if at == len { at.saturating_sub(1) } else { at };
                    assert_eq!(row.remove(at), model.remove(at), "seed {seed}, step {step}");
                }
                row.debug_validate();
                assert!(row.iter().eq(model.iter()), "seed {seed}, step {step}");
                assert_eq!((row.len(), row.back()), (model.len(), model.back()), "seed {seed}, step {step}");
                assert_eq!((row.is_empty(), row.get(at)), (model.is_empty(), model.get(at)));
            }
            assert!(row.into_iter().eq(model));
        }
    }

    #[test]
    fn memory_comes_and_goes_with_chunks() {
        let mut row = Row::default();
        assert_eq!(row.memory_bytes(), 0);
        row.push_back(0_u64);
        assert_eq!(row.memory_bytes(), size_of::<u64>());
        (1..1000).for_each(|item| row.push_back(item));
        assert!(row.memory_bytes() < 2000 * size_of::<u64>() + 512 * size_of::<VecDeque<u64>>());
        (1..1000).for_each(|_| assert!(row.remove(0).is_some()));
        row.shrink_to_fit();
        assert_eq!(row.memory_bytes(), size_of::<u64>());
        assert_eq!((row.remove(0), row.remove(0)), (Some(999), None));
    }
}
