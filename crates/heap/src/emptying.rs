//! Chooses slabs to be emptied, so that their memory can be returned: the first step of defragmentation.
//!
//! ```text
//!  a class:   ███▌  █▌    ██▌   ▌     █     ██▌        6 slabs, 3 are enough for their blocks
//!             keep  empty keep  empty empty keep       no block is taken from those to be emptied
//! ```
//!
//! A heap does this for its own slabs, the emptiest of each class, in two passes over the table of slabs. The first
//! pass counts how full they are, the second sets aside those that are not needed. From then on
//! [`is_to_move`](crate::is_to_move) is true of their blocks, for any thread, and a block that is allocated to replace
//! one of them lies elsewhere. An emptied slab is returned like any other; empty ones are returned at once. A slab that
//! was not emptied stays aside until another [`Emptying`] finds that it is needed.

use std::sync::atomic::Ordering::Relaxed;

use crate::classes::{CLASSES, SizeClass};
use crate::local::Local;
use crate::owned;
use crate::region::{Size, Slab};

/// Slabs of the table that are examined in one slice, which takes about 20 us.
const SLABS_PER_SLICE: u32 = 1024;
/// Number of fill levels that are distinguished.
const LEVELS: usize = 32;
/// One slab in this many is kept as a reserve for new blocks, unless memory is tight.
const SPARE: u64 = 16;

/// The slabs of one class and size, without the current one.
#[derive(Clone, Copy, Debug)]
struct Slabs {
    /// Number of slabs at each fill level.
    by_level: [u32; LEVELS],
    used: u64,
    /// Slabs above this level are kept, and `kept_there` of the slabs at it.
    level: usize,
    kept_there: u32,
}

const NO_SLABS: Slabs = Slabs { by_level: [0; LEVELS], used: 0, level: 0, kept_there: u32::MAX };

fn level(slab: &Slab, class: SizeClass) -> usize {
    let capacity = slab.bytes.load(Relaxed) as usize / class.bytes();
    (slab.used.load(Relaxed) as usize * LEVELS / capacity).min(LEVELS - 1)
}

/// Index of the slabs of this class and size.
fn index(class: SizeClass, size: Size) -> usize {
    2 * class.index() + size as usize
}

impl Slabs {
    /// Called when all slabs are counted: chooses to keep the fullest, as many as the counted blocks need beyond the
    /// `room` in the current slab.
    fn choose(&mut self, capacity: u64, room: u64, is_tight: bool) {
        let spare = if is_tight { 0 } else { self.used.div_ceil(SPARE) };
        let needed = (self.used + spare).saturating_sub(room).div_ceil(capacity);
        let mut left = u32::try_from(needed).unwrap_or(u32::MAX);
        for level in (0..LEVELS).rev() {
            (self.level, self.kept_there) = (level, left);
            if self.by_level[level] >= left {
                return;
            }
            left -= self.by_level[level];
        }
    }

    fn keep(&mut self, level: usize) -> bool {
        let is_kept = level > self.level || level == self.level && self.kept_there > 0;
        self.kept_there -= u32::from(is_kept && level == self.level);
        is_kept
    }
}

/// Work on the slabs of this thread's heap, done in bounded steps; see the crate's `emptying.rs`.
#[derive(Debug)]
pub struct Emptying {
    classes: Box<[Slabs]>,
    is_counting: bool,
    is_tight: bool,
    /// All slabs are to be emptied.
    is_leaving: bool,
    next: u32,
    chosen_count: u32,
}

impl Emptying {
    /// Starts choosing the slabs to be emptied, which replaces any earlier choice. If `is_tight`, chooses as many as possible.
    pub fn begin(is_tight: bool) -> Self {
        Emptying {
            classes: vec![NO_SLABS; 2 * CLASSES].into(),
            is_counting: true,
            is_tight,
            is_leaving: false,
            next: 0,
            chosen_count: 0,
        }
    }

    /// Starts choosing all slabs: for a thread that will allocate little for a while, so that its blocks move
    /// to the heaps of others.
    pub fn leave() -> Self {
        Emptying {
            classes: Box::default(),
            is_counting: false,
            is_tight: true,
            is_leaving: true,
            next: 0,
            chosen_count: 0,
        }
    }

    /// Starts a pass after which all slabs are used again.
    pub fn end() -> Self {
        Emptying { is_leaving: false, ..Emptying::leave() }
    }

    /// Does a bounded step. Once it is done, returns the number of slabs to be emptied; `None` before.
    pub fn advance(&mut self) -> Option<u32> {
        owned::with_local(|local| self.advance_on(local)).unwrap_or(Some(0))
    }

    fn advance_on(&mut self, local: &mut Local) -> Option<u32> {
        let end = local.slab_count();
        if self.is_leaving && self.next == 0 {
            local.leave_current();
        }
        self.next = local.skip_unused(self.next);
        let slice = self.next..end.min(self.next.saturating_add(SLABS_PER_SLICE));
        self.next = slice.end;
        for number in slice {
            let Some((slab, class)) = local.own_slab(number) else { continue };
            self.look_at(local, slab, class);
        }
        if self.next < end {
            return None;
        }
        if !self.is_counting {
            return Some(self.chosen_count);
        }
        local.let_go();
        for (number, slabs) in (0..=u8::MAX).zip(self.classes.chunks_exact_mut(2)) {
            let class = SizeClass::numbered(number);
            for size in Size::ALL {
                let capacity = (size.bytes() / class.bytes()) as u64;
                let room = local
                    .current(class)
                    .filter(|slab| local.size(slab) == size)
                    .map_or(0, |slab| capacity - u64::from(slab.used.load(Relaxed)));
                slabs[size as usize].choose(capacity, room, self.is_tight);
            }
        }
        (self.is_counting, self.next) = (false, 0);
        None
    }

    fn look_at(&mut self, local: &mut Local, slab: &'static Slab, class: SizeClass) {
        let level = level(slab, class);
        let mut slabs = self.classes.get_mut(index(class, local.size(slab)));
        if self.is_counting
            && let Some(slabs) = &mut slabs
        {
            slabs.by_level[level] += 1;
            slabs.used += u64::from(slab.used.load(Relaxed));
        } else {
            let is_kept = slabs.map_or(!self.is_leaving, |slabs| slabs.keep(level));
            local.set_emptying(slab, class, !is_kept);
            self.chosen_count += u32::from(!is_kept);
        }
    }
}
