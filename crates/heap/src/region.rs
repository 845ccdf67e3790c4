//! The address range that slabs come from, and the slabs that nobody has.
//!
//! One long stretch of addresses is reserved at the start; the system gives memory page by page as it is touched. It is cut
//! into slabs of [`SLAB_BYTES`]. What is known of a slab stands apart from it, in a table, so that an address tells where.
//!
//! A slab without blocks goes to the pool, where it waits for anybody. One that waited long enough loses its memory
//! ([`Region::purge`]), but not its addresses.

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

use crate::local::Free;

/// Bytes of a slab.
pub(crate) const SLAB_BYTES: usize = 64 * 1024;
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
    /// The number of the heap that owns it. Does not change as long as there is a block.
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

/// Slabs that nobody has: last in, first out, for all threads.
#[derive(Debug)]
struct Stack {
    /// The slab on top, and above it how often the top changed, so that nobody takes a new top for an old one.
    top: AtomicU64,
}

impl Stack {
    const fn new() -> Self {
        Stack { top: AtomicU64::new(NONE as u64) }
    }

    fn push(&self, region: &Region, number: u32) {
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            region.slab(number).next.store(top as u32, Ordering::Relaxed);
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

    fn pop(&self, region: &Region) -> Option<u32> {
        let mut top = self.top.load(Ordering::Acquire);
        while top as u32 != NONE {
            // If somebody is faster this is of no use, but nothing worse: the table of slabs is always there.
            let next = region.slab(top as u32).next.load(Ordering::Relaxed);
            match self.top.compare_exchange_weak(
                top,
                next_top(top, next),
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
fn bytes_wanted() -> usize {
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
        // One more, of which what lies before the first multiple of the size is left.
        let start = reserve(bytes + SLAB_BYTES)?;
        // SAFETY: a multiple of the size lies within the one more.
        let base = unsafe { start.add(start.align_offset(SLAB_BYTES)) };
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
        let pooled = self.warm.pop(self).or_else(|| self.cooling.pop(self)).or_else(|| self.cold.pop(self));
        let taken = pooled.or_else(|| {
            let last = (self.bytes / SLAB_BYTES) as u32;
            self.fresh
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |fresh| {
                    (fresh < last).then_some(fresh + 1)
                })
                .ok()
        })?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(taken)
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
        self.warm.push(self, number);
    }

    /// Gives the memory of those slabs in the pool to the system that were there at the last purge already.
    pub(crate) fn purge(&self) {
        while let Some(number) = self.cooling.pop(self) {
            // If the system keeps it, the slab is as good as before.
            if cfg!(not(miri)) {
                let start = self.start(number).as_ptr().cast();
                // SAFETY: nobody has the slab, and nothing is expected of its contents.
                _ = unsafe { madvise(start, SLAB_BYTES, Advice::LinuxDontNeed) };
            }
            self.cold.push(self, number);
        }
        while let Some(number) = self.warm.pop(self) {
            self.cooling.push(self, number);
        }
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
