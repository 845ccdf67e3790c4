//! Reuses parts of messages between threads: nodes for the inboxes, and handoffs for served waiters.
//!
//! ```text
//!   a thread whose clients push        a thread whose clients wait
//!       pool ──▶ node, handoff ─────────▶ inbox ──▶ pool, which fills
//!         ▲                                            │
//!         └───────────────── shared ◀──────────────────┘ half of it, when it is full
//! ```
//!
//! A thread keeps received parts for the messages that it will send. Where jobs flow one way, the surplus at one end
//! returns to the other through [`SharedPool`], which all threads share, as nodes with a handoff in each. Everything has a
//! limit: memory beyond it is freed, and parts that run out are allocated.

use engine::{Handoff, HandoffPool};
use proactor::{MessageNode, SharedPool};

/// The limit of nodes that a thread keeps.
const NODES_MAX: usize = 64;
/// The number of nodes below which the thread looks for more.
const NODES_LOW: usize = 16;

/// The interface that a message needs for its node to be reused.
pub trait Emptied: Send {
    /// The content of an idle node: nothing, or an idle handoff.
    fn emptied(handoff: Option<Box<Handoff>>) -> Self;

    /// Takes the idle handoff.
    fn into_spare_handoff(self) -> Option<Box<Handoff>>;
}

/// The nodes that a thread keeps for messages.
pub struct MessagePool<M>(Vec<Box<MessageNode<M>>>);

impl<M> Default for MessagePool<M> {
    fn default() -> Self {
        MessagePool(Vec::new())
    }
}

impl<M: Emptied> MessagePool<M> {
    /// A node with this message.
    pub fn wrap(&mut self, message: M) -> Box<MessageNode<M>> {
        match self.0.pop() {
            Some(mut node) => {
                node.value = message;
                node
            }
            None => MessageNode::new(message),
        }
    }

    /// Takes the message out of a node that has arrived.
    pub fn unwrap(&mut self, mut node: Box<MessageNode<M>>) -> M {
        let message = std::mem::replace(&mut node.value, M::emptied(None));
        if self.0.len() < NODES_MAX {
            self.0.push(node);
        }
        message
    }

    /// Gives half of a surplus to other threads, and takes parts that run short. Called once per turn.
    #[inline]
    pub fn balance(&mut self, handoffs: &mut HandoffPool, shared: &SharedPool<M>) {
        if self.0.len() == NODES_MAX || handoffs.are_many() {
            self.give(handoffs, shared);
        } else if (self.0.len() < NODES_LOW || handoffs.was_short()) && !shared.is_empty() {
            self.take(handoffs, shared);
        }
    }

    fn give(&mut self, handoffs: &mut HandoffPool, shared: &SharedPool<M>) {
        for _ in 0..NODES_MAX / 2 {
            let Some(mut node) = self.0.pop() else { return };
            if let Some(handoff) = handoffs.pop_surplus() {
                node.value = M::emptied(Some(handoff));
            }
            shared.give(node);
        }
    }

    fn take(&mut self, handoffs: &mut HandoffPool, shared: &SharedPool<M>) {
        for mut node in shared.take_all() {
            if self.0.len() == NODES_MAX {
                // These are for another thread.
                shared.give(node);
                continue;
            }
            if let Some(handoff) = std::mem::replace(&mut node.value, M::emptied(None)).into_spare_handoff() {
                handoffs.put_back(handoff);
            }
            self.0.push(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    type Message = Option<Box<Handoff>>;

    impl Emptied for Message {
        fn emptied(handoff: Option<Box<Handoff>>) -> Self {
            handoff
        }

        fn into_spare_handoff(self) -> Option<Box<Handoff>> {
            self
        }
    }

    #[test]
    fn what_flows_one_way_comes_back() {
        let shared = SharedPool::<Message>::new(2 * NODES_MAX);
        let (mut sender, mut receiver) = (MessagePool::default(), MessagePool::default());
        let [mut taken, mut delivered] = [(); 2].map(|()| HandoffPool::default());
        let (mut nodes, mut boxes) = (HashSet::new(), HashSet::new());
        for _ in 0..10_000 {
            let handoff = taken.take();
            boxes.insert((&raw const *handoff).addr());
            let node = sender.wrap(Some(handoff));
            nodes.insert((&raw const *node).addr());
            let handoff = receiver.unwrap(node).expect("it is sent");
            delivered.put_back(handoff);
            receiver.balance(&mut delivered, &shared);
            sender.balance(&mut taken, &shared);
        }
        assert!(
            nodes.len() <= 2 * NODES_MAX && boxes.len() <= 2 * NODES_MAX,
            "{} {}",
            nodes.len(),
            boxes.len()
        );
    }

    #[test]
    fn a_thread_keeps_no_more_than_it_may() {
        let shared = SharedPool::<Message>::new(8);
        let (mut pool, mut handoffs) = (MessagePool::default(), HandoffPool::default());
        for _ in 0..10 * NODES_MAX {
            assert!(pool.unwrap(MessageNode::new(None)).is_none());
            pool.balance(&mut handoffs, &shared);
        }
        assert!(pool.0.len() <= NODES_MAX);
        assert_eq!(shared.take_all().count(), 8);
    }
}
