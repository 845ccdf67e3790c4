//! Runs a stream of commands that records changes of data: an append-only file of Redis, or the slices of a
//! journal.
//!
//! Commands run on a [`LoadStage`], shards that no other component knows, through the table of commands, like
//! those of clients. But nothing expires or is evicted, no waiters are served, and nothing is recorded: the
//! stream contains each deletion as a command. A failing command ends the loading, because the data would
//! differ from the original ones.
//!
//! Not here: the source of the commands, transactions, and the selected database (`import/replay.rs`,
//! `recover/`).

use std::sync::Arc;

use engine::{Client, Command, Located, Outcome, Shards, Table, Tx};
use keyspace::{Config, UnixMs};
use resp::{Output, Proto};
use shard::{Hold, ShardId};

use crate::load::Target;

/// The reason why a database cannot be selected.
pub(crate) const NO_SUCH_DB: &str = "more databases than the setting databases allows";

/// The database that `SELECT` names, if it exists.
pub(crate) fn selected(arg: &[u8], db_count: u32) -> Result<u32, &'static str> {
    let number = ds::num::parse_i64(arg).and_then(|number| u32::try_from(number).ok());
    number.filter(|number| *number < db_count).ok_or(NO_SUCH_DB)
}

/// The beginning of the name of a command, for people.
pub(crate) fn shown_name(args: &[&[u8]]) -> String {
    const SHOWN_BYTES_MAX: usize = 64;
    let name = args.first().copied().unwrap_or_default();
    name[..name.len().min(SHOWN_BYTES_MAX)].escape_ascii().to_string()
}

/// Shards on which commands run before a server has them.
pub(crate) struct LoadStage<'a> {
    pub(crate) target: &'a Target<'a>,
    pub(crate) shards: Shards,
    config: Arc<Config>,
}

impl<'a> LoadStage<'a> {
    pub(crate) fn new(target: &'a Target<'a>) -> LoadStage<'a> {
        let shards = Shards::new(target.load.placement.clone(), 1, target.load.db_count, 0);
        let config = Arc::new(Config { notify: 0, ..target.load.config.clone() });
        LoadStage { target, shards, config }
    }

    /// Exchanges the databases of these shards with those of the target, while no runner has them. Returns
    /// the number of their keys.
    pub(crate) fn exchange(&self) -> u64 {
        let mut hold = Hold::new(&self.shards);
        let mut key_count = 0;
        for id in self.shards.ids() {
            let entered = hold.try_enter(id);
            assert!(entered, "nobody else knows these shards");
            let dbs = &mut hold.shard_mut(id).dbs;
            key_count += dbs.iter().map(|(_, db)| db.len() as u64).sum::<u64>();
            self.target.exchange(id, dbs);
        }
        leave(&mut hold, |_| true);
        key_count
    }

    fn now(&self) -> UnixMs {
        self.target.load.clock.now_ms() as UnixMs
    }
}

/// Runs commands on some shards of a stage, which it has entered.
pub(crate) struct Runner<'s> {
    tx: Tx<'s>,
    client: Client,
    out: Output,
}

impl<'s> Runner<'s> {
    /// A runner that has entered the shards for which `is_own` is true.
    pub(crate) fn new(stage: &'s LoadStage<'_>, table: &'s Table, is_own: impl Fn(ShardId) -> bool) -> Self {
        let hold = Hold::new(&stage.shards);
        let mut tx = Tx::new(hold, table, stage.config.clone(), stage.now());
        tx.keeps_due = true;
        let client = Client { no_touch: false, ..Client::internal(0, Proto::Resp2) };
        let mut runner = Runner { tx, client, out: Output::new() };
        runner.enter(stage.shards.ids().filter(|id| is_own(*id)));
        runner
    }

    /// Enters shards that no other runner holds.
    pub(crate) fn enter(&mut self, ids: impl Iterator<Item = ShardId>) {
        for id in ids {
            let entered = self.tx.hold.try_enter(id);
            assert!(entered, "nobody else has these shards");
        }
    }

    /// Leaves the entered shards for which `is_left` is true.
    pub(crate) fn leave(&mut self, is_left: impl Fn(ShardId) -> bool) {
        leave(&mut self.tx.hold, is_left);
    }

    /// Called between commands: updates the time and lets the heap settle.
    pub(crate) fn settle(&mut self, stage: &LoadStage<'_>) {
        self.tx.now = stage.now();
        heap::settle();
    }

    /// Sets the original time of the following commands, in milliseconds since 1970.
    #[inline]
    pub(crate) fn set_steady(&mut self, unix_ms: u64) {
        self.tx.steady = unix_ms as i64;
    }

    /// Keys on the shards that it has entered.
    pub(crate) fn key_count(&self) -> u64 {
        let ids = self.tx.hold.entered().iter();
        ids.flat_map(|id| self.tx.hold.shard(*id).dbs.iter()).map(|(_, db)| db.len() as u64).sum()
    }

    /// Prefetches the table entry for this hash.
    #[inline]
    pub(crate) fn prefetch_place(&self, db: u32, (shard, hash): (ShardId, u64)) {
        self.tx.hold.shard(shard).dbs[db as usize].prefetch_place(hash);
    }

    /// Prefetches the record itself. Its table entry is in the cache by then.
    #[inline]
    pub(crate) fn prefetch_record(&self, db: u32, (shard, hash): (ShardId, u64)) {
        self.tx.hold.shard(shard).dbs[db as usize].prefetch_record(hash);
    }

    /// Runs a command. `located` is the place of its only key. The error is a part of a sentence.
    pub(crate) fn run(
        &mut self,
        command: &'s Command,
        args: &[&[u8]],
        db: u32,
        located: Option<Located>,
    ) -> Result<(), String> {
        self.client.db = db;
        if let Some(located) = located {
            self.tx.hold.focus(located.shard());
            self.tx.located = located;
        }
        let outcome = self.tx.run(command, args, &self.client, &mut (), &mut self.out);
        self.tx.finish(&mut ());
        self.tx.outbox.clear();
        self.tx.restore = None;
        let failure = match outcome {
            Outcome::Done => None,
            Outcome::Failed => {
                let text = self.out.to_vec();
                Some(String::from_utf8_lossy(text.trim_ascii()).trim_start_matches('-').to_owned())
            }
            Outcome::Blocked(_) | Outcome::Again(_) => Some("it would block".to_owned()),
        };
        self.out.clear();
        failure.map_or(Ok(()), Err)
    }
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.leave(|_| true);
        }
    }
}

fn leave<T, W>(hold: &mut Hold<'_, T, W>, is_left: impl Fn(ShardId) -> bool) {
    let ids: Vec<ShardId> = hold.entered().iter().rev().copied().filter(|id| is_left(*id)).collect();
    for id in ids {
        let left = hold.leave_or_keep(id);
        assert!(left, "nobody else knows these shards");
    }
}
