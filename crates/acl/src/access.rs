//! The user that a client acts as, and whether its commands may run.
//!
//! An access keeps the account as it was when it was looked up, with the number of changes that the users had seen by
//! then. So for a client without restrictions a command costs one comparison, and a lock is taken only after users have
//! changed.

use std::sync::Arc;

use engine::{Command, CommandError, CommandResult, Flag, Keys};

use crate::check::{CallerDb, Denied};
use crate::password::PasswordHash;
use crate::seat::Seat;
use crate::user::User;
use crate::users::{Account, DEFAULT, Latest, Users};

/// The error for a wrong user name or password.
pub const WRONG_PASSWORD: CommandError =
    CommandError::fixed("WRONGPASS invalid username-password pair or user is disabled.");

/// The error for a client whose address has sent too many wrong passwords.
pub const TOO_MANY_PASSWORDS: CommandError =
    CommandError::fixed("ERR too many wrong passwords from this address; try again in ten seconds");

/// The user that a client acts as.
#[derive(Clone, Debug)]
pub struct Access {
    account: Arc<Account>,
    /// The number of changes to users when `account` was looked up.
    change_count: u64,
    /// The client has authenticated, or needs no password.
    is_authenticated: bool,
    /// Each command must be checked.
    is_limited: bool,
}

/// The reason why a client may not run a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// The client has not authenticated.
    Authentication,
    /// The user lacks a permission.
    Permission(Denied),
    /// The user no longer exists, see [`Access::follow`]. The client is to be disconnected.
    User,
}

impl Users {
    /// The access of a new client.
    pub fn access(&self) -> Access {
        // Counted before it is looked up: at worst it is looked up once more.
        let change_count = self.change_count();
        let account = self.default_account();
        let is_authenticated = account.user.is_open();
        Access::new(account, change_count, is_authenticated)
    }

    /// The access of a new client on a port where clients cannot authenticate later. If there are several users, such a
    /// client needs a password.
    pub fn access_by_name(&self) -> Access {
        let is_alone = self.is_default_alone();
        let mut access = self.access();
        access.is_authenticated &= is_alone;
        access
    }

    /// The access of a client that authenticates as the user `name`; `None` if name or password are wrong.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Access> {
        let change_count = self.change_count();
        // Hash even if no user has this name: the time taken must not reveal which names exist.
        let hash = PasswordHash::of(password);
        let account = self.find(name).filter(|account| account.user.admits(&hash))?;
        Some(Access::new(account, change_count, true))
    }

    /// The access of a client that was proven to be the user `name` by other means than a password; `None` if that user
    /// does not exist or is off.
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

    /// The user that the client acts as.
    #[inline]
    pub fn user(&self) -> &User {
        &self.account.user
    }

    /// Counts the connection among those of this user. `seat` is its place among those of the user that it has acted
    /// as. Fails if the user has `count_max` connections (0: no limit).
    pub fn take_seat(&self, seat: &mut Option<Seat>, count_max: u64) -> CommandResult {
        if *self.user().name == *DEFAULT {
            *seat = None;
            return Ok(());
        }
        Seat::take(&self.account.seats, seat, count_max)
    }

    /// The number of the user's account.
    #[inline]
    pub fn user_number(&self) -> u64 {
        self.account.number
    }

    /// Whether the client has authenticated, or needs no password.
    #[inline]
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Whether each command must be checked. Later changes to users are not considered.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Allows everything: for commands that are checked elsewhere, or come from the server itself.
    pub fn lift_limits(&mut self) {
        self.is_limited = false;
    }

    /// Whether a command must be checked before it runs: because there are limits, or because `users` have changed.
    #[inline]
    pub fn needs_check(&self, users: &Users) -> bool {
        self.has_missed_change(users) || self.is_limited
    }

    /// Whether users have changed since the account was looked up.
    #[inline]
    pub fn has_missed_change(&self, users: &Users) -> bool {
        self.change_count != users.change_count()
    }

    /// Whether this is the latest state of the user. Changes to other users do not matter.
    pub fn is_of(&self, latest: &Latest) -> bool {
        latest.find(&self.account.user.name).is_some_and(|account| Arc::ptr_eq(account, &self.account))
    }

    /// Takes over the latest state of the user, and returns the one before. Returns `None` if the user was deleted,
    /// even if there is a new one of the same name.
    pub fn follow(&mut self, latest: &Latest) -> Option<Arc<Account>> {
        let account = latest.find(&self.account.user.name);
        let account = account.filter(|account| account.number == self.account.number)?;
        let next = Access::new(account.clone(), latest.change_count(), self.is_authenticated);
        Some(std::mem::replace(self, next).account)
    }

    /// Whether the client must authenticate first. Before that it acts as the default user.
    fn lacks_authentication(&self) -> bool {
        !self.is_authenticated && !self.account.user.is_open()
    }

    /// Checks whether the client may run `command` with `args` in `caller_db`.
    pub fn check(&self, caller_db: CallerDb, command: &Command, args: &[&[u8]]) -> Result<(), Lack> {
        if !self.is_limited {
            return Ok(());
        }
        if self.lacks_authentication() {
            let is_free = command.has(Flag::NoAuth);
            return if is_free { Ok(()) } else { Err(Lack::Authentication) };
        }
        self.account.user.check(caller_db, command, args).map_err(Lack::Permission)
    }

    /// Whether the client may run `command`, and read and change these keys with it, which are not among the arguments.
    pub fn may_change(&self, caller_db: CallerDb, command: &Command, args: &[&[u8]], keys: Keys<'_>) -> bool {
        !self.is_limited || self.account.user.may_change(caller_db, command, args, keys)
    }

    /// Whether the client may run `command` and read every key.
    pub fn may_read_all(&self, caller_db: CallerDb, command: &Command, args: &[&[u8]]) -> bool {
        !self.is_limited || self.account.user.may_read_all(caller_db, command, args)
    }
}
