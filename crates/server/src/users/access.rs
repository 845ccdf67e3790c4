//! As whom a client acts, and whether its commands may run.

use std::sync::Arc;

use acl::{Denied, Reason};
use command::{Command, CommandError, CommandResult, Flag, Route};
use resp::Output;

use super::denial_log::Denial;
use super::{Account, Users};
use crate::session::Session;
use crate::thread::ThreadHost;

const WRONG_PASSWORD: CommandError =
    CommandError::fixed("WRONGPASS invalid username-password pair or user is disabled.");

/// As whom a client acts.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) account: Arc<Account>,
    /// The changes of users that `account` has seen.
    change_count: u64,
    /// Somebody has authenticated, or there was no need to.
    pub(crate) is_authenticated: bool,
    /// Its commands must be looked at.
    pub(crate) is_limited: bool,
}

/// What a client lacks to run a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lack {
    /// Authentication.
    Authentication,
    /// A permission.
    Permission(Denied),
    /// The user that it acts as: it is to be disconnected.
    User,
}

/// Where a command comes from that is denied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Context {
    /// A client.
    TopLevel,
    /// A transaction.
    Multi,
    /// A script.
    Lua,
}

impl Users {
    /// As whom a new client acts.
    pub(crate) fn access(&self) -> Access {
        // Counted before it is looked up: at worst it is looked up once more.
        let change_count = self.change_count();
        let account = self.default_account();
        let is_authenticated = account.user.is_open();
        Access::new(account, change_count, is_authenticated)
    }
}

impl Access {
    fn new(account: Arc<Account>, change_count: u64, is_authenticated: bool) -> Access {
        let mut access = Access { account, change_count, is_authenticated, is_limited: false };
        access.is_limited = access.lacks_authentication() || !access.account.user.is_unrestricted();
        access
    }

    /// Whether somebody must authenticate first. Nobody has, so it is the default user's.
    fn lacks_authentication(&self) -> bool {
        !self.is_authenticated && !self.account.user.is_open()
    }
}

impl ThreadHost {
    /// Whether commands of the current client must be looked at before they run.
    #[inline]
    pub(crate) fn is_limited(&mut self) -> bool {
        let change_count = self.shared.users.change_count();
        let access = &self.session().access;
        access.is_limited || access.change_count != change_count
    }

    /// Authenticates the current client, whose command is `args`.
    pub(crate) fn authenticate(&mut self, name: &[u8], password: &[u8], args: &[&[u8]]) -> CommandResult {
        let change_count = self.shared.users.change_count();
        match self.shared.users.find(name).filter(|account| account.user.admits(password)) {
            Some(account) => {
                let session = self.session();
                session.access = Access::new(account, change_count, true);
                session.client.reads_all_keys = true;
                Ok(())
            }
            None => {
                let context = self.context();
                let denial = Denial { reason: Reason::Auth, context, object: args[0], user: name };
                self.note_denial(&denial, args);
                Err(WRONG_PASSWORD)
            }
        }
    }

    /// Where a command of the current client that runs now comes from.
    fn context(&mut self) -> Context {
        if self.session().multi.is_some() { Context::Multi } else { Context::TopLevel }
    }

    /// What the current client lacks to run a command, if anything.
    #[inline(never)]
    pub(crate) fn lack(&mut self, command: &Command, args: &[&[u8]]) -> Option<Lack> {
        let context = self.context();
        self.permit_in(context, command, args).err()
    }

    /// Turns a command away for what the current client lacks; whose user is gone gets no answer.
    #[cold]
    pub(crate) fn turn_away_for(&mut self, lack: Lack, command: &Command, out: &mut Output) {
        let error = match lack {
            Lack::Authentication => CommandError::NO_AUTH,
            Lack::Permission(denied) => self.denial_error(denied, command),
            Lack::User => return,
        };
        self.turn_away(Some(command), &error, out);
    }

    /// Whether the current client may run a command that it sent, or that comes from elsewhere. What it lacks is logged.
    pub(crate) fn permit_in(
        &mut self,
        context: Context,
        command: &Command,
        args: &[&[u8]],
    ) -> Result<(), Lack> {
        // A script sees the users as they were when it began.
        if context != Context::Lua && !self.refresh_access() {
            self.session().close_after_reply = true;
            return Err(Lack::User);
        }
        let session = self.session();
        if !session.access.is_limited {
            session.client.reads_all_keys = true;
            return Ok(());
        }
        if session.access.lacks_authentication() {
            let is_free = command.has(Flag::NoAuth);
            return if is_free { Ok(()) } else { Err(Lack::Authentication) };
        }
        let user = &session.access.account.user;
        if let Err(denied) = user.check(command, args) {
            let object = match denied.reason {
                Reason::Command | Reason::Auth => command.full_name.as_bytes(),
                Reason::Key | Reason::Channel => args[denied.index],
            };
            let name = user.name.clone();
            self.note_denial(&Denial { reason: denied.reason, context, object, user: &name }, args);
            return Err(Lack::Permission(denied));
        }
        if command.entry.route == Route::Sort {
            session.client.reads_all_keys = user.may_read_all(command, args);
        }
        Ok(())
    }

    /// Looks up again as whom the current client acts, if users have changed; false if its user is gone, or may not be
    /// subscribed any more to what it is.
    fn refresh_access(&mut self) -> bool {
        let users = &self.shared.users;
        let change_count = users.change_count();
        if self.session().access.change_count == change_count {
            return true;
        }
        let accounts = users.accounts();
        let session = self.session();
        session.follow(accounts.get(&session.access.account.user.name), change_count)
    }
}

impl Session {
    /// Acts as `account`, which has the name of the one that it acts as; false if it is to be disconnected.
    pub(super) fn follow(&mut self, account: Option<&Arc<Account>>, change_count: u64) -> bool {
        let before = self.access.account.clone();
        let Some(account) = account.filter(|account| account.number == before.number) else { return false };
        self.access = Access::new(account.clone(), change_count, self.access.is_authenticated);
        let user = &account.user;
        let may_keep = |name: &Arc<[u8]>| user.allows_channel(name, false);
        user.keeps_channels_of(&before.user)
            || self.patterns.iter().all(|pattern| user.allows_channel(pattern, true))
                && self.channels.iter().all(may_keep)
                && self.shard_channels.iter().all(may_keep)
    }
}
