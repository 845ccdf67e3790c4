//! The members of a large sorted set: each stored once, found by name through a hash table and by number from the tree.
//!
//! A record is one allocation, `score (8 bytes, little-endian) | member`, owned by a slot of 8 bytes. Tree
//! and hash table contain the slot's number, which stays the same as long as the member is in the set, even
//! if its score changes. Slots come in pages, so growing moves nothing, and a page without records has no
//! memory.
//!
//! If there is a dictionary, a record may be *packed*: `score | hash (5 bytes, little-endian) | packed member`. The hash bits are
//! those that the table uses, so that it grows without unpacking members. `packing.rs` decides which members are packed, and when.
//!
//! Invariants: `with_room` has exactly the pages that are not full, each once; without a dictionary no record is packed.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::blob::SlimBlob;
use crate::compact_table::CompactTable;
use crate::dictionary::{Dictionary, is_fit, saves_enough, unpacked_len};
use crate::hashing::ObjectSeed;
use crate::mover::{Mover, move_box, move_vec};

const PAGE_SLOTS: usize = 256;
const WORD_BITS: usize = u64::BITS as usize;
const SCORE_BYTES: usize = size_of::<f64>();
/// Bytes of the hash in a packed record: the bits that tables use, enough for the segments of 2^32 members.
const HASH_BYTES: usize = 5;
const HASH_SHIFT: u32 = 16;

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
    /// As many as were ever used at once; empty if none is used.
    slots: Vec<Slot>,
    /// Bitmap of the used slots.
    used: [u64; PAGE_SLOTS / WORD_BITS],
    /// Bitmap of the packed records.
    packed: [u64; PAGE_SLOTS / WORD_BITS],
    live: u16,
}

impl Page {
    fn new() -> Self {
        Self {
            slots: Vec::new(),
            used: [0; PAGE_SLOTS / WORD_BITS],
            packed: [0; PAGE_SLOTS / WORD_BITS],
            live: 0,
        }
    }

    fn is_full(&self) -> bool {
        usize::from(self.live) == PAGE_SLOTS
    }

    /// Puts a record into the first free slot. The page must not be full.
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
        self.packed[at / WORD_BITS] &= !(1 << (at % WORD_BITS));
        self.live -= 1;
        if self.live == 0 {
            *self = Self::new();
        }
        Some(record)
    }

    #[inline]
    fn is_packed(&self, at: usize) -> bool {
        self.packed[at / WORD_BITS] & 1 << (at % WORD_BITS) != 0
    }
}

#[inline]
fn record_of(pages: &[Page], id: u32) -> &[u8] {
    let slot = &pages[id as usize / PAGE_SLOTS].slots[id as usize % PAGE_SLOTS];
    slot.as_ref().expect("numbers of members outlive no member").bytes()
}

/// The part of a member's hash that the table uses.
#[inline]
fn hash_of(pages: &[Page], may_be_packed: bool, seed: ObjectSeed, id: u32) -> u64 {
    let record = record_of(pages, id);
    if may_be_packed && pages[id as usize / PAGE_SLOTS].is_packed(id as usize % PAGE_SLOTS) {
        split_packed(record).0
    } else {
        seed.hash(&record[SCORE_BYTES..])
    }
}

/// The bits of a hash that a packed record contains.
fn kept_bits(hash: u64) -> [u8; HASH_BYTES] {
    let [bits @ .., _, _, _] = (hash >> HASH_SHIFT).to_le_bytes();
    bits
}

/// Hash and packed member of a packed record.
fn split_packed(record: &[u8]) -> (u64, &[u8]) {
    let (bits, packed) =
        record[SCORE_BYTES..].split_first_chunk::<HASH_BYTES>().expect("a packed record has a hash");
    let mut bytes = [0; size_of::<u64>()];
    bytes[..HASH_BYTES].copy_from_slice(bits);
    (u64::from_le_bytes(bytes) << HASH_SHIFT, packed)
}

/// Outcome of trying to pack a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tried {
    /// Bytes of the member, and of its packed form with the hash.
    pub(super) plain_bytes: usize,
    pub(super) packed_bytes: usize,
    /// Whether it is packed now.
    pub(super) is_packed: bool,
}

/// A removed member.
pub(super) struct RemovedMember<'a> {
    record: SlimBlob,
    /// Set if it is packed.
    dictionary: Option<&'a Dictionary>,
}

impl RemovedMember<'_> {
    pub(super) fn score(&self) -> f64 {
        split_record(self.record.bytes()).1
    }

    pub(super) fn member(&self) -> Cow<'_, [u8]> {
        match self.dictionary {
            None => Cow::Borrowed(split_record(self.record.bytes()).0),
            Some(dictionary) => Cow::Owned(dictionary.unpacked(split_packed(self.record.bytes()).1)),
        }
    }
}

pub(super) struct Members {
    pages: Vec<Page>,
    with_room: Vec<u32>,
    /// The members' numbers, by hash.
    index: CompactTable<u32>,
    seed: ObjectSeed,
    /// Bytes of all records and of the slots of all pages in use.
    bytes: usize,
    /// Dictionary that members are packed with.
    dictionary: Option<Box<Dictionary>>,
}

impl Clone for Members {
    fn clone(&self) -> Self {
        let (pages, with_room) = (self.pages.clone(), self.with_room.clone());
        let dictionary = self.dictionary.clone();
        Self { pages, with_room, index: self.index.cloned_by(|id| id), dictionary, ..*self }
    }
}

impl Members {
    pub(super) fn new() -> Self {
        let (pages, with_room) = (Vec::new(), Vec::new());
        let (index, seed) = (CompactTable::new(), ObjectSeed::next());
        Self { pages, with_room, index, seed, bytes: 0, dictionary: None }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let pages = self.pages.capacity() * size_of::<Page>() + self.with_room.capacity() * size_of::<u32>();
        let dictionary = self.dictionary.as_ref().map_or(0, |dictionary| dictionary.memory_bytes());
        self.bytes + pages + self.index.memory_bytes() + dictionary
    }

    /// Bytes of all records and of the slots of all pages in use.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn dictionary(&self) -> Option<&Dictionary> {
        self.dictionary.as_deref()
    }

    pub(super) fn dictionary_mut(&mut self) -> &mut Option<Box<Dictionary>> {
        &mut self.dictionary
    }

    /// The dictionary, if this member is packed.
    #[inline]
    fn packed_by(&self, id: u32) -> Option<&Dictionary> {
        let dictionary = self.dictionary.as_deref()?;
        self.pages[id as usize / PAGE_SLOTS].is_packed(id as usize % PAGE_SLOTS).then_some(dictionary)
    }

    #[inline]
    fn record(&self, id: u32) -> &[u8] {
        record_of(&self.pages, id)
    }

    /// The member with this number, and its score.
    #[inline]
    pub(super) fn get(&self, id: u32) -> (Cow<'_, [u8]>, f64) {
        let (member, score) = split_record(self.record(id));
        match self.packed_by(id) {
            None => (Cow::Borrowed(member), score),
            Some(dictionary) => (Cow::Owned(dictionary.unpacked(split_packed(self.record(id)).1)), score),
        }
    }

    #[inline]
    pub(super) fn member(&self, id: u32) -> Cow<'_, [u8]> {
        self.get(id).0
    }

    #[inline]
    pub(super) fn score(&self, id: u32) -> f64 {
        split_record(self.record(id)).1
    }

    /// Compares the member with this number with another.
    #[inline]
    pub(super) fn compare(&self, id: u32, other: &[u8]) -> Ordering {
        (*self.member(id)).cmp(other)
    }

    #[inline]
    fn is(&self, id: u32, member: &[u8]) -> bool {
        match self.packed_by(id) {
            None => split_record(self.record(id)).0 == member,
            Some(dictionary) => {
                let packed = split_packed(self.record(id)).1;
                unpacked_len(packed) == member.len() && dictionary.unpacked(packed) == member
            }
        }
    }

    /// The part of a member's hash that the table uses.
    #[inline]
    fn table_hash(&self, id: u32) -> u64 {
        hash_of(&self.pages, self.dictionary.is_some(), self.seed, id)
    }

    #[inline]
    pub(super) fn hash(&self, member: &[u8]) -> u64 {
        self.seed.hash(member)
    }

    /// Whether a member is not packed but has a length that qualifies.
    pub(super) fn is_plain_fit(&self, id: u32) -> bool {
        self.packed_by(id).is_none() && is_fit(split_record(self.record(id)).0)
    }

    /// Packs a member with the dictionary, if that saves enough. Returns `None` if it is packed already or there is no dictionary.
    pub(super) fn pack(&mut self, id: u32) -> Option<Tried> {
        let at = id as usize % PAGE_SLOTS;
        if self.packed_by(id).is_some() {
            return None;
        }
        let (member, _) = split_record(self.record(id));
        let mut record = Vec::with_capacity(self.record(id).len() + HASH_BYTES);
        record.extend_from_slice(&self.record(id)[..SCORE_BYTES]);
        record.extend_from_slice(&kept_bits(self.seed.hash(member)));
        self.dictionary.as_deref()?.pack(member, &mut record);
        let plain_bytes = member.len();
        let packed_bytes = record.len() - SCORE_BYTES;
        let is_packed = saves_enough(plain_bytes, packed_bytes);
        if is_packed {
            self.bytes -= SlimBlob::memory_bytes(SCORE_BYTES + plain_bytes);
            self.bytes += SlimBlob::memory_bytes(record.len());
            let page = &mut self.pages[id as usize / PAGE_SLOTS];
            page.slots[at] = Some(SlimBlob::new(Box::from(record.as_slice())));
            page.packed[at / WORD_BITS] |= 1 << (at % WORD_BITS);
        }
        Some(Tried { plain_bytes, packed_bytes, is_packed })
    }

    pub(super) fn find(&self, member: &[u8]) -> Option<u32> {
        self.find_hashed(self.hash(member), member)
    }

    /// Like [`find`](Self::find), with the member's [`hash`](Self::hash).
    #[inline(always)]
    pub(super) fn find_hashed(&self, hash: u64, member: &[u8]) -> Option<u32> {
        self.index.find(hash, |id| self.is(id, member))
    }

    /// Adds an absent member with this hash. Returns its number.
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
        let (pages, may_be_packed, seed) = (&self.pages, self.dictionary.is_some(), self.seed);
        self.index.insert(hash, id, |id| hash_of(pages, may_be_packed, seed, id));
        id
    }

    pub(super) fn set_score(&mut self, id: u32, score: f64) {
        if let Some(record) = &mut self.pages[id as usize / PAGE_SLOTS].slots[id as usize % PAGE_SLOTS] {
            record.bytes_mut()[..SCORE_BYTES].copy_from_slice(&score.to_le_bytes());
        }
    }

    /// Removes the member with this number.
    pub(super) fn remove(&mut self, id: u32) -> RemovedMember<'_> {
        let (hash, is_packed) = (self.table_hash(id), self.packed_by(id).is_some());
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
        RemovedMember { record, dictionary: self.dictionary.as_deref().filter(|_| is_packed) }
    }

    /// Moves the memory of the page and the index segment with this number. Returns false if there is neither.
    pub(super) fn move_part(&mut self, number: usize, mover: &mut dyn Mover) -> bool {
        if number == 0 {
            move_vec(&mut self.pages, mover);
            move_vec(&mut self.with_room, mover);
            if let Some(dictionary) = &mut self.dictionary {
                move_box(dictionary, mover);
                dictionary.relocate(mover);
            }
        }
        let has_segment = self.index.move_segment(number, mover);
        let Some(page) = self.pages.get_mut(number) else { return has_segment };
        move_vec(&mut page.slots, mover);
        page.slots.iter_mut().flatten().for_each(|record| record.relocate(mover));
        true
    }

    pub(super) fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8], f64)) -> u64 {
        self.index.scan(cursor, count, &mut |id| {
            let (member, score) = self.get(id);
            visit(&member, score);
        })
    }

    /// Number of packed members.
    pub(super) fn packed_count(&self) -> usize {
        let words = self.pages.iter().flat_map(|page| page.packed);
        words.map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn debug_validate(&self) {
        self.index.debug_validate(|id| self.seed.hash(&self.member(id)));
        let has_hash = |id| kept_bits(self.table_hash(id)) == kept_bits(self.seed.hash(&self.member(id)));
        assert!(self.index.iter().all(has_hash));
        assert!(
            self.dictionary.is_some()
                || self.pages.iter().all(|page| page.packed == [0; PAGE_SLOTS / WORD_BITS])
        );
        let is_packed = |id: &u32| self.packed_by(*id).is_some();
        assert_eq!(self.packed_count(), self.index.iter().filter(is_packed).count());
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
        assert!(self.index.iter().all(|id| self.find(&self.member(id)) == Some(id)));
    }
}
