//! Turns a connection's input into commands, and runs them one after the other.
//!
//! With many keys, nearly every look-up waits for memory several times in a row. So a pipeline is read a *window*
//! ahead: the shards of some requests are entered together and their records prefetched, so that the processor waits
//! for all of them at once. Then the commands run in order. A window contains only quick commands with one key, and
//! scripts and functions, whose first key is prefetched, unless they run on another thread. A taken shard ends it.
//! Because a script may take long, a window with a script leaves the shards before any command runs.

use std::collections::VecDeque;

use clients::session::{Parser, Session};
use config::EntryMode;
use effectlog::Lsn;
use engine::{ArgSlices, Command, Located, Mode, Route, Tx};
use proactor::{CloseMode, ConnId};
use resp::{Limits, Output, Parsed, Reply, RequestParser};
use smallvec::SmallVec;

use crate::connections::bounds::{close_mode_of_input, has_had_its_turn, read_on};
use crate::life::dispatch::{runs_elsewhere, runs_plainly};
use crate::life::waits::Waits;
use crate::replication::on_link;
use crate::reports::Reports;
use crate::shared::Shared;
use crate::thread::{Thread, ThreadHost, running};

/// Commands, or windows, of one connection that run before other connections get their turn.
pub(crate) const ROUNDS_PER_TURN: usize = 256;
/// Requests in a window.
const WINDOW_MAX: usize = 8;
/// The index of the number of keys in calls of scripts and functions. The keys follow it.
const KEY_COUNT_INDEX: usize = 2;
const FIRST_KEY_INDEX: usize = 3;

/// Whether a connection's input is read ahead.
#[derive(Clone, Copy)]
enum Ahead {
    /// It may be worth it: no command has shown how many keys there are.
    Perhaps,
    Yes,
    /// There are few keys, or no window could be formed.
    No,
}

/// A request in a window.
struct Request<'i> {
    args: SmallVec<[&'i [u8]; 6]>,
    /// Its length in the input, in bytes.
    bytes: usize,
    command: &'static Command,
    /// The place of its only or first key.
    located: Located,
}

impl<'i> Request<'i> {
    /// The request at the front of `input`, if it is complete and may be in a window.
    #[inline]
    fn read(
        parser: &RequestParser,
        input: &'i [u8],
        limits: &Limits,
        shared: &'static Shared,
    ) -> Option<Self> {
        let mut args = SmallVec::new();
        let bytes = parser.parse_whole(input, limits, &mut args)?;
        let command = shared.table.resolve(&args).ok()?;
        let key = match command.only_key {
            Some(index) if command.entry.mode == Mode::Quick => args.get(index)?,
            Some(_) => return None,
            None => first_key_of_script(command, &args)?,
        };
        let located = Located::new(key, shared.shards.placement().locate(key));
        Some(Request { args, bytes, command, located })
    }

    #[inline]
    fn is_quick(&self) -> bool {
        self.command.entry.mode == Mode::Quick
    }
}

/// The first key that a call of a script or function declares.
fn first_key_of_script<'a, 'i>(command: &Command, args: &'a [&'i [u8]]) -> Option<&'a &'i [u8]> {
    let has_keys = matches!(command.entry.route, Route::Script(_)) && *args.get(KEY_COUNT_INDEX)? != b"0";
    args.get(FIRST_KEY_INDEX).filter(|_| has_keys)
}

impl Thread {
    /// Runs the commands that a connection sent.
    pub(crate) fn serve(&mut self, conn: ConnId) {
        if self.host.outputs.must_read_first(&mut self.host.net, self.host.shared, conn) {
            return;
        }
        let Some((mut parser, mut session)) = self.host.net.connections.take(conn) else { return };
        if !session.state.is_ready() {
            if !session.state.is_put_off() {
                return self.host.net.connections.put_back(conn, parser, session);
            }
            session.state.read_again();
        }
        session.active_ms = self.host.net.now_ms;
        let shared = self.host.shared;
        if let Some(handshake) = session.handshake.take()
            && !clients::greet(&shared.users, &shared.settings, &mut session, &handshake)
        {
            self.host.net.connections.put_back(conn, parser, session);
            self.host.reports.accounting.stats().rejected_connections.add(1);
            return self.close(conn, CloseMode::Now);
        }
        let Some(mut io) = self.host.net.driver.take_io(conn) else {
            return self.host.net.connections.put_back(conn, parser, session);
        };
        let (was_paused, is_replica) = (std::mem::take(&mut session.is_reading_paused), session.follows());
        self.host.current = Some(session);
        let (clock, ticks_max) = (self.host.net.driver.clock(), self.host.balancing.serving_ticks_max);
        self.host.reports.accounting.begin_serving(clock, ticks_max, io.input.as_slice().len());
        let began = self.host.reports.accounting.lap();
        let (output_bytes, mark) = (io.output.len(), io.output.mark());
        self.tx.seen = Lsn::NONE;
        let (input, output) = (io.input.as_slice(), &mut io.output);
        let consumed = match &mut *parser {
            Parser::Redis(parser) => self.serve_input(parser, input, output, conn),
            Parser::Memcached(parser) => self.serve_memcached(parser, input, output, conn),
            Parser::Primary => {
                on_link(self, Some(output), |link, host| link.received(input, host));
                input.len()
            }
        };
        self.leave_all();
        self.host.shared.journal.hold(&mut self.tx, mark, &mut io.output);
        self.host.reports.accounting.stats().count_io(consumed, io.output.len() - output_bytes);
        io.input.consume(consumed);
        io.input.expect(parser.bytes_wanted());
        let mut session = self.host.current.take().expect("the session is put back where it was");
        process::crash::note_no_client();
        let took = self.host.reports.accounting.lap().wrapping_sub(began);
        session.cost += self.host.balancing.workload.cost(took);
        session.takes_long = self.host.reports.accounting.is_time_over();
        if is_replica && io.output.len() > output_bytes {
            // A reply would become a part of the stream.
            tracing::warn!("Replica {} generated a reply to a command, disconnecting it", session.peer);
            session.state.close(CloseMode::Now);
        }
        let input_bytes = io.input.len();
        let close_mode = session.close_mode().or_else(|| close_mode_of_input(&shared.settings, input_bytes));
        self.host.net.driver.put_io(conn, io);
        read_on(&mut self.host.net.driver, conn, &mut session, (was_paused, input_bytes));
        self.host.net.connections.put_back(conn, parser, session);
        let ThreadHost { outputs, net, .. } = &mut self.host;
        if let Some(mode) = close_mode.or_else(|| outputs.settle(net, shared, conn)) {
            self.close(conn, mode);
        }
        self.post_all();
        if self.host.balancing.workload.may_be_slow(took) {
            let ThreadHost { balancing, net, shared, .. } = &mut self.host;
            balancing.set_apart(net, shared, conn, took);
        }
    }

    /// Runs the commands at the front of `input`. Returns their length in bytes.
    pub(crate) fn serve_input(
        &mut self,
        parser: &mut RequestParser,
        input: &[u8],
        out: &mut Output,
        conn: ConnId,
    ) -> usize {
        let mut limits =
            self.host.shared.settings.request_limits(self.host.session().access.is_authenticated());
        let (mut consumed, mut ahead) = (0, Ahead::Perhaps);
        for _ in 0..ROUNDS_PER_TURN {
            let rest = &input[consumed..];
            let mut bytes = 0;
            if let Ahead::Yes = ahead {
                bytes = self.serve_window(parser, rest, &limits, out);
                if bytes == 0 && stops_reading(self.host.session()) {
                    break;
                }
                ahead = if bytes > 0 { Ahead::Yes } else { Ahead::No };
            }
            if bytes == 0 {
                bytes = match self.serve_request(parser, rest, &limits, out) {
                    Some(bytes) => bytes,
                    None => return consumed,
                };
                if let Ahead::Perhaps = ahead {
                    let ThreadHost { current, waits, reports, shared, .. } = &mut self.host;
                    ahead = looks_ahead(&self.tx, running(current), waits, reports, shared);
                }
            }
            consumed += bytes;
            if stops_reading(self.host.session()) {
                break;
            }
            limits.authenticated = self.host.session().access.is_authenticated();
            if has_had_its_turn(&self.host.reports.accounting, out) {
                break;
            }
        }
        leave_rest(running(&mut self.host.current), &mut self.host.net.unserved, conn);
        consumed
    }

    /// Runs the request at the front of `input`. Returns its length in bytes, or `None` if it is incomplete.
    #[inline]
    fn serve_request(
        &mut self,
        parser: &mut RequestParser,
        input: &[u8],
        limits: &Limits,
        out: &mut Output,
    ) -> Option<usize> {
        let mut args = ArgSlices::new();
        let bytes = match parser.parse_whole(input, limits, &mut args) {
            Some(bytes) => bytes,
            None => match parser.parse(input, limits) {
                Ok(Parsed::Request { consumed }) => {
                    parser.args(input, &mut args);
                    consumed
                }
                Ok(Parsed::Empty { consumed }) => return Some(consumed),
                Ok(Parsed::Incomplete) => return None,
                Err(error) => {
                    Reply::new(out, self.host.session().client.proto).error(error.reply());
                    self.host.session().state.close(CloseMode::AfterFlush);
                    return Some(input.len());
                }
            },
        };
        match self.host.shared.table.resolve(&args) {
            Ok(command) => self.call(command, &args, None, out),
            Err(error) => self.host.turn_away_malformed(&args, &error, out),
        }
        Some(if self.host.session().state.is_put_off() { 0 } else { bytes })
    }

    /// Runs requests at the front of `input` in a window. Returns their length in bytes. 0: they form no window,
    /// because there are fewer than two, or two for the same key; or the first of them was put off.
    fn serve_window(
        &mut self,
        parser: &RequestParser,
        input: &[u8],
        limits: &Limits,
        out: &mut Output,
    ) -> usize {
        let mut window = SmallVec::<[Request<'_>; WINDOW_MAX]>::new();
        let (mut read, shared) = (0, self.host.shared);
        while window.len() < WINDOW_MAX
            && let Some(request) = Request::read(parser, &input[read..], limits, shared)
        {
            if !request.is_quick()
                && runs_elsewhere(shared, self.host.net.id, request.command, request.located.shard())
            {
                break;
            }
            read += request.bytes;
            let is_again = window.last().is_some_and(|last| last.located.hash() == request.located.hash());
            if is_again && window.len() == 1 {
                return 0;
            }
            window.push(request);
        }
        if window.len() < 2 {
            return 0;
        }
        self.leave_all();
        self.run_length = 0;
        let hold = &mut self.tx.hold;
        let entered = window.iter().take_while(|request| hold.try_enter(request.located.shard())).count();
        window.truncate(entered);
        let db = self.host.session().client.db as usize;
        let hold = &self.tx.hold;
        let dbs = || {
            window
                .iter()
                .map(|Request { located, .. }| (&hold.shard(located.shard()).dbs[db], located.hash()))
        };
        dbs().for_each(|(db, hash)| db.prefetch_place(hash));
        dbs().for_each(|(db, hash)| db.prefetch_record(hash));
        dbs().for_each(|(db, hash)| db.prefetch_value(hash));
        if !window.iter().all(Request::is_quick) {
            self.leave_all();
        }
        let mut consumed = 0;
        for request in &window {
            let located = request.is_quick().then_some(request.located);
            self.call(request.command, &request.args, located, out);
            if self.host.session().state.is_put_off() {
                break;
            }
            consumed += request.bytes;
            if stops_reading(self.host.session()) || has_had_its_turn(&self.host.reports.accounting, out) {
                break;
            }
        }
        self.leave_all();
        consumed
    }
}

/// Whether reading ahead is worth it, judged by the shard of the last command.
#[inline]
fn looks_ahead(tx: &Tx<'_>, session: &Session, waits: &Waits, reports: &Reports, shared: &Shared) -> Ahead {
    let [id] = *tx.hold.entered() else { return Ahead::Perhaps };
    let db = tx.hold.shard(id).dbs.used(session.client.db as usize);
    let has_many_keys = db.is_some_and(|db| db.len() >= shared.machine.tuning.keys_min);
    let may_read = has_many_keys && shared.entry_mode == EntryMode::Roam;
    if may_read && runs_plainly(session, waits, reports, shared) { Ahead::Yes } else { Ahead::No }
}

/// Whether the rest of a client's input must wait for something.
#[inline]
pub(crate) fn stops_reading(session: &Session) -> bool {
    !session.state.is_ready() || session.close_after_reply
}

/// Leaves the rest of a client's input, if any, until the other clients were served, unless it must wait for something
/// else.
pub(crate) fn leave_rest(session: &mut Session, unserved: &mut VecDeque<ConnId>, conn: ConnId) {
    if session.state.is_between_commands() && !session.close_after_reply && !session.has_to_wait {
        session.has_to_wait = true;
        unserved.push_back(conn);
    }
}
