//! The large blocks of one thread's heap, above 8 KiB and up to 512 KiB.
//!
//! They come from chunks (`chunk.rs`) of one size each. A chunk with free blocks is in the list of its size; a chunk
//! without used blocks is in a list from which every size takes. [`Large::cool`] visits the chunks now and then and
//! returns pages that have been unused since its last visit. If more is kept than allowed ([`crate::kept`]), pages are
//! returned at once. Blocks that other threads free are posted like small ones, but one by one.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use crate::chunk::Blocks;
use crate::chunks::Chunks;
use crate::classes::{LARGE_CLASSES, LargeClass};
use crate::exchange;
use crate::free::Free;
use crate::kept;
use crate::region::NONE;

/// The list of chunks without used blocks.
const EMPTY: usize = LARGE_CLASSES;
/// Chunks that are examined in one slice, at about 20 ns each.
const CHUNKS_PER_SLICE: u32 = 1024;
/// Pages that are returned in one slice, at about 100 ns each, unless a single chunk has more.
const PAGES_PER_SLICE: u32 = 512;

/// The large blocks of one heap.
pub(crate) struct Large {
    chunks: &'static Chunks,
    id: u16,
    /// Heads of the lists: per class, the chunks with room; last, the chunks without used blocks.
    lists: [u32; LARGE_CLASSES + 1],
    /// The chunk at which [`Large::cool`] continues.
    next_to_cool: u32,
}

impl Large {
    pub(crate) fn new(chunks: &'static Chunks, id: u16) -> Self {
        Large { chunks, id, lists: [NONE; LARGE_CLASSES + 1], next_to_cool: 0 }
    }

    fn blocks(&mut self, number: u32) -> &mut Blocks {
        assert!(self.chunks.chunk(number).owner.load(Relaxed) == self.id, "a heap changes its own chunks");
        // SAFETY: this heap owns the chunk, and the reference ends before this heap is used again.
        unsafe { self.chunks.blocks(number) }
    }

    /// Allocates an uninitialized block of this class; null if the addresses are used up.
    pub(crate) fn allocate(&mut self, class: LargeClass) -> *mut u8 {
        let number = match self.chunk_with_room(class) {
            Some(number) => number,
            None => return std::ptr::null_mut(),
        };
        let blocks = self.blocks(number);
        let kept_before = blocks.kept();
        let offset = blocks.take().expect("chunks in the list have room");
        let (kept_now, is_full) = (blocks.kept(), blocks.is_full());
        kept::change(i64::from(kept_now) - i64::from(kept_before));
        if is_full {
            self.unlist(class.index(), number);
        }
        self.chunks.at(number, offset).as_ptr()
    }

    fn chunk_with_room(&mut self, class: LargeClass) -> Option<u32> {
        if self.lists[class.index()] == NONE {
            self.sort_arrived();
        }
        if self.lists[class.index()] == NONE {
            let number = self.empty_chunk(class)?;
            self.list(class.index(), number);
        }
        Some(self.lists[class.index()])
    }

    /// Takes a chunk without used blocks and cuts it for this class.
    fn empty_chunk(&mut self, class: LargeClass) -> Option<u32> {
        let number = self.lists[EMPTY];
        if number == NONE {
            let number = self.chunks.take()?;
            self.chunks.chunk(number).owner.store(self.id, Relaxed);
            *self.blocks(number) = Blocks::new(class);
            return Some(number);
        }
        self.unlist(EMPTY, number);
        let blocks = self.blocks(number);
        let kept_before = blocks.kept();
        *blocks = blocks.recut(class);
        let kept_now = blocks.kept();
        kept::change(i64::from(kept_now) - i64::from(kept_before));
        Some(number)
    }

    /// Frees a block of this heap, or posts it to the heap that owns it.
    ///
    /// # Safety
    /// The block is no longer in use.
    pub(crate) unsafe fn free(&mut self, block: *mut u8) {
        let number = self.chunks.number_of(block);
        let owner = self.chunks.chunk(number).owner.load(Relaxed);
        if owner != self.id {
            // SAFETY: the caller guarantees it.
            return unsafe { exchange::post_large(owner, block.cast()) };
        }
        let offset = self.chunks.offset_within(block);
        let blocks = self.blocks(number);
        let (was_full, kept_before) = (blocks.is_full(), blocks.kept());
        blocks.put(offset);
        let (class, is_empty, kept_now) = (blocks.class().index(), blocks.is_empty(), blocks.kept());
        kept::change(i64::from(kept_now) - i64::from(kept_before));
        match (was_full, is_empty) {
            (true, true) => self.list(EMPTY, number),
            (true, false) => self.list(class, number),
            (false, true) => {
                self.unlist(class, number);
                self.list(EMPTY, number);
            }
            (false, false) => {}
        }
        if kept::is_too_much() {
            self.cool_chunk(number, true);
        }
    }

    /// Empties all lists of chunks.
    pub(crate) fn forget_lists(&mut self) {
        self.lists = [NONE; LARGE_CLASSES + 1];
    }

    /// Takes over the chunks with these numbers that the heap `other` owns, which has emptied its lists. Returns false
    /// if there are no larger numbers.
    pub(crate) fn inherit(&mut self, other: u16, numbers: Range<u32>) -> bool {
        let end = self.chunks.used_ever();
        for number in numbers.start..numbers.end.min(end) {
            let chunk = self.chunks.chunk(number);
            if chunk.owner.load(Relaxed) != other {
                continue;
            }
            chunk.owner.store(self.id, Relaxed);
            let blocks = self.blocks(number);
            let (class, is_empty, is_full) = (blocks.class().index(), blocks.is_empty(), blocks.is_full());
            if is_empty {
                self.list(EMPTY, number);
            } else if !is_full {
                self.list(class, number);
            }
        }
        numbers.end < end
    }

    /// Frees the large blocks that other threads have posted to this heap.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if exchange::is_large_there(self.id) {
            self.sort_arrived();
        }
    }

    fn sort_arrived(&mut self) {
        let mut block: *mut Free = exchange::take_large(self.id);
        while !block.is_null() {
            // SAFETY: it is a freed block of this heap, so it contains the link to the next one.
            let next = unsafe { (*block).next };
            // SAFETY: the block is no longer in use.
            unsafe { self.free(block.cast()) };
            block = next;
        }
    }

    /// Continues a round over the chunks, which returns pages to the system that have been free since the round before
    /// or, if `at_once`, are free now. Returns false at the end of the round.
    pub(crate) fn cool(&mut self, at_once: bool) -> bool {
        let end = self.chunks.used_ever();
        let mut pages_left = PAGES_PER_SLICE;
        for _ in 0..CHUNKS_PER_SLICE {
            if self.next_to_cool >= end {
                self.next_to_cool = 0;
                return false;
            }
            let number = self.next_to_cool;
            self.next_to_cool += 1;
            if self.chunks.chunk(number).owner.load(Relaxed) == self.id {
                match pages_left.checked_sub(self.cool_chunk(number, at_once)) {
                    Some(left) => pages_left = left,
                    None => break,
                }
            }
        }
        true
    }

    /// Returns pages of a chunk to the system, and the chunk to the pool if nothing is left in it. Returns the number of pages.
    fn cool_chunk(&mut self, number: u32, at_once: bool) -> u32 {
        let chunks = self.chunks;
        let blocks = self.blocks(number);
        let kept_before = blocks.kept();
        let is_unused = blocks.cool(at_once, |pages| {
            // SAFETY: the pages lie in free blocks.
            unsafe { chunks.give_back(number, pages) }
        });
        let given_back = kept_before - blocks.kept();
        kept::change(-i64::from(given_back));
        if is_unused {
            self.unlist(EMPTY, number);
            self.chunks.put_back(number);
        }
        given_back
    }

    fn list(&mut self, list: usize, number: u32) {
        let (chunk, next) = (self.chunks.chunk(number), self.lists[list]);
        chunk.previous.store(NONE, Relaxed);
        chunk.next.store(next, Relaxed);
        if next != NONE {
            self.chunks.chunk(next).previous.store(number, Relaxed);
        }
        self.lists[list] = number;
    }

    fn unlist(&mut self, list: usize, number: u32) {
        let chunk = self.chunks.chunk(number);
        let (previous, next) = (chunk.previous.load(Relaxed), chunk.next.load(Relaxed));
        match previous {
            NONE => {
                assert!(self.lists[list] == number, "another list begins with this chunk");
                self.lists[list] = next;
            }
            _ => {
                let before = self.chunks.chunk(previous);
                assert!(
                    before.next.load(Relaxed) == number,
                    "a chunk is unlisted from the list that it is in"
                );
                before.next.store(next, Relaxed);
            }
        }
        if next != NONE {
            self.chunks.chunk(next).previous.store(previous, Relaxed);
        }
    }
}
