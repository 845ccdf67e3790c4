//! The server's knowledge about one client.

use std::collections::BTreeSet;
use std::sync::Arc;

use acl::{Access, CallerDb, Context, Seat};
use config::Settings;
use effectlog::Lsn;
use engine::{Client, Command, CommandError, CommandId, Route, Rule, Table};
use jobs::queues::Progress;
use ops::migrate::Migration;
use proactor::{CloseMode, Usage};
use pubsub::{Caching, ClientTracking, Subscriptions, UnreadNews};
use replication::{Peer, Recipient};
use resp::{Output, Proto, Reply};
use shard::{Subscriber, WatchFlag};
use tls::Handshake;

use crate::session::parser::Protocol;
use crate::session::state::CommandState;
use crate::session::transaction::Multi;
use crate::timeouts::Alarm;

/// Whether a client gets replies (`CLIENT REPLY`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplyMode {
    /// Replies are sent.
    #[default]
    On,
    /// No replies are sent.
    Off,
    /// The next reply is dropped.
    Skip,
}

/// Watched keys of a session.
#[derive(Debug, Default)]
pub struct Watching {
    /// A flag that is raised when one of them has changed.
    pub flag: WatchFlag,
    /// The database and the key.
    pub keys: BTreeSet<(u32, Box<[u8]>)>,
    /// The memory that the keys take here and in their shards.
    memory_bytes: usize,
}

/// Memory that a watched key takes in addition to its name.
const WATCHED_KEY_BYTES: usize = 128;

impl Watching {
    /// Adds a key. Returns false if it was there.
    pub fn add(&mut self, db: u32, key: &[u8]) -> bool {
        let is_new = self.keys.insert((db, key.into()));
        if is_new {
            self.memory_bytes += 2 * key.len() + WATCHED_KEY_BYTES;
        }
        is_new
    }
}

/// One client.
#[derive(Debug)]
pub struct Session {
    /// The part that commands may see.
    pub client: Client,
    /// The state of its command.
    pub state: CommandState,
    /// Its timer.
    pub alarm: Alarm,
    /// Its transaction, between MULTI and EXEC.
    pub multi: Option<Multi>,
    /// The keys of WATCH.
    pub watching: Watching,
    /// Its subscriptions.
    pub subscriptions: Subscriptions,
    /// The options of its `CLIENT TRACKING`.
    pub tracking: Option<Box<ClientTracking>>,
    /// What it was told about handovers, if it asked for that (`CLIENT MAINT_NOTIFICATIONS`).
    pub recipient: Option<Box<Recipient>>,
    /// Whether a replica may redirect it (`CLIENT CAPA`).
    pub follows_redirects: bool,
    /// Whether it reads from this replica although it could be redirected (`READONLY`).
    pub reads_here: bool,
    /// The progress of its `MIGRATE`: what was sent so far.
    pub migration: Option<Box<Migration>>,
    /// The progress of its command on a queue.
    pub progress: Option<Box<Progress>>,
    /// Its state as a replica: what it announced and what it is sent.
    pub replica: Option<Box<Peer>>,
    /// Whether it gets replies.
    pub reply_mode: ReplyMode,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its user and permissions.
    pub access: Access,
    /// Its place in the count of its user's clients.
    pub seat: Option<Seat>,
    /// Whether it is shown every command.
    pub monitor: bool,
    /// Whether it stays connected when clients take too much memory (`CLIENT NO-EVICT`).
    pub no_evict: bool,
    /// Its name (`CLIENT SETNAME`).
    pub name: Vec<u8>,
    /// The name of its library (`CLIENT SETINFO`).
    pub lib_name: Vec<u8>,
    /// The version of its library.
    pub lib_version: Vec<u8>,
    /// Its address.
    pub peer: String,
    /// The address that it connected to.
    pub local: String,
    /// Its TLS handshake, if it has one, until its first command.
    pub handshake: Option<Arc<Handshake>>,
    /// Whether it connected to a Unix socket.
    pub is_unix: bool,
    /// The descriptor of its socket.
    pub descriptor: i32,
    /// When it connected, on the monotonic clock.
    pub created_ms: u64,
    /// When it last sent something, on the monotonic clock.
    pub active_ms: u64,
    /// The command that ran last.
    pub last_command: Option<CommandId>,
    /// The last slice of the journal that contains a write of this client.
    pub written_slice: Lsn,
    /// The time since which its output is above the soft limit.
    pub over_soft_limit_since_ms: Option<u64>,
    /// How much of its output is news about changed keys, if it was sent some.
    pub unread_news: Option<Box<UnreadNews>>,
    /// The largest output that was ever queued for it.
    pub output_bytes_peak: usize,
    /// Whether it is closed after its replies are sent.
    pub close_after_reply: bool,
    /// Whether it is the connection to this server's primary.
    pub is_primary: bool,
    /// Whether it will send nothing more. It still gets the replies to what it has sent.
    pub has_hung_up: bool,
    /// Whether reading from it is paused, because its commands would have to wait anyway.
    pub is_reading_paused: bool,
    /// Whether its input is processed only after other clients have had their turn.
    pub has_to_wait: bool,
    /// Whether serving it took long the last time.
    pub takes_long: bool,
    /// The ids of its connection on other threads, and earlier ones on this thread.
    pub former_names: Vec<Subscriber>,
    /// The number of the last question that it was asked before it came to this thread.
    pub asked: u64,
    /// The time until which it is served apart from others, because one of its commands was slow.
    pub apart_until_ms: u64,
    /// The time it has cost its thread since the last inspection, in ticks of the clock.
    pub cost: u64,
}

impl Session {
    /// The database that its command finds, of this many. A command that is queued finds the one that those before it
    /// select.
    pub fn caller_db(&self, database_count: u32) -> CallerDb {
        let selected = self.multi.as_ref().and_then(|multi| multi.selected_db);
        let db = selected.filter(|db| *db < database_count).unwrap_or(self.client.db);
        CallerDb { db, count: database_count }
    }

    /// The origin of its running command, as the log of denials names it.
    pub fn context(&self) -> Context {
        if self.multi.is_some() { Context::Multi } else { Context::TopLevel }
    }

    /// A new client.
    pub fn new(client: Client, access: Access, now_ms: u64) -> Self {
        Session {
            client,
            state: CommandState::default(),
            alarm: Alarm::default(),
            multi: None,
            watching: Watching::default(),
            subscriptions: Subscriptions::default(),
            tracking: None,
            recipient: None,
            follows_redirects: false,
            reads_here: false,
            unread_news: None,
            migration: None,
            progress: None,
            replica: None,
            reply_mode: ReplyMode::On,
            protocol: Protocol::Redis,
            access,
            seat: None,
            monitor: false,
            no_evict: false,
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_version: Vec::new(),
            peer: String::new(),
            local: String::new(),
            handshake: None,
            is_unix: false,
            descriptor: -1,
            created_ms: now_ms,
            active_ms: now_ms,
            last_command: None,
            written_slice: Lsn::NONE,
            over_soft_limit_since_ms: None,
            output_bytes_peak: 0,
            close_after_reply: false,
            is_primary: false,
            has_hung_up: false,
            is_reading_paused: false,
            has_to_wait: false,
            takes_long: false,
            former_names: Vec::new(),
            asked: 0,
            apart_until_ms: 0,
            cost: 0,
        }
    }

    /// Whether it is subscribed to anything.
    #[inline]
    pub fn is_subscriber(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    /// Whether `is_such` holds for its command or for a command of its EXEC.
    pub fn runs(&self, table: &Table, command: &Command, is_such: fn(&Command) -> bool) -> bool {
        let queued = self.multi.as_ref().filter(|_| command.entry.route == Route::Queued);
        is_such(command)
            || queued.is_some_and(|multi| multi.queued.iter().any(|(id, _)| is_such(table.get(*id))))
    }

    /// The commands between MULTI and EXEC, or those of an EXEC that waits for answers.
    pub fn transaction(&self) -> Option<&Multi> {
        self.multi.as_ref().or_else(|| Some(self.state.executing()?.multi()))
    }

    /// Ends its watches, and adds them to those that must be removed from the shards.
    pub fn end_watches(&mut self, ended: &mut Vec<Watching>) {
        if !self.watching.keys.is_empty() {
            ended.push(std::mem::take(&mut self.watching));
        }
    }

    /// Whether it is a replica.
    pub fn follows(&self) -> bool {
        self.replica.as_ref().is_some_and(|peer| peer.feed.is_some())
    }

    /// How long it has been idle. A client that waits, or that listens, is not idle.
    pub fn idle_ms(&self, now_ms: u64) -> u64 {
        let may_be_silent = self.follows()
            || self.is_primary
            || self.monitor
            || self.is_subscriber()
            || self.state.is_waiting();
        if may_be_silent { 0 } else { now_ms.saturating_sub(self.active_ms) }
    }

    /// Whether it connected from this machine.
    pub fn is_local(&self) -> bool {
        self.is_unix || self.peer.starts_with("127.") || self.peer.starts_with("[::1]")
    }

    /// Must be called before `command`: ends a `CLIENT CACHING` that applied to the command before.
    pub fn next_after_caching(&mut self, command: &Command) {
        let Some(tracking) = &mut self.tracking else { return };
        if tracking.next_after_caching(command, self.multi.is_some()) {
            self.note_tracking();
        }
    }

    /// Updates whether the next command's keys are recorded for tracking.
    pub fn note_tracking(&mut self) {
        self.client.tracks = self.tracking.as_deref().is_some_and(ClientTracking::remembers);
    }

    /// How its connection must be closed once it has been served. `None`: it stays open.
    #[inline]
    pub fn close_mode(&self) -> Option<CloseMode> {
        let is_over = || self.close_after_reply && self.state.executing().is_none();
        self.state.close_mode().or_else(|| is_over().then_some(CloseMode::AfterFlush))
    }

    /// Whether something sets it apart from a plain ready client, so that it cannot take the fast path.
    #[inline]
    pub fn is_special(&self) -> bool {
        self.multi.is_some()
            || self.replica.is_some()
            || self.reply_mode != ReplyMode::On
            || self.follows_redirects
            || self.is_arriving()
            || self.is_subscriber()
            || self.tracking.as_ref().is_some_and(|tracking| tracking.caching != Caching::Unsaid)
    }

    /// Whether it came while this server was about to take over.
    #[inline]
    pub fn is_arriving(&self) -> bool {
        self.recipient.as_ref().is_some_and(|recipient| recipient.is_arriving)
    }

    /// Whether it was told to go to another server. Tells it now if it came later.
    pub fn is_told_to_go(&mut self, settings: &Settings, now_ms: u64, out: &mut Output) -> bool {
        let Some(recipient) = &mut self.recipient else { return false };
        let reply = &mut Reply::new(out, self.client.proto);
        recipient.is_told || recipient.tell_moving((&self.local, settings, now_ms), reply)
    }

    /// The error if it listens to channels in RESP2, where this command is not allowed meanwhile.
    pub fn refusal_of_subscriber(&self, command: &Command) -> Option<CommandError> {
        let is_limited = self.client.proto == Proto::Resp2 && self.is_subscriber();
        (is_limited && !command.entry.is_under(Rule::ForSubscribers)).then(|| {
            CommandError::new(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                command.full_name
            ))
        })
    }

    /// Which output limit applies to it.
    pub fn output_class(&self) -> OutputClass {
        if self.is_subscriber() || self.monitor { OutputClass::Subscriber } else { OutputClass::Normal }
    }

    /// The bytes of news about changed keys that it has not read.
    pub fn unread_news_bytes(&self) -> usize {
        self.unread_news.as_ref().map_or(0, |news| news.bytes())
    }

    /// Its memory, including its connection's buffers (`usage`).
    pub fn memory_bytes(&self, usage: Usage) -> usize {
        size_of::<Session>()
            + usage.input_capacity_bytes
            + usage.output_capacity_bytes
            + self.state.argument_bytes()
            + self.transaction().map_or(0, |multi| multi.memory_bytes)
            + self.watching.memory_bytes
            + self.subscriptions.memory_bytes()
            + self.tracking.as_ref().map_or(0, |tracking| tracking.memory_bytes)
            + [&self.name, &self.lib_name, &self.lib_version].map(Vec::capacity).iter().sum::<usize>()
    }
}

/// Sessions that are swapped while a script runs.
#[derive(Default)]
pub struct Aside {
    /// The client that commands of scripts see; in use while a script runs.
    pub script: Option<Box<Session>>,
    /// The client that called the running script.
    pub caller: Option<Box<Session>>,
}

impl Aside {
    /// The client for which a command of `current` runs: in a script, the client that called the script.
    pub fn caller<'s>(&'s self, current: &'s Session) -> &'s Session {
        self.caller.as_deref().filter(|_| current.client.in_script).unwrap_or(current)
    }
}

/// The classes of `client-output-buffer-limit`, in its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputClass {
    /// Clients that get replies.
    Normal = 0,
    /// Clients that get messages without asking: subscribers and monitors.
    Subscriber = 2,
}
