//! The objects that travel between threads: delegated commands, waits, and messages that are sent after the
//! shards are left.

use std::sync::Arc;

use effectlog::Lsn;
use heap::{Exempt, Exemption};
use keyspace::{Kind, UnixMs, ValueRef};
use resp::{Output, Proto};
use shard::{Claim, HandOver, Ready, Scope, Shard, ShardId, Subscriber, Waiter, WatchFlag};
use smallvec::SmallVec;

use crate::args::OwnedArgs;
use crate::ctx::Ctx;
use crate::error::CommandError;
use crate::garbage::Garbage;
use crate::store::Store;
use crate::table::CommandId;

/// The most idle records that a thread keeps.
const IDLE_MAX: usize = 64;
/// Longer arguments are not kept.
const ARGS_BYTES_MAX: usize = 1024;
/// A larger handoff is not kept.
const PARCEL_BYTES_MAX: usize = 4096;
/// With fewer idle handoffs than this, a thread takes some that other threads do not need.
const PARCELS_LOW: usize = 8;

/// The client for whom a command runs: the part of it that commands may see.
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
    /// Whether a blocking command must not block, because it runs inside MULTI or a script.
    pub deny_blocking: bool,
    /// Whether the command runs inside a script.
    pub in_script: bool,
    /// Whether memory was short when the command arrived, and could not be freed.
    pub lacks_room: bool,
    /// Whether look-ups leave the access clock alone (`CLIENT NO-TOUCH`).
    pub no_touch: bool,
    /// Whether the keys that it reads are recorded, so that it is told when they change (`CLIENT TRACKING`).
    pub tracks: bool,
    /// Whether it is not told of its own changes (`NOLOOP`).
    pub no_loop: bool,
    /// Whether `SORT` may read keys that it builds from patterns.
    pub reads_all_keys: bool,
    /// Whether the command runs delegated, so that its client may be gone before the reply arrives.
    pub may_be_gone: bool,
}

impl Client {
    /// Its connection.
    pub fn subscriber(&self) -> Subscriber {
        Subscriber { thread: self.thread, connection: self.connection }
    }

    /// A client for commands that no client sent: tests, background work.
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

/// The work of a delegated task.
#[derive(Debug)]
pub enum Work {
    /// Run this command and send the reply back.
    Run(CommandId),
    /// Tell the client's thread that the shard is free, because its command needs several.
    Notify,
    /// Check whether the key at argument 1 could serve now: the first of two hops, in home mode without single-hop
    /// blocking.
    Look(CommandId),
    /// Remove a watch, wait or subscription that has ended from the shard. No reply.
    Forget(Forget),
    /// Run this command to put back what was taken for a client that is gone. No reply.
    Restore(CommandId),
    /// Hand the shard over to a script that has written and needs it.
    HandOver(HandOver),
}

/// A client's entry that a shard has to remove.
#[derive(Debug)]
pub enum Forget {
    /// The records of an ended wait.
    Wait {
        /// The wait.
        waiter: Arc<Waiter<Wait>>,
        /// The places of its records, all on the task's shard.
        tickets: SmallVec<[Ticket; 2]>,
    },
    /// A watch, at the key in argument 0.
    Watch(WatchFlag),
    /// A subscription, to the channel in argument 0.
    Subscription(Scope, Subscriber),
}

/// A task left in a shard's mailbox, or sent to its home thread.
#[derive(Debug)]
pub struct Task {
    /// The work to do.
    pub work: Work,
    /// The shard to do it in.
    pub shard: ShardId,
    /// The client it is for; this also determines where the reply goes.
    pub client: Client,
    /// The command's arguments.
    pub args: OwnedArgs,
    /// Its reply.
    pub reply: Output,
    /// How it ended.
    pub outcome: Outcome,
    /// The command that puts back what it took if the client is gone.
    pub restore: Option<Restore>,
    /// The slice of the journal with its changes; [`Lsn::NONE`] if it wrote nothing.
    pub written: Lsn,
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
            written: Lsn::NONE,
        }
    }
}

/// The outcome of a command.
#[derive(Debug, Default)]
pub enum Outcome {
    /// The reply is complete.
    #[default]
    Done,
    /// The reply is an error.
    Failed,
    /// The command waits; the reply comes later.
    Blocked(Box<Blocked>),
    /// The command needs a shard that was taken. It has changed nothing (keys may have expired) and must run
    /// again with these shards entered.
    Again(Box<[ShardId]>),
}

/// Serves a waiter from `key`, for which its [`When`] holds; false, without a reply, if the key has nothing
/// for it.
pub type Serve = fn(&mut Ctx, key: &[u8]) -> Result<bool, CommandError>;

/// Whether a waiter can be served, given the value of the key (if it still exists), the waiter's arguments and the key.
pub type IsServed = fn(Option<ValueRef<'_>>, args: &[&[u8]], key: &[u8]) -> bool;

/// Whether there is something for a waiter of `key`.
pub type Finds = fn(&Store, key: &[u8]) -> bool;

/// Whether a waiter with these arguments gets enough from the list at the key.
pub type Suffices = fn(&Store, args: &[&[u8]], key: &[u8]) -> bool;

/// When a waiter can be served, given what [`IsServed`] is given: a time in ms since 1970, which may have passed; `None`
/// if no time will do before the key changes.
pub type ServedAt = fn(Option<ValueRef<'_>>, args: &[&[u8]], key: &[u8]) -> Option<UnixMs>;

/// When a value has something for those who wait until something is due, all of them alike: a time in ms since 1970.
/// `None` if it has nothing that will become due.
pub type DueAt = fn(ValueRef<'_>) -> Option<UnixMs>;

/// The condition under which a waiter is served.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// The key holds a value of this type.
    Holds(Kind),
    /// The list at the key has enough: it is looked at again whenever it grows.
    Suffices(Suffices),
    /// This function returns true.
    Is(IsServed),
    /// This function finds something in the store, at the key or beside it.
    Finds(Finds),
    /// The time that this function returns has come.
    At(ServedAt),
    /// The time that this function returns has come. It is asked again whenever the key grows.
    Due(DueAt),
}

/// The request of a blocking command to wait.
#[derive(Debug)]
pub struct BlockOn<'a> {
    /// The arguments with which it is served: those of the command, with the current ids instead of `XREAD`'s
    /// `$`.
    pub args: &'a [&'a [u8]],
    /// The keys; it is served from the first one for which `when` holds.
    pub keys: &'a [&'a [u8]],
    /// The condition.
    pub when: When,
    /// Another key that serving needs (`BLMOVE`'s destination).
    pub also: Option<&'a [u8]>,
    /// In milliseconds; 0 waits for ever.
    pub timeout_ms: u64,
    /// Whether it is also told when a key is deleted.
    pub heeds_loss: bool,
    /// Serves the waiter.
    pub serve: Serve,
    /// Whether the reply at the timeout is a null array rather than a null.
    pub null_array: bool,
}

/// The record of a waiting client in the shards.
#[derive(Debug)]
pub struct Wait {
    /// The waiting client.
    pub client: Client,
    /// The arguments of its command.
    pub args: OwnedArgs,
    /// The condition.
    pub when: When,
    /// A shard that must be entered to serve it, in addition to the ready key's.
    pub also: Option<ShardId>,
    /// Serves it.
    pub serve: Serve,
}

impl Wait {
    /// Removes the records of this wait that are in `shard`.
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
    /// Its number among all tickets of this shard.
    pub number: u64,
    /// The index of the key among the wait's arguments.
    pub arg: usize,
}

/// The record of a waiting client on its own thread.
#[derive(Debug)]
pub struct Blocked {
    /// The record that the shards know.
    pub waiter: Arc<Waiter<Wait>>,
    /// Its tickets, shard by shard.
    pub tickets: SmallVec<[Ticket; 2]>,
    /// In milliseconds; 0 waits for ever.
    pub timeout_ms: u64,
    /// Whether the reply at the timeout is a null array rather than a null.
    pub null_array: bool,
    /// The client's own arguments, if the wait's arguments differ from them.
    pub said: Option<OwnedArgs>,
    /// How long the command ran before it began to wait.
    pub ran_ns: u64,
}

/// Reusable records of waits that are over. A worker asks for the next job as soon as it has finished one, so
/// a thread keeps the memory of a wait (the record in the shards, its own record, a copy of the arguments)
/// rather than free and allocate it again.
///
/// Nothing else refers to an idle record: one that a shard or a message still refers to is freed when they
/// drop it.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "the boxes are what is kept")]
pub struct IdleWaits(Vec<Box<Blocked>>);

impl IdleWaits {
    /// The record of a new wait, which is not registered anywhere yet.
    pub(crate) fn begin(&mut self, client: Client, also: Option<ShardId>, on: &BlockOn) -> Box<Blocked> {
        let waiting = |mut args: OwnedArgs| {
            args.set(on.args);
            let wait = Wait { client, args, when: on.when, also, serve: on.serve };
            let awaits_due = matches!(on.when, When::Due(_));
            Waiter { claim: Claim::default(), wait, heeds_loss: on.heeds_loss, awaits_due }
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

    /// Keeps the record of a wait that is over, unless something else still refers to it.
    pub fn put_back(&mut self, mut blocked: Box<Blocked>) {
        let is_small = blocked.waiter.wait.args.memory_bytes() <= ARGS_BYTES_MAX;
        if is_small && self.0.len() < IDLE_MAX && Arc::get_mut(&mut blocked.waiter).is_some() {
            blocked.tickets.clear();
            blocked.said = None;
            self.0.push(blocked);
        }
    }
}

/// The delivery for a served client, on its way to the client's thread.
#[derive(Debug, Default)]
pub struct Handoff {
    /// The reply.
    pub reply: Output,
    /// The command that puts it back.
    pub restore: Option<Restore>,
    /// The slice of the journal with its removal; [`Lsn::NONE`] if that is not recorded.
    pub written: Lsn,
    /// Memory for the arguments of the next `restore`.
    pub(crate) spare_args: OwnedArgs,
}

/// Reusable empty handoffs. The thread that serves takes one, and the client's thread puts it back; if one
/// thread keeps serving clients of another, the handoffs have to be carried back.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "the boxes are what is kept")]
pub struct HandoffPool {
    idle: Vec<Box<Handoff>>,
    is_short: bool,
}

impl HandoffPool {
    /// Takes an empty handoff.
    pub fn take(&mut self) -> Box<Handoff> {
        self.is_short |= self.idle.len() < PARCELS_LOW;
        self.idle.pop().unwrap_or_default()
    }

    /// Keeps a delivered handoff, unless there are enough or it is large.
    pub fn put_back(&mut self, mut handoff: Box<Handoff>) {
        if let Some(restore) = handoff.restore.take() {
            handoff.spare_args = restore.args;
        }
        handoff.reply.clear();
        handoff.written = Lsn::NONE;
        let memory_bytes = handoff.reply.capacity_bytes() + handoff.spare_args.memory_bytes();
        if self.idle.len() < IDLE_MAX && memory_bytes <= PARCEL_BYTES_MAX {
            self.idle.push(handoff);
        }
    }

    /// Whether there are enough for other threads to have some.
    pub fn are_many(&self) -> bool {
        self.idle.len() == IDLE_MAX
    }

    /// Takes a handoff for another thread.
    pub fn pop_surplus(&mut self) -> Option<Box<Handoff>> {
        if self.idle.len() > IDLE_MAX / 2 { self.idle.pop() } else { None }
    }

    /// Whether handoffs ran low since the last call.
    pub fn was_short(&mut self) -> bool {
        std::mem::take(&mut self.is_short)
    }
}

/// The command that puts back what a pop took, if the client turns out to be gone.
#[derive(Debug)]
pub struct Restore {
    /// The database it is for.
    pub db: u32,
    /// The command.
    pub args: OwnedArgs,
}

/// A receiver of a published message.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Its connection.
    pub subscriber: Subscriber,
    /// The pattern that matched; `None` if the client subscribed to the channel itself.
    pub pattern: Option<Arc<[u8]>>,
}

/// The kind of a published message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// A message on a channel of this kind.
    Channel(Scope),
    /// The change of a key, which is the message: for clients that have read the key.
    Invalidation,
}

/// A published message on its way to its receivers.
#[derive(Debug)]
pub struct Published {
    /// The receivers: first the channel's subscribers, then pattern by pattern.
    pub to: Vec<Receiver>,
    /// Its kind.
    pub medium: Medium,
    /// The channel, if there is one.
    pub channel: Arc<[u8]>,
    /// The message.
    pub message: Arc<[u8]>,
    /// The slice of the journal that has to be durable before the message is sent, or [`Lsn::NONE`]. An
    /// invalidation never waits: invalidating too early does no harm.
    pub held_for: Lsn,
    /// The client whose command caused it. If that client is a receiver, it gets the message right after the
    /// reply to that command, even if it no longer listens by then.
    pub by: Option<Subscriber>,
    /// The exemption of its memory from `maxmemory`, if it says that a key has changed: evictions send such
    /// messages.
    pub memory: Option<Exemption>,
}

impl Published {
    /// A message that says that a key has changed, without a client that caused it.
    pub fn news(
        to: Vec<Receiver>,
        medium: Medium,
        (channel, message): (Arc<[u8]>, Arc<[u8]>),
        held_for: Lsn,
    ) -> Published {
        let bytes = size_of::<Published>() + size_of_val(&*to) + channel.len() + message.len();
        let memory = Some(Exemption::new(Exempt::News, bytes));
        Published { to, medium, channel, message, held_for, by: None, memory }
    }

    /// A copy of this message for other receivers.
    pub fn to_others(&self, to: Vec<Receiver>) -> Published {
        let Published { medium, held_for, by, .. } = *self;
        let (channel, message) = (self.channel.clone(), self.message.clone());
        match self.memory {
            Some(_) => Published { by, ..Published::news(to, medium, (channel, message), held_for) },
            None => Published { to, medium, channel, message, held_for, by, memory: None },
        }
    }
}

/// A message to a thread (possibly the own one) that is sent after the shards are left.
#[derive(Debug)]
pub enum TxMessage {
    /// A waiter was served.
    Served {
        /// The wait that ended.
        waiter: Arc<Waiter<Wait>>,
        /// The ticket with which it was served, by shard and number. That shard has already removed it.
        ticket: (ShardId, u64),
        /// The delivery for the client.
        handoff: Box<Handoff>,
    },
    /// A message on a channel.
    Published(Published),
    /// A key has changed, and clients track all keys with a prefix of it: one message for several clients.
    Broadcast {
        /// The prefixes and the clients.
        to: Vec<(Arc<[u8]>, Subscriber)>,
        /// The key.
        key: Arc<[u8]>,
    },
    /// A keyspace event to publish; it is sent before the key's shard is left.
    Event {
        /// The channel.
        channel: Box<[u8]>,
        /// The message.
        message: Box<[u8]>,
    },
    /// All keys of a database were deleted: clients that track keys have to be told.
    Flushed,
    /// A waiter can be served, but this needs another shard.
    ServeLater {
        /// The key.
        ready: Ready,
        /// The other shard.
        also: ShardId,
    },
    /// Something large was removed, and has to be freed in slices.
    Free(Garbage),
    /// Something that the thread's work for jobs has to know.
    Jobs(JobsNews),
}

/// What a transaction tells the thread's work for jobs.
#[derive(Debug)]
pub enum JobsNews {
    /// Jobs of a queue need attention soon.
    Due(JobsDue),
    /// Jobs of a sorted set have to be moved to their queues soon.
    Promote(JobsDue),
    /// A client that waits for a key can be served soon.
    Wait(JobsDue),
    /// A process of a job system says that it lives.
    Beat {
        /// The database.
        db: u32,
        /// The set of processes.
        set: Box<[u8]>,
        /// Its name in that set.
        identity: Box<[u8]>,
        /// The client that said so.
        client: u64,
    },
}

/// The thread is told of times within this span; it finds later ones when it looks every second.
pub const SOON_MS: i64 = 1500;

/// A time at which jobs of a queue need attention.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct JobsDue {
    /// The time in ms since 1970.
    pub time_ms: i64,
    /// The shard of the queue.
    pub shard: ShardId,
    /// Its database.
    pub db: u32,
    /// Its key, or that of the sorted set, or the key that a client waits for.
    pub queue: Box<[u8]>,
}
