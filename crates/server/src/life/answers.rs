//! Answers questions that all threads are asked.
//!
//! Not here: the questions (`clients/session/question.rs`), and handling the answers (`homecoming.rs`).

use std::io::ErrorKind;

use clients::session::{Filter, Listed, Part, Question, Session, Subject, Wait};
use clients::{Connections, line};
use engine::{Client, CommandError, Table};
use proactor::{CloseMode, ConnId, Event};
use resp::Reply;

use crate::connections::network::Network;
use crate::life::wait::write_end_of_wait;
use crate::reports::Reports;
use crate::thread::{Thread, ThreadHost};

impl Thread {
    /// Does what a question asks for, and answers it.
    pub(crate) fn answer(&mut self, question: Question) {
        let Question { asker, subject, number } = question;
        // This comes before any command runs for it, because a command that gives way answers the next questions.
        self.host.net.note_question(number);
        let part = match subject {
            Subject::Kill(filter) => {
                let net = &mut self.host.net;
                let meant = mark_to_close(&mut net.connections, &filter, net.now_ms, number);
                // The client that asks gets its reply first.
                for &(conn, _) in meant.iter().filter(|(_, id)| *id != asker.id) {
                    self.close(conn, CloseMode::Now);
                }
                Part::Count(meant.len() as u64)
            }
            Subject::Unblock(id, error) => {
                let conn = find(&mut self.host.net.connections, id, number);
                Part::Count(u64::from(conn.is_some_and(|conn| self.time_out(conn, error.as_ref()))))
            }
            Subject::EndPause => {
                self.host.waits.pausing.end();
                self.run_all_postponed();
                Part::Count(0)
            }
            Subject::Purge => {
                self.host.background.purge(self.host.net.stats);
                Part::Count(0)
            }
            subject => return self.host.answer_within(Question { asker, subject, number }),
        };
        self.host.net.messages.answer(asker, part);
    }
}

impl ThreadHost {
    /// Answers a question that [was noted](Network::note_question). Enters no shard, so this may be within a command: work
    /// that needs other shards is done after it.
    pub(crate) fn answer_within(&mut self, question: Question) {
        let Question { asker, ref subject, number } = question;
        let ThreadHost { net, current, scripts, reports, waits, balancing, background, shared, .. } = self;
        let running = scripts.aside.caller.as_deref_mut().or(current.as_deref_mut());
        let running = running.filter(|session| session.asked < number);
        let count = match subject {
            Subject::List(listed) => {
                let lines = net.list(running, &shared.table, listed, asker.id, number);
                return net.messages.answer(asker, Part::Lines(lines));
            }
            Subject::Kill(filter) => {
                let now_ms = net.now_ms;
                scripts.is_caller_killed |=
                    running.as_deref().is_some_and(|session| filter.takes(session, now_ms));
                net.kill_within(running, filter, number)
            }
            Subject::Move { id, thread } => {
                let conn = find(&mut net.connections, *id, number);
                u64::from(conn.is_some_and(|conn| net.send_off(conn, *thread)))
            }
            Subject::Unblock(id, error) => {
                let conn = find(&mut net.connections, *id, number);
                let error = error.as_ref();
                let ended = conn.and_then(|conn| net.time_out_within(reports, &shared.table, conn, error));
                let count = u64::from(ended.is_some());
                balancing.way.left_over.ended.extend(ended);
                count
            }
            Subject::Pause { pause_ms, all } => {
                waits.pausing.begin(net.driver.clock().monotonic_ms(), *pause_ms, *all);
                0
            }
            Subject::EndPause => {
                waits.pausing.end();
                balancing.way.left_over.ends_pause = true;
                0
            }
            Subject::Purge => {
                background.cron.purge_again();
                0
            }
        };
        net.messages.answer(asker, Part::Count(count));
    }
}

impl Network {
    /// Notes that the thread answers a question.
    pub(crate) fn note_question(&mut self, number: u64) {
        debug_assert_eq!(number, self.answered + 1, "all threads get all questions in the same order");
        self.answered = number;
    }

    /// Marks the clients that `filter` selects, to be closed when the running command has ended. Returns their number.
    fn kill_within(&mut self, running: Option<&mut Session>, filter: &Filter, number: u64) -> u64 {
        let meant = mark_to_close(&mut self.connections, filter, self.now_ms, number);
        for &(conn, _) in &meant {
            self.driver.pause_reading(conn);
            self.events.push_back(Event::Closed { conn, error: Some(ErrorKind::ConnectionAborted) });
        }
        let running = running.filter(|session| filter.takes(session, self.now_ms));
        let is_running = running.map(|session| session.close_after_reply = true).is_some();
        meant.len() as u64 + u64::from(is_running)
    }

    /// Ends the wait of a client by its timeout, or with this error. Returns `None` if it had ended already. Its
    /// records stay in the shards until the running command has ended.
    fn time_out_within(
        &mut self,
        reports: &Reports,
        table: &Table,
        conn: ConnId,
        error: Option<&CommandError>,
    ) -> Option<Wait> {
        let session = self.connections.session(conn)?;
        let wait = session.state.wait()?;
        if !wait.blocked.waiter.claim.end() {
            return None;
        }
        let Client { proto, .. } = session.client;
        let (null_array, command) = (wait.blocked.null_array, session.last_command);
        let wait = session.state.take_wait().expect("looked at above");
        if let Some(error) = error {
            reports.accounting.count_failed_wait(command, error);
        }
        if let Some(out) = self.driver.output_mut(conn) {
            write_end_of_wait(&mut Reply::new(out, proto), error, null_array);
        }
        reports.note_end_of_wait(self, table, conn, &wait);
        self.events.push_back(Event::Data { conn });
        Some(wait)
    }

    /// A line for each of the clients of this thread that are `listed`, with its id.
    fn list(
        &mut self,
        running: Option<&mut Session>,
        table: &Table,
        listed: &Listed,
        asker: u64,
        number: u64,
    ) -> Vec<(u64, Vec<u8>)> {
        let mut lines = Vec::new();
        let running = running.map(|session| (ConnId::from_bits(session.client.connection), session));
        for (conn, session) in unasked(&mut self.connections, number).chain(running) {
            let id = session.client.id;
            if listed.filter.takes(session, self.now_ms) {
                let mut usage = self.driver.usage(conn);
                let mut argument_bytes = session.state.argument_bytes();
                if id == asker {
                    // In Redis, the request is still in the buffer while it answers.
                    usage.input_bytes += listed.asked.bytes;
                    usage.input_capacity_bytes = usage.input_capacity_bytes.max(usage.input_bytes);
                    argument_bytes += listed.asked.argument_bytes;
                }
                lines.push((id, line(session, usage, argument_bytes, self.now_ms, table).into_bytes()));
            }
        }
        lines
    }
}

/// Marks the clients that `filter` selects, so that they do not leave while others are closed, because their closing may
/// run their commands.
fn mark_to_close(
    connections: &mut Connections,
    filter: &Filter,
    now_ms: u64,
    number: u64,
) -> Vec<(ConnId, u64)> {
    let meant = unasked(connections, number).filter(|(_, session)| filter.takes(session, now_ms));
    let mark = |(conn, session): (ConnId, &mut Session)| {
        session.close_after_reply = true;
        (conn, session.client.id)
    };
    meant.map(mark).collect()
}

/// The connection of this client, if it is on this thread.
fn find(connections: &mut Connections, id: u64, number: u64) -> Option<ConnId> {
    let is_it = |(conn, session): (ConnId, &mut Session)| (session.client.id == id).then_some(conn);
    unasked(connections, number).find_map(is_it)
}

/// The clients of this thread that have not been asked this question. Some were asked on their former thread: a thread
/// that runs a slow script takes in clients before it answers.
fn unasked(connections: &mut Connections, number: u64) -> impl Iterator<Item = (ConnId, &mut Session)> {
    connections.iter_mut().filter(move |(_, session)| session.asked < number)
}
