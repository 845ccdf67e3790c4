//! Recovers a journal: loads its base like any snapshot and applies its slices, in order, each once and as a
//! whole.
//!
//! ```text
//!                     ┌─ batch ─▶ deal.rs ─▶ lists, one for each group of shards ─▶ apply.rs ─┐
//!   slices ─ checked ─┼─ batch ─▶ …                                                           ├─▶ databases
//!                     └─ batch ─▶ …                                                           ─┘
//! ```
//!
//! Consecutive slices form a *batch*. Dealing a batch parses its commands, without copying them, and lists
//! them by the group of shards that they need. A single thread does all of this with one group. Otherwise
//! there are as many groups as threads (`crew.rs`): each thread applies the lists of its group in the order
//! of the stream, and deals batches when it has no list to apply.
//!
//! The start fails unless all of this holds: slices continue each other, in number and position; no slice
//! ends inside a transaction; each slice names the database that the slice before left selected; every
//! command is known and succeeds. Commands of a transaction run one by one, because the data have no readers
//! yet.
//!
//! Not here: reading slices from files (`journal`), running a command (`runner.rs`), and the steps after the
//! last slice.

mod apply;
mod crew;
mod deal;

use std::sync::Arc;

use effectlog::{Lsn, Slice, StreamPosition};
use engine::Table;

use crate::error::Error;
use crate::load::{Extras, Load, Loaded, Others, Target, on_heap_to_serve};
use crate::role::{Role, Roles};
use crate::runner::{LoadStage, Runner};
use apply::{Applier, change_libraries};
use deal::{Batch, Dealer, Failure};

/// Batches in progress at the same time, for each thread.
const UNDER_WAY_MAX: usize = 4;

/// A journal to load, and the rules for its commands.
#[derive(Clone, Copy)]
pub struct Recovery<'a> {
    /// The folder, for messages.
    pub name: &'a str,
    /// The base, in the folder of the load's [`Names`](crate::Names); `None` if the slices begin without
    /// data.
    pub base: Option<&'a str>,
    /// The number of the last slice that the base contains.
    pub slice: Lsn,
    /// The position in the stream at which the next slice begins.
    pub position: StreamPosition,
    /// The expected bytes of slices, for reporting progress.
    pub slice_bytes: u64,
    /// All commands, by the names with which they are declared, which the journal uses.
    pub table: &'a Table,
    /// The role of each command of the table.
    pub roles: &'a [Role],
}

/// A slice, and where it was found.
#[derive(Clone, Debug)]
pub struct FoundSlice {
    /// The slice.
    pub slice: Slice,
    /// The time at which it was written, in milliseconds since 1970. 0 if unknown.
    pub unix_ms: u64,
    /// The path of its file.
    pub file: Arc<str>,
}

/// Returns slices, one after the other, until none is left. An error is a line for people.
pub(crate) type Source<'a> = dyn FnMut() -> Result<Option<FoundSlice>, String> + 'a;

impl Load<'_> {
    /// The content of a journal: its base and everything from `slices`. `None` if the load was stopped.
    ///
    /// # Errors
    ///
    /// If the base is not complete, if the slices do not continue it and each other, or if a command cannot
    /// be run. Nothing is loaded then.
    pub fn journal(
        &self,
        recovery: &Recovery<'_>,
        slices: &mut dyn FnMut() -> Result<Option<FoundSlice>, String>,
        extras: &mut dyn Extras,
    ) -> Result<Option<Loaded>, Error> {
        assert_eq!(recovery.roles.len(), recovery.table.all().len(), "each command has a role");
        let name = recovery.base.unwrap_or(recovery.name);
        let target = Target::of_stream(self, name, self.clock.now_ms() as i64);
        let mut others = Others::new(&target, extras);
        if let Some(base) = recovery.base {
            let read = match self.thread_count {
                0 => on_heap_to_serve(|| self.read_snapshot(base, &mut others)),
                _ => self.read_snapshot(base, &mut others),
            };
            read.map_err(|error| Error::Base(Box::new(error)))?;
        }
        let (superseded_aof, mut stream_db) = (others.superseded_aof.take(), others.stream_db);
        self.progress.begin_file(recovery.slice_bytes);
        let stage = LoadStage::new(&target);
        stage.exchange();
        if !self.is_stopped() {
            let input = Input::new(recovery, &stage, slices);
            let selected = match self.thread_count {
                0 => on_heap_to_serve(|| apply_alone(input, &mut *others.extras))?,
                count => crew::apply_with(count, input, &mut *others.extras)?,
            };
            stream_db = selected.or(stream_db);
        }
        if self.is_stopped() {
            return Ok(None);
        }
        let key_count = stage.exchange();
        drop(stage);
        target.set_key_count(key_count);
        Ok(Some(Loaded { stream_db, ..target.loaded(superseded_aof) }))
    }
}

/// Slices as they arrive. Each is checked to continue the one before.
struct Input<'a> {
    recovery: &'a Recovery<'a>,
    stage: &'a LoadStage<'a>,
    source: &'a mut Source<'a>,
    /// The number of the last slice.
    slice: Lsn,
    /// The position at which the next one begins.
    position: StreamPosition,
    is_ended: bool,
}

impl<'a> Input<'a> {
    fn new(recovery: &'a Recovery<'a>, stage: &'a LoadStage<'a>, source: &'a mut Source<'a>) -> Input<'a> {
        let Recovery { slice, position, .. } = *recovery;
        Input { recovery, stage, source, slice, position, is_ended: false }
    }

    fn dealer(&self, group_count: usize) -> Dealer<'a> {
        let load = self.stage.target.load;
        let roles = Roles(self.recovery.roles);
        Dealer {
            table: self.recovery.table,
            roles,
            placement: load.placement,
            db_count: load.db_count,
            group_count,
        }
    }

    /// The next batch. `None` at the end, or if the load was stopped.
    fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        let mut batch = Batch::default();
        let enough = self.stage.target.load.tuning.piece_bytes_min;
        while !batch.has(enough) && !self.is_ended && !self.stage.target.is_stopped() {
            match (self.source)().map_err(Error::Journal)? {
                Some(found) => batch.add(self.check(found)?),
                None => self.is_ended = true,
            }
        }
        self.stage.target.note_read(batch.bytes() as u64);
        Ok((!batch.is_empty()).then_some(batch))
    }

    /// Checks that no slice is applied twice and none is skipped.
    fn check(&mut self, found: FoundSlice) -> Result<FoundSlice, Error> {
        let slice = &found.slice;
        let why = if slice.number != self.slice.next() {
            Some(format!("slice {} comes before it", self.slice))
        } else if slice.position != self.position {
            Some(format!("the slice before it ends at position {}", self.position))
        } else {
            None
        };
        if let Some(why) = why {
            return Err(Failure { command: None, position: slice.position, why }.error(&found));
        }
        (self.slice, self.position) = (slice.number, slice.end());
        Ok(found)
    }
}

/// Applies everything on this thread. Returns the database selected at the end, if known.
fn apply_alone(mut input: Input<'_>, extras: &mut dyn Extras) -> Result<Option<u32>, Error> {
    let (stage, table) = (input.stage, input.recovery.table);
    let dealer = input.dealer(1);
    let mut applier =
        Applier { runner: Runner::new(stage, table, |_| true), table, group: 0, group_count: 1 };
    let mut selected = None;
    while let Some(batch) = input.next_batch()? {
        let dealt = dealer.deal(batch)?;
        dealt.check_selected(&mut selected)?;
        applier.apply(&dealt, &|| false)?;
        change_libraries(&dealt, table, extras)?;
        applier.runner.settle(stage);
        stage.target.set_key_count(applier.runner.key_count());
    }
    Ok(selected)
}
