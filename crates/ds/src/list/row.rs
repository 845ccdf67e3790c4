//! The row of a list's nodes: a deque that never moves more than one chunk of them.
//!
//! ```text
//! lone item:  n        several: ─▶ first: [ n n n ]   rest: [ n n n n ] [ n n n n ] [ n n ]
//! ```
//!
//! A short list has one node, which is stored in the row itself; several are stored in chunks. A plain deque of
//! millions of nodes takes milliseconds to move when it outgrows its allocation. Here only the row of chunks is moved,
//! which is a few hundred times shorter.
//!
//! State that is only needed for several items is stored beside their chunks; its type is a parameter.
//!
//! Invariant: chunks between the first and the last are full, and none is empty except a lone first one. So an index is
//! located by division. An insertion in the middle moves one node of each following chunk on to the next.

use std::collections::VecDeque;
use std::mem;
use std::ops::{Index, IndexMut};

use crate::mover::{Mover, move_box, move_deque};

/// Unit tests use small chunks, so that their lists have many.
const CHUNK_LEN: usize = if cfg!(test) { 4 } else { 512 };

/// A lone first chunk keeps its capacity if that is at most this, or if a quarter of it is used.
const CAPACITY_KEPT: usize = 64;

/// A deque in chunks, with a special form for one item.
#[derive(Clone)]
pub(super) enum Row<T, Beside> {
    /// The only item.
    Lone(T),
    /// Several items, or those that are left of them; `None` if there never were several.
    Several(Option<Box<Chunks<T, Beside>>>),
}

#[derive(Clone)]
pub(super) struct Chunks<T, Beside> {
    first: VecDeque<T>,
    rest: VecDeque<VecDeque<T>>,
    beside: Beside,
}

impl<T, Beside> Default for Row<T, Beside> {
    fn default() -> Self {
        Self::Several(None)
    }
}

impl<T, Beside: Default> Row<T, Beside> {
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Lone(_) => 1,
            Self::Several(chunks) => chunks.as_ref().map_or(0, |chunks| chunks.len()),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.front().is_none()
    }

    /// Whether there is more than one item.
    #[inline]
    pub(super) fn has_more_than_one(&self) -> bool {
        matches!(self, Self::Several(Some(chunks)) if chunks.first.len() + chunks.rest.len() > 1)
    }

    /// Bytes that it has allocated, without those that the items own.
    pub(super) fn memory_bytes(&self) -> usize {
        let Self::Several(Some(chunks)) = self else { return 0 };
        let chunk_bytes = |chunk: &VecDeque<T>| chunk.capacity() * size_of::<T>();
        let row_bytes = size_of_val(&**chunks) + chunks.rest.capacity() * size_of::<VecDeque<T>>();
        row_bytes + chunk_bytes(&chunks.first) + chunks.rest.iter().map(chunk_bytes).sum::<usize>()
    }

    /// Moves its own memory if the mover asks for it, except that of full chunks, which are large.
    pub(super) fn relocate(&mut self, mover: &mut dyn Mover) {
        if let Self::Several(Some(chunks)) = self {
            move_box(chunks, mover);
            move_deque(&mut chunks.first, mover);
            move_deque(&mut chunks.rest, mover);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let (lone, chunks) = match self {
            Self::Lone(item) => (Some(item), None),
            Self::Several(chunks) => (None, chunks.as_deref()),
        };
        lone.into_iter().chain(chunks.into_iter().flat_map(Chunks::iter))
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = T> {
        let (lone, chunks) = match self {
            Self::Lone(item) => (Some(item), None),
            Self::Several(chunks) => (None, chunks),
        };
        let in_chunks = |chunks: Box<Chunks<T, Beside>>| {
            chunks.first.into_iter().chain(chunks.rest.into_iter().flatten())
        };
        lone.into_iter().chain(chunks.into_iter().flat_map(in_chunks))
    }

    /// The only item, if it is stored in the row itself.
    #[inline]
    pub(super) fn lone(&self) -> Option<&T> {
        if let Self::Lone(item) = self { Some(item) } else { None }
    }

    /// The state beside several items.
    #[inline]
    pub(super) fn beside(&self) -> Option<&Beside> {
        if let Self::Several(Some(chunks)) = self { Some(&chunks.beside) } else { None }
    }

    /// Like [`beside`](Self::beside), mutable.
    #[inline]
    pub(super) fn beside_mut(&mut self) -> Option<&mut Beside> {
        if let Self::Several(Some(chunks)) = self { Some(&mut chunks.beside) } else { None }
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&T> {
        match self {
            Self::Lone(item) => (at == 0).then_some(item),
            Self::Several(chunks) => chunks.as_ref()?.get(at),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        match self {
            Self::Lone(item) => (at == 0).then_some(item),
            Self::Several(chunks) => chunks.as_mut()?.get_mut(at),
        }
    }

    #[inline]
    pub(super) fn front(&self) -> Option<&T> {
        match self {
            Self::Lone(item) => Some(item),
            Self::Several(chunks) => chunks.as_ref()?.first.front(),
        }
    }

    #[inline]
    pub(super) fn back(&self) -> Option<&T> {
        match self {
            Self::Lone(item) => Some(item),
            Self::Several(chunks) => chunks.as_ref()?.last().back(),
        }
    }

    /// The first or last item, and the state beside several items.
    #[inline]
    pub(super) fn end_mut(&mut self, is_front: bool) -> Option<(&mut T, Option<&mut Beside>)> {
        match self {
            Self::Lone(item) => Some((item, None)),
            Self::Several(chunks) => {
                let Chunks { first, rest, beside } = &mut **chunks.as_mut()?;
                let item =
                    if is_front { first.front_mut() } else { rest.back_mut().unwrap_or(first).back_mut() };
                Some((item?, Some(beside)))
            }
        }
    }

    /// The last item.
    pub(super) fn back_mut(&mut self) -> Option<&mut T> {
        self.end_mut(false).map(|(item, _)| item)
    }

    /// Inserts an item before the one at `at`, or at the end if `at` is the length.
    pub(super) fn insert(&mut self, at: usize, item: T) {
        match mem::take(self) {
            Self::Several(None) => *self = Self::Lone(item),
            Self::Several(Some(chunks)) => self.several(chunks).insert(at, item),
            Self::Lone(lone) => {
                let first = VecDeque::from([lone]);
                self.several(Box::new(Chunks { first, rest: VecDeque::new(), beside: Beside::default() }))
                    .insert(at, item);
            }
        }
    }

    /// Makes these the items of the row.
    fn several(&mut self, chunks: Box<Chunks<T, Beside>>) -> &mut Chunks<T, Beside> {
        *self = Self::Several(Some(chunks));
        match self {
            Self::Several(Some(chunks)) => chunks,
            Self::Several(None) | Self::Lone(_) => unreachable!("it was made so"),
        }
    }

    pub(super) fn push_back(&mut self, item: T) {
        self.insert(self.len(), item);
    }

    /// Removes and returns the item at `at`.
    pub(super) fn remove(&mut self, at: usize) -> Option<T> {
        match self {
            Self::Lone(_) if at > 0 => None,
            Self::Lone(_) => mem::take(self).into_iter().next(),
            Self::Several(chunks) => chunks.as_mut()?.remove(at),
        }
    }

    /// Frees unused memory.
    pub(super) fn shrink_to_fit(&mut self) {
        match self {
            Self::Several(Some(chunks)) if chunks.len() < 2 => {
                *self = chunks.first.pop_back().map_or_else(Self::default, Self::Lone);
            }
            Self::Several(Some(chunks)) => chunks.first.shrink_to_fit(),
            Self::Several(None) | Self::Lone(_) => {}
        }
    }

    pub(super) fn debug_validate(&self) {
        if let Self::Several(Some(chunks)) = self {
            chunks.debug_validate();
        }
    }
}

impl<T, Beside> Chunks<T, Beside> {
    #[inline]
    fn len(&self) -> usize {
        let behind_first = self.rest.back().map(|last| (self.rest.len() - 1) * CHUNK_LEN + last.len());
        self.first.len() + behind_first.unwrap_or(0)
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.rest.iter().flatten())
    }

    #[inline]
    fn get(&self, at: usize) -> Option<&T> {
        match self.place(at) {
            (0, within) => self.first.get(within),
            (chunk, within) => self.rest.get(chunk - 1)?.get(within),
        }
    }

    #[inline]
    fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        match self.place(at) {
            (0, within) => self.first.get_mut(within),
            (chunk, within) => self.rest.get_mut(chunk - 1)?.get_mut(within),
        }
    }

    #[inline]
    fn last(&self) -> &VecDeque<T> {
        self.rest.back().unwrap_or(&self.first)
    }

    fn insert(&mut self, at: usize, item: T) {
        if at == 0 && self.first.len() == CHUNK_LEN {
            let full = mem::replace(&mut self.first, VecDeque::with_capacity(CHUNK_LEN));
            self.rest.push_front(full);
        }
        let fits_first = at <= self.first.len() && self.first.len() < CHUNK_LEN;
        let (mut chunk, mut within) = if fits_first { (0, at) } else { self.place(at) };
        let mut item = item;
        loop {
            if chunk == self.chunk_count() {
                self.rest.push_back(VecDeque::with_capacity(CHUNK_LEN));
            }
            let target = self.chunk_mut(chunk);
            let pushed_on = if target.len() == CHUNK_LEN { target.pop_back() } else { None };
            target.insert(within, item);
            let Some(next) = pushed_on else { return };
            (item, chunk, within) = (next, chunk + 1, 0);
        }
    }

    fn remove(&mut self, at: usize) -> Option<T> {
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

    /// Frees an empty chunk at either end, and unused capacity.
    fn tidy(&mut self) {
        if self.first.is_empty()
            && let Some(next) = self.rest.pop_front()
        {
            self.first = next;
        }
        if self.rest.back().is_some_and(VecDeque::is_empty) {
            self.rest.pop_back();
        }
        if self.rest.is_empty() {
            self.rest = VecDeque::new();
            give_back(&mut self.first);
        } else {
            give_back(&mut self.rest);
        }
    }

    fn chunk_count(&self) -> usize {
        1 + self.rest.len()
    }

    fn chunk_mut(&mut self, chunk: usize) -> &mut VecDeque<T> {
        match chunk.checked_sub(1) {
            Some(chunk) => &mut self.rest[chunk],
            None => &mut self.first,
        }
    }

    /// The chunk of an index, and the position in it.
    #[inline]
    fn place(&self, at: usize) -> (usize, usize) {
        match at.checked_sub(self.first.len()) {
            None => (0, at),
            Some(behind) => (1 + behind / CHUNK_LEN, behind % CHUNK_LEN),
        }
    }

    fn debug_validate(&self) {
        assert!(self.first.len() <= CHUNK_LEN);
        let Some(last) = self.rest.back() else { return };
        assert!(!self.first.is_empty() && (1..=CHUNK_LEN).contains(&last.len()));
        assert!(self.rest.iter().rev().skip(1).all(|chunk| chunk.len() == CHUNK_LEN));
    }
}

/// Shrinks a large allocation that is mostly unused.
fn give_back<T>(deque: &mut VecDeque<T>) {
    let (len, capacity) = (deque.len(), deque.capacity());
    if capacity > CAPACITY_KEPT && len < capacity / 4 {
        deque.shrink_to(capacity / 2);
    }
}

impl<T, Beside: Default> Index<usize> for Row<T, Beside> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        self.get(at).expect("the index is below the length")
    }
}

impl<T, Beside: Default> IndexMut<usize> for Row<T, Beside> {
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
            let (mut row, mut model) = (Row::<u32, ()>::default(), VecDeque::new());
            for step in 0..400_u32 {
                let len = model.len();
                let ends = [0, len, random.below(len as u64 + 1) as usize];
                let at = ends[random.below(3) as usize];
                // The row mostly grows first, then shrinks.
                if random.below(400) > u64::from(step) {
                    row.insert(at, step);
                    model.insert(at, step);
                } else {
                    let at = if at == len { at.saturating_sub(1) } else { at };
                    assert_eq!(row.remove(at), model.remove(at), "seed {seed}, step {step}");
                }
                if random.below(20) == 0 {
                    row.shrink_to_fit();
                }
                row.debug_validate();
                assert!(row.iter().eq(model.iter()), "seed {seed}, step {step}");
                assert_eq!((row.len(), row.back()), (model.len(), model.back()), "seed {seed}, step {step}");
                assert_eq!((row.is_empty(), row.get(at)), (model.is_empty(), model.get(at)));
                assert_eq!((row.front(), row.has_more_than_one()), (model.front(), model.len() > 1));
                for (is_front, end) in [(true, model.front().copied()), (false, model.back().copied())] {
                    assert_eq!(row.end_mut(is_front).map(|(item, _)| *item), end);
                }
            }
            assert!(row.into_iter().eq(model));
        }
    }

    #[test]
    fn memory_comes_and_goes_with_chunks() {
        let mut row = Row::<u64, ()>::default();
        assert_eq!(row.memory_bytes(), 0);
        row.push_back(0_u64);
        assert_eq!(row.memory_bytes(), 0);
        (1..1000).for_each(|item| row.push_back(item));
        assert!(row.memory_bytes() < 2000 * size_of::<u64>() + 512 * size_of::<VecDeque<u64>>());
        (1..1000).for_each(|_| assert!(row.remove(0).is_some()));
        assert!(row.memory_bytes() > 0);
        row.shrink_to_fit();
        assert_eq!((row.memory_bytes(), row.lone()), (0, Some(&999)));
        assert_eq!((row.remove(1), row.remove(0), row.remove(0)), (None, Some(999), None));
    }
}
