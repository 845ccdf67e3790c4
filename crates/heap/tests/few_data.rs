//! Few data of all sizes, which change all the time, leave few holes.

use std::alloc::{GlobalAlloc, Layout};

use heap::{Allocator, ROUND_MS, disown, own, purge, settle, survey};

/// Blocks that there are, and that are replaced or grow: few under Miri, which is slow.
const BLOCKS: usize = if cfg!(miri) { 50 } else { 8_000 };
const CHANGES: usize = if cfg!(miri) { 200 } else { 400_000 };
/// So many changes take as long as a round, at 45,000 in a second.
const CHANGES_PER_ROUND: usize = 45 * ROUND_MS as usize;

/// Numbers that look random, and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    /// A size from 16 to 6,000 bytes, as often from each size to twice that size.
    fn size(&mut self) -> usize {
        16 << self.below(8) | self.below(1 << 11) >> self.below(8)
    }
}

/// A block of uninitialized bytes.
struct Block {
    start: *mut u8,
    layout: Layout,
}

impl Block {
    fn new(size: usize) -> Self {
        let layout = Layout::from_size_align(size, 8).expect("a power of two");
        // SAFETY: the layout is not empty.
        let start = unsafe { Allocator.alloc(layout) };
        assert!(!start.is_null());
        Block { start, layout }
    }

    fn resize(&mut self, size: usize) {
        // SAFETY: the block was allocated there with this layout, and the size is not 0.
        self.start = unsafe { Allocator.realloc(self.start, self.layout, size) };
        self.layout = Layout::from_size_align(size, 8).expect("a power of two");
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block was allocated there with this layout.
        unsafe { Allocator.dealloc(self.start, self.layout) }
    }
}

#[test]
fn few_data_of_all_sizes_leave_few_holes() {
    own();
    let mut random = Random(1);
    let mut blocks: Vec<Block> = (0..BLOCKS).map(|_| Block::new(random.size())).collect();
    for number in 0..CHANGES {
        let (place, size) = (random.below(BLOCKS), random.size());
        match random.below(4) {
            0 => blocks[place].resize(size),
            _ => blocks[place] = Block::new(size),
        }
        settle();
        if number % CHANGES_PER_ROUND == 0 {
            purge();
        }
    }
    let (slab_bytes, block_bytes) = heap::slab_bytes();
    let percent = 100 * slab_bytes / block_bytes;
    assert!(cfg!(miri) || percent <= 160, "{percent}: {slab_bytes} bytes of slabs, {block_bytes} of blocks");
    let (sizes, empty_bytes) = survey();
    let surveyed: u64 = sizes.iter().map(|size| size.slab_bytes).sum();
    assert_eq!(surveyed + empty_bytes, slab_bytes);
    assert!(
        sizes
            .iter()
            .all(|size| size.heaps() == 1 && size.blocks * size.block_bytes as u64 <= size.slab_bytes)
    );
    let all_blocks: u64 = sizes.iter().map(|size| size.blocks).sum();
    assert_eq!(all_blocks, BLOCKS as u64);
    drop(blocks);
    purge();
    purge();
    assert_eq!(heap::slab_bytes(), (0, 0), "a slab without blocks is nobody's after two rounds");
    disown();
}
