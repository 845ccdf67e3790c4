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

use engine::CommandError;

use crate::denial_log::DenialLog;
use crate::file::parse_file;
use crate::seat::SeatCount;
use crate::throttle::Throttle;
use crate::user::{Grammar, User};

/// The name of the default user, which clients are before they authenticate.
pub const DEFAULT: &[u8] = b"default";
/// The most users that may exist.
const USERS_MAX: usize = 1 << 20;

/// A user as it is at one time.
#[derive(Debug)]
pub struct Account {
    /// Identifies the user through all its changes. A deleted user's number is not used again.
    pub number: u64,
    /// The user at that time.
    pub user: User,
    /// Counts the connections of this user.
    pub(crate) seats: SeatCount,
}

/// Accounts by the names of their users.
type Accounts = BTreeMap<Box<[u8]>, Arc<Account>>;

/// All users at one time.
#[derive(Clone, Debug)]
pub struct Latest {
    /// Read before `accounts`, which may have seen more changes, but never fewer.
    change_count: u64,
    accounts: Arc<Accounts>,
}

/// All users.
#[derive(Debug)]
pub struct Users {
    accounts: Mutex<Arc<Accounts>>,
    /// How often users have changed.
    change_count: ChangeCount,
    next_number: AtomicU64,
    log: Mutex<DenialLog>,
    throttle: Mutex<Throttle>,
}

/// Every command reads this. So it shares its cache line with nothing that is written more often.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ChangeCount(AtomicU64);

impl Users {
    /// The default user alone. It may do everything, and needs `password` if there is one.
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

    /// All users as they are now.
    pub fn latest(&self) -> Latest {
        // Counted before they are looked at: at worst a client looks once more.
        let change_count = self.change_count();
        Latest { change_count, accounts: self.lock().clone() }
    }

    /// A user by name.
    pub fn find(&self, name: &[u8]) -> Option<Arc<Account>> {
        self.lock().get(name).cloned()
    }

    /// The default user.
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

    /// How often users have changed. A client that has seen the reply to a change also sees its number.
    #[inline]
    pub(crate) fn change_count(&self) -> u64 {
        self.change_count.0.load(Ordering::Acquire)
    }

    /// The log of denials. Only denied commands and `ACL LOG` take its lock.
    pub fn log(&self) -> MutexGuard<'_, DenialLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts wrong passwords by address. Clients that authenticate take its lock, if there is a limit.
    pub fn throttle(&self) -> MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the user `name` by these rules, or creates it. True if it existed.
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

    /// Adds a user, or replaces the one of the same name.
    pub(crate) fn put(&self, user: User) {
        self.change(|accounts, next_number| put(accounts, user, next_number));
    }

    /// Gives the default user this password, or lets it do without.
    pub fn set_default_password(&self, password: Option<&[u8]>) {
        let mut user = self.default_account().user.clone();
        user.set_password(password);
        self.put(user);
    }

    /// Removes these users; returns how many existed.
    pub fn remove(&self, names: &[&[u8]]) -> usize {
        self.change(|accounts, _| names.iter().filter(|name| accounts.remove(**name).is_some()).count())
    }

    /// Replaces all users by those of the ACL file `text`. `name` is its name in errors. If the file has no default
    /// user, that one becomes as [`Users::new`] creates it. All other users are new: no client acts as one of them. On
    /// an error nothing changes; the error is one line about everything that is wrong.
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
    /// The account of a user, by name.
    pub fn find(&self, name: &[u8]) -> Option<&Arc<Account>> {
        self.accounts.get(name)
    }

    /// All users, by name.
    pub fn users(&self) -> impl ExactSizeIterator<Item = &User> {
        self.accounts.values().map(|account| &account.user)
    }

    /// How many changes these users have seen.
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
