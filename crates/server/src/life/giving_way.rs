//! Gives way to other clients when a command takes long: other threads serve them meanwhile.
//!
//! ```text
//!   command ── Pace ──▶ breathe ── 2 ms of work ──▶ look, once a millisecond:
//!                                                     clients that have sent something go to other threads, then all
//!                                                     new connections are dealt to other threads
//!                                                     messages are answered, delivered, or passed on
//!   its end ──▶ the thread serves clients again
//! ```
//!
//! The thread does all this itself, within the command, so each connection belongs to one thread at any time. It
//! enters, leaves and runs nothing, because it holds the command's shards. Work that this rules out waits for the end
//! of the command: clients that cannot [move](crate::connections::moving), clients whose command waits for other
//! threads, and clients that need the command's shards.
//!
//! Not here: the points at which commands breathe (`engine/pace.rs`), the times of checks (`clients::GivingWay`),
//! and the rights of clients during a slow script (`busy.rs`). [The reasons](../../../../docs/decisions/giving-way.md).

use std::time::Duration;

use clients::session::{Part, ReplyMode};
use clients::{Whereabouts, may_go};
use config::EntryMode;
use engine::{Outcome, Published, Task, Tx, TxMessage, Work};
use proactor::{ConnId, Driver, Event};
use shard::{Delegated, Subscriber};

use crate::connections::balancing::{Balancing, is_elastic, threads_at_work};
use crate::connections::network::Network;
use crate::message::Message;
use crate::messages::Messages;
use crate::shared::Shared;
use crate::thread::ThreadHost;

/// The number of checks after which connections of silent clients are given away, too.
const LOOKS_BEFORE_SILENT: u32 = 8;
/// The number of these that go at a time.
const SILENT_PER_LOOK: usize = 16;
/// The number of times that a check asks the driver, so that connections leave soon.
const ROUNDS: usize = 3;

/// Gives way if a long command has come to a point where other clients may have their turn.
pub(crate) fn give_way_if_due(host: &mut ThreadHost) {
    shard::interrupt();
    let clock = host.net.driver.clock();
    let now = clock.ticks();
    let is_due = host.balancing.way.is_due(now) && host.balancing.way.has_worked(now, clock.thread_cpu_ns());
    let shared = host.shared;
    if is_due && is_elastic(shared) || host.balancing.is_drawn(&mut host.net.driver, shared) {
        look(host);
    }
}

impl Balancing {
    /// The thread that serves a client of thread `me` meanwhile: one of those in use if possible. `None`: there is no
    /// other, or each has a long command of its own.
    pub(crate) fn helper(&mut self, shared: &Shared, me: u16) -> Option<u16> {
        let (threads, next) = (&shared.threads, self.way.next);
        let count = threads.len() as u16;
        let in_use = threads_at_work(shared) as u16;
        let can_help = |id: &u16| *id != me && !threads[usize::from(*id)].is_away();
        let used = (0..in_use).map(|step| (next + step) % in_use).find(can_help);
        let found = used.or_else(|| (0..count).find(can_help));
        self.way.next = found.map_or(0, |id| id + 1);
        found
    }

    /// Whether a connection goes to another thread because this one has given way.
    pub(crate) fn gives(&mut self, net: &mut Network, shared: &Shared, conn: ConnId) -> bool {
        if !self.way.is_away {
            return false;
        }
        let Some(session) = net.connections.session(conn) else { return false };
        if session.state.is_put_off() {
            session.state.read_again();
        }
        let may_go = may_go(session);
        net.moves.is_leaving(conn)
            || may_go && self.helper(shared, net.id).is_some_and(|to| net.send_off(conn, to))
    }

    /// Whether the seed of a simulation wants it. In a simulation, no time passes while a command runs.
    fn is_drawn(&self, driver: &mut Driver, shared: &Shared) -> bool {
        let one_in = shared.machine.tuning.moves_one_in;
        one_in > 0
            && self.way.is_running()
            && driver.entropy().is_ok_and(|mut entropy| entropy.below(one_in) == 0)
    }

    /// Handles the driver's events. Events that must wait stay in order.
    fn take_events(&mut self, net: &mut Network, shared: &Shared) -> std::io::Result<()> {
        let mut events = Vec::new();
        net.driver.turn(Some(Duration::ZERO), &mut events)?;
        for event in std::mem::take(&mut net.events).into_iter().chain(events) {
            match event {
                Event::Accepted { socket, listener } => self.deal(net, shared, socket, listener),
                Event::Detached { conn } => net.messages.send(net.id, Message::Depart(conn)),
                Event::Data { conn } => {
                    self.give(net, shared, conn);
                    net.events.push_back(event);
                }
                Event::Closed { conn, .. } => {
                    // The end of a connection is reported only once, so the connection stays here.
                    if let Some(session) = net.connections.session(conn) {
                        session.has_hung_up = true;
                    }
                    net.events.push_back(event);
                }
                Event::Wake => {}
            }
        }
        Ok(())
    }

    /// Gives a connection to another thread. If that is impossible, stops reading from it for now.
    fn give(&mut self, net: &mut Network, shared: &Shared, conn: ConnId) {
        let Some(session) = net.connections.session(conn) else {
            // It is being served, or is gone.
            if !self.way.paused.contains(&conn) {
                self.way.paused.push(conn);
                net.driver.pause_reading(conn);
            }
            return;
        };
        if session.state.is_put_off() {
            session.state.read_again();
        }
        if !may_go(session) {
            if !std::mem::replace(&mut session.is_reading_paused, true) {
                net.driver.pause_reading(conn);
            }
        } else if let Some(to) = self.helper(shared, net.id) {
            net.send_off(conn, to);
        }
    }

    /// Gives away some connections of silent clients.
    fn give_silent(&mut self, net: &mut Network, shared: &Shared) {
        for _ in 0..SILENT_PER_LOOK {
            let Some((conn, session)) = net.connections.first_from(self.way.slot) else { return };
            self.way.slot = conn.slot() + 1;
            if may_go(session)
                && let Some(to) = self.helper(shared, net.id)
            {
                net.send_off(conn, to);
            }
        }
    }

    /// Sends a message to the thread that helps out. Returns it if there is none.
    pub(crate) fn pass_on(
        &mut self,
        net: &mut Network,
        shared: &Shared,
        message: Message,
    ) -> Option<Message> {
        match self.helper(shared, net.id) {
            Some(to) => net.messages.send(to, message),
            None => return Some(message),
        }
        None
    }

    /// Serves clients again after a command during which the thread gave way to them.
    #[cold]
    pub(crate) fn come_back(&mut self, net: &mut Network, shared: &Shared) {
        shared.threads[usize::from(net.id)].note_away(false);
        for conn in self.way.come_back() {
            net.driver.resume_reading(conn);
        }
    }
}

/// Serves the other clients of the thread while its command runs.
#[cold]
fn look(host: &mut ThreadHost) {
    let ThreadHost { balancing, net, shared, .. } = &mut *host;
    if !balancing.way.is_away {
        if balancing.helper(shared, net.id).is_none() {
            return;
        }
        balancing.way.is_away = true;
        shared.threads[usize::from(net.id)].note_away(true);
        // Their turn was about to come.
        for index in 0..net.unserved.len() {
            balancing.give(net, shared, net.unserved[index]);
        }
    }
    balancing.way.looks += 1;
    if balancing.way.looks > LOOKS_BEFORE_SILENT {
        balancing.give_silent(net, shared);
    }
    net.messages.wake_sleepers();
    for _ in 0..ROUNDS {
        let ThreadHost { balancing, net, shared, .. } = &mut *host;
        shared.journal.release(net.id, &mut net.driver, None);
        if balancing.take_events(net, shared).is_err() {
            return;
        }
        host.net.messages.end_wait();
        // Messages that cannot be handled within a command stay. What clients are told stays behind what they were told
        // before: they rely on the order.
        host.net.messages.fetch();
        let mut waits = false;
        for _ in 0..host.net.messages.len() {
            let Some(message) = host.net.messages.pop() else { break };
            let tells = tells_clients(&message);
            let left = if tells && waits { Some(message) } else { take(host, message) };
            if let Some(message) = left {
                waits |= tells;
                host.net.messages.send(host.net.id, message);
            }
        }
        if !host.net.moves.has_leaving() {
            break;
        }
    }
}

/// Whether clients read something because of a message: replies and what was published, in the order in which it happened.
fn tells_clients(message: &Message) -> bool {
    use Message::{Deliver, Done, Monitor, News};
    matches!(message, Done(..) | Deliver(_) | News(..) | Monitor(_))
}

/// Handles a message, or returns it.
fn take(host: &mut ThreadHost, message: Message) -> Option<Message> {
    let ThreadHost { balancing, net, shared, .. } = &mut *host;
    let runs_script = || shared.scripts.thread(usize::from(net.id)).is_running();
    match message {
        Message::Adopt(..) | Message::Visit(..) => return balancing.pass_on(net, shared, message),
        Message::Hop(_) if shared.entry_mode == EntryMode::Roam => {
            return balancing.pass_on(net, shared, message);
        }
        Message::Arrive(mover) => net.arrive(&shared.users, *mover),
        Message::Depart(conn) => net.depart(conn),
        Message::Forget(names) => host.net.moves.forget(&names),
        Message::Ask(question) => {
            net.note_question(question.number);
            host.answer_within(question);
        }
        Message::PassScript(asker) if !runs_script() => host.net.messages.answer(asker, Part::Count(0)),
        Message::ComeBy => host.shared.shutdown.hear(host.net.id),
        Message::FromTx(TxMessage::Served { ref waiter, .. }) => {
            let client = waiter.wait.client;
            let name = Subscriber { thread: client.thread, connection: client.connection };
            let Whereabouts::WentTo(thread) = host.net.moves.find(name, host.net.id) else {
                return Some(message);
            };
            host.net.messages.send(thread, message);
        }
        Message::Done(node, published) => return come_home(node, published, &mut host.net),
        Message::Deliver(_) | Message::News(..) | Message::Monitor(_) if !hears(host) => {
            host.outputs.hear(message, &host.reports.monitors, &mut host.net);
        }
        Message::Spare(_) | Message::Wake => {}
        message => return Some(message),
    }
    None
}

/// Whether the client whose command runs gets messages without a request. Its session is taken out, so they must wait.
fn hears(host: &ThreadHost) -> bool {
    let running = [&host.current, &host.scripts.aside.caller];
    let mut sessions = running.into_iter().filter_map(|session| session.as_deref());
    sessions.any(|session| session.is_subscriber() || session.tracking.is_some() || session.monitor)
}

/// Handles a delegated command that is back. If it is complete, its client gets the reply, and may move.
fn come_home(
    mut node: Box<Delegated<Task>>,
    published: Vec<Published>,
    net: &mut Network,
) -> Option<Message> {
    let conn = ConnId::from_bits(node.task.client.connection);
    let is_complete = matches!(node.task.outcome, Outcome::Done | Outcome::Failed);
    let (Work::Run(command), true, Some(session)) =
        (&node.task.work, is_complete, net.connections.session(conn))
    else {
        return Some(Message::Done(node, published));
    };
    if session.close_after_reply || session.reply_mode != ReplyMode::On || !published.is_empty() {
        return Some(Message::Done(node, published));
    }
    session.last_command = Some(*command);
    session.written_slice = session.written_slice.max(node.task.written);
    session.state.come_home();
    if let Some(out) = net.driver.output_mut(conn) {
        net.stats.net_output_bytes.add(node.task.reply.len() as u64);
        out.append(&mut node.task.reply);
    }
    net.events.push_back(Event::Data { conn });
    None
}

/// Sends tasks that wait at kept shards to other threads, before a command that may take long.
#[cold]
pub(crate) fn pass_kept_on(tx: &mut Tx<'_>, messages: &mut Messages, shared: &Shared) {
    while let Some(&id) = tx.hold.kept().last() {
        if tx.hold.has(id) {
            return;
        }
        let Some(mut node) = tx.hold.next_task_or_leave(id) else { continue };
        match std::mem::replace(&mut node.task.work, Work::Notify) {
            Work::HandOver(to) => tx.hold.hand_over(id, to),
            work => {
                node.task.work = work;
                send_task_on(messages, shared, node);
            }
        }
    }
}

/// Runs a task on the thread that helps out, or on this one after the running command.
pub(crate) fn send_task_on(messages: &mut Messages, shared: &Shared, node: Box<Delegated<Task>>) {
    let to = match shared.entry_mode {
        EntryMode::Home => shared.shards.home(node.task.shard),
        EntryMode::Roam => messages.thread(),
    };
    messages.send(to, Message::Hop(node));
}
