//! The services that replication's commands need from the thread that runs them.

use std::sync::Arc;

use config::{APPENDONLY, REPL_DISKLESS_SYNC, Settings};
use effectlog::{Backlog, Cut};
use engine::Tx;
use proactor::ConnId;
use replication::{
    Awaited, Door, Following, History, Peer, Primary, Reached, ReplicationId, RoleChange, Wish, random_id,
};

use crate::life::syncing::{begin_sync, note_written, reached};
use crate::message::Message;
use crate::thread::ThreadHost;

impl Door for ThreadHost {
    fn primary(&self) -> &'static Primary {
        &self.shared.primary
    }

    fn backlog(&self) -> &Arc<Backlog> {
        &self.shared.journal.backlog
    }

    fn position(&self) -> u64 {
        self.shared.journal.position()
    }

    fn has_in_journal(&self, offset: u64) -> bool {
        self.shared.journal.open().is_some_and(|journal| journal.reaches_back_to(offset))
    }

    fn awaited(&mut self, tx: &mut Tx, wish: Wish, publishes: bool) -> Awaited {
        if publishes {
            tx.commit();
            note_written(tx, self.current.as_deref_mut());
        }
        let written = self.session().written_slice;
        let unkept = self.shared.journal.unkept(written);
        let kept = if tx.hold.has_unpublished() { u64::MAX } else { unkept.unwrap_or(0) };
        Awaited { wish, written, kept }
    }

    fn reached(&self, awaited: &Awaited) -> Reached {
        reached(self.shared, awaited)
    }

    fn await_copies(&mut self, awaited: Awaited, timeout_ms: u64) {
        begin_sync(self, awaited, timeout_ms);
    }

    fn note_ack(&mut self) {
        let journal = &self.shared.journal;
        journal.synced.update(&self.shared.settings, &self.shared.primary, &journal.backlog);
        self.shared.acks.note();
        if self.shared.following.failover.is_waiting() {
            self.shared.threads[0].send(Message::Wake);
        }
        if self.shared.quorum.is_lacking() {
            self.shared.judge_quorum(self.net.now_ms);
        }
    }

    fn wants_journal(&self) -> bool {
        self.shared.settings.is_on(APPENDONLY)
    }

    fn lacks_copy(&self) -> bool {
        self.shared.journal.lacks_copy(&self.shared.settings)
    }

    fn peer(&mut self) -> &mut Peer {
        self.session().replica.get_or_insert_default()
    }

    fn client(&mut self) -> (u64, String) {
        let session = self.session();
        let address = session.peer.rsplit_once(':').map_or(&*session.peer, |(address, _)| address);
        (session.client.id, address.trim_matches(['[', ']']).to_owned())
    }

    fn attach(&mut self) {
        let conn = ConnId::from_bits(self.session().client.connection);
        self.roles.replicas.add(conn);
    }

    fn sends_at_once(&self) -> bool {
        self.shared.settings.is_on(REPL_DISKLESS_SYNC)
    }

    fn mark(&mut self) -> ReplicationId {
        let mut entropy = self.net.driver.entropy().expect("the system has randomness");
        random_id(|| entropy.next_u64())
    }

    fn now_ms(&self) -> u64 {
        self.net.now_ms
    }

    fn following(&self) -> &'static Following {
        &self.shared.following
    }

    fn set_copying(&mut self, copies: bool) -> Option<Cut> {
        self.shared.shards.set_hides_due(copies);
        self.shared.journal.set_copying(copies)
    }

    fn rename_stream(&mut self, history: History) {
        self.shared.primary.set_history(history);
        self.shared.journal.name_stream(history.id);
    }

    fn cut(&mut self) -> Cut {
        self.shared.journal.cut_for_replicas()
    }

    fn sent_bytes(&self) -> u64 {
        self.shared.journal.log.sent_bytes()
    }

    fn hold_writes(&mut self, holds: bool) {
        self.shared.hold_writes(holds);
    }

    fn tell_role(&mut self, change: RoleChange) {
        super::follow::tell_role(self.shared, change);
    }

    fn settings(&self) -> &Settings {
        &self.shared.settings
    }
}
