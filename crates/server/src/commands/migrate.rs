//! What MIGRATE needs of the thread that runs it (`migrate`).

use command::CommandError;
use migrate::{Door, Migration, Returned, Target};

use crate::message::Message;
use crate::thread::ThreadHost;

impl Door for ThreadHost {
    fn take_migration(&mut self) -> Option<Box<Migration>> {
        self.session().migration.take()
    }

    fn send(&mut self, target: Target, returned: Box<Returned>) -> Result<(), CommandError> {
        let shared = self.shared;
        let tell = |returned: Box<Returned>| {
            let thread = usize::from(returned.client.thread);
            shared.threads[thread].send(Message::Migrated(returned));
        };
        shared.migrations.send(target, returned, tell)?;
        self.session().state.go_away();
        Ok(())
    }
}
