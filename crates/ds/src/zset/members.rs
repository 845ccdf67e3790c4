//! The members of a large sorted set: each stored once, found by name through a hash table and by number from the tree.
//!
//! A record is one allocation, `score (8 bytes, little-endian) | member`, owned by a slot of 8 bytes; the number of the slot is what
//! tree and hash table hold. It stays the member's own as long as it is in the set, whatever its score does.
//! Slots come in pages, so nothing is ever moved to grow, and a page whose last record goes gives its memory back.
//!
//! Invariant: `with_room` names exactly the pages that are not full, each once.

use crate::blob::SlimBlob;
use crate::compact_table::CompactTable;
use crate::hashing::ObjectSeed;
use crate::mover::{Mover, move_vec};

const PAGE_SLOTS: usize = 256;
const WORD_BITS: usize = u64::BITS as usize;
const SCORE_BYTES: usize = size_of::<f64>();

/// Splits `score | member`.
#[inline]
pub(super) fn split_record(record: &[u8]) -> (&[u8], f64) {
    let (score, member) = record.split_first_chunk::<SCORE_BYTES>().expect("a record begins with a score");
    (member, f64::from_le_bytes(*score))
}

/// One slot of a page.
type Slot = Option<SlimBlob>;

#[derive(Clone)]
struct Page {
    /// No more than were ever in use at once; without memory if none is.
    slots: Vec<Slot>,
    /// Which slots are in use, each a bit.
    used: [u64; PAGE_SLOTS / WORD_BITS],
    live: u16,
}

impl Page {
    fn new() -> Self {
        Self { slots: Vec::new(), used: [0; PAGE_SLOTS / WORD_BITS], live: 0 }
    }

    fn is_full(&self) -> bool {
        usize::from(self.live) == PAGE_SLOTS
    }

    /// Puts a record into the first free slot of a page that is not full.
    fn insert(&mut self, record: SlimBlob) -> usize {
        let word = self.used.iter().position(|&word| word != u64::MAX).expect("a slot is free");
        let bit = self.used[word].trailing_ones() as usize;
        self.used[word] |= 1 << bit;
        self.live += 1;
        let at = word * WORD_BITS + bit;
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some(record);
            return at;
        }
        if self.slots.capacity() == 0 {
            self.slots.reserve_exact(PAGE_SLOTS);
        }
        self.slots.push(Some(record));
        at
    }

    fn remove(&mut self, at: usize) -> Option<SlimBlob> {
        let record = self.slots[at].take()?;
        self.used[at / WORD_BITS] &= !(1 << (at % WORD_BITS));
        self.live -= 1;
        if self.live == 0 {
            *self = Self::new();
        }
        Some(record)
    }
}

#[inline]
fn record_of(pages: &[Page], id: u32) -> &[u8] {
    let slot = &pages[id as usize / PAGE_SLOTS].slots[id as usize % PAGE_SLOTS];
    slot.as_ref().expect("numbers of members outlive no member").bytes()
}

#[inline]
fn member_of(pages: &[Page], id: u32) -> &[u8] {
    &record_of(pages, id)[SCORE_BYTES..]
}

pub(super) struct Members {
    pages: Vec<Page>,
    with_room: Vec<u32>,
    /// The numbers of the members, by their hashes.
    index: CompactTable<u32>,
    seed: ObjectSeed,
    /// Bytes of all records and of the slots of all pages in use.
    bytes: usize,
}

impl Clone for Members {
    fn clone(&self) -> Self {
        let (pages, with_room) = (self.pages.clone(), self.with_room.clone());
        Self { pages, with_room, index: self.index.cloned_by(|id| id), ..*self }
    }
}

impl Members {
    pub(super) fn new() -> Self {
        let (pages, with_room) = (Vec::new(), Vec::new());
        Self { pages, with_room, index: CompactTable::new(), seed: ObjectSeed::next(), bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let pages = self.pages.capacity() * size_of::<Page>() + self.with_room.capacity() * size_of::<u32>();
        self.bytes + pages + self.index.memory_bytes()
    }

    #[inline]
    fn record(&self, id: u32) -> &[u8] {
        record_of(&self.pages, id)
    }

    /// The member with this number, and its score.
    pub(super) fn get(&self, id: u32) -> (&[u8], f64) {
        split_record(self.record(id))
    }

    #[inline]
    pub(super) fn member(&self, id: u32) -> &[u8] {
        member_of(&self.pages, id)
    }

    #[inline]
    pub(super) fn hash(&self, member: &[u8]) -> u64 {
        self.seed.hash(member)
    }

    pub(super) fn find(&self, member: &[u8]) -> Option<u32> {
        self.find_hashed(self.hash(member), member)
    }

    /// The same with the member's [`hash`](Self::hash).
    #[inline(always)]
    pub(super) fn find_hashed(&self, hash: u64, member: &[u8]) -> Option<u32> {
        self.index.find(hash, |id| self.member(id) == member)
    }

    /// Adds a member that is absent, which has this hash; gives its number.
    pub(super) fn insert(&mut self, hash: u64, member: &[u8], score: f64) -> u32 {
        let mut record = Vec::with_capacity(SCORE_BYTES + member.len());
        record.extend_from_slice(&score.to_le_bytes());
        record.extend_from_slice(member);
        let page_number = self.with_room.last().copied().unwrap_or_else(|| {
            let number = u32::try_from(self.pages.len()).expect("there are less than 2^32 pages");
            self.pages.push(Page::new());
            self.with_room.push(number);
            number
        });
        let page = &mut self.pages[page_number as usize];
        self.bytes += SlimBlob::memory_bytes(record.len())
            + if page.live == 0 { PAGE_SLOTS * size_of::<Slot>() } else { 0 };
        let slot = page.insert(SlimBlob::new(record.into_boxed_slice()));
        if page.is_full() {
            self.with_room.pop();
        }
        let id = page_number as usize * PAGE_SLOTS + slot;
        let id = u32::try_from(id).expect("a set has less than 2^32 members");
        let hash_of = |id| self.seed.hash(member_of(&self.pages, id));
        self.index.insert(hash, id, hash_of);
        id
    }

    pub(super) fn set_score(&mut self, id: u32, score: f64) {
        if let Some(record) = &mut self.pages[id as usize / PAGE_SLOTS].slots[id as usize % PAGE_SLOTS] {
            record.bytes_mut()[..SCORE_BYTES].copy_from_slice(&score.to_le_bytes());
        }
    }

    /// Removes a member by its number; gives its record.
    pub(super) fn remove(&mut self, id: u32) -> SlimBlob {
        let hash = self.seed.hash(self.member(id));
        let found = self.index.remove(hash, |other| other == id);
        debug_assert!(found.is_some(), "every member is in the index");
        let page_number = id as usize / PAGE_SLOTS;
        let page = &mut self.pages[page_number];
        if page.is_full() {
            self.with_room.push(page_number as u32);
        }
        let record = page.remove(id as usize % PAGE_SLOTS).expect("numbers of members outlive no member");
        self.bytes -= SlimBlob::memory_bytes(record.bytes().len())
            + if page.live == 0 { PAGE_SLOTS * size_of::<Slot>() } else { 0 };
        record
    }

    /// Moves the memory of the page and of the segment of the index with this number; false if there is neither.
    pub(super) fn move_part(&mut self, number: usize, mover: &mut dyn Mover) -> bool {
        if number == 0 {
            move_vec(&mut self.pages, mover);
            move_vec(&mut self.with_room, mover);
        }
        let has_segment = self.index.move_segment(number, mover);
        let Some(page) = self.pages.get_mut(number) else { return has_segment };
        move_vec(&mut page.slots, mover);
        page.slots.iter_mut().flatten().for_each(|record| record.relocate(mover));
        true
    }

    pub(super) fn scan<'a>(&'a self, cursor: u64, count: usize, visit: &mut dyn FnMut(&'a [u8], f64)) -> u64 {
        self.index.scan(cursor, count, &mut |id| {
            let (member, score) = self.get(id);
            visit(member, score);
        })
    }

    pub(super) fn debug_validate(&self) {
        self.index.debug_validate(|id| self.seed.hash(self.member(id)));
        let live = self.pages.iter().map(|page| usize::from(page.live));
        assert_eq!(live.sum::<usize>(), self.len());
        let mut with_room = self.with_room.clone();
        with_room.sort_unstable();
        let expected = (0..self.pages.len() as u32).filter(|&page| !self.pages[page as usize].is_full());
        assert!(with_room.into_iter().eq(expected));
        let records =
            self.index.iter().map(|id| SlimBlob::memory_bytes(self.record(id).len())).sum::<usize>();
        let pages = self.pages.iter().filter(|page| page.live > 0).count();
        assert_eq!(self.bytes, records + pages * PAGE_SLOTS * size_of::<Slot>());
        assert!(self.index.iter().all(|id| self.find(self.member(id)) == Some(id)));
    }
}
