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
use config::TLS_HANDSHAKE_TIMEOUT;
use proactor::{CloseMode, ConnId};
use resp::Output;

use crate::connections::network::Network;
use crate::thread::{Thread, ThreadHost};

/// Output of one client after which other clients get their turn, and the kernel gets some of the output.
const TURN_OUTPUT_BYTES_MAX: usize = 4 << 20;
/// The amount of output below every limit, which need not be checked. A client that has not authenticated gets no more.
const OUTPUT_BYTES_FREE: usize = 16 * 1024;
/// Limit of input that waits here to be served. The rest waits in the kernel.
const INPUT_AHEAD_BYTES_MAX: usize = 256 * 1024;

impl ThreadHost {
    /// Whether a client must read replies before more of its commands run. If so, it is checked again later.
    #[inline]
    pub(crate) fn must_read_first(&mut self, conn: ConnId) -> bool {
        let pending_bytes = self.net.driver.output_pending_bytes(conn);
        if pending_bytes <= OUTPUT_BYTES_FREE || pending_bytes <= self.shared.settings.unread_bytes_max() {
            return false;
        }
        if self.outputs.watchlist.add_unread(conn, self.net.now_ms) {
            self.net.driver.pause_reading(conn);
        }
        true
    }
}

impl Thread {
    /// Must be called after each serving of a client, and after each reply from elsewhere.
    pub(crate) fn settle(&mut self, conn: ConnId) {
        let Some(session) = self.host.net.connections.session(conn) else { return };
        let reads = session.state.is_between_commands();
        if session.has_hung_up {
            let is_over = reads && !self.host.net.unserved.contains(&conn);
            if is_over || session.state.is_waiting() {
                return self.close(conn, CloseMode::AfterFlush);
            }
        }
        if !reads && !session.is_reading_paused {
            session.is_reading_paused = true;
            self.host.net.driver.pause_reading(conn);
        }
        self.check_output(conn);
    }

    /// Checks all clients that got messages without a request.
    pub(crate) fn look_at_written(&mut self) {
        while let Some(conn) = self.host.outputs.delivery.pop_written() {
            self.check_output(conn);
        }
    }

    /// Disconnects a client whose output exceeds its limit.
    #[inline]
    pub(crate) fn check_output(&mut self, conn: ConnId) {
        let pending_bytes = self.host.net.driver.output_pending_bytes(conn);
        if pending_bytes > OUTPUT_BYTES_FREE {
            self.check_large_output(conn, pending_bytes);
        }
    }

    #[cold]
    fn check_large_output(&mut self, conn: ConnId, pending_bytes: usize) {
        let ThreadHost { outputs, net: Network { connections, now_ms, .. }, shared, .. } = &mut self.host;
        let Some(session) = connections.session(conn) else { return };
        session.output_bytes_peak = session.output_bytes_peak.max(pending_bytes);
        if !session.access.is_authenticated() {
            tracing::warn!(
                pending_bytes,
                "disconnecting a client: it is not authenticated and does not read its replies"
            );
            return self.close(conn, CloseMode::Now);
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
        if outputs.watchlist.judge_output(conn, bytes, since_ms, &limit, *now_ms) {
            let id = session.client.id;
            tracing::warn!(
                id,
                pending_bytes,
                "disconnecting a client: it exceeds client-output-buffer-limit"
            );
            self.close(conn, CloseMode::Now);
        }
    }

    /// Disconnects a client whose request is too long.
    pub(crate) fn check_input(&mut self, conn: ConnId, input_bytes: usize) {
        if input_bytes > self.host.shared.settings.query_bytes_max() {
            tracing::warn!(input_bytes, "disconnecting a client: it exceeds client-query-buffer-limit");
            self.close(conn, CloseMode::Now);
        }
    }

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

    /// Makes the checks of every second: idle clients, output buffers.
    pub(crate) fn each_second(&mut self) {
        for conn in self.host.outputs.watchlist.take_over_soft_limit() {
            let pending_bytes = self.host.net.driver.output_pending_bytes(conn);
            self.check_large_output(conn, pending_bytes);
            let still_over = self
                .host
                .net
                .connections
                .session(conn)
                .is_some_and(|session| session.over_soft_limit_since_ms.is_some());
            if still_over {
                self.host.outputs.watchlist.add_over_soft_limit(conn);
            }
        }
        let handshake_ms_max = self.host.shared.settings.number(TLS_HANDSHAKE_TIMEOUT) as u64 * 1000;
        for conn in self.host.outputs.watchlist.take_slow_handshakes(self.host.net.now_ms, handshake_ms_max) {
            tracing::info!("closing a connection: its TLS handshake takes too long");
            self.close(conn, CloseMode::Now);
        }
        let idle_ms_max = self.host.shared.settings.idle_seconds_max().saturating_mul(1000);
        let now_ms = self.host.net.now_ms;
        let sessions = self.host.net.connections.iter_mut();
        let idle = sessions.filter(|(_, session)| idle_ms_max > 0 && session.idle_ms(now_ms) > idle_ms_max);
        for conn in idle.map(|(conn, _)| conn).collect::<Vec<_>>() {
            tracing::debug!("closing an idle client");
            self.close(conn, CloseMode::Now);
        }
    }
}

/// Stops reading from a client whose requests are far ahead, or resumes reading.
pub(crate) fn read_on(
    host: &mut ThreadHost,
    conn: ConnId,
    session: &mut Session,
    (was_paused, input_bytes): (bool, usize),
) {
    let is_behind = input_bytes > INPUT_AHEAD_BYTES_MAX && !session.is_primary && session.has_to_wait;
    session.is_reading_paused = is_behind;
    match (was_paused, is_behind) {
        (false, true) => host.net.driver.pause_reading(conn),
        (true, false) => host.net.driver.resume_reading(conn),
        (true, true) | (false, false) => {}
    }
}

/// Whether the rest of the current client's pipeline must wait until other clients have had their turn.
#[inline]
pub(crate) fn has_had_its_turn(host: &ThreadHost, out: &Output) -> bool {
    is_enough_output(out) || host.reports.accounting.is_time_over()
}

#[inline]
fn is_enough_output(out: &Output) -> bool {
    out.len() > TURN_OUTPUT_BYTES_MAX
}
