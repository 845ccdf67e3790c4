//! Replicas of this server: their connections, and when a snapshot begins for them. `replication` decides what they are
//! sent.
//!
//! Not here: the stream (`replication/log/`), and the snapshot itself (`snapshot/spool.rs`).

mod follow;
mod roles;
mod running;

use background::Visits;
use config::{REPL_BACKLOG_SIZE, REPL_BACKLOG_TTL, REPL_PING_REPLICA_PERIOD};
use engine::Tx;
use proactor::Driver;
use replication::{Announce, CopyContent, Limits, Parts, QUESTION, RoleNews, Standing, Start, random_id};

pub(crate) use follow::{on_link, take_news};
pub(crate) use roles::Roles;
pub(crate) use running::run;

use shard::ShardId;

use crate::message::{LinkNews, Message};
use crate::shared::Shared;
use crate::thread::Thread;

/// Begins the snapshot that replicas wait for, if it is due and nothing else is being saved. The first thread checks
/// ten times a second.
pub(crate) fn begin_sync_if_due(thread: &mut Thread) {
    let shared = thread.host.shared;
    if let Some(notice) = shared.following.notices.stop_receiving_if_due(thread.host.net.now_ms) {
        shared.announce(RoleNews::Notice(notice));
    }
    if shared.following.is_replica() && !shared.following.is_synced() {
        // There is no stream that could go on.
        return;
    }
    if shared.primary.has_returned() {
        if thread.enters_all() {
            shared.break_history_if_unrecorded(&mut thread.host.net.driver);
            let held = shared.journal.backlog.hold();
            shared.primary.let_go_on(&shared.journal.cut_for_replicas(), &held);
        }
        thread.leave_all();
    }
    let awaited = shared.primary.awaited(thread.host.net.now_ms, &Limits::of(&shared.settings));
    let Some(content) = awaited else { return };
    if shared.may_begin_spool() {
        if thread.enters_all() && shared.may_begin_spool() {
            begin_sync(&mut thread.tx, &mut thread.host.net.driver, shared, content);
        }
        thread.leave_all();
    }
}

impl Shared {
    /// What the threads share that concerns the role.
    pub(crate) fn role_parts(&'static self) -> Parts {
        Parts {
            settings: &self.settings,
            shards: &self.shards,
            log: &self.journal,
            primary: &self.primary,
            acks: &self.acks,
            quorum: &self.quorum,
            following: &self.following,
            threads: self,
            clock: &self.machine.clock,
        }
    }

    /// Whether clients may write here, and whether they may read.
    pub(crate) fn standing(&self) -> Standing {
        Standing::of(&self.following, &self.journal.synced, &self.settings)
    }

    /// Call this with all shards entered, before recording begins again: the stream lacks the changes since it ended.
    pub(crate) fn break_history_if_unrecorded(&self, driver: &mut Driver) {
        if !self.journal.is_recording() {
            let mut entropy = driver.entropy().expect("the system has randomness");
            self.primary.break_history(random_id(|| entropy.next_u64()));
        }
    }
}

impl Announce for Shared {
    fn announce(&self, news: RoleNews) {
        match news {
            RoleNews::HoldsWrites(holds) => {
                self.broadcast(|| Message::Link(Box::new(LinkNews::HoldWrites(holds))));
            }
            RoleNews::Changed(change, version) => {
                self.broadcast(|| Message::Link(Box::new(LinkNews::Role(change, version))));
            }
            RoleNews::Notice(notice) => {
                self.broadcast(|| Message::Link(Box::new(LinkNews::Notice(notice))));
            }
            RoleNews::Ordered => self.threads[0].send(Message::Link(Box::new(LinkNews::Ordered))),
            RoleNews::Opened => self.broadcast(|| Message::Wake),
            RoleNews::Acknowledged => self.threads[0].send(Message::Wake),
        }
    }
}

/// Begins the snapshot; all shards are entered.
fn begin_sync(tx: &mut Tx<'_>, driver: &mut Driver, shared: &'static Shared, content: CopyContent) {
    shared.break_history_if_unrecorded(driver);
    let held = shared.journal.backlog.hold();
    let cut = shared.journal.cut_for_replicas();
    match shared.begin_spool(&mut tx.hold, content) {
        Ok(spool) => {
            let count = shared.primary.begin(content, &Start { cut, spool: Some(spool), held });
            tracing::info!("starting a snapshot for {count} replicas");
        }
        Err(error) => tracing::error!("cannot start the snapshot for replicas: {error}"),
    }
}

/// Does the first thread's work for replicas, once a second.
pub(crate) fn look_after_replicas(visits: &mut impl Visits, shared: &'static Shared, now_ms: u64) {
    let settings = &shared.settings;
    shared.role_parts().judge_quorum(now_ms);
    if shared.journal.synced.ends_loss() {
        shared.broadcast(|| Message::Link(Box::new(LinkNews::EndLoss)));
    }
    let bytes = settings.number(REPL_BACKLOG_SIZE) as u64;
    shared.journal.backlog.set_limits(bytes, Limits::of(settings).bytes_max);
    if !shared.journal.is_streaming() || shared.following.is_replica() {
        return;
    }
    let ttl_ms = settings.number(REPL_BACKLOG_TTL) as u64 * 1000;
    if ttl_ms > 0 && shared.primary.is_deserted(now_ms, ttl_ms) {
        let all: Vec<ShardId> = shared.shards.ids().collect();
        visits.visit_all(&all, true, |_| {
            tracing::info!("no replica has connected for repl-backlog-ttl: the backlog is freed");
            shared.journal.end_stream();
        });
        return;
    }
    if shared.journal.synced.is_in_doubt() && shared.primary.is_followed() {
        // A replica cannot acknowledge an empty stream, so send something.
        visits.visit_all(&[], false, |tx| tx.tell_replicas(&QUESTION));
    }
    if (now_ms / 1000).is_multiple_of(settings.number(REPL_PING_REPLICA_PERIOD) as u64) {
        visits.visit_all(&[], false, |tx| tx.tell_replicas(&[b"PING"]));
    }
}
