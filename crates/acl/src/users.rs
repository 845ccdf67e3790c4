//! All users.
//!
//! ```text
//!   ACL SETUSER ─▶ a new map of accounts, one more change ─▶ a client that has missed the change looks its account up
//!                                                            again, before its next command or when it is told to
//! ```
//!
//! An account is never changed: a change creates another one with the same number.

#![expect(
    clippy::disallowed_types,
    reason = "accounts change rarely; every client keeps what its own one may do"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use command::CommandError;

use crate::denial_log::DenialLog;
use crate::file::parse_file;
use crate::seat::SeatCount;
use crate::throttle::Throttle;
use crate::user::{Grammar, User};

/// The user of clients that have not authenticated.
pub const DEFAULT: &[u8] = b"default";
/// Users that there may be.
const USERS_MAX: usize = 1 << 20;

/// A user at one time.
#[derive(Debug)]
pub struct Account {
    /// The same for what the user was and will be, and nobody else's.
    pub number: u64,
    /// What it is at that time.
    pub user: User,
    /// Those who act as this user.
    pub(crate) seats: SeatCount,
}

/// The accounts by the names of their users.
type Accounts = BTreeMap<Box<[u8]>, Arc<Account>>;

/// All users at one time.
#[derive(Clone, Debug)]
pub struct Latest {
    /// Counted before `accounts` was read: these may have seen more changes, but never fewer.
    change_count: u64,
    accounts: Arc<Accounts>,
}

/// All users.
#[derive(Debug)]
pub struct Users {
    accounts: Mutex<Arc<Accounts>>,
    /// How often they have changed.
    change_count: ChangeCount,
    next_number: AtomicU64,
    log: Mutex<DenialLog>,
    throttle: Mutex<Throttle>,
}

/// Read by every command: nothing that is written more often lies beside it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ChangeCount(AtomicU64);

impl Users {
    /// The default user alone, who may do everything; with a password, or without.
    pub fn new(grammar: Grammar, password: Option<&[u8]>) -> Users {
        let users = Users {
            accounts: Mutex::default(),
            change_count: ChangeCount::default(),
            next_number: AtomicU64::new(0),
            log: Mutex::default(),
            throttle: Mutex::default(),
        };
        users.put(User::default_user(grammar, password));
        users
    }

    /// All of them as they are now.
    pub fn latest(&self) -> Latest {
        // Counted before they are looked at: at worst a client looks once more.
        let change_count = self.change_count();
        Latest { change_count, accounts: self.lock().clone() }
    }

    /// A user by name.
    pub fn find(&self, name: &[u8]) -> Option<Arc<Account>> {
        self.lock().get(name).cloned()
    }

    /// The user of clients that have not authenticated.
    pub fn default_account(&self) -> Arc<Account> {
        self.find(DEFAULT).expect("it is always there")
    }

    /// Whether clients need no password.
    pub fn takes_any_password(&self) -> bool {
        self.default_account().user.takes_any_password
    }

    /// Whether the default user is the only one.
    pub(crate) fn is_default_alone(&self) -> bool {
        self.lock().len() == 1
    }

    /// How often they have changed. Whoever has seen the reply to a change sees its number.
    #[inline]
    pub(crate) fn change_count(&self) -> u64 {
        self.change_count.0.load(Ordering::Acquire)
    }

    /// What was denied. The lock is taken by commands that are, and by those that look at them.
    pub fn log(&self) -> MutexGuard<'_, DenialLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wrong passwords by address. The lock is taken by clients that authenticate, if there is a limit to what they may try.
    pub fn throttle(&self) -> MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a user of `name` another one by these rules, or a new one; true if there was one.
    pub fn set(&self, grammar: Grammar, name: &[u8], rules: &[&[u8]]) -> Result<bool, CommandError> {
        self.change(|accounts, next_number| {
            let known = accounts.get(name);
            if known.is_none() && accounts.len() >= USERS_MAX {
                return Err(CommandError::new(format!("ERR The maximum of {USERS_MAX} users is reached")));
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
    pub(crate) fn put(&self, user: User) {
        self.change(|accounts, next_number| put(accounts, user, next_number));
    }

    /// The default user gets this password, or none.
    pub fn set_default_password(&self, password: Option<&[u8]>) {
        let mut user = self.default_account().user.clone();
        user.set_password(password);
        self.put(user);
    }

    /// Removes these users; how many there were.
    pub fn remove(&self, names: &[&[u8]]) -> usize {
        self.change(|accounts, _| names.iter().filter(|name| accounts.remove(**name).is_some()).count())
    }

    /// Puts the users of the ACL file `text`, which is called `name` in errors, in the place of all users; the default
    /// one, if it is not among them, becomes as it is made. All others are new: nobody acts as one of them. The error is
    /// all that is wrong with the file, in one line, and then nothing has changed.
    pub fn load(&self, grammar: Grammar, name: &str, text: &[u8]) -> Result<(), Vec<u8>> {
        let users = parse_file(grammar, name, text)?;
        self.change(|accounts, next_number| {
            accounts.retain(|name, _| **name == *DEFAULT);
            for user in [User::default_user(grammar, None)].into_iter().chain(users) {
                put(accounts, user, next_number);
            }
        });
        Ok(())
    }

    /// The text of an ACL file with all users.
    pub fn file_text(&self) -> Vec<u8> {
        self.latest().users().flat_map(|user| [user.line(), b"\n".to_vec()].concat()).collect()
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

impl Latest {
    /// The account of a user by its name.
    pub fn find(&self, name: &[u8]) -> Option<&Arc<Account>> {
        self.accounts.get(name)
    }

    /// All users in the order of their names.
    pub fn users(&self) -> impl ExactSizeIterator<Item = &User> {
        self.accounts.values().map(|account| &account.user)
    }

    /// The changes that it has seen.
    pub(crate) fn change_count(&self) -> u64 {
        self.change_count
    }
}

fn put(accounts: &mut Accounts, user: User, next_number: &AtomicU64) {
    let (number, seats) = match accounts.get(&user.name) {
        Some(known) => (known.number, known.seats.clone()),
        None => (next_number.fetch_add(1, Ordering::Relaxed), SeatCount::default()),
    };
    accounts.insert(user.name.clone(), Arc::new(Account { number, user, seats }));
}
