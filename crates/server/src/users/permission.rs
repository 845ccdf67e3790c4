//! Decides whether the current client may run a command, and answers it otherwise.

use std::sync::Arc;

use acl::{Context, Denial, Lack, Latest, Origin, Reason, TOO_MANY_PASSWORDS, WRONG_PASSWORD};
use clients::Door;
use clients::session::Session;
use config::{ACLLOG_MAX_LEN, AUTH_FAILURES_MAX, MAXCLIENTS_PER_USER};
use engine::{Command, CommandError, CommandResult, Route};
use resp::Output;
use shard::Scope;

use crate::thread::ThreadHost;

impl ThreadHost {
    /// Authenticates the current client, whose command is `args`.
    pub(crate) fn authenticate(&mut self, name: &[u8], password: &[u8], args: &[&[u8]]) -> CommandResult {
        let (users, now_ms) = (&self.shared.users, self.net.now_ms);
        let failures_max = self.shared.settings.number(AUTH_FAILURES_MAX) as u64;
        let from = (failures_max > 0).then(|| Origin::of_peer(&self.session().peer));
        if from.is_some_and(|from| !users.throttle().admits(from, now_ms, failures_max)) {
            self.session().close_after_reply = true;
            self.reports.accounting.stats().rejected_connections.add(1);
            return Err(TOO_MANY_PASSWORDS);
        }
        match users.authenticate(name, password) {
            Some(access) => {
                let seats_max = self.shared.settings.number(MAXCLIENTS_PER_USER) as u64;
                if let Err(error) = access.take_seat(&mut self.session().seat, seats_max) {
                    self.reports.accounting.stats().rejected_connections.add(1);
                    return Err(error);
                }
                let session = self.session();
                session.access = access;
                session.client.reads_all_keys = true;
                Ok(())
            }
            None => {
                if let Some(from) = from {
                    users.throttle().note_failure(from, now_ms);
                }
                let context = context(self.session());
                let denial = Denial { reason: Reason::Auth, context, object: args[0], user: name };
                self.note_denial(&denial, args);
                Err(WRONG_PASSWORD)
            }
        }
    }

    /// Whether the current client may run a command that it sent. Not called for a client without restrictions
    /// ([`Access::needs_check`](acl::Access::needs_check)).
    #[inline(never)]
    pub(crate) fn permit(&mut self, command: &Command, args: &[&[u8]]) -> Result<(), Lack> {
        let session = self.session();
        let context = context(session);
        // The log of a denial shows it. In Redis it is set whether the command runs or not.
        let before = session.last_command.replace(command.id);
        let permitted = self.permit_in(context, command, args);
        if permitted.is_ok() {
            // It is restored until the command runs.
            self.session().last_command = before;
        }
        permitted
    }

    /// Refuses a command because of what the current client lacks. A client whose user is gone gets no answer.
    #[cold]
    pub(crate) fn turn_away_for(&mut self, lack: Lack, command: &Command, out: &mut Output) {
        let error = match lack {
            Lack::Authentication => CommandError::NO_AUTH,
            Lack::Permission(denied) => denied.refusal(self.session().access.user(), command),
            Lack::User => return,
        };
        self.turn_away(Some(command), &error, out);
    }

    /// Whether the current client may run a command that it sent, or that comes from elsewhere. A denial is logged.
    pub(crate) fn permit_in(
        &mut self,
        context: Context,
        command: &Command,
        args: &[&[u8]],
    ) -> Result<(), Lack> {
        let users = &self.shared.users;
        let session = self.session();
        // A script uses the users as they were when it began.
        let is_outdated = context != Context::Lua && session.access.has_missed_change(users);
        if is_outdated && !follow(session, &users.latest()) {
            session.close_after_reply = true;
            return Err(Lack::User);
        }
        if let Err(lack) = session.access.check(command, args) {
            if let Lack::Permission(denied) = lack {
                let (reason, object) = (denied.reason, denied.object(command, args));
                let user = session.access.user().name.clone();
                self.note_denial(&Denial { reason, context, object, user: &user }, args);
            }
            return Err(lack);
        }
        // Only SORT asks this, and it is not checked again for a client without limits.
        if !session.access.is_limited() || command.entry.route == Route::Sort {
            session.client.reads_all_keys = session.access.may_read_all(command, args);
        }
        Ok(())
    }

    /// Counts and logs a denial for the current client, whose command is `args`.
    fn note_denial(&mut self, denial: &Denial, args: &[&[u8]]) {
        let what = match denial.reason {
            Reason::Auth => observe::Denial::Auth,
            Reason::Command => observe::Denial::Command,
            Reason::Key => observe::Denial::Key,
            Reason::Channel => observe::Denial::Channel,
        };
        self.reports.accounting.stats().denied[what as usize].add(1);
        let client = self.current_line(args);
        let now_ms = self.net.driver.clock().now_ms();
        let len_max = self.shared.settings.number(ACLLOG_MAX_LEN) as usize;
        self.shared.users.log().add(denial, client, now_ms, len_max);
    }
}

/// The origin of the running command of a session.
fn context(session: &Session) -> Context {
    if session.multi.is_some() { Context::Multi } else { Context::TopLevel }
}

/// Acts as its user is defined now. Returns false if the client must be disconnected: its user is gone, or may no
/// longer have its subscriptions.
pub(super) fn follow(session: &mut Session, latest: &Latest) -> bool {
    let Some(before) = session.access.follow(latest) else { return false };
    // This is not checked again for a client without limits.
    session.client.reads_all_keys |= !session.access.is_limited();
    let user = session.access.user();
    let may_keep = |(_, name): (Scope, &Arc<[u8]>)| user.allows_channel(name, false);
    user.keeps_channels_of(&before.user)
        || session.subscriptions.patterns().iter().all(|pattern| user.allows_channel(pattern, true))
            && session.subscriptions.all_channels().all(may_keep)
}
