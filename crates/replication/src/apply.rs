//! Applies the primary's stream, round by round: enters all shards that the commands of a round need, runs the
//! commands, and leaves the shards.
//!
//! The applied bytes go into this server's own log unchanged, under the same shards. So the log is a copy of the stream
//! at the same offsets, and everything in it has been executed. A command that fails here is counted and logged. In
//! this server's log, newlines of the same length replace it; they mean nothing.
//!
//! If a shard is taken, the round does nothing and is tried again a little later.
//!
//! Not here: where pieces come from (`link`), how they form a round (`round.rs`), and the caller (`follower.rs`).

use std::ops::Range;
use std::sync::atomic::Ordering;

use effectlog::NO_DB;
use engine::Located;
use shard::{PATIENCE_AFTER, ShardId};

use crate::following::Following;
use crate::round::{Round, RoundCommand, Words, Wrong};
use crate::stage::{Ran, Stage, Vocabulary};
use crate::wide::Wide;

/// The number of errors that are logged one by one. After that, one in this many is logged.
const TOLD_MAX: u64 = 10;
const TOLD_PART: u64 = 1000;
/// Memory is prefetched this many commands ahead: the table entry of a record, and then the record.
const PLACE_AHEAD: usize = 8;
const RECORD_AHEAD: usize = 4;

/// The outcome of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Applied {
    /// It was applied.
    Done,
    /// A shard was taken, or the round must wait for something else.
    Later,
    /// This server's role has changed, so nothing more is applied.
    Over,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Applier {
    /// The database selected in the stream after the applied part. `None`: the stream selects one before it needs one.
    db: Option<u32>,
    /// Commands that were taken and have not been applied.
    round: Round,
    /// The number of failed attempts to apply it.
    tries: u32,
}

impl Applier {
    /// Creates an applier for a stream in which `db` is selected.
    pub(crate) fn new(db: Option<u32>) -> Applier {
        let mut round = Round::default();
        round.begin(db);
        Applier { db, round, tries: 0 }
    }

    /// The database selected in the stream after the applied part.
    pub(crate) fn db(&self) -> Option<u32> {
        self.db
    }

    /// The stream broke. The primary sends again what was not applied.
    pub(crate) fn break_off(&mut self) {
        self.round.begin(self.db);
    }

    /// Whether the round must run before it takes more, see [`Round::is_full`].
    pub(crate) fn is_full(&self, much: bool) -> bool {
        self.round.is_full(much)
    }

    /// Takes the next piece of the stream, see [`Round::take`]. Returns false if nothing can be applied from there on,
    /// because this server lacks the database.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        words: &[Range<usize>],
        vocabulary: Vocabulary,
        following: &Following,
        stage: &mut dyn Stage,
    ) -> bool {
        let placement = stage.tx().hold.shards().placement();
        match self.round.take(bytes, words, vocabulary, placement) {
            Ok(()) => true,
            Err(Wrong::NoDatabase) => false,
            Err(Wrong::Command(why)) => {
                note_error(following, words.first().map_or(&[], |name| &bytes[name.clone()]), &why);
                true
            }
        }
    }

    /// The number of bytes that can be applied now, see [`Round::close`]. The caller must take later bytes again.
    pub(crate) fn close(&mut self) -> Option<usize> {
        self.round.close()
    }

    /// Applies the closed round with these bytes, unless the role has changed since `version`.
    pub(crate) fn run(
        &mut self,
        bytes: &mut [u8],
        (following, version): (&Following, u64),
        stage: &mut dyn Stage,
    ) -> Applied {
        let is_ready = self.enter(stage) && self.may_run(bytes, stage);
        if following.version() != version {
            stage.leave();
            return Applied::Over;
        }
        if !is_ready {
            stage.leave();
            self.tries += 1;
            return Applied::Later;
        }
        let (db_before, db) = self.round.dbs();
        let thread_count = stage.thread_count();
        if thread_count > 1 && self.round.is_wide() {
            Wide::run(&mut self.round, bytes, thread_count, following, stage);
        } else {
            let failed = run_steps(&self.round, bytes, |_| true, following, stage);
            self.round.write_blanks(bytes, &failed);
        }
        assert_eq!(following.version(), version, "the role changes only while all shards are held");
        let tx = stage.tx();
        tx.record.push_copy(db_before.unwrap_or(NO_DB), bytes);
        tx.hold.note_unpublished(true);
        following.note_applied(following.offset().plus(bytes.len()));
        following.set_stream_db(db);
        stage.leave();
        (self.db, self.tries) = (db, 0);
        self.round.begin(db);
        Applied::Done
    }

    /// Enters all shards that the round needs. Returns false if one is taken.
    fn enter(&mut self, stage: &mut dyn Stage) -> bool {
        let hold = &mut stage.tx().hold;
        let shards = hold.shards();
        let all: Vec<ShardId>;
        let ids = match self.round.shards() {
            Some(ids) => ids,
            None => {
                all = shards.ids().collect();
                &all
            }
        };
        assert!(!ids.is_empty(), "a shard that is held keeps the role");
        let patience = shards.patience();
        let patient = self.tries >= PATIENCE_AFTER && patience.try_take();
        let has_all = hold.try_enter_all(ids, patient).is_ok();
        if patient {
            patience.put_back();
        }
        has_all
    }

    fn may_run(&self, bytes: &[u8], stage: &mut dyn Stage) -> bool {
        !stage.may_hold_back()
            || self.round.steps().iter().all(|step| {
                let args = self.round.words_of(step, bytes);
                stage.may_run(step.command, &args, step.db)
            })
    }
}

/// Runs those steps of a round whose shards are `own` and entered. Returns the positions of failed commands.
pub(crate) fn run_steps(
    round: &Round,
    bytes: &[u8],
    own: impl Fn(ShardId) -> bool,
    following: &Following,
    stage: &mut dyn Stage,
) -> Vec<Range<usize>> {
    let is_own = |step: &&RoundCommand| step.key.is_none_or(|(_, (id, _))| own(id));
    let mut failed = Vec::new();
    let steps = round.steps().iter().filter(is_own);
    let mut places = steps.clone().skip(PLACE_AHEAD);
    let mut records = steps.clone().skip(RECORD_AHEAD);
    for step in steps {
        let located = |step: &RoundCommand| step.key.map(|(_, (id, hash))| (step.db as usize, id, hash));
        let hold = &stage.tx().hold;
        if let Some((db, id, hash)) = places.next().and_then(located) {
            hold.shard(id).dbs[db].prefetch_place(hash);
        }
        if let Some((db, id, hash)) = records.next().and_then(located) {
            hold.shard(id).dbs[db].prefetch_record(hash);
        }
        let args: Words<'_> = round.words_of(step, bytes);
        if let Some((index, located)) = step.key {
            stage.tx().located = Located::new(args[index], located);
        }
        let ran = stage.run(step.command, &args, step.db);
        if ran != Ran::Done {
            note_failure(following, args[0], ran);
            failed.push(step.at.clone());
        }
        if step.ends_unit {
            stage.finish();
        }
    }
    // This closes a transaction whose last command belongs to another thread.
    stage.finish();
    failed
}

fn note_failure(following: &Following, name: &[u8], ran: Ran) {
    let why = match ran {
        Ran::Failed(why) => why,
        Ran::Again | Ran::Done => "it would block".to_owned(),
    };
    note_error(following, name, &why);
}

#[cold]
fn note_error(following: &Following, name: &[u8], why: &str) {
    const SHOWN_BYTES_MAX: usize = 64;
    following.divergence.fetch_add(1, Ordering::Relaxed);
    let count = following.error_count.fetch_add(1, Ordering::Relaxed) + 1;
    if count <= TOLD_MAX || count.is_multiple_of(TOLD_PART) {
        let name = name[..name.len().min(SHOWN_BYTES_MAX)].escape_ascii();
        tracing::error!(
            "a command of the primary failed here, so the data may differ: '{name}': {why} ({count} so far)"
        );
    }
}
