//! Tells the clients of a thread about a handover, if they asked for that (`CLIENT MAINT_NOTIFICATIONS`), and decides which
//! commands wait for it or are redirected.
//!
//! `replication::Notices` says who is told what. Not here: whose turn it is (`replication`), and the waits that end (the
//! server).

use config::{CLUSTER_MODE, Settings};
use engine::{Command, CommandError, Flag};
use proactor::{ConnId, Driver};
use replication::{Address, Following, Notice, SILENT_MS};
use resp::{Proto, Reply};
use scripting::States;

use crate::connections::Connections;
use crate::session::{Judge, Session};

/// The beginning of the error that redirects a client to the primary.
pub const REDIRECT: &str = "REDIRECT ";

/// The clients for which something has to be done after a notice.
#[derive(Default)]
pub struct Notified {
    /// Something was written to them, so their outputs may have grown too large.
    pub told: Vec<ConnId>,
    /// Their waits end as if their time were over: they leave behind the reply.
    pub waiting: Vec<ConnId>,
    /// Whether commands that were kept are tried again.
    pub tries_again: bool,
}

/// Gives clients a notice.
pub fn notify(
    notice: Notice,
    connections: &mut Connections,
    driver: &mut Driver,
    (following, settings, now_ms): (&Following, &Settings, u64),
) -> Notified {
    let primary = following.primary();
    let mut notified = Notified::default();
    let mut staying = 0;
    for (conn, session) in connections.iter_mut() {
        let Some(recipient) = session.recipient.as_deref_mut() else { continue };
        let Some(output) = driver.output_mut(conn) else { continue };
        let (mut reply, local) = (Reply::new(output, Proto::Resp3), &*session.local);
        let is_told = match (notice, &primary) {
            (Notice::Round(_), _) => recipient.tell_moving((local, settings, now_ms), &mut reply),
            (Notice::SendsBack { number }, Some(primary)) => {
                recipient.send_back((number, primary), (local, settings), &mut reply)
            }
            (Notice::SendsBack { .. } | Notice::Received, _) => false,
            _ => {
                // An earlier handover is over.
                recipient.is_told &= !matches!(notice, Notice::FailingOver { .. });
                notice.write(&mut reply);
                true
            }
        };
        if is_told {
            notified.told.push(conn);
        }
        if recipient.is_told && matches!(notice, Notice::Round(_)) {
            let waits = session.state.wait().is_some() || session.state.sync_wait().is_some();
            let is_active = now_ms.saturating_sub(session.active_ms) < SILENT_MS;
            staying += usize::from(is_active || !session.state.is_ready());
            notified.waiting.extend(waits.then_some(conn));
        }
    }
    if let Notice::Round(round) = notice {
        following.notices.report(round, staying);
    }
    notified.tries_again = matches!(notice, Notice::Received | Notice::SendsBack { .. });
    notified
}

/// The fate of a command at a handover.
pub enum HandoverFate {
    /// It is kept until the roles have changed.
    Waits,
    /// Its client is redirected to the primary by this error.
    Redirected(CommandError),
}

/// The fate of a command of a client that came before this server leads, or that can be redirected. `None`: that of any
/// other. `is_ready`: this server serves writes if it leads.
pub fn fate_at_handover(
    session: &mut Session,
    lua: &mut States,
    judge: Judge<'_>,
    (following, is_ready, now_ms): (&Following, bool, u64),
    (command, args): (&Command, &[&[u8]]),
) -> Option<HandoverFate> {
    if session.is_arriving() {
        // As long as it would be refused here, or see what the primary is about to change.
        let waits = following.notices.receives(now_ms) && (following.is_replica() || !is_ready);
        if let Some(recipient) = session.recipient.as_mut().filter(|_| !waits) {
            recipient.is_arriving = false;
        }
        let asked = judge.demands(session, lua, command, args);
        if waits && (asked.shows_data || asked.replicates) {
            return Some(HandoverFate::Waits);
        }
    }
    if !session.follows_redirects || !following.is_replica() || judge.settings.is_on(CLUSTER_MODE) {
        return None;
    }
    let writes = session.runs(judge.table, command, |command| command.has(Flag::Write));
    let reads = session.runs(judge.table, command, |command| command.has(Flag::ReadOnly));
    if !writes && (!reads || session.reads_here) {
        return None;
    }
    if following.failover.is_between() {
        // The other server might still send it back.
        return Some(HandoverFate::Waits);
    }
    let Address { host, port } = following.primary()?;
    Some(HandoverFate::Redirected(CommandError::new(format!("{REDIRECT}{host}:{port}"))))
}
