//! Counts commands, with their clients.

use background::expiry::Round;
use clients::session::{Session, Wait};
use engine::{Client, CommandError, Outcome, Table};
use observe::{Call, Caller};
use proactor::{Clock, ConnId};

use crate::connections::network::Network;
use crate::reports::Reports;

impl Reports {
    /// Counts a command of `client`, whose session is `current` if it is on this thread, unless it will run again.
    #[inline]
    pub(crate) fn count(
        &mut self,
        call: &Call<'_>,
        client: &Client,
        outcome: &mut Outcome,
        current: Option<&Session>,
        clock: &Clock,
    ) {
        // For a delegated command, only the client's number is known here.
        let session = current.filter(|session| session.client.id == client.id);
        self.accounting.count(call, outcome, clock, || session.map(caller).unwrap_or_default());
    }

    /// Counts a round of expiry that began `started` ticks ago.
    pub(crate) fn note_expiry(&self, round: &Round, started: u64, clock: &Clock) {
        round.note(self.accounting.stats());
        let ns = clock.ticks_to_ns(started, clock.ticks());
        self.accounting.note_event("expire-cycle", ns, clock);
    }

    /// Counts the end of a client's wait, and its command.
    pub(crate) fn note_end_of_wait(&self, net: &mut Network, table: &Table, conn: ConnId, wait: &Wait) {
        net.stats.clients_with_timeout.sub(u64::from(wait.deadline_ms.is_some()));
        net.stats.blocked_clients.sub(1);
        let Network { connections, driver, .. } = net;
        let caller = || connections.session(conn).map(|session| caller(session));
        self.accounting.note_unblocked(&wait.blocked, table, driver.clock(), caller);
    }

    /// Counts that the client's wait ends with an error.
    pub(crate) fn count_failed_wait(&self, net: &mut Network, conn: ConnId, error: &CommandError) {
        let command = net.connections.session(conn).and_then(|session| session.last_command);
        self.accounting.count_failed_wait(command, error);
    }
}

/// How the slow log shows a client.
fn caller(session: &Session) -> Caller {
    Caller { peer: session.peer.clone(), name: session.name.clone() }
}
