//! Gives the commands of `clients` what they need from their thread.

use clients::session::{Finish, RequestSize, Session, Subject};
use clients::{Door, Server};
use engine::CommandResult;
use proactor::Usage;

use crate::thread::ThreadHost;
use crate::version::REDIS_VERSION;

impl Door for ThreadHost {
    fn session(&mut self) -> &mut Session {
        self.session()
    }

    fn server(&self) -> Server {
        let shared = self.shared;
        Server {
            users: &shared.users,
            settings: &shared.settings,
            registry: &shared.registry,
            directory: &shared.directory,
            redis_version: REDIS_VERSION,
        }
    }

    fn ask(&mut self, subject: &Subject, finish: Finish) {
        self.ask(subject, finish);
    }

    fn authenticate(&mut self, user: &[u8], password: &[u8], args: &[&[u8]]) -> CommandResult {
        self.authenticate(user, password, args)
    }

    fn current_line(&self, args: &[&[u8]]) -> String {
        let RequestSize { bytes, argument_bytes } = RequestSize::of(args);
        // Its buffers are taken out. They contain at least this command.
        let usage = Usage { input_bytes: bytes, input_capacity_bytes: bytes, ..Usage::default() };
        let current = self.current.as_deref().expect("a command runs for a client");
        let client = self.scripts.aside.caller(current);
        clients::line(client, usage, argument_bytes, self.net.now_ms, &self.shared.table)
    }
}
