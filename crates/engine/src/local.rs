//! A store in one process and one thread, which runs commands in place: for tests, and for replaying effects.

use std::sync::Arc;

use effectlog::{Recorder, Tape};
use resp::{Output, Proto};
use shard::{Hold, Placement, ShardId};

use crate::Shards;
use crate::ctx::{Entry, Host};
use crate::entry::{Route, Run};
use crate::error::CommandError;
use crate::route::Needs;
use crate::store::Store;
use crate::table::{Command, CommandId, Rates, Table};
use crate::task::{Client, Outcome, TxMessage};
use crate::tx::Tx;

/// A recorded effect, for tests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedEffect {
    /// The database.
    pub db: u32,
    /// The command and its arguments.
    pub args: Vec<Box<[u8]>>,
}

/// Shards, a table of commands, and a clock that stands still until it is set.
pub struct Local {
    shards: Shards,
    table: Table,
    /// Settings.
    pub config: keyspace::Config,
    /// The time at which commands run.
    pub now: keyspace::UnixMs,
    /// How far that clock has been set ahead.
    pub set_ahead_ms: i64,
    /// Whether commands come from a primary or a journal ([`Due::Keep`](crate::Due::Keep)).
    pub keeps_due: bool,
    /// Messages of the commands run so far (served waiters, published events).
    pub outbox: Vec<TxMessage>,
    record: Recorder,
    tape: Tape,
}

impl Local {
    /// An empty store of 8 shards and 16 databases with the commands of `families`.
    pub fn new(families: &[&'static [Entry]]) -> Self {
        let placement = Placement::new(ds::hashing::Seed::new(1), 8, None);
        Local {
            shards: Shards::new(placement, 1, 16, 1),
            table: Table::new(families),
            config: Default::default(),
            now: 1_700_000_000_000,
            set_ahead_ms: 0,
            keeps_due: false,
            outbox: Vec::new(),
            record: Recorder::default(),
            tape: Tape::default(),
        }
    }

    /// Adds the commands of another protocol.
    #[must_use]
    pub fn with_protocol(self, entries: impl Iterator<Item = &'static Entry>) -> Self {
        Local { table: self.table.with_protocol(&Entry::DEFAULT, entries), ..self }
    }

    /// Limits the takes from queues.
    #[must_use]
    pub fn with_rates(self, rates: Rates) -> Self {
        Local { table: self.table.with_rates(rates), ..self }
    }

    /// All commands.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Runs one command for `client`, and appends the reply to `out`.
    pub fn run(&mut self, client: Client, args: &[&[u8]], host: &mut dyn Host, out: &mut Output) -> Outcome {
        match self.table.resolve(args) {
            Ok(command) => self.run_command(command.id, client, args, host, out),
            Err(error) => {
                resp::Reply::new(out, client.proto).error(error.text());
                Outcome::Failed
            }
        }
    }

    /// Runs a command that was looked up before.
    pub fn run_command(
        &mut self,
        command: CommandId,
        client: Client,
        args: &[&[u8]],
        host: &mut dyn Host,
        out: &mut Output,
    ) -> Outcome {
        let command = self.table.get(command);
        let placement = self.shards.placement();
        let needs = match command.entry.route {
            Route::KeysInTurn => Needs::of_first_key(command, args, placement),
            _ => Needs::of(command, args, placement),
        };
        let mut hold = Hold::new(&self.shards);
        enter(&mut hold, &needs);
        let mut tx = Tx::new(hold, &self.table, Arc::new(self.config.clone()), self.now);
        tx.steady = self.now - self.set_ahead_ms;
        tx.keeps_due = self.keeps_due;
        tx.record = std::mem::take(&mut self.record);
        let outcome = tx.run(command, args, &client, host, out);
        tx.finish(host);
        tx.commit();
        leave(&mut tx.hold);
        self.record = std::mem::take(&mut tx.record);
        self.outbox.append(&mut tx.outbox);
        outcome
    }

    /// Makes the store a replica, which hides expired keys, or a primary.
    pub fn set_hides_due(&self, hides_due: bool) {
        self.shards.set_hides_due(hides_due);
    }

    /// Calls `look` with the whole store, seen by `client`.
    pub fn with_store<R>(&mut self, client: Client, look: impl FnOnce(&mut Store) -> R) -> R {
        let mut hold = Hold::new(&self.shards);
        enter(&mut hold, &Needs::All);
        let mut tx = Tx::new(hold, &self.table, Arc::new(self.config.clone()), self.now);
        tx.steady = self.now - self.set_ahead_ms;
        let result = look(&mut Store::new(&mut tx, client));
        leave(&mut tx.hold);
        result
    }

    /// Runs one command against database 0 and returns its reply as bytes.
    pub fn reply(&mut self, proto: Proto, args: &[&[u8]]) -> Vec<u8> {
        let mut out = Output::new();
        self.run(Client::internal(0, proto), args, &mut (), &mut out);
        out.to_vec()
    }

    /// Runs a line of words separated by spaces against database 0, in RESP2.
    pub fn line(&mut self, line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        String::from_utf8_lossy(&self.reply(Proto::Resp2, &args)).into_owned()
    }

    /// Starts to record effects.
    pub fn record_effects(&mut self) {
        self.record = Recorder::new(self.tape.track());
    }

    /// Takes the effects recorded so far, in order.
    pub fn take_effects(&mut self) -> Vec<OwnedEffect> {
        let records = self.tape.take();
        let units = records.iter().flat_map(|record| record.units());
        let owned = |effect: effectlog::Effect| OwnedEffect {
            db: effect.db,
            args: effect.args().into_iter().map(Box::from).collect(),
        };
        units.flat_map(|unit| unit.effects()).map(owned).collect()
    }

    /// Runs effects.
    pub fn replay(&mut self, effects: &[OwnedEffect]) -> Result<(), CommandError> {
        for effect in effects {
            let args: Vec<&[u8]> = effect.args.iter().map(|arg| &**arg).collect();
            let mut out = Output::new();
            if let Outcome::Failed =
                self.run(Client::internal(effect.db, Proto::Resp2), &args, &mut (), &mut out)
            {
                return Err(failed(&out));
            }
        }
        Ok(())
    }
}

/// The function of `command`, which is one of `entries` or of their subcommands: a host of a test runs its component's
/// commands with it.
///
/// # Panics
/// If it is none of these.
pub fn function_of<F: Copy>(entries: &[crate::entry::Entry<F>], command: &Command) -> F {
    let (name, sub) = command
        .full_name
        .split_once('|')
        .map_or((&*command.full_name, None), |(name, sub)| (name, Some(sub)));
    let named = |entries: &[crate::entry::Entry<F>], name: &str| {
        entries.iter().copied().find(|entry| entry.name == name)
    };
    let entry =
        named(entries, name).and_then(|entry| sub.map_or(Some(entry), |sub| named(entry.subcommands, sub)));
    match entry.expect("the command is one of these").run {
        Run::Function(function) => function,
        Run::Container => unreachable!("the table does not run containers"),
    }
}

/// The error reply in `out`.
fn failed(out: &Output) -> CommandError {
    CommandError::new(String::from_utf8_lossy(&out.to_vec()).into_owned())
}

fn enter(hold: &mut Hold<'_, crate::Task, crate::Wait>, needs: &Needs) {
    let all: Vec<ShardId>;
    let ids: &[ShardId] = match needs {
        Needs::Nothing => &[],
        Needs::One(id) => std::slice::from_ref(id),
        Needs::Several(ids) => ids,
        Needs::All => {
            all = hold.shards().ids().collect();
            &all
        }
    };
    hold.try_enter_all(ids, false).expect("there is only one thread");
}

fn leave(hold: &mut Hold<'_, crate::Task, crate::Wait>) {
    while let Some(&id) = hold.entered().last() {
        assert!(hold.next_task_or_leave(id).is_none(), "nobody delegates to a store of one thread");
    }
}
