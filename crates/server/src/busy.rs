//! A thread whose script runs for too long: its other clients get `BUSY`, and may order the script's end.

use std::time::Duration;

use command::{ArgSlices, Command, CommandError, Flag};
use proactor::{CloseMode, ConnId, Event};
use resp::{Parsed, Reply};

use crate::message::Message;
use crate::script_store::Slow;
use crate::session::State;
use crate::thread::ThreadHost;

impl ThreadHost {
    /// Looks after the other clients of this thread while its script runs. What cannot be done now is done when the
    /// script has ended.
    pub(crate) fn busy_turn(&mut self) {
        let mut events = Vec::new();
        if self.driver.turn(Some(Duration::ZERO), &mut events).is_err() {
            return;
        }
        for event in events {
            match event {
                Event::Data { conn } => self.serve_busy(conn),
                Event::Accepted { .. } | Event::Closed { .. } => self.postponed.push(event),
                Event::Wake => {}
            }
        }
        // New clients are taken, because one of them may want to end the script.
        let mut others = Vec::new();
        for node in self.shared.threads[usize::from(self.id)].take() {
            match node.value {
                Message::Adopt(socket) => _ = self.adopt(socket),
                message => others.push(message),
            }
        }
        self.own_mail.extend(others);
    }

    fn serve_busy(&mut self, conn: ConnId) {
        let Some((mut parser, mut session)) = self.connections.take(conn) else { return };
        let io = if matches!(session.state, State::Ready) { self.driver.take_io(conn) } else { None };
        let Some(mut io) = io else {
            self.connections.put_back(conn, parser, session);
            return;
        };
        let limits = self.shared.settings.request_limits(session.authenticated);
        let mut consumed = 0;
        loop {
            let rest = &io.input.as_slice()[consumed..];
            match parser.parse(rest, &limits) {
                Ok(Parsed::Request { consumed: length }) => {
                    let mut args = ArgSlices::new();
                    parser.args(rest, &mut args);
                    let mut reply = Reply::new(&mut io.output, session.client.proto);
                    match self.answer_busy(&args) {
                        Ok(()) => reply.ok(),
                        Err(error) => reply.error(error.text()),
                    }
                    consumed += length;
                }
                Ok(Parsed::Empty { consumed: length }) => consumed += length,
                Ok(Parsed::Incomplete) => break,
                Err(error) => {
                    Reply::new(&mut io.output, session.client.proto).error(error.reply());
                    session.state = State::Closing;
                    consumed = io.input.len();
                    break;
                }
            }
        }
        io.input.consume(consumed);
        let closing = matches!(session.state, State::Closing);
        self.connections.put_back(conn, parser, session);
        self.driver.put_io(conn, io);
        if closing {
            self.driver.close(conn, CloseMode::AfterFlush);
        }
    }

    fn answer_busy(&mut self, args: &[&[u8]]) -> Result<(), CommandError> {
        let command = self.shared.table.resolve(args)?;
        match command.full_name.as_str() {
            "script|kill" => self.kill_script(),
            "shutdown" => {
                tracing::warn!("User requested shutdown while a script is running: nothing is saved");
                std::process::exit(0);
            }
            _ => Err(CommandError::BUSY),
        }
    }

    /// Ends every slow script that has changed nothing.
    pub(crate) fn kill_script(&mut self) -> Result<(), CommandError> {
        let threads = &self.shared.threads;
        let killed_count = threads.iter().filter(|thread| thread.slow_script.kill()).count();
        if killed_count > 0 {
            return Ok(());
        }
        let wrote = threads.iter().any(|thread| thread.slow_script.get() == Slow::Wrote);
        Err(if wrote { CommandError::UNKILLABLE } else { CommandError::NOT_BUSY })
    }

    /// Whether `command` must be refused because a slow script holds one of its shards.
    pub(crate) fn is_refused_for_busy(&self, command: &Command, args: &[&[u8]]) -> bool {
        if command.has(Flag::AllowBusy) {
            return false;
        }
        let shards = &self.shared.shards;
        let held = |id: &shard::ShardId| shards.baton(*id).is_held();
        match command::Needs::of(command, args, shards.placement()) {
            command::Needs::Nothing => false,
            command::Needs::One(id) => held(&id),
            command::Needs::Several(ids) => ids.iter().any(held),
            command::Needs::All => shards.ids().any(|id| held(&id)),
        }
    }
}
