//! The link to this server's primary: what `replication`'s `Follower` needs from the first thread, which owns it.

use std::sync::LazyLock;
use std::time::Duration;

use config::REPL_TIMEOUT;
use effectlog::StreamPosition;
use engine::{Client, Command, CommandError, Outcome, Table, TxMessage};
use observe::{Call, RequestSource};
use persistence::{Role, names};
use proactor::{BlockingStep, CloseMode, ConnId};
use replication::{
    Address, Follower, FollowerAround, Help, Incoming, Parts, Ran, ReplicationId, RoleChange, Stage, Unread,
    Vocabulary, incoming, random_id,
};
use resp::Output;
use scripting::Demands;
use shard::ShardId;

use crate::error::Error;
use crate::message::{LinkNews, Message};
use crate::snapshot::{Loaded, Loader};
use crate::thread::{Thread, ThreadHost};

/// The error for waiting clients when the role changes.
const UNBLOCKED: CommandError = CommandError::fixed(
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
);

/// The commands that a stream may contain.
static WORDS: LazyLock<(Table, Vec<Role>)> = LazyLock::new(|| {
    let table = crate::commands::table();
    let roles = crate::commands::roles(&table);
    (table, roles)
});

/// The thread, as the follower needs it.
pub(crate) struct Host<'a> {
    thread: &'a mut Thread,
    /// The output to the primary, while the link is served.
    out: Option<&'a mut Output>,
    /// Replies, which are not read.
    replies: Output,
    /// The client for whom commands run, if this is not the thread of the link.
    client: Option<Client>,
}

/// Does something with the link to the primary. `out`: the output to the primary, while the link is served.
pub(crate) fn on_link(
    thread: &mut Thread,
    out: Option<&mut Output>,
    act: impl FnOnce(&mut Follower<Loaded>, &mut Host<'_>),
) {
    let mut follower = std::mem::take(&mut thread.host.roles.follower);
    act(&mut follower, &mut Host { thread, out, replies: Output::new(), client: None });
    thread.host.roles.follower = follower;
}

/// Handles news.
pub(crate) fn take_news(thread: &mut Thread, news: LinkNews) {
    match news {
        LinkNews::Dialed(attempt, _) if !thread.host.roles.follower.awaits(attempt) => {}
        LinkNews::Dialed(_, Ok(socket)) => {
            let conn = thread.host.net.adopt_primary(thread.host.shared, socket);
            on_link(thread, None, |follower, host| follower.connected(conn, host));
        }
        LinkNews::Dialed(_, Err(why)) => on_link(thread, None, |follower, host| follower.give_up(&why, host)),
        LinkNews::Read(attempt, read) => {
            on_link(thread, None, |follower, host| follower.snapshot_read(attempt, read, host));
        }
        LinkNews::Help(help) => {
            let (following, client) = (&thread.host.shared.following, Some(help.client()));
            help.run(following, &mut Host { thread, out: None, replies: Output::new(), client });
        }
        LinkNews::Ordered => on_link(thread, None, |follower, host| {
            host.obey_orders();
            follower.tick(host);
        }),
        LinkNews::HoldWrites(holds) => {
            thread.host.waits.pausing.hand_over(holds);
            thread.run_all_postponed();
        }
        LinkNews::Notice(notice) => {
            let ThreadHost { net, outputs, shared, .. } = &mut thread.host;
            let at = (&shared.following, &shared.settings, net.now_ms);
            let notified = clients::notify(notice, &mut net.connections, &mut net.driver, at);
            notified.told.into_iter().for_each(|conn| outputs.delivery.note_written(conn));
            for conn in notified.waiting {
                thread.time_out(conn, None);
            }
            if notified.tries_again {
                thread.run_all_postponed();
            }
        }
        LinkNews::EndLoss => thread.host.net.driver.lose_nothing(),
        LinkNews::Role(RoleChange::Promoted, role) => {
            // Held output waits for replicas that connect now.
            thread.host.net.driver.lose_nothing();
            for conn in thread.host.roles.outdated(&mut thread.host.net.connections, role) {
                thread.close(conn, CloseMode::Now);
            }
            if thread.host.shared.following.notices.receives(thread.host.net.now_ms) {
                // The commands of clients that came early.
                thread.run_all_postponed();
            }
        }
        LinkNews::Role(change, role) => {
            if change == RoleChange::Demoted {
                unblock_all(thread);
            }
            // Output that the thread holds from now on does not wait for replicas while it has this role.
            let lost = thread.host.shared.journal.synced.settle(usize::from(thread.host.net.id), role);
            thread.host.net.driver.lose(lost.start().get()..=lost.end().get());
        }
    }
}

/// Ends the waits of all clients, and their connections. Clients that asked for notices get the reply of a timeout, and
/// go elsewhere by themselves.
///
/// In a group all clients are disconnected, so that they look for the new primary. Replies that wait for grants are never
/// sent.
fn unblock_all(thread: &mut Thread) {
    if thread.host.shared.journal.synced.group.is_on() {
        let link = thread.host.roles.follower.conn();
        let clients = thread.host.net.connections.iter_mut().filter(|(_, session)| !session.follows());
        let clients: Vec<ConnId> = clients.map(|(conn, _)| conn).filter(|conn| Some(*conn) != link).collect();
        return clients.into_iter().for_each(|conn| thread.close(conn, CloseMode::Now));
    }
    let waiting = thread
        .host
        .net
        .connections
        .iter_mut()
        .filter(|(_, session)| session.state.wait().is_some() || session.state.sync_wait().is_some());
    for conn in waiting.map(|(conn, _)| conn).collect::<Vec<_>>() {
        let Some(session) = thread.host.net.connections.session(conn) else { continue };
        if session.recipient.is_some() {
            thread.time_out(conn, None);
            continue;
        }
        session.close_after_reply = true;
        if !thread.time_out(conn, Some(&UNBLOCKED))
            && let Some(session) = thread.host.net.connections.session(conn)
        {
            // The connection is being served at this moment.
            session.close_after_reply = false;
        }
    }
}

impl Host<'_> {
    /// Takes the role that the agent of this node's group has ordered, and ends a handover that came to nothing. If other
    /// threads keep shards, it tries again in the next turn.
    fn obey_orders(&mut self) {
        let thread = &mut *self.thread;
        let shared = thread.host.shared;
        let group = &shared.journal.synced.group;
        let is_due = || group.pending_order().is_some() || group.has_ended_handover();
        if !is_due() {
            return;
        }
        if thread.enters_all() {
            if let Some(order) = group.pending_order() {
                let (driver, now_ms) = (&mut thread.host.net.driver, thread.host.net.now_ms);
                let mut entropy = driver.entropy().expect("the system has randomness");
                group.obey(&shared.role_parts(), order, || random_id(|| entropy.next_u64()), now_ms);
            }
            if group.has_ended_handover() {
                group.end_handover(&shared.role_parts());
            }
            thread.tx.finish(&mut thread.host);
        } else {
            thread.host.net.messages.send(thread.host.net.id, Message::Link(Box::new(LinkNews::Ordered)));
        }
        thread.leave_all();
    }
}

impl Stage for Host<'_> {
    fn tx(&mut self) -> &mut engine::Tx<'static> {
        &mut self.thread.tx
    }

    fn client(&mut self) -> Client {
        self.client.unwrap_or_else(|| Client { deny_blocking: true, ..self.thread.host.session().client })
    }

    fn thread_count(&self) -> usize {
        self.thread.host.shared.threads.len()
    }

    fn ask(&mut self, thread: usize, help: Help) {
        self.thread.host.net.messages.send(thread as u16, Message::Link(Box::new(LinkNews::Help(help))));
    }

    fn may_hold_back(&self) -> bool {
        self.thread.host.shared.may_hold_back()
    }

    fn may_run(&mut self, command: &'static Command, args: &[&[u8]], db: u32) -> bool {
        let Thread { tx, host, .. } = &mut *self.thread;
        let writes = Demands::of(&mut host.scripts.lua, command, args).replicates;
        !host.background.snapshot.stops(tx, command, args, db, writes)
    }

    fn run(&mut self, command: &'static Command, args: &[&[u8]], db: u32) -> Ran {
        let client = self.client();
        let Thread { tx, host, .. } = &mut *self.thread;
        let client = Client { db, ..client };
        if let Some(session) = host.current.as_deref_mut() {
            session.last_command = Some(command.id);
        }
        host.reports.monitor_applied(command, args, db, host.shared, host.net.driver.clock());
        let started = host.reports.accounting.lap();
        let mark = self.replies.mark();
        (tx.wrote, tx.keeps_due) = (false, true);
        let mut outcome = tx.run(command, args, &client, host, &mut self.replies);
        tx.keeps_due = false;
        let call = Call { command, args, started, mark, out: &self.replies, source: RequestSource::Within };
        let (current, clock) = (host.current.as_deref(), host.net.driver.clock());
        host.reports.count(&call, &client, &mut outcome, current, clock);
        tx.restore = None;
        let ran = match outcome {
            Outcome::Done | Outcome::Blocked(_) => Ran::Done,
            Outcome::Again(_) => Ran::Again,
            Outcome::Failed => {
                Ran::Failed(String::from_utf8_lossy(self.replies.to_vec().trim_ascii()).into_owned())
            }
        };
        self.replies.clear();
        ran
    }

    fn finish(&mut self) {
        self.thread.tx.finish(&mut self.thread.host);
    }

    fn leave(&mut self) {
        self.thread.leave_all();
    }
}

impl FollowerAround<Loaded> for Host<'_> {
    fn parts(&self) -> Parts {
        self.thread.host.shared.role_parts()
    }

    fn vocabulary(&self) -> Vocabulary {
        let (table, roles) = &*WORDS;
        Vocabulary { table, roles, databases: self.thread.host.shared.settings.databases() }
    }

    fn now_ms(&self) -> u64 {
        self.thread.host.net.now_ms
    }

    fn dial(&mut self, address: Address, attempt: u64) {
        let shared = self.thread.host.shared;
        let timeout = Duration::from_secs(shared.settings.number(REPL_TIMEOUT) as u64);
        let tell =
            move |made| shared.threads[0].send(Message::Link(Box::new(LinkNews::Dialed(attempt, made))));
        let work = move |_| {
            let Address { host, port } = &address;
            let why = |error| format!("Unable to connect to MASTER {host}:{port}: {error}");
            tell(shared.machine.dialer.connect(host, *port, timeout).map_err(why));
            BlockingStep::Ended
        };
        if let Err(error) = shared.machine.blocking_tasks.start("replica-dial", Box::new(work)) {
            tell(Err(format!("cannot start a thread to connect to MASTER: {error}")));
        }
    }

    fn receive_snapshot(&mut self, attempt: u64) -> Result<Incoming, String> {
        let shared = self.thread.host.shared;
        let (incoming, outgoing) = incoming();
        let names = names(&shared.settings, &shared.machine.disk);
        let name = format!("temp-{}.sync-{attempt}.rdb", std::process::id());
        let path = names.path(&name);
        let unread = |error: Error| Unread {
            why: error.to_string(),
            needs_databases: matches!(error, Error::Loading(error) if error.needs_databases()),
        };
        let load = move || Loader::of(shared).read_beginning(&name).map_err(unread);
        let tell = move |read| shared.threads[0].send(Message::Link(Box::new(LinkNews::Read(attempt, read))));
        let work = outgoing.spool(names.disk().clone(), path, load, tell);
        let started = shared.machine.blocking_tasks.start("replica-load", work);
        started.map_err(|error| format!("cannot start a thread to receive a snapshot: {error}"))?;
        Ok(incoming)
    }

    fn enter_all(&mut self) -> bool {
        self.thread.enters_all()
    }

    fn put_in_place(&mut self, loaded: Loaded, offset: StreamPosition) -> Option<u32> {
        let Thread { tx, host, .. } = &mut *self.thread;
        let shared = host.shared;
        let databases = shared.settings.databases();
        let stream_db = loaded.stream_db().filter(|db| *db < databases);
        loaded.put_in_place(tx, &shared.scripts, &shared.snapshots);
        shared.shards.used().for_each(|id| tx.hold.shard_mut(id).tracking.clear_keys());
        tx.outbox.push(TxMessage::Flushed);
        // The copied data is not on this server's disk yet.
        tx.hold.shard_mut(ShardId(0)).stats.changes.add(1);
        shared.journal.begin_copy(offset);
        shared.snapshots.progress.end();
        stream_db
    }

    fn random_id(&mut self) -> ReplicationId {
        let mut entropy = self.thread.host.net.driver.entropy().expect("the system has randomness");
        random_id(|| entropy.next_u64())
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        match &mut self.out {
            Some(out) => out.extend_from_slice(bytes),
            None => {
                if let Some(out) = self.thread.host.net.driver.output_mut(conn) {
                    out.extend_from_slice(bytes);
                }
            }
        }
    }

    fn set_reading(&mut self, conn: ConnId, reads: bool) {
        let driver = &mut self.thread.host.net.driver;
        if reads { driver.resume_reading(conn) } else { driver.pause_reading(conn) }
    }

    fn come_back(&mut self, conn: ConnId) {
        let unserved = &mut self.thread.host.net.unserved;
        if !unserved.contains(&conn) {
            unserved.push_back(conn);
        }
    }

    fn close(&mut self, conn: ConnId) {
        if self.out.is_some() {
            // The connection is closed once it has been served.
            self.thread.host.session().state.close(CloseMode::Now);
        } else {
            self.thread.close(conn, CloseMode::Now);
        }
    }
}
