//! What travels between threads: delegated commands, waits, and messages to post after leaving the shards.

use std::sync::Arc;

use keyspace::{Kind, ValueRef};
use resp::{Output, Proto};
use shard::{Claim, HandOver, Ready, Scope, Shard, ShardId, Subscriber, Waiter, WatchFlag};
use smallvec::SmallVec;

use crate::args::OwnedArgs;
use crate::ctx::Ctx;
use crate::error::CommandError;
use crate::garbage::Garbage;
use crate::table::CommandId;

/// Idle records that a thread keeps.
const IDLE_MAX: usize = 64;
/// Arguments that took more are not kept.
const ARGS_BYTES_MAX: usize = 1024;
/// A parcel that took more is not kept.
const PARCEL_BYTES_MAX: usize = 4096;
/// With fewer idle parcels than this, those that other threads have left over are wanted.
const PARCELS_LOW: usize = 8;

/// The client for whom a command runs, as far as the command may know it.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// `CLIENT ID`.
    pub id: u64,
    /// The thread of its connection.
    pub thread: u16,
    /// The connection, in the numbering of its thread.
    pub connection: u64,
    /// The selected database.
    pub db: u32,
    /// RESP version of its replies.
    pub proto: Proto,
    /// A blocking command must not block: it runs inside MULTI or a script.
    pub deny_blocking: bool,
    /// The command runs inside a script.
    pub in_script: bool,
    /// There was no room for more in memory when its command came.
    pub lacks_room: bool,
    /// Look-ups leave the access clock alone (`CLIENT NO-TOUCH`).
    pub no_touch: bool,
    /// What it reads is remembered, so that it hears when that changes (`CLIENT TRACKING`).
    pub tracks: bool,
    /// It does not want to hear of its own changes.
    pub no_loop: bool,
    /// `SORT` may look up keys that it makes of patterns.
    pub reads_all_keys: bool,
    /// The command runs delegated: its client may be gone before the reply comes home.
    pub may_be_gone: bool,
}

impl Client {
    /// The client of commands that nobody sent: tests, background work.
    pub fn internal(db: u32, proto: Proto) -> Self {
        Client {
            id: 0,
            thread: 0,
            connection: 0,
            db,
            proto,
            deny_blocking: true,
            in_script: false,
            lacks_room: false,
            no_touch: true,
            tracks: false,
            no_loop: false,
            reads_all_keys: true,
            may_be_gone: false,
        }
    }
}

/// What is to be done with a delegated task.
#[derive(Debug)]
pub enum Work {
    /// Run this command and send the reply back.
    Run(CommandId),
    /// Tell the origin that the shard came free, because it wants several.
    Notify,
    /// Look whether the key at argument 1 could serve at once: the first of two hops, in home mode without
    /// single-hop blocking.
    Look(CommandId),
    /// Take out what the shard still knows of something that ended: a watch or a subscription under the key or channel at
    /// argument 0. No reply.
    Forget(Forget),
    /// Run this command for nobody (putting back what a client that is gone was to get). No reply.
    Restore(CommandId),
    /// Give the shard away, to a script that has written and needs it.
    HandOver(HandOver),
}

/// Something of a client that a shard is to forget.
#[derive(Debug)]
pub enum Forget {
    /// The records of an ended wait.
    Wait {
        /// Whose.
        waiter: Arc<Waiter<Wait>>,
        /// Where they are, all at the shard of the task.
        tickets: SmallVec<[Ticket; 2]>,
    },
    /// A watch.
    Watch(WatchFlag),
    /// A subscription.
    Subscription(Scope, Subscriber),
}

/// Something left in a shard's mailbox, or sent to its home thread.
#[derive(Debug)]
pub struct Task {
    /// What to do.
    pub work: Work,
    /// The shard where.
    pub shard: ShardId,
    /// For whom; says where the reply goes.
    pub client: Client,
    /// The command's arguments.
    pub args: OwnedArgs,
    /// Its reply.
    pub reply: Output,
    /// How it ended.
    pub outcome: Outcome,
    /// What undoes it, should the client be gone.
    pub restore: Option<Restore>,
    /// The slice of the journal with what it wrote; 0: it wrote nothing.
    pub written: u64,
}

impl Task {
    /// A task that has not run yet.
    pub fn new(work: Work, shard: ShardId, client: Client, args: OwnedArgs) -> Task {
        Task {
            work,
            shard,
            client,
            args,
            reply: Output::new(),
            outcome: Outcome::Done,
            restore: None,
            written: 0,
        }
    }
}

/// How a command ended, beside its reply.
#[derive(Debug, Default)]
pub enum Outcome {
    /// The reply is complete.
    #[default]
    Done,
    /// The reply is an error.
    Failed,
    /// It waits; there is no reply yet.
    Blocked(Box<Blocked>),
    /// It touched a shard that it could not have: it has changed nothing, unless something had expired, and must run again with these entered.
    Again(Box<[ShardId]>),
}

/// Serves a waiter from `key`, which its [`When`] found good; false, without a reply, if there is nothing for it.
pub type Serve = fn(&mut Ctx, key: &[u8]) -> Result<bool, CommandError>;

/// Whether a waiter is to be served, given the value of the key, if it still has one, its arguments and the key.
pub type IsServed = fn(Option<ValueRef<'_>>, args: &[&[u8]], key: &[u8]) -> bool;

/// What serves a waiter.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// A value of this type.
    Holds(Kind),
    /// What this finds good.
    Is(IsServed),
}

/// What a blocking command waits for.
#[derive(Debug)]
pub struct BlockOn<'a> {
    /// With what it is served: the command's arguments, but with the ids of now in place of `XREAD`'s `$`.
    pub args: &'a [&'a [u8]],
    /// The keys; the first that gets a value as `when` wants it serves.
    pub keys: &'a [&'a [u8]],
    /// What serves.
    pub when: When,
    /// Another key that is needed to serve (`BLMOVE`'s destination).
    pub also: Option<&'a [u8]>,
    /// In milliseconds; 0 waits for ever.
    pub timeout_ms: u64,
    /// It is to hear also that a key is gone.
    pub heeds_loss: bool,
    /// Serves the waiter.
    pub serve: Serve,
    /// The reply at the timeout is a null array rather than a null.
    pub null_array: bool,
}

/// What the shards keep of a waiting client.
#[derive(Debug)]
pub struct Wait {
    /// Who waits.
    pub client: Client,
    /// Its command.
    pub args: OwnedArgs,
    /// What serves it.
    pub when: When,
    /// A shard that must be entered to serve it, beside that of the ready key.
    pub also: Option<ShardId>,
    /// Serves it.
    pub serve: Serve,
}

impl Wait {
    /// Takes those records of this wait out of `shard` that are there.
    pub fn forget(&self, shard: &mut Shard<Wait>, tickets: &[Ticket]) {
        for ticket in tickets {
            assert_eq!(ticket.shard, shard.id, "a ticket is forgotten where it was given out");
            shard.waiters.remove(self.client.db, self.args.get(ticket.arg), ticket.number);
        }
    }
}

/// A place in the FIFO of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// The shard of the key.
    pub shard: ShardId,
    /// Which one it is of all that this shard has given out.
    pub number: u64,
    /// Which argument of the wait is the key.
    pub arg: usize,
}

/// What the thread of a waiting client keeps.
#[derive(Debug)]
pub struct Blocked {
    /// The record that the shards know.
    pub waiter: Arc<Waiter<Wait>>,
    /// Where it is registered, shard by shard.
    pub tickets: SmallVec<[Ticket; 2]>,
    /// In milliseconds; 0 waits for ever.
    pub timeout_ms: u64,
    /// The reply at the timeout is a null array rather than a null.
    pub null_array: bool,
    /// What its client said, if it is served with something else.
    pub said: Option<OwnedArgs>,
    /// For how long it ran before it began to wait.
    pub ran_ns: u64,
}

/// Records of waits that are over, for those to come: a worker asks for the next job as soon as it has done one. So a thread
/// keeps what a wait of its clients took (the record that the shards know, its own, a copy of the arguments) rather than free
/// it and allocate the same again.
///
/// Nobody else knows an idle record: one that a shard or a message still has is freed when they drop it.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "the boxes are what is kept")]
pub struct IdleWaits(Vec<Box<Blocked>>);

impl IdleWaits {
    /// A record of a wait that begins, registered nowhere yet.
    pub(crate) fn begin(&mut self, client: Client, also: Option<ShardId>, on: &BlockOn) -> Box<Blocked> {
        let waiting = |mut args: OwnedArgs| {
            args.set(on.args);
            let wait = Wait { client, args, when: on.when, also, serve: on.serve };
            Waiter { claim: Claim::default(), wait, heeds_loss: on.heeds_loss }
        };
        let (timeout_ms, null_array) = (on.timeout_ms, on.null_array);
        match self.0.pop() {
            Some(mut blocked) => {
                let waiter = Arc::get_mut(&mut blocked.waiter).expect("nobody else knows an idle record");
                *waiter = waiting(std::mem::take(&mut waiter.wait.args));
                (blocked.timeout_ms, blocked.null_array, blocked.ran_ns) = (timeout_ms, null_array, 0);
                blocked
            }
            None => {
                let (waiter, tickets) = (Arc::new(waiting(OwnedArgs::default())), SmallVec::new());
                Box::new(Blocked { waiter, tickets, timeout_ms, null_array, said: None, ran_ns: 0 })
            }
        }
    }

    /// Keeps the record of a wait that is over, unless somebody else still knows it.
    pub fn put_back(&mut self, mut blocked: Box<Blocked>) {
        let is_small = blocked.waiter.wait.args.memory_bytes() <= ARGS_BYTES_MAX;
        if is_small && self.0.len() < IDLE_MAX && Arc::get_mut(&mut blocked.waiter).is_some() {
            blocked.tickets.clear();
            blocked.said = None;
            self.0.push(blocked);
        }
    }
}

/// What a served client gets, on its way to the client's thread.
#[derive(Debug, Default)]
pub struct Parcel {
    /// The reply.
    pub reply: Output,
    /// What undoes it.
    pub restore: Option<Restore>,
    /// The slice of the journal with what was taken for the client; 0: nothing is recorded.
    pub written: u64,
    /// Memory for the arguments of the next `restore`.
    pub(crate) spare_args: OwnedArgs,
}

/// Parcels that are empty, for those to come. One who serves takes, and the client's thread puts back: where one thread serves and
/// another one's clients wait, somebody has to carry them back.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "the boxes are what is kept")]
pub struct Parcels {
    idle: Vec<Box<Parcel>>,
    is_short: bool,
}

impl Parcels {
    /// One that is empty.
    pub fn take(&mut self) -> Box<Parcel> {
        self.is_short |= self.idle.len() < PARCELS_LOW;
        self.idle.pop().unwrap_or_default()
    }

    /// Keeps one that was delivered, unless there are enough or it is large.
    pub fn put_back(&mut self, mut parcel: Box<Parcel>) {
        if let Some(restore) = parcel.restore.take() {
            parcel.spare_args = restore.args;
        }
        parcel.reply.clear();
        parcel.written = 0;
        let memory_bytes = parcel.reply.capacity_bytes() + parcel.spare_args.memory_bytes();
        if self.idle.len() < IDLE_MAX && memory_bytes <= PARCEL_BYTES_MAX {
            self.idle.push(parcel);
        }
    }

    /// Whether so many are kept that others may have some.
    pub fn are_many(&self) -> bool {
        self.idle.len() == IDLE_MAX
    }

    /// One that others may have.
    pub fn pop_surplus(&mut self) -> Option<Box<Parcel>> {
        if self.idle.len() > IDLE_MAX / 2 { self.idle.pop() } else { None }
    }

    /// Whether there were few when one was taken, since this was asked last.
    pub fn was_short(&mut self) -> bool {
        std::mem::take(&mut self.is_short)
    }
}

/// A command that undoes a pop, should the client turn out to be gone.
#[derive(Debug)]
pub struct Restore {
    /// The database it is for.
    pub db: u32,
    /// The command.
    pub args: OwnedArgs,
}

/// Who gets a published message.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Their connection.
    pub subscriber: Subscriber,
    /// The pattern by which they get it; `None`: they subscribed to the channel.
    pub pattern: Option<Arc<[u8]>>,
}

/// What a published message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// A message on a channel of this kind.
    Channel(Scope),
    /// News of a key, which is the message, to those who have read it.
    Invalidation,
}

/// A published message on its way to its receivers.
#[derive(Debug)]
pub struct Published {
    /// Who gets it: first the channel's subscribers, then pattern by pattern.
    pub to: Vec<Receiver>,
    /// What it is.
    pub medium: Medium,
    /// The channel, if there is one.
    pub channel: Arc<[u8]>,
    /// The message.
    pub message: Arc<[u8]>,
    /// The journal's slice that has to be durable before anybody sees it, or 0. An invalidation never waits: to forget too
    /// early is no mistake.
    pub held_for: u64,
}

/// A message to another thread (or the own), sent after the shards were left.
#[derive(Debug)]
pub enum Post {
    /// A waiter was served.
    Served {
        /// Whose wait ended.
        waiter: Arc<Waiter<Wait>>,
        /// The ticket with which it was served, by shard and number: there it is forgotten already.
        ticket: (ShardId, u64),
        /// What it gets.
        parcel: Box<Parcel>,
    },
    /// A message on a channel.
    Published(Published),
    /// A key has changed, and clients want to hear of all that have this prefix: of several at once.
    Broadcast {
        /// Who, and the prefix.
        to: Vec<(Arc<[u8]>, Subscriber)>,
        /// The key.
        key: Arc<[u8]>,
    },
    /// A keyspace event to publish; it is sent before the key is let go of.
    Event {
        /// The channel.
        channel: Box<[u8]>,
        /// The message.
        message: Box<[u8]>,
    },
    /// All keys of a database are gone: those who track keys are to be told.
    Flushed,
    /// A waiter can be served, but needs another shard.
    ServeLater {
        /// The key.
        ready: Ready,
        /// The other shard.
        also: ShardId,
    },
    /// Something large that left the keyspace, to be freed in slices.
    Free(Garbage),
    /// Something is to happen with the jobs of a queue, soon.
    Due(JobsDue),
    /// A process of a job system says that it lives.
    Beat {
        /// The database.
        db: u32,
        /// The set of processes.
        set: Box<[u8]>,
        /// How it calls itself there.
        identity: Box<[u8]>,
        /// By which client it said so.
        client: u64,
    },
    /// Jobs in a sorted set are to join their queues, soon.
    Promote(JobsDue),
}

/// When something is to happen with the jobs of a queue.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct JobsDue {
    /// When, in ms since 1970.
    pub time_ms: i64,
    /// The shard of the queue.
    pub shard: ShardId,
    /// Its database.
    pub db: u32,
    /// Its key, or that of the sorted set.
    pub queue: Box<[u8]>,
}
