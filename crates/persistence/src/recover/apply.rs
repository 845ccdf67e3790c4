//! Runs the steps of one group of shards.

use engine::{Located, Table};

use super::deal::{Dealt, Step, group_of};
use crate::error::Error;
use crate::load::Extras;
use crate::runner::Runner;

/// Memory is prefetched this many steps ahead: the table entry of a record, and then the record.
const PLACE_AHEAD: usize = 8;
const RECORD_AHEAD: usize = 4;

/// See the head of this file.
pub(super) struct Applier<'s> {
    pub(super) runner: Runner<'s>,
    pub(super) table: &'s Table,
    pub(super) group: usize,
    pub(super) group_count: usize,
}

impl Applier<'_> {
    /// Runs the steps of its group. Ends early if another group has failed.
    pub(super) fn apply(&mut self, dealt: &Dealt, has_failed: &dyn Fn() -> bool) -> Result<(), Error> {
        let list = &dealt.lists[self.group];
        let step_at = |index: usize| list.get(index).map(|place| &dealt.steps[*place as usize]);
        for (index, place) in list.iter().enumerate() {
            if let Some(Step { db, key: Some((_, located)), .. }) = step_at(index + PLACE_AHEAD) {
                self.runner.prefetch_place(*db, *located);
            }
            if let Some(Step { db, key: Some((_, located)), .. }) = step_at(index + RECORD_AHEAD) {
                self.runner.prefetch_record(*db, *located);
            }
            let step = &dealt.steps[*place as usize];
            match &step.meeting {
                None => self.run(dealt, step)?,
                Some(_) => self.meet(dealt, step, has_failed)?,
            }
            if step.meeting.is_some() && has_failed() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn run(&mut self, dealt: &Dealt, step: &Step) -> Result<(), Error> {
        let words = dealt.words(step);
        let located = step.key.map(|(index, located)| Located::new(words[index], located));
        let command = self.table.get(step.command);
        self.runner.set_steady(dealt.unix_ms(step));
        let ran = self.runner.run(command, &words, step.db, located);
        ran.map_err(|why| dealt.error(step, why))
    }

    /// Runs a step that needs shards of several groups: the last group to arrive gets all of them and runs
    /// it.
    fn meet(&mut self, dealt: &Dealt, step: &Step, has_failed: &dyn Fn() -> bool) -> Result<(), Error> {
        let meeting = step.meeting.as_ref().expect("several groups need it");
        let (own, group_count) = (self.group, self.group_count);
        let is_own = move |id| group_of(id, group_count) == own;
        if meeting.arrive(|| self.runner.leave(|id| is_own(id) && meeting.needs(id))) {
            self.runner.enter(meeting.ids());
            let ran = self.run(dealt, step);
            self.runner.leave(|id| !is_own(id));
            meeting.end();
            return ran;
        }
        if meeting.wait(has_failed) {
            self.runner.enter(meeting.ids().filter(|id| is_own(*id)));
        }
        Ok(())
    }
}

/// Runs the steps of a batch that change the libraries of functions. No other step depends on these.
pub(super) fn change_libraries(dealt: &Dealt, table: &Table, extras: &mut dyn Extras) -> Result<(), Error> {
    for place in &dealt.libraries {
        let step = &dealt.steps[*place as usize];
        let changed = extras.change_libraries(table.get(step.command), &dealt.words(step));
        changed.map_err(|why| dealt.error(step, why))?;
    }
    Ok(())
}
