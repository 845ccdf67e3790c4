//! Handles one thread's messages: received ones, and those that it sends.
//!
//! ```text
//!   send ── to itself ───────────────────────────▶ come ──▶ pop ──▶ the thread does what it says
//!      └─── to another ──▶ its inbox               ▲ ▲
//!                          own inbox ──▶ fetch ────┘ │
//!                          put_off ──▶ end_wait ─────┘
//! ```
//!
//! A thread sends messages to itself directly, in the same order as to others. Messages that are sent while shards are
//! held (`send_quietly`, `publish`) are only put into the inboxes. `wake_sleepers` wakes their threads afterwards.
//!
//! Not here: the messages (`message.rs`), and acting on them (`life/homecoming.rs`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clients::session::{Answer, MessagePool, Part};
use engine::{Client, HandoffPool, Published};
use proactor::{Inbox, MessageNode, SharedPool, Waker};

use crate::message::Message;

/// A thread as other threads see it.
pub(crate) struct Remote {
    inbox: Inbox<Message>,
    waker: Arc<Waker>,
    /// Whether it has a long command, and has given way to its other clients.
    is_away: AtomicBool,
}

impl Remote {
    /// The thread that this waker wakes.
    pub(crate) fn new(waker: Arc<Waker>) -> Remote {
        Remote { inbox: Inbox::new(waker.clone()), waker, is_away: AtomicBool::new(false) }
    }

    /// Sends a message. Wakes the thread if it sleeps.
    pub(crate) fn send(&self, message: Message) {
        self.inbox.send(MessageNode::new(message));
    }

    /// Whether its inbox has messages.
    pub(crate) fn has_messages(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Whether it sleeps in the kernel. Waking it then costs more than doing its work.
    pub(crate) fn is_asleep(&self) -> bool {
        self.waker.is_asleep()
    }

    /// Whether it has a long command. Tasks that are left with it wait until that has ended.
    pub(crate) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    /// Records whether the thread has given way to its other clients. Only the thread itself calls this.
    pub(crate) fn note_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }
}

/// See the head of this file.
pub(crate) struct Messages {
    thread: u16,
    threads: &'static [Remote],
    /// Reusable nodes for messages to others.
    pool: MessagePool<Message>,
    /// Messages that have been received.
    come: VecDeque<Message>,
    /// Messages that are put off until the next turn.
    put_off: Vec<Message>,
    /// Threads that were sent a message and have yet to be woken.
    sleepers: Vec<u16>,
}

impl Messages {
    /// The messages of thread number `thread`.
    pub(crate) fn new(thread: u16, threads: &'static [Remote]) -> Messages {
        Messages {
            thread,
            threads,
            pool: MessagePool::default(),
            come: VecDeque::new(),
            put_off: Vec::new(),
            sleepers: Vec::new(),
        }
    }

    /// The thread that it belongs to.
    pub(crate) fn thread(&self) -> u16 {
        self.thread
    }

    /// The number of all threads.
    pub(crate) fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// Sends a message to a thread, or directly to itself.
    pub(crate) fn send(&mut self, thread: u16, message: Message) {
        if self.put(thread, message) {
            self.threads[usize::from(thread)].inbox.ring();
        }
    }

    /// Sends a message to a thread, this one too, behind what others have sent it: a reply that is on its way comes first.
    pub(crate) fn send_behind(&mut self, thread: u16, message: Message) {
        if self.push(thread, message) {
            self.threads[usize::from(thread)].inbox.ring();
        }
    }

    /// Sends a message to a thread without waking it: waking takes long while a shard is held.
    pub(crate) fn send_quietly(&mut self, thread: u16, message: Message) {
        if self.put(thread, message) {
            self.sleepers.push(thread);
        }
    }

    /// Sends a message, directly if it is for this thread. Returns whether the thread must be woken.
    fn put(&mut self, thread: u16, message: Message) -> bool {
        if thread == self.thread {
            self.come.push_back(message);
            return false;
        }
        self.push(thread, message)
    }

    /// Puts a message into a thread's inbox, even if it is this one's. Returns whether the thread must be woken.
    fn push(&mut self, thread: u16, message: Message) -> bool {
        self.threads[usize::from(thread)].inbox.push(self.pool.wrap(message))
    }

    /// Sends every thread a message.
    pub(crate) fn send_all(&mut self, mut message: impl FnMut() -> Message) {
        for thread in 0..self.threads.len() as u16 {
            self.send(thread, message());
        }
    }

    /// Answers, for this thread, a client's question to all threads.
    pub(crate) fn answer(&mut self, asker: Client, part: Part) {
        self.send(asker.thread, Message::Answer(Answer { part, ..Answer::to(asker) }));
    }

    /// Sends a published message to the threads of its receivers without waking them.
    pub(crate) fn publish(&mut self, published: Published) {
        pubsub::split_by_thread(published, |thread, published| {
            let node = MessageNode::new(Message::Deliver(published));
            if self.threads[usize::from(thread)].inbox.push(node) {
                self.sleepers.push(thread);
            }
        });
    }

    /// Wakes the threads that were sent messages without being woken.
    #[inline]
    pub(crate) fn wake_sleepers(&mut self) {
        while let Some(thread) = self.sleepers.pop() {
            self.threads[usize::from(thread)].inbox.ring();
        }
    }

    /// Adds the messages of the inbox after those that this thread sent to itself.
    pub(crate) fn fetch(&mut self) {
        let nodes = self.threads[usize::from(self.thread)].inbox.take_all();
        self.come.extend(nodes.map(|node| self.pool.unwrap(node)));
    }

    /// Takes the oldest message.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Message> {
        self.come.pop_front()
    }

    /// Puts a message before all others.
    pub(crate) fn put_first(&mut self, message: Message) {
        self.come.push_front(message);
    }

    /// The received messages, which may be changed in place but not removed.
    pub(crate) fn come_mut(&mut self) -> impl Iterator<Item = &mut Message> {
        self.come.iter_mut()
    }

    /// The number of received messages.
    pub(crate) fn len(&self) -> usize {
        self.come.len()
    }

    /// Whether no message has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.come.is_empty()
    }

    /// Sends itself a message for the next turn, because it cannot be handled in this one.
    pub(crate) fn put_off(&mut self, message: Message) {
        self.put_off.push(message);
    }

    /// Begins the next turn: postponed messages arrive.
    pub(crate) fn end_wait(&mut self) {
        self.come.extend(self.put_off.drain(..));
    }

    /// Whether it has messages, for now or for the next turn.
    pub(crate) fn is_busy(&self) -> bool {
        !self.come.is_empty() || !self.put_off.is_empty()
    }

    /// Whether the inbox of this thread has messages.
    #[cfg(test)]
    pub(crate) fn has_sent_to(&self, thread: u16) -> bool {
        self.threads[usize::from(thread)].has_messages()
    }

    /// Gives half of a surplus of nodes to other threads, and takes some if they run short.
    #[inline]
    pub(crate) fn balance(&mut self, handoffs: &mut HandoffPool, shared: &SharedPool<Message>) {
        self.pool.balance(handoffs, shared);
    }
}

#[cfg(test)]
mod tests {
    use effectlog::Lsn;
    use engine::{Medium, Receiver};
    use shard::{Scope, Subscriber};

    use super::*;
    use crate::message::News;

    /// The messages of `count` threads, and the threads.
    fn messages_of(count: u16) -> (Vec<Messages>, &'static [Remote]) {
        let remotes = (0..count).map(|_| Remote::new(Arc::new(Waker::without_bell())));
        let remotes: &'static [Remote] = Vec::leak(remotes.collect());
        ((0..count).map(|thread| Messages::new(thread, remotes)).collect(), remotes)
    }

    /// The connections that the received messages are for, in their order.
    fn read(messages: &mut Messages) -> Vec<u64> {
        std::iter::from_fn(|| messages.pop())
            .map(|message| match message {
                Message::News(News::FlushedFor(name), _) => name.connection,
                Message::Deliver(published) => published.to[0].subscriber.connection,
                _ => panic!("nothing else is sent here"),
            })
            .collect()
    }

    fn news(connection: u64) -> Message {
        Message::news(News::FlushedFor(Subscriber { thread: 0, connection }))
    }

    #[test]
    fn messages_keep_their_order_whoever_they_are_for() {
        let (mut all, _) = messages_of(2);
        let [one, other] = &mut all[..] else { unreachable!("there are two") };
        for number in 1..=3 {
            one.send(0, news(number));
            one.send(1, news(10 * number));
        }
        one.put_first(news(0));
        other.send(0, news(4));
        one.fetch();
        other.fetch();
        assert_eq!(read(one), [0, 1, 2, 3, 4]);
        assert_eq!(read(other), [10, 20, 30]);
    }

    #[test]
    fn what_is_sent_behind_comes_after_what_others_have_sent() {
        let (mut all, _) = messages_of(2);
        let [one, other] = &mut all[..] else { unreachable!("there are two") };
        other.send(0, news(1));
        one.send_behind(0, news(2));
        one.fetch();
        assert_eq!(read(one), [1, 2]);
    }

    #[test]
    fn what_is_put_off_comes_in_the_next_turn() {
        let (mut all, _) = messages_of(1);
        let one = &mut all[0];
        one.put_off(news(1));
        assert_eq!((one.is_busy(), one.is_empty(), one.pop().is_none()), (true, true, true));
        one.send(0, news(2));
        one.end_wait();
        assert_eq!(read(one), [2, 1]);
        assert!(!one.is_busy());
    }

    #[test]
    fn what_is_published_lies_in_the_inbox_of_each_thread_with_receivers() {
        let (mut all, remotes) = messages_of(3);
        let to = [(2, 7), (0, 5)].map(|(thread, connection)| Receiver {
            subscriber: Subscriber { thread, connection },
            pattern: None,
        });
        let (channel, message) = (Arc::from(*b"news"), Arc::from(*b"hello"));
        let medium = Medium::Channel(Scope::Global);
        all[0].publish(Published {
            to: to.into(),
            medium,
            channel,
            message,
            held_for: Lsn::NONE,
            by: None,
            memory: None,
        });
        // The thread's own message comes after those that others sent before.
        assert!(all[0].is_empty());
        let told: Vec<bool> = remotes.iter().map(Remote::has_messages).collect();
        assert_eq!(told, [true, false, true]);
        all[0].wake_sleepers();
        let read = all.iter_mut().map(|one| {
            one.fetch();
            read(one)
        });
        assert_eq!(read.collect::<Vec<_>>(), [vec![5], vec![], vec![7]]);
    }
}
