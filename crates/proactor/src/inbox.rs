//! Messages from many threads to one.
//!
//! An [`Inbox`] is a stack of linked nodes. Nodes are pushed one by one and only taken all at once, so a node
//! cannot come back while someone compares against its address (no ABA). The taken stack is reversed, so it
//! keeps each producer's order.
//!
//! ```text
//!   head ──▶ newest ──▶ … ──▶ oldest ──▶ null        push: compare-and-swap of head      take_all: swap with null
//! ```
//!
//! Nodes are boxes that belong to the caller: a request is sent as a node, the answer is written into it, and
//! the same box is sent back, so a conversation between two threads allocates nothing. The inbox itself has
//! no bound; a sender bounds what it has in flight. How the receiver learns of a message is up to the
//! [`waker`](crate::Waker).
//!
//! Where messages flow one way, their boxes would pile up at one end and run out at the other: threads leave
//! surplus boxes in [`SharedPool`], and take them from there.
//!
//! Invariants: a node is in at most one inbox, because pushing takes the box; every node is returned once.

use std::sync::Arc;

use crate::Waker;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};

/// A message, with its link in an inbox.
#[derive(Debug)]
pub struct MessageNode<T> {
    next: AtomicPtr<MessageNode<T>>,
    /// The message.
    pub value: T,
}

impl<T> MessageNode<T> {
    /// A node that can be sent, received, written to and sent again.
    pub fn new(value: T) -> Box<MessageNode<T>> {
        Box::new(MessageNode { next: AtomicPtr::new(std::ptr::null_mut()), value })
    }
}

/// A stack to which any thread pushes nodes, and from which all are taken at once.
#[derive(Debug)]
struct Stack<T> {
    head: AtomicPtr<MessageNode<T>>,
}

impl<T> Stack<T> {
    fn new() -> Stack<T> {
        Stack { head: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    fn push(&self, node: Box<MessageNode<T>>) {
        let node = Box::into_raw(node);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: `node` came from a box and is not published yet, so it is ours alone.
            unsafe { &*node }.next.store(head, Ordering::Relaxed);
            match self.head.compare_exchange_weak(head, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(current) => head = current,
            }
        }
    }

    /// Takes everything, oldest first. Returns the count as well.
    fn take_all(&self) -> (Fetched<T>, usize) {
        if self.is_empty() {
            return (Fetched { oldest: std::ptr::null_mut() }, 0);
        }
        // Acquire: pairs with the Release of every push below, all of them links of one release sequence.
        let mut node = self.head.swap(std::ptr::null_mut(), Ordering::Acquire);
        let (mut oldest, mut count) = (std::ptr::null_mut(), 0);
        while !node.is_null() {
            // SAFETY: the swap made the whole chain ours; each node came from a box and is live.
            let link = &unsafe { &*node }.next;
            let older = link.load(Ordering::Relaxed);
            link.store(oldest, Ordering::Relaxed);
            oldest = node;
            node = older;
            count += 1;
        }
        (Fetched { oldest }, count)
    }
}

impl<T> Drop for Stack<T> {
    fn drop(&mut self) {
        // Acquire: the last reference is gone, but the chain was written by other threads.
        let newest = self.head.load(Ordering::Acquire);
        drop(Fetched { oldest: newest });
    }
}

/// Messages of many threads for the thread that owns `waker`.
#[derive(Debug)]
pub struct Inbox<T> {
    stack: Stack<T>,
    waker: Arc<Waker>,
}

impl<T: Send> Inbox<T> {
    /// An empty inbox of the thread that `waker` wakes.
    pub fn new(waker: Arc<Waker>) -> Inbox<T> {
        Inbox { stack: Stack::new(), waker }
    }

    /// Leaves a message. True if the receiver sleeps: then the caller must [`ring`](Inbox::ring), at once, or
    /// once at the end of its turn for all messages that it has sent.
    #[must_use = "a sleeping receiver stays asleep until someone rings"]
    pub fn push(&self, node: Box<MessageNode<T>>) -> bool {
        self.stack.push(node);
        self.waker.notify()
    }

    /// Leaves a message and wakes the receiver if it sleeps.
    pub fn send(&self, node: Box<MessageNode<T>>) {
        if self.push(node) {
            self.ring();
        }
    }

    /// Wakes the receiver, after a [`push`](Inbox::push) that returned true.
    pub fn ring(&self) {
        self.waker.ring();
    }

    /// Whether it was empty a moment ago.
    pub fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// Takes everything, oldest first. Called by the receiver after it has taken the waker's notice.
    pub fn take_all(&self) -> Fetched<T> {
        self.stack.take_all().0
    }
}

/// Surplus nodes of threads that get more messages than they send, for threads that send more.
#[derive(Debug)]
pub struct SharedPool<T> {
    stack: Stack<T>,
    /// The number of nodes, including those that are about to be pushed or were just taken.
    count: AtomicUsize,
    count_max: usize,
}

impl<T: Send> SharedPool<T> {
    /// No nodes yet; there will be at most `count_max`.
    pub fn new(count_max: usize) -> SharedPool<T> {
        SharedPool { stack: Stack::new(), count: AtomicUsize::new(0), count_max }
    }

    /// Gives a node away; it is freed if there are enough.
    pub fn give(&self, node: Box<MessageNode<T>>) {
        if self.count.fetch_add(1, Ordering::Relaxed) < self.count_max {
            self.stack.push(node);
        } else {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether it was empty a moment ago.
    pub fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// Takes everything.
    pub fn take_all(&self) -> Fetched<T> {
        let (mail, count) = self.stack.take_all();
        self.count.fetch_sub(count, Ordering::Relaxed);
        mail
    }
}

/// The messages taken from an inbox, oldest first. Dropping this drops those that are left.
#[derive(Debug)]
pub struct Fetched<T> {
    oldest: *mut MessageNode<T>,
}

impl<T> Iterator for Fetched<T> {
    type Item = Box<MessageNode<T>>;

    fn next(&mut self) -> Option<Box<MessageNode<T>>> {
        if self.oldest.is_null() {
            return None;
        }
        // SAFETY: the chain is ours; each node came from `Box::into_raw` and leaves the chain here.
        let node = unsafe { Box::from_raw(self.oldest) };
        self.oldest = node.next.load(Ordering::Relaxed);
        Some(node)
    }
}

impl<T> Drop for Fetched<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_in_the_order_they_went_in() {
        let inbox = Inbox::new(Arc::new(Waker::without_bell()));
        for i in 0..5 {
            let _ = inbox.push(MessageNode::new(i));
        }
        assert_eq!(inbox.take_all().map(|node| node.value).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert!(inbox.is_empty());
        assert_eq!(inbox.take_all().count(), 0);
    }

    #[test]
    fn only_the_first_message_to_a_sleeper_has_to_ring() {
        let waker = Arc::new(Waker::without_bell());
        let inbox = Inbox::new(waker.clone());
        assert!(!inbox.push(MessageNode::new(1)), "awake");
        assert!(!waker.try_sleep(), "there is a notice");
        assert!(waker.take_notice());
        assert_eq!(inbox.take_all().count(), 1);
        assert!(waker.try_sleep());
        assert!(inbox.push(MessageNode::new(2)));
        assert!(!inbox.push(MessageNode::new(3)));
        waker.rise();
        assert!(waker.take_notice());
        assert_eq!(inbox.take_all().count(), 2);
    }

    #[test]
    fn what_is_left_is_dropped_with_the_inbox_and_with_the_mail() {
        let alive = Arc::new(());
        let inbox = Inbox::new(Arc::new(Waker::without_bell()));
        for _ in 0..3 {
            let _ = inbox.push(MessageNode::new(alive.clone()));
        }
        let mut mail = inbox.take_all();
        drop(mail.next());
        assert_eq!(Arc::strong_count(&alive), 3);
        drop(mail);
        let _ = inbox.push(MessageNode::new(alive.clone()));
        drop(inbox);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn spares_are_bounded_and_taken_whole() {
        let alive = Arc::new(());
        let pool = SharedPool::new(3);
        (0..5).for_each(|_| pool.give(MessageNode::new(alive.clone())));
        assert_eq!(Arc::strong_count(&alive), 4);
        assert_eq!((pool.take_all().count(), pool.is_empty()), (3, true));
        pool.give(MessageNode::new(alive.clone()));
        drop(pool);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn a_node_travels_without_being_allocated_again() {
        let inbox = Inbox::new(Arc::new(Waker::without_bell()));
        let node = MessageNode::new(1);
        let address = &raw const *node;
        let _ = inbox.push(node);
        let back = inbox.take_all().next().expect("one message");
        assert_eq!(&raw const *back, address);
    }
}
