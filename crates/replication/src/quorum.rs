//! Decides whether enough replicas follow for commands that write (`min-replicas-to-write`, `repl-sync-replicas`).
//!
//! Every such command asks, so the answer is one relaxed load. It is recomputed each second and whenever its inputs
//! change.
//!
//! With `repl-sync-ack durable`, only replicas that report what is on their disks count. A replica does not report this
//! while it has no journal, while its journal has no base yet or is never synced, or while its disk fails. Waiting for
//! such a replica could last forever.

use std::sync::atomic::{AtomicU8, Ordering};

use config::{
    CLUSTER_ETCD, MIN_REPLICAS_MAX_LAG, MIN_REPLICAS_TO_WRITE, REPL_SYNC_ACK, REPL_SYNC_REPLICAS,
    SYNC_ACK_DURABLE, Settings,
};
use engine::CommandError;

use crate::following::Following;
use crate::primary::Primary;
use crate::synced::Synced;

/// The error of commands that write while too few replicas are close enough.
const NO_REPLICAS: CommandError = CommandError::fixed("NOREPLICAS Not enough good replicas to write.");
/// The error while enough replicas are close enough, but too few report what is on their disks.
const NO_DISKS: CommandError = CommandError::fixed(
    "NOREPLICAS Not enough good replicas to write: repl-sync-ack is durable, so only replicas count that sync a journal (appendfsync is not no) to a disk that keeps up.",
);

/// The missing condition for writes, if one is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Lack {
    Nothing,
    Replicas,
    Disks,
    /// There are enough replicas, but whether they have everything is [in doubt](Synced). Another error reports that.
    Certainty,
    /// This node of a group does not lead, has not the grants of all members, or too few are in sync.
    Group,
}

/// See the head of this file.
pub struct Quorum {
    lack: AtomicU8,
}

/// The required number of replicas, and the seconds within which each must have acknowledged something. `None`: no
/// replicas are required.
fn wanted(settings: &Settings) -> Option<(u64, u64)> {
    let (count, lag) = (settings.number(MIN_REPLICAS_TO_WRITE), settings.number(MIN_REPLICAS_MAX_LAG));
    (count > 0 && lag > 0).then_some((count as u64, lag as u64))
}

/// The number of replicas for which replies wait.
fn synced(settings: &Settings) -> u64 {
    settings.number(REPL_SYNC_REPLICAS) as u64
}

/// The number of replicas for which replies can wait.
fn synced_count(settings: &Settings, primary: &Primary, now_ms: u64) -> u64 {
    let is_durable = settings.number(REPL_SYNC_ACK) == SYNC_ACK_DURABLE;
    primary.close_count(now_ms, u64::MAX, is_durable) as u64
}

impl Quorum {
    /// The state of a server without replicas.
    pub fn new(settings: &Settings) -> Quorum {
        let lacks =
            wanted(settings).is_some() || synced(settings) > 0 || !settings.text(CLUSTER_ETCD).is_empty();
        Quorum { lack: AtomicU8::new(if lacks { Lack::Replicas } else { Lack::Nothing } as u8) }
    }

    /// The number of replicas that are close enough, if any are required.
    pub fn count(settings: &Settings, primary: &Primary, now_ms: u64) -> Option<u64> {
        wanted(settings).map(|(_, lag)| primary.close_count(now_ms, lag, false) as u64)
    }

    /// The number of replicas for which replies can wait, if replies wait for any.
    pub fn synced_count(settings: &Settings, primary: &Primary, now_ms: u64) -> Option<u64> {
        (synced(settings) > 0).then(|| synced_count(settings, primary, now_ms))
    }

    /// Determines whether there are too few. A replica requires none of its own.
    pub fn judge(
        &self,
        settings: &Settings,
        primary: &Primary,
        (following, synced_state): (&Following, &Synced),
        (now_ms, boot_ms): (u64, u64),
    ) {
        let lacks = |(count, lag)| (primary.close_count(now_ms, lag, false) as u64) < count;
        let group = &synced_state.group;
        let lack = if group.is_on() {
            let serves = (group.is_open(boot_ms) || group.is_leaving()) && group.may_write();
            if serves { Lack::Nothing } else { Lack::Group }
        } else if following.is_replica() {
            Lack::Nothing
        } else if wanted(settings).is_some_and(lacks) || lacks((synced(settings), u64::MAX)) {
            Lack::Replicas
        } else if synced_count(settings, primary, now_ms) < synced(settings) {
            Lack::Disks
        } else if synced_state.is_in_doubt() {
            Lack::Certainty
        } else {
            Lack::Nothing
        };
        self.lack.store(lack as u8, Ordering::Relaxed);
    }

    /// Whether there are too few, or commands must be checked because the data are in doubt.
    #[inline]
    pub fn is_lacking(&self) -> bool {
        self.lack.load(Ordering::Relaxed) != Lack::Nothing as u8
    }

    /// The error of commands that write, if there are too few.
    pub fn error(&self) -> Option<CommandError> {
        const REPLICAS: u8 = Lack::Replicas as u8;
        const DISKS: u8 = Lack::Disks as u8;
        match self.lack.load(Ordering::Relaxed) {
            REPLICAS => Some(NO_REPLICAS),
            DISKS => Some(NO_DISKS),
            _ => None,
        }
    }
}
