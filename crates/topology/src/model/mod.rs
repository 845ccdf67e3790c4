//! etcd for the simulation: one store that can do everything that etcd was seen to do.
//!
//! ```text
//!   send(now, request) ──▶ carried out ──▶ answer(now, call)
//!                          at once, or after the answer, in hours, or never
//! ```
//!
//! Everything follows from the seed and from the times that are passed in; nothing here waits. [`ModelStore`] makes blocking
//! calls of it, for a simulated thread.
//!
//! It can do this ([`Faults`], and the methods of [`Model`]):
//!
//! - answer late, not at all (a member that hangs for 7 s looks like that to a caller with a time limit), or with an error;
//! - carry out a change whose outcome is unknown at any time later: there is no bound;
//! - be away: reads fail, and changes stay under way until it is back, or get lost;
//! - be full: it refuses changes, though it may have made the first one;
//! - let watches be silent;
//! - lose announcements that were renewed, keep those of dead nodes, and show an old list;
//! - let tokens expire, and refuse a user;
//! - be restored from a backup, so that its revision falls while its id stays.
//!
//! It never does this: lose or undo a change whose success was told, or show an old document. (etcd does so only after an
//! error in its users' rights, which `EtcdStore` avoids, or a restore.)

mod store;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proactor::Entropy;

use crate::contents::Contents;
use crate::error::Error;
use crate::ids::{Life, NodeId, Revision};
use crate::outcome::{Reading, Swap, Unsettled};
use crate::records::{Announcement, LogEntry, Reason};

pub use store::{ModelStore, Time};

/// How long a caller waits for an answer.
const LIMIT_NS: u64 = 2_000_000_000;
/// How long an announcement stays.
const ANNOUNCED_NS: u64 = 10_000_000_000;
/// The longest delay of a change whose outcome is unknown is about 2^this nanoseconds, three days. It only has to be
/// longer than any run.
const LATE_EXPONENT_MAX: u64 = 48;

/// How often each fault occurs: once in that many times; 0: never.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The longest way of a request or an answer.
    pub way_ns_max: u64,
    /// A call is not answered in time.
    pub hang_one_in: u64,
    /// The answer is lost.
    pub lost_answer_one_in: u64,
    /// The store refuses to look at a request.
    pub busy_one_in: u64,
    /// The user's token is refused, and another one, too.
    pub denied_one_in: u64,
    /// A change is not told to a watch.
    pub silent_watch_one_in: u64,
    /// A renewal is answered though the announcement is lost, or is never lost again.
    pub wrong_lease_one_in: u64,
    /// A list of nodes is an old one.
    pub stale_list_one_in: u64,
}

impl Faults {
    /// Everything happens at once, and works.
    pub fn none() -> Faults {
        Faults::default()
    }

    /// All of it, often.
    pub fn often() -> Faults {
        Faults {
            way_ns_max: 50_000_000,
            hang_one_in: 10,
            lost_answer_one_in: 10,
            busy_one_in: 20,
            denied_one_in: 50,
            silent_watch_one_in: 3,
            wrong_lease_one_in: 5,
            stale_list_one_in: 3,
        }
    }
}

/// A request to a store: the functions of [`crate::Store`], as values.
#[derive(Clone, Debug)]
pub enum ModelRequest {
    /// [`crate::Store::read`].
    Read,
    /// [`crate::Store::compare_and_swap`].
    Swap {
        /// The revision that is replaced.
        on: Revision,
        /// The new document as text.
        text: String,
        /// Why.
        why: Reason,
    },
    /// [`crate::Store::announce`].
    Announce {
        /// The announcement.
        announcement: Announcement,
        /// Whether the caller has announced it before: another process that has done so since is its double.
        is_renewal: bool,
    },
    /// [`crate::Store::live_nodes`].
    LiveNodes,
    /// [`crate::Store::prove_dead`].
    ProveDead(Life, Reason),
    /// [`crate::Store::log`].
    Log(usize),
}

/// An answer. Each [`ModelRequest`] has its kind.
#[derive(Debug)]
pub enum ModelReply {
    /// To [`ModelRequest::Read`].
    Read(Result<Reading, Error>),
    /// To [`ModelRequest::Swap`].
    Swap(Swap),
    /// To [`ModelRequest::Announce`] and [`ModelRequest::ProveDead`].
    Written(Result<(), Error>),
    /// To [`ModelRequest::LiveNodes`].
    Nodes(Result<Vec<Announcement>, Error>),
    /// To [`ModelRequest::Log`].
    Log(Result<Vec<LogEntry>, Error>),
}

/// A request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelCall(u64);

/// The store. Clones are the same store.
#[derive(Clone)]
pub struct Model(Arc<Mutex<ModelState>>);

struct ModelState {
    entropy: Entropy,
    faults: Faults,
    contents: Contents,
    backup: Option<Contents>,
    nodes: BTreeMap<NodeId, Announced>,
    /// A list of nodes as it was.
    old_nodes: Vec<Announcement>,
    is_away: bool,
    fullness: Fullness,
    /// Requests that are still to be carried out, by time and number.
    due: BTreeMap<(u64, u64), Due>,
    /// Requests that are still to be answered.
    calls: BTreeMap<ModelCall, Waiting>,
    next: u64,
}

struct Announced {
    announcement: Announcement,
    /// When it is removed; `None`: it outlives its node.
    ends_ns: Option<u64>,
}

/// Whether the store has space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fullness {
    HasSpace,
    /// The next change is made, and answered with the error.
    FillsUp,
    Full,
}

/// A request that is on its way.
struct Due {
    request: ModelRequest,
    /// The call that gets the answer; `None`: no caller waits for it any more.
    call: Option<ModelCall>,
}

/// A call that waits for its answer.
struct Waiting {
    answered_ns: u64,
    reply: Option<ModelReply>,
}

impl ModelReply {
    /// The answer to `request` when it was not carried out, and never will be.
    fn refused(request: &ModelRequest, error: Error) -> ModelReply {
        match request {
            ModelRequest::Swap { .. } => ModelReply::Swap(Swap::NotDone(error)),
            other => ModelReply::failed(other, error),
        }
    }

    /// The answer to `request` when it is not known what came of it.
    fn failed(request: &ModelRequest, error: Error) -> ModelReply {
        match request {
            ModelRequest::Read => ModelReply::Read(Err(error)),
            ModelRequest::Swap { on, .. } => ModelReply::Swap(Swap::Unknown(Unsettled::new(*on, error))),
            ModelRequest::Announce { .. } | ModelRequest::ProveDead(..) => ModelReply::Written(Err(error)),
            ModelRequest::LiveNodes => ModelReply::Nodes(Err(error)),
            ModelRequest::Log(_) => ModelReply::Log(Err(error)),
        }
    }
}

fn timed_out() -> Error {
    Error::TimedOut { member: "model".to_owned(), limit_ms: LIMIT_NS / 1_000_000 }
}

impl Model {
    /// An empty store.
    pub fn new(entropy: Entropy, faults: Faults) -> Model {
        Model(Arc::new(Mutex::new(ModelState {
            entropy,
            faults,
            contents: Contents::default(),
            backup: None,
            nodes: BTreeMap::new(),
            old_nodes: Vec::new(),
            is_away: false,
            fullness: Fullness::HasSpace,
            due: BTreeMap::new(),
            calls: BTreeMap::new(),
            next: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, ModelState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store for a thread whose calls block.
    pub fn store(&self, time: Time) -> ModelStore {
        ModelStore::new(self.clone(), time)
    }

    /// Sends a request.
    pub fn send(&self, now_ns: u64, request: ModelRequest) -> ModelCall {
        self.state().send(now_ns, request)
    }

    /// When a call is answered.
    pub fn answered_ns(&self, call: ModelCall) -> u64 {
        self.state().calls.get(&call).map_or(0, |waiting| waiting.answered_ns)
    }

    /// The answer to a call, once, if there is one by now.
    pub fn answer(&self, now_ns: u64, call: ModelCall) -> Option<ModelReply> {
        let mut state = self.state();
        state.advance(now_ns);
        let is_due = state.calls.get(&call).is_some_and(|waiting| waiting.answered_ns <= now_ns);
        if !is_due {
            return None;
        }
        let waiting = state.calls.remove(&call)?;
        Some(waiting.reply.expect("what is answered in time was carried out before"))
    }

    /// Forgets a call whose caller has died. The request may be carried out all the same.
    pub fn abandon(&self, call: ModelCall) {
        let mut state = self.state();
        state.calls.remove(&call);
        for due in state.due.values_mut() {
            due.call = due.call.filter(|other| *other != call);
        }
    }

    /// Changes how often faults occur.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Has no quorum from now on, or has one again.
    pub fn set_away(&self, is_away: bool) {
        self.state().is_away = is_away;
    }

    /// Has no space from now on, or has it again.
    pub fn set_full(&self, is_full: bool) {
        self.state().fullness = if is_full { Fullness::FillsUp } else { Fullness::HasSpace };
    }

    /// Keeps a copy for [`Model::restore`].
    pub fn back_up(&self) {
        let mut state = self.state();
        state.backup = Some(state.contents.clone());
    }

    /// Goes back to the copy. Requests that are on their way may or may not reach the restored store.
    pub fn restore(&self) {
        let mut state = self.state();
        let state = &mut *state;
        state.contents = state.backup.clone().unwrap_or_default();
        let lost: Vec<(u64, u64)> = state.due.keys().copied().filter(|_| state.entropy.one_in(2)).collect();
        for key in lost {
            let Some(Due { request, call: Some(call) }) = state.due.remove(&key) else { continue };
            if let Some(waiting) = state.calls.get_mut(&call) {
                waiting.reply = Some(ModelReply::failed(&request, timed_out()));
            }
        }
    }

    /// Writes a document that nothing has checked, as a person does who edits it.
    pub fn write_unchecked(&self, text: &str) -> Revision {
        self.state().contents.write_document(text)
    }

    /// The truth, for tests.
    pub fn truth(&self) -> Reading {
        self.state().contents.reading()
    }

    /// The revision of the store, of which a watch hears.
    pub(crate) fn revision(&self, now_ns: u64) -> Revision {
        let mut state = self.state();
        state.advance(now_ns);
        state.contents.revision
    }

    /// Whether a watch misses the next change.
    pub(crate) fn is_watch_silent(&self) -> bool {
        let mut state = self.state();
        let one_in = state.faults.silent_watch_one_in;
        state.occurs(one_in)
    }
}

impl ModelState {
    fn occurs(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.entropy.one_in(one_in)
    }

    fn way_ns(&mut self) -> u64 {
        match self.faults.way_ns_max {
            0 => 0,
            max => self.entropy.below(max),
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn send(&mut self, now_ns: u64, request: ModelRequest) -> ModelCall {
        self.advance(now_ns);
        let call = ModelCall(self.number());
        let (there_ns, back_ns) = (self.way_ns(), self.way_ns());
        let answered_ns = now_ns + there_ns + back_ns;
        let hang_one_in = self.faults.hang_one_in;
        if self.is_away || self.occurs(hang_one_in) {
            self.leave_under_way(now_ns, request, call);
            return call;
        }
        let (busy_one_in, denied_one_in) = (self.faults.busy_one_in, self.faults.denied_one_in);
        let refusal = if self.occurs(busy_one_in) {
            Some(Error::Failed("too many requests".to_owned()))
        } else if self.occurs(denied_one_in) {
            Some(Error::Denied("invalid auth token".to_owned()))
        } else {
            None
        };
        let reply = refusal.map(|error| ModelReply::refused(&request, error));
        let is_refused = reply.is_some();
        self.calls.insert(call, Waiting { answered_ns, reply });
        if is_refused {
            return call;
        }
        let lost_one_in = self.faults.lost_answer_one_in;
        let mut waits = Some(call);
        if self.occurs(lost_one_in) {
            let lost = Error::Lost { member: "model".to_owned(), why: "connection reset".to_owned() };
            self.set_reply(call, ModelReply::failed(&request, lost));
            waits = None;
        }
        let number = self.number();
        self.due.insert((now_ns + there_ns, number), Due { request, call: waits });
        if there_ns == 0 {
            self.advance(now_ns);
        }
        call
    }

    /// Answers a request by a timeout, and carries it out before that, later, or never.
    fn leave_under_way(&mut self, now_ns: u64, request: ModelRequest, call: ModelCall) {
        let reply = Some(ModelReply::failed(&request, timed_out()));
        self.calls.insert(call, Waiting { answered_ns: now_ns + LIMIT_NS, reply });
        if self.entropy.one_in(3) {
            return;
        }
        let exponent = self.entropy.below(LATE_EXPONENT_MAX);
        let at_ns = now_ns + (1 << exponent) + self.entropy.below(1 << exponent);
        let number = self.number();
        self.due.insert((at_ns, number), Due { request, call: None });
    }

    fn set_reply(&mut self, call: ModelCall, reply: ModelReply) {
        if let Some(waiting) = self.calls.get_mut(&call) {
            waiting.reply = Some(reply);
        }
    }

    /// Carries out what is due.
    fn advance(&mut self, now_ns: u64) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now_ns) {
            let at_ns = entry.key().0;
            if self.is_away {
                // It stays under way until there is a quorum.
                break;
            }
            let Due { request, call } = entry.remove();
            let reply = self.carry_out(at_ns, request);
            if let Some(call) = call {
                self.set_reply(call, reply);
            }
        }
        if self.is_away {
            // The callers of these requests hear nothing in time.
            let unheard: Vec<(u64, u64)> =
                self.due.range(..=(now_ns, u64::MAX)).map(|(key, _)| *key).collect();
            for key in unheard {
                let Some(due) = self.due.get_mut(&key) else { continue };
                let Some(call) = due.call.take() else { continue };
                let reply = ModelReply::failed(&due.request, timed_out());
                self.set_reply(call, reply);
            }
        }
        self.nodes.retain(|_, announced| announced.ends_ns.is_none_or(|ends_ns| now_ns < ends_ns));
    }

    fn carry_out(&mut self, at_ns: u64, request: ModelRequest) -> ModelReply {
        match request {
            ModelRequest::Read => ModelReply::Read(Ok(self.contents.reading())),
            ModelRequest::Swap { on, text, why } => ModelReply::Swap(self.swap(on, &text, &why)),
            ModelRequest::Announce { announcement, is_renewal } => {
                ModelReply::Written(self.announce(at_ns, announcement, is_renewal))
            }
            ModelRequest::LiveNodes => {
                let one_in = self.faults.stale_list_one_in;
                let present: Vec<Announcement> =
                    self.nodes.values().map(|announced| announced.announcement.clone()).collect();
                if self.occurs(one_in) {
                    return ModelReply::Nodes(Ok(self.old_nodes.clone()));
                }
                self.old_nodes.clone_from(&present);
                ModelReply::Nodes(Ok(present))
            }
            ModelRequest::ProveDead(life, why) => {
                self.contents.prove_dead(life, &why);
                ModelReply::Written(Ok(()))
            }
            ModelRequest::Log(count_max) => ModelReply::Log(Ok(self.contents.log(count_max))),
        }
    }

    fn swap(&mut self, on: Revision, text: &str, why: &Reason) -> Swap {
        let full = || Unsettled::new(on, Error::NoSpace("mvcc: database space exceeded".to_owned()));
        match self.fullness {
            Fullness::Full => return Swap::Unknown(full()),
            Fullness::FillsUp => {
                self.fullness = Fullness::Full;
                self.contents.swap(on, text, why);
                return Swap::Unknown(full());
            }
            Fullness::HasSpace => {}
        }
        match self.contents.swap(on, text, why) {
            Some(made) => Swap::Done(made),
            None => Swap::Lost(self.contents.reading()),
        }
    }

    fn announce(&mut self, at_ns: u64, announcement: Announcement, is_renewal: bool) -> Result<(), Error> {
        let node = announcement.instance.node.clone();
        let other = self.nodes.get(&node).map(|announced| &announced.announcement.instance);
        if is_renewal && other.is_some_and(|other| *other != announcement.instance) {
            return Err(Error::SameId { node: node.to_string() });
        }
        let one_in = self.faults.wrong_lease_one_in;
        if self.occurs(one_in) {
            // Renewed, it says. It is gone, or stays for ever.
            if self.entropy.one_in(2) {
                self.nodes.remove(&node);
            } else if let Some(announced) = self.nodes.get_mut(&node) {
                announced.ends_ns = None;
            }
            return Ok(());
        }
        let announced = Announced { announcement, ends_ns: Some(at_ns + ANNOUNCED_NS) };
        self.nodes.insert(node, announced);
        Ok(())
    }
}
