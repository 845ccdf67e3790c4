//! The state of the link to the primary that this server follows, as all threads see it.
//!
//! One thread owns the link and reports its state; all others read it here. Whether there is a primary at all is one
//! relaxed load, because every command that writes asks. The role changes while all shards are held, so no transaction
//! sees it change.

#![expect(
    clippy::disallowed_types,
    reason = "nothing of this is on the way of a command but whether there is a primary"
)]

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use effectlog::{AtomicStreamPosition, Cut, NO_DB, StreamPosition};

use config::{CLUSTER_ETCD, REPLICAOF, Settings};

use crate::address::Address;
use crate::failover::Failover;
use crate::history::{History, ReplicationId};
use crate::link::LinkState;
use crate::notices::Notices;
use crate::primary::Primary;

/// See the head of this file.
#[derive(Default)]
pub struct Following {
    is_replica: AtomicBool,
    /// The version of the role: how often it was changed.
    version: AtomicU64,
    primary: Mutex<Option<Address>>,
    /// Where this server's stream ended when it became a replica.
    end: Mutex<Option<Cut>>,
    /// Whether the data are those that the primary had at `offset`.
    is_synced: AtomicBool,
    /// Whether this server, at some time since its start, had everything that its primary had.
    is_proven: AtomicBool,
    offset: AtomicStreamPosition,
    state: AtomicU8,
    /// When the stream broke, or was first requested, on the monotonic clock.
    down_since_ms: AtomicU64,
    /// When something last arrived, on the monotonic clock.
    heard_ms: AtomicU64,
    /// The size of the snapshot that is being received (0: unknown), and the bytes that have arrived.
    snapshot_bytes: AtomicU64,
    received_bytes: AtomicU64,
    /// The database selected in the stream at `offset`. All bits set: the stream selects one before it needs one.
    stream_db: AtomicU32,
    /// This server's failover.
    pub failover: Failover,
    /// Notices for clients about a failover, of this server or of its primary.
    pub notices: Notices,
    /// Commands of streams that failed here.
    pub error_count: AtomicU64,
    /// How many of them failed since the last full synchronization. This server lacks their effects.
    pub divergence: AtomicU64,
}

/// Where the link may ask the stream to continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// Not known yet, because the log is still being closed.
    Later,
    /// Nowhere.
    Nowhere,
    /// At this offset.
    At(StreamPosition),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Following {
    /// The state that the setting `replicaof` gives at the start.
    pub fn of(settings: &Settings) -> Following {
        let following = Following::default();
        if !settings.text(CLUSTER_ETCD).is_empty() {
            // A node of a group does nothing of its own before it knows its role.
            following.follow(Address { host: String::new(), port: 0 }, None, 0);
        } else if let Some((host, port)) = settings.text(REPLICAOF).rsplit_once(' ') {
            let port = port.parse().expect("it was looked at when it was read");
            following.follow(Address { host: host.to_owned(), port }, None, 0);
        }
        following
    }

    /// Whether this server follows a primary, connected or not.
    #[inline]
    pub fn is_replica(&self) -> bool {
        // Relaxed: the role changes only while all shards are held, and the caller holds one.
        self.is_replica.load(Ordering::Relaxed)
    }

    /// Whether the stream flows.
    pub fn is_link_up(&self) -> bool {
        self.state() == LinkState::Connected
    }

    /// Whether the data are those that the primary had at [`offset`](Self::offset).
    pub fn is_synced(&self) -> bool {
        self.is_synced.load(Ordering::Relaxed)
    }

    /// Whether this server has caught up with its primary at some time since its start. Writes that it acknowledged
    /// before the start may not have reached its disk, so it must not be promoted before it has caught up.
    pub fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    pub(crate) fn prove(&self) {
        self.is_proven.store(true, Ordering::Relaxed);
    }

    /// The version of the role: how often it was changed. It cannot change while a shard is held.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// The version of the role if this server follows a primary; 0 if it does not. The caller holds all shards, or the
    /// server serves no clients yet.
    pub fn role(&self) -> u64 {
        if self.is_replica() { self.version() } else { 0 }
    }

    /// The state of the link.
    pub fn state(&self) -> LinkState {
        LinkState::of_number(self.state.load(Ordering::Relaxed))
    }

    /// The primary that is followed.
    pub fn primary(&self) -> Option<Address> {
        locked(&self.primary).clone()
    }

    /// When the stream broke, or was first requested, on the monotonic clock.
    pub fn down_since_ms(&self) -> u64 {
        self.down_since_ms.load(Ordering::Relaxed)
    }

    /// When something last arrived, on the monotonic clock.
    pub fn heard_ms(&self) -> u64 {
        self.heard_ms.load(Ordering::Relaxed)
    }

    /// The offset up to which the stream is applied.
    pub fn offset(&self) -> StreamPosition {
        self.offset.load(Ordering::Relaxed)
    }

    /// The size of the snapshot that is being received (0: unknown), and the bytes that have arrived.
    pub fn snapshot_progress(&self) -> (u64, u64) {
        (self.snapshot_bytes.load(Ordering::Relaxed), self.received_bytes.load(Ordering::Relaxed))
    }

    /// Makes this server follow `primary`. The caller holds all shards, or the server serves no clients yet. `end` is
    /// the end of its own stream, if it had one.
    pub fn follow(&self, primary: Address, end: Option<Cut>, now_ms: u64) {
        *locked(&self.primary) = Some(primary);
        if end.is_some() {
            *locked(&self.end) = end;
        }
        self.is_replica.store(true, Ordering::Relaxed);
        self.down_since_ms.store(now_ms, Ordering::Relaxed);
        self.set_state(LinkState::Connect);
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes this server follow no other. The caller holds all shards.
    pub fn lead(&self) {
        assert!(self.is_replica(), "a primary leads already");
        *locked(&self.primary) = None;
        *locked(&self.end) = None;
        self.is_replica.store(false, Ordering::Relaxed);
        self.is_synced.store(false, Ordering::Relaxed);
        self.divergence.store(0, Ordering::Relaxed);
        self.set_state(LinkState::None);
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    /// Where the stream may continue.
    pub fn resume(&self) -> Resume {
        if self.is_synced() {
            return Resume::At(self.offset());
        }
        match &*locked(&self.end) {
            None => Resume::Nowhere,
            Some(cut) => cut.end().map_or(Resume::Later, Resume::At),
        }
    }

    /// Starts with the data that the primary had at this offset of the stream with this id, where the stream has `db`
    /// selected. The caller holds all shards, or the server serves no clients yet.
    pub fn go_on_behind(
        &self,
        primary: &Primary,
        (id, offset): (ReplicationId, StreamPosition),
        db: Option<u32>,
    ) {
        assert!(self.is_replica(), "the history of a primary is its own");
        primary.set_history(History::new(id));
        self.note_synced(offset);
        self.set_stream_db(db);
    }

    /// Notes that the data are those that the primary had at this offset. The caller holds all shards.
    pub(crate) fn note_synced(&self, offset: StreamPosition) {
        self.note_applied(offset);
        self.is_synced.store(true, Ordering::Relaxed);
    }

    /// Forgets the position, because the received bytes cannot belong to the stream that this server knows. Only the
    /// thread of the link calls this.
    pub(crate) fn forget_place(&self) {
        *locked(&self.end) = None;
        self.is_synced.store(false, Ordering::Relaxed);
    }

    /// Notes that the stream is applied up to this offset. The caller holds a shard.
    pub(crate) fn note_applied(&self, offset: StreamPosition) {
        self.offset.store(offset, Ordering::Relaxed);
    }

    /// The database selected in the stream at the applied offset, if this server follows a primary.
    pub fn stream_db(&self) -> Option<u32> {
        self.last_db().filter(|_| self.is_synced())
    }

    /// The database selected at the end of the data that another server, or this one before a restart, had written.
    pub(crate) fn last_db(&self) -> Option<u32> {
        Some(self.stream_db.load(Ordering::Relaxed)).filter(|db| *db != NO_DB)
    }

    /// Sets the database selected in the stream.
    pub fn set_stream_db(&self, db: Option<u32>) {
        self.stream_db.store(db.unwrap_or(NO_DB), Ordering::Relaxed);
    }

    pub(crate) fn set_state(&self, state: LinkState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub(crate) fn note_down(&self, now_ms: u64) {
        if self.is_link_up() {
            self.down_since_ms.store(now_ms, Ordering::Relaxed);
        }
        self.set_state(LinkState::Connect);
    }

    pub(crate) fn note_heard(&self, now_ms: u64) {
        self.heard_ms.store(now_ms, Ordering::Relaxed);
    }

    pub(crate) fn note_received(&self, received_bytes: u64, left_bytes: Option<u64>) {
        self.received_bytes.store(received_bytes, Ordering::Relaxed);
        self.snapshot_bytes.store(left_bytes.map_or(0, |left| received_bytes + left), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_first_there_is_no_primary() {
        let following = Following::default();
        assert!(!following.is_replica() && !following.is_link_up());
        assert_eq!((following.primary(), following.state()), (None, LinkState::None));
    }
}
