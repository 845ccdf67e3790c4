//! An account of what a server has acknowledged, which checks whether it survived a crash.
//!
//! ```text
//! clients ──▶ what they sent and received, with moments ──▶ Account ──▶ check(found, crash) ──▶ complaints
//!                                  server started again ──▶ Found ──┘
//! ```
//!
//! A crash has a moment, and a promise that covers everything up to another one (`Crash`). The account checks that:
//! - *nothing promised is lost*: everything acknowledged up to the promised moment is there;
//! - *nothing is torn*: a transaction, a script or a command is there completely or not at all;
//! - *nothing is invented*: nothing is there that was not sent;
//! - *what is there is a prefix in real time*: if a step is there, so is each step, of any client, that had been
//!   acknowledged before that one was sent. This holds for every policy, even for changes that may be lost;
//! - what was read from counters or received in a message is not undone, and an element of a queue is in one place
//!   ([`queue`]).
//!
//! Not here: who sends (`crate::crash`), and how a server is made to crash.

mod deed;
mod found;
mod model;
mod moment;
mod owner;
mod plan;
pub mod queue;
mod shared;
#[cfg(test)]
mod tests;

pub use deed::Deed;
pub use found::Found;
pub(crate) use found::{DATABASES, call};
pub use model::{Body, Bytes, Contents, Model};
pub use moment::{Crash, Moment, Span, Timeline};
pub use owner::Owner;
pub(crate) use plan::version_key;
pub use plan::{Form, Planner, Step};
pub use queue::{Doing, Queue, Worker};
pub use shared::{CHANNEL, COUNTER, Counter, Raiser, Reader};

/// The database that is flushed now and then.
const FLUSHED_DB: u32 = DATABASES[2];

/// The account of all clients.
#[derive(Debug)]
pub struct Account {
    /// Clients with keys of their own.
    pub owners: Vec<Owner>,
    /// The queues and their workers.
    pub queues: Vec<Queue>,
    /// A counter that several clients increment.
    pub counter: Counter,
    /// Clients that read what others write.
    pub readers: Vec<Reader>,
    /// Clients that receive messages with the counter's value.
    pub listeners: Vec<Reader>,
}

impl Default for Account {
    fn default() -> Account {
        let owners = vec![
            Owner::new("c0", 0, 1, false),
            Owner::new("c1", 0, 1, false),
            Owner::new("c2", 1, 4, false),
            Owner::new("c3", 0, 16, false),
            Owner::new("f", FLUSHED_DB, 2, true),
        ];
        let queues = vec![
            Queue::new(queue::POPPED, &["p0", "p1", "p2", "p3"]),
            Queue::new(queue::MOVED, &["m0", "m1", "m2"]),
        ];
        Account {
            owners,
            queues,
            counter: Counter::new(2),
            readers: vec![Reader::default()],
            listeners: vec![Reader::default()],
        }
    }
}

impl Account {
    /// Returns what is wrong with the data found after a crash; empty if the server kept its promise.
    pub fn check(&self, found: &Found, crash: Crash) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut kept: Option<(Moment, &str)> = None;
        let mut lost: Option<(Moment, &str)> = None;
        let mut note = |name, sent: Option<Moment>, acked: Option<Moment>| {
            kept = kept.max(sent.map(|sent| (sent, name)));
            lost = [lost, acked.map(|acked| (acked, name))].into_iter().flatten().min();
        };
        for owner in &self.owners {
            match owner.check(found, crash) {
                Ok(cut) => note(&owner.name, cut.last_kept_sent, cut.first_lost_acked),
                Err(complaint) => complaints.push(complaint),
            }
        }
        for queue in &self.queues {
            match queue.check(found, crash) {
                Ok(evidence) => note(
                    queue.key,
                    evidence.kept_sent.into_iter().max(),
                    evidence.lost_acked.into_iter().min(),
                ),
                Err(complaint) => complaints.push(complaint),
            }
        }
        complaints.extend(self.counter.check(found, crash).err());
        complaints.extend(
            self.readers.iter().chain(&self.listeners).filter_map(|reader| reader.check(found, crash).err()),
        );
        complaints.extend(self.strangers(found));
        if let (Some((sent, keeper)), Some((acked, loser))) = (kept, lost)
            && acked < sent
        {
            complaints.push(format!(
                "not a prefix: what {keeper} sent at {sent} is there, what was acknowledged to {loser} at {acked} is not"
            ));
        }
        complaints
    }

    /// A complaint about keys that no client made.
    fn strangers(&self, found: &Found) -> Option<String> {
        let is_known = |db: u32, key: &str| {
            let (begin, _) = key.split_once(':').unwrap_or((key, ""));
            self.owners.iter().any(|owner| owner.db == db && owner.name == begin)
                || db == queue::DB && (begin == "q" || key == COUNTER)
        };
        let all = found.databases.iter().flat_map(|(db, model)| model.keys().map(move |key| (*db, key)));
        let strange: Vec<String> =
            all.filter(|(db, key)| !is_known(*db, key)).map(|(db, key)| format!("{key} in {db}")).collect();
        (!strange.is_empty()).then(|| format!("keys that nobody made: {}", strange.join(", ")))
    }

    /// Continues from the data that was found, after a [`check`](Self::check) without complaints.
    pub fn adopt(&mut self, found: &Found, crash: Crash) {
        for owner in &mut self.owners {
            let cut = owner.check(found, crash).unwrap_or_default();
            owner.adopt(found, cut);
        }
        self.queues.iter_mut().for_each(|queue| queue.adopt(found));
        self.counter.adopt(found);
        self.readers.iter_mut().chain(&mut self.listeners).for_each(|reader| reader.history.clear());
    }

    /// Number of pushes and increments that were acknowledged after this moment. They always change something.
    pub fn changes_acknowledged_after(&self, moment: Moment) -> usize {
        let workers = self.queues.iter().flat_map(|queue| &queue.workers);
        let pushes =
            workers.flat_map(|worker| &worker.history).filter(|(doing, _)| matches!(doing, Doing::Push(_)));
        let raises = self.counter.raisers.iter().flat_map(|raiser| &raiser.history).map(|(span, _)| span);
        let spans = pushes.map(|(_, span)| span).chain(raises);
        spans.filter(|span| span.acked.is_some_and(|acked| acked > moment)).count()
    }

    /// Number of acknowledged steps, pushes, pops and increments.
    pub fn acknowledged(&self) -> usize {
        let owners = self.owners.iter().flat_map(|owner| &owner.history).map(|(_, span)| span);
        let workers = self.queues.iter().flat_map(|queue| &queue.workers);
        let queues = workers.flat_map(|worker| &worker.history).map(|(_, span)| span);
        let raises = self.counter.raisers.iter().flat_map(|raiser| &raiser.history).map(|(span, _)| span);
        owners.chain(queues).chain(raises).filter(|span| span.acked.is_some()).count()
    }
}
