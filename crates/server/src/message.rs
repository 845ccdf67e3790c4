//! What threads send each other.

use command::{Post, Task};
use proactor::Socket;
use shard::{Node, Subscriber};

use crate::gather::{Answer, Question};

/// A message in a thread's inbox.
pub(crate) enum Message {
    /// A new connection for this thread.
    Adopt(Socket),
    /// A command to run here: its shard is at home here.
    Hop(Box<Node<Task>>),
    /// A delegated task that was run elsewhere comes home.
    Done(Box<Node<Task>>),
    /// Something that happened in a transaction and concerns this thread's connections.
    Post(Post),
    /// A message for channel subscribers of this thread.
    Deliver(Delivery),
    /// A question to all threads.
    Ask(Question),
    /// The answer to one.
    Answer(Answer),
    /// Settings changed: take the new snapshot.
    Reconfigure,
    /// End the loop.
    Stop,
}

/// A published message on its way to the subscribers of one thread.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// Connections that get it, with the pattern by which they do, if any.
    pub(crate) to: Vec<(Subscriber, Option<std::sync::Arc<[u8]>>)>,
    /// The channel.
    pub(crate) channel: std::sync::Arc<[u8]>,
    /// The message.
    pub(crate) payload: std::sync::Arc<[u8]>,
}
