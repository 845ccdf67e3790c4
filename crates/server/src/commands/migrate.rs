//! Gives MIGRATE what it needs from its thread (`ops/migrate`).

use config::TLS_CLUSTER;
use engine::CommandError;
use ops::migrate::{Door, Migration, Returned, Target};

use crate::message::Message;
use crate::thread::ThreadHost;

impl Door for ThreadHost {
    fn take_migration(&mut self) -> Option<Box<Migration>> {
        self.session().migration.take()
    }

    fn send(&mut self, mut target: Target, returned: Box<Returned>) -> Result<(), CommandError> {
        let shared = self.shared;
        if shared.settings.is_on(TLS_CLUSTER) {
            // TLS is never left out, even while it is being set up.
            target.tls = Some(shared.tls.dialing().ok_or(ops::migrate::CONNECTING)?);
        }
        let tell = |returned: Box<Returned>| {
            let thread = usize::from(returned.client.thread);
            shared.threads[thread].send(Message::Migrated(returned));
        };
        shared.migrations.send(target, returned, tell)?;
        self.session().state.go_away();
        Ok(())
    }
}
