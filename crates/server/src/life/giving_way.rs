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

use clients::Whereabouts;
use clients::session::{Part, ReplyMode};
use config::EntryMode;
use engine::{Outcome, Post, Published, Task, Work};
use proactor::{ConnId, Event};
use shard::{Delegated, Subscriber};

use crate::connections::balancing::{is_elastic, threads_at_work};
use crate::connections::moving::{arrive, depart, may_go, send_off};
use crate::life::answers::answer_within;
use crate::message::Message;
use crate::thread::{Thread, ThreadHost};

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
    if is_due && is_elastic(host) || is_drawn(host) {
        look(host);
    }
}

/// The thread that serves a client of this one meanwhile: one of those in use if possible. `None`: there is no other,
/// or each has a long command of its own.
pub(crate) fn helper(host: &mut ThreadHost) -> Option<u16> {
    let (threads, me, next) = (&host.shared.threads, host.net.id, host.balancing.way.next);
    let count = threads.len() as u16;
    let in_use = threads_at_work(host.shared) as u16;
    let can_help = |id: &u16| *id != me && !threads[usize::from(*id)].is_away();
    let used = (0..in_use).map(|step| (next + step) % in_use).find(can_help);
    let found = used.or_else(|| (0..count).find(can_help));
    host.balancing.way.next = found.map_or(0, |id| id + 1);
    found
}

/// Whether a connection goes to another thread because this one has given way.
pub(crate) fn gives(host: &mut ThreadHost, conn: ConnId) -> bool {
    if !host.balancing.way.is_away {
        return false;
    }
    let Some(session) = host.net.connections.session(conn) else { return false };
    if session.state.is_put_off() {
        session.state.read_again();
    }
    let may_go = may_go(session);
    host.net.moves.is_leaving(conn) || may_go && helper(host).is_some_and(|to| send_off(host, conn, to))
}

/// Whether the seed of a simulation wants it. In a simulation, no time passes while a command runs.
fn is_drawn(host: &mut ThreadHost) -> bool {
    let one_in = host.shared.machine.tuning.moves_one_in;
    one_in > 0
        && host.balancing.way.is_running()
        && host.net.driver.entropy().is_ok_and(|mut entropy| entropy.below(one_in) == 0)
}

/// Serves the other clients of the thread while its command runs.
#[cold]
fn look(host: &mut ThreadHost) {
    if !host.balancing.way.is_away {
        if helper(host).is_none() {
            return;
        }
        host.balancing.way.is_away = true;
        host.shared.threads[usize::from(host.net.id)].note_away(true);
        // Their turn was about to come.
        for index in 0..host.net.unserved.len() {
            give(host, host.net.unserved[index]);
        }
    }
    host.balancing.way.looks += 1;
    if host.balancing.way.looks > LOOKS_BEFORE_SILENT {
        give_silent(host);
    }
    host.net.mailroom.wake_sleepers();
    for _ in 0..ROUNDS {
        host.shared.journal.release(host.net.id, &mut host.net.driver, None);
        if take_events(host).is_err() {
            return;
        }
        host.net.mailroom.end_wait();
        take_mail(host);
        if !host.net.moves.has_leaving() {
            break;
        }
    }
}

/// Handles the driver's events. Events that must wait stay in order.
fn take_events(host: &mut ThreadHost) -> std::io::Result<()> {
    let mut events = Vec::new();
    host.net.driver.turn(Some(Duration::ZERO), &mut events)?;
    for event in std::mem::take(&mut host.net.events).into_iter().chain(events) {
        match event {
            Event::Accepted { socket, listener } => host.deal(socket, listener),
            Event::Detached { conn } => host.net.mailroom.send(host.net.id, Message::Depart(conn)),
            Event::Data { conn } => {
                give(host, conn);
                host.net.events.push_back(event);
            }
            Event::Closed { conn, .. } => {
                // The end of a connection is reported only once, so the connection stays here.
                if let Some(session) = host.net.connections.session(conn) {
                    session.has_hung_up = true;
                }
                host.net.events.push_back(event);
            }
            Event::Wake => {}
        }
    }
    Ok(())
}

/// Gives a connection to another thread. If that is impossible, stops reading from it for now.
fn give(host: &mut ThreadHost, conn: ConnId) {
    let Some(session) = host.net.connections.session(conn) else {
        // It is being served, or is gone.
        if !host.balancing.way.paused.contains(&conn) {
            host.balancing.way.paused.push(conn);
            host.net.driver.pause_reading(conn);
        }
        return;
    };
    if session.state.is_put_off() {
        session.state.read_again();
    }
    if !may_go(session) {
        if !std::mem::replace(&mut session.is_reading_paused, true) {
            host.net.driver.pause_reading(conn);
        }
    } else if let Some(to) = helper(host) {
        send_off(host, conn, to);
    }
}

/// Gives away some connections of silent clients.
fn give_silent(host: &mut ThreadHost) {
    for _ in 0..SILENT_PER_LOOK {
        let Some((conn, session)) = host.net.connections.first_from(host.balancing.way.slot) else { return };
        host.balancing.way.slot = conn.slot() + 1;
        if may_go(session)
            && let Some(to) = helper(host)
        {
            send_off(host, conn, to);
        }
    }
}

/// Handles the messages that can be handled within a command. The others stay.
fn take_mail(host: &mut ThreadHost) {
    host.net.mailroom.fetch();
    for _ in 0..host.net.mailroom.len() {
        let Some(message) = host.net.mailroom.pop() else { break };
        if let Some(message) = take(host, message) {
            host.net.mailroom.send(host.net.id, message);
        }
    }
}

/// Handles a message, or returns it.
fn take(host: &mut ThreadHost, message: Message) -> Option<Message> {
    let runs_script = |host: &ThreadHost| host.shared.scripts.thread(usize::from(host.net.id)).is_running();
    match message {
        Message::Adopt(..) | Message::Visit(..) => return pass_on(host, message),
        Message::Hop(_) if host.shared.entry_mode == EntryMode::Roam => return pass_on(host, message),
        Message::Arrive(mover) => arrive(host, *mover),
        Message::Depart(conn) => depart(host, conn),
        Message::Forget(names) => host.net.moves.forget(&names),
        Message::Ask(question) => answer_within(host, question),
        Message::PassScript(asker) if !runs_script(host) => host.net.mailroom.answer(asker, Part::Count(0)),
        Message::ComeBy => host.shared.shutdown.hear(host.net.id),
        Message::Post(Post::Served { ref waiter, .. }) => {
            let client = waiter.wait.client;
            let name = Subscriber { thread: client.thread, connection: client.connection };
            let Whereabouts::WentTo(thread) = host.net.moves.find(name, host.net.id) else {
                return Some(message);
            };
            host.net.mailroom.send(thread, message);
        }
        Message::Done(node, published) => return come_home(host, node, published),
        Message::Deliver(_) | Message::News(..) | Message::Monitor(_) if !hears(host) => {
            let (delivery, monitors) = (&mut host.outputs.delivery, &host.reports.monitors);
            match message {
                Message::Deliver(published) => delivery.deliver(&published, &mut host.net),
                Message::News(news, _) => delivery.tell(news, &mut host.net),
                Message::Monitor(line) => delivery.show(&line, monitors, &mut host.net),
                _ => unreachable!("looked at above"),
            }
        }
        Message::Spare(_) | Message::Wake => {}
        message => return Some(message),
    }
    None
}

/// Sends a message to the thread that helps out. Returns it if there is none.
pub(crate) fn pass_on(host: &mut ThreadHost, message: Message) -> Option<Message> {
    match helper(host) {
        Some(to) => host.net.mailroom.send(to, message),
        None => return Some(message),
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
    host: &mut ThreadHost,
    mut node: Box<Delegated<Task>>,
    published: Vec<Published>,
) -> Option<Message> {
    let conn = ConnId::from_bits(node.task.client.connection);
    let is_complete = matches!(node.task.outcome, Outcome::Done | Outcome::Failed);
    let (Work::Run(command), true, Some(session)) =
        (&node.task.work, is_complete, host.net.connections.session(conn))
    else {
        return Some(Message::Done(node, published));
    };
    if session.close_after_reply || session.reply_mode != ReplyMode::On || !published.is_empty() {
        return Some(Message::Done(node, published));
    }
    session.last_command = Some(*command);
    session.written_slice = session.written_slice.max(node.task.written);
    session.state.come_home();
    if let Some(out) = host.net.driver.output_mut(conn) {
        host.reports.accounting.stats().net_output_bytes.add(node.task.reply.len() as u64);
        out.append(&mut node.task.reply);
    }
    host.net.events.push_back(Event::Data { conn });
    None
}

/// Sends tasks that wait at kept shards to other threads, before a command that may take long.
#[cold]
pub(crate) fn pass_kept_on(thread: &mut Thread) {
    let Thread { tx, host, .. } = thread;
    while let Some(&id) = tx.hold.kept().last() {
        if tx.hold.has(id) {
            return;
        }
        let Some(mut node) = tx.hold.next_task_or_leave(id) else { continue };
        match std::mem::replace(&mut node.task.work, Work::Notify) {
            Work::HandOver(to) => tx.hold.hand_over(id, to),
            work => {
                node.task.work = work;
                send_task_on(host, node);
            }
        }
    }
}

/// Runs a task on the thread that helps out, or on this one after the running command.
pub(crate) fn send_task_on(host: &mut ThreadHost, node: Box<Delegated<Task>>) {
    let to = match host.shared.entry_mode {
        EntryMode::Home => host.shared.shards.home(node.task.shard),
        EntryMode::Roam => host.net.id,
    };
    host.net.mailroom.send(to, Message::Hop(node));
}
