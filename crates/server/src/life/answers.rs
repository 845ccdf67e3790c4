//! Answers questions that all threads are asked.
//!
//! Not here: the questions (`clients/session/question.rs`), and handling the answers (`homecoming.rs`).

use std::io::ErrorKind;

use clients::line;
use clients::session::{Class, Filter, Listed, Part, Question, Session, Subject};
use engine::{Client, CommandError};
use proactor::{CloseMode, ConnId, Event};
use resp::Reply;

use crate::connections::moving::send_off;
use crate::life::wait::{note_end_of_wait, write_end_of_wait};
use crate::thread::{Thread, ThreadHost};
use clients::Connections;

impl Thread {
    /// Does what a question asks for, and answers it.
    pub(crate) fn answer(&mut self, question: Question) {
        let Question { asker, subject, number } = question;
        debug_assert_eq!(
            number,
            self.host.net.answered + 1,
            "all threads get all questions in the same order"
        );
        // This comes before any command runs for it, because a command that gives way answers the next questions.
        self.host.net.answered = number;
        let part = match subject {
            Subject::List(listed) => Part::Lines(list(&mut self.host, &listed, asker.id, number)),
            Subject::Kill(filter) => Part::Count(kill(self, &filter, asker.id, number)),
            Subject::Move { id, thread } => Part::Count(u64::from(
                find(&mut self.host, id, number).is_some_and(|conn| send_off(&mut self.host, conn, thread)),
            )),
            Subject::Unblock(id, error) => {
                let conn = find(&mut self.host, id, number);
                Part::Count(u64::from(conn.is_some_and(|conn| self.time_out(conn, error.as_ref()))))
            }
            Subject::Pause { pause_ms, all } => {
                let now_ms = self.host.net.driver.clock().monotonic_ms();
                self.host.waits.pausing.begin(now_ms, pause_ms, all);
                Part::Count(0)
            }
            Subject::EndPause => {
                self.host.waits.pausing.end();
                self.run_all_postponed();
                Part::Count(0)
            }
            Subject::Purge => {
                purge(self);
                Part::Count(0)
            }
        };
        self.host.net.mailroom.answer(asker, part);
    }
}

/// Answers within a command, which holds shards. Work that needs other shards is done after the command.
pub(crate) fn answer_within(host: &mut ThreadHost, question: Question) {
    let Question { asker, subject, number } = question;
    debug_assert_eq!(number, host.net.answered + 1, "all threads get all questions in the same order");
    host.net.answered = number;
    let part = match subject {
        Subject::List(listed) => Part::Lines(list(host, &listed, asker.id, number)),
        Subject::Kill(filter) => Part::Count(kill_within(host, &filter, number)),
        Subject::Move { id, thread } => {
            Part::Count(u64::from(find(host, id, number).is_some_and(|conn| send_off(host, conn, thread))))
        }
        Subject::Unblock(id, error) => {
            let conn = find(host, id, number);
            Part::Count(u64::from(conn.is_some_and(|conn| time_out_within(host, conn, error.as_ref()))))
        }
        Subject::Pause { pause_ms, all } => {
            let now_ms = host.net.driver.clock().monotonic_ms();
            host.waits.pausing.begin(now_ms, pause_ms, all);
            Part::Count(0)
        }
        Subject::EndPause => {
            host.waits.pausing.end();
            host.balancing.way.left_over.ends_pause = true;
            Part::Count(0)
        }
        Subject::Purge => {
            host.background.cron.purge_again();
            Part::Count(0)
        }
    };
    host.net.mailroom.answer(asker, part);
}

/// Marks the clients that `filter` selects, to be closed when the running command has ended. Returns their number.
fn kill_within(host: &mut ThreadHost, filter: &Filter, number: u64) -> u64 {
    let mut meant = Vec::new();
    for (conn, session) in
        unasked(&mut host.net.connections, number).filter(|(_, session)| takes(filter, session))
    {
        session.close_after_reply = true;
        meant.push(conn);
    }
    for &conn in &meant {
        host.net.driver.pause_reading(conn);
        host.net.events.push_back(Event::Closed { conn, error: Some(ErrorKind::ConnectionAborted) });
    }
    let running = host.scripts.aside.caller.as_deref_mut().or(host.current.as_deref_mut());
    let running = running.filter(|session| session.asked < number && takes(filter, session));
    let is_running = running.map(|session| session.close_after_reply = true).is_some();
    meant.len() as u64 + u64::from(is_running)
}

/// Ends the wait of a client by its timeout, or with this error. Returns false if it had ended already. Its records
/// stay in the shards until the running command has ended.
fn time_out_within(host: &mut ThreadHost, conn: ConnId, error: Option<&CommandError>) -> bool {
    let Some(session) = host.net.connections.session(conn) else { return false };
    let Some(wait) = session.state.wait() else { return false };
    if !wait.blocked.waiter.claim.end() {
        return false;
    }
    let Client { proto, .. } = session.client;
    let (null_array, command) = (wait.blocked.null_array, session.last_command);
    let wait = session.state.take_wait().expect("looked at above");
    if let Some(error) = error {
        host.reports.accounting.count_failed_wait(command, error);
    }
    if let Some(out) = host.net.driver.output_mut(conn) {
        write_end_of_wait(&mut Reply::new(out, proto), error, null_array);
    }
    note_end_of_wait(host, conn, &wait);
    host.balancing.way.left_over.ended.push(wait);
    host.net.events.push_back(Event::Data { conn });
    true
}

/// A line for each of the clients of this thread that are `listed`, with its id.
fn list(host: &mut ThreadHost, listed: &Listed, asker: u64, number: u64) -> Vec<(u64, Vec<u8>)> {
    let (now_ms, table) = (host.net.now_ms, &host.shared.table);
    let mut lines = Vec::new();
    let running = host.scripts.aside.caller.as_deref_mut().or(host.current.as_deref_mut());
    let running = running.map(|session| (ConnId::from_bits(session.client.connection), session));
    let running = running.filter(|(_, session)| session.asked < number);
    for (conn, session) in unasked(&mut host.net.connections, number).chain(running) {
        let id = session.client.id;
        let is_wanted = listed.class.is_none_or(|class| is_of(session, class))
            && listed.ids.as_ref().is_none_or(|wanted| wanted.contains(&id));
        if is_wanted {
            let mut usage = host.net.driver.usage(conn);
            let mut argument_bytes = session.state.argument_bytes();
            if id == asker {
                // In Redis, the request is still in the buffer while it answers.
                usage.input_bytes += listed.asked.bytes;
                usage.input_capacity_bytes = usage.input_capacity_bytes.max(usage.input_bytes);
                argument_bytes += listed.asked.argument_bytes;
            }
            lines.push((id, line(session, usage, argument_bytes, now_ms, table).into_bytes()));
        }
    }
    lines
}

/// Closes the clients of this thread that `filter` selects. The client that asks gets its reply first.
fn kill(thread: &mut Thread, filter: &Filter, asker: u64, number: u64) -> u64 {
    let mut meant = Vec::new();
    for (conn, session) in unasked(&mut thread.host.net.connections, number) {
        if takes(filter, session) {
            // It does not leave while others are closed, because their closing may run its commands.
            session.close_after_reply = true;
            meant.push((conn, session.client.id));
        }
    }
    for &(conn, id) in &meant {
        if id != asker {
            thread.close(conn, CloseMode::Now);
        }
    }
    meant.len() as u64
}

/// The connection of this client, if it is on this thread.
fn find(host: &mut ThreadHost, id: u64, number: u64) -> Option<ConnId> {
    let is_it = |(conn, session): (ConnId, &mut Session)| (session.client.id == id).then_some(conn);
    unasked(&mut host.net.connections, number).find_map(is_it)
}

/// The clients of this thread that have not been asked this question. Some were asked on their former thread: a thread
/// that runs a slow script takes in clients before it answers.
fn unasked(connections: &mut Connections, number: u64) -> impl Iterator<Item = (ConnId, &mut Session)> {
    connections.iter_mut().filter(move |(_, session)| session.asked < number)
}

/// Frees the memory that has yet to be freed, and returns memory that is kept for reuse.
fn purge(thread: &mut Thread) {
    let host = &mut thread.host;
    while host.background.garbage.has_work(host.background.snapshot.has_room()) && host.free_slice() {}
    heap::purge_at_once();
    host.background.cron.purge_again();
}

/// Whether a client is of this kind.
fn is_of(session: &Session, class: Class) -> bool {
    match class {
        Class::Normal => !session.is_subscriber() && !session.follows() && !session.is_primary,
        Class::PubSub => session.is_subscriber(),
        Class::Replica => session.follows(),
        Class::Primary => session.is_primary,
    }
}

/// Whether `filter` selects a client.
fn takes(filter: &Filter, session: &Session) -> bool {
    let is_at = |address: &str, wanted: &Option<String>| match wanted {
        None => true,
        Some(wanted) if session.is_unix => wanted.strip_suffix(":0") == Some(address),
        Some(wanted) => wanted == address,
    };
    filter.except != Some(session.client.id)
        && filter.id.is_none_or(|id| id == session.client.id)
        && filter.class.is_none_or(|class| is_of(session, class))
        && filter.user.is_none_or(|number| number == session.access.user_number())
        && is_at(&session.peer, &filter.peer)
        && is_at(&session.local, &filter.local)
}
