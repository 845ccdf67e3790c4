//! What the server knows about one client.

use std::collections::BTreeSet;
use std::sync::Arc;

use acl::Access;
use command::{Blocked, Client, CommandId, Needs, OwnedArgs};
use proactor::{CloseMode, Usage};
use shard::{Scope, WatchFlag};

use crate::commands::migrate::delivery::Migration;
use crate::tracking::{Caching, ClientTracking};

/// What a connection is doing.
#[derive(Debug, Default)]
pub(crate) enum State {
    /// Its next command may run.
    #[default]
    Ready,
    /// A command of it runs elsewhere; nothing is read from it until the reply is here.
    Away,
    /// Its command waits for a shard that was taken, to try again with all of its shards.
    Queued(Retry),
    /// A blocking command waits.
    Blocked(Wait),
    /// Its command waits for the end of `CLIENT PAUSE`.
    Postponed(Postponed),
    /// Its command asked all threads and waits for their answers.
    Gathering(crate::life::gather::Gathering),
    /// It is to be closed in this way.
    Closing(CloseMode),
}

/// A command that is to be tried again.
#[derive(Debug)]
pub(crate) struct Retry {
    pub(crate) command: CommandId,
    pub(crate) args: OwnedArgs,
    /// Shards that it needs beside those of its keys.
    pub(crate) needs: Needs,
    /// How often it was unlucky.
    pub(crate) tries: u32,
}

/// A command that waits for the end of a pause.
#[derive(Debug)]
pub(crate) struct Postponed {
    pub(crate) command: CommandId,
    pub(crate) args: OwnedArgs,
    /// Which one it is on its thread: they run in the order in which they came.
    pub(crate) number: u64,
}

/// A blocking command that waits.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) blocked: Box<Blocked>,
    /// When it times out, on the monotonic clock; `None`: never.
    pub(crate) deadline_ms: Option<u64>,
}

/// What is spoken on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Protocol {
    #[default]
    Redis,
    Memcached,
}

/// Whether replies are sent (`CLIENT REPLY`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum ReplyMode {
    #[default]
    On,
    Off,
    /// The next one is dropped.
    Skip,
}

/// Commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(crate) struct Multi {
    pub(crate) queued: Vec<(CommandId, OwnedArgs)>,
    /// A command was refused: EXEC aborts.
    pub(crate) refused: bool,
    pub(crate) memory_bytes: usize,
}

/// Watched keys of a session.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    pub(crate) flag: WatchFlag,
    /// Database and key.
    pub(crate) keys: Vec<(u32, Box<[u8]>)>,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Session {
    /// What commands may know of it.
    pub(crate) client: Client,
    pub(crate) state: State,
    pub(crate) multi: Option<Multi>,
    pub(crate) watching: Watching,
    pub(crate) channels: BTreeSet<Arc<[u8]>>,
    pub(crate) shard_channels: BTreeSet<Arc<[u8]>>,
    pub(crate) patterns: BTreeSet<Arc<[u8]>>,
    /// What `CLIENT TRACKING` asked for.
    pub(crate) tracking: Option<Box<ClientTracking>>,
    /// What its `MIGRATE` has sent so far.
    pub(crate) migration: Option<Box<Migration>>,
    pub(crate) reply_mode: ReplyMode,
    pub(crate) protocol: Protocol,
    /// As whom it acts.
    pub(crate) access: Access,
    pub(crate) monitor: bool,
    pub(crate) no_evict: bool,
    pub(crate) name: Vec<u8>,
    pub(crate) lib_name: Vec<u8>,
    pub(crate) lib_version: Vec<u8>,
    pub(crate) peer: String,
    pub(crate) local: String,
    pub(crate) is_unix: bool,
    /// The number of its socket.
    pub(crate) descriptor: i32,
    pub(crate) created_ms: u64,
    pub(crate) active_ms: u64,
    pub(crate) last_command: Option<CommandId>,
    /// Since when its output is above the soft limit.
    pub(crate) over_soft_limit_since_ms: Option<u64>,
    /// The most output that ever waited for it.
    pub(crate) output_bytes_peak: usize,
    /// To be closed after the replies are sent.
    pub(crate) close_after_reply: bool,
    /// It will send nothing more, and gets the replies to what it sent.
    pub(crate) has_hung_up: bool,
    /// Nothing is read from it, because its commands would have to wait.
    pub(crate) is_reading_paused: bool,
    /// How often its next command was put off, because its shard was taken.
    pub(crate) put_off_count: u8,
}

impl Session {
    /// A new client.
    pub(crate) fn new(client: Client, access: Access, now_ms: u64) -> Self {
        Session {
            client,
            state: State::Ready,
            multi: None,
            watching: Watching::default(),
            channels: BTreeSet::new(),
            shard_channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            tracking: None,
            migration: None,
            reply_mode: ReplyMode::On,
            protocol: Protocol::Redis,
            access,
            monitor: false,
            no_evict: false,
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_version: Vec::new(),
            peer: String::new(),
            local: String::new(),
            is_unix: false,
            descriptor: -1,
            created_ms: now_ms,
            active_ms: now_ms,
            last_command: None,
            over_soft_limit_since_ms: None,
            output_bytes_peak: 0,
            close_after_reply: false,
            has_hung_up: false,
            is_reading_paused: false,
            put_off_count: 0,
        }
    }

    /// Whether it is subscribed to anything.
    #[inline]
    pub(crate) fn is_subscriber(&self) -> bool {
        !self.channels.is_empty() || !self.patterns.is_empty() || !self.shard_channels.is_empty()
    }

    /// Whether it is subscribed to `channel`, or to this pattern.
    pub(crate) fn is_subscribed(&self, scope: Scope, channel: &[u8], pattern: Option<&[u8]>) -> bool {
        match (pattern, scope) {
            (Some(pattern), _) => self.patterns.contains(pattern),
            (None, Scope::Global) => self.channels.contains(channel),
            (None, Scope::Shard) => self.shard_channels.contains(channel),
        }
    }

    /// The channels of this kind that it is subscribed to.
    pub(crate) fn channels_of(&mut self, scope: Scope) -> &mut BTreeSet<Arc<[u8]>> {
        match scope {
            Scope::Global => &mut self.channels,
            Scope::Shard => &mut self.shard_channels,
        }
    }

    /// How its connection is to be closed once it has been served; `None`: it stays open.
    #[inline]
    pub(crate) fn close_mode(&self) -> Option<CloseMode> {
        match self.state {
            State::Closing(mode) => Some(mode),
            _ => self.close_after_reply.then_some(CloseMode::AfterFlush),
        }
    }

    /// Whether something sets it apart from a plain ready client, so that the fast path is not for it.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        self.multi.is_some()
            || self.reply_mode != ReplyMode::On
            || self.is_subscriber()
            || self.tracking.as_ref().is_some_and(|tracking| tracking.caching != Caching::Unsaid)
    }

    /// Where its output limit comes from.
    pub(crate) fn output_class(&self) -> OutputClass {
        if self.is_subscriber() || self.monitor { OutputClass::Subscriber } else { OutputClass::Normal }
    }

    /// Bytes of arguments that are kept for it: of a command that waits.
    pub(crate) fn waiting_argument_bytes(&self) -> usize {
        match &self.state {
            State::Queued(retry) => retry.args.memory_bytes(),
            State::Blocked(wait) => wait.blocked.waiter.wait.args.memory_bytes(),
            State::Postponed(postponed) => postponed.args.memory_bytes(),
            State::Ready | State::Away | State::Gathering(_) | State::Closing(_) => 0,
        }
    }

    /// Bytes that it takes, with its connection's `usage` of buffers.
    pub(crate) fn memory_bytes(&self, usage: Usage) -> usize {
        size_of::<Session>()
            + usage.input_capacity_bytes
            + usage.output_capacity_bytes
            + self.waiting_argument_bytes()
            + self.multi.as_ref().map_or(0, |multi| multi.memory_bytes)
            + [&self.name, &self.lib_name, &self.lib_version].map(Vec::capacity).iter().sum::<usize>()
    }

    /// Whether a command of it waits for something that may never come: its peer's hang-up ends that.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Blocked(_) | State::Postponed(_))
    }
}

/// The classes of `client-output-buffer-limit`, in its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutputClass {
    /// Clients that get replies.
    Normal = 0,
    /// Clients that are sent what they did not ask for: subscribers and monitors.
    Subscriber = 2,
}
