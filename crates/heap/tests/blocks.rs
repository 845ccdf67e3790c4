//! Random blocks, of one thread and of several that free each other's. Each block keeps its contents, and everything is counted.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::thread;

use heap::{
    Allocator, Emptying, allocated_bytes, disown, is_to_move, own, purge, purge_at_once, settle, slab_bytes,
};
use proptest::prelude::*;

/// The tests count the blocks of the whole process, so they run one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A block, filled with one byte.
struct Block {
    start: *mut u8,
    layout: Layout,
    fill: u8,
}

// SAFETY: it owns the block.
unsafe impl Send for Block {}

impl Block {
    fn new(size: usize, align: usize, fill: u8, zeroed: bool) -> Self {
        let layout = Layout::from_size_align(size, align).expect("a power of two");
        let allocate = if zeroed { GlobalAlloc::alloc_zeroed } else { GlobalAlloc::alloc };
        // SAFETY: the layout is not empty.
        let start = unsafe { allocate(&Allocator, layout) };
        assert!(!start.is_null() && start.addr().is_multiple_of(align));
        let block = Block { start, layout, fill };
        if zeroed {
            assert!(block.bytes() == vec![0; size]);
        }
        // SAFETY: the block has that many bytes.
        unsafe { start.write_bytes(fill, size) };
        block
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes were written when the block was created, or are zeros.
        unsafe { std::slice::from_raw_parts(self.start, self.layout.size()) }
    }

    fn resize(&mut self, size: usize) {
        self.check();
        // SAFETY: the block was allocated there with this layout.
        self.start = unsafe { Allocator.realloc(self.start, self.layout, size) };
        let kept = size.min(self.layout.size());
        self.layout = Layout::from_size_align(size, self.layout.align()).expect("a power of two");
        let new = self.start.wrapping_add(kept);
        // SAFETY: the block has that many bytes.
        unsafe { new.write_bytes(self.fill, size - kept) };
        self.check();
    }

    fn check(&self) {
        // Compared as a whole, because Miri is slow byte by byte.
        assert!(self.bytes() == vec![self.fill; self.layout.size()], "somebody else wrote to the block");
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.check();
        // SAFETY: the block was allocated there with this layout.
        unsafe { Allocator.dealloc(self.start, self.layout) }
    }
}

#[derive(Debug, Clone)]
enum Step {
    New { size: usize, align_bits: u32, zeroed: bool },
    Resize { index: prop::sample::Index, size: usize },
    Free(prop::sample::Index),
    Settle,
    Purge,
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 1_usize..200, 4 => 200_usize..2100, 2 => 2100_usize..9000, 1 => 9000_usize..200_000]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (sizes(), 0_u32..8, any::<bool>())
            .prop_map(|(size, align_bits, zeroed)| Step::New { size, align_bits, zeroed }),
        2 => (any::<prop::sample::Index>(), sizes()).prop_map(|(index, size)| Step::Resize { index, size }),
        4 => any::<prop::sample::Index>().prop_map(Step::Free),
        1 => Just(Step::Settle),
        1 => Just(Step::Purge),
    ];
    prop::collection::vec(step, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]
    #[test]
    fn blocks_keep_what_is_written_to_them(steps in steps()) {
        let _alone = alone();
        own();
        let before = allocated_bytes();
        let mut blocks: Vec<Block> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::New { size, align_bits, zeroed } => {
                    blocks.push(Block::new(size, 1 << align_bits, number as u8, zeroed));
                }
                Step::Resize { index, size } if !blocks.is_empty() => {
                    let index = index.index(blocks.len());
                    blocks[index].resize(size);
                }
                Step::Free(index) if !blocks.is_empty() => _ = blocks.swap_remove(index.index(blocks.len())),
                Step::Settle => _ = settle(),
                Step::Purge => purge(),
                Step::Resize { .. } | Step::Free(_) => {}
            }
            let asked: usize = blocks.iter().map(|block| block.layout.size()).sum();
            let aligned: usize =
                blocks.iter().map(|block| block.layout.size().next_multiple_of(block.layout.align())).sum();
            let counted = (allocated_bytes() - before) as usize;
            prop_assert!(counted >= asked && counted <= aligned + aligned / 3 + 32 * blocks.len(), "{asked} {counted}");
        }
        drop(blocks);
        prop_assert_eq!(allocated_bytes(), before);
        disown();
    }
}

/// Creates blocks and sends each to one of `to`, and frees the blocks that arrive at `from`.
fn work(seed: u64, to: &[Sender<Block>], from: &Receiver<Block>) {
    let mut random = seed;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize
    };
    for round in 0..if cfg!(miri) { 100 } else { 30_000 } {
        let size = 1 + next() % [40, 300, 2000, 3000][next() % 4];
        let block = Block::new(size, 8, round as u8, false);
        to[next() % to.len()].send(block).expect("all threads are there");
        if next().is_multiple_of(3) {
            from.try_iter().take(next() % 50).for_each(drop);
        }
        if next().is_multiple_of(100) {
            settle();
        }
    }
    settle();
}

#[test]
fn threads_free_each_others_blocks() {
    let _alone = alone();
    let before = allocated_bytes();
    let (to, from): (Vec<_>, Vec<_>) = (0..4).map(|_| channel::<Block>()).unzip();
    thread::scope(|scope| {
        for (number, from) in from.into_iter().enumerate() {
            let to = to.clone();
            scope.spawn(move || {
                // One of the threads has no heap.
                if number > 0 {
                    own();
                }
                work(number as u64, &to, &from);
                drop(to);
                from.iter().for_each(drop);
                disown();
            });
        }
        drop(to);
        purge();
    });
    assert_eq!(allocated_bytes(), before);
}

#[test]
fn what_was_freed_is_used_again() {
    let _alone = alone();
    own();
    let mut slabs = HashSet::new();
    let mut use_some = |size| {
        let blocks: Vec<Block> = (0..5000).map(|_| Block::new(size, 8, 1, false)).collect();
        slabs.extend(blocks.iter().map(|block| block.start.addr() >> 16));
        slabs.len()
    };
    // Reuses slabs for the same size and, because they were empty, for another.
    let count = use_some(560);
    for size in [560, 552, 544, 200, 560] {
        // The heap may come from another test, with half-full slabs.
        let count_now = use_some(size);
        assert!(count_now < 2 * count, "{size}: {count} slabs, then {count_now}");
    }
    disown();
}

#[test]
fn purged_memory_goes_back_and_comes_again() {
    let _alone = alone();
    own();
    let resident_kib = || -> usize {
        let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("Linux says so");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
    };
    let blocks: Vec<Block> = (0..50_000).map(|_| Block::new(1000, 8, 7, false)).collect();
    drop(blocks);
    let full_kib = resident_kib();
    purge();
    purge();
    assert!(resident_kib() + 40_000 < full_kib, "{full_kib} KiB, then {}", resident_kib());
    let blocks: Vec<Block> = (0..50_000).map(|_| Block::new(1000, 8, 7, true)).collect();
    drop(blocks);
    disown();
}

/// Runs a pass over this thread's slabs and returns the number of slabs to be emptied.
fn sort_out(mut emptying: Emptying) -> u32 {
    loop {
        if let Some(count) = emptying.advance() {
            return count;
        }
    }
}

/// Allocates blocks of several sizes and frees all but one in ten, which leaves them scattered.
fn scattered(seed: u64) -> Vec<Block> {
    let mut random = seed;
    let blocks =
        (0..60_000).map(|number| Block::new([40, 48, 560, 3000][number % 4], 8, number as u8, false));
    let mut blocks: Vec<Block> = blocks.collect();
    blocks.retain(|_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33).is_multiple_of(10)
    });
    blocks
}

/// Moves the blocks that are to be moved and returns their number.
fn move_out(blocks: &mut [Block]) -> usize {
    let to_move = blocks.iter_mut().filter(|block| is_to_move(block.start));
    to_move.map(|block| *block = Block::new(block.layout.size(), 8, block.fill, false)).count()
}

#[test]
fn slabs_are_emptied_into_as_few_as_there_must_be() {
    let _alone = alone();
    own();
    let waste = || {
        let (slabs, blocks) = slab_bytes();
        slabs - blocks
    };
    let before = waste();
    let mut blocks = scattered(1);
    let scattered_waste = waste() - before;
    assert!(scattered_waste > 30 << 20, "{scattered_waste}");
    assert!(!blocks.iter().any(|block| is_to_move(block.start)));
    let count = sort_out(Emptying::begin(false));
    assert!(count > 400, "{count}");
    // Blocks that are allocated meanwhile stay where they are.
    blocks.extend((0..1000).map(|_| Block::new(48, 8, 1, false)));
    let moved = move_out(&mut blocks);
    assert!(moved > 2000 && move_out(&mut blocks) == 0, "{moved}");
    // A tenth of the remaining blocks, the current slabs, and those that the heap keeps.
    assert!(waste() < before + (4 << 20), "{} of {scattered_waste}", waste() - before);
    assert!(sort_out(Emptying::begin(false)) < 10, "there was little left to do");
    disown();
}

#[test]
fn a_few_blocks_move() {
    let _alone = alone();
    own();
    // Sixteen small slabs of five blocks, of which some are full and the others have one block left, and ten large ones of
    // 21 blocks with one left in each.
    let blocks: Vec<Block> = (0..290).map(|number| Block::new(3000, 8, number as u8, false)).collect();
    let mut number = 0;
    let mut blocks: Vec<Block> = blocks
        .into_iter()
        .filter(|_| {
            number += 1;
            number < 22 || number < 80 && number % 5 == 0 || number % 21 == 0
        })
        .collect();
    assert!(sort_out(Emptying::begin(false)) >= 8);
    assert!(move_out(&mut blocks) >= 8);
    assert_eq!(move_out(&mut blocks), 0);
    drop(blocks);
    assert_eq!(sort_out(Emptying::end()), 0);
    disown();
}

#[test]
fn a_heap_that_is_left_keeps_no_slab_of_its_own() {
    let _alone = alone();
    thread::scope(|scope| {
        scope.spawn(|| {
            own();
            let mut blocks: Vec<Block> =
                (0..300).map(|number| Block::new(16 + 8 * (number % 7), 8, number as u8, false)).collect();
            assert!(sort_out(Emptying::leave()) >= 7);
            assert!(
                blocks.iter().all(|block| is_to_move(block.start)),
                "also those in slabs that are in use"
            );
            assert_eq!(move_out(&mut blocks), 300);
            assert_eq!(move_out(&mut blocks), 0, "new ones stay");
            drop(blocks);
            assert_eq!(sort_out(Emptying::end()), 0);
            disown();
        });
    });
}

#[test]
fn few_blocks_of_many_sizes_take_small_slabs() {
    let _alone = alone();
    own();
    let before = slab_bytes();
    let blocks: Vec<Block> = (0..128).map(|number| Block::new(8 + 8 * number, 8, 1, false)).collect();
    let after = slab_bytes();
    assert!(after.0 - before.0 <= 128 * 16 * 1024, "{} bytes for one block of each size", after.0 - before.0);
    drop(blocks);
    disown();
}

#[test]
fn slabs_that_are_not_emptied_are_used_again() {
    let _alone = alone();
    own();
    let blocks = scattered(2);
    let slabs = || slab_bytes().0;
    assert!(sort_out(Emptying::begin(false)) > 400);
    let before = slabs();
    assert_eq!(sort_out(Emptying::end()), 0);
    let more: Vec<Block> = (0..10_000).map(|_| Block::new(560, 8, 1, false)).collect();
    assert_eq!(slabs(), before, "there was room for {} blocks", more.len());
    assert!(!blocks.iter().any(|block| is_to_move(block.start)));
    drop(more);
    disown();
}

#[test]
fn another_thread_empties_slabs() {
    let _alone = alone();
    let (to_mover, for_mover) = channel::<Vec<Block>>();
    let (to_owner, for_owner) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            own();
            let before = slab_bytes().0;
            to_mover.send(scattered(3)).expect("the other thread waits");
            let scattered_bytes = slab_bytes().0 - before;
            let count = sort_out(Emptying::begin(false));
            to_mover.send(Vec::new()).expect("the other thread waits");
            for_owner.recv().expect("the other thread sends it");
            // The blocks arrived by post.
            while settle() {}
            let left_bytes = slab_bytes().0 - before;
            assert!(left_bytes < scattered_bytes / 3, "{left_bytes} of {scattered_bytes}, {count} slabs");
            disown();
        });
        scope.spawn(move || {
            own();
            let mut blocks = for_mover.recv().expect("the other thread sends it");
            for_mover.recv().expect("the other thread sends it");
            assert!(move_out(&mut blocks) > 2000);
            settle();
            to_owner.send(()).expect("the other thread waits");
            drop(blocks);
            disown();
        });
    });
}

/// Sizes of blocks in slabs and in chunks.
const INHERITED_BYTES: [usize; 3] = [40, 600, 20_000];

/// Blocks of each size that are freed before their heap is inherited.
const HOLES: usize = 100;

/// The most that is allocated until freed blocks come back.
const REUSED_BYTES_MAX: usize = 64 << 20;

/// Allocates `count` blocks of each of these sizes.
fn inherited(count: usize) -> Vec<Block> {
    let sizes = INHERITED_BYTES.into_iter().flat_map(|size| std::iter::repeat_n(size, count));
    sizes.map(|size| Block::new(size, 8, size as u8, false)).collect()
}

/// A thread that already has a heap inherits the blocks of a thread that has ended, and reuses at once those
/// that it frees.
#[test]
fn blocks_of_a_thread_that_has_ended_go_to_one_that_serves() {
    let _alone = alone();
    own();
    let made = thread::spawn(|| {
        own();
        // Some slabs have room, and some are full.
        let (mut blocks, holes) = (inherited(500), inherited(HOLES));
        blocks.extend(inherited(500));
        drop(holes);
        disown();
        blocks
    });
    let mut blocks = made.join().expect("it did not panic");
    purge();
    blocks.iter().for_each(Block::check);
    for size in INHERITED_BYTES {
        let freed: HashSet<usize> = blocks
            .extract_if(.., |block| block.layout.size() == size)
            .map(|block| block.start.addr())
            .collect();
        // Other blocks come first: holes, and inherited blocks that heaps have kept. Their number depends on
        // what ran before. No thread posts anything meanwhile, so blocks that this thread did not own would
        // not come at all.
        let (mut found, mut left) = (0, REUSED_BYTES_MAX / size);
        while found <= freed.len() / 2 {
            left = left.checked_sub(1).unwrap_or_else(|| panic!("{found} blocks of {size} bytes"));
            let block = Block::new(size, 8, 1, false);
            found += usize::from(freed.contains(&block.start.addr()));
            blocks.push(block);
        }
    }
    blocks.iter().for_each(Block::check);
    drop(blocks);
    disown();
}

/// Blocks that were freed before the takeover are posted to the old heap, which forwards them.
#[test]
fn blocks_that_are_posted_to_a_heap_without_a_thread_come_to_its_heir() {
    let _alone = alone();
    own();
    purge_at_once();
    let before = slab_bytes().0;
    let made = thread::spawn(|| {
        own();
        let blocks = inherited(10);
        disown();
        blocks
    });
    let blocks = made.join().expect("it did not panic");
    let (freed, may_post) = (channel::<()>(), channel::<()>());
    thread::scope(|scope| {
        scope.spawn(move || {
            own();
            // Too few for one heap to be posted at once.
            drop(blocks);
            freed.0.send(()).expect("somebody waits");
            may_post.1.recv().expect("somebody sends it");
            disown();
        });
        freed.1.recv().expect("the other thread sends it");
        purge();
        assert!(slab_bytes().0 > before, "the blocks are not there yet");
        may_post.0.send(()).expect("the other thread waits");
    });
    // The old heap has blocks in its mailbox, and forwards them.
    purge();
    purge_at_once();
    assert_eq!(slab_bytes().0, before);
    disown();
}

#[test]
fn blocks_grow_and_shrink_through_all_sources() {
    let _alone = alone();
    own();
    let before = allocated_bytes();
    let mut block = Block::new(100, 8, 7, false);
    for size in
        [9_000, 500_000, 600_000, 5 << 20, 20 << 20, 6 << 20, 300_000, 70_000, 4 << 20, (4 << 20) + 1, 10]
    {
        if cfg!(miri) && size > 600_000 {
            continue;
        }
        block.resize(size);
        assert!(allocated_bytes() - before >= size as u64);
    }
    drop(block);
    assert_eq!(allocated_bytes(), before);
    disown();
}
