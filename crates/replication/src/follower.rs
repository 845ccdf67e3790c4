//! Follows the primary: connects, reconnects every second if necessary, and handles what arrives. One thread of the
//! server runs this.
//!
//! ```text
//!             tick                connected              +CONTINUE, or the snapshot is in its place
//!   Resting ────────▶ Dialing ───────────────▶ Linked ───────────────────────────────────────────────▶ Linked, the stream flows
//!      ▲                 │                        │
//!      └── a second ─────┴────────────────────────┘ an error, silence, the connection is closed
//! ```
//!
//! The server keeps its data until a snapshot has arrived completely and was read without an error. The snapshot then
//! replaces the data in one step, together with the id and the offset of the stream. `L` is the loaded snapshot, whose
//! type only [`FollowerAround`] knows.
//!
//! Role changes are made in [`Following`], with all shards held. This thread notices them by their version, which it
//! checks again whenever it has entered shards.
//!
//! Not here: the protocol (`link`), applying commands (`apply.rs`), how a snapshot is stored and read.

use std::sync::atomic::Ordering;

use effectlog::{Lsn, StreamPosition};
use proactor::ConnId;

use crate::apply::{Applied, Applier};
use crate::failover::FailoverState;
use crate::following::{Following, Resume};
use crate::handover;
use crate::history::{History, ReplicationId};
use crate::incoming::{Incoming, Unread};
use crate::link::{self, Event, Link, LinkError, LinkOptions, LinkState, Position};
use crate::link_settings::LinkSettings;
use crate::notices::Notice;
use crate::parts::{RoleChange, RoleNews};
use crate::stage::FollowerAround;

/// The delay before it reconnects.
const RETRY_MS: u64 = 1000;
/// The delay in a group, whose primary may have begun to lead a moment ago.
const GROUP_RETRY_MS: u64 = 10;
/// The attempts that are logged in a group, where they follow each other so fast.
const LOGGED_TRIES: u32 = 3;
/// The attempts in a group that follow each other so fast.
const FAST_TRIES: u32 = 10;
/// The delay if only a change of the settings can help. Each attempt may cost the primary a snapshot.
const HOPELESS_RETRY_MS: u64 = 60_000;
/// Rounds that are applied before other clients get their turn.
const ROUNDS_PER_TURN: usize = 4;
/// Limit of received bytes of the stream that have not been applied. Above it nothing more is read, unless the bytes
/// end within a command or a transaction.
const UNAPPLIED_BYTES_MAX: usize = 512 << 10;
/// From this many bytes, a round is larger and other threads may help.
const MUCH_BYTES: usize = 96 << 10;
/// Limit of received snapshot bytes that have not been written. Above it nothing more is read.
const WAITING_BYTES_MAX: u64 = 32 << 20;

const NO_SUCH_DB: &str = "the primary's stream selects a database that does not exist here";
const UNANNOUNCED: &str = "an unannounced snapshot arrived";

/// A step that needs all shards and must be done before anything else is handled.
enum Pending<L> {
    /// The stream continues, under this id.
    Continue(ReplicationId),
    /// A snapshot was read.
    Install(L),
}

/// A connection to the primary.
struct Linked<L> {
    conn: ConnId,
    link: Link,
    incoming: Option<Incoming>,
    received_bytes: u64,
    /// The position of the snapshot.
    position: Option<Position>,
    pending: Option<Pending<L>>,
    /// Whether received parts of a snapshot must be written or loaded first.
    is_paused: bool,
    /// Whether more of the stream has arrived than could be applied in a turn.
    is_behind: bool,
    /// This server has fewer databases than the primary uses.
    is_hopeless: bool,
    /// Whether the connection is being read.
    reads: bool,
    /// Limit of the stream that waits while a snapshot is loaded.
    unloaded_bytes_max: u64,
    /// The last slice of this server's log that was seen to be on disk.
    durable_slice: Lsn,
}

/// The state of the link.
enum Stance<L> {
    Resting { until_ms: u64 },
    Dialing { resume: Option<Position> },
    Linked(Box<Linked<L>>),
}

/// See the head of this file.
pub struct Follower<L> {
    /// The version of the role that it serves.
    version: u64,
    stance: Stance<L>,
    /// The number of the connection. It tells news of this connection from news of earlier ones.
    attempt: u64,
    /// Whether the log already says that there are too few databases.
    has_told: bool,
    /// The attempts since the role changed or the stream last continued.
    tries: u32,
    /// Whether it does not wait for the next round to connect again.
    is_prompt: bool,
    applier: Applier,
}

impl<L> Default for Follower<L> {
    fn default() -> Self {
        Follower {
            version: 0,
            stance: Stance::Resting { until_ms: 0 },
            attempt: 0,
            has_told: false,
            tries: 0,
            is_prompt: false,
            applier: Applier::default(),
        }
    }
}

impl<L> Follower<L> {
    /// The connection to the primary.
    pub fn conn(&self) -> Option<ConnId> {
        if let Stance::Linked(linked) = &self.stance { Some(linked.conn) } else { None }
    }

    /// Whether the role has changed since it last checked.
    #[inline]
    pub fn is_outdated(&self, following: &Following) -> bool {
        self.version != following.version()
    }

    /// The time at which the primary must be sent something, or is connected to again.
    pub fn says_ms(&self) -> Option<u64> {
        match &self.stance {
            Stance::Linked(linked) => linked.link.says_ms(),
            Stance::Resting { until_ms } if self.is_prompt => Some(*until_ms),
            Stance::Resting { .. } | Stance::Dialing { .. } => None,
        }
    }

    /// The slice of this server's log that the primary waits to see on disk, if it waits for one.
    pub fn awaited_slice(&self) -> Option<Lsn> {
        match &self.stance {
            Stance::Linked(linked) if linked.link.awaits_durable() => Some(linked.durable_slice.next()),
            Stance::Linked(_) | Stance::Resting { .. } | Stance::Dialing { .. } => None,
        }
    }

    /// Whether [`tick`](Self::tick) must be called now, given that slices of this server's log up to `durable` are on
    /// disk.
    pub fn is_due(&self, following: &Following, durable: Lsn, now_ms: u64) -> bool {
        let says = self.says_ms().is_some_and(|says_ms| says_ms <= now_ms)
            || self.awaited_slice().is_some_and(|slice| slice <= durable);
        says || self.is_outdated(following) || following.failover.is_on()
    }

    /// Does the work that is due. Must be called several times a second and after a change of the role.
    pub fn tick(&mut self, around: &mut dyn FollowerAround<L>) {
        let (following, now_ms) = (around.parts().following, around.now_ms());
        handover::step(following, around);
        if self.is_outdated(following) {
            self.version = following.version();
            if let Some(conn) = self.conn() {
                around.parts().log.synced.group.note_unlinked();
                around.close(conn);
            }
            self.stance = Stance::Resting { until_ms: 0 };
            (self.has_told, self.tries) = (false, 0);
            // Another primary may continue the same stream without selecting the database again.
            self.applier = Applier::new(following.stream_db());
        }
        if !following.is_replica() {
            return;
        }
        match &mut self.stance {
            Stance::Resting { until_ms } if now_ms >= *until_ms => self.dial(around),
            Stance::Resting { .. } | Stance::Dialing { .. } => {}
            Stance::Linked(linked) => {
                linked.note_durable(around);
                if let Err(error) = linked.link.tick(now_ms) {
                    return self.give_up(&error.to_string(), around);
                }
                linked.settle(following, around);
                let waiting_bytes = linked.incoming.as_ref().map_or(0, Incoming::waiting_bytes);
                if linked.is_paused && !linked.link.is_loading() && waiting_bytes < WAITING_BYTES_MAX / 2 {
                    linked.is_paused = false;
                    around.come_back(linked.conn);
                }
            }
        }
    }

    fn dial(&mut self, around: &mut dyn FollowerAround<L>) {
        let following = around.parts().following;
        let Some(address) = following.primary() else { return };
        let group = &around.parts().log.synced.group;
        self.is_prompt = group.is_on();
        if address.host.is_empty() || group.is_on() && !group.may_follow(&around.parts()) {
            self.stance = Stance::Resting { until_ms: around.now_ms() + GROUP_RETRY_MS };
            return;
        }
        let resume = match following.resume() {
            Resume::Later => return,
            Resume::Nowhere => None,
            Resume::At(offset) => {
                let history = around.parts().primary.history();
                // If this server made up its id as a primary and wrote nothing under it, no other server knows the id.
                let is_own = !following.is_synced() && following.failover.state() != FailoverState::Asking;
                let id = if is_own { history.id_at(offset) } else { history.id };
                if id != history.id {
                    // The stream continues in the middle of what another server, or this one before a restart, has
                    // written.
                    self.applier = Applier::new(following.last_db());
                }
                link::ReplicationId::parse(&id).map(|id| Position { id, offset })
            }
        };
        self.attempt += 1;
        following.set_state(LinkState::Connecting);
        self.tries += 1;
        if self.tries <= LOGGED_TRIES || !around.parts().log.synced.group.is_on() {
            tracing::info!("Connecting to MASTER {}:{}", address.host, address.port);
        }
        self.stance = Stance::Dialing { resume };
        around.dial(address, self.attempt);
    }

    /// Whether news of this attempt is still relevant.
    pub fn awaits(&self, attempt: u64) -> bool {
        attempt == self.attempt && matches!(self.stance, Stance::Dialing { .. })
    }

    /// The connection is made.
    pub fn connected(&mut self, conn: ConnId, around: &mut dyn FollowerAround<L>) {
        let Stance::Dialing { resume } = self.stance else { return };
        let LinkSettings { credentials, port, address, timeout_ms, unloaded_bytes_max, limits } =
            LinkSettings::of(around.parts().settings);
        let failover = &around.parts().following.failover;
        let (hands_over, takes_snapshots) =
            (failover.state() == FailoverState::Asking, failover.takes_snapshots());
        let forces = failover.forces();
        let mark = (resume.is_some() && !around.parts().following.is_proven()).then(|| around.random_id());
        let options = LinkOptions {
            mark,
            credentials,
            port,
            address,
            resume,
            node: around.parts().log.synced.group.introduction().map(|node| node.to_string()),
            hands_over,
            forces,
            takes_snapshots,
            timeout_ms,
            limits,
        };
        let now_ms = around.now_ms();
        let mut link = Link::new(options, now_ms);
        link.opened(now_ms);
        let mut linked = Box::new(Linked {
            conn,
            link,
            incoming: None,
            received_bytes: 0,
            position: None,
            pending: None,
            is_paused: false,
            is_behind: false,
            is_hopeless: false,
            reads: true,
            unloaded_bytes_max,
            durable_slice: Lsn::NONE,
        });
        linked.settle(around.parts().following, around);
        self.stance = Stance::Linked(linked);
    }

    /// The connection cannot be made, or nothing arrives on it any more.
    pub fn give_up(&mut self, why: &str, around: &mut dyn FollowerAround<L>) {
        let conn = self.conn();
        let is_logged = self.tries <= LOGGED_TRIES || !around.parts().log.synced.group.is_on();
        if !self.is_hopeless() && is_logged {
            tracing::warn!("the link to the primary is down: {why}");
        } else if !self.is_hopeless() {
            tracing::debug!("the link to the primary is down: {why}");
        } else if !std::mem::replace(&mut self.has_told, true) {
            tracing::error!(
                "cannot follow the primary: {why}: start this server with as many databases as the primary has (setting databases); it asks again once a minute"
            );
        }
        self.rest(around);
        if let Some(conn) = conn {
            around.close(conn);
        }
    }

    /// The connection was closed.
    pub fn closed(&mut self, conn: ConnId, around: &mut dyn FollowerAround<L>) {
        if self.conn() == Some(conn) {
            tracing::warn!("Connection with master lost.");
            self.rest(around);
        }
    }

    fn is_hopeless(&self) -> bool {
        matches!(&self.stance, Stance::Linked(linked) if linked.is_hopeless)
    }

    fn rest(&mut self, around: &mut dyn FollowerAround<L>) {
        let now_ms = around.now_ms();
        let group = &around.parts().log.synced.group;
        let retry_ms = match (self.is_hopeless(), group.is_on()) {
            (true, _) => HOPELESS_RETRY_MS,
            (false, true) if self.tries <= FAST_TRIES => GROUP_RETRY_MS,
            (false, true) => GROUP_RETRY_MS * 10,
            (false, false) => RETRY_MS,
        };
        group.note_unlinked();
        self.stance = Stance::Resting { until_ms: now_ms + retry_ms };
        self.applier.break_off();
        if around.parts().following.is_link_up() {
            self.tries = 0;
        }
        if around.parts().following.is_replica() {
            around.parts().following.note_down(now_ms);
        }
    }

    /// The outcome of loading a snapshot.
    pub fn snapshot_read(
        &mut self,
        attempt: u64,
        read: Result<L, Unread>,
        around: &mut dyn FollowerAround<L>,
    ) {
        let Stance::Linked(linked) = &mut self.stance else { return };
        if attempt != self.attempt {
            return;
        }
        match read {
            Ok(loaded) => {
                linked.pending = Some(Pending::Install(loaded));
                around.come_back(linked.conn);
            }
            Err(Unread { why, needs_databases }) => {
                linked.is_hopeless = needs_databases;
                self.give_up(&format!("Failed trying to load the MASTER synchronization DB: {why}"), around)
            }
        }
    }

    /// Handles bytes from the primary.
    pub fn received(&mut self, bytes: &[u8], around: &mut dyn FollowerAround<L>) {
        if let Stance::Linked(linked) = &mut self.stance
            && !bytes.is_empty()
        {
            linked.link.received(bytes, around.now_ms());
            around.parts().following.note_heard(around.now_ms());
        }
        self.go_on(around);
    }

    /// Handles received bytes, for one turn.
    fn go_on(&mut self, around: &mut dyn FollowerAround<L>) {
        let Stance::Linked(linked) = &mut self.stance else { return };
        let role = (around.parts().following, self.version);
        let mut turn = Turn { linked, applier: &mut self.applier, role, attempt: self.attempt };
        match turn.run(around) {
            Ok(is_done) => {
                linked.is_behind = !is_done;
                if !is_done {
                    around.come_back(linked.conn);
                }
                linked.settle(role.0, around);
            }
            Err(why) if !self.is_outdated(role.0) => self.give_up(&why, around),
            Err(_) => {}
        }
    }
}

impl<L> Linked<L> {
    /// Reports how far the log is on disk. Before a snapshot is in place, the log on disk belongs to another stream.
    fn note_durable(&mut self, around: &dyn FollowerAround<L>) {
        if self.pending.is_none() && self.link.state() == LinkState::Connected {
            let durable = around.parts().log.durable_end();
            self.durable_slice = durable.map_or(Lsn::NONE, |(slice, _)| slice);
            self.link.set_durable(durable.map(|(_, offset)| offset));
        }
    }

    /// Sends output, continues or stops reading, and publishes the state.
    fn settle(&mut self, following: &Following, around: &mut dyn FollowerAround<L>) {
        let is_full = self.is_behind && self.link.waiting_bytes() > UNAPPLIED_BYTES_MAX;
        // While a snapshot is loaded, the stream waits here rather than at the primary.
        let reads = if self.link.is_loading() {
            self.link.waiting_bytes() as u64 <= self.unloaded_bytes_max
        } else {
            !self.is_paused && !is_full
        };
        if reads != self.reads {
            self.reads = reads;
            around.set_reading(self.conn, reads);
        }
        self.note_durable(around);
        if self.link.number().is_some() {
            let is_silent = !around.parts().log.synced.group.may_acknowledge();
            self.link.set_silent(is_silent, around.now_ms());
        }
        self.link.set_divergence(following.divergence.load(Ordering::Relaxed));
        if self.pending.is_none() && self.link.state() == LinkState::Connected && self.link.is_proven() {
            following.prove();
        }
        let output = self.link.take_output();
        if !output.is_empty() {
            around.send(self.conn, &output);
        }
        // The stream does not flow until its id has been put in place.
        following.set_state(if self.pending.is_some() { LinkState::Sync } else { self.link.state() });
    }
}

/// One turn of the link.
struct Turn<'a, L> {
    linked: &'a mut Linked<L>,
    applier: &'a mut Applier,
    /// The role that it serves.
    role: (&'static Following, u64),
    attempt: u64,
}

impl<L> Turn<'_, L> {
    /// Handles received bytes. Returns false if there are more. An error ends the link.
    fn run(&mut self, around: &mut dyn FollowerAround<L>) -> Result<bool, String> {
        let mut round_count = 0;
        while round_count < ROUNDS_PER_TURN {
            if let Some(pending) = self.linked.pending.take()
                && let Some(pending) = self.settle_pending(pending, around)
            {
                self.linked.pending = Some(pending);
                return Ok(false);
            }
            if self.linked.is_paused {
                return Ok(true);
            }
            let taken = self.take_events(around);
            if let Some(length) = self.applier.close() {
                let Linked { link, .. } = &mut *self.linked;
                link.take_back(length);
                assert_eq!(link.lent().len(), length, "a round is made of the lent bytes");
                match self.applier.run(link.lent_mut(), self.role, around) {
                    Applied::Done => {
                        link.settle();
                        if let Some(for_ms) = link.take_asked_to_receive() {
                            receive_clients(self.role.0, for_ms, around);
                        }
                        let offset = self.role.0.offset();
                        let is_same = link.position().is_none_or(|at| at.offset == offset);
                        assert!(is_same, "what is acknowledged is what was applied, up to {offset}");
                    }
                    Applied::Later => return Ok(false),
                    Applied::Over => return Err("the role has changed".to_owned()),
                }
                round_count += 1;
                taken?;
            } else if !taken? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Handles received bytes up to an event that needs action. Returns false if nothing has arrived.
    fn take_events(&mut self, around: &mut dyn FollowerAround<L>) -> Result<bool, String> {
        let mut has_come = false;
        let much = self.linked.link.waiting_bytes() >= MUCH_BYTES;
        while !self.applier.is_full(much) && !self.linked.is_paused && self.linked.pending.is_none() {
            if !self.take_event(around)? {
                break;
            }
            has_come = true;
        }
        Ok(has_come)
    }

    /// Handles the next event. Returns false if there is none.
    fn take_event(&mut self, around: &mut dyn FollowerAround<L>) -> Result<bool, String> {
        let Linked { link, incoming, received_bytes, position, pending, is_paused, is_hopeless, .. } =
            &mut *self.linked;
        let next = link.next(around.now_ms()).map_err(|error| {
            if let LinkError::NoFailover(answer) = &error {
                self.role.0.failover.note_refused(answer);
            }
            if matches!(error, LinkError::Stream { .. } | LinkError::Inline { .. }) {
                self.role.0.forget_place();
            }
            error.to_string()
        })?;
        let Some(event) = next else { return Ok(false) };
        match event {
            Event::NotUnderstood { option, answer } => {
                tracing::info!("(Non critical) Master does not understand REPLCONF {option}: {answer}");
            }
            Event::Continued(id) => *pending = Some(Pending::Continue(*id.as_bytes())),
            Event::FullSync(at) => {
                tracing::info!("Full resync from master: {}", shown(at));
                (*position, *received_bytes) = (at, 0);
                self.role.0.note_received(0, None);
                *incoming = Some(around.receive_snapshot(self.attempt)?);
            }
            Event::Snapshot { bytes, left } => {
                *received_bytes += bytes.len() as u64;
                self.role.0.note_received(*received_bytes, left);
                let incoming = incoming.as_ref().ok_or(UNANNOUNCED)?;
                incoming.push(bytes);
                *is_paused = incoming.waiting_bytes() > WAITING_BYTES_MAX;
            }
            Event::SnapshotEnd => {
                incoming.take().ok_or(UNANNOUNCED)?.end();
                *is_paused = true;
                link.begin_loading(around.now_ms());
            }
            Event::Stream { bytes, words, .. } => {
                if !self.applier.take(bytes, &words, around.vocabulary(), self.role.0, around) {
                    *is_hopeless = true;
                    return Err(NO_SUCH_DB.to_owned());
                }
            }
        }
        Ok(true)
    }

    /// Does a step that needs all shards. Returns the step if the shards cannot be entered now.
    fn settle_pending(
        &mut self,
        pending: Pending<L>,
        around: &mut dyn FollowerAround<L>,
    ) -> Option<Pending<L>> {
        let (following, version) = self.role;
        if !around.enter_all() || following.version() != version {
            around.leave();
            return Some(pending);
        }
        let now_ms = around.now_ms();
        let drops_replicas = match pending {
            Pending::Continue(id) => {
                assert!(self.linked.incoming.is_none(), "a stream that goes on has no snapshot");
                let History { id: former, .. } = around.parts().primary.history();
                let Resume::At(offset) = following.resume() else { return None };
                if former != id {
                    let asked = self.linked.link.asked().map(|asked| (*asked.id.as_bytes(), offset));
                    around.parts().rename_stream(History { id, previous: asked });
                }
                following.note_synced(offset);
                following.set_stream_db(self.applier.db());
                around.parts().log.go_on_copying();
                tracing::info!("Successful partial resynchronization with master.");
                former != id
            }
            Pending::Install(loaded) => {
                let position = self.linked.position;
                let (id, offset) = position
                    .map_or((around.random_id(), StreamPosition::START), |at| (*at.id.as_bytes(), at.offset));
                around.parts().primary.set_history(History::new(id));
                *self.applier = Applier::new(Some(around.put_in_place(loaded, offset).unwrap_or(0)));
                following.note_synced(offset);
                following.divergence.store(0, Ordering::Relaxed);
                following.set_stream_db(self.applier.db());
                following.prove();
                self.linked.link.loaded(now_ms);
                tracing::info!("MASTER <-> REPLICA sync: Finished with success");
                self.linked.is_paused = false;
                true
            }
        };
        handover::succeed(&around.parts());
        let parts = around.parts();
        parts.log.synced.group.note_linked(self.linked.link.number(), parts.primary.history().id);
        around.finish();
        around.leave();
        if drops_replicas {
            // They connect again and ask where they are.
            let news = RoleNews::Changed(RoleChange::Promoted, following.version() + 1);
            around.parts().threads.announce(news);
        }
        None
    }
}

/// The primary is about to hand over, perhaps to this server, and asks it to receive clients for so long. 0: it is not.
fn receive_clients<L>(following: &Following, for_ms: u64, around: &mut dyn FollowerAround<L>) {
    let (notices, now_ms) = (&following.notices, around.now_ms());
    let received = notices.receives(now_ms);
    notices.receive(now_ms, for_ms);
    if for_ms == 0 && received {
        let number = notices.next_number();
        around.parts().threads.announce(RoleNews::Notice(Notice::SendsBack { number }));
    }
}

fn shown(position: Option<Position>) -> String {
    position.map_or_else(
        || "where it is, the primary does not say".to_owned(),
        |Position { id, offset }| format!("{}:{offset}", id.as_bytes().escape_ascii()),
    )
}
