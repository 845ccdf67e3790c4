//! What JOB.TAKE does with an element that it takes: it identifies the job, and drops it if it comes too late.

use crate::queues::popping_end;
use ds::list::End;
use engine::{Change, Class, CommandError, Removed, Room, Store, Taking, know_jobs, pop_command, pop_event};
use keyspace::List;
use keyspace::queue::take;

use crate::groups::Turn;
use crate::job::Jobs;
use crate::record::{Record, State};

/// The job that was next.
#[derive(Default)]
pub(crate) enum Next {
    /// There was none.
    #[default]
    None,
    /// Its id and its record, payload included.
    Job(Vec<u8>, Record),
    /// It came too late and was forgotten.
    TooLate,
}

/// The take of one element, from the queue's own list or from that of a group.
pub(crate) struct Leasing<'j, 'q> {
    jobs: &'j Jobs<'q>,
    end: End,
    /// The turn of the group.
    turn: Option<&'j Turn>,
    element: Vec<u8>,
    is_empty: bool,
    /// Whether the list is known to be a queue.
    is_known: bool,
    /// Where the job is put.
    next: &'j mut Next,
}

impl<'j, 'q> Leasing<'j, 'q> {
    /// A take from the queue's own list.
    #[inline]
    pub(crate) fn from_queue(jobs: &'j Jobs<'q>, store: &Store, next: &'j mut Next) -> Self {
        Self::new(jobs, popping_end(store, jobs.queue), None, next)
    }

    /// A take from the list of a group.
    pub(crate) fn from_group(jobs: &'j Jobs<'q>, turn: &'j Turn, next: &'j mut Next) -> Self {
        Self::new(jobs, End::Tail, Some(turn), next)
    }

    #[inline]
    fn new(jobs: &'j Jobs<'q>, end: End, turn: Option<&'j Turn>, next: &'j mut Next) -> Self {
        Leasing { jobs, end, turn, element: Vec::new(), is_empty: false, is_known: true, next }
    }
}

impl Taking for Leasing<'_, '_> {
    type Value = List;
    const IS_LIMITED: bool = true;

    #[inline]
    fn remove(&mut self, list: &mut List, _: Room) -> Removed {
        // All takes from a group's list are at its tail, so there is nothing to find out.
        let element = if self.turn.is_some() { list.pop(self.end) } else { take(list, self.end) };
        let count = usize::from(element.is_some());
        self.element = element.unwrap_or_default();
        self.is_known = list.seen().is_some();
        self.is_empty = list.is_empty();
        Removed::of(list, count)
    }

    #[inline]
    fn change(&self, count: usize) -> Change {
        Change::new(Class::List, pop_event(self.end)).times(count)
    }

    #[inline]
    fn effect(&mut self, store: &mut Store, key: &[u8], _: usize) {
        store.effect(&[pop_command(self.end), key]);
    }

    #[inline]
    fn announced(&mut self, store: &mut Store) -> Result<(), CommandError> {
        self.turn.map_or(Ok(()), |turn| turn.serve(store))
    }

    /// A job that came too late does not count.
    #[inline]
    fn settle(&mut self, store: &mut Store, _: usize) -> Result<usize, CommandError> {
        let jobs = self.jobs;
        match self.turn {
            Some(turn) => turn.pass(store, self.is_empty)?,
            // Start noting what other clients do to the list.
            None if !self.is_known && !self.is_empty => know_jobs(store, jobs.queue),
            None => {}
        }
        let group = self.turn.map(|turn| &turn.group[..]);
        let (id, record) = jobs.identify(store, std::mem::take(&mut self.element), group)?;
        if record.comes_too_late(store.now()) {
            jobs.forget(store, &id, record.lock.as_deref())?;
            *self.next = Next::TooLate;
            return Ok(0);
        }
        assert!(record.state == State::Waiting, "only a job that waits is taken");
        assert!(record.payload.is_some(), "a job that is taken has its payload");
        *self.next = Next::Job(id, record);
        Ok(1)
    }
}
