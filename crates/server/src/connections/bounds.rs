//! Bounds the memory of clients, and disconnects those that exceed it.
//!
//! - Input: nothing is read from a client whose command waits, or whose requests are far ahead. A client with a request
//!   longer than `client-query-buffer-limit` is disconnected.
//! - Output: `client-output-buffer-limit` is checked after commands and after deliveries. Independently of that, a
//!   client that leaves `client-unread-bytes-max` of replies unread is not served until it reads, and is disconnected
//!   if it does not read.
//! - Number: `timeout`. (`maxclients` and protected mode: crate `clients`, `refusal.rs`.)
//!
//! Not here: limits of single requests (`resp::Limits`), and of commands queued by MULTI (`life/admit.rs`).

use clients::Verdict;
use clients::session::{OutputClass, Session};
use config::{Settings, TLS_HANDSHAKE_TIMEOUT};
use observe::Accounting;
use proactor::{CloseMode, ConnId, Driver};
use resp::Output;

use crate::connections::network::Network;
use crate::connections::outputs::Outputs;
use crate::shared::Shared;
use crate::thread::{Thread, ThreadHost};

/// Output of one client after which other clients get their turn, and the kernel gets some of the output.
const TURN_OUTPUT_BYTES_MAX: usize = 4 << 20;
/// The amount of output below every limit, which need not be checked. A client that has not authenticated gets no more.
const OUTPUT_BYTES_FREE: usize = 16 * 1024;
/// Limit of input that waits here to be served. The rest waits in the kernel.
const INPUT_AHEAD_BYTES_MAX: usize = 256 * 1024;

impl Outputs {
    /// Whether a client must read replies before more of its commands run. If so, it is checked again later.
    #[inline]
    pub(crate) fn must_read_first(&mut self, net: &mut Network, shared: &Shared, conn: ConnId) -> bool {
        let pending_bytes = net.driver.output_pending_bytes(conn);
        if pending_bytes <= OUTPUT_BYTES_FREE || pending_bytes <= shared.settings.unread_bytes_max() {
            return false;
        }
        if self.watchlist.add_unread(conn, net.now_ms) {
            net.driver.pause_reading(conn);
        }
        true
    }

    /// Must be called after each serving of a client, and after each reply from elsewhere. Returns how its connection is
    /// closed, if it is.
    #[inline]
    pub(crate) fn settle(&mut self, net: &mut Network, shared: &Shared, conn: ConnId) -> Option<CloseMode> {
        let session = net.connections.session(conn)?;
        let reads = session.state.is_between_commands();
        if session.has_hung_up {
            let is_over = reads && !net.unserved.contains(&conn);
            if is_over || session.state.is_waiting() {
                return Some(CloseMode::AfterFlush);
            }
        }
        if !reads && !session.is_reading_paused {
            session.is_reading_paused = true;
            net.driver.pause_reading(conn);
        }
        self.exceeds(net, shared, conn).then_some(CloseMode::Now)
    }

    /// Whether the output of a client exceeds its limit, so that it is disconnected.
    #[inline]
    fn exceeds(&mut self, net: &mut Network, shared: &Shared, conn: ConnId) -> bool {
        let pending_bytes = net.driver.output_pending_bytes(conn);
        pending_bytes > OUTPUT_BYTES_FREE && self.exceeds_limit(net, shared, conn, pending_bytes)
    }

    #[cold]
    fn exceeds_limit(
        &mut self,
        net: &mut Network,
        shared: &Shared,
        conn: ConnId,
        pending_bytes: usize,
    ) -> bool {
        let Some(session) = net.connections.session(conn) else { return false };
        session.output_bytes_peak = session.output_bytes_peak.max(pending_bytes);
        if !session.access.is_authenticated() {
            tracing::warn!(
                pending_bytes,
                "disconnecting a client: it is not authenticated and does not read its replies"
            );
            return true;
        }
        let limit_of = |class: OutputClass| shared.settings.output_limit(class as usize);
        // Unread news about keys have a limit even if replies have no limit.
        let (news_bytes, news_limit) =
            (session.unread_news_bytes() as u64, limit_of(OutputClass::Subscriber));
        let (bytes, limit) = match session.output_class() {
            OutputClass::Normal if news_limit.is_exceeded_by(news_bytes) => (news_bytes, news_limit),
            class => (pending_bytes as u64, limit_of(class)),
        };
        let since_ms = &mut session.over_soft_limit_since_ms;
        let exceeds = self.watchlist.judge_output(conn, bytes, since_ms, &limit, net.now_ms);
        if exceeds {
            let id = session.client.id;
            tracing::warn!(
                id,
                pending_bytes,
                "disconnecting a client: it exceeds client-output-buffer-limit"
            );
        }
        exceeds
    }

    /// The next client that got messages without a request, and whose output exceeds its limit.
    pub(crate) fn pop_exceeding(&mut self, net: &mut Network, shared: &Shared) -> Option<ConnId> {
        while let Some(conn) = self.delivery.pop_written() {
            if self.exceeds(net, shared, conn) {
                return Some(conn);
            }
        }
        None
    }

    /// Makes the checks of every second: output buffers, handshakes, idle clients. Returns those that are disconnected.
    pub(crate) fn take_overdue(&mut self, net: &mut Network, shared: &Shared) -> Vec<ConnId> {
        let mut overdue = self.take_over_soft_limit(net, shared);
        let handshake_ms_max = shared.settings.number(TLS_HANDSHAKE_TIMEOUT) as u64 * 1000;
        for conn in self.watchlist.take_slow_handshakes(net.now_ms, handshake_ms_max) {
            tracing::info!("closing a connection: its TLS handshake takes too long");
            overdue.push(conn);
        }
        let idle_ms_max = shared.settings.idle_seconds_max().saturating_mul(1000);
        let others = overdue.len();
        for (conn, session) in net.connections.iter_mut() {
            let is_idle = idle_ms_max > 0 && session.idle_ms(net.now_ms) > idle_ms_max;
            if is_idle && !overdue[..others].contains(&conn) {
                tracing::debug!("closing an idle client");
                overdue.push(conn);
            }
        }
        overdue
    }

    /// The clients that have exceeded the soft limit of their output for too long.
    fn take_over_soft_limit(&mut self, net: &mut Network, shared: &Shared) -> Vec<ConnId> {
        let mut over = self.watchlist.take_over_soft_limit();
        over.retain(|&conn| {
            let pending_bytes = net.driver.output_pending_bytes(conn);
            if self.exceeds_limit(net, shared, conn, pending_bytes) {
                return true;
            }
            let session = net.connections.session(conn);
            if session.is_some_and(|session| session.over_soft_limit_since_ms.is_some()) {
                self.watchlist.add_over_soft_limit(conn);
            }
            false
        });
        over
    }
}

impl Thread {
    /// Continues with clients that have read their replies. Disconnects those that do not read.
    pub(crate) fn look_at_unread(&mut self) {
        let enough_bytes = self.host.shared.settings.unread_bytes_max() / 2;
        let ThreadHost { outputs, net: Network { driver, now_ms, .. }, .. } = &mut self.host;
        let judged =
            outputs.watchlist.judge_unread(enough_bytes, *now_ms, |conn| driver.output_pending_bytes(conn));
        for (conn, verdict) in judged {
            match verdict {
                Verdict::Serve => {
                    self.host.net.driver.resume_reading(conn);
                    self.serve(conn);
                }
                Verdict::GiveUp => {
                    tracing::warn!("disconnecting a client: it does not read its replies");
                    self.close(conn, CloseMode::Now);
                }
            }
        }
    }
}

/// Stops reading from a client whose requests are far ahead, or resumes reading.
pub(crate) fn read_on(
    driver: &mut Driver,
    conn: ConnId,
    session: &mut Session,
    (was_paused, input_bytes): (bool, usize),
) {
    let is_behind = input_bytes > INPUT_AHEAD_BYTES_MAX && !session.is_primary && session.has_to_wait;
    session.is_reading_paused = is_behind;
    match (was_paused, is_behind) {
        (false, true) => driver.pause_reading(conn),
        (true, false) => driver.resume_reading(conn),
        (true, true) | (false, false) => {}
    }
}

/// How a client is disconnected whose request is too long, if it is.
#[inline]
pub(crate) fn close_mode_of_input(settings: &Settings, input_bytes: usize) -> Option<CloseMode> {
    let is_too_long = input_bytes > settings.query_bytes_max();
    if is_too_long {
        tracing::warn!(input_bytes, "disconnecting a client: it exceeds client-query-buffer-limit");
    }
    is_too_long.then_some(CloseMode::Now)
}

/// Whether the rest of the current client's pipeline must wait until other clients have had their turn.
#[inline]
pub(crate) fn has_had_its_turn(accounting: &Accounting, out: &Output) -> bool {
    is_enough_output(out) || accounting.is_time_over()
}

#[inline]
fn is_enough_output(out: &Output) -> bool {
    out.len() > TURN_OUTPUT_BYTES_MAX
}
