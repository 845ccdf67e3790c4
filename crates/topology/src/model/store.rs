//! Blocking calls of a [`Model`], for a simulated thread.

use std::time::Duration;

use super::{Model, ModelReply, ModelRequest};
use crate::document::Document;
use crate::error::Error;
use crate::history::History;
use crate::ids::{Instance, Life, Revision};
use crate::outcome::{Reading, Sight, Swap};
use crate::records::{Announcement, LogEntry, Reason};
use crate::store::{Store, Watch};

/// How long a change may go unseen if the watch is silent.
const POLL_NS: u64 = 2_000_000_000;
/// How soon a watch tells of a change.
const STEP_NS: u64 = 20_000_000;
/// The id of the model's cluster.
const CLUSTER: u64 = 1;

/// The simulated time of one thread: sleeps until a time, in nanoseconds, and returns the present time. A time that is over
/// returns at once.
pub type Time = Box<dyn FnMut(u64) -> u64 + Send>;

/// See the head of this file.
pub struct ModelStore {
    model: Model,
    time: Time,
    history: History,
    /// Which process was announced.
    announced: Option<Instance>,
    /// The time of watches.
    watch_time: Option<Box<dyn FnMut() -> Time + Send>>,
}

impl ModelStore {
    pub(super) fn new(model: Model, time: Time) -> ModelStore {
        ModelStore { model, time, history: History::default(), announced: None, watch_time: None }
    }

    /// Begins with what was known of the store before a restart.
    pub fn with_history(self, history: History) -> ModelStore {
        ModelStore { history, ..self }
    }

    /// Gives each watch a time of its own, for another thread.
    pub fn with_watch_time(self, watch_time: impl FnMut() -> Time + Send + 'static) -> ModelStore {
        ModelStore { watch_time: Some(Box::new(watch_time)), ..self }
    }

    fn call(&mut self, request: ModelRequest) -> ModelReply {
        call(&self.model, &mut self.time, request)
    }
}

/// Sends a request and sleeps until it is answered.
fn call(model: &Model, time: &mut Time, request: ModelRequest) -> ModelReply {
    let sent = model.send(time(0), request);
    loop {
        let now_ns = time(model.answered_ns(sent));
        if let Some(reply) = model.answer(now_ns, sent) {
            return reply;
        }
    }
}

/// Reads, and checks that the store has not gone back.
fn read(model: &Model, time: &mut Time, history: &mut History) -> Result<Reading, Error> {
    let floor = history.floor()?;
    let ModelReply::Read(read) = call(model, time, ModelRequest::Read) else {
        unreachable!("a reading was asked for")
    };
    let reading = read?;
    history.observe(floor, CLUSTER, reading.as_of)?;
    Ok(reading)
}

impl Store for ModelStore {
    fn read(&mut self) -> Result<Reading, Error> {
        read(&self.model, &mut self.time, &mut self.history)
    }

    fn compare_and_swap(&mut self, on: &Reading, document: &Document, why: &Reason) -> Swap {
        on.assert_may_become(document);
        let floor = match self.history.floor() {
            Ok(floor) => floor,
            Err(error) => return Swap::NotDone(error),
        };
        let request = ModelRequest::Swap { on: on.revision, text: document.encode(), why: why.clone() };
        let ModelReply::Swap(swap) = self.call(request) else { unreachable!("a change was asked for") };
        let seen: Option<Revision> = match &swap {
            Swap::Done(made) => Some(*made),
            Swap::Lost(reading) => Some(reading.as_of),
            Swap::NotDone(_) | Swap::Unknown(_) => None,
        };
        match seen.map_or(Ok(()), |seen| self.history.observe(floor, CLUSTER, seen)) {
            Ok(()) => swap,
            Err(error) => Swap::Unknown(crate::outcome::Unsettled::new(on.revision, error)),
        }
    }

    fn watch(&mut self) -> Result<Box<dyn Watch>, Error> {
        let Some(time) = self.watch_time.as_mut().map(|make| make()) else {
            return Err(Error::Settings("this store of the simulation has no time for watches".to_owned()));
        };
        Ok(Box::new(ModelWatch { model: self.model.clone(), time, history: self.history, last: None }))
    }

    fn announce(&mut self, announcement: &Announcement) -> Result<(), Error> {
        let is_renewal = self.announced.as_ref() == Some(&announcement.instance);
        let request = ModelRequest::Announce { announcement: announcement.clone(), is_renewal };
        let ModelReply::Written(written) = self.call(request) else {
            unreachable!("an announcement was asked for")
        };
        written?;
        self.announced = Some(announcement.instance.clone());
        Ok(())
    }

    fn live_nodes(&mut self) -> Result<Vec<Announcement>, Error> {
        let ModelReply::Nodes(nodes) = self.call(ModelRequest::LiveNodes) else {
            unreachable!("the nodes were asked for")
        };
        nodes
    }

    fn prove_dead(&mut self, life: Life, why: &Reason) -> Result<(), Error> {
        self.history.floor()?;
        let ModelReply::Written(written) = self.call(ModelRequest::ProveDead(life, why.clone())) else {
            unreachable!("a proof was asked for")
        };
        written
    }

    fn log(&mut self, count_max: usize) -> Result<Vec<LogEntry>, Error> {
        let ModelReply::Log(log) = self.call(ModelRequest::Log(count_max)) else {
            unreachable!("the log was asked for")
        };
        log
    }

    fn history(&self) -> History {
        self.history
    }

    fn accept_as_it_is(&mut self) {
        self.history = History::default();
    }
}

/// A watch of the model.
struct ModelWatch {
    model: Model,
    time: Time,
    history: History,
    last: Option<Reading>,
}

impl Watch for ModelWatch {
    fn next(&mut self, wait: Duration) -> Result<Sight, Error> {
        let end_ns = (self.time)(0).saturating_add(wait.as_nanos() as u64);
        loop {
            let reading = read(&self.model, &mut self.time, &mut self.history)?;
            if !self.last.as_ref().is_some_and(|last| last.is_like(&reading)) {
                self.last = Some(reading.clone());
                return Ok(Sight::Changed(reading));
            }
            let mut now_ns = (self.time)(0);
            let poll_ns = now_ns + POLL_NS;
            let is_silent = self.model.is_watch_silent();
            let is_heard = |now_ns| !is_silent && self.model.revision(now_ns) != reading.as_of;
            while now_ns < poll_ns.min(end_ns) && !is_heard(now_ns) {
                let next_ns = if is_silent { poll_ns } else { now_ns + STEP_NS };
                now_ns = (self.time)(next_ns.min(poll_ns).min(end_ns));
            }
            if now_ns >= end_ns {
                return Ok(Sight::Silent);
            }
        }
    }
}
