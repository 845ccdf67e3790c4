//! What a change of users means for clients that do nothing just now.
//!
//! A client is disconnected if its user is gone, or if it is subscribed to what its user may not be subscribed to any
//! more. One that waits with a command that its user may not run any more gets the error at once, and what it was served
//! with meanwhile goes back.

use acl::{Context, Lack};
use command::CommandError;
use proactor::{CloseMode, ConnId};

use crate::thread::Thread;
use crate::users::permission::follow;

impl Thread {
    /// Looks after the clients of this thread.
    pub(crate) fn follow_users(&mut self) {
        let latest = self.host.shared.users.latest();
        let (mut gone, mut waiting) = (Vec::new(), Vec::new());
        for (conn, session) in self.host.connections.iter_mut() {
            if session.access.is_of(&latest) {
                continue;
            }
            if !follow(session, &latest) {
                gone.push(conn);
            } else if session.state.wait().is_some() {
                waiting.push(conn);
            }
        }
        for conn in gone {
            self.close(conn, CloseMode::AfterFlush);
        }
        for conn in waiting {
            self.end_forbidden_wait(conn);
        }
    }

    /// Ends the wait of a client whose user may not run its command any more, unless it is being served at this moment:
    /// then it is looked at when that is known.
    fn end_forbidden_wait(&mut self, conn: ConnId) {
        if let Some(error) = self.wait_error(conn) {
            self.time_out(conn, Some(&error));
        }
    }

    /// The error of a waiting client whose user may not run its command any more.
    pub(crate) fn wait_error(&mut self, conn: ConnId) -> Option<CommandError> {
        let session = self.host.connections.session(conn)?;
        let wait = session.state.wait()?;
        if !session.access.is_limited() {
            return None;
        }
        let waiter = wait.blocked.waiter.clone();
        let args = waiter.wait.args.slices();
        let command = self.host.shared.table.resolve(&args).expect("it was resolved before");
        let (parser, session) = self.host.connections.take(conn)?;
        let outer = self.host.current.replace(session);
        let mut error = None;
        if let Err(Lack::Permission(denied)) = self.host.permit_in(Context::TopLevel, command, &args) {
            let denial = denied.refusal(self.host.session().access.user(), command);
            self.host.accounting.count_rejection(Some(command.id), &denial);
            error = Some(denial);
        }
        let session = std::mem::replace(&mut self.host.current, outer).expect("it was put there above");
        self.host.connections.put_back(conn, parser, session);
        error
    }
}
