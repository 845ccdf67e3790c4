//! The address range that slabs come from, and the pool of slabs that no heap owns.
//!
//! One long address range is reserved at the start; the system provides memory page by page as it is touched. The range is cut
//! into slabs of two sizes. The state of each slab is in a separate table, and a block's address determines the entry.
//!
//! ```text
//!   │ small │ small │ small │ … │ large                     │ large                     │ …
//!   base                        base + small_bytes
//! ```
//!
//! A slab without blocks goes to the pool, from which any heap takes slabs. A slab that has been there long enough
//! loses its memory ([`Region::cool_some`]), but not its addresses.

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
pub(crate) use crate::stack::{NONE, Stack};

/// Size of a large slab.
pub(crate) const SLAB_BYTES: usize = 64 * 1024;
/// Size of a small slab.
pub(crate) const SMALL_SLAB_BYTES: usize = 16 * 1024;
/// Number of small slabs: more than most programs need for the beginnings of all classes. If they are used up, there are
/// large ones.
const SMALL_SLABS: usize = if cfg!(miri) { 64 } else { 1 << 18 };
/// Slabs that lose their memory in one slice, at about 5 us each, and slabs that are queued for that in one slice, at
/// about 50 ns each.
const COOLED_AT_ONCE: u32 = 16;
const AGED_AT_ONCE: u32 = 1024;
/// Owner of slabs and chunks that no heap owns.
pub(crate) const NOBODY: u16 = 0;

/// `Slab::place`: full, or the current slab of its class.
pub(crate) const UNLISTED: u8 = 0;
/// `Slab::place`: in its owner's list of slabs with room.
pub(crate) const LISTED: u8 = 1;
/// `Slab::place`: set aside to be emptied (`emptying.rs`).
pub(crate) const EMPTYING: u8 = 2;

/// State of a slab. Other threads read only `owner`, whether `place` is [`EMPTYING`], and for a [survey](crate::survey()) `class`
/// and `used`; everything else is read and written by the owning heap alone, and is atomic only to satisfy the compiler.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slab {
    /// Number of the heap that owns the slab. While the slab has blocks, it changes only when another heap
    /// [inherits](crate::inheriting) the slab.
    pub(crate) owner: AtomicU16,
    /// Number of its size class.
    pub(crate) class: AtomicU8,
    /// [`UNLISTED`], [`LISTED`] or [`EMPTYING`].
    pub(crate) place: AtomicU8,
    /// Its size in bytes.
    pub(crate) bytes: AtomicU32,
    /// Number of blocks in use.
    pub(crate) used: AtomicU32,
    /// Offset of the first block that was never allocated.
    pub(crate) fresh_at: AtomicU32,
    /// Neighbours in a list of the owner. In the pool, `next` links the stack.
    pub(crate) next: AtomicU32,
    pub(crate) previous: AtomicU32,
    /// Head of the list of freed blocks.
    pub(crate) free: AtomicPtr<Free>,
}

/// The two sizes of slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Small,
    Large,
}

impl Size {
    pub(crate) const ALL: [Size; 2] = [Size::Small, Size::Large];

    pub(crate) fn bytes(self) -> usize {
        match self {
            Size::Small => SMALL_SLAB_BYTES,
            Size::Large => SLAB_BYTES,
        }
    }

    fn pages(self) -> i64 {
        (self.bytes() / PAGE_BYTES) as i64
    }
}

/// The slabs of one size that no heap owns.
#[derive(Debug)]
struct Pool {
    /// Numbers of the first slab that was never used, and of the first slab of another size.
    fresh: AtomicU32,
    end: u32,
    /// Slabs that may still have memory: `warm` were freed since the last purge, `cooling` before it.
    warm: Stack,
    cooling: Stack,
    /// Slabs without memory.
    cold: Stack,
}

impl Pool {
    fn new(first: usize, end: usize) -> Self {
        Pool {
            fresh: AtomicU32::new(first as u32),
            end: end as u32,
            warm: Stack::new(),
            cooling: Stack::new(),
            cold: Stack::new(),
        }
    }
}

/// The address range of the slabs, with their table and pools.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
    slabs: NonNull<Slab>,
    /// By [`Size`].
    pools: [Pool; 2],
    /// Bytes of the slabs that heaps own.
    taken_bytes: AtomicU64,
}

/// Bytes of the part with small slabs.
const SMALL_BYTES: usize = SMALL_SLABS * SMALL_SLAB_BYTES;
const _: () = assert!(SMALL_BYTES.is_multiple_of(SLAB_BYTES), "large slabs are aligned to their size");

// SAFETY: the addresses are never unmapped, and only the owner of a slab changes it.
unsafe impl Send for Region where Pool: Send {}
// SAFETY: the addresses are never unmapped, and only the owner of a slab changes it.
unsafe impl Sync for Region
where
    Pool: Sync,
    Slab: Sync,
{
}

/// Base and length of the region, for the check that every free makes. The length is 0 until the region exists.
static BASE: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
static REGION: OnceLock<Option<Region>> = OnceLock::new();

/// Whether `block` lies in a slab.
#[inline]
pub(crate) fn contains(block: *const u8) -> bool {
    block.addr().wrapping_sub(BASE.load(Ordering::Relaxed)) < BYTES.load(Ordering::Relaxed)
}

/// Number of the heap that owns `block`, which must lie in a slab.
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

/// The region of the program, created on first use; `None` if the system refuses it.
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

/// Twice the machine's memory, because slabs that have lost their memory keep their addresses. Under Miri, a few slabs.
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
        let count = SMALL_SLABS + bytes / SLAB_BYTES;
        let bytes = SMALL_BYTES + bytes / SLAB_BYTES * SLAB_BYTES;
        let base = reserve_aligned(bytes, SLAB_BYTES)?;
        Some(Region {
            base,
            bytes,
            slabs: reserve(count * size_of::<Slab>())?.cast(),
            pools: [Pool::new(0, SMALL_SLABS), Pool::new(SMALL_SLABS, count)],
            taken_bytes: AtomicU64::new(0),
        })
    }

    fn pool(&self, size: Size) -> &Pool {
        &self.pools[size as usize]
    }

    /// State of the slab with this number.
    #[inline]
    pub(crate) fn slab(&self, number: u32) -> &Slab {
        debug_assert!(number < self.pool(Size::Large).end);
        // SAFETY: the table has an entry for each slab.
        let slab = unsafe { self.slabs.add(number as usize) };
        // SAFETY: the entry was zeroed at first, which is a valid state of an unused slab, and consists of atomics.
        unsafe { slab.as_ref() }
    }

    /// Number of the slab in which `block` lies.
    #[inline]
    pub(crate) fn number_of(&self, block: *const u8) -> u32 {
        let offset = block.addr() - self.base.addr().get();
        let number = match offset.checked_sub(SMALL_BYTES) {
            None => offset / SMALL_SLAB_BYTES,
            Some(offset) => SMALL_SLABS + offset / SLAB_BYTES,
        };
        number as u32
    }

    /// Size of the slab with this number.
    #[inline]
    pub(crate) fn size(&self, number: u32) -> Size {
        if (number as usize) < SMALL_SLABS { Size::Small } else { Size::Large }
    }

    /// Number of a slab of this region.
    #[inline]
    pub(crate) fn number(&self, slab: &Slab) -> u32 {
        ((ptr::from_ref(slab).addr() - self.slabs.addr().get()) / size_of::<Slab>()) as u32
    }

    /// Start address of a slab.
    #[inline]
    pub(crate) fn start(&self, number: u32) -> NonNull<u8> {
        let number = number as usize;
        let offset = match number.checked_sub(SMALL_SLABS) {
            None => number * SMALL_SLAB_BYTES,
            Some(number) => SMALL_BYTES + number * SLAB_BYTES,
        };
        // SAFETY: the address lies in the region.
        unsafe { self.base.add(offset) }
    }

    /// Takes a slab of this size that no heap owns, preferably one that still has memory; `None` if the addresses are
    /// used up.
    pub(crate) fn take(&self, size: Size) -> Option<u32> {
        let pool = self.pool(size);
        let taken = self.take_warm(size).or_else(|| self.pop(&pool.cold)).or_else(|| {
            let next = |fresh| (fresh < pool.end).then_some(fresh + 1);
            pool.fresh.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
        })?;
        self.taken_bytes.fetch_add(size.bytes() as u64, Ordering::Relaxed);
        let slab = self.slab(taken);
        assert!(slab.owner.load(Ordering::Relaxed) == NOBODY, "a slab in the pool has no owner");
        slab.bytes.store(size.bytes() as u32, Ordering::Relaxed);
        Some(taken)
    }

    fn take_warm(&self, size: Size) -> Option<u32> {
        let pool = self.pool(size);
        let number = self.pop(&pool.warm).or_else(|| self.pop(&pool.cooling))?;
        kept::change(-size.pages());
        Some(number)
    }

    fn push(&self, stack: &Stack, number: u32) {
        stack.push(number, |number| &self.slab(number).next);
    }

    fn pop(&self, stack: &Stack) -> Option<u32> {
        stack.pop(|number| &self.slab(number).next)
    }

    /// Numbers of slabs that were ever used are below this.
    pub(crate) fn used_ever(&self) -> u32 {
        self.pool(Size::Large).fresh.load(Ordering::Relaxed)
    }

    /// The first number from `number` on whose slab may have been used: skips small slabs that never were.
    pub(crate) fn skip_unused(&self, number: u32) -> u32 {
        let small = self.pool(Size::Small);
        let is_unused = (small.fresh.load(Ordering::Relaxed)..small.end).contains(&number);
        if is_unused { small.end } else { number }
    }

    /// Bytes of the slabs that heaps own.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Puts a slab without blocks into the pool; returns its memory at once if too much is kept.
    pub(crate) fn put_back(&self, number: u32) {
        let (size, slab) = (self.size(number), self.slab(number));
        assert!(slab.used.load(Ordering::Relaxed) == 0, "a slab with blocks is put into the pool");
        assert!(slab.owner.load(Ordering::Relaxed) != NOBODY, "a slab is put into the pool twice");
        slab.owner.store(NOBODY, Ordering::Relaxed);
        self.taken_bytes.fetch_sub(size.bytes() as u64, Ordering::Relaxed);
        kept::change(size.pages());
        if kept::is_too_much() {
            return self.cool(number);
        }
        self.push(&self.pool(size).warm, number);
    }

    /// Returns the memory of a slab that no heap owns to the system.
    fn cool(&self, number: u32) {
        let size = self.size(number);
        assert!(self.slab(number).owner.load(Ordering::Relaxed) == NOBODY, "a slab in use keeps its memory");
        // SAFETY: no heap owns the slab, and nothing relies on its contents.
        unsafe { give_back(self.start(number), size.bytes()) };
        kept::change(-size.pages());
        self.push(&self.pool(size).cold, number);
    }

    /// Returns the memory of some cooling slabs to the system: those that [`Region::age_some`] has queued. Returns
    /// false if none is left.
    pub(crate) fn cool_some(&self) -> bool {
        let mut pools = self.pools.iter();
        let mut cooling = pools.next().map(|pool| &pool.cooling);
        for _ in 0..COOLED_AT_ONCE {
            while let Some(stack) = cooling {
                if let Some(number) = self.pop(stack) {
                    self.cool(number);
                    break;
                }
                cooling = pools.next().map(|pool| &pool.cooling);
            }
        }
        cooling.is_some()
    }

    /// Queues some of the recently freed slabs to lose their memory. Returns false if none is left.
    pub(crate) fn age_some(&self) -> bool {
        for pool in &self.pools {
            for _ in 0..AGED_AT_ONCE {
                let Some(number) = self.pop(&pool.warm) else { break };
                self.push(&pool.cooling, number);
            }
        }
        self.pools.iter().any(|pool| !pool.warm.is_empty())
    }
}

/// Reserves zeroed addresses that start at a multiple of `align`.
pub(crate) fn reserve_aligned(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    // Reserves `align` bytes more, and skips those before the first multiple.
    let start = reserve(bytes + align)?;
    // SAFETY: the first multiple lies within these additional bytes.
    Some(unsafe { start.add(start.align_offset(align)) })
}

/// Returns the whole pages within this memory to the system. If the system refuses, the memory stays usable.
///
/// # Safety
/// The memory was reserved here, and nothing relies on its contents.
pub(crate) unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
    if cfg!(miri) {
        return;
    }
    let page_bytes = rustix::param::page_size();
    let before = start.align_offset(page_bytes);
    let bytes = bytes.saturating_sub(before) / page_bytes * page_bytes;
    if bytes > 0 {
        // SAFETY: the result lies within the memory.
        let start = unsafe { start.add(before) }.as_ptr().cast();
        // SAFETY: the caller guarantees it.
        _ = unsafe { madvise(start, bytes, Advice::LinuxDontNeed) };
    }
}

/// Reserves addresses; the system provides zeroed memory when they are touched.
#[cfg(not(miri))]
fn reserve(bytes: usize) -> Option<NonNull<u8>> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address that the system chooses affects no other memory.
    let start: *mut c_void =
        unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }.ok()?;
    NonNull::new(start.cast())
}

/// Allocates zeroed memory, as Miri cannot reserve addresses alone.
#[cfg(miri)]
fn reserve(bytes: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes, SLAB_BYTES).ok()?;
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { System.alloc_zeroed(layout) })
}
