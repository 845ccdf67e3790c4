//! The baton: one atomic word that is lock and mailbox at once.
//!
//! ```text
//!   0        free
//!   1        held, mailbox empty
//!   p | 1    held, p = newest node of an intrusive stack of delegated tasks
//!
//!   enter     CAS 0 -> 1                     acquire
//!   delegate  CAS w -> node|1 (w held)       release      only ever against a held word
//!   leave     CAS 1 -> 0                     release      only ever against an empty mailbox
//!   take      swap -> 1                      acquire      then the stack is reversed: first come, first served
//! ```
//!
//! Because a push succeeds only against a held word and a leave only against an empty mailbox, there is no
//! "leave, then look again" and no fence. Push-only plus take-all has no ABA problem. The compare-and-swaps
//! form a release sequence, so the one acquiring swap sees every node and what its sender wrote before.
//! Source: flat combining (Hendler et al., 2010) over a Treiber stack; checked with loom in `tests/loom.rs`.

use crate::sync::{AtomicUsize, Ordering};

const FREE: usize = 0;
const HELD: usize = 1;

/// A delegated task, with its link in the mailbox. Boxed by the thread that delegates it.
#[derive(Debug)]
#[repr(align(8))]
pub struct Delegated<T> {
    next: *mut Delegated<T>,
    /// The task to run.
    pub task: T,
}

// SAFETY: the sender writes the link before it publishes the node, and the one taker reads it afterwards; apart
// from that a node is an owned box.
unsafe impl<T: Send> Send for Delegated<T> {}

impl<T> Delegated<T> {
    /// A node to delegate.
    pub fn new(task: T) -> Box<Self> {
        Box::new(Delegated { next: std::ptr::null_mut(), task })
    }
}

/// Lock and mailbox of one shard.
#[derive(Debug)]
pub struct Baton<T> {
    word: AtomicUsize,
    tasks: std::marker::PhantomData<fn(Box<Delegated<T>>)>,
}

impl<T> Default for Baton<T> {
    fn default() -> Self {
        Baton { word: AtomicUsize::new(FREE), tasks: std::marker::PhantomData }
    }
}

impl<T> Baton<T> {
    /// Takes the baton if it is free.
    #[inline]
    pub fn try_enter(&self) -> bool {
        // A failed exchange would pull the cache line from the holder, who needs it to leave.
        !self.is_held()
            && self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether a thread holds the baton right now. Only a hint, which may be outdated.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }

    /// Takes the baton, or leaves `node` with its holder.
    ///
    /// `Some(node)`: the baton is taken, and the node is returned. `None`: delegated; the holder will run it.
    #[must_use = "an entered baton must be left again"]
    pub fn enter_or_delegate(&self, node: Box<Delegated<T>>) -> Option<Box<Delegated<T>>> {
        let raw = Box::into_raw(node);
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word == FREE {
                match self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed) {
                    // SAFETY: `raw` came from the box above and was not published.
                    Ok(_) => return Some(unsafe { Box::from_raw(raw) }),
                    Err(now) => word = now,
                }
                continue;
            }
            // SAFETY: `raw` is still ours alone.
            unsafe { (*raw).next = (word & !HELD) as *mut Delegated<T> };
            match self.word.compare_exchange(word, raw as usize | HELD, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return None,
                Err(now) => word = now,
            }
        }
    }

    /// Puts the baton back. False if a task was delegated meanwhile: then the baton stays held.
    #[inline]
    #[must_use = "the baton is still held when this is false"]
    pub fn try_leave(&self) -> bool {
        self.word.compare_exchange(HELD, FREE, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Takes everything out of the mailbox, oldest first. Only the holder may call this. The baton stays held.
    pub fn take(&self) -> Fifo<T> {
        let word = self.word.swap(HELD, Ordering::Acquire);
        assert!(word != FREE, "only the holder may empty the mailbox");
        let mut stack = (word & !HELD) as *mut Delegated<T>;
        let mut oldest_first = std::ptr::null_mut();
        while !stack.is_null() {
            // SAFETY: every node on the stack was published by `enter_or_delegate` and belongs to the taker now.
            let next = unsafe { (*stack).next };
            // SAFETY: `stack` is still the same node of the chain that this taker owns; no other thread
            // refers to it.
            unsafe { (*stack).next = oldest_first };
            oldest_first = stack;
            stack = next;
        }
        Fifo { head: oldest_first }
    }
}

impl<T> Drop for Baton<T> {
    fn drop(&mut self) {
        if self.is_held() {
            drop(self.take());
        }
    }
}

/// Tasks taken out of a mailbox, oldest first.
#[derive(Debug)]
pub struct Fifo<T> {
    head: *mut Delegated<T>,
}

impl<T> Iterator for Fifo<T> {
    type Item = Box<Delegated<T>>;

    fn next(&mut self) -> Option<Box<Delegated<T>>> {
        if self.head.is_null() {
            return None;
        }
        // SAFETY: this iterator owns the chain, and each node was a box.
        let node = unsafe { Box::from_raw(self.head) };
        self.head = node.next;
        Some(node)
    }
}

impl<T> Drop for Fifo<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn delegated_tasks_come_out_in_order() {
        let baton = Baton::default();
        assert!(baton.try_enter());
        assert!(!baton.try_enter());
        for number in 0..3 {
            assert!(baton.enter_or_delegate(Delegated::new(number)).is_none());
        }
        assert!(!baton.try_leave());
        assert_eq!(baton.take().map(|node| node.task).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(baton.try_leave());
        assert_eq!(baton.enter_or_delegate(Delegated::new(9)).expect("free").task, 9);
        assert!(baton.try_leave());
    }

    #[test]
    fn what_is_left_in_the_mailbox_is_freed() {
        let baton = Baton::default();
        assert!(baton.try_enter());
        assert!(baton.enter_or_delegate(Delegated::new(vec![1, 2, 3])).is_none());
        drop(baton);
    }
}
