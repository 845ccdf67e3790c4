//! A run of elements in one buffer, with free room before and after them.
//!
//! ```text
//! buffer:  [ free room | entry entry entry … | free room ]
//!                      ^start                ^end
//! ```
//!
//! Pushing and popping at either end moves `start` or `end` and never the other elements, as long as there is room at that end. If
//! there is none, but the buffer is at most half full, the elements slide to the far side: after a slide at least as many bytes can
//! be pushed as were moved, so a queue that circulates in one buffer moves at most one byte per byte pushed. If a fuller buffer has
//! room at the other end, as that of a queue has, it is doubled. If it has none, elements were only added: it gets a little more
//! room ([`grown`]), so that short lists waste little. Buffers whose elements fit in [`NODE_BYTES_MAX`] do not grow beyond it.
//!
//! The free room is never initialised: zeroing 8 KiB for a node costs as much as all its pushes. Only `start..end` may be read.
//!
//! An inner node of a list may be *compressed*: then its buffer only contains an `imprint` and the output of
//! `compression`. `end - start` remains the length of the elements, which is larger than the buffer. Only its count,
//! its lengths, and whether it may have an element can be read.
//!
//! A node does not limit itself; the list does. Small sorted sets also consist of a node.

use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::entry::{self, Entries};
use super::{End, compression, imprint};
use crate::mover::{Mover, move_slice};
use crate::prefetch::prefetch;

/// Size of a node's buffer in a long list, and of its elements together with a listpack's frame.
pub const NODE_BYTES_MAX: usize = 8192;

/// What Redis adds to the value's length when it checks whether a node has space: the listpack's frame (7) and an
/// estimate of header and back length (8).
const FILL_MARGIN_BYTES: usize = 15;

/// Size of a cache line.
const LINE_BYTES: usize = 64;
/// Maximum number of lines that are prefetched in a pop.
const LINES_AHEAD_MAX: usize = 8;

/// Minimum room that a buffer grows by.
const ROOM_BYTES_MIN: usize = 48;
/// Length of the longest entry that counts as small.
const SMALL_ENTRY_BYTES: usize = 128;

/// Memory of a node; the node knows which part of it is initialised.
pub(crate) type Buffer = Box<[MaybeUninit<u8>]>;

#[derive(Clone, Default)]
pub(crate) struct ListNode {
    buffer: Buffer,
    start: u32,
    end: u32,
    count: u32,
    /// Bytes that the elements would take in Redis.
    listpack_bytes: u32,
}

/// Whether a value must have a node of its own, whose buffer just fits.
pub(crate) fn is_large(value_bytes: usize) -> bool {
    value_bytes + FILL_MARGIN_BYTES > NODE_BYTES_MAX
}

/// New size of a buffer to which entries were only added. `needed` is its minimum, including the new entry of `length`.
/// Small entries: four sizes per doubling, as in general allocators, and room for at least one more entry. A buffer has
/// few long entries, and gets half as much again.
fn grown(needed: usize, length: usize) -> usize {
    if length > SMALL_ENTRY_BYTES {
        return rounded_up(needed + needed / 2);
    }
    let step = (needed.next_power_of_two() / 8).max(1);
    needed.next_multiple_of(step).max(rounded_up(needed + length.max(ROOM_BYTES_MIN)))
}

/// Approximate size of the allocator's block for this many bytes.
pub(super) fn rounded_up(bytes: usize) -> usize {
    bytes.next_multiple_of(if bytes <= 1024 { 8 } else { 64 })
}

fn matching<'e>(entries: impl Iterator<Item = &'e [u8]>, wanted: &[u8]) -> Vec<usize> {
    (0..).zip(entries).filter_map(|(place, entry)| (entry == wanted).then_some(place)).collect()
}

fn packed_bytes(value: &[u8]) -> usize {
    entry::listpack_bytes(value, entry::entry_bytes(value.len()))
}

impl ListNode {
    /// An empty node in the given buffer.
    pub(crate) fn on(buffer: Buffer) -> Self {
        Self { buffer, ..Self::default() }
    }

    /// Moves its buffer if the mover asks for it.
    pub(crate) fn relocate(&mut self, mover: &mut dyn Mover) {
        move_slice(&mut self.buffer, mover);
    }

    /// The address of its buffer.
    pub(super) fn address(&self) -> usize {
        self.buffer.as_ptr().addr()
    }

    pub(crate) fn capacity_bytes(&self) -> usize {
        self.buffer.len()
    }

    pub(crate) fn used_bytes(&self) -> usize {
        (self.end - self.start) as usize
    }

    pub(crate) fn listpack_bytes(&self) -> usize {
        self.listpack_bytes as usize
    }

    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }

    /// The elements' bytes. The node must not be compressed.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.initialised(self.start as usize..self.end as usize)
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.capacity_bytes() < self.used_bytes()
    }

    /// Whether its only element is too large for other nodes.
    pub(super) fn is_large(&self) -> bool {
        self.count == 1 && self.capacity_bytes() > NODE_BYTES_MAX
    }

    /// Compresses the elements if that is worthwhile. Returns whether it did.
    pub(super) fn compress(&mut self) -> bool {
        let used = self.used_bytes();
        let imprint_bytes = self.imprint_bytes();
        let Some(mut compressed) = compression::compress(self.bytes(), imprint_bytes) else { return false };
        imprint::add(&mut compressed[..imprint_bytes], self.entries());
        assert!(compressed.len() < used, "the lengths say what is compressed");
        (self.start, self.end) = (0, used as u32);
        self.buffer = compressed.into_iter().map(MaybeUninit::new).collect();
        true
    }

    /// Expands a compressed node.
    pub(super) fn expand(&mut self) {
        self.expand_if(|_| true);
    }

    /// Expands a compressed node if `is_wanted` returns true for its elements' bytes. Returns whether it did.
    pub(super) fn expand_if(&mut self, is_wanted: impl FnOnce(&[u8]) -> bool) -> bool {
        let bytes = compression::expanded(self.imprint_and_compressed().1, self.used_bytes());
        let is_wanted = is_wanted(&bytes);
        if is_wanted {
            self.buffer = bytes.into_iter().map(MaybeUninit::new).collect();
        }
        is_wanted
    }

    /// The node itself, or an expanded copy if it is compressed.
    pub(super) fn expanded(&self) -> Cow<'_, Self> {
        if !self.is_compressed() {
            return Cow::Borrowed(self);
        }
        let mut expanded = self.clone();
        expanded.expand();
        Cow::Owned(expanded)
    }

    /// Calls `read` with a copy of a compressed node's elements.
    pub(super) fn copy_expanded<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        compression::with_expanded(self.imprint_and_compressed().1, self.used_bytes(), read)
    }

    /// The imprint of a compressed node, and the compressed elements. Panics if it is not compressed.
    fn imprint_and_compressed(&self) -> (&[u8], &[u8]) {
        assert!(self.is_compressed());
        // SAFETY: `compress` has written all of a compressed node's buffer.
        let bytes = unsafe { self.buffer.assume_init_ref() };
        bytes.split_at(self.imprint_bytes())
    }

    fn imprint_bytes(&self) -> usize {
        imprint::len(self.count(), self.used_bytes())
    }

    /// Whether an element with this [`imprint::hash`] may be present.
    pub(super) fn may_have(&self, hash: u64) -> bool {
        !self.is_compressed() || imprint::may_have(self.imprint_and_compressed().0, hash)
    }

    /// Indexes of the elements that equal `wanted`, counted from the head, or from the tail if `reverse`.
    pub(super) fn positions(&self, wanted: &[u8], reverse: bool) -> Vec<usize> {
        let among = |entries: Entries<'_>| match reverse {
            true => matching(entries.rev(), wanted),
            false => matching(entries, wanted),
        };
        if self.is_compressed() {
            self.copy_expanded(|bytes| among(Entries::new(bytes)))
        } else {
            among(self.entries())
        }
    }

    /// A part of the elements' bytes, by its range in the buffer.
    fn initialised(&self, range: Range<usize>) -> &[u8] {
        assert!(self.start as usize <= range.start && range.end <= self.end as usize);
        // SAFETY: everything between `start` and `end` was written, by `write`, `append` or a copy of such bytes.
        unsafe { self.buffer[range].assume_init_ref() }
    }

    pub(crate) fn entries(&self) -> Entries<'_> {
        Entries::new(self.bytes())
    }

    /// The first or last value of a non-empty node.
    pub(crate) fn value(&self, end: End) -> &[u8] {
        match end {
            End::Head => entry::first(self.bytes()).0,
            End::Tail => entry::last(self.bytes()).0,
        }
    }

    /// The value at `index`, reached from the nearer end.
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let from_tail = self.count().checked_sub(index + 1)?;
        if index <= from_tail { self.entries().nth(index) } else { self.entries().nth_back(from_tail) }
    }

    /// Whether the node may take one more value by Redis' limit.
    pub(crate) fn has_space(&self, value_bytes: usize) -> bool {
        self.used_bytes() + value_bytes + FILL_MARGIN_BYTES <= NODE_BYTES_MAX
    }

    /// Whether a value can be pushed: the buffer is smaller than `grown_max` and can grow, has room at this end, or is empty enough for a
    /// slide to pay off.
    #[inline]
    pub(crate) fn has_room(&self, end: End, value_bytes: usize, grown_max: usize) -> bool {
        let capacity = self.capacity_bytes();
        self.has_space(value_bytes)
            && (capacity < grown_max
                || self.room_bytes(end) >= entry::entry_bytes(value_bytes)
                || self.used_bytes() <= capacity / 2)
    }

    fn room_bytes(&self, end: End) -> usize {
        match end {
            End::Head => self.start as usize,
            End::Tail => self.capacity_bytes() - self.end as usize,
        }
    }

    pub(crate) fn push(&mut self, end: End, value: &[u8]) {
        let length = entry::entry_bytes(value.len());
        self.make_room(end, length);
        let at = match end {
            End::Head => {
                self.start -= length as u32;
                self.start
            }
            End::Tail => {
                self.end += length as u32;
                self.end - length as u32
            }
        };
        self.write(at as usize, length, value);
    }

    /// Writes an entry to a gap of its length, and counts it.
    fn write(&mut self, at: usize, length: usize, value: &[u8]) {
        entry::write(value, &mut self.buffer[at..at + length]);
        self.count += 1;
        self.listpack_bytes += entry::listpack_bytes(value, length) as u32;
    }

    /// Removes the first or last value of a non-empty node after `visit` has read it.
    #[inline(always)]
    pub(crate) fn pop_with<R>(&mut self, end: End, visit: impl FnOnce(&[u8]) -> R) -> R {
        let bytes = self.bytes();
        let (value, length) = match end {
            End::Head => entry::first(bytes),
            End::Tail => entry::last(bytes),
        };
        let result = visit(value);
        let listpack_bytes = entry::listpack_bytes(value, length) as u32;
        self.listpack_bytes -= listpack_bytes;
        self.count -= 1;
        match end {
            End::Head => self.start += length as u32,
            End::Tail => self.end -= length as u32,
        }
        self.prefetch_after_next(end, length);
        result
    }

    /// Prefetches the value after the next one, assuming that all have about the same length. Old jobs are in no cache,
    /// and a thread that alternates between clients reads too few of them in a row for the hardware prefetcher.
    #[inline]
    fn prefetch_after_next(&self, end: End, length: usize) {
        let (start, stop) = (self.start as usize, self.end as usize);
        let ahead = match end {
            End::Head => start + length..stop.min(start + 2 * length),
            End::Tail => start.max(stop.saturating_sub(2 * length))..stop.saturating_sub(length),
        };
        for offset in ahead.step_by(LINE_BYTES).take(LINES_AHEAD_MAX) {
            prefetch(self.buffer.as_ptr().wrapping_add(offset));
        }
    }

    pub(crate) fn drop_values(&mut self, end: End, count: usize) {
        for _ in 0..count {
            self.pop_with(end, |_| ());
        }
    }

    /// Ensures `length` free bytes at one end.
    #[inline]
    fn make_room(&mut self, end: End, length: usize) {
        if self.room_bytes(end) < length {
            self.move_for_room(end, length);
        }
    }

    #[cold]
    fn move_for_room(&mut self, end: End, length: usize) {
        let (used, capacity) = (self.used_bytes(), self.capacity_bytes());
        let needed = used + length;
        let grown = if needed > capacity {
            grown(needed, length)
        } else if used > capacity / 2 && capacity < NODE_BYTES_MAX {
            2 * capacity
        } else {
            0
        };
        if grown > 0 {
            let limit = if needed <= NODE_BYTES_MAX { NODE_BYTES_MAX } else { grown };
            self.reallocate(end, grown.min(limit));
        } else {
            let range = self.start as usize..self.end as usize;
            let start = self.place(end, capacity);
            self.buffer.copy_within(range, start);
        }
    }

    /// Moves the elements to a new buffer with all free room at `end`.
    fn reallocate(&mut self, end: End, capacity: usize) {
        let old = std::mem::replace(&mut self.buffer, Box::new_uninit_slice(capacity));
        let (range, used) = (self.start as usize..self.end as usize, self.used_bytes());
        let start = self.place(end, capacity);
        self.buffer[start..start + used].copy_from_slice(&old[range]);
    }

    /// Sets `start` and `end` so that all free room is at `end`. Returns the new start.
    fn place(&mut self, end: End, capacity: usize) -> usize {
        let used = self.used_bytes();
        let start = match end {
            End::Head => capacity - used,
            End::Tail => 0,
        };
        self.start = start as u32;
        self.end = (start + used) as u32;
        start
    }

    /// Shrinks the buffer if more than half of it is free.
    pub(crate) fn shrink(&mut self) {
        let used = self.used_bytes();
        if used < self.capacity_bytes() / 2 {
            self.reallocate(End::Tail, used);
        }
    }

    /// Offset of the entry at `index` in the buffer.
    fn offset_of(&self, index: usize) -> usize {
        let mut entries = self.entries();
        let from_tail = self.count() - index;
        if index <= from_tail {
            if index > 0 {
                entries.nth(index - 1);
            }
            self.end as usize - entries.rest_bytes()
        } else {
            if from_tail > 0 {
                entries.nth_back(from_tail - 1);
            }
            self.start as usize + entries.rest_bytes()
        }
    }

    /// Inserts before the value at `index`, or at the end.
    pub(crate) fn insert(&mut self, index: usize, value: &[u8]) {
        let length = entry::entry_bytes(value.len());
        let mut at = self.offset_of(index);
        let fewer_before = at - (self.start as usize) < self.end as usize - at;
        if fewer_before && self.room_bytes(End::Head) >= length {
            let start = self.start as usize;
            self.buffer.copy_within(start..at, start - length);
            self.start -= length as u32;
            at -= length;
        } else {
            let before = at - self.start as usize;
            self.make_room(End::Tail, length);
            at = self.start as usize + before;
            self.buffer.copy_within(at..self.end as usize, at + length);
            self.end += length as u32;
        }
        self.write(at, length, value);
    }

    /// Removes the value at `index`. Moves the smaller side to close the gap.
    pub(crate) fn remove(&mut self, index: usize) {
        let at = self.offset_of(index);
        let (value, length) = entry::first(self.initialised(at..self.end as usize));
        let listpack_bytes = entry::listpack_bytes(value, length) as u32;
        self.listpack_bytes -= listpack_bytes;
        self.count -= 1;
        let (start, end) = (self.start as usize, self.end as usize);
        if at - start < end - at - length {
            self.buffer.copy_within(start..at, start + length);
            self.start += length as u32;
        } else {
            self.buffer.copy_within(at + length..end, at);
            self.end -= length as u32;
        }
    }

    /// Removes up to `limit` values equal to `value`, the last ones if `from_tail`. Returns their number.
    pub(crate) fn remove_matching(&mut self, value: &[u8], limit: usize, from_tail: bool) -> usize {
        let matching = self.entries().filter(|&entry| entry == value).count();
        let removed = matching.min(limit);
        if removed == 0 {
            return 0;
        }
        let first_removed = if from_tail { matching - removed } else { 0 };
        let mut seen = 0;
        self.retain(|entry| {
            let is_one = entry == value;
            let goes = is_one && (first_removed..first_removed + removed).contains(&seen);
            seen += usize::from(is_one);
            !goes
        });
        removed
    }

    /// Removes the values for which `keep` returns false, from the head on. The node must not be compressed.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        let (mut read, mut write) = (self.start as usize, self.start as usize);
        while read < self.end as usize {
            let (entry, length) = entry::first(self.initialised(read..self.end as usize));
            if keep(entry) {
                if write < read {
                    self.buffer.copy_within(read..read + length, write);
                }
                write += length;
            } else {
                let listpack_bytes = entry::listpack_bytes(entry, length) as u32;
                self.listpack_bytes -= listpack_bytes;
                self.count -= 1;
            }
            read += length;
        }
        self.end = write as u32;
    }

    /// Moves the values from `index` on to a new node.
    pub(crate) fn split_off(&mut self, index: usize) -> Self {
        let at = self.offset_of(index);
        let tail = &self.buffer[at..self.end as usize];
        let mut right = Self::on(tail.into());
        right.end = tail.len() as u32;
        right.count = self.count - index as u32;
        right.listpack_bytes = right.entries().map(packed_bytes).sum::<usize>() as u32;
        self.end = at as u32;
        self.count = index as u32;
        self.listpack_bytes -= right.listpack_bytes;
        right
    }

    /// Appends all values of another node. If either was compressed, the result is compressed if that is worthwhile.
    pub(crate) fn append(&mut self, other: &Self) {
        if self.is_compressed() || other.is_compressed() {
            let mut both = self.expanded().into_owned();
            both.append(&other.expanded());
            both.compress();
            *self = both;
            return;
        }
        let length = other.used_bytes();
        self.make_room(End::Tail, length);
        let end = self.end as usize;
        self.buffer[end..end + length].write_copy_of_slice(other.bytes());
        self.end += length as u32;
        self.count += other.count;
        self.listpack_bytes += other.listpack_bytes;
    }

    /// Checks every invariant; for tests.
    pub(crate) fn debug_validate(&self) {
        assert!(self.start <= self.end && self.end as usize <= self.buffer.len());
        let forward: Vec<&[u8]> = self.entries().collect();
        let mut backward: Vec<&[u8]> = self.entries().rev().collect();
        backward.reverse();
        assert_eq!(forward, backward);
        assert_eq!(forward.len(), self.count());
        let listpack_bytes: usize = forward.iter().copied().map(packed_bytes).sum();
        assert_eq!(listpack_bytes, self.listpack_bytes());
    }
}
