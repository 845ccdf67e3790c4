//! What clients popped from queues lately, so that it can be given back if they die (setting `job-recovery`).
//!
//! ```text
//!   log    oldest ──────────────▶ newest     a list, whose inner nodes are compressed as those of a queue are
//!          time, client, queue, element
//!   held   what was in the log for its time, and whose client is gone by now
//! ```
//!
//! An entry leaves the log after [`LOGGED_MS`]. If its client is gone by then, it is held until it is decided what became of it, unless the
//! same job is popped by a client that is still there.
//!
//! The payload is kept, as nobody else has it: the queue gave it away, and the client may be dead. In memory only.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use ds::list::{End, List, ListLimits};

use super::known::Known;

/// How long a pop is in the log: two heartbeats of Sidekiq's, and some time for them to be late.
pub const LOGGED_MS: u64 = 25_000;
/// How long it is held then. A heartbeat that failed is noticed after a minute.
const HELD_MS: u64 = 150_000;
/// Pops that are held on a shard.
const HELD_MAX: usize = 100_000;
/// What all logs may take, with what is held; beyond, the oldest entries go.
const POPPED_BYTES_MAX: usize = 256 << 20;
/// Bytes of an entry before the name of its queue: time, client, length of that name.
const HEAD_BYTES: usize = 18;
/// What a held entry takes beside its texts, about.
const HELD_BYTES: usize = 96;

/// An element that was popped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pop<'a> {
    /// When, on the clock that does not jump.
    pub at_ms: u64,
    /// By whom: `CLIENT ID`. 0: it was put back.
    pub client: u64,
    /// The key of the queue.
    pub queue: &'a [u8],
    /// The element.
    pub element: &'a [u8],
}

/// Finds the id of a job in its payload.
pub type IdOf = fn(&[u8]) -> Option<Cow<'_, [u8]>>;

/// What was popped from the queues of a database on one shard.
#[derive(Default)]
pub struct Popped {
    log: List,
    /// By job. Encoded as in the log.
    held: BTreeMap<Box<[u8]>, Box<[u8]>>,
    held_bytes: usize,
    /// What [`Known`] counts of it.
    counted_bytes: usize,
}

impl<'a> Pop<'a> {
    fn encode(&self) -> Vec<u8> {
        let queue_len = u16::try_from(self.queue.len()).unwrap_or(u16::MAX).to_le_bytes();
        let (at_ms, client) = (self.at_ms.to_le_bytes(), self.client.to_le_bytes());
        [&at_ms[..], &client, &queue_len, self.queue, self.element].concat()
    }

    fn decode(entry: &'a [u8]) -> Pop<'a> {
        let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("it is 8 bytes"));
        let queue_len = usize::from(u16::from_le_bytes([entry[16], entry[17]]));
        let (queue, element) = entry[HEAD_BYTES..].split_at(queue_len);
        Pop { at_ms: number(0), client: number(8), queue, element }
    }
}

/// What tells a job from others: its id, or all of its payload.
fn job_of<'a>(element: &'a [u8], id_of: IdOf) -> Cow<'a, [u8]> {
    id_of(element).unwrap_or(Cow::Borrowed(element))
}

impl Popped {
    /// Notes a pop. One from a queue with a name of more than 64 KiB is not noted.
    pub(super) fn note(&mut self, pop: &Pop<'_>, limits: &ListLimits, known: &Known) {
        if pop.queue.len() > usize::from(u16::MAX) {
            return;
        }
        self.log.push(End::Tail, &pop.encode());
        self.log.compress_inner(limits);
        self.count(known);
        while known.popped_bytes.load(Ordering::Relaxed) > POPPED_BYTES_MAX && self.log.len() > 1 {
            self.log.pop_with(End::Head, |_| ());
            known.popped_forgotten.fetch_add(1, Ordering::Relaxed);
            self.count(known);
        }
    }

    /// Takes out of the log what has been there for its time, and holds that of clients that are gone.
    pub(super) fn trim(&mut self, now_ms: u64, is_gone: &dyn Fn(u64) -> bool, id_of: IdOf, known: &Known) {
        while self.log.peek(End::Head).is_some_and(|entry| Pop::decode(entry).at_ms + LOGGED_MS < now_ms) {
            let Some(entry) = self.log.pop(End::Head) else { break };
            let pop = Pop::decode(&entry);
            if !is_gone(pop.client) {
                if !self.held.is_empty() {
                    let job = job_of(pop.element, id_of).into_owned();
                    self.release(&job);
                }
            } else if self.held.len() < HELD_MAX {
                let job: Box<[u8]> = job_of(pop.element, id_of).into();
                self.release(&job);
                self.held_bytes += job.len() + entry.len() + HELD_BYTES;
                self.held.insert(job, entry.into());
            } else {
                known.popped_forgotten.fetch_add(1, Ordering::Relaxed);
            }
        }
        let held_bytes = &mut self.held_bytes;
        self.held.retain(|job, entry| {
            let stays = Pop::decode(entry).at_ms + HELD_MS >= now_ms;
            *held_bytes -= if stays { 0 } else { job.len() + entry.len() + HELD_BYTES };
            stays
        });
        if self.log.is_empty() {
            self.log = List::new();
        }
        self.count(known);
    }

    fn release(&mut self, job: &[u8]) {
        if let Some((job, entry)) = self.held.remove_entry(job) {
            self.held_bytes -= job.len() + entry.len() + HELD_BYTES;
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self, known: &Known) {
        known.popped_bytes.fetch_sub(self.counted_bytes, Ordering::Relaxed);
        *self = Popped::default();
    }

    /// Whether nothing is noted.
    pub fn is_empty(&self) -> bool {
        self.log.is_empty() && self.held.is_empty()
    }

    /// Shows all pops: those that are held, and the others from the oldest to the newest.
    pub fn for_each(&self, mut visit: impl FnMut(Pop<'_>)) {
        self.held.values().for_each(|entry| visit(Pop::decode(entry)));
        self.log.iter(0, false).for_each(|entry| visit(Pop::decode(&entry)));
    }

    /// What it takes.
    pub fn memory_bytes(&self) -> usize {
        if self.is_empty() { 0 } else { self.log.memory_bytes() + self.held_bytes }
    }

    fn count(&mut self, known: &Known) {
        let (before, now) = (self.counted_bytes, self.memory_bytes());
        if now >= before {
            known.popped_bytes.fetch_add(now - before, Ordering::Relaxed);
        } else {
            known.popped_bytes.fetch_sub(before - now, Ordering::Relaxed);
        }
        self.counted_bytes = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ListLimits = ListLimits { nodes_min: 16, plain_nodes: 64, plain_part: 64 };

    fn id_of(element: &[u8]) -> Option<Cow<'_, [u8]>> {
        element.split(|byte| *byte == b'.').next().map(Cow::Borrowed)
    }

    fn note(popped: &mut Popped, known: &Known, at_ms: u64, client: u64, element: &str) {
        let pop = Pop { at_ms, client, queue: b"queue:a", element: element.as_bytes() };
        popped.note(&pop, &LIMITS, known);
    }

    fn shown(popped: &Popped) -> Vec<String> {
        let mut all = Vec::new();
        popped.for_each(|pop| all.push(format!("{} {}", pop.client, String::from_utf8_lossy(pop.element))));
        all
    }

    #[test]
    fn what_clients_popped_that_are_gone_is_held_unless_it_was_popped_again() {
        let (known, mut popped) = (Known::default(), Popped::default());
        note(&mut popped, &known, 1000, 1, "a.1");
        note(&mut popped, &known, 2000, 2, "b.1");
        note(&mut popped, &known, 3000, 1, "c.1");
        note(&mut popped, &known, 4000, 2, "a.2");
        let trim = |popped: &mut Popped, now_ms| popped.trim(now_ms, &|client| client == 1, id_of, &known);
        trim(&mut popped, 26_000);
        assert_eq!(shown(&popped), ["1 a.1", "2 b.1", "1 c.1", "2 a.2"]);
        trim(&mut popped, 28_001);
        assert_eq!(shown(&popped), ["1 a.1", "1 c.1", "2 a.2"]);
        trim(&mut popped, 29_001);
        assert_eq!(shown(&popped), ["1 c.1"], "a is done: who popped it again lives");
        assert!(popped.memory_bytes() > 0);
        trim(&mut popped, 3000 + HELD_MS);
        assert_eq!(shown(&popped), ["1 c.1"]);
        trim(&mut popped, 3001 + HELD_MS);
        assert!(popped.is_empty());
        assert_eq!(known.popped_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn jobs_of_the_usual_kind_take_little() {
        let (known, mut popped) = (Known::default(), Popped::default());
        let count = 20_000;
        for number in 0_u64..count {
            let jid = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let payload = format!(
                "{{\"retry\":true,\"queue\":\"default\",\"class\":\"HardWorker\",\"args\":[{number},\"user\"],\"jid\":\"{jid:016x}{:08x}\",\
                 \"created_at\":1700000{:03}.{:06},\"enqueued_at\":1700000{:03}.{:06}}}",
                jid as u32 ^ 0x5a5a,
                number % 1000,
                jid % 1_000_000,
                number % 1000,
                jid % 999_983
            );
            note(&mut popped, &known, number, number % 50, &payload);
        }
        let each = popped.memory_bytes() as u64 / count;
        assert!(each <= 120, "{each} bytes for each job");
    }
}
