//! Whether a user may run a command.
//!
//! Each selector is tried by itself: the permissions of several selectors for one command do not add up.

use std::cell::OnceCell;

use engine::{Acl, Channels, Command, CommandError, Databases, Flag, KeyFlag, KeyUse, Keys, keyword_is};

use crate::selector::Selector;
use crate::user::User;

/// The kind of permission that is missing. If several are missing, the last of these is reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// A database.
    Database,
    /// The command itself.
    Command,
    /// A key.
    Key,
    /// Authentication failed.
    Auth,
    /// A channel of Pub/Sub.
    Channel,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 5] =
        [Reason::Database, Reason::Command, Reason::Key, Reason::Auth, Reason::Channel];

    /// Its name in ACL LOG.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Database => "database",
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Auth => "auth",
            Reason::Channel => "channel",
        }
    }
}

/// Why a command must not run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Denied {
    /// The kind of permission that is missing.
    pub reason: Reason,
    /// The argument that was denied; 0 for the command itself, and for its client's database.
    pub index: usize,
}

impl Denied {
    /// The name of the denied command, key or channel, the number of the database, or the word of the command that
    /// needs its client's database.
    pub fn object<'a>(self, command: &'a Command, args: &[&'a [u8]]) -> &'a [u8] {
        match self.reason {
            Reason::Command | Reason::Auth => command.full_name.as_bytes(),
            Reason::Key | Reason::Channel | Reason::Database => args[self.index],
        }
    }

    /// The text of the error.
    pub fn text(self, user: &User, command: &Command) -> Vec<u8> {
        let name = command.full_name.as_bytes();
        match self.reason {
            Reason::Database => b"No permissions to access database".to_vec(),
            Reason::Key => b"No permissions to access a key".to_vec(),
            Reason::Channel => b"No permissions to access a channel".to_vec(),
            Reason::Command | Reason::Auth => {
                [b"User ", &*user.name, b" has no permissions to run the '", name, b"' command"].concat()
            }
        }
    }

    /// The error for a client that acts as `user`.
    pub fn refusal(self, user: &User, command: &Command) -> CommandError {
        CommandError::quoting("NOPERM ", &self.text(user, command), "")
    }

    /// The error for a script of such a client.
    pub fn refusal_in_script(self, user: &User, command: &Command) -> CommandError {
        CommandError::quoting("NOPERM ACL failure in script: ", &self.text(user, command), "")
    }

    /// The text of the error with the name of the key or channel, or the number of the database.
    pub fn full_text(self, user: &User, command: &Command, args: &[&[u8]]) -> Vec<u8> {
        let what: &[u8] = match self.reason {
            Reason::Database => {
                let before = b" has no permissions to access database ";
                return [b"User ", &*user.name, before, args[self.index]].concat();
            }
            Reason::Key => b"' key",
            Reason::Channel => b"' channel",
            Reason::Command | Reason::Auth => return self.text(user, command),
        };
        let before = b" has no permissions to access the '";
        [b"User ", &*user.name, before, args[self.index], what].concat()
    }
}

/// The database that a client's command finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallerDb {
    /// The client's own.
    pub db: u32,
    /// The number of databases.
    pub count: u32,
}

impl User {
    /// Checks whether the user may run `command` with `args` in `caller_db`.
    pub fn check(&self, caller_db: CallerDb, command: &Command, args: &[&[u8]]) -> Result<(), Denied> {
        self.check_selectors(caller_db, command, args, |_| true)
    }

    /// Whether the user may run `command` and read every key.
    pub fn may_read_all(&self, caller_db: CallerDb, command: &Command, args: &[&[u8]]) -> bool {
        let reads_all = |selector: &Selector| {
            selector.all_keys || selector.keys.iter().any(|keys| keys.reads && *keys.pattern == *b"*")
        };
        self.check_selectors(caller_db, command, args, reads_all).is_ok()
    }

    /// Whether the user may run `command`, and read and change these keys with it, which are not among the arguments. A
    /// pattern allows all keys with a beginning if it is a part of that and a star.
    pub fn may_change(&self, caller_db: CallerDb, command: &Command, args: &[&[u8]], keys: Keys<'_>) -> bool {
        let has_all = |pattern: &[u8], begin: &[u8]| {
            let fixed = pattern.strip_suffix(b"*");
            fixed.is_some_and(|fixed| {
                begin.starts_with(fixed) && !fixed.iter().any(|byte| b"*?[\\".contains(byte))
            })
        };
        let allows = |selector: &Selector| match keys {
            Keys::One(key) => selector.allows_key(key, &[KeyFlag::Access, KeyFlag::Insert]),
            Keys::AllThatBegin(begin) => {
                let mut patterns = selector.keys.iter().filter(|keys| keys.reads && keys.writes);
                patterns.any(|keys| has_all(&keys.pattern, begin))
            }
        };
        let is_enough = |selector: &Selector| selector.all_keys || allows(selector);
        self.check_selectors(caller_db, command, args, is_enough).is_ok()
    }

    /// Checks the selectors one by one. If all of them deny the call, returns the greatest [`Denied`]: of the last
    /// reason in their order, at the last argument.
    fn check_selectors(
        &self,
        caller_db: CallerDb,
        command: &Command,
        args: &[&[u8]],
        is_enough: impl Fn(&Selector) -> bool,
    ) -> Result<(), Denied> {
        let keys = OnceCell::new();
        let mut denied = Denied { reason: Reason::Database, index: 0 };
        for selector in self.selectors() {
            match selector.check(caller_db, command, args, &keys) {
                Ok(()) if is_enough(selector) => return Ok(()),
                Ok(()) => {}
                Err(why) => denied = denied.max(why),
            }
        }
        Err(denied)
    }

    /// Whether the user may subscribe to this channel, or to this pattern.
    pub fn allows_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        self.selectors().iter().any(|selector| selector.allows_channel(name, is_pattern))
    }

    /// Whether the user may still use all channels that `before`, its former state, could use.
    pub fn keeps_channels_of(&self, before: &User) -> bool {
        let has = |pattern: &[u8]| {
            self.selectors().iter().any(|selector| selector.channels.iter().any(|known| **known == *pattern))
        };
        self.selectors().iter().any(|selector| selector.all_channels)
            || before.selectors().iter().all(|selector| {
                !selector.all_channels && selector.channels.iter().all(|pattern| has(pattern))
            })
    }
}

/// The argument that names a database which is not among `databases`, or 0 if it is the client's own. Numbers without a
/// database are left to the command.
fn denied_database(
    databases: &[u32],
    caller_db: CallerDb,
    command: &Command,
    args: &[&[u8]],
    uses_own: impl FnOnce() -> bool,
) -> Option<usize> {
    let is_denied = |index: usize| {
        let number = args.get(index).and_then(|number| ds::num::parse_i64(number));
        let db = number.and_then(|number| u32::try_from(number).ok()).filter(|db| *db < caller_db.count);
        db.is_some_and(|db| !databases.contains(&db))
    };
    let own = || (!databases.contains(&caller_db.db) && uses_own()).then_some(0);
    match command.entry.databases {
        Databases::Own => own(),
        Databases::OwnAnd(index) => own().or_else(|| is_denied(index).then_some(index)),
        Databases::OwnAndAfter(first, word) => own().or_else(|| {
            let words = first..args.len().saturating_sub(1);
            words
                .filter(|&index| keyword_is(args[index], word))
                .map(|index| index + 1)
                .find(|&index| is_denied(index))
        }),
        Databases::Numbered(indices) => indices.iter().copied().find(|&index| is_denied(index)),
        Databases::All => Some(0),
    }
}

impl Selector {
    fn check(
        &self,
        caller_db: CallerDb,
        command: &Command,
        args: &[&[u8]],
        keys: &OnceCell<Vec<KeyUse>>,
    ) -> Result<(), Denied> {
        if let Some(databases) = &self.databases {
            let uses_own = || {
                let categories = Acl::bits(&[Acl::Keyspace, Acl::Read, Acl::Write]);
                command.acl & categories != 0 || !keys.get_or_init(|| command.all_key_uses(args)).is_empty()
            };
            if let Some(index) = denied_database(databases, caller_db, command, args, uses_own) {
                return Err(Denied { reason: Reason::Database, index });
            }
        }
        if !command.has(Flag::NoAuth) && !self.allows_command(command, args) {
            return Err(Denied { reason: Reason::Command, index: 0 });
        }
        if !self.all_keys {
            let keys = keys.get_or_init(|| command.all_key_uses(args));
            if let Some(key) = keys.iter().find(|key| !self.allows_key(args[key.index], key.flags)) {
                return Err(Denied { reason: Reason::Key, index: key.index });
            }
        }
        let (from, to, is_pattern) = match command.entry.channels {
            Channels::None => return Ok(()),
            Channels::One(index) => (index, index + 1, false),
            Channels::From(index) => (index, args.len(), false),
            Channels::Patterns(index) => (index, args.len(), true),
        };
        match (from..to).find(|&index| !self.allows_channel(args[index], is_pattern)) {
            Some(index) => Err(Denied { reason: Reason::Channel, index }),
            None => Ok(()),
        }
    }

    fn allows_key(&self, key: &[u8], flags: &[KeyFlag]) -> bool {
        let is_read = flags.contains(&KeyFlag::Access);
        let is_written =
            flags.iter().any(|flag| matches!(flag, KeyFlag::Insert | KeyFlag::Delete | KeyFlag::Update));
        self.keys.iter().any(|keys| {
            (keys.reads || !is_read)
                && (keys.writes || !is_written)
                && ds::glob::matches(&keys.pattern, key, false)
        })
    }

    /// Patterns are compared with the allowed patterns as text.
    fn allows_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        self.all_channels
            || self.channels.iter().any(|pattern| match is_pattern {
                true => **pattern == *name,
                false => ds::glob::matches(pattern, name, false),
            })
    }
}
