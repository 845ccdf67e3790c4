//! The address range that slabs come from, and the slabs that no heap has.
//!
//! One long address range is reserved at the start; the system gives memory page by page as it is touched. The range is
//! cut into slabs of [`SLAB_BYTES`]. The state of a slab is stored apart from it, in a table, so that an address tells
//! which entry.
//!
//! A slab without blocks goes to the pool, from which any heap takes. One that has waited long enough loses its memory
//! ([`Region::cool_some`]), but not its addresses.

#[cfg(miri)]
use std::alloc::{GlobalAlloc, Layout, System};
#[cfg(not(miri))]
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use rustix::mm::{Advice, madvise};
#[cfg(not(miri))]
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::chunk::PAGE_BYTES;
use crate::free::Free;
use crate::kept;

/// Bytes of a slab.
pub(crate) const SLAB_BYTES: usize = 64 * 1024;
const SLAB_PAGES: i64 = (SLAB_BYTES / PAGE_BYTES) as i64;
/// Slabs that lose their memory in one slice, at some 5 us each, and that are put among those that will, at some 50 ns.
const COOLED_AT_ONCE: u32 = 16;
const AGED_AT_ONCE: u32 = 1024;
/// No slab.
pub(crate) const NONE: u32 = u32::MAX;
/// The owner of slabs that no heap has.
pub(crate) const NOBODY: u16 = 0;

/// Where a slab stands that has a class: it is full, or blocks are taken from it;
pub(crate) const UNLISTED: u8 = 0;
/// in its owner's list of those with room;
pub(crate) const LISTED: u8 = 1;
/// apart, as it is to be emptied (`emptying.rs`).
pub(crate) const EMPTYING: u8 = 2;

/// What is known of a slab. Beside `owner`, and whether `place` is [`EMPTYING`], only the heap that owns it reads and writes;
/// the atomics are for the compiler.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slab {
    /// The number of the heap that owns it. As long as there is a block it changes only when another heap [inherits](crate::inheriting) the slab.
    pub(crate) owner: AtomicU16,
    /// The number of its class.
    pub(crate) class: AtomicU8,
    /// Where it stands: see [`UNLISTED`].
    pub(crate) place: AtomicU8,
    /// Blocks that are handed out.
    pub(crate) used: AtomicU32,
    /// Bytes from its beginning to the first block that was never handed out.
    pub(crate) fresh_at: AtomicU32,
    /// The neighbours in a list of its owner, or (`next`) in a stack of the pool.
    pub(crate) next: AtomicU32,
    pub(crate) previous: AtomicU32,
    /// The block that was freed last.
    pub(crate) free: AtomicPtr<Free>,
}

/// Slabs or chunks that nobody has: last in, first out, for all threads.
#[derive(Debug)]
pub(crate) struct Stack {
    /// The one on top, and above it how often the top changed, so that nobody takes a new top for an old one.
    top: AtomicU64,
}

impl Stack {
    pub(crate) const fn new() -> Self {
        Stack { top: AtomicU64::new(NONE as u64) }
    }

    /// Puts `number` on top; `next` is where each number keeps the one below.
    pub(crate) fn push<'a>(&self, number: u32, next: impl Fn(u32) -> &'a AtomicU32) {
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            next(number).store(top as u32, Ordering::Relaxed);
            match self.top.compare_exchange_weak(
                top,
                next_top(top, number),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Takes the number on top.
    pub(crate) fn pop<'a>(&self, next: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        let mut top = self.top.load(Ordering::Acquire);
        while top as u32 != NONE {
            // If somebody is faster this is of no use, but nothing worse: the tables are always there.
            let below = next(top as u32).load(Ordering::Relaxed);
            match self.top.compare_exchange_weak(
                top,
                next_top(top, below),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(top as u32),
                Err(now) => top = now,
            }
        }
        None
    }
}

fn next_top(top: u64, number: u32) -> u64 {
    ((top >> 32) + 1) << 32 | u64::from(number)
}

/// The address range.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
    slabs: NonNull<Slab>,
    /// The first slab that was never used.
    fresh: AtomicU32,
    /// Slabs that heaps have.
    taken: AtomicU32,
    /// Slabs that may still have memory: freed since the last purge, and before.
    warm: Stack,
    cooling: Stack,
    /// Slabs without memory.
    cold: Stack,
}

// SAFETY: the addresses are the program's for ever, and the slabs behind them are changed by their owners alone.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// Base and length of the region, for the question that every free asks: no length as long as there is none.
static BASE: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
static REGION: OnceLock<Option<Region>> = OnceLock::new();

/// Whether `block` lies in a slab.
#[inline]
pub(crate) fn contains(block: *const u8) -> bool {
    block.addr().wrapping_sub(BASE.load(Ordering::Relaxed)) < BYTES.load(Ordering::Relaxed)
}

/// The number of the heap whose `block` this is, which lies in a slab.
pub(crate) fn owner_of(block: *const u8) -> u16 {
    let region = get().expect("it has slabs");
    region.slab(region.number_of(block)).owner.load(Ordering::Relaxed)
}

/// Whether `block` lies in a slab that is to be emptied.
pub(crate) fn is_to_move(block: *const u8) -> bool {
    contains(block)
        && get().is_some_and(|region| {
            region.slab(region.number_of(block)).place.load(Ordering::Relaxed) == EMPTYING
        })
}

/// The region of the program, made when it is first asked for; none if the system refuses it.
pub(crate) fn get() -> Option<&'static Region> {
    REGION
        .get_or_init(|| {
            let region = Region::reserve(bytes_wanted())?;
            BASE.store(region.base.addr().get(), Ordering::Relaxed);
            BYTES.store(region.bytes, Ordering::Relaxed);
            Some(region)
        })
        .as_ref()
}

/// Twice the memory of the machine: slabs that lost their memory may keep their addresses. Under Miri a few slabs.
pub(crate) fn bytes_wanted() -> usize {
    if cfg!(miri) {
        return 64 * SLAB_BYTES;
    }
    let info = rustix::system::sysinfo();
    let memory_bytes = (info.totalram as usize).saturating_mul(info.mem_unit as usize);
    (2 * memory_bytes).next_multiple_of(1 << 30)
}

impl Region {
    pub(crate) fn reserve(bytes: usize) -> Option<Self> {
        let count = bytes / SLAB_BYTES;
        let bytes = count * SLAB_BYTES;
        let base = reserve_aligned(bytes, SLAB_BYTES)?;
        Some(Region {
            base,
            bytes,
            slabs: reserve(count * size_of::<Slab>())?.cast(),
            fresh: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            warm: Stack::new(),
            cooling: Stack::new(),
            cold: Stack::new(),
        })
    }

    /// What is known of the slab with this number.
    #[inline]
    pub(crate) fn slab(&self, number: u32) -> &Slab {
        debug_assert!((number as usize) < self.bytes / SLAB_BYTES);
        // SAFETY: the table has an entry for each slab.
        let slab = unsafe { self.slabs.add(number as usize) };
        // SAFETY: the entry was all zeros at first, as that of an unused slab may be, and is made of atomics.
        unsafe { slab.as_ref() }
    }

    /// The number of the slab in which `block` lies.
    #[inline]
    pub(crate) fn number_of(&self, block: *const u8) -> u32 {
        ((block.addr() - self.base.addr().get()) / SLAB_BYTES) as u32
    }

    /// The number of a slab of this region.
    #[inline]
    pub(crate) fn number(&self, slab: &Slab) -> u32 {
        ((ptr::from_ref(slab).addr() - self.slabs.addr().get()) / size_of::<Slab>()) as u32
    }

    /// Where a slab begins.
    #[inline]
    pub(crate) fn start(&self, number: u32) -> NonNull<u8> {
        // SAFETY: it lies in the region.
        unsafe { self.base.add(number as usize * SLAB_BYTES) }
    }

    /// A slab that nobody has, rather one that has memory; none if the addresses are used up.
    pub(crate) fn take(&self) -> Option<u32> {
        let taken = self.take_warm().or_else(|| self.pop(&self.cold)).or_else(|| {
            let last = (self.bytes / SLAB_BYTES) as u32;
            let next = |fresh| (fresh < last).then_some(fresh + 1);
            self.fresh.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
        })?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(taken)
    }

    fn take_warm(&self) -> Option<u32> {
        let number = self.pop(&self.warm).or_else(|| self.pop(&self.cooling))?;
        kept::change(-SLAB_PAGES);
        Some(number)
    }

    fn push(&self, stack: &Stack, number: u32) {
        stack.push(number, |number| &self.slab(number).next);
    }

    fn pop(&self, stack: &Stack) -> Option<u32> {
        stack.pop(|number| &self.slab(number).next)
    }

    /// Slabs that were ever used: their numbers are below this.
    pub(crate) fn used_ever(&self) -> u32 {
        self.fresh.load(Ordering::Relaxed)
    }

    /// Bytes of the slabs that heaps have.
    pub(crate) fn taken_bytes(&self) -> u64 {
        u64::from(self.taken.load(Ordering::Relaxed)) * SLAB_BYTES as u64
    }

    /// Puts a slab without blocks into the pool.
    pub(crate) fn put_back(&self, number: u32) {
        self.slab(number).owner.store(NOBODY, Ordering::Relaxed);
        self.taken.fetch_sub(1, Ordering::Relaxed);
        kept::change(SLAB_PAGES);
        if kept::is_too_much() {
            return self.cool(number);
        }
        self.push(&self.warm, number);
    }

    /// Gives the memory of a slab to the system that nobody has.
    fn cool(&self, number: u32) {
        // SAFETY: nobody has the slab, and nothing is expected of its contents.
        unsafe { give_back(self.start(number), SLAB_BYTES) };
        kept::change(-SLAB_PAGES);
        self.push(&self.cold, number);
    }

    /// Gives the memory of some of those slabs in the pool to the system that were there when [`Region::age_some`] came to its
    /// end; false if there are no more.
    pub(crate) fn cool_some(&self) -> bool {
        for _ in 0..COOLED_AT_ONCE {
            let Some(number) = self.pop(&self.cooling) else { return false };
            self.cool(number);
        }
        true
    }

    /// Puts some of the slabs that were freed of late among those that are to lose their memory; false if there are no more.
    pub(crate) fn age_some(&self) -> bool {
        for _ in 0..AGED_AT_ONCE {
            let Some(number) = self.pop(&self.warm) else { return false };
            self.push(&self.cooling, number);
        }
        true
    }
}

/// Addresses of which the first is a multiple of `align`, zeroed.
pub(crate) fn reserve_aligned(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    // As many more, of which what lies before the first multiple is left.
    let start = reserve(bytes + align)?;
    // SAFETY: a multiple lies within those more.
    Some(unsafe { start.add(start.align_offset(align)) })
}

/// Gives memory back to the system, as far as it makes whole pages. If the system keeps it, it is as good as before.
///
/// # Safety
/// It lies in what was reserved here, and nobody expects anything of its contents.
pub(crate) unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
    if cfg!(miri) {
        return;
    }
    let page_bytes = rustix::param::page_size();
    let before = start.align_offset(page_bytes);
    let bytes = bytes.saturating_sub(before) / page_bytes * page_bytes;
    if bytes > 0 {
        // SAFETY: it lies within.
        let start = unsafe { start.add(before) }.as_ptr().cast();
        // SAFETY: by what the caller promises.
        _ = unsafe { madvise(start, bytes, Advice::LinuxDontNeed) };
    }
}

/// Addresses without memory, which the system provides, zeroed, when they are touched.
#[cfg(not(miri))]
fn reserve(bytes: usize) -> Option<NonNull<u8>> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at a place of the system's choice concerns nobody.
    let start: *mut c_void =
        unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }.ok()?;
    NonNull::new(start.cast())
}

/// Zeroed memory: Miri has no addresses without.
#[cfg(miri)]
fn reserve(bytes: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes, SLAB_BYTES).ok()?;
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { System.alloc_zeroed(layout) })
}
