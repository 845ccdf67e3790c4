//! The address range that chunks come from, and the pool of chunks that no heap owns.
//!
//! As with slabs ([`crate::region`]), there is one long address range, a separate table with the state of each chunk,
//! and a pool. Chunks in the pool have no memory.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicUsize, Ordering};

use crate::chunk::{Blocks, CHUNK_BYTES, PAGE_BYTES};
use crate::region::{self, NOBODY, Stack};

/// State of a chunk.
#[repr(align(128))]
pub(crate) struct Chunk {
    /// Number of the heap that owns the chunk. While the chunk has blocks, it changes only when another heap
    /// [inherits](crate::inheriting) the chunk.
    pub(crate) owner: AtomicU16,
    /// Neighbours in a list of the owner. In the pool, `next` links the stack.
    pub(crate) next: AtomicU32,
    pub(crate) previous: AtomicU32,
    /// Accessed by the owner only.
    blocks: UnsafeCell<Blocks>,
}

/// The address range of the chunks, with their table and pool.
pub(crate) struct Chunks {
    base: NonNull<u8>,
    bytes: usize,
    table: NonNull<Chunk>,
    /// Number of the first chunk that was never used.
    fresh: AtomicU32,
    pool: Stack,
}

// SAFETY: the addresses are never unmapped, and only the owner of a chunk changes it and its state.
unsafe impl Send for Chunks where Stack: Send {}
// SAFETY: the addresses are never unmapped, and only the owner of a chunk changes it and its state.
unsafe impl Sync for Chunks where Stack: Sync {}

/// Base and length of the range. The length is 0 until the range exists.
static BASE: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
static CHUNKS: OnceLock<Option<Chunks>> = OnceLock::new();

/// Whether `block` lies in a chunk.
#[inline]
pub(crate) fn contains(block: *const u8) -> bool {
    block.addr().wrapping_sub(BASE.load(Ordering::Relaxed)) < BYTES.load(Ordering::Relaxed)
}

/// Number of the heap that owns `block`, which must lie in a chunk.
pub(crate) fn owner_of(block: *const u8) -> u16 {
    let chunks = get().expect("it has chunks");
    chunks.chunk(chunks.number_of(block)).owner.load(Ordering::Relaxed)
}

/// The chunks of the program, created on first use; `None` if the system refuses the addresses.
pub(crate) fn get() -> Option<&'static Chunks> {
    CHUNKS
        .get_or_init(|| {
            let chunks = Chunks::reserve(2 * region::bytes_wanted())?;
            BASE.store(chunks.base.addr().get(), Ordering::Relaxed);
            BYTES.store(chunks.bytes, Ordering::Relaxed);
            Some(chunks)
        })
        .as_ref()
}

impl Chunks {
    fn reserve(bytes: usize) -> Option<Self> {
        let count = bytes / CHUNK_BYTES;
        let base = region::reserve_aligned(count * CHUNK_BYTES, CHUNK_BYTES)?;
        let table = region::reserve_aligned(count * size_of::<Chunk>(), align_of::<Chunk>())?.cast();
        Some(Chunks { base, bytes: count * CHUNK_BYTES, table, fresh: AtomicU32::new(0), pool: Stack::new() })
    }

    /// State of the chunk with this number.
    #[inline]
    pub(crate) fn chunk(&self, number: u32) -> &Chunk {
        debug_assert!((number as usize) < self.bytes / CHUNK_BYTES);
        // SAFETY: the table has an entry for each chunk.
        let chunk = unsafe { self.table.add(number as usize) };
        // SAFETY: the entry was zeroed at first, which is a chunk without owner and blocks, and is only changed through cells.
        unsafe { chunk.as_ref() }
    }

    /// The blocks of a chunk.
    ///
    /// # Safety
    /// The caller's heap owns the chunk, and no other reference to its blocks is in use.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the owner of a chunk is the only one who asks")]
    pub(crate) unsafe fn blocks(&self, number: u32) -> &mut Blocks {
        // SAFETY: the caller guarantees it.
        unsafe { &mut *self.chunk(number).blocks.get() }
    }

    /// Number of the chunk in which `block` lies.
    #[inline]
    pub(crate) fn number_of(&self, block: *const u8) -> u32 {
        (self.offset(block) / CHUNK_BYTES) as u32
    }

    /// Offset of `block` in its chunk.
    #[inline]
    pub(crate) fn offset_within(&self, block: *const u8) -> usize {
        self.offset(block) % CHUNK_BYTES
    }

    #[inline]
    fn offset(&self, block: *const u8) -> usize {
        block.addr() - self.base.addr().get()
    }

    /// Address of this offset in a chunk.
    #[inline]
    pub(crate) fn at(&self, number: u32, offset: usize) -> NonNull<u8> {
        // SAFETY: the address lies in the range.
        unsafe { self.base.add(number as usize * CHUNK_BYTES + offset) }
    }

    /// Takes a chunk that no heap owns; it has no memory. `None` if the addresses are used up.
    pub(crate) fn take(&self) -> Option<u32> {
        let taken = self.pool.pop(|number| &self.chunk(number).next).or_else(|| {
            let last = (self.bytes / CHUNK_BYTES) as u32;
            let next = |fresh| (fresh < last).then_some(fresh + 1);
            self.fresh.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
        })?;
        assert!(
            self.chunk(taken).owner.load(Ordering::Relaxed) == NOBODY,
            "a chunk in the pool has no owner"
        );
        Some(taken)
    }

    /// Puts a chunk without blocks and memory into the pool.
    pub(crate) fn put_back(&self, number: u32) {
        let owner = &self.chunk(number).owner;
        assert!(owner.load(Ordering::Relaxed) != NOBODY, "a chunk is put into the pool twice");
        owner.store(NOBODY, Ordering::Relaxed);
        self.pool.push(number, |number| &self.chunk(number).next);
    }

    /// Number of chunks that were ever used: chunk numbers are below this.
    pub(crate) fn used_ever(&self) -> u32 {
        self.fresh.load(Ordering::Relaxed)
    }

    /// Returns the memory of these pages of a chunk to the system.
    ///
    /// # Safety
    /// Nothing relies on the contents of the pages.
    pub(crate) unsafe fn give_back(&self, number: u32, pages: Range<usize>) {
        let start = self.at(number, pages.start * PAGE_BYTES);
        // SAFETY: the caller guarantees it.
        unsafe { region::give_back(start, pages.len() * PAGE_BYTES) };
    }
}
