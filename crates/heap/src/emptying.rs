//! Chooses slabs to be emptied, so that their memory can be returned: the first step of defragmentation.
//!
//! ```text
//!  a class:   ███▌  █▌    ██▌   ▌     █     ██▌        6 slabs, 3 are enough for their blocks
//!             keep  empty keep  empty empty keep       no block is taken from those to be emptied
//! ```
//!
//! A heap does this for its own slabs, the emptiest of each class, in two passes over the table of slabs: the first
//! counts how full they are, the second sets those aside that are not needed. From then on
//! [`is_to_move`](crate::is_to_move) is true of their blocks, for any thread, and a block that is allocated to replace
//! one of them is elsewhere. An emptied slab is returned like any other; empty ones are returned at once. A slab that
//! was not emptied stays aside until another [`Emptying`] finds that it is needed.

use std::sync::atomic::Ordering::Relaxed;

use crate::classes::{CLASSES, Class};
use crate::local::Local;
use crate::owned;
use crate::region::{SLAB_BYTES, Slab};

/// Slabs of the table that are looked at in one slice: some 20 us.
const SLABS_PER_SLICE: u32 = 1024;
/// Degrees of fullness that are told apart.
const LEVELS: usize = 32;
/// One slab in so many is kept beyond what the blocks need, for those that come, unless every slab counts.
const SPARE: u64 = 16;

/// The slabs of one class.
#[derive(Clone, Copy, Debug)]
struct Slabs {
    /// How many there are of each fullness.
    by_level: [u32; LEVELS],
    used: u64,
    /// Fuller ones than this are kept, and so many that are as full.
    level: usize,
    kept_there: u32,
}

const NO_SLABS: Slabs = Slabs { by_level: [0; LEVELS], used: 0, level: 0, kept_there: u32::MAX };

/// Blocks of a slab of this class.
fn capacity(class: Class) -> usize {
    SLAB_BYTES / class.bytes()
}

fn level(slab: &Slab, class: Class) -> usize {
    (slab.used.load(Relaxed) as usize * LEVELS / capacity(class)).min(LEVELS - 1)
}

impl Slabs {
    /// Decides, after all were counted, which are kept: the fullest, until they have room for the blocks of all, but for so many
    /// as the slab has `room` for that blocks are taken from.
    fn choose(&mut self, class: Class, room: u64, is_tight: bool) {
        let spare = if is_tight { 0 } else { self.used.div_ceil(SPARE) };
        let needed = (self.used + spare).saturating_sub(room).div_ceil(capacity(class) as u64);
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

/// Work on the slabs of this thread's heap; see the head of this file.
#[derive(Debug)]
pub struct Emptying {
    classes: Box<[Slabs]>,
    is_counting: bool,
    is_tight: bool,
    next: u32,
    chosen_count: u32,
}

impl Emptying {
    /// Finds the slabs that are to be emptied, in place of those that were to be; `is_tight`: as many as can be.
    pub fn begin(is_tight: bool) -> Self {
        Emptying {
            classes: vec![NO_SLABS; CLASSES].into(),
            is_counting: true,
            is_tight,
            next: 0,
            chosen_count: 0,
        }
    }

    /// Uses all slabs again.
    pub fn end() -> Self {
        Emptying { is_counting: false, ..Emptying::begin(false) }
    }

    /// Does a bounded piece of it; the number of slabs to be emptied once it is done.
    pub fn advance(&mut self) -> Option<u32> {
        owned::with_local(|local| self.advance_on(local)).unwrap_or(Some(0))
    }

    fn advance_on(&mut self, local: &mut Local) -> Option<u32> {
        let end = local.slab_count();
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
        for (number, slabs) in (0..=u8::MAX).zip(&mut self.classes) {
            let class = Class::numbered(number);
            let room = local
                .current(class)
                .map_or(0, |slab| capacity(class) as u64 - u64::from(slab.used.load(Relaxed)));
            slabs.choose(class, room, self.is_tight);
        }
        (self.is_counting, self.next) = (false, 0);
        None
    }

    fn look_at(&mut self, local: &mut Local, slab: &'static Slab, class: Class) {
        let (slabs, level) = (&mut self.classes[class.index()], level(slab, class));
        if self.is_counting {
            slabs.by_level[level] += 1;
            slabs.used += u64::from(slab.used.load(Relaxed));
        } else {
            let is_kept = slabs.keep(level);
            local.set_emptying(slab, class, !is_kept);
            self.chosen_count += u32::from(!is_kept);
        }
    }
}
