//! The user that a client acts as, and whether its commands may run.
//!
//! An access keeps the account as it was when it was looked up, with the number of changes that the users had seen by
//! then. So for a client without restrictions a command costs one comparison, and a lock is taken only after users have
//! changed.

use std::sync::Arc;

use command::{Command, CommandError, CommandResult, Flag};

use crate::check::Denied;
use crate::password::PasswordHash;
use crate::seat::Seat;
use crate::user::User;
use crate::users::{Account, DEFAULT, Latest, Users};

/// The error of a client that cannot authenticate as whom it says.
pub const WRONG_PASSWORD: CommandError =
    CommandError::fixed("WRONGPASS invalid username-password pair or user is disabled.");

/// The error of a client from where too many wrong passwords have come.
pub const TOO_MANY_PASSWORDS: CommandError =
    CommandError::fixed("ERR too many wrong passwords from this address; try again in ten seconds");

/// As whom a client acts.
#[derive(Clone, Debug)]
pub struct Access {
    account: Arc<Account>,
    /// The changes of users that `account` has seen.
    change_count: u64,
    /// Somebody has authenticated, or there was no need to.
    is_authenticated: bool,
    /// Its commands must be looked at.
    is_limited: bool,
}

/// What a client lacks to run a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// Authentication.
    Authentication,
    /// A permission.
    Permission(Denied),
    /// The user that it acts as, see [`Access::follow`]: it is to be disconnected.
    User,
}

impl Users {
    /// As whom a new client acts.
    pub fn access(&self) -> Access {
        // Counted before it is looked up: at worst it is looked up once more.
        let change_count = self.change_count();
        let account = self.default_account();
        let is_authenticated = account.user.is_open();
        Access::new(account, change_count, is_authenticated)
    }

    /// The same on a port whose clients cannot say another name later: where there are several users, nobody is one of them
    /// without a password.
    pub fn access_by_name(&self) -> Access {
        let is_alone = self.is_default_alone();
        let mut access = self.access();
        access.is_authenticated &= is_alone;
        access
    }

    /// As whom a client acts that authenticates as the user `name`; `None` if it may not.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Access> {
        let change_count = self.change_count();
        // Also for a name that nobody has: how long it takes must not tell which names there are.
        let hash = PasswordHash::of(password);
        let account = self.find(name).filter(|account| account.user.admits(&hash))?;
        Some(Access::new(account, change_count, true))
    }

    /// As whom a client acts of whom somebody else knows that it is the user `name`; `None` if that user may not.
    pub fn vouch_for(&self, name: &[u8]) -> Option<Access> {
        let change_count = self.change_count();
        let account = self.find(name).filter(|account| account.user.is_on)?;
        Some(Access::new(account, change_count, true))
    }
}

impl Access {
    fn new(account: Arc<Account>, change_count: u64, is_authenticated: bool) -> Access {
        let mut access = Access { account, change_count, is_authenticated, is_limited: false };
        access.is_limited = access.lacks_authentication() || !access.account.user.is_unrestricted();
        access
    }

    /// The user that it acts as.
    #[inline]
    pub fn user(&self) -> &User {
        &self.account.user
    }

    /// Has the connection that is to act so take a seat of the user in the place of what it has, if there are fewer than `count_max`
    /// taken (0: any number).
    pub fn take_seat(&self, seat: &mut Option<Seat>, count_max: u64) -> CommandResult {
        if *self.user().name == *DEFAULT {
            *seat = None;
            return Ok(());
        }
        Seat::take(&self.account.seats, seat, count_max)
    }

    /// The number of that user's account.
    #[inline]
    pub fn user_number(&self) -> u64 {
        self.account.number
    }

    /// Whether somebody has authenticated, or there was no need to.
    #[inline]
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Whether its commands must be looked at, as far as it knows of the users.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Lets it run everything: what is checked elsewhere, or comes from the server itself.
    pub fn lift_limits(&mut self) {
        self.is_limited = false;
    }

    /// Whether a command must be looked at before it runs, because there are limits, or because `users` have changed.
    #[inline]
    pub fn needs_check(&self, users: &Users) -> bool {
        self.has_missed_change(users) || self.is_limited
    }

    /// Whether users have changed since its account was looked up.
    #[inline]
    pub fn has_missed_change(&self, users: &Users) -> bool {
        self.change_count != users.change_count()
    }

    /// Whether it acts as its user is now, though there may have been changes of others.
    pub fn is_of(&self, latest: &Latest) -> bool {
        latest.find(&self.account.user.name).is_some_and(|account| Arc::ptr_eq(account, &self.account))
    }

    /// Acts as what its user is now; returns what the user was before, or `None` if it is gone, even if there is
    /// another one of its name.
    pub fn follow(&mut self, latest: &Latest) -> Option<Arc<Account>> {
        let account = latest.find(&self.account.user.name);
        let account = account.filter(|account| account.number == self.account.number)?;
        let next = Access::new(account.clone(), latest.change_count(), self.is_authenticated);
        Some(std::mem::replace(self, next).account)
    }

    /// Whether somebody must authenticate first. Nobody has, so it is the default user's.
    fn lacks_authentication(&self) -> bool {
        !self.is_authenticated && !self.account.user.is_open()
    }

    /// What it lacks to run `command` with `args`, if anything.
    pub fn check(&self, command: &Command, args: &[&[u8]]) -> Result<(), Lack> {
        if !self.is_limited {
            return Ok(());
        }
        if self.lacks_authentication() {
            let is_free = command.has(Flag::NoAuth);
            return if is_free { Ok(()) } else { Err(Lack::Authentication) };
        }
        self.account.user.check(command, args).map_err(Lack::Permission)
    }

    /// Whether it may run `command` and read every key there is as well.
    pub fn may_read_all(&self, command: &Command, args: &[&[u8]]) -> bool {
        !self.is_limited || self.account.user.may_read_all(command, args)
    }
}
