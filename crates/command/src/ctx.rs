//! What a command function works with: its arguments, its reply to be, and the store.
//!
//! The parts are fields, so that a function can read from the store while it writes the reply.

use resp::Reply;

use crate::args::OwnedArgs;
use crate::change::Change;
use crate::error::{CommandError, CommandResult};
use crate::host::{Host, OwnCall};
use crate::route::Needs;
use crate::store::Store;
use crate::table::Command;
use crate::task::{BlockOn, Blocked, Restore, Ticket};

/// A command call; of a command that belongs to the thread's program, on a thread of type `H`.
pub struct Ctx<'a, 't, H: ?Sized = dyn Host + 'a> {
    /// The command that runs.
    pub command: &'t Command,
    /// Its arguments, the name first.
    pub args: &'a [&'a [u8]],
    /// Where its reply goes.
    pub reply: Reply<'a>,
    /// The keyspace, as far as it was entered.
    pub store: Store<'a, 't>,
    /// The thread it runs on.
    pub host: &'a mut H,
}

impl<'t, H: ?Sized> Ctx<'_, 't, H> {
    /// Says that `key` was changed, with the command itself as the effect, because running it again does the same.
    #[inline]
    pub fn changed(&mut self, key: &[u8], change: Change) {
        self.store.changed(key, change, self.args);
    }

    /// Answers the HELP of a container: `lines` between the usual ones.
    pub fn help(&mut self, lines: &[&str]) -> CommandResult {
        let container = self.command.full_name.split('|').next().unwrap_or_default().to_uppercase();
        self.reply.array(lines.len() + 3);
        self.reply.simple(&format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
        for line in lines.iter().chain(&["HELP", "    Print this help."]) {
            self.reply.simple(line);
        }
        Ok(())
    }

    /// The call and the host apart: for a function that gets the host as something else ([`OwnCall::on`]).
    #[inline]
    pub fn split(&mut self) -> (OwnCall<'_, 't>, &mut H) {
        let Ctx { command, args, reply, store, host } = self;
        let proto = reply.proto();
        let store = Store { tx: &mut *store.tx, client: store.client, located: store.located };
        (OwnCall { command, args, reply: Reply::new(reply.out(), proto), store }, host)
    }

    /// Whether a blocking command may wait: not inside MULTI or a script.
    pub fn may_block(&self) -> bool {
        !self.store.client.deny_blocking
    }
}

impl Ctx<'_, '_> {
    /// Enters the shard of a further key, of a command that tries its keys in turn. The first one's shard is entered; those
    /// of the others are entered here, out of order, so only by trying, and kept, so that all keys are seen at one
    /// moment. If one is taken, the command runs again with all its shards entered in order.
    pub fn enter_next(&mut self, key: &[u8]) -> CommandResult {
        let hold = &mut self.store.tx.hold;
        let placement = hold.shards().placement();
        if hold.try_enter(placement.shard(key)) {
            return Ok(());
        }
        let wanted = match Needs::of(self.command, self.args, placement) {
            Needs::Several(ids) => ids,
            needs => unreachable!("the first key's shard is entered, and another one is not: {needs:?}"),
        };
        Err(CommandError::again(wanted))
    }

    /// Registers the client as a waiter at every key; the command returns without a reply.
    pub fn block(&mut self, on: &BlockOn) {
        debug_assert!(self.may_block());
        let also = on.also.map(|key| self.store.locate(key).0);
        let mut blocked = self.store.tx.idle_waits.begin(self.store.client, also, on);
        let Blocked { waiter, tickets, .. } = &mut *blocked;
        for &key in on.keys {
            let arg = on.args.iter().position(|arg| *arg == key).expect("a key is an argument");
            if tickets.iter().any(|ticket| ticket.arg == arg) {
                continue;
            }
            let (shard, _) = self.store.locate(key);
            let waiters = &mut self.store.tx.hold.shard_mut(shard).waiters;
            let number = waiters.add(self.store.client.db, key, waiter.clone());
            tickets.push(Ticket { shard, number, arg });
        }
        tickets.sort_unstable_by_key(|ticket| ticket.shard);
        blocked.said = (!std::ptr::eq(on.args, self.args)).then(|| OwnedArgs::new(self.args));
        self.store.tx.blocked = Some(blocked);
    }

    /// Memory for arguments of [`Self::restore_with`].
    pub fn spare_args(&mut self) -> OwnedArgs {
        std::mem::take(&mut self.store.tx.spare_args)
    }

    /// When a waiter is served, or a blocking command finds something for a client that may be gone: the command that
    /// puts back what it took.
    pub fn restore_with(&mut self, args: OwnedArgs) {
        self.store.tx.restore = Some(Restore { db: self.store.client.db, args });
    }
}
