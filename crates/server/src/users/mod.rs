//! The users of the server, and as whom its clients act.
//!
//! ```text
//!   ACL SETUSER ─▶ a new map of accounts, one more change ─┬─▶ next command of a client: it has missed a change,
//!                                                          │   looks its account up again (`access.rs`)
//!                                                          └─▶ message to all threads: clients that must go, or wait
//!                                                              for what they may not have (`departure.rs`)
//! ```
//!
//! An account is never changed: a change makes another one with the same number. A client holds the one it acts as, with
//! the number of changes there were when it was looked up: so a command without restrictions costs one comparison, and
//! no lock is taken unless something has changed.

mod access;
mod denial_log;
mod departure;
mod files;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use acl::{Grammar, User};
use command::{CommandError, Table};

use crate::settings::{ACL_PUBSUB_DEFAULT, Settings};

pub(crate) use access::{Access, Context, Lack};
pub(crate) use denial_log::{DenialLog, LogEntry};
pub(crate) use files::UserLine;

/// The user of clients that have not authenticated.
pub(crate) const DEFAULT: &[u8] = b"default";
/// Users that there may be.
const USERS_MAX: usize = 1 << 20;

/// A user at one time.
#[derive(Debug)]
pub(crate) struct Account {
    /// The same for what the user was and will be, and nobody else's.
    pub(crate) number: u64,
    pub(crate) user: User,
}

/// The accounts by the names of their users.
pub(crate) type Accounts = BTreeMap<Box<[u8]>, Arc<Account>>;

/// All users.
#[derive(Debug)]
pub(crate) struct Users {
    accounts: Mutex<Arc<Accounts>>,
    /// How often they have changed.
    change_count: ChangeCount,
    next_number: AtomicU64,
    log: Mutex<DenialLog>,
}

/// Read by every command: nothing that is written more often lies beside it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ChangeCount(AtomicU64);

impl Users {
    /// The default user alone, as the settings want it.
    pub(crate) fn new(table: &Table, settings: &Settings) -> Users {
        let users = Users {
            accounts: Mutex::default(),
            change_count: ChangeCount::default(),
            next_number: AtomicU64::new(0),
            log: Mutex::default(),
        };
        users.put(settings.default_user(table));
        users
    }

    /// All of them as they are now.
    pub(crate) fn accounts(&self) -> Arc<Accounts> {
        self.lock().clone()
    }

    /// A user by name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Arc<Account>> {
        self.lock().get(name).cloned()
    }

    /// The user of clients that have not authenticated.
    pub(crate) fn default_account(&self) -> Arc<Account> {
        self.find(DEFAULT).expect("it is always there")
    }

    /// Whether clients need no password.
    pub(crate) fn takes_any_password(&self) -> bool {
        self.default_account().user.takes_any_password
    }

    /// How often they have changed. Whoever has seen the reply to a change sees its number.
    #[inline]
    pub(crate) fn change_count(&self) -> u64 {
        self.change_count.0.load(Ordering::Acquire)
    }

    /// What was denied. The lock is taken by commands that are, and by those that look at them.
    pub(crate) fn log(&self) -> MutexGuard<'_, DenialLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a user of `name` another one by these rules, or a new one; true if there was one.
    pub(crate) fn set(&self, grammar: Grammar, name: &[u8], rules: &[&[u8]]) -> Result<bool, CommandError> {
        self.change(|accounts, next_number| {
            let known = accounts.get(name);
            if known.is_none() && accounts.len() >= USERS_MAX {
                return Err(CommandError::new(format!("ERR There may be {USERS_MAX} users")));
            }
            let was_there = known.is_some();
            let user = match known {
                Some(account) => account.user.changed(grammar, rules)?,
                None => User::new(name, grammar).changed(grammar, rules)?,
            };
            put(accounts, user, next_number);
            Ok(was_there)
        })
    }

    /// Puts a user in the place of the one of the same name, if there is one.
    fn put(&self, user: User) {
        self.change(|accounts, next_number| put(accounts, user, next_number));
    }

    /// The default user gets this password, or none.
    pub(crate) fn set_default_password(&self, password: Option<&[u8]>) {
        let mut user = self.default_account().user.clone();
        user.set_password(password);
        self.put(user);
    }

    /// Removes these users; how many there were.
    pub(crate) fn remove(&self, names: &[&[u8]]) -> usize {
        self.change(|accounts, _| names.iter().filter(|name| accounts.remove(**name).is_some()).count())
    }

    /// Puts these in the place of all users, the default one, if it is not among them, as it is made. All others are new:
    /// nobody acts as one of them.
    pub(crate) fn replace(&self, grammar: Grammar, users: Vec<User>) {
        self.change(|accounts, next_number| {
            accounts.retain(|name, _| **name == *DEFAULT);
            for user in [User::default_user(grammar, None)].into_iter().chain(users) {
                put(accounts, user, next_number);
            }
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Accounts, &AtomicU64) -> T) -> T {
        let mut accounts = self.lock();
        let result = change(Arc::make_mut(&mut accounts), &self.next_number);
        self.change_count.0.fetch_add(1, Ordering::Release);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Accounts>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put(accounts: &mut Accounts, user: User, next_number: &AtomicU64) {
    let number = match accounts.get(&user.name) {
        Some(known) => known.number,
        None => next_number.fetch_add(1, Ordering::Relaxed),
    };
    accounts.insert(user.name.clone(), Arc::new(Account { number, user }));
}

impl Settings {
    /// What rules are understood by.
    pub(crate) fn grammar<'t>(&self, table: &'t Table) -> Grammar<'t> {
        Grammar { table, all_channels: self.is_on(ACL_PUBSUB_DEFAULT) }
    }

    /// The default user that nobody has changed.
    fn default_user(&self, table: &Table) -> User {
        User::default_user(self.grammar(table), self.password().as_deref().map(str::as_bytes))
    }
}
