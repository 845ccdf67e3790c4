//! What threads send each other.

use std::sync::Arc;

use acl::Access;
use clients::{Entrance, Listening, Mover, Order};
use command::{Client, Parcel, Post, Published, Task};
use commands::keys::populate::Share;
use migrate::Returned;
use proactor::{ConnId, Socket};
use pubsub::Keys;
use replication::{Help, RoleChange};
use session::{Answer, Emptied, Question};
use shard::{Delegated, Subscriber};

use crate::snapshot::Loaded;

/// A message in a thread's inbox.
pub(crate) enum Message {
    /// A new connection for this thread, and what is spoken on it.
    Adopt(Socket, Entrance),
    /// The driver has let go of a connection that is to go to another thread.
    Depart(ConnId),
    /// This thread is to give connections to another.
    Share(Order),
    /// A connection of another thread, which is one of this thread from here on.
    Arrive(Box<Mover>),
    /// One that was sent to this thread has arrived there.
    Arrived(u16),
    /// Connections had these names that are gone.
    Forget(Arc<[Subscriber]>),
    /// A connection of the thread of HTTP, whose client acts so.
    Visit(Socket, Box<Access>),
    /// Accept connections on these as well. Only for the first thread.
    Listen(Listening),
    /// A command to run here: its shard is at home here.
    Hop(Box<Delegated<Task>>),
    /// A delegated task that was run elsewhere comes home, with what it published for subscribers of this thread.
    Done(Box<Delegated<Task>>, Vec<Published>),
    /// Something that happened in a transaction and concerns this thread's connections.
    Post(Post),
    /// A message for channel subscribers of this thread.
    Deliver(Published),
    /// Keys have changed, and clients of this thread want to hear of it.
    News(News),
    /// A line for the monitors of this thread.
    Monitor(Arc<Vec<u8>>),
    /// A question to all threads.
    Ask(Question),
    /// Of this client, which waits until every thread has answered that its script has ended or is slow.
    PassScript(Client),
    /// The answer to one of these two.
    Answer(Answer),
    /// Users changed: some clients may have to go.
    UsersChanged,
    /// What this thread has left to do of a `DEBUG POPULATE`.
    Populate(Box<Share>),
    /// A round of a client's `MIGRATE` is over.
    Migrated(Box<Returned>),
    /// A snapshot is being saved, can go on, or is over.
    Snapshot,
    /// What was read at the start, to be put in its place.
    Loaded(Box<Loaded>),
    /// News about the own primary.
    Link(Box<LinkNews>),
    /// A heap is there for each thread.
    OwnHeap,
    /// A shutdown asks whether the thread still comes by.
    ComeBy,
    /// In a node that nobody needs: something for what waiters are served with that nobody needs either.
    Spare(Box<Parcel>),
    /// Begin another turn: the settings were changed, or the server stops.
    Wake,
}

/// What clients are told that track keys. Connections are of the thread that gets the message, or were.
#[derive(Debug)]
pub(crate) enum News {
    /// All keys of a database are gone: for all who track keys.
    Flushed,
    /// The same for the one connection to which the client that tracks keys redirects it.
    FlushedFor(Subscriber),
    /// Keys have changed of which this connection, which tracks them or their prefixes, wants to hear.
    Changed(u64, Keys),
    /// The same for the connection to which one that tracks keys redirects it.
    ChangedFor(Subscriber, Keys),
}

/// News for a thread about the own primary.
pub(crate) enum LinkNews {
    /// What came of a connection that was to be made.
    Dialed(u64, Result<Socket, String>),
    /// What came of a snapshot that was received.
    Read(u64, Result<Loaded, String>),
    /// The role has changed; its version since.
    Role(RoleChange, u64),
    /// From now on nothing is lost that was held for replicas.
    EndLoss,
    /// Commands that write wait from now on, or no longer: this server hands over.
    HoldWrites(bool),
    /// The thread of the link is behind.
    Help(Help),
}

impl Message {
    /// The only answer to what a client waits for.
    pub(crate) fn answered(asker: Client) -> Message {
        Message::Answer(Answer::to(asker))
    }
}

impl Emptied for Message {
    fn emptied(parcel: Option<Box<Parcel>>) -> Self {
        parcel.map_or(Message::Wake, Message::Spare)
    }

    fn into_spare_parcel(self) -> Option<Box<Parcel>> {
        if let Message::Spare(parcel) = self { Some(parcel) } else { None }
    }
}
