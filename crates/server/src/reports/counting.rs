//! Counts commands, with their clients.

use clients::session::Session;
use engine::{Blocked, Client, Command, Outcome};
use observe::{Call, Caller};
use proactor::ConnId;
use resp::{Mark, Output};

use crate::connections::network::Network;
use crate::thread::ThreadHost;

impl ThreadHost {
    /// Counts a command of `client` that began `started` ticks ago, with its reply from `mark` on, unless it will run
    /// again.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "all of it is at hand where a command ran")]
    pub(crate) fn count_command(
        &mut self,
        command: &Command,
        args: &[&[u8]],
        client: &Client,
        started: u64,
        outcome: &mut Outcome,
        mark: Mark,
        out: &Output,
    ) {
        let call = Call { command, args, started, mark, out };
        // For a delegated command, only the client's number is known here.
        let session = self.current.as_deref().filter(|session| session.client.id == client.id);
        self.reports
            .accounting
            .count(&call, outcome, self.net.driver.clock(), || session.map(caller).unwrap_or_default());
    }

    /// Counts a command of the client at `conn` whose wait is over.
    pub(crate) fn note_unblocked(&mut self, conn: ConnId, blocked: &Blocked) {
        let ThreadHost { reports, net: Network { connections, driver, .. }, shared, .. } = self;
        let caller = || connections.session(conn).map(|session| caller(session));
        reports.accounting.note_unblocked(blocked, &shared.table, driver.clock(), caller);
    }
}

/// How the slow log shows a client.
fn caller(session: &Session) -> Caller {
    Caller { peer: session.peer.clone(), name: session.name.clone() }
}
