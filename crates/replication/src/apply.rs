//! Applying the primary's stream: one command after the other, each with its shards entered, a transaction under all of its shards at once.
//!
//! What was applied goes into the own log as it came, under the same shards: so the log is a copy of the stream, at the same offsets, and what is in it
//! was done. A command that fails here is counted and told in the log, and newlines stand in its place, which are as long and mean nothing.
//!
//! If a shard is taken, the piece comes once more a little later; nothing was done.
//!
//! Not here: where pieces come from (`link`), and who calls (`follower.rs`).

use std::ops::Range;
use std::sync::atomic::Ordering;

use command::{Command, Group, Needs, OwnedArgs, Route};
use effectlog::NO_DB;
use persistence::Role;
use shard::{PATIENCE_AFTER, ShardId};

use crate::following::Following;
use crate::stage::{Ran, Stage, Vocabulary};

/// So many errors are told, and then one of so many.
const TOLD_MAX: u64 = 10;
const TOLD_PART: u64 = 1000;

/// What came of a piece of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Applied {
    /// It is dealt with.
    Done,
    /// A shard was taken, or it must wait for something else.
    Later,
    /// The role of this server has changed: nothing more is applied.
    Over,
}

/// A piece of the stream.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) bytes: &'a [u8],
    /// Empty: no command, but newlines or what was for the link.
    pub(crate) args: &'a [&'a [u8]],
    /// The offset behind it.
    pub(crate) end: u64,
}

/// A command of a transaction.
struct Queued {
    command: &'static Command,
    args: OwnedArgs,
    db: u32,
    at: Range<usize>,
}

/// A transaction whose end has not come.
struct Transaction {
    db_before: Option<u32>,
    bytes: Vec<u8>,
    queued: Vec<Queued>,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Applier {
    /// The database that is selected in the stream; `None`: it selects one before it needs one.
    db: Option<u32>,
    transaction: Option<Transaction>,
    /// How often the next piece could not be applied.
    tries: u32,
}

impl Applier {
    /// One in whose stream `db` is selected.
    pub(crate) fn new(db: Option<u32>) -> Applier {
        Applier { db, ..Applier::default() }
    }

    /// The database that is selected in the stream behind what was applied.
    pub(crate) fn db(&self) -> Option<u32> {
        self.transaction.as_ref().map_or(self.db, |transaction| transaction.db_before)
    }

    /// The stream broke: a transaction whose end has not come will come again.
    pub(crate) fn break_off(&mut self) {
        self.db = self.db();
        self.transaction = None;
    }

    /// Applies a piece, unless the role is no longer that of `version`.
    pub(crate) fn apply(
        &mut self,
        piece: Piece<'_>,
        words: Vocabulary,
        (following, version): (&Following, u64),
        stage: &mut dyn Stage,
    ) -> Applied {
        let applied = self.try_apply(piece, words, (following, version), stage);
        self.tries = if applied == Applied::Later { self.tries + 1 } else { 0 };
        following.set_stream_db(self.db());
        applied
    }

    fn try_apply(
        &mut self,
        piece: Piece<'_>,
        words: Vocabulary,
        around: (&Following, u64),
        stage: &mut dyn Stage,
    ) -> Applied {
        let Piece { bytes, args, end } = piece;
        if args.is_empty() {
            // In its place newlines, whatever it was: they say as little.
            return self.add(&newlines(bytes.len()), end, around, stage);
        }
        let command = words.table.resolve(args);
        let role = command.as_ref().map(|command| words.roles[usize::from(command.id.0)]);
        let broken = match (role, self.transaction.is_some()) {
            (Ok(Role::Begin), false) => {
                self.transaction =
                    Some(Transaction { db_before: self.db, bytes: bytes.to_vec(), queued: Vec::new() });
                return Applied::Done;
            }
            (Ok(Role::End), true) => return self.end_transaction(bytes, end, around, stage),
            (Ok(Role::Select), _) => {
                match ds::num::parse_i64(args[1]).and_then(|db| u32::try_from(db).ok()) {
                    Some(db) if db < words.databases => {
                        let applied = self.add(bytes, end, around, stage);
                        if applied == Applied::Done {
                            self.db = Some(db);
                        }
                        return applied;
                    }
                    _ => "no database has this number".to_owned(),
                }
            }
            (Ok(Role::Data | Role::Libraries), _) => {
                let command = command.expect("it has a role");
                return self.call(command, piece, around, stage);
            }
            (Ok(Role::Nothing), _) => {
                let command = command.expect("it has a role");
                if matches!(command.entry.group, Group::PubSub | Group::Scripting) {
                    return self.call(command, piece, around, stage);
                }
                return self.add(bytes, end, around, stage);
            }
            (Ok(Role::Refused(why)), _) => why.to_owned(),
            (Ok(Role::Begin), true) => "a transaction in another one".to_owned(),
            (Ok(Role::End), false) => "the end of a transaction that did not begin".to_owned(),
            (Err(error), _) => error.to_string(),
        };
        let applied = self.add(&newlines(bytes.len()), end, around, stage);
        if applied == Applied::Done {
            note_error(around.0, args, &broken);
        }
        applied
    }

    /// Adds what needs no shard to the log, or to the transaction.
    fn add(&mut self, bytes: &[u8], end: u64, around: (&Following, u64), stage: &mut dyn Stage) -> Applied {
        if let Some(transaction) = &mut self.transaction {
            transaction.bytes.extend_from_slice(bytes);
            return Applied::Done;
        }
        // Who changes the role holds all shards.
        match self.enter(&Needs::One(ShardId(0)), around, stage) {
            Applied::Done => {}
            other => return other,
        }
        record(self.db, bytes, end, around.0, stage);
        Applied::Done
    }

    /// Runs a command, or takes it into the transaction.
    fn call(
        &mut self,
        command: &'static Command,
        piece: Piece<'_>,
        around: (&Following, u64),
        stage: &mut dyn Stage,
    ) -> Applied {
        let Piece { bytes, args, end } = piece;
        let db = self.db.unwrap_or(0);
        if let Some(transaction) = &mut self.transaction {
            let from = transaction.bytes.len();
            transaction.bytes.extend_from_slice(bytes);
            let at = from..transaction.bytes.len();
            transaction.queued.push(Queued { command, args: OwnedArgs::new(args), db, at });
            return Applied::Done;
        }
        let mut needs = needs_of(command, args, stage);
        loop {
            match self.enter(&needs, around, stage) {
                Applied::Done => {}
                other => return other,
            }
            if !stage.may_run(command, args, db) {
                stage.leave();
                return Applied::Later;
            }
            match stage.run(command, args, db) {
                Ran::Done => {
                    stage.finish();
                    record(self.db, bytes, end, around.0, stage);
                }
                Ran::Again if needs != Needs::All => {
                    needs = Needs::All;
                    stage.leave();
                    continue;
                }
                ran => {
                    note_failure(around.0, args, ran);
                    stage.finish();
                    record(self.db, &newlines(bytes.len()), end, around.0, stage);
                }
            }
            return Applied::Done;
        }
    }

    /// Runs all commands of the transaction, whose end has come.
    fn end_transaction(
        &mut self,
        bytes: &[u8],
        end: u64,
        around: (&Following, u64),
        stage: &mut dyn Stage,
    ) -> Applied {
        let Some(mut transaction) = self.transaction.take() else { return Applied::Done };
        let mut needs = Needs::One(ShardId(0));
        for Queued { command, args, .. } in &transaction.queued {
            needs = needs.and(match command.entry.route {
                // What more it needs is only known when it runs.
                Route::KeysInTurn => Needs::All,
                _ => needs_of(command, &args.slices(), stage),
            });
        }
        let entered = self.enter(&needs, around, stage);
        let mut may_run = || {
            let mut queued = transaction.queued.iter();
            queued.all(|Queued { command, args, db, .. }| stage.may_run(command, &args.slices(), *db))
        };
        if entered != Applied::Done || !may_run() {
            stage.leave();
            self.transaction = Some(transaction);
            return if entered == Applied::Over { Applied::Over } else { Applied::Later };
        }
        for Queued { command, args, db, at } in &transaction.queued {
            let args = args.slices();
            match stage.run(command, &args, *db) {
                Ran::Done => {}
                ran => {
                    note_failure(around.0, &args, ran);
                    transaction.bytes[at.clone()].fill(b'\n');
                }
            }
        }
        stage.finish();
        transaction.bytes.extend_from_slice(bytes);
        record(transaction.db_before, &transaction.bytes, end, around.0, stage);
        Applied::Done
    }

    /// Enters what is needed, while this server has the same role.
    fn enter(
        &self,
        needs: &Needs,
        (following, version): (&Following, u64),
        stage: &mut dyn Stage,
    ) -> Applied {
        let shards = stage.tx().hold.shards();
        let all: Vec<ShardId>;
        let first = [ShardId(0)];
        let (one, several);
        let ids: &[ShardId] = match needs {
            Needs::Nothing => &first,
            Needs::One(id) => {
                one = [*id];
                &one
            }
            Needs::Several(ids) => {
                several = ids;
                several
            }
            Needs::All => {
                all = shards.ids().collect();
                &all
            }
        };
        let patience = shards.patience();
        let patient = self.tries >= PATIENCE_AFTER && patience.try_take();
        let has_all = stage.tx().hold.try_enter_all(ids, patient).is_ok();
        if patient {
            patience.put_back();
        }
        if has_all && following.version() == version {
            return Applied::Done;
        }
        stage.leave();
        if has_all { Applied::Over } else { Applied::Later }
    }
}

/// The shards that a command needs, as far as is known before it runs.
fn needs_of(command: &Command, args: &[&[u8]], stage: &mut dyn Stage) -> Needs {
    let placement = stage.tx().hold.shards().placement();
    if command.entry.route == Route::KeysInTurn {
        return Needs::of_first_key(command, args, placement);
    }
    Needs::of(command, args, placement)
}

/// Puts `bytes` into the log, and leaves all shards.
fn record(db: Option<u32>, bytes: &[u8], end: u64, following: &Following, stage: &mut dyn Stage) {
    let tx = stage.tx();
    tx.record.push_copy(db.unwrap_or(NO_DB), bytes);
    tx.hold.note_unpublished(true);
    following.note_applied(end);
    stage.leave();
}

fn newlines(count: usize) -> Vec<u8> {
    vec![b'\n'; count]
}

fn note_failure(following: &Following, args: &[&[u8]], ran: Ran) {
    let why = match ran {
        Ran::Failed(why) => why,
        Ran::Again | Ran::Done => "it would have to wait".to_owned(),
    };
    note_error(following, args, &why);
}

#[cold]
fn note_error(following: &Following, args: &[&[u8]], why: &str) {
    const SHOWN_BYTES_MAX: usize = 64;
    let count = following.error_count.fetch_add(1, Ordering::Relaxed) + 1;
    if count <= TOLD_MAX || count.is_multiple_of(TOLD_PART) {
        let name = args.first().copied().unwrap_or_default();
        let name = name[..name.len().min(SHOWN_BYTES_MAX)].escape_ascii();
        tracing::error!(
            "a command of the primary failed here, so the data may differ: '{name}': {why} ({count} so far)"
        );
    }
}
