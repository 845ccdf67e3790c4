//! The blocks of one chunk: which are free, and which of their pages have memory.
//!
//! A chunk is 1 MiB, cut into large blocks of one size. These are many pages long, so the pages of a free block can be
//! returned to the system while its neighbours are in use; nothing has to be moved for that. A page that two blocks
//! share is returned when both are free.
//!
//! ```text
//!  blocks   │ used     │ free     │ free     │ used     │
//!  pages    │ ██ │ ██ │ ██ │    │    │    │ ██ │ ██ │     █: has memory
//! ```
//!
//! Not here: which heap owns a chunk and where it is (`chunks.rs`), and which chunk a block comes from (`large.rs`).

use std::ops::{BitAnd, BitOr, Not, Range};

use crate::classes::LargeClass;

/// Size of a chunk.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;
pub(crate) const PAGE_BYTES: usize = 4096;
const PAGES: usize = CHUNK_BYTES / PAGE_BYTES;
const WORDS: usize = PAGES / 64;

/// A set of pages of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pages([u64; WORDS]);

impl Pages {
    const NONE: Pages = Pages([0; WORDS]);

    fn range(pages: Range<usize>) -> Pages {
        let mut words = [0; WORDS];
        for (index, word) in words.iter_mut().enumerate() {
            let from = pages.start.clamp(64 * index, 64 * index + 64) - 64 * index;
            let end = pages.end.clamp(64 * index, 64 * index + 64) - 64 * index;
            if from < end {
                *word = (u64::MAX >> (64 - (end - from))) << from;
            }
        }
        Pages(words)
    }

    fn count(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The range from the first to the last page of the set; empty if the set is.
    fn span(self) -> Range<usize> {
        let first = (0..PAGES).find(|page| self.has(*page)).unwrap_or(0);
        let end = (first..PAGES).rev().find(|page| self.has(*page)).map_or(first, |page| page + 1);
        first..end
    }

    fn has(self, page: usize) -> bool {
        self.0[page / 64] >> (page % 64) & 1 == 1
    }
}

impl BitAnd for Pages {
    type Output = Pages;

    fn bitand(self, other: Pages) -> Pages {
        Pages(std::array::from_fn(|index| self.0[index] & other.0[index]))
    }
}

impl BitOr for Pages {
    type Output = Pages;

    fn bitor(self, other: Pages) -> Pages {
        Pages(std::array::from_fn(|index| self.0[index] | other.0[index]))
    }
}

impl Not for Pages {
    type Output = Pages;

    fn not(self) -> Pages {
        Pages(self.0.map(|word| !word))
    }
}

/// The blocks of one chunk. All zeros is a valid value: a chunk without blocks.
#[derive(Debug)]
pub(crate) struct Blocks {
    class: LargeClass,
    /// Bitmap of the free blocks.
    free: u128,
    /// Bitmap of the blocks that were free at the last [`Blocks::cool`], and have been ever since.
    rested: u128,
    /// Pages that may have memory.
    warm: Pages,
    /// Number of warm pages that lie within one free block.
    kept: u32,
}

impl Blocks {
    /// Cuts an unused chunk into blocks, all of them free.
    pub(crate) fn new(class: LargeClass) -> Self {
        let free = run(0..CHUNK_BYTES / class.bytes());
        Blocks { class, free, rested: 0, warm: Pages::NONE, kept: 0 }
    }

    /// Cuts a chunk without used blocks into another size. Its pages may still have memory.
    pub(crate) fn recut(&self, class: LargeClass) -> Self {
        let mut blocks = Blocks { warm: self.warm, ..Blocks::new(class) };
        blocks.kept = (0..blocks.count()).map(|index| (blocks.warm & blocks.within(index)).count()).sum();
        blocks
    }

    pub(crate) fn class(&self) -> LargeClass {
        self.class
    }

    fn count(&self) -> usize {
        CHUNK_BYTES / self.class.bytes()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free == 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free == run(0..self.count())
    }

    /// Number of pages that lie within free blocks and may have memory.
    pub(crate) fn kept(&self) -> u32 {
        self.kept
    }

    /// The pages that lie entirely in a block.
    fn within(&self, index: usize) -> Pages {
        let start = index * self.class.bytes();
        Pages::range(start.div_ceil(PAGE_BYTES)..(start + self.class.bytes()) / PAGE_BYTES)
    }

    /// Takes the first free block and returns its offset.
    pub(crate) fn take(&mut self) -> Option<usize> {
        let index = (self.free != 0).then(|| self.free.trailing_zeros() as usize)?;
        self.free &= !(1 << index);
        self.rested &= !(1 << index);
        self.kept -= (self.warm & self.within(index)).count();
        let start = index * self.class.bytes();
        let touched = start / PAGE_BYTES..(start + self.class.bytes()).div_ceil(PAGE_BYTES);
        self.warm = self.warm | Pages::range(touched);
        Some(start)
    }

    /// Frees the block at this offset.
    pub(crate) fn put(&mut self, offset: usize) {
        let index = offset / self.class.bytes();
        assert!(
            offset == index * self.class.bytes() && index < self.count(),
            "a block is freed at its start"
        );
        assert!(self.free >> index & 1 == 0, "a block is freed once");
        self.free |= 1 << index;
        self.kept += self.within(index).count();
    }

    /// Releases the pages of blocks that were free at the last call already or, if `at_once`, are free now: calls
    /// `give_back` with each run of pages. Returns true if all blocks are free and none has memory any more.
    pub(crate) fn cool(&mut self, at_once: bool, mut give_back: impl FnMut(Range<usize>)) -> bool {
        let mut left = if at_once { self.free } else { self.free & self.rested };
        let is_unused = left == run(0..self.count());
        self.rested = self.free;
        while left != 0 && (self.kept > 0 || is_unused) {
            let from = left.trailing_zeros() as usize;
            let blocks = from..from + (left >> from).trailing_ones() as usize;
            left &= !run(blocks.clone());
            let start = (blocks.start * self.class.bytes()).div_ceil(PAGE_BYTES);
            let end = blocks.end * self.class.bytes();
            // No block follows the last one, so its last page may go even if the block only partly covers it.
            let end = if blocks.end == self.count() { end.div_ceil(PAGE_BYTES) } else { end / PAGE_BYTES };
            let going = self.warm & Pages::range(start..end);
            if going == Pages::NONE {
                continue;
            }
            self.kept -= blocks.map(|index| (going & self.within(index)).count()).sum::<u32>();
            self.warm = self.warm & !going;
            give_back(going.span());
        }
        is_unused
    }
}

/// Bitmap with the bits of `range` set.
fn run(range: Range<usize>) -> u128 {
    if range.is_empty() { 0 } else { (u128::MAX >> (128 - range.len())) << range.start }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Take,
        Put(prop::sample::Index),
        Cool(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Take),
            3 => any::<prop::sample::Index>().prop_map(Step::Put),
            1 => any::<bool>().prop_map(Step::Cool),
        ]
    }

    proptest! {
        #[test]
        fn only_what_nobody_uses_goes_back(bytes in 8193_usize..524_288, steps in prop::collection::vec(step(), 1..200)) {
            let class = LargeClass::of(bytes).expect("it is large");
            let mut blocks = Blocks::new(class);
            let mut used = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Take => match blocks.take() {
                        Some(offset) => prop_assert!(offset + class.bytes() <= CHUNK_BYTES && used.insert(offset)),
                        None => prop_assert_eq!(used.len(), CHUNK_BYTES / class.bytes()),
                    },
                    Step::Put(index) if !used.is_empty() => {
                        let offset = *used.iter().nth(index.index(used.len())).expect("there is one");
                        used.remove(&offset);
                        blocks.put(offset);
                    }
                    Step::Put(_) => {}
                    Step::Cool(at_once) => {
                        let mut gone = Vec::new();
                        blocks.cool(at_once, |pages| gone.push(pages));
                        for offset in &used {
                            let pages = offset / PAGE_BYTES..(offset + class.bytes()).div_ceil(PAGE_BYTES);
                            prop_assert!(gone.iter().all(|gone| gone.end <= pages.start || pages.end <= gone.start));
                        }
                        prop_assert!(!at_once || blocks.kept() == 0);
                    }
                }
                prop_assert_eq!((blocks.is_empty(), blocks.is_full()), (used.is_empty(), used.len() == CHUNK_BYTES / class.bytes()));
                let kept: u32 = (0..blocks.count())
                    .filter(|index| blocks.free >> index & 1 == 1)
                    .map(|index| (blocks.warm & blocks.within(index)).count())
                    .sum();
                prop_assert_eq!(blocks.kept(), kept);
            }
            used.iter().for_each(|offset| blocks.put(*offset));
            let is_unused = blocks.cool(true, |_| {});
            prop_assert!(is_unused && blocks.warm == Pages::NONE);
        }
    }

    #[test]
    fn blocks_rest_before_their_pages_go() {
        let mut blocks = Blocks::new(LargeClass::of(20_000).expect("it is large"));
        let offsets: Vec<usize> = (0..3).filter_map(|_| blocks.take()).collect();
        blocks.put(offsets[1]);
        let mut gone = Vec::new();
        assert!(!blocks.cool(false, |pages| gone.extend(pages)));
        assert!(gone.is_empty() && blocks.kept() == 5);
        assert!(!blocks.cool(false, |pages| gone.extend(pages)));
        assert_eq!((gone, blocks.kept()), ((5..10).collect(), 0));
    }
}
