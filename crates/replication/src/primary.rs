//! The server's state as a primary, shared by all threads: its ids, its replicas, and the replicas that wait for a
//! snapshot.

#![expect(
    clippy::disallowed_types,
    reason = "nothing of this is on the way of a command: replicas come and go, and are shown"
)]

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use effectlog::{AtomicStreamPosition, Backlog, Cut, Held, StreamPosition};
use persistence::Spool;
use rdb::{Style, VERSION, VERSION_WRITTEN_MAX};

use crate::address::Address;
use crate::history::{History, ReplicationId};
use crate::limits::Limits;
use crate::peer::Capabilities;

/// The content of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyContent {
    /// All data that Redis 7.0 understands.
    Redis,
    /// All data, including what only Darter understands.
    Darter,
    /// The libraries of functions.
    Functions,
    /// No snapshot: the journal still has the stream after this offset.
    Tail(StreamPosition),
}

/// The state of a replica, for INFO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ReplicaStage {
    Waiting,
    Sending,
    Online,
}

impl CopyContent {
    /// The format of the snapshot. Redis 7.0 can load one [for Redis](Content::Redis).
    pub fn style(self, compresses: bool) -> Style {
        match self {
            CopyContent::Darter => Style { compresses, version: VERSION_WRITTEN_MAX, keeps_all: true },
            CopyContent::Redis | CopyContent::Functions | CopyContent::Tail(_) => {
                Style { compresses, version: VERSION, keeps_all: false }
            }
        }
    }
}

/// The starting point of a replica.
#[derive(Clone)]
pub struct Start {
    /// The position of its snapshot in the stream, or the end of the part that it reads from the journal.
    pub cut: Cut,
    /// The snapshot that it reads.
    pub spool: Option<Arc<Spool>>,
    /// Keeps the stream after the cut until it is read. Created before the cut.
    pub held: Held,
}

/// One replica, as its own thread and all others see it.
pub struct Replica {
    /// The id of its client.
    pub(crate) client: u64,
    address: String,
    port: u16,
    content: CopyContent,
    pub(crate) capabilities: Capabilities,
    /// On the monotonic clock.
    since_ms: u64,
    stage: AtomicU8,
    start: Mutex<Option<Start>>,
    /// Whether it was told the position of its snapshot, or that it needs none.
    has_start: AtomicBool,
    /// Where in the stream it begins. A smaller acknowledged offset does not mean that it has the data up to there.
    from: AtomicStreamPosition,
    /// The offsets that it has acknowledged, and when.
    acked: AtomicStreamPosition,
    acked_durable: AtomicStreamPosition,
    /// Whether it reports what is on its disk, and its disk accepts writes.
    has_disk: AtomicBool,
    acked_ms: AtomicU64,
    ack_count: AtomicU64,
    /// Commands of the stream that failed there, if it reports that.
    divergence: AtomicU64,
    /// The number of its acknowledgements when it was last asked whether it has everything.
    asked_count: AtomicU64,
}

/// The figures of one replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaFacts {
    /// Its address.
    pub address: String,
    /// The port at which it listens.
    pub port: u16,
    /// `wait_bgsave`, `send_bulk` or `online`.
    pub state: &'static str,
    /// The offset that it has acknowledged.
    pub offset: StreamPosition,
    /// Seconds since that acknowledgement.
    pub lag_seconds: u64,
    /// The offset up to which the stream is on its disk, if it reports that.
    pub durable_offset: Option<StreamPosition>,
    /// Commands of the stream that failed there, if it reports that.
    pub divergence: u64,
}

impl std::fmt::Display for Replica {
    /// As the log has it: the address, and the port at which it listens.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}:{}", self.address, self.port)
    }
}

impl std::fmt::Display for ReplicaFacts {
    /// As INFO has it.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ReplicaFacts { address, port, state, offset, lag_seconds, durable_offset, divergence } = self;
        write!(out, "ip={address},port={port},state={state},offset={offset},lag={lag_seconds}")?;
        durable_offset.map_or(Ok(()), |durable| write!(out, ",durable_offset={durable}"))?;
        if *divergence > 0 { write!(out, ",divergence={divergence}") } else { Ok(()) }
    }
}

/// See the head of this file.
pub struct Primary {
    history: Mutex<History>,
    replicas: Mutex<Vec<Arc<Replica>>>,
    /// When the last replica left, on the monotonic clock.
    left_ms: AtomicU64,
    /// Full synchronizations.
    pub full_count: AtomicU64,
    /// Partial synchronizations.
    pub partial_count: AtomicU64,
    /// Partial synchronizations that were requested but not possible.
    pub refused_count: AtomicU64,
    /// Commands left out of replicas' streams because they do not understand them, summed over replicas.
    pub unsupported_count: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Primary {
    /// Creates the state for a stream with this id, without replicas.
    pub fn new(id: ReplicationId) -> Primary {
        Primary {
            history: Mutex::new(History::new(id)),
            replicas: Mutex::default(),
            left_ms: AtomicU64::new(0),
            full_count: AtomicU64::new(0),
            partial_count: AtomicU64::new(0),
            refused_count: AtomicU64::new(0),
            unsupported_count: AtomicU64::new(0),
        }
    }

    /// The ids of the stream.
    pub fn history(&self) -> History {
        *locked(&self.history)
    }

    /// Sets the ids of the stream.
    pub fn set_history(&self, history: History) {
        *locked(&self.history) = history;
    }

    /// Gives the stream another id, because data changed in a way that is not in the stream.
    pub fn break_history(&self, id: ReplicationId) {
        *locked(&self.history) = History::new(id);
    }

    /// Continues the stream after `end`, up to which its id was `former`.
    pub fn go_on_behind(&self, former: Option<ReplicationId>, end: StreamPosition) {
        locked(&self.history).previous = former.map(|former| (former, end));
    }

    /// Adds a replica. If it needs a snapshot, it waits for one.
    pub(crate) fn enter(&self, replica: Replica) -> Arc<Replica> {
        let replica = Arc::new(replica);
        locked(&self.replicas).push(Arc::clone(&replica));
        replica
    }

    /// Removes a replica.
    pub fn leave(&self, client: u64, now_ms: u64) {
        let mut replicas = locked(&self.replicas);
        for replica in replicas.extract_if(.., |replica| replica.client == client) {
            tracing::info!("Connection with replica {replica} lost.");
            self.left_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Whether there has been no replica for this long.
    pub fn is_deserted(&self, now_ms: u64, for_ms: u64) -> bool {
        let replicas = locked(&self.replicas);
        replicas.is_empty() && now_ms.saturating_sub(self.left_ms.load(Ordering::Relaxed)) >= for_ms
    }

    /// Whether a replica that needs no snapshot waits to continue.
    pub fn has_returned(&self) -> bool {
        locked(&self.replicas).iter().any(|replica| replica.is_waiting() && replica.tail_from().is_some())
    }

    /// Lets all replicas that need no snapshot read the stream from the journal up to this cut.
    pub fn let_go_on(&self, cut: &Cut, held: &Held) {
        let replicas = locked(&self.replicas);
        let returned =
            replicas.iter().filter(|replica| replica.is_waiting() && replica.tail_from().is_some());
        returned
            .for_each(|replica| replica.begin(Start { cut: cut.clone(), spool: None, held: held.clone() }));
    }

    /// The snapshot that must begin now, because replicas have waited for it long enough or enough of them wait.
    pub fn awaited(&self, now_ms: u64, limits: &Limits) -> Option<CopyContent> {
        let Limits { delay_ms, enough, .. } = *limits;
        let replicas = locked(&self.replicas);
        let needs_one = |replica: &&Arc<Replica>| replica.is_waiting() && replica.tail_from().is_none();
        let waiting = || replicas.iter().filter(needs_one);
        let first = waiting().min_by_key(|replica| replica.since_ms)?;
        let count = waiting().filter(|replica| replica.content == first.content).count();
        let is_due = now_ms.saturating_sub(first.since_ms) >= delay_ms || enough > 0 && count >= enough;
        is_due.then_some(first.content)
    }

    /// Notes that this snapshot has begun for all replicas that wait for it. Returns their number.
    pub fn begin(&self, content: CopyContent, start: &Start) -> usize {
        let replicas = locked(&self.replicas);
        let waiting = replicas.iter().filter(|replica| replica.is_waiting() && replica.content == content);
        let count = waiting.map(|replica| replica.begin(start.clone())).count();
        self.full_count.fetch_add(count as u64, Ordering::Relaxed);
        count
    }

    /// The replicas in the order in which they connected.
    pub fn replicas(&self, now_ms: u64) -> Vec<ReplicaFacts> {
        locked(&self.replicas).iter().map(|replica| replica.facts(now_ms)).collect()
    }

    /// The number of replicas that have acknowledged everything up to `offset`, or have it on disk.
    pub fn acknowledged(&self, offset: StreamPosition, is_durable: bool) -> usize {
        let has = |replica: &&Arc<Replica>| {
            replica.stage() == ReplicaStage::Online && replica.acked_as(is_durable) >= offset
        };
        locked(&self.replicas).iter().filter(has).count()
    }

    /// Notes that replicas are being asked whether they have everything.
    pub(crate) fn note_asked(&self) {
        for replica in locked(&self.replicas).iter() {
            replica.asked_count.store(replica.ack_count(), Ordering::Relaxed);
        }
    }

    /// A replica that gets the stream and has answered the question at this place since it was
    /// [asked](Self::note_asked): the one at `target`, or else any on which no command has failed.
    pub(crate) fn caught_up(
        &self,
        target: Option<&Address>,
        question: Range<StreamPosition>,
    ) -> Option<Address> {
        let has_it = |replica: &&Arc<Replica>| {
            let is_meant = match target {
                Some(target) => target.is(&replica.address, replica.port),
                None => replica.divergence.load(Ordering::Relaxed) == 0,
            };
            let has_answered = replica.ack_count() > replica.asked_count.load(Ordering::Relaxed);
            let offset = if replica.capabilities.answers_behind { question.end } else { question.start };
            is_meant && has_answered && replica.stage() == ReplicaStage::Online && replica.acked() >= offset
        };
        let replicas = locked(&self.replicas);
        let replica = replicas.iter().find(has_it)?;
        Some(Address { host: replica.address.clone(), port: replica.port })
    }

    /// Whether a replica receives clients before it takes over: the one at `target`, or else any.
    pub(crate) fn has_receiver(&self, target: Option<&Address>) -> bool {
        locked(&self.replicas).iter().any(|replica| replica.may_receive(target))
    }

    /// A replica that [receives clients](Self::has_receiver) and has applied the stream up to `end`, where it was asked to.
    pub(crate) fn receiver(&self, target: Option<&Address>, end: StreamPosition) -> Option<Address> {
        let replicas = locked(&self.replicas);
        let replica = replicas.iter().find(|replica| {
            let has_answered = replica.ack_count() > replica.asked_count.load(Ordering::Relaxed);
            replica.may_receive(target) && has_answered && replica.acked() >= end
        })?;
        Some(Address { host: replica.address.clone(), port: replica.port })
    }

    /// The number of replicas that get the stream, have loaded their snapshot, and have acknowledged something in the
    /// last `lag` seconds. If `is_durable`, only those count that report what is on their disks.
    pub(crate) fn close_count(&self, now_ms: u64, lag: u64, is_durable: bool) -> usize {
        let is_close = |replica: &&Arc<Replica>| {
            replica.stage() == ReplicaStage::Online
                && (!is_durable || replica.has_disk.load(Ordering::Relaxed))
                && replica.acked() >= replica.from.load(Ordering::Relaxed)
                && now_ms.saturating_sub(replica.acked_ms()) / 1000 <= lag
        };
        locked(&self.replicas).iter().filter(is_close).count()
    }

    /// The offset that at least `count` replicas have acknowledged, or have on disk, if that many get the stream.
    pub(crate) fn offset_of(&self, count: usize, is_durable: bool) -> Option<StreamPosition> {
        let replicas = locked(&self.replicas);
        let online = replicas.iter().filter(|replica| replica.stage() == ReplicaStage::Online);
        let mut offsets: Vec<StreamPosition> = online.map(|replica| replica.acked_as(is_durable)).collect();
        offsets.sort_unstable_by(|a, b| b.cmp(a));
        offsets.get(count.checked_sub(1)?).copied()
    }

    /// Replicas that get the stream and have not acknowledged everything up to `offset`.
    pub fn lagging(&self, offset: StreamPosition) -> Vec<Arc<Replica>> {
        let lags =
            |replica: &&Arc<Replica>| replica.stage() == ReplicaStage::Online && replica.acked() < offset;
        locked(&self.replicas).iter().filter(lags).cloned().collect()
    }

    /// Whether a replica gets the stream.
    pub fn is_followed(&self) -> bool {
        locked(&self.replicas).iter().any(|replica| replica.stage() == ReplicaStage::Online)
    }
}

impl Replica {
    pub(crate) fn new(
        client: u64,
        (address, port): (String, u16),
        content: CopyContent,
        capabilities: Capabilities,
        now_ms: u64,
    ) -> Replica {
        Replica {
            capabilities,
            client,
            address,
            port,
            content,
            since_ms: now_ms,
            stage: AtomicU8::new(ReplicaStage::Waiting as u8),
            start: Mutex::default(),
            has_start: AtomicBool::new(false),
            from: AtomicStreamPosition::default(),
            acked: AtomicStreamPosition::default(),
            acked_durable: AtomicStreamPosition::default(),
            has_disk: AtomicBool::new(false),
            acked_ms: AtomicU64::new(now_ms),
            ack_count: AtomicU64::new(0),
            divergence: AtomicU64::new(0),
            asked_count: AtomicU64::new(0),
        }
    }

    pub(crate) fn begin(&self, start: Start) {
        assert!(self.is_waiting(), "a replica begins once");
        *locked(&self.start) = Some(start);
        self.has_start.store(true, Ordering::Release);
    }

    /// It needs no snapshot.
    pub(crate) fn skip_snapshot(&self) {
        assert!(self.is_waiting(), "a replica begins once");
        self.has_start.store(true, Ordering::Release);
    }

    /// The offset in the journal at which it continues, if it needs no snapshot.
    pub(crate) fn tail_from(&self) -> Option<StreamPosition> {
        match self.content {
            CopyContent::Tail(offset) => Some(offset),
            CopyContent::Redis | CopyContent::Darter | CopyContent::Functions => None,
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.has_start.load(Ordering::Acquire)
    }

    /// Its starting point, once the stream has reached it.
    pub(crate) fn take_start(&self, backlog: &Backlog) -> Option<(StreamPosition, Start)> {
        if self.is_waiting() {
            return None;
        }
        let mut start = locked(&self.start);
        let position = start.as_ref()?.cut.end().filter(|position| backlog.has_reached(*position))?;
        self.from.store(self.tail_from().unwrap_or(position), Ordering::Relaxed);
        Some((position, start.take()?))
    }

    /// Whether it may be the target of a handover and receives clients before.
    fn may_receive(&self, target: Option<&Address>) -> bool {
        let is_meant = match target {
            Some(target) => target.is(&self.address, self.port),
            None => self.divergence.load(Ordering::Relaxed) == 0,
        };
        is_meant && self.capabilities.receives && self.stage() == ReplicaStage::Online
    }

    pub(crate) fn stage(&self) -> ReplicaStage {
        match self.stage.load(Ordering::Relaxed) {
            0 => ReplicaStage::Waiting,
            1 => ReplicaStage::Sending,
            _ => ReplicaStage::Online,
        }
    }

    pub(crate) fn set_stage(&self, stage: ReplicaStage) {
        assert!(stage as u8 >= self.stage() as u8, "a replica that gets the stream waits for no snapshot");
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// Notes that it has acknowledged `offset`, and `durable` on its disk, if it has a journal.
    pub(crate) fn acknowledge(&self, offset: StreamPosition, durable: Option<StreamPosition>, now_ms: u64) {
        self.acked.fetch_max(offset, Ordering::Relaxed);
        self.acked_durable.fetch_max(durable.unwrap_or_default(), Ordering::Relaxed);
        self.has_disk.store(durable.is_some(), Ordering::Relaxed);
        self.note_alive(now_ms);
        self.ack_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes how many commands of the stream have failed there.
    pub(crate) fn note_divergence(&self, count: u64) {
        let before = self.divergence.swap(count, Ordering::Relaxed);
        if before == 0 && count > 0 {
            tracing::warn!("commands of the stream failed on replica {self}, which lacks what they did");
        }
    }

    pub(crate) fn note_alive(&self, now_ms: u64) {
        self.acked_ms.store(now_ms, Ordering::Relaxed);
    }

    pub(crate) fn ack_count(&self) -> u64 {
        self.ack_count.load(Ordering::Relaxed)
    }

    /// The offset that it has acknowledged.
    pub fn acked(&self) -> StreamPosition {
        self.acked.load(Ordering::Relaxed)
    }

    /// The offset that it has acknowledged, or that it has on its disk.
    fn acked_as(&self, is_durable: bool) -> StreamPosition {
        let acked = if is_durable { &self.acked_durable } else { &self.acked };
        acked.load(Ordering::Relaxed)
    }

    pub(crate) fn acked_ms(&self) -> u64 {
        self.acked_ms.load(Ordering::Relaxed)
    }

    fn facts(&self, now_ms: u64) -> ReplicaFacts {
        let stage = self.stage();
        let state = match stage {
            ReplicaStage::Waiting => "wait_bgsave",
            ReplicaStage::Sending => "send_bulk",
            ReplicaStage::Online => "online",
        };
        let silent_ms = now_ms.saturating_sub(self.acked_ms());
        let lag_seconds = if stage == ReplicaStage::Online { silent_ms / 1000 } else { 0 };
        ReplicaFacts {
            address: self.address.clone(),
            port: self.port,
            state,
            offset: self.acked(),
            lag_seconds,
            durable_offset: self.has_disk.load(Ordering::Relaxed).then(|| self.acked_as(true)),
            divergence: self.divergence.load(Ordering::Relaxed),
        }
    }
}
