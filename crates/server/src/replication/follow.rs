//! The link to this server's primary: what `replication`'s `Follower` needs from the first thread, which owns it.

use std::sync::LazyLock;
use std::time::Duration;

use clients::session::{Parser, Protocol};
use config::REPL_TIMEOUT;
use engine::{Client, Command, CommandError, Outcome, Post, Table};
use persistence::{Role, names};
use proactor::{BlockingStep, CloseMode, ConnId, Socket};
use replication::{
    Address, Follower, FollowerAround, Help, Incoming, Parts, Ran, ReplicationId, RoleChange, Stage, Unread,
    Vocabulary, incoming, random_id,
};
use resp::Output;
use scripting::Demands;
use shard::ShardId;

use crate::connections::lifecycle::take_in;
use crate::error::Error;
use crate::message::{LinkNews, Message};
use crate::reports::monitors::monitor_applied;
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
struct Host<'a> {
    thread: &'a mut Thread,
    /// The output to the primary, while the link is served.
    out: Option<&'a mut Output>,
    /// Replies, which are not read.
    replies: Output,
    /// The client for whom commands run, if this is not the thread of the link.
    client: Option<Client>,
}

/// Does something with the follower.
fn with(
    thread: &mut Thread,
    out: Option<&mut Output>,
    act: impl FnOnce(&mut Follower<Loaded>, &mut Host<'_>),
) {
    let mut follower = std::mem::take(&mut thread.host.roles.follower);
    act(&mut follower, &mut Host { thread, out, replies: Output::new(), client: None });
    thread.host.roles.follower = follower;
}

/// Looks after the link: in each turn of the first thread, whether the role has changed; in each round (`is_round`),
/// what is due.
pub(crate) fn look_after_link(thread: &mut Thread, is_round: bool) {
    let (shared, now_ms) = (thread.host.shared, thread.host.net.now_ms);
    let durable = shared.journal.progress.durable();
    if !is_round && !thread.host.roles.follower.is_due(&shared.following, durable, now_ms) {
        return;
    }
    // The offset at which the stream continues is known once the own data has been loaded.
    if !shared.snapshots.progress.is_loading() || shared.journal.awaits_first_base() {
        with(thread, None, |follower, host| follower.tick(host));
    }
}

/// Handles what the primary has sent, all of which is consumed.
pub(crate) fn serve_link(thread: &mut Thread, input: &[u8], out: &mut Output) -> usize {
    with(thread, Some(out), |follower, host| follower.received(input, host));
    input.len()
}

/// The connection was closed; it may be the primary's.
pub(crate) fn note_closed(thread: &mut Thread, conn: ConnId) {
    with(thread, None, |follower, host| follower.closed(conn, host));
}

/// Handles news.
pub(crate) fn take_news(thread: &mut Thread, news: LinkNews) {
    match news {
        LinkNews::Dialed(attempt, _) if !thread.host.roles.follower.awaits(attempt) => {}
        LinkNews::Dialed(_, Ok(socket)) => {
            let conn = adopt(&mut thread.host, socket);
            with(thread, None, |follower, host| follower.connected(conn, host));
        }
        LinkNews::Dialed(_, Err(why)) => with(thread, None, |follower, host| follower.give_up(&why, host)),
        LinkNews::Read(attempt, read) => {
            with(thread, None, |follower, host| follower.snapshot_read(attempt, read, host));
        }
        LinkNews::Help(help) => {
            let (following, client) = (&thread.host.shared.following, Some(help.client()));
            help.run(following, &mut Host { thread, out: None, replies: Output::new(), client });
        }
        LinkNews::HoldWrites(holds) => {
            thread.host.waits.pausing.hand_over(holds);
            thread.run_all_postponed();
        }
        LinkNews::EndLoss => thread.host.net.driver.lose_nothing(),
        LinkNews::Role(RoleChange::Promoted, role) => drop_replicas(thread, role),
        LinkNews::Role(change, role) => {
            if change == RoleChange::Demoted {
                unblock_all(thread);
            }
            // Output that the thread holds from now on does not wait for replicas while it has this role.
            let lost = thread.host.shared.journal.synced.settle(usize::from(thread.host.net.id), role);
            thread.host.net.driver.lose(lost);
        }
    }
}

/// Closes the connections of replicas that connected before this version of the role. Held output waits for those that
/// connect now.
fn drop_replicas(thread: &mut Thread, role: u64) {
    thread.host.net.driver.lose_nothing();
    for conn in thread.host.roles.replicas.conns() {
        let peer = thread.host.net.connections.session(conn).and_then(|session| session.replica.as_deref());
        if peer.is_none_or(|peer| peer.role < role) {
            thread.close(conn, CloseMode::Now);
        }
    }
}

/// Ends the waits of all clients, and their connections.
fn unblock_all(thread: &mut Thread) {
    let waiting = thread
        .host
        .net
        .connections
        .iter_mut()
        .filter(|(_, session)| session.state.wait().is_some() || session.state.sync_wait().is_some());
    for conn in waiting.map(|(conn, _)| conn).collect::<Vec<_>>() {
        if let Some(session) = thread.host.net.connections.session(conn) {
            session.close_after_reply = true;
        }
        if !thread.time_out(conn, Some(&UNBLOCKED))
            && let Some(session) = thread.host.net.connections.session(conn)
        {
            // The connection is being served at this moment.
            session.close_after_reply = false;
        }
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
        self.thread.host.net.mailroom.send(thread as u16, Message::Link(Box::new(LinkNews::Help(help))));
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
        monitor_applied(host, command, args, db);
        let started = host.reports.accounting.lap();
        let mark = self.replies.mark();
        (tx.wrote, tx.keeps_due) = (false, true);
        let mut outcome = tx.run(command, args, &client, host, &mut self.replies);
        tx.keeps_due = false;
        host.count_command(command, args, &client, started, &mut outcome, mark, &self.replies);
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

    fn put_in_place(&mut self, loaded: Loaded, offset: u64) -> Option<u32> {
        let Thread { tx, host, .. } = &mut *self.thread;
        let shared = host.shared;
        let databases = shared.settings.databases();
        let stream_db = loaded.stream_db().filter(|db| *db < databases);
        loaded.put_in_place(tx, &shared.scripts, &shared.snapshots);
        shared.shards.used().for_each(|id| tx.hold.shard_mut(id).tracking.clear_keys());
        tx.posts.push(Post::Flushed);
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

/// The connection that this server has made to its primary becomes one of its connections.
fn adopt(host: &mut ThreadHost, socket: Socket) -> ConnId {
    host.shared.registry.knock();
    let codec = host.shared.tls.dialed(&host.shared.settings);
    let conn = take_in(host, socket, Protocol::Redis, Parser::Primary, codec);
    if let Some(session) = host.net.connections.session(conn) {
        session.is_primary = true;
    }
    conn
}
