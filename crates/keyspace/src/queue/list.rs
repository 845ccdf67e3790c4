//! A list in the keyspace: its elements, and what is known of it if it is a queue.
//!
//! Every change of the elements goes through here and is told to the list's [`Seen`], so no command has to. The elements
//! themselves (`ds/list`) know nothing of queues. Reading is theirs: the list lends them ([`Deref`]).

use std::ops::Deref;

use ds::list::{Bookmark, End, List as Elements, ListLimits};
use ds::mover::{Mover, WalkPosition, move_box};

use super::seen::Seen;
use super::taken_at::Shown;

/// An ordered sequence of byte strings, observed if it is a queue.
#[derive(Clone, Default)]
pub struct List {
    /// Its mark is the [`Shown`] of a list that is not known to be a queue.
    elements: Elements,
    /// In a box, so that other lists stay small.
    seen: Option<Box<Seen>>,
}

// Most lists are short.
const _: () = assert!(size_of::<List>() == 48);

impl Deref for List {
    type Target = Elements;
    #[inline]
    fn deref(&self) -> &Elements {
        &self.elements
    }
}

/// What is known of a queue.
impl List {
    /// What is known of the queue, if the list is one.
    #[inline]
    pub fn seen(&self) -> Option<&Seen> {
        self.seen.as_deref()
    }

    /// What is known of the queue, if the list is one.
    #[inline]
    pub fn seen_mut(&mut self) -> Option<&mut Seen> {
        self.seen.as_deref_mut()
    }

    /// Replaces what is known of the queue. Without it, the list is none.
    pub fn set_seen(&mut self, seen: Option<Seen>) {
        self.seen = seen.map(Box::new);
    }

    /// What is known of the queue; begins with the result of `begin` if the list was none.
    pub fn seen_or_begin(&mut self, begin: impl FnOnce() -> Seen) -> &mut Seen {
        self.seen.get_or_insert_with(|| Box::new(begin()))
    }

    /// How clients have used it, while it was not known to be a queue.
    #[inline]
    pub fn shown(&self) -> Shown {
        Shown::from_mark(self.elements.mark)
    }

    #[inline]
    pub(super) fn set_shown(&mut self, shown: Shown) {
        self.elements.mark = shown.mark();
    }

    /// Sets the time at which the following changes happen. Only queues need it.
    #[inline]
    pub fn set_time(&mut self, now_ms: u64) {
        if let Some(seen) = &mut self.seen {
            seen.set_time(now_ms);
        }
    }

    /// Bytes that the list has allocated, as requested; the allocator's overhead is not counted.
    pub fn memory_bytes(&self) -> usize {
        let seen = self.seen.as_ref().map_or(0, |seen| size_of::<Seen>() + seen.memory_bytes());
        self.elements.memory_bytes() + seen
    }

    /// Moves its memory from `place` on as long as the mover has time. Returns true at the end, with `place` reset to
    /// the beginning.
    pub fn defragment(&mut self, place: &mut WalkPosition, mover: &mut dyn Mover) -> bool {
        if let Some(seen) = self.seen.as_mut().filter(|_| place.part == 0) {
            move_box(seen, mover);
            seen.relocate(mover);
        }
        self.elements.defragment(place, mover)
    }

    /// Checks every invariant; for tests.
    pub fn debug_validate(&self) {
        self.elements.debug_validate();
        if let Some(seen) = &self.seen {
            seen.arrivals().debug_validate(self.len());
        }
    }
}

/// Changes. See [`Elements`] for what each does, and for when it panics.
impl List {
    /// An empty list; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an element at one end.
    #[inline]
    pub fn push(&mut self, end: End, value: &[u8]) {
        self.elements.push(end, value);
        if let Some(seen) = &mut self.seen {
            seen.pushed(end, 1, self.elements.len());
        }
    }

    /// Adds elements at one end, one after the other, as a client does: that shows which end is which.
    #[inline]
    pub fn push_all(&mut self, end: End, values: &[&[u8]]) {
        self.elements.push_all(end, values);
        match &mut self.seen {
            Some(seen) => {
                seen.pushed(end, values.len(), self.elements.len());
                seen.pushed_by_client(end);
            }
            None => {
                let mut shown = self.shown();
                shown.push(end);
                self.set_shown(shown);
            }
        }
    }

    /// Removes and returns the element at one end.
    pub fn pop(&mut self, end: End) -> Option<Vec<u8>> {
        self.pop_with(end, <[u8]>::to_vec)
    }

    /// Removes the element at one end after `visit` has read it in place.
    #[inline(always)]
    pub fn pop_with<R>(&mut self, end: End, visit: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let result = self.elements.pop_with(end, visit)?;
        match &mut self.seen {
            Some(seen) => seen.popped(end, self.elements.len()),
            None => {
                let mut shown = self.shown();
                shown.pop(end);
                self.set_shown(shown);
            }
        }
        Some(result)
    }

    /// Replaces the element at `index`, which counts from the tail if negative. Returns whether it exists.
    pub fn set(&mut self, index: i64, value: &[u8]) -> bool {
        self.elements.set(index, value)
    }

    /// Inserts an element before `index`, or at the tail if `index` is the length.
    pub fn insert(&mut self, index: usize, value: &[u8]) {
        self.elements.insert(index, value);
        self.note_inserted(index);
    }

    /// Inserts an element before or after the first one from the head that equals `pivot`. Returns the new length, or
    /// `None` if there is no such element.
    pub fn insert_relative(
        &mut self,
        pivot: &[u8],
        before: bool,
        value: &[u8],
        on_node: impl FnMut(usize),
    ) -> Option<usize> {
        let index = self.elements.insert_relative(pivot, before, value, on_node)?;
        self.note_inserted(index);
        Some(self.len())
    }

    fn note_inserted(&mut self, index: usize) {
        let len = self.elements.len();
        assert!(index < len, "what was inserted is in the list");
        match &mut self.seen {
            Some(seen) if index == 0 => seen.pushed(End::Head, 1, len),
            Some(seen) if index + 1 == len => seen.pushed(End::Tail, 1, len),
            Some(seen) => seen.inserted(index, len),
            None => {}
        }
    }

    /// Removes elements equal to `value`, as LREM counts: the first `count`, the last if it is negative, or all if it
    /// is zero. Returns the number removed.
    pub fn remove_matching(&mut self, count: i64, value: &[u8], on_node: impl FnMut(usize)) -> usize {
        let before = self.len();
        let removed = match &mut self.seen {
            None => self.elements.remove_matching(count, value, on_node),
            Some(seen) => {
                let mut removed = |index, len| seen.removed(index, 1, len);
                self.elements.remove_matching_observed(count, value, on_node, Some(&mut removed))
            }
        };
        assert_eq!(self.len() + removed, before, "as many elements are gone as were removed");
        removed
    }

    /// Removes elements of a node that was read in a search that began at `end`. `places` are their indexes in the
    /// node, in ascending order. The rest stays uncompressed. Returns the new position of the search.
    pub fn remove_in(&mut self, at: usize, places: &[usize], end: End) -> Option<Bookmark> {
        if let Some(seen) = &mut self.seen {
            let (first, len) = (self.elements.first_index(at), self.elements.len());
            for (gone, place) in places.iter().rev().enumerate() {
                seen.removed(first + place, 1, len - gone - 1);
            }
        }
        self.elements.remove_in(at, places, end)
    }

    /// Removes up to `count` elements at the head.
    pub fn drop_front(&mut self, count: usize) {
        let dropped = count.min(self.len());
        self.elements.drop_front(count);
        self.note_trimmed(dropped);
    }

    /// Removes up to `count` elements at the tail.
    pub fn drop_back(&mut self, count: usize) {
        self.elements.drop_back(count);
        self.note_trimmed(0);
    }

    /// Keeps `keep` elements from index `start` on.
    pub fn trim(&mut self, start: usize, keep: usize) {
        let dropped = start.min(self.len());
        self.elements.trim(start, keep);
        self.note_trimmed(dropped);
    }

    fn note_trimmed(&mut self, dropped: usize) {
        if let Some(seen) = &mut self.seen {
            seen.trimmed(dropped, self.elements.len());
        }
    }

    /// Drops a bounded part of the contents. Returns false when nothing is left. Frees a long list in slices.
    pub fn free_slice(&mut self) -> bool {
        self.seen = None;
        self.elements.free_slice()
    }

    /// Compresses nodes in the middle of a long list. Returns whether some are left to be compressed.
    #[inline]
    pub fn compress_inner(&mut self, limits: &ListLimits) -> bool {
        self.elements.compress_inner(limits)
    }

    /// Compresses the node at this position of a search, which a removal has left uncompressed.
    pub fn compress_at(&mut self, place: Bookmark) -> Bookmark {
        self.elements.compress_at(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ds::random::Random;

    /// Every way to change a list tells how many elements came and went, and where.
    #[test]
    fn arrivals_follow_the_elements_whatever_changes_them() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut list = List::new();
            list.set_seen(Some(Seen::default()));
            for step in 0..200 {
                list.set_time(step);
                let (len, value) = (list.len() as u64, [b'a' + random.below(4) as u8; 40]);
                let end = if random.below(2) == 0 { End::Head } else { End::Tail };
                match random.below(12) {
                    0..3 => list.push(end, &value),
                    3 => list.push_all(end, &[&value, b"b", b"c"]),
                    4 => _ = list.pop(end),
                    5 => list.insert(random.below(len + 1) as usize, &value),
                    6 => _ = list.insert_relative(&value, step % 2 == 0, b"pivot", |_| ()),
                    7 => _ = list.remove_matching(random.below(5) as i64 - 2, &value, |_| ()),
                    8 if random.below(4) == 0 => {
                        list.trim(random.below(len + 2) as usize, random.below(len + 2) as usize);
                    }
                    9 => list.drop_front(random.below(3) as usize),
                    10 => list.drop_back(random.below(3) as usize),
                    11 if len > 0 => {
                        let at = list.node_after(end, None).expect("there is a node");
                        _ = list.remove_in(at, &[0], end);
                    }
                    _ => _ = list.set(0, &value),
                }
                list.debug_validate();
            }
            list.clone().debug_validate();
            while list.free_slice() {}
            assert!(list.is_empty() && list.seen().is_none());
        }
    }
}
