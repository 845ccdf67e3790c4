//! A command's function, the call it gets (arguments, reply, store), and the requests it may make of the thread that
//! runs it.
//!
//! The parts of a call are fields, so that a function can read from the store while it writes the reply.

use effectlog::Lsn;
use resp::Reply;
use shard::{Delegated, Hold};

use crate::args::OwnedArgs;
use crate::change::Change;
use crate::entry;
use crate::error::{CommandError, CommandResult};
use crate::store::Store;
use crate::table::{Command, CommandId};
use crate::task::{BlockOn, Blocked, Restore, Task, Ticket, Wait, When};

/// The function of a command that needs nothing from its thread. All data commands have such a function.
pub type CommandFn = fn(&mut Ctx) -> CommandResult;

/// The function of a command that also gets its thread, or what it needs of it, as an `H`.
pub type HostFn<H> = fn(&mut Ctx<'_, '_, H>) -> CommandResult;

/// A command: its documentation, its contract and its function, which is a [`CommandFn`] by default.
pub type Entry<F = CommandFn> = entry::Entry<F>;

/// A call of a command. A command of the server gets its thread, or what it needs of it, as an `H`.
pub struct Ctx<'a, 't, H: ?Sized = dyn Host + 'a> {
    /// The command that runs.
    pub command: &'t Command,
    /// Its arguments, the name first.
    pub args: &'a [&'a [u8]],
    /// Where its reply goes.
    pub reply: Reply<'a>,
    /// The part of the keyspace whose shards were entered.
    pub store: Store<'a, 't>,
    /// The thread it runs on.
    pub host: &'a mut H,
}

impl<'t, H: ?Sized> Ctx<'_, 't, H> {
    /// Announces that `key` was changed, with the command itself as the effect, because running it again does
    /// the same.
    #[inline]
    pub fn changed(&mut self, key: &[u8], change: Change) {
        self.store.changed(key, change, self.args);
    }

    /// Replies to a container's HELP: `lines` between the first and the last lines that every HELP has.
    pub fn help(&mut self, lines: &[&str]) -> CommandResult {
        let container = self.command.full_name.split('|').next().unwrap_or_default().to_uppercase();
        self.reply.array(lines.len() + 3);
        self.reply.simple(&format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
        for line in lines.iter().chain(&["HELP", "    Print this help."]) {
            self.reply.simple(line);
        }
        Ok(())
    }

    /// Splits the call from its host, for a function that needs the host as another type ([`OwnCall::on`]).
    #[inline]
    pub fn split(&mut self) -> (OwnCall<'_, 't>, &mut H) {
        let Ctx { command, args, reply, store, host } = self;
        let proto = reply.proto();
        let store = Store { located: store.located, ..Store::new(&mut *store.tx, store.client) };
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
            if matches!(on.when, When::Suffices(_) | When::Due(_)) {
                shard.waiters.heed_growth();
            }
            if matches!(on.when, When::At(_) | When::Due(_)) {
                shard.waiters.heed_time(db, key);
                // Once more, to tell the thread when.
                self.store.mark_ready(id, key);
            }
            let shard = id;
            tickets.push(Ticket { shard, number, arg });
        }
        tickets.sort_unstable_by_key(|ticket| ticket.shard);
        blocked.said = (!std::ptr::eq(on.args, self.args)).then(|| OwnedArgs::new(self.args));
        self.store.tx.blocked = Some(blocked);
    }

    /// Notes that elements were added to the list, or scores changed in the sorted set, at `key`, which was looked up by
    /// [`Store::write_as`]: clients that wait for more than it had are looked at when the transaction is complete.
    #[inline]
    pub fn note_grown(&mut self, key: &[u8]) {
        let (id, db) = (self.store.entered_shard(key), self.store.client.db);
        if self.store.tx.hold.shard(id).waiters.any_for_growth(db, key) {
            self.store.mark_ready(id, key);
        }
    }

    /// Notes that the times at which waiters of `key` can be served have changed.
    #[inline]
    pub fn note_times(&mut self, key: &[u8]) {
        let (id, db) = (self.store.entered_shard(key), self.store.client.db);
        if self.store.tx.hold.shard(id).waiters.any_for_time(db, key) {
            self.store.mark_ready(id, key);
        }
    }

    /// Reusable memory for the arguments of [`Self::restore_with`].
    pub fn spare_args(&mut self) -> OwnedArgs {
        std::mem::take(&mut self.store.tx.spare_args)
    }

    /// Names the command that puts back what this one took. A waiter that is served, or a blocking command
    /// that finds data, may take something for a client that is gone.
    pub fn restore_with(&mut self, args: OwnedArgs) {
        self.store.tx.restore = Some(Restore { db: self.store.client.db, args });
    }
}

/// The thread that runs a command. Data commands need almost nothing from it. Commands of the server
/// (sessions, configuration, statistics, scripts) are run by it, and therefore know its type.
pub trait Host {
    /// Runs a command whose function only the host knows ([`Entry::of_host`]).
    fn run_own(&mut self, call: OwnCall<'_, '_>) -> CommandResult;

    /// Told when all keys of all databases were deleted; all shards are entered.
    fn flushed_all(&mut self, _hold: &Hold<'_, Task, Wait>) {}

    /// The last slice that may hold a change in any shard, for a command that reports on shards without
    /// entering them. [`Lsn::NONE`] if all changes are durable.
    fn newest_slice(&mut self) -> Lsn {
        Lsn::NONE
    }

    /// Called now and then by a command that takes long ([`Pace`](crate::Pace)), at any point of its work:
    /// the thread may serve its other clients.
    fn breathe(&mut self) {}

    /// Takes a task that was delegated to a shard which the running command leaves before it ends: it runs on
    /// another thread, or after the command.
    fn send_on(&mut self, _task: Box<Delegated<Task>>) {
        unreachable!("nobody delegates to a store of one thread");
    }

    /// Told when the wait of this blocking command ended with an error as it was about to be served.
    fn wait_failed(&mut self, _command: CommandId, _error: &CommandError) {}
}

/// No thread, for tests that run commands in process.
impl Host for () {
    fn run_own(&mut self, _call: OwnCall<'_, '_>) -> CommandResult {
        Err(CommandError::new("ERR this command needs a server"))
    }
}

/// A call of a command of the host: a [`Ctx`] without the host.
pub struct OwnCall<'a, 't> {
    /// The command that runs.
    pub command: &'t Command,
    /// Its arguments, the name first.
    pub args: &'a [&'a [u8]],
    /// Where its reply goes.
    pub reply: Reply<'a>,
    /// The part of the keyspace whose shards were entered.
    pub store: Store<'a, 't>,
}

impl<'a, 't> OwnCall<'a, 't> {
    /// Adds the host, which makes the call complete for the command's function.
    pub fn on<H: ?Sized>(self, host: &'a mut H) -> Ctx<'a, 't, H> {
        let OwnCall { command, args, reply, store } = self;
        Ctx { command, args, reply, store, host }
    }
}

impl<F: Copy> Entry<F> {
    /// The entry for the table of commands, which does not know `F`: the command asks its host to run it
    /// ([`Host::run_own`]). Call this once per entry, because the result is never freed.
    pub fn of_host(&self) -> Entry {
        self.with_function(own)
    }
}

/// Runs a command of the host's own.
fn own(ctx: &mut Ctx) -> CommandResult {
    let (call, host) = ctx.split();
    host.run_own(call)
}
