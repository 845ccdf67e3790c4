//! Defines the messages that threads send each other.

use std::sync::Arc;

use acl::Access;
use clients::session::{Answer, Emptied, Question};
use clients::{Entrance, Listening, Mover, Order};
use commands::keys::populate::Share;
use engine::{Client, Handoff, Published, Task, TxMessage};
use heap::{Exempt, Exemption};
use ops::migrate::Returned;
use proactor::{ConnId, Socket};
use pubsub::Keys;
use replication::{Help, Notice, RoleChange, Unread};
use shard::{Delegated, Subscriber};

use crate::snapshot::Loaded;

/// A message in a thread's inbox.
pub(crate) enum Message {
    /// A new connection for this thread, and its protocol.
    Adopt(Socket, Entrance),
    /// The driver has let go of a connection that moves to another thread.
    Depart(ConnId),
    /// Give connections to another thread.
    Share(Order),
    /// A connection of another thread, which now belongs to this one.
    Arrive(Box<Mover>),
    /// Forget these former names of connections that have ended.
    Forget(Arc<[Subscriber]>),
    /// A connection of the HTTP thread, with its client's user.
    Visit(Socket, Box<Access>),
    /// Accept connections on these listeners, too. Only for the first thread.
    Listen(Listening),
    /// Run this command, whose shard has its home here.
    Hop(Box<Delegated<Task>>),
    /// A delegated task comes back, with the messages that it published for subscribers of this thread.
    Done(Box<Delegated<Task>>, Vec<Published>),
    /// A transaction did something that concerns connections of this thread.
    FromTx(TxMessage),
    /// A message for subscribers of this thread.
    Deliver(Published),
    /// Keys have changed that clients of this thread track. Their memory does not count.
    News(News, Option<Exemption>),
    /// A line for the monitors of this thread.
    Monitor(Arc<Vec<u8>>),
    /// A question to all threads.
    Ask(Question),
    /// Answer this client when the thread's running script has ended or has become slow.
    PassScript(Client),
    /// The answer to `Ask` or `PassScript`.
    Answer(Answer),
    /// Users have changed: some clients may have to be disconnected.
    UsersChanged,
    /// The rest of this thread's share of a `DEBUG POPULATE`.
    Populate(Box<Share>),
    /// A round of a client's `MIGRATE` is complete.
    Migrated(Box<Returned>),
    /// A snapshot has begun, can continue, or has ended.
    Snapshot,
    /// The data loaded at the start, which this thread must put in place.
    Loaded(Box<Loaded>),
    /// News about this server's primary.
    Link(Box<LinkNews>),
    /// Every thread now has its own heap.
    OwnHeap,
    /// A shutdown asks whether the thread still reads its messages.
    ComeBy,
    /// Memory for reuse: the node, and a handoff for a served waiter.
    Spare(Box<Handoff>),
    /// Begin another turn, because the settings have changed or the server stops.
    Wake,
}

/// News for clients that track keys. The connections belong to the thread that gets the message, or once did.
#[derive(Debug)]
pub(crate) enum News {
    /// All keys of a database are gone. This is for all clients that track keys, except one that was told already.
    Flushed(Option<ConnId>),
    /// All keys of a database are gone. This is for the connection to which a tracking client redirects.
    FlushedFor(Subscriber),
    /// Keys have changed that this connection tracks, by name or by prefix.
    Changed(u64, Keys),
    /// Keys have changed. This is for the connection to which a tracking client redirects.
    ChangedFor(Subscriber, Keys),
}

/// News about this server's primary.
pub(crate) enum LinkNews {
    /// The outcome of an attempt to connect.
    Dialed(u64, Result<Socket, String>),
    /// The outcome of loading a received snapshot.
    Read(u64, Result<Loaded, Unread>),
    /// The role has changed. The number is its new version.
    Role(RoleChange, u64),
    /// Output that is held for replicas is no longer discarded.
    EndLoss,
    /// The agent of this node's group has ordered a role, or an acknowledgement may be sent.
    Ordered,
    /// Commands that write must wait, or no longer, because this server hands over.
    HoldWrites(bool),
    /// Clients are told something about a handover, or something is done for them.
    Notice(Notice),
    /// The thread of the link needs help to keep up with the stream.
    Help(Help),
}

impl Message {
    /// News for another thread.
    pub(crate) fn news(news: News) -> Message {
        let memory = match &news {
            News::Flushed(_) | News::FlushedFor(_) => None,
            News::Changed(_, keys) | News::ChangedFor(_, keys) => {
                Some(Exemption::new(Exempt::News, pubsub::memory_bytes(keys)))
            }
        };
        Message::News(news, memory)
    }

    /// Sends the single answer that a client waits for.
    pub(crate) fn answered(asker: Client) -> Message {
        Message::Answer(Answer::to(asker))
    }
}

impl Emptied for Message {
    fn emptied(handoff: Option<Box<Handoff>>) -> Self {
        handoff.map_or(Message::Wake, Message::Spare)
    }

    fn into_spare_handoff(self) -> Option<Box<Handoff>> {
        if let Message::Spare(handoff) = self { Some(handoff) } else { None }
    }
}
