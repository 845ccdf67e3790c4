//! The rules that define a user, in the one form in which Redis shows them.

use crate::selector::{KeyPattern, Selector};
use crate::user::User;

impl User {
    /// All rules of the user: what follows its name in the ACL file.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = self.flags().join(" ").into_bytes();
        for hash in &self.passwords {
            text.extend_from_slice(b" #");
            text.extend_from_slice(hash.as_bytes());
        }
        for (index, selector) in self.selectors().iter().enumerate() {
            let (before, after) = if index == 0 { (" ", "") } else { (" (", ")") };
            text.extend_from_slice(before.as_bytes());
            text.extend(selector.describe());
            text.extend_from_slice(after.as_bytes());
        }
        text
    }

    /// `user <name> <rules>`, as in ACL LIST and the ACL file.
    pub fn line(&self) -> Vec<u8> {
        [b"user ", &*self.name, b" ", &self.describe()].concat()
    }

    /// The properties of the user that are neither passwords nor permissions.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        flags.extend(self.takes_any_password.then_some("nopass"));
        flags.push(if self.skips_sanitizing { "skip-sanitize-payload" } else { "sanitize-payload" });
        flags
    }
}

impl Selector {
    fn describe(&self) -> Vec<u8> {
        let mut words = Vec::new();
        words.extend(Some(self.describe_keys()).filter(|keys| !keys.is_empty()));
        words.extend((!self.all_channels).then(|| b"resetchannels".to_vec()));
        words.extend(Some(self.describe_channels()).filter(|channels| !channels.is_empty()));
        words.extend(Some(self.describe_databases()).filter(|databases| !databases.is_empty()));
        words.push(self.describe_commands());
        words.join(&b' ')
    }

    /// The rules about commands.
    pub fn describe_commands(&self) -> Vec<u8> {
        let mut text = if self.begins_with_all { b"+@all".to_vec() } else { b"-@all".to_vec() };
        for (allowed, what) in &self.rules {
            text.extend_from_slice(if *allowed { b" +" } else { b" -" });
            text.extend_from_slice(what);
        }
        text
    }

    /// The rule about databases; empty if all are allowed.
    pub fn describe_databases(&self) -> Vec<u8> {
        match self.databases.as_deref() {
            None => Vec::new(),
            Some([]) => b"resetdbs".to_vec(),
            Some(databases) => {
                let numbers: Vec<String> = databases.iter().map(u32::to_string).collect();
                format!("db={}", numbers.join(",")).into_bytes()
            }
        }
    }

    /// The rules about keys.
    pub fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let word = |keys: &KeyPattern| {
            let before: &[u8] = match (keys.reads, keys.writes) {
                (true, true) => b"~",
                (true, false) => b"%R~",
                (false, _) => b"%W~",
            };
            [before, &keys.pattern].concat()
        };
        self.keys.iter().map(word).collect::<Vec<_>>().join(&b' ')
    }

    /// The rules about channels.
    pub fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let words: Vec<Vec<u8>> = self.channels.iter().map(|pattern| [b"&", &**pattern].concat()).collect();
        words.join(&b' ')
    }
}
