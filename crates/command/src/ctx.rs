//! What a command's function is, what it works with (its arguments, its reply to be, the store), and what it may ask of the
//! thread that runs it.
//!
//! The parts of a call are fields, so that a function can read from the store while it writes the reply.

use resp::Reply;
use shard::Hold;

use crate::args::OwnedArgs;
use crate::change::Change;
use crate::entry;
use crate::error::{CommandError, CommandResult};
use crate::store::Store;
use crate::table::{Command, CommandId};
use crate::task::{BlockOn, Blocked, Restore, Task, Ticket, Wait};

/// The function of a command that asks nothing of the thread it runs on, as those on data do.
pub type CommandFn = fn(&mut Ctx) -> CommandResult;

/// The function of a command that gets its thread, or what it may ask of it, as an `H`.
pub type HostFn<H> = fn(&mut Ctx<'_, '_, H>) -> CommandResult;

/// A command: its documentation, its contract and its function, which is a [`CommandFn`] unless said otherwise.
pub type Entry<F = CommandFn> = entry::Entry<F>;

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
    /// Registers the client as a waiter at every key; the command returns without a reply.
    pub fn block(&mut self, on: &BlockOn) {
        assert!(self.may_block(), "MULTI and scripts do not wait");
        assert!(self.store.tx.blocked.is_none(), "a client waits once");
        let also = on.also.map(|key| self.store.locate(key).0);
        let mut blocked = self.store.tx.idle_waits.begin(self.store.client, also, on);
        let Blocked { waiter, tickets, .. } = &mut *blocked;
        for &key in on.keys {
            let arg = on.args.iter().position(|arg| *arg == key).expect("a key is an argument");
            if tickets.iter().any(|ticket| ticket.arg == arg) {
                continue;
            }
            let ((id, hash), db) = (self.store.locate(key), self.store.client.db);
            let shard = self.store.tx.hold.shard_mut(id);
            let queues = shard.dbs[db as usize].queues_mut();
            let number = shard.waiters.add(db, key, waiter.clone(), || queues.awaited(hash, key));
            let shard = id;
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

/// The thread that runs a command. Data commands need next to nothing of it. Commands of the server itself (sessions,
/// configuration, statistics, scripts) are run by it, and so have it by type.
pub trait Host {
    /// Runs a command whose function only the host knows ([`Entry::of_host`]).
    fn run_own(&mut self, call: OwnCall<'_, '_>) -> CommandResult;

    /// All keys of all databases were deleted; all shards are entered.
    fn flushed_all(&mut self, _hold: &Hold<'_, Task, Wait>) {}

    /// The last slice that may hold a change of which a command tells that entered none of its shards; 0: it is durable.
    fn newest_slice(&mut self) -> u64 {
        0
    }

    /// The wait of this blocking command ended with an error, when it was served.
    fn wait_failed(&mut self, _command: CommandId, _error: &CommandError) {}
}

/// No thread: for commands that are run in process, by tests.
impl Host for () {
    fn run_own(&mut self, _call: OwnCall<'_, '_>) -> CommandResult {
        Err(CommandError::new("ERR this command needs a server"))
    }
}

/// A call of a command that belongs to the host: a [`Ctx`] but for the host.
pub struct OwnCall<'a, 't> {
    /// The command that runs.
    pub command: &'t Command,
    /// Its arguments, the name first.
    pub args: &'a [&'a [u8]],
    /// Where its reply goes.
    pub reply: Reply<'a>,
    /// The keyspace, as far as it was entered.
    pub store: Store<'a, 't>,
}

impl<'a, 't> OwnCall<'a, 't> {
    /// What the command's function works with.
    pub fn on<H: ?Sized>(self, host: &'a mut H) -> Ctx<'a, 't, H> {
        let OwnCall { command, args, reply, store } = self;
        Ctx { command, args, reply, store, host }
    }
}

impl<F: Copy> Entry<F> {
    /// The same entry as the table of commands has it, which knows no `F`: the command asks its host to be run
    /// ([`Host::run_own`]). To be made once, since it lives for ever.
    pub fn of_host(&self) -> Entry {
        self.with_function(own)
    }
}

/// Runs a command of the host's own.
fn own(ctx: &mut Ctx) -> CommandResult {
    let (call, host) = ctx.split();
    host.run_own(call)
}
