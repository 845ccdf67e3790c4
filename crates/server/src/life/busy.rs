//! Serves the other clients of a thread whose script runs for too long: they get `BUSY`, and may end the script.
//!
//! The commands that Redis allows meanwhile (`AUTH`, `MULTI`, `SCRIPT KILL`, `SHUTDOWN NOSAVE` …) run inside the
//! script's transaction, because they need no shard. New connections are accepted and refused as usual. Ended
//! connections are cleaned up after the script.

use std::io::ErrorKind;
use std::time::Duration;

use clients::session::{Parser, Part};
use engine::{ArgSlices, Flag, Needs, Outcome, Task, Tx, Work};
use observe::{Accounting, Call, RequestSource};
use proactor::{CloseMode, ConnId, Event};
use resp::{Output, Parsed, Reply, RequestParser};
use shard::Delegated;

use crate::life::admit::{Admission, suppress_reply, write_error};
use crate::message::Message;
use crate::messages::Messages;
use crate::shared::Shared;
use crate::thread::{ThreadHost, running};
use crate::users::refusal_of;

impl ThreadHost {
    /// Serves the other clients of this thread while its script runs. Work that cannot be done now is done after the
    /// script.
    pub(crate) fn busy_turn(&mut self, tx: &mut Tx<'_>) {
        self.net.messages.wake_sleepers();
        let mut events = Vec::new();
        if self.net.driver.turn(Some(Duration::ZERO), &mut events).is_err() {
            return;
        }
        for event in std::mem::take(&mut self.net.events).into_iter().chain(events) {
            match event {
                Event::Data { conn } if self.balancing.gives(&mut self.net, self.shared, conn) => {
                    self.net.events.push_back(event);
                }
                Event::Data { conn } => self.serve_busy(tx, conn),
                // New clients are accepted, because one of them may want to end the script.
                Event::Accepted { socket, listener } => {
                    self.balancing.deal(&mut self.net, self.shared, socket, listener);
                }
                Event::Closed { .. } | Event::Detached { .. } => self.net.events.push_back(event),
                Event::Wake => {}
            }
        }
        self.net.messages.fetch();
        for _ in 0..self.net.messages.len() {
            let Some(message) = self.net.messages.pop() else { break };
            match message {
                Message::Adopt(socket, entrance) => {
                    self.net.adopt(&mut self.outputs.watchlist, self.shared, socket, entrance);
                }
                Message::Arrive(mover) => self.net.arrive(&self.shared.users, *mover),
                Message::Visit(socket, access) => {
                    self.net.visit(&mut self.outputs.watchlist, self.shared, socket, *access);
                }
                Message::ComeBy => self.shared.shutdown.hear(self.net.id),
                Message::PassScript(asker) => self.net.messages.answer(asker, Part::Count(0)),
                Message::Hop(node) => {
                    if let Some(node) =
                        refuse_task(node, &mut self.net.messages, &self.reports.accounting, self.shared)
                    {
                        self.net.messages.send(self.net.id, Message::Hop(node));
                    }
                }
                message => self.net.messages.send(self.net.id, message),
            }
        }
        for id in [tx.hold.entered(), tx.hold.kept()].concat() {
            tx.hold.sift_tasks(id, |node| {
                refuse_task(node, &mut self.net.messages, &self.reports.accounting, self.shared)
            });
        }
    }

    fn serve_busy(&mut self, tx: &mut Tx<'_>, conn: ConnId) {
        if self.outputs.must_read_first(&mut self.net, self.shared, conn) {
            return;
        }
        let Some((mut parser, mut session)) = self.net.connections.take(conn) else {
            // This is the script's caller. Its input waits, up to a limit.
            self.net.driver.pause_reading(conn);
            return self.net.events.push_back(Event::Data { conn });
        };
        let Parser::Redis(redis) = &mut *parser else {
            // None of the commands of memcached's clients could run now, so they wait.
            session.is_reading_paused = true;
            self.net.driver.pause_reading(conn);
            self.net.connections.put_back(conn, parser, session);
            return self.net.events.push_back(Event::Data { conn });
        };
        let can_be_served = session.state.is_between_commands() && !session.close_after_reply;
        let io = if can_be_served { self.net.driver.take_io(conn) } else { None };
        let Some(mut io) = io else { return self.net.connections.put_back(conn, parser, session) };
        if session.state.is_put_off() {
            session.state.read_again();
        }
        let script = self.current.replace(session);
        let consumed = self.serve_busy_input(tx, redis, io.input.as_slice(), &mut io.output);
        let mut session = std::mem::replace(&mut self.current, script).expect("it was put there above");
        io.input.consume(consumed);
        session.close_after_reply |= io.input.len() > self.shared.settings.query_bytes_max();
        if let Some(mode) = session.close_mode() {
            self.net.driver.pause_reading(conn);
            let error = (mode != CloseMode::AfterFlush).then_some(ErrorKind::ConnectionAborted);
            self.net.events.push_back(Event::Closed { conn, error });
        }
        self.net.connections.put_back(conn, parser, session);
        self.net.driver.put_io(conn, io);
    }

    fn serve_busy_input(
        &mut self,
        tx: &mut Tx<'_>,
        parser: &mut RequestParser,
        input: &[u8],
        out: &mut Output,
    ) -> usize {
        let mut consumed = 0;
        while self.session().state.is_ready() && !self.session().close_after_reply {
            let rest = &input[consumed..];
            let limits = self.shared.settings.request_limits(self.session().access.is_authenticated());
            match parser.parse(rest, &limits) {
                Ok(Parsed::Request { consumed: length }) => {
                    let mut args = ArgSlices::new();
                    parser.args(rest, &mut args);
                    self.command_while_busy(tx, &args, out);
                    consumed += length;
                }
                Ok(Parsed::Empty { consumed: length }) => consumed += length,
                Ok(Parsed::Incomplete) => break,
                Err(error) => {
                    Reply::new(out, self.session().client.proto).error(error.reply());
                    self.session().close_after_reply = true;
                    return input.len();
                }
            }
        }
        consumed
    }

    fn command_while_busy(&mut self, tx: &mut Tx<'_>, args: &[&[u8]], out: &mut Output) {
        let (mode, mark) = (self.session().reply_mode, out.mark());
        let command = match tx.table.resolve(args) {
            Ok(command) => command,
            Err(error) => return self.turn_away_malformed(args, &error, out),
        };
        if let Err(lack) = self.permit(command, args) {
            if let Some(error) = refusal_of(lack, self.session(), command) {
                self.turn_away(Some(command), &error, out);
            }
            return;
        }
        // The command is not queued after MULTI either, which then ends in EXECABORT, as in Redis.
        if !command.has(Flag::AllowBusy) {
            let error = self.shared.scripts.busy_error();
            return self.turn_away(Some(command), &error, out);
        }
        let (session, lua) = (running(&mut self.current), &mut self.scripts.lua);
        let can_run = self.shared.judge().needs(session, lua, command, args) == Needs::Nothing;
        match self.admit(command, args, out) {
            Admission::Run if can_run => {
                let client = self.session().client;
                let started = self.net.driver.clock().ticks();
                let mut outcome = tx.run(command, args, &client, self, out);
                let call = Call { command, args, started, mark, out, source: RequestSource::Kept };
                let (current, clock) = (self.current.as_deref(), self.net.driver.clock());
                self.reports.count(&call, &client, &mut outcome, current, clock);
            }
            Admission::Run => {
                let error = self.shared.scripts.busy_error();
                self.refuse(Some(command), &error, out);
            }
            Admission::Queued => Reply::new(out, self.session().client.proto).simple("QUEUED"),
            Admission::Later => return,
            Admission::Refused(error) => self.refuse(Some(command), &error, out),
            Admission::Gone => return self.session().state.close(CloseMode::AfterFlush),
        }
        suppress_reply(self.session(), Some(command), mode, mark, out);
    }
}

/// Replies to a client's task that was sent before the script became slow. Returns tasks that belong to no client.
fn refuse_task(
    mut node: Box<Delegated<Task>>,
    messages: &mut Messages,
    accounting: &Accounting,
    shared: &Shared,
) -> Option<Box<Delegated<Task>>> {
    let task = &mut node.task;
    match task.work {
        Work::Run(command) | Work::Look(command) => {
            task.work = Work::Run(command);
            task.outcome = Outcome::Failed;
            let error = shared.scripts.busy_error();
            accounting.count_rejection(Some(command), &error);
            let (table, proto) = (&shared.table, task.client.proto);
            write_error(table, Some(command), proto, error.text(), &mut task.reply);
        }
        // The thread that waits for the shard notices the delay by itself.
        Work::Notify => {}
        Work::Forget(_) | Work::Restore(_) | Work::HandOver(_) => return Some(node),
    }
    let origin = task.client.thread;
    messages.send(origin, Message::Done(node, Vec::new()));
    None
}
