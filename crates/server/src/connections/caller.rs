//! Runs the commands of `clients`: gives them the client, and asks all threads what they want to know.

use clients::{Caller, Function, Server};
use engine::{CommandResult, OwnCall};

use crate::life::gather::ask;
use crate::thread::{ThreadHost, running};

/// Runs a command of `clients`.
pub(crate) fn run(host: &mut ThreadHost, function: Function, call: OwnCall<'_, '_>) -> CommandResult {
    let mut caller = host.caller();
    let result = function(&mut call.on(&mut caller));
    if let Some((subject, finish)) = caller.question {
        ask(running(&mut host.current), &mut host.net, &subject, finish);
    }
    result
}

impl ThreadHost {
    /// The client whose command runs.
    pub(crate) fn caller(&mut self) -> Caller<'_> {
        let shared = self.shared;
        Caller {
            session: self.current.as_deref_mut().expect("a command runs for a client"),
            aside: &self.scripts.aside,
            server: Server {
                users: &shared.users,
                settings: &shared.settings,
                table: &shared.table,
                registry: &shared.registry,
                directory: &shared.directory,
                notices: &shared.following.notices,
                redis_version: shared.settings.redis_version(),
            },
            stats: self.reports.accounting.stats(),
            now_ms: self.net.now_ms,
            clock: self.net.driver.clock(),
            question: None,
        }
    }
}
