//! Reports the sizes of the blocks in slabs, and how much of their slabs they leave unused.

use std::sync::atomic::Ordering::Relaxed;

use crate::classes::{CLASSES, SizeClass};
use crate::region::{self, NOBODY, Size};

/// The blocks of one size, and their slabs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeUse {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Blocks in use.
    pub blocks: u64,
    /// Small slabs.
    pub small_slabs: u64,
    /// Large slabs.
    pub large_slabs: u64,
    /// Bytes of these slabs.
    pub slab_bytes: u64,
    /// A bit for each heap that has such slabs.
    heaps: u128,
}

impl SizeUse {
    /// How many heaps have slabs of this size.
    pub fn heaps(&self) -> u32 {
        self.heaps.count_ones()
    }

    /// Bytes of the slabs that are in no block.
    pub fn unused_bytes(&self) -> u64 {
        self.slab_bytes.saturating_sub(self.blocks * self.block_bytes as u64)
    }
}

/// The use of each size that has blocks, and the bytes of slabs that heaps keep without blocks. While other threads
/// allocate and free, it may be slightly off.
pub fn survey() -> (Vec<SizeUse>, u64) {
    let (mut sizes, mut empty_bytes) = ([SizeUse::default(); CLASSES], 0);
    let Some(region) = region::get() else { return (Vec::new(), 0) };
    let mut number = region.skip_unused(0);
    while number < region.used_ever() {
        let slab = region.slab(number);
        let (owner, blocks) = (slab.owner.load(Relaxed), slab.used.load(Relaxed));
        let size = region.size(number);
        if owner != NOBODY && blocks == 0 {
            empty_bytes += size.bytes() as u64;
        } else if owner != NOBODY {
            let class = SizeClass::numbered(slab.class.load(Relaxed));
            let of_class = &mut sizes[class.index()];
            of_class.block_bytes = class.bytes();
            of_class.blocks += u64::from(blocks);
            match size {
                Size::Small => of_class.small_slabs += 1,
                Size::Large => of_class.large_slabs += 1,
            }
            of_class.slab_bytes += size.bytes() as u64;
            of_class.heaps |= 1 << owner;
        }
        number = region.skip_unused(number + 1);
    }
    (sizes.into_iter().filter(|size| size.slab_bytes > 0).collect(), empty_bytes)
}
