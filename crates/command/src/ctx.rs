//! What a command function works with: its arguments, its reply to be, and the store.
//!
//! The parts are fields, so that a function can read from the store while it writes the reply.

use std::sync::Arc;

use resp::Reply;
use shard::{Claim, Waiter};

use crate::args::OwnedArgs;
use crate::host::Host;
use crate::store::Store;
use crate::table::Command;
use crate::task::{BlockOn, Blocked, Restore, Wait};

/// A command call.
pub struct Ctx<'a, 't> {
    /// The command that runs.
    pub command: &'t Command,
    /// Its arguments, the name first.
    pub args: &'a [&'a [u8]],
    /// Where its reply goes.
    pub reply: Reply<'a>,
    /// The keyspace, as far as it was entered.
    pub store: Store<'a, 't>,
    /// The thread it runs on.
    pub host: &'a mut dyn Host,
}

impl Ctx<'_, '_> {
    /// Records the command itself as the effect on `key`, because running it again does the same.
    #[inline]
    pub fn effect_same(&mut self, key: &[u8]) {
        self.store.effect(key, self.args);
    }

    /// Whether a blocking command may wait: not inside MULTI or a script.
    pub fn may_block(&self) -> bool {
        !self.store.client.deny_blocking
    }

    /// Registers the client as a waiter at every key; the command returns without a reply.
    pub fn block(&mut self, on: &BlockOn) {
        debug_assert!(self.may_block());
        let wait = Wait {
            client: self.store.client,
            args: OwnedArgs::new(self.args),
            kind: on.kind,
            also: on.also.map(|key| self.store.locate(key).0),
            serve: on.serve,
        };
        let waiter = Arc::new(Waiter { claim: Claim::default(), wait });
        let mut tickets: Vec<(Box<[u8]>, u64)> = Vec::with_capacity(on.keys.len());
        for &key in on.keys {
            if tickets.iter().any(|(known, _)| **known == *key) {
                continue;
            }
            let (id, _) = self.store.locate(key);
            let ticket =
                self.store.tx.hold.shard_mut(id).waiters.add(self.store.client.db, key, waiter.clone());
            tickets.push((key.into(), ticket));
        }
        let (timeout_ms, null_array) = (on.timeout_ms, on.null_array);
        self.store.tx.blocked = Some(Box::new(Blocked { waiter, tickets, timeout_ms, null_array }));
    }

    /// When a waiter is served, or a blocking command finds something for a client that may be gone: the command that
    /// puts back what it took.
    pub fn restore_with(&mut self, args: &[&[u8]]) {
        self.store.tx.restore = Some(Restore { db: self.store.client.db, args: OwnedArgs::new(args) });
    }
}
