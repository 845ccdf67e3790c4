//! Searching a list a few nodes at a time, while elements come and go in between.
//!
//! A search reads one node after the other ([`List::read_node`]), and may pause after any of them. Changes meanwhile
//! shift indexes and nodes, so the position is kept as a [`Bookmark`]: the last node read, identified by its memory.
//!
//! ```text
//!        pushes ─▶ [ e e ] [ e e e ] [ e e e ] [ e e e ] [ e ] ─▶ pops
//!                    next ◀─────────── ▲ bookmark ◀───── begins here
//! ```
//!
//! Pushes, pops and changes elsewhere leave that node alone, compressed or not. If it is gone or was changed, the
//! search starts again: it may read elements twice, but misses none that is there all the time. (A node that reuses the
//! memory of one that is gone has another length or number of elements, unless all elements have the same length.)

use super::entry::Entries;
use super::node::ListNode;
use super::nodes::Nodes;
use super::{End, List};

/// The position after a node that was read, in the direction of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bookmark {
    /// Index of the node at the time.
    at: usize,
    node: Identity,
}

type Identity = (usize, usize, usize);

/// The elements of one node.
pub struct Stretch<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Stretch<'a> {
    /// All elements, with other bytes between them: a text that is not in here is in no element.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The elements, from the head on.
    pub fn elements(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> + use<'a> {
        Entries::new(self.bytes)
    }
}

impl List {
    /// Number of nodes. Their indexes count from the head.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The index of a node's first element.
    pub fn first_index(&self, at: usize) -> usize {
        let count = |nodes: std::ops::Range<usize>| nodes.map(|at| self.nodes[at].count()).sum::<usize>();
        if at <= self.nodes.len() / 2 { count(0..at) } else { self.len() - count(at..self.nodes.len()) }
    }

    /// Calls `read` with the elements of a node; if it is compressed, with a copy.
    pub fn read_node<R>(&self, at: usize, read: impl FnOnce(&Stretch<'_>) -> R) -> R {
        let node = &self.nodes[at];
        let count = node.count();
        if node.is_compressed() {
            node.copy_expanded(|bytes| read(&Stretch { bytes, count }))
        } else {
            read(&Stretch { bytes: node.bytes(), count })
        }
    }

    /// The position after this node.
    pub fn bookmark(&self, at: usize) -> Bookmark {
        Bookmark { at, node: identity(&self.nodes[at]) }
    }

    /// The next node of a search that began at `end` and has reached `place`. Returns `None` at the end of the search.
    pub fn node_after(&self, end: End, place: Option<&Bookmark>) -> Option<usize> {
        let at = match (place.and_then(|place| find(&self.nodes, place)), end) {
            (Some(at), End::Head) => at + 1,
            (Some(at), End::Tail) => at.checked_sub(1)?,
            (None, End::Head) => 0,
            (None, End::Tail) => self.nodes.len().checked_sub(1)?,
        };
        (at < self.nodes.len() && !self.is_empty()).then_some(at)
    }

    /// Removes elements of a node that was read in a search that began at `end`. `places` are their indexes in the
    /// node, in ascending order. The rest stays uncompressed. Returns the new position of the search.
    pub fn remove_in(&mut self, at: usize, places: &[usize], end: End) -> Option<Bookmark> {
        self.expand(at);
        let node = &mut self.nodes[at];
        let (mut place, mut rest) = (0, places);
        node.retain(|_| {
            let goes = rest.first() == Some(&place);
            rest = if goes { &rest[1..] } else { rest };
            place += 1;
            !goes
        });
        assert!(rest.is_empty(), "only existing elements are removed");
        self.nodes.count_out(places.len());
        let read_before = match end {
            End::Head => at.checked_sub(1),
            End::Tail => Some(at + 1).filter(|next| *next < self.nodes.len()),
        };
        let last_read = if self.nodes[at].count() == 0 {
            self.nodes.take(at);
            read_before.map(|before| before.min(at))
        } else {
            // Not with the other neighbour, which has not been read yet.
            let left = read_before.map(|before| before.min(at)).filter(|left| self.merge(*left));
            left.or(Some(at))
        };
        self.after_drop();
        self.after_removal();
        last_read.map(|at| self.bookmark(at))
    }

    /// Compresses the node of a bookmark, if that is worthwhile. Returns the updated bookmark.
    pub fn compress_at(&mut self, place: Bookmark) -> Bookmark {
        match find(&self.nodes, &place) {
            Some(at) if self.compress(at) => self.bookmark(at),
            _ => place,
        }
    }
}

/// The current index of a bookmark's node.
fn find(nodes: &Nodes, place: &Bookmark) -> Option<usize> {
    let is_it = |at: &usize| nodes.get(*at).is_some_and(|node| identity(node) == place.node);
    (0..nodes.len().max(place.at + 1))
        .flat_map(|shift| [place.at.checked_sub(shift), Some(place.at + shift)])
        .flatten()
        .find(is_it)
}

/// Distinguishes a node from others.
fn identity(node: &ListNode) -> Identity {
    (node.address(), node.used_bytes(), node.count())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::list::ListLimits;
    use crate::random::Random;

    const LIMITS: ListLimits = ListLimits { nodes_min: 6, plain_nodes: 2, plain_part: 1 };

    struct Changing {
        list: List,
        random: Random,
        next: u64,
        /// The elements that have been in the list since the search began.
        stayed: BTreeSet<Vec<u8>>,
    }

    impl Changing {
        fn push(&mut self, end: End) {
            let text =
                format!("{} is one of them, and {}", self.next, "x".repeat((self.next % 300) as usize));
            self.next += 1;
            self.list.push(end, text.as_bytes());
            self.list.compress_inner(&LIMITS);
        }

        /// What other clients do between two steps of a search.
        fn let_others_in(&mut self) {
            for _ in 0..self.random.below(60) {
                let end = if self.random.below(2) == 0 { End::Head } else { End::Tail };
                match self.random.below(12) {
                    0..5 => self.push(end),
                    5..11 => self.list.pop(end).map_or((), |gone| _ = self.stayed.remove(&gone)),
                    _ if !self.list.is_empty() => {
                        let index = self.random.below(self.list.len() as u64) as i64;
                        let gone = self.list.get(index).map(|element| element.to_vec()).unwrap_or_default();
                        assert_eq!(self.list.remove_matching(1, &gone, |_| {}), 1);
                        self.stayed.remove(&gone);
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn a_search_finds_what_is_there_all_the_time() {
        for seed in 0..150 {
            let random = Random::new(seed);
            let mut state = Changing { list: List::new(), random, next: 0, stayed: BTreeSet::new() };
            let end = if seed % 2 == 0 { End::Head } else { End::Tail };
            for _ in 0..state.random.below(1500) {
                state.push(End::Head);
            }
            state.stayed = state.list.iter(0, false).map(|element| element.to_vec()).collect();
            let removed_of_ten = state.random.below(11);
            let (mut place, mut seen, mut steps) = (None, BTreeSet::new(), 0);
            while let Some(at) = state.list.node_after(end, place.as_ref()) {
                let (first, len) = (state.list.first_index(at), state.list.len());
                let elements: Vec<Vec<u8>> =
                    state.list.read_node(at, |node| node.elements().map(<[u8]>::to_vec).collect());
                assert_eq!(state.list.locate(first), (at, 0));
                let wanted: Vec<usize> =
                    (0..elements.len()).filter(|_| state.random.below(10) < removed_of_ten).collect();
                if wanted.is_empty() {
                    place = Some(state.list.bookmark(at));
                } else {
                    let model: Vec<Vec<u8>> =
                        state.list.iter(0, false).map(|element| element.to_vec()).collect();
                    place = state.list.remove_in(at, &wanted, end);
                    assert_eq!(state.list.len(), len - wanted.len(), "seed {seed}");
                    let left = model
                        .iter()
                        .enumerate()
                        .filter(|(index, _)| !wanted.iter().any(|within| first + within == *index));
                    let list = &state.list;
                    assert!(
                        left.map(|(_, element)| &element[..]).eq(list.iter(0, false).map(|e| e.to_vec()))
                    );
                    wanted.iter().for_each(|within| _ = state.stayed.remove(&elements[*within]));
                    place = place.map(|place| state.list.compress_at(place));
                }
                seen.extend(elements);
                state.list.debug_validate();
                // The others stop eventually, so that the search ends.
                if steps < 200 {
                    state.let_others_in();
                    state.list.debug_validate();
                }
                steps += 1;
            }
            assert!(state.stayed.is_subset(&seen), "seed {seed}: something was passed over");
        }
    }

    #[test]
    fn a_bookmark_outlives_pushes_and_pops() {
        let mut list = List::new();
        (0..20_000).for_each(|n: u32| list.push(End::Head, format!("element number {n} of many").as_bytes()));
        let at = list.node_count() / 2;
        let place = list.bookmark(at);
        for _ in 0..3000 {
            list.pop(End::Tail);
            list.push(End::Head, b"one more, of another length");
        }
        let next = list.node_after(End::Tail, Some(&place)).expect("there are nodes before it");
        assert!(next > at, "pushes have shifted it");
        assert_eq!(list.bookmark(next + 1).node, place.node);
    }
}
