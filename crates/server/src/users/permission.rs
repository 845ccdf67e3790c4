//! Decides whether the current client may run a command, and answers it otherwise.

use std::sync::Arc;

use acl::{Context, Denial, Lack, Latest};
use clients::session::Session;
use engine::{Command, CommandError, Route};
use shard::Scope;

use crate::thread::ThreadHost;

impl ThreadHost {
    /// Whether the current client may run a command that it sent. Not called for a client without restrictions
    /// ([`Access::needs_check`](acl::Access::needs_check)).
    #[inline(never)]
    pub(crate) fn permit(&mut self, command: &Command, args: &[&[u8]]) -> Result<(), Lack> {
        let session = self.session();
        let context = session.context();
        // The log of a denial shows it. In Redis it is set whether the command runs or not.
        let before = session.last_command.replace(command.id);
        let permitted = self.permit_in(context, command, args);
        if permitted.is_ok() {
            // It is restored until the command runs.
            self.session().last_command = before;
        }
        permitted
    }

    /// Whether the current client may run a command that it sent, or that comes from elsewhere. A denial is logged.
    pub(crate) fn permit_in(
        &mut self,
        context: Context,
        command: &Command,
        args: &[&[u8]],
    ) -> Result<(), Lack> {
        let (users, database_count) = (&self.shared.users, self.shared.settings.databases());
        let session = self.session();
        // A script uses the users as they were when it began.
        let is_outdated = context != Context::Lua && session.access.has_missed_change(users);
        if is_outdated && !follow(session, &users.latest()) {
            session.close_after_reply = true;
            return Err(Lack::User);
        }
        let caller_db = session.caller_db(database_count);
        if let Err(lack) = session.access.check(caller_db, command, args) {
            if let Lack::Permission(denied) = lack {
                let (reason, object) = (denied.reason, denied.object(command, args));
                let user = session.access.user().name.clone();
                self.caller().note_denial(&Denial { reason, context, object, user: &user }, args);
            }
            return Err(lack);
        }
        // Only SORT asks this, and it is not checked again for a client without limits.
        if !session.access.is_limited() || command.entry.route == Route::Sort {
            session.client.reads_all_keys = session.access.may_read_all(caller_db, command, args);
        }
        Ok(())
    }
}

/// The error for a client that lacks something for a command. `None`: its user is gone, and it gets no answer.
#[cold]
pub(crate) fn refusal_of(lack: Lack, session: &Session, command: &Command) -> Option<CommandError> {
    match lack {
        Lack::Authentication => Some(CommandError::NO_AUTH),
        Lack::Permission(denied) => Some(denied.refusal(session.access.user(), command)),
        Lack::User => None,
    }
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
