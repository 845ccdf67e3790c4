//! The mailbox of freed blocks under the model checker: `RUSTFLAGS="--cfg loom" cargo test -p heap --test loom_mailbox --release`.
//!
//! The file itself is compiled again here, with loom's atomics and with blocks whose contents loom watches. `weakened` compiles it
//! once more with every ordering relaxed: if the checker did not fail there, it would prove nothing.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// A block with what the thread that freed it wrote last, in memory that loom watches.
struct Block {
    next: *mut Block,
    content: UnsafeCell<u32>,
}

fn block(content: u32, next: *mut Block) -> *mut Block {
    let block = Box::into_raw(Box::new(Block { next, content: UnsafeCell::new(0) }));
    // SAFETY: no other thread knows it yet.
    let cell = unsafe { &(*block).content };
    cell.with_mut(|there| {
        // SAFETY: no other thread knows it yet; loom checks that.
        unsafe { *there = content }
    });
    block
}

/// Returns the contents of the linked blocks from `first` on, and frees them.
fn contents(mut first: *mut Block) -> Vec<u32> {
    let mut contents = Vec::new();
    while !first.is_null() {
        // SAFETY: it was taken from the mailbox, so this thread owns it.
        let block = unsafe { Box::from_raw(first) };
        contents.push(block.content.with(|there| {
            // SAFETY: this thread owns it; loom checks that.
            unsafe { *there }
        }));
        first = block.next;
    }
    contents
}

mod free {
    pub(crate) use super::Block as Free;
}

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicPtr, Ordering};
}

#[path = "../src/mailbox.rs"]
mod mailbox;

#[path = "."]
mod weakened {
    pub(crate) mod free {
        pub(crate) use super::super::Block as Free;
    }

    pub(crate) mod sync {
        pub(crate) use loom::sync::atomic::AtomicPtr;
        use loom::sync::atomic::Ordering as Real;

        pub(crate) struct Ordering;

        #[expect(non_upper_case_globals, reason = "named as what they stand for")]
        impl Ordering {
            pub(crate) const Relaxed: Real = Real::Relaxed;
            pub(crate) const Acquire: Real = Real::Relaxed;
            pub(crate) const Release: Real = Real::Relaxed;
        }
    }

    #[path = "../src/mailbox.rs"]
    pub(crate) mod mailbox;
}

/// Two threads post two blocks each, one singly and one linked, while a third takes: each block arrives once, unchanged.
macro_rules! check {
    ($mailbox:path) => {{
        use $mailbox as Mailbox;
        /// A block has one owner at a time.
        struct Shared(Mailbox);
        // SAFETY: the test checks that posting hands over the blocks.
        unsafe impl Send for Shared {}
        // SAFETY: the test checks that posting hands over the blocks.
        unsafe impl Sync for Shared {}

        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new(Shared(Mailbox(sync::AtomicPtr::new(std::ptr::null_mut()))));
            let singly = {
                let shared = shared.clone();
                thread::spawn(move || {
                    for content in [1, 2] {
                        let block = block(content, std::ptr::null_mut());
                        // SAFETY: this thread owns the block.
                        unsafe { shared.0.post(block, block) };
                    }
                })
            };
            let linked = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let last = block(4, std::ptr::null_mut());
                    let first = block(3, last);
                    // SAFETY: this thread owns the blocks, and they are linked.
                    unsafe { shared.0.post(first, last) };
                })
            };
            let mut seen = contents(shared.0.take());
            thread::yield_now();
            seen.extend(contents(shared.0.take()));
            singly.join().expect("no panic");
            linked.join().expect("no panic");
            seen.extend(contents(shared.0.take()));
            assert!(!shared.0.has_some());
            seen.sort_unstable();
            assert_eq!(seen, [1, 2, 3, 4]);
        });
    }};
}

#[test]
fn every_block_arrives_once_as_it_was_left() {
    check!(mailbox::Mailbox);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn relaxed_orders_are_found() {
    check!(weakened::mailbox::Mailbox);
}
