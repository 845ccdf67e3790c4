//! The stack of slabs that no heap owns under the model checker: `RUSTFLAGS="--cfg loom" cargo test -p heap --test loom_stack --release`.
//!
//! The file itself is compiled again here, with loom's atomics. Each slab has contents that loom watches, and that its
//! owner changes: so a slab that two threads own is found, and so is one whose contents are not handed over. The file
//! is compiled twice more with atomics that spoil it: once they lose the counter that prevents ABA, once every ordering
//! is relaxed. If the checker did not fail there, it would prove nothing.
#![cfg(loom)]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

#[path = "../src/stack.rs"]
mod stack;

#[path = "."]
mod uncounted {
    pub(crate) mod sync {
        pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

        /// Stores the number on top without the counter above it.
        #[derive(Debug)]
        pub(crate) struct AtomicU64(loom::sync::atomic::AtomicU64);

        fn number(top: u64) -> u64 {
            top & u64::from(u32::MAX)
        }

        impl AtomicU64 {
            pub(crate) fn new(top: u64) -> Self {
                AtomicU64(loom::sync::atomic::AtomicU64::new(number(top)))
            }

            pub(crate) fn load(&self, order: Ordering) -> u64 {
                self.0.load(order)
            }

            pub(crate) fn compare_exchange_weak(
                &self,
                current: u64,
                new: u64,
                success: Ordering,
                failure: Ordering,
            ) -> Result<u64, u64> {
                self.0.compare_exchange_weak(number(current), number(new), success, failure)
            }
        }
    }

    #[path = "../src/stack.rs"]
    pub(crate) mod stack;
}

#[path = "."]
mod relaxed {
    pub(crate) mod sync {
        use loom::sync::atomic::Ordering as Real;
        pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64};

        pub(crate) struct Ordering;

        #[expect(non_upper_case_globals, reason = "named as what they stand for")]
        impl Ordering {
            pub(crate) const Relaxed: Real = Real::Relaxed;
            pub(crate) const Acquire: Real = Real::Relaxed;
            pub(crate) const AcqRel: Real = Real::Relaxed;
        }
    }

    #[path = "../src/stack.rs"]
    pub(crate) mod stack;
}

/// Slabs in the pool at first.
const SLAB_COUNT: u32 = 3;

/// One thread takes a slab and puts it back while another takes two and puts back only the first: each slab has one
/// owner at a time, and none is lost.
macro_rules! check {
    ($stack:path) => {{
        use $stack as Stack;

        /// The pool with what is known of each slab.
        struct Pool {
            stack: Stack,
            links: Vec<loom::sync::atomic::AtomicU32>,
            /// How often each slab was taken.
            contents: Vec<loom::cell::UnsafeCell<u32>>,
        }
        // SAFETY: the test checks that the owner of a slab is alone with its contents.
        unsafe impl Send for Pool {}
        // SAFETY: the test checks that the owner of a slab is alone with its contents.
        unsafe impl Sync for Pool {}

        impl Pool {
            fn push(&self, slab: u32) {
                self.stack.push(slab, |number| &self.links[number as usize]);
            }

            fn pop(&self) -> Option<u32> {
                let slab = self.stack.pop(|number| &self.links[number as usize])?;
                self.contents[slab as usize].with_mut(|taken| {
                    // SAFETY: this thread owns the slab; loom checks that.
                    unsafe { *taken += 1 }
                });
                Some(slab)
            }
        }

        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let pool = loom::sync::Arc::new(Pool {
                stack: Stack::new(),
                links: (0..SLAB_COUNT).map(|_| loom::sync::atomic::AtomicU32::new(0)).collect(),
                contents: (0..SLAB_COUNT).map(|_| loom::cell::UnsafeCell::new(0)).collect(),
            });
            (0..SLAB_COUNT).for_each(|slab| pool.push(slab));
            let one = {
                let pool = pool.clone();
                loom::thread::spawn(move || {
                    let slab = pool.pop().expect("the other takes two of three");
                    pool.push(slab);
                })
            };
            let first = pool.pop().expect("the other takes one of three");
            let kept = pool.pop().expect("the other takes one of three");
            pool.push(first);
            one.join().expect("no panic");
            let mut slabs = vec![kept];
            // A slab that is there twice would link to itself.
            slabs.extend((0..SLAB_COUNT).map_while(|_| pool.pop()));
            assert!(pool.stack.is_empty());
            slabs.sort_unstable();
            assert_eq!(slabs, [0, 1, 2], "each slab is owned once");
            let taken: Vec<u32> = pool
                .contents
                .iter()
                .map(|content| {
                    content.with(|taken| {
                        // SAFETY: the other thread has ended.
                        unsafe { *taken }
                    })
                })
                .collect();
            assert_eq!(taken.iter().sum::<u32>(), 5, "nothing that an owner wrote is lost");
        });
    }};
}

#[test]
fn each_slab_has_one_owner_at_a_time() {
    check!(stack::Stack);
}

#[test]
#[should_panic(expected = "each slab is owned once")]
fn a_stack_that_does_not_count_is_found() {
    check!(uncounted::stack::Stack);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn relaxed_orders_are_found() {
    check!(relaxed::stack::Stack);
}
