//! Whether a user may run a command.
//!
//! Each selector is tried by itself: the permissions of several selectors for one command do not add up.

use std::cell::OnceCell;

use engine::{Channels, Command, CommandError, Flag, KeyFlag, KeyUse, Keys};

use crate::selector::Selector;
use crate::user::User;

/// The kind of permission that is missing. If several are missing, the last of these is reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
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
    pub const ALL: [Reason; 4] = [Reason::Command, Reason::Key, Reason::Auth, Reason::Channel];

    /// Its name in ACL LOG.
    pub fn name(self) -> &'static str {
        match self {
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
    /// The argument that was denied; 0 for the command itself.
    pub index: usize,
}

impl Denied {
    /// The name of the denied command, key or channel.
    pub fn object<'a>(self, command: &'a Command, args: &[&'a [u8]]) -> &'a [u8] {
        match self.reason {
            Reason::Command | Reason::Auth => command.full_name.as_bytes(),
            Reason::Key | Reason::Channel => args[self.index],
        }
    }

    /// The text of the error.
    pub fn text(self, user: &User, command: &Command) -> Vec<u8> {
        let name = command.full_name.as_bytes();
        match self.reason {
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

    /// The text of the error with the name of the key or channel.
    pub fn full_text(self, user: &User, command: &Command, args: &[&[u8]]) -> Vec<u8> {
        let what: &[u8] = match self.reason {
            Reason::Key => b"' key",
            Reason::Channel => b"' channel",
            Reason::Command | Reason::Auth => return self.text(user, command),
        };
        let before = b" has no permissions to access the '";
        [b"User ", &*user.name, before, args[self.index], what].concat()
    }
}

impl User {
    /// Checks whether the user may run `command` with `args`.
    pub fn check(&self, command: &Command, args: &[&[u8]]) -> Result<(), Denied> {
        self.check_selectors(command, args, |_| true)
    }

    /// Whether the user may run `command` and read every key.
    pub fn may_read_all(&self, command: &Command, args: &[&[u8]]) -> bool {
        let reads_all = |selector: &Selector| {
            selector.all_keys || selector.keys.iter().any(|keys| keys.reads && *keys.pattern == *b"*")
        };
        self.check_selectors(command, args, reads_all).is_ok()
    }

    /// Whether the user may run `command`, and read and change these keys with it, which are not among the arguments. A
    /// pattern allows all keys with a beginning if it is a part of that and a star.
    pub fn may_change(&self, command: &Command, args: &[&[u8]], keys: Keys<'_>) -> bool {
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
        self.check_selectors(command, args, |selector| selector.all_keys || allows(selector)).is_ok()
    }

    /// Checks the selectors one by one. If all of them deny the call, returns the greatest [`Denied`]: of the last
    /// reason in their order, at the last argument.
    fn check_selectors(
        &self,
        command: &Command,
        args: &[&[u8]],
        is_enough: impl Fn(&Selector) -> bool,
    ) -> Result<(), Denied> {
        let keys = OnceCell::new();
        let mut denied = Denied { reason: Reason::Command, index: 0 };
        for selector in self.selectors() {
            match selector.check(command, args, &keys) {
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

impl Selector {
    fn check(&self, command: &Command, args: &[&[u8]], keys: &OnceCell<Vec<KeyUse>>) -> Result<(), Denied> {
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
