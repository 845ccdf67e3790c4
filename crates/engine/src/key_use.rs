//! The keys of a command call, and what the call does with each of them.

use smallvec::SmallVec;

use crate::entry::Route;
use crate::key_spec::KeyFlag::{self, *};
use crate::key_spec::{Begin, KeySpec};
use crate::route::stored_keys;
use crate::table::Command;

/// A key of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyUse {
    /// The index of the argument.
    pub index: usize,
    /// What the call does with it.
    pub flags: &'static [KeyFlag],
}

/// Keys that a command finds out as it runs, so that they are not among its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys<'a> {
    /// This key.
    One(&'a [u8]),
    /// All keys with this prefix.
    AllThatBegin(&'a [u8]),
}

const STORED: &[KeyFlag] = &[OW, Update];

impl Command {
    /// The keys among `args`, with their flags; `None` if the arguments contradict the key specs.
    pub fn key_uses(&self, args: &[&[u8]]) -> Option<Vec<KeyUse>> {
        self.key_uses_of(args, |_| true)
    }

    fn key_uses_of(&self, args: &[&[u8]], counts: impl Fn(&KeySpec) -> bool) -> Option<Vec<KeyUse>> {
        let mut keys = Vec::new();
        for spec in self.entry.keys.iter().filter(|spec| spec.is_key() && counts(spec)) {
            let mut found = SmallVec::new();
            if !spec.find(args, &mut found) {
                return None;
            }
            let flags =
                if spec.flags.contains(&VariableFlags) { self.actual_flags(args) } else { spec.flags };
            keys.extend(found.iter().map(|key| KeyUse { index: key.index, flags }));
        }
        if self.lists_keys(keys.len()) {
            keys.remove(0);
        }
        keys.extend(self.sort_target(args).map(|index| KeyUse { index, flags: STORED }));
        Some(keys)
    }

    /// The keys for access control: includes every argument that may be the target, though the command uses
    /// only one. Arguments that contradict the key specs have no keys, because the command refuses them. Keys
    /// that may be missing, such as the sources of `PFMERGE`, are no contradiction.
    pub fn all_key_uses(&self, args: &[&[u8]]) -> Vec<KeyUse> {
        let is_missing = |spec: &KeySpec| matches!(spec.begin, Begin::Index(first) if first >= args.len());
        let is_there = |spec: &KeySpec| !(self.entry.takes(args.len()) && is_missing(spec));
        let mut keys = self.key_uses_of(args, is_there).unwrap_or_default();
        if self.entry.route == Route::Stored {
            keys.extend(stored_keys(args).map(|index| KeyUse { index, flags: STORED }));
        }
        keys
    }

    fn actual_flags(&self, args: &[&[u8]]) -> &'static [KeyFlag] {
        let flags_of = self.entry.key_flags.expect("the table has looked whether the entry says so");
        flags_of(args)
    }
}
