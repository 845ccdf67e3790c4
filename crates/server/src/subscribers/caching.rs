//! What a client said about the keys that it keeps in a cache of its own (`CLIENT TRACKING`, `CLIENT CACHING`).
//!
//! Not here: telling it of changes (`invalidation.rs`).

use std::collections::BTreeSet;

use command::{Command, Rule};

/// What a client asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientTracking {
    /// The client that is told in its place; 0: none.
    pub(crate) redirect: u64,
    /// It wants to hear of all keys with its prefixes, read or not.
    pub(crate) broadcasts: bool,
    /// By itself nothing is remembered.
    pub(crate) opts_in: bool,
    /// By itself everything is remembered.
    pub(crate) opts_out: bool,
    pub(crate) prefixes: BTreeSet<Box<[u8]>>,
    pub(crate) caching: Caching,
    /// The client to which it redirects is gone.
    pub(crate) is_broken: bool,
}

/// Whether `CLIENT CACHING` said something about a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Caching {
    #[default]
    Unsaid,
    /// About the next one.
    Next,
    /// About this one.
    Now,
}

impl ClientTracking {
    /// Before `command`: what `CLIENT CACHING` said is over if it was about the one before. It reaches over CLIENT's
    /// subcommands, and over whole transactions. True if something changed.
    pub(crate) fn next_after_caching(&mut self, command: &Command, is_in_multi: bool) -> bool {
        self.caching = match self.caching {
            Caching::Now if !is_in_multi => Caching::Unsaid,
            Caching::Next if !command.entry.is_under(Rule::KeepsCaching) => Caching::Now,
            _ => return false,
        };
        true
    }

    /// Whether the keys of the next command are remembered.
    pub(crate) fn remembers(&self) -> bool {
        let is_said = self.caching != Caching::Unsaid;
        let opts_out = if is_said { self.opts_out } else { self.opts_in };
        !self.broadcasts && !opts_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_about_the_next_command_or_transaction() {
        let table = crate::commands::table();
        let [get, caching] = ["get", "client|caching"]
            .map(|name| table.declared_full(name.as_bytes()).expect("there is such a command"));
        let mut tracking =
            ClientTracking { opts_in: true, caching: Caching::Next, ..ClientTracking::default() };
        for (command, is_in_multi, is_news, remembers) in [
            (caching, false, false, true),
            (get, true, true, true),
            (get, true, false, true),
            (get, false, true, false),
            (get, false, false, false),
        ] {
            assert_eq!(tracking.next_after_caching(command, is_in_multi), is_news);
            assert_eq!(tracking.remembers(), remembers);
        }
        assert!(
            !ClientTracking { opts_out: true, caching: Caching::Now, ..ClientTracking::default() }
                .remembers()
        );
        assert!(!ClientTracking { broadcasts: true, ..ClientTracking::default() }.remembers());
    }
}
