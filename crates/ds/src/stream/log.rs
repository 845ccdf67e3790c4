//! The entries of a stream in nodes ordered by id, and counts and ids of removed entries.
//!
//! ```text
//!         nodes, by the id of their first entry                  trimmed away │ first_id … deleted … entries … last_id
//! 1-0 ──▶ [1-0 1-1 ✗ 1-3 …]   7-2 ──▶ [7-2 7-3 …]                             └ `entries_added` counts all of them
//! ```
//!
//! A trim removes entries at the front, a deletion (a *tombstone*) anywhere. Only the largest deleted id is kept, which
//! is enough to know whether the entries from an id on can be counted by subtraction ([`Log::entries_until`]).

use std::collections::{BTreeMap, VecDeque, btree_map};

use super::StreamLimits;
use super::group::Group;
use super::id::StreamId;
use super::node::{Fields, NODE_BYTES_MAX, StreamNode};
use crate::mover::{Mover, WalkPosition, move_box, move_small_map};

/// The entries of a stream.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// In boxes, because a map makes room for eleven at once, and most streams have one or two.
    nodes: BTreeMap<StreamId, Box<StreamNode>>,
    len: usize,
    /// The largest id ever used; new entries get larger ones.
    pub last_id: StreamId,
    first_id: StreamId,
    /// The largest id that was deleted.
    pub max_deleted_id: StreamId,
    /// Number of entries ever added; at least the number present.
    pub entries_added: i64,
}

/// Why an entry cannot be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendError {
    /// Its id is not larger than the last one.
    TooSmall,
    /// Its fields and values are larger than a node may be.
    TooLarge,
}

/// The entries that a trim keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// This many entries.
    Newest(usize),
    /// The entries from this id on.
    From(StreamId),
}

/// How to trim a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trim {
    /// The entries that it keeps.
    pub keep: Keep,
    /// Removes only whole nodes.
    pub is_approximate: bool,
    /// Stops before a node that would make it remove more entries than this; 0: no limit.
    pub limit: usize,
}

impl Log {
    /// Moves the memory of its nodes from `place` on, which encodes an id, as long as the mover has time. Returns true
    /// at the end, with `place` reset to the beginning.
    pub(super) fn defragment(&mut self, place: &mut WalkPosition, mover: &mut dyn Mover) -> bool {
        move_small_map(&mut self.nodes, mover);
        let from = StreamId { ms: place.part as u64, seq: place.item as u64 };
        for (id, node) in self.nodes.range_mut(from..) {
            move_box(node, mover);
            node.relocate(mover);
            if !mover.has_time()
                && let Some(next) = id.next()
            {
                *place = WalkPosition { part: next.ms as usize, item: next.seq as usize };
                return false;
            }
        }
        *place = WalkPosition::default();
        true
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The id of the first entry; `0-0` if the log is empty.
    pub fn first_id(&self) -> StreamId {
        self.first_id
    }

    /// The id of the last entry, which may be smaller than [`Log::last_id`]; `None` if the log is empty.
    pub fn last_entry_id(&self) -> Option<StreamId> {
        self.nodes.last_key_value().map(|(_, node)| node.last_live())
    }

    /// The id of a new entry at the time `now_ms`; `None` if no id is left.
    pub fn next_id(&self, now_ms: u64) -> Option<StreamId> {
        if now_ms > self.last_id.ms { Some(StreamId { ms: now_ms, seq: 0 }) } else { self.last_id.next() }
    }

    /// The id of a new entry with the given `ms`. It may be too small. `None` if no sequence number is left.
    pub fn next_id_at(&self, ms: u64) -> Option<StreamId> {
        let seq = if ms == self.last_id.ms { self.last_id.seq.checked_add(1)? } else { 0 };
        Some(StreamId { ms, seq })
    }

    /// Whether these fields and values are together too large for an entry.
    pub fn is_too_large(pairs: &[&[u8]]) -> bool {
        pairs.iter().map(|text| text.len()).sum::<usize>() > NODE_BYTES_MAX
    }

    /// Adds an entry. `pairs` are alternating fields and values.
    pub fn append(
        &mut self,
        id: StreamId,
        pairs: &[&[u8]],
        limits: &StreamLimits,
    ) -> Result<(), AppendError> {
        if id <= self.last_id {
            return Err(AppendError::TooSmall);
        }
        if Log::is_too_large(pairs) {
            return Err(AppendError::TooLarge);
        }
        match self.nodes.last_entry() {
            Some(mut node) if !node.get().is_full(pairs, limits) => node.get_mut().append(id, pairs),
            full => {
                if let Some(mut full) = full {
                    full.get_mut().finish();
                }
                self.nodes.insert(id, Box::new(StreamNode::new(id, pairs)));
            }
        }
        self.note_added(id);
        Ok(())
    }

    /// Adds an entry to the last node, with the fields of that node's first entry; `values` must have the same number.
    /// Panics if there is no node.
    pub fn append_same(&mut self, id: StreamId, values: &[&[u8]]) -> Result<(), AppendError> {
        if id <= self.last_id {
            return Err(AppendError::TooSmall);
        }
        self.nodes.last_entry().expect("there is a node").get_mut().append_same(id, values);
        self.note_added(id);
        Ok(())
    }

    fn note_added(&mut self, id: StreamId) {
        if self.len == 0 {
            self.first_id = id;
        }
        self.len += 1;
        self.last_id = id;
        self.entries_added = self.entries_added.saturating_add(1);
    }

    /// Deletes the entry `id`. Returns false if it does not exist.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let Some((&first, node)) = self.nodes.range_mut(..=id).next_back() else { return false };
        let Some(entry) = node.find(id) else { return false };
        let at = entry.at;
        if node.live_count() == 1 {
            self.nodes.remove(&first);
        } else {
            node.delete(at);
        }
        self.len -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        if id == self.first_id {
            self.find_first();
        }
        true
    }

    fn find_first(&mut self) {
        self.first_id = self.range(StreamId::MIN, StreamId::MAX).next().map_or(StreamId::MIN, |(id, _)| id);
    }

    /// Removes entries at the front. Returns their number.
    pub fn trim(&mut self, trim: &Trim) -> usize {
        let mut gone = 0;
        while let Some(mut node) = self.nodes.first_entry() {
            let count = node.get().live_count();
            if matches!(trim.keep, Keep::Newest(count) if self.len <= count)
                || trim.limit > 0 && gone + count > trim.limit
            {
                break;
            }
            let goes_whole = match trim.keep {
                Keep::Newest(kept) => self.len - count >= kept,
                Keep::From(id) => node.get().last() < id,
            };
            if goes_whole {
                node.remove();
                self.len -= count;
                gone += count;
                continue;
            }
            if !trim.is_approximate {
                let part = trim_node(node.get_mut(), trim.keep, self.len);
                if part == count {
                    node.remove();
                }
                self.len -= part;
                gone += part;
            }
            break;
        }
        if gone > 0 {
            self.find_first();
        }
        gone
    }

    /// Whether there is an entry `id`.
    pub fn contains(&self, id: StreamId) -> bool {
        self.get(id).is_some()
    }

    /// Fields and values of the entry `id`.
    pub fn get(&self, id: StreamId) -> Option<Fields<'_>> {
        let (_, node) = self.nodes.range(..=id).next_back()?;
        node.find(id).map(|entry| entry.fields)
    }

    /// The nodes from `from` on: each node's first id and its entries.
    pub fn nodes(&self, from: StreamId) -> impl Iterator<Item = (StreamId, Entries<'_>)> {
        let of_node = |first| Entries {
            nodes: self.nodes.range(first..=first),
            start: StreamId::MIN,
            end: StreamId::MAX,
            front: None,
            back: None,
        };
        self.nodes.range(from..).map(move |(&first, _)| (first, of_node(first)))
    }

    /// The entries from `start` to `end`, inclusive.
    pub fn range(&self, start: StreamId, end: StreamId) -> Entries<'_> {
        // The node that may contain `start` begins at or before it.
        let first = self.nodes.range(..=start).next_back().map_or(start, |(&first, _)| first);
        let nodes = if first <= end { self.nodes.range(first..=end) } else { Default::default() };
        Entries { nodes, start, end, front: None, back: None }
    }

    /// Number of entries added up to `id`; `None` if unknown.
    pub fn entries_until(&self, id: StreamId) -> Option<i64> {
        let (added, len) = (self.entries_added, self.len as i64);
        if added == 0 {
            return Some(0);
        }
        if self.len == 0 && id <= self.last_id {
            return Some(added);
        }
        if id != StreamId::MIN && id < self.max_deleted_id || id > self.last_id {
            return None;
        }
        if id == self.last_id {
            return Some(added);
        }
        if self.max_deleted_id == StreamId::MIN || self.max_deleted_id < self.first_id {
            if id < self.first_id {
                return Some(added - len);
            }
            if id == self.first_id {
                return Some(added - len + 1);
            }
        }
        None
    }

    /// Whether an entry from `start` on may have been deleted, judging by the largest deleted id.
    pub fn has_tombstones_from(&self, start: StreamId) -> bool {
        self.len > 0 && self.max_deleted_id != StreamId::MIN && start <= self.max_deleted_id
    }

    /// Number of entries that have not been delivered to `group`; `None` if unknown.
    pub fn lag(&self, group: &Group) -> Option<i64> {
        if self.entries_added == 0 || self.len == 0 {
            return Some(0);
        }
        if group.last_id < self.first_id && self.max_deleted_id < self.first_id {
            return Some(self.len as i64);
        }
        let read = match group.entries_read() {
            Some(read) if !self.has_tombstones_from(group.last_id) => read,
            _ => self.entries_until(group.last_id)?,
        };
        Some(self.entries_added - read)
    }

    /// Number of entries after `id`. Visits at most `nodes_max` nodes towards the end and as many towards the
    /// beginning. If that is not enough, the result is too large: the number of all entries.
    pub fn count_behind(&self, id: StreamId, nodes_max: usize) -> usize {
        let (first, in_node) = match self.nodes.range(..=id).next_back() {
            Some((&first, node)) => {
                let entries = node.entries_from(node.entries_at());
                (first, entries.filter(|entry| entry.id > id && !entry.is_deleted).count())
            }
            None => return self.len,
        };
        let live = |nodes: btree_map::Range<'_, StreamId, Box<StreamNode>>| -> Option<usize> {
            let mut nodes = nodes.map(|(_, node)| node.live_count());
            let count = nodes.by_ref().take(nodes_max).sum();
            nodes.next().is_none().then_some(count)
        };
        let later = id.next().and_then(|next| live(self.nodes.range(next..)));
        match (later, live(self.nodes.range(..first))) {
            (Some(later), _) => in_node + later,
            (None, Some(earlier)) => self.len - earlier,
            (None, None) => self.len,
        }
    }

    /// Drops the first `node_count` nodes. Returns false when nothing is left.
    pub(super) fn drop_nodes(&mut self, node_count: usize) -> bool {
        for _ in 0..node_count {
            let Some((_, node)) = self.nodes.pop_first() else { return false };
            self.len -= node.live_count();
        }
        !self.nodes.is_empty()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let of_nodes: usize =
            self.nodes.values().map(|node| size_of::<StreamNode>() + node.memory_bytes()).sum();
        of_nodes + self.nodes.len() * size_of::<(StreamId, Box<StreamNode>)>()
    }

    /// Panics if the log is inconsistent; for tests.
    pub fn debug_validate(&self) {
        let mut len = 0;
        let mut last = None;
        for (first, node) in &self.nodes {
            node.debug_validate();
            assert_eq!(*first, node.first());
            assert!(last.is_none_or(|last| last < *first), "nodes do not overlap");
            last = Some(node.last());
            len += node.live_count();
        }
        assert_eq!(len, self.len);
        assert!(last.is_none_or(|last| last <= self.last_id));
        let first = self.range(StreamId::MIN, StreamId::MAX).next().map_or(StreamId::MIN, |(id, _)| id);
        assert_eq!(self.first_id, first);
    }
}

/// Deletes entries at the front of `node` until `keep` holds for a log of `len` entries. Returns their number.
fn trim_node(node: &mut StreamNode, keep: Keep, len: usize) -> usize {
    let goes = |id, gone| match keep {
        Keep::Newest(kept) => len - gone > kept,
        Keep::From(first) => id < first,
    };
    let mut gone = Vec::new();
    for entry in node.entries_from(node.entries_at()) {
        if !goes(entry.id, gone.len()) {
            break;
        }
        if !entry.is_deleted {
            gone.push(entry.at);
        }
    }
    gone.iter().for_each(|&at| node.delete(at));
    gone.len()
}

/// The entries of a range, from both ends.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    /// Nodes that neither end has reached.
    nodes: btree_map::Range<'a, StreamId, Box<StreamNode>>,
    start: StreamId,
    end: StreamId,
    /// The node that the front has reached, and the offset in it.
    front: Option<(&'a StreamNode, usize)>,
    /// The node that the back has reached, and the offsets of its remaining entries.
    back: Option<(&'a StreamNode, VecDeque<usize>)>,
}

impl<'a> Iterator for Entries<'a> {
    type Item = (StreamId, Fields<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while let Some((node, at)) = self.front {
                let Some(entry) = node.entry(at) else { break };
                self.front = Some((node, entry.end));
                if entry.id > self.end {
                    return None;
                }
                if entry.id >= self.start && !entry.is_deleted {
                    return Some((entry.id, entry.fields));
                }
            }
            let Some((_, node)) = self.nodes.next() else { break };
            self.front = Some((node, node.entries_at()));
        }
        self.front = None;
        let (node, places) = self.back.as_mut()?;
        node.entry(places.pop_front()?).map(|entry| (entry.id, entry.fields))
    }
}

impl DoubleEndedIterator for Entries<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((node, places)) = &mut self.back
                && let Some(at) = places.pop_back()
            {
                return node.entry(at).map(|entry| (entry.id, entry.fields));
            }
            // The last node may be the one that the front is in.
            let (node, at) = match self.nodes.next_back() {
                Some((_, node)) => (&**node, node.entries_at()),
                None => self.front.take()?,
            };
            let in_range = |id| self.start <= id && id <= self.end;
            let entries = node.entries_from(at).filter(|entry| in_range(entry.id) && !entry.is_deleted);
            self.back = Some((node, entries.map(|entry| entry.at).collect()));
        }
    }
}
