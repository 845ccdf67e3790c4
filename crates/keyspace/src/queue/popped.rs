//! Remembers the recent pops of clients, so that the elements can be returned if the clients die (setting
//! `job-recovery`).
//!
//! One log for all queues of a database on one shard, from the oldest pop to the newest. An entry is
//!
//! ```text
//! ┌─────────┬────────┬──────────────────┬───────┬─────────┐
//! │ time u64│ client │ length of queue  │ queue │ element │      little-endian; the rest is the element
//! │         │ u64    │ u16              │       │         │
//! └─────────┴────────┴──────────────────┴───────┴─────────┘
//! ```
//!
//! The element is kept because nothing else has it: the queue gave it away, and the client may be dead. An
//! element that was put back is an entry of client 0. The log is only in memory, compressed in blocks, and no
//! entry is read again unless a client dies.

use std::sync::atomic::Ordering;

use ds::block_log::BlockLog;

use super::known::Known;

/// The most memory for the logs of all databases and shards; beyond that, the oldest entries are dropped.
const POPPED_BYTES_MAX: usize = 256 << 20;
/// [`Known`] is told of changes of memory of at least this size: all threads count there.
const COUNTED_BYTES: usize = 4096;
/// Bytes of an entry before the name of its queue.
const HEAD_BYTES: usize = 18;

/// An element that was popped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pop<'a> {
    /// The time, on the monotonic clock.
    pub at_ms: u64,
    /// The client, by `CLIENT ID`. 0: the element was put back.
    pub client: u64,
    /// The key of the queue.
    pub queue: &'a [u8],
    /// The element.
    pub element: &'a [u8],
}

/// The pops from the queues of a database on one shard.
#[derive(Default)]
pub struct Popped {
    log: BlockLog,
    /// The bytes that [`Known`] has counted for it.
    counted_bytes: usize,
}

impl<'a> Pop<'a> {
    fn decode(entry: &'a [u8]) -> Pop<'a> {
        let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("it is 8 bytes"));
        let queue_len = usize::from(u16::from_le_bytes([entry[16], entry[17]]));
        let (queue, element) = entry[HEAD_BYTES..].split_at(queue_len);
        Pop { at_ms: number(0), client: number(8), queue, element }
    }
}

impl Popped {
    /// Notes a pop, unless the queue's name is longer than 64 KiB.
    pub(super) fn note(&mut self, pop: &Pop<'_>, known: &Known) {
        let Ok(queue_len) = u16::try_from(pop.queue.len()) else { return };
        let (at_ms, client) = (pop.at_ms.to_le_bytes(), pop.client.to_le_bytes());
        self.log.append(pop.at_ms, &[&at_ms, &client, &queue_len.to_le_bytes(), pop.queue, pop.element]);
        if self.log.memory_bytes().abs_diff(self.counted_bytes) < COUNTED_BYTES {
            return;
        }
        self.count(known);
        while known.recovery.popped_bytes.load(Ordering::Relaxed) > POPPED_BYTES_MAX {
            let count = self.log.drop_oldest();
            if count == 0 {
                return;
            }
            known.recovery.forgotten_pops.fetch_add(count, Ordering::Relaxed);
            self.count(known);
        }
    }

    /// Drops the pops before `since_ms`, and compresses the rest.
    pub(super) fn trim(&mut self, since_ms: u64, known: &Known) {
        self.log.drop_before(since_ms);
        self.log.seal();
        self.count(known);
    }

    /// Drops everything.
    pub(super) fn clear(&mut self, known: &Known) {
        known.recovery.popped_bytes.fetch_sub(self.counted_bytes, Ordering::Relaxed);
        *self = Popped::default();
    }

    /// Whether no pop is noted.
    pub(super) fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Shows pops with ascending numbers, beginning at number `from`, in up to `blocks_max` blocks of about 40
    /// pops. Pops from long before `since_ms` are skipped. Returns the number to continue with; `None` at the
    /// end.
    pub fn read(
        &self,
        from: u64,
        since_ms: u64,
        blocks_max: usize,
        mut visit: impl FnMut(u64, Pop<'_>),
    ) -> Option<u64> {
        self.log.read(from, since_ms, blocks_max, |number, entry| visit(number, Pop::decode(entry)))
    }

    fn count(&mut self, known: &Known) {
        let now = self.log.memory_bytes();
        let popped_bytes = &known.recovery.popped_bytes;
        if now >= self.counted_bytes {
            popped_bytes.fetch_add(now - self.counted_bytes, Ordering::Relaxed);
        } else {
            popped_bytes.fetch_sub(self.counted_bytes - now, Ordering::Relaxed);
        }
        self.counted_bytes = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(popped: &Popped) -> Vec<String> {
        let mut all = Vec::new();
        let rest = popped.read(0, 0, usize::MAX, |number, pop| {
            let (queue, element) = (String::from_utf8_lossy(pop.queue), String::from_utf8_lossy(pop.element));
            all.push(format!("{number} {} {} {queue} {element}", pop.at_ms, pop.client));
        });
        assert_eq!(rest, None);
        all
    }

    #[test]
    fn pops_are_kept_for_their_time() {
        let (known, mut popped) = (Known::default(), Popped::default());
        for (at_ms, client, element) in [(1000, 7, "a"), (9000, 0, "b"), (9000, u64::MAX, "")] {
            popped.note(&Pop { at_ms, client, queue: b"queue:q", element: element.as_bytes() }, &known);
            popped.trim(0, &known);
        }
        let all = ["0 1000 7 queue:q a", "1 9000 0 queue:q b", "2 9000 18446744073709551615 queue:q "];
        assert_eq!(shown(&popped), all);
        popped.trim(1001, &known);
        assert_eq!(shown(&popped), all[1..]);
        assert_ne!(known.recovery.popped_bytes.load(Ordering::Relaxed), 0);
        popped.trim(9001, &known);
        assert!(popped.is_empty());
        assert_eq!(known.recovery.popped_bytes.load(Ordering::Relaxed), 0);
    }

    /// The bytes for each of `count` usual jobs, popped on `shards` shards within `seconds`.
    fn bytes_each(count: u64, shards: u64, queues: u64, seconds: u64) -> u64 {
        let known = Known::default();
        let mut all: Vec<Popped> = (0..shards).map(|_| Popped::default()).collect();
        for number in 0..count {
            let at_ms = number * seconds * 1000 / count;
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
            let (queue, client) = (format!("queue:q{}", jid % queues), 1000 + jid % 50);
            let popped = &mut all[(jid % queues % shards) as usize];
            popped.note(&Pop { at_ms, client, queue: queue.as_bytes(), element: payload.as_bytes() }, &known);
            if (number + 1) * seconds / count > number * seconds / count {
                all.iter_mut().for_each(|popped| popped.trim(0, &known));
            }
        }
        all.iter().map(|popped| popped.log.memory_bytes() as u64).sum::<u64>() / count
    }

    #[test]
    fn a_pop_takes_little_in_one_queue_and_in_many() {
        for (count, shards, queues, seconds) in [
            (20_000, 1, 1, 25),
            (2000, 64, 200, 1),
            (2000, 64, 200, 25),
            (20_000, 128, 20_000, 25),
            (250, 1, 1, 25),
        ] {
            let each = bytes_each(count, shards, queues, seconds);
            assert!(
                each <= 120,
                "{each} bytes for each of {count} jobs of {queues} queues on {shards} shards in {seconds} s"
            );
        }
    }
}
