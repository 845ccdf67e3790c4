//! What the server knows about one client.

use acl::Access;
use command::{Client, CommandId, OwnedArgs};
use migrate::Migration;
use proactor::{CloseMode, Usage};
use pubsub::{Caching, ClientTracking, Subscriptions};
use shard::WatchFlag;
use upkeep::timers::Alarm;

use crate::clients::parser::Protocol;
use crate::life::state::State;

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
    /// What its command is doing.
    pub(crate) state: State,
    /// For when it has waited too long.
    pub(crate) alarm: Alarm,
    pub(crate) multi: Option<Multi>,
    pub(crate) watching: Watching,
    pub(crate) subscriptions: Subscriptions,
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
}

impl Session {
    /// A new client.
    pub(crate) fn new(client: Client, access: Access, now_ms: u64) -> Self {
        Session {
            client,
            state: State::default(),
            alarm: Alarm::default(),
            multi: None,
            watching: Watching::default(),
            subscriptions: Subscriptions::default(),
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
        }
    }

    /// Whether it is subscribed to anything.
    #[inline]
    pub(crate) fn is_subscriber(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    /// How its connection is to be closed once it has been served; `None`: it stays open.
    #[inline]
    pub(crate) fn close_mode(&self) -> Option<CloseMode> {
        self.state.close_mode().or_else(|| self.close_after_reply.then_some(CloseMode::AfterFlush))
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

    /// Bytes that it takes, with its connection's `usage` of buffers.
    pub(crate) fn memory_bytes(&self, usage: Usage) -> usize {
        size_of::<Session>()
            + usage.input_capacity_bytes
            + usage.output_capacity_bytes
            + self.state.argument_bytes()
            + self.multi.as_ref().map_or(0, |multi| multi.memory_bytes)
            + [&self.name, &self.lib_name, &self.lib_version].map(Vec::capacity).iter().sum::<usize>()
    }
}

/// Sessions that change places while a script runs.
#[derive(Default)]
pub(crate) struct Aside {
    /// The client that commands of scripts see; in use while one runs.
    pub(crate) script: Option<Box<Session>>,
    /// The client that called the script that runs.
    pub(crate) caller: Option<Box<Session>>,
}

/// The classes of `client-output-buffer-limit`, in its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutputClass {
    /// Clients that get replies.
    Normal = 0,
    /// Clients that are sent what they did not ask for: subscribers and monitors.
    Subscriber = 2,
}
