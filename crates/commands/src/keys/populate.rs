//! DEBUG POPULATE: creates many keys. Each thread creates those of its home shards.
//!
//! Every thread goes through all numbers in blocks, sorts the keys of a block by shard, and fills one shard after the
//! other, so that it enters a shard once per block. A block is a slice of work: after it the thread serves its clients,
//! and the rest of its share comes back to it as a message.
//!
//! The work stops early when the client that asked has gone or closed its sending side, and when memory is full.
//!
//! Not here: when a thread gets to its share (`server`).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Change, Client, CommandError, CommandResult, Shards, Store, Tx};
use resp::Proto;
use shard::ShardId;

/// The size of a block: numbers, and bytes of values.
const BLOCK: u64 = 2 * 1024;
const BLOCK_BYTES: u64 = 4 << 20;
/// The least memory that a key takes in addition to its name and its value.
const ENTRY_BYTES_MIN: u64 = 16;

/// The keys `prefix:0` to `prefix:count-1`.
#[derive(Debug)]
pub struct Population {
    db: u32,
    prefix: Vec<u8>,
    count: u64,
    /// The size to which values are cut or padded with zeros.
    pub value_bytes: Option<usize>,
    /// The most memory that may be in use: `maxmemory`, or the memory of the machine.
    bytes_max: u64,
    /// Whether not all keys fit into memory.
    lacks_room: AtomicBool,
    /// Whether the client no longer waits for the result.
    is_given_up: AtomicBool,
}

/// The remaining work of one thread.
pub struct Share {
    population: Arc<Population>,
    /// The client that waits for the result.
    pub asker: Client,
    /// The next number.
    next: u64,
    /// Smaller numbers whose keys are yet to be created, by shard.
    by_shard: Vec<Vec<u64>>,
}

impl Share {
    /// All the work of one thread.
    pub fn new(population: Arc<Population>, asker: Client) -> Share {
        Share { population, asker, next: 0, by_shard: Vec::new() }
    }

    /// The client no longer waits for the result: makes all threads stop.
    pub fn give_up(&self) {
        self.population.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Whether nothing is left to do, or nothing more can be done.
    pub fn is_over(&self) -> bool {
        let is_done = self.next == self.population.count && self.by_shard.iter().all(Vec::is_empty);
        self.population.is_given_up() || !self.population.has_room() || is_done
    }

    /// Creates the keys of one block in the home shards of `thread`. `visit` enters a shard and calls its argument, or
    /// returns false if the shard is taken; then the keys are created in the next slice.
    pub fn make_slice(
        &mut self,
        shards: &Shards,
        thread: u16,
        mut visit: impl FnMut(ShardId, &mut dyn FnMut(&mut Tx)) -> bool,
    ) {
        let population = &*self.population;
        self.by_shard.resize_with(shards.len(), Vec::new);
        if self.by_shard.iter().all(Vec::is_empty) {
            let numbers = population.block_from(self.next);
            self.next = numbers.end;
            population.each_key(numbers, |number, key| {
                let id = shards.placement().shard(key);
                if shards.home(id) == thread {
                    self.by_shard[id.index()].push(number);
                }
            });
        }
        for (id, numbers) in shards.ids().zip(&mut self.by_shard).filter(|(_, numbers)| !numbers.is_empty()) {
            let is_made = visit(id, &mut |tx| {
                for number in &*numbers {
                    population.each_key(*number..number + 1, |number, key| population.make(tx, number, key));
                }
            });
            if is_made {
                numbers.clear();
            }
        }
    }
}

impl Population {
    /// The keys to create; an error if they cannot fit into `bytes_max` even in an empty server.
    pub fn new(
        db: u32,
        prefix: &[u8],
        count: u64,
        value_bytes: Option<usize>,
        bytes_max: u64,
    ) -> Result<Population, CommandError> {
        let entry_bytes = ENTRY_BYTES_MIN + (prefix.len() + value_bytes.unwrap_or(0)) as u64;
        if count.saturating_mul(entry_bytes) > bytes_max {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        let (lacks_room, is_given_up) = Default::default();
        Ok(Population { db, prefix: prefix.to_vec(), count, value_bytes, bytes_max, lacks_room, is_given_up })
    }

    /// Creates the keys in the shards `ids`, which are all entered at once.
    pub fn fill(&self, tx: &mut Tx, ids: &[ShardId]) -> CommandResult {
        let placement = tx.hold.shards().placement();
        for start in (0..self.count).step_by(self.block() as usize) {
            if !self.has_room() {
                return Err(CommandError::OUT_OF_MEMORY);
            }
            self.each_key(self.block_from(start), |number, key| {
                if ids.contains(&placement.shard(key)) {
                    self.make(tx, number, key);
                }
            });
        }
        Ok(())
    }

    fn block(&self) -> u64 {
        BLOCK_BYTES.checked_div(self.value_bytes.unwrap_or(0) as u64).unwrap_or(BLOCK).clamp(1, BLOCK)
    }

    fn block_from(&self, start: u64) -> Range<u64> {
        start..start.saturating_add(self.block()).min(self.count)
    }

    /// Whether not all keys fit into memory.
    pub fn lacks_room(&self) -> bool {
        self.lacks_room.load(Ordering::Relaxed)
    }

    /// Whether it was [given up](Share::give_up).
    pub fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    /// Whether memory has room for more.
    fn has_room(&self) -> bool {
        if heap::counted_bytes() > self.bytes_max {
            self.lacks_room.store(true, Ordering::Relaxed);
        }
        !self.lacks_room()
    }

    /// Calls `visit` with the keys of these numbers.
    fn each_key(&self, numbers: Range<u64>, mut visit: impl FnMut(u64, &[u8])) {
        let mut key = [&self.prefix, b":".as_slice()].concat();
        let prefix_bytes = key.len();
        let mut digits = itoa::Buffer::new();
        for number in numbers {
            key.truncate(prefix_bytes);
            key.extend_from_slice(digits.format(number).as_bytes());
            visit(number, &key);
        }
    }

    /// Creates one key, unless it exists.
    fn make(&self, tx: &mut Tx, number: u64, key: &[u8]) {
        let mut store = Store::new(tx, Client::internal(self.db, Proto::Resp2));
        if store.exists(key) {
            return;
        }
        let mut value = b"value:".to_vec();
        value.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        if let Some(bytes) = self.value_bytes {
            value.resize(bytes, 0);
        }
        store.set_string(key, &value, None);
        store.changed(key, Change::UNNAMED, &[b"SET", key, &value]);
    }
}

#[cfg(test)]
mod tests {
    use engine::Local;

    use super::*;

    #[test]
    fn a_share_is_made_block_by_block_and_what_is_taken_comes_later() {
        let mut local = Local::new(crate::FAMILIES);
        let client = Client::internal(0, Proto::Resp2);
        let (lacks_room, is_given_up) = Default::default();
        let population = Arc::new(Population {
            db: 0,
            prefix: b"key".to_vec(),
            count: 2 * BLOCK + 1,
            value_bytes: None,
            bytes_max: u64::MAX,
            lacks_room,
            is_given_up,
        });
        let mut share = Share::new(population.clone(), client);
        let mut slice = |share: &mut Share, is_taken: bool| {
            local.with_store(client, |store| {
                let tx = &mut *store.tx;
                let (shards, taken) = (tx.hold.shards(), is_taken.then_some(ShardId(0)));
                share.make_slice(shards, 0, |id, work| {
                    let is_free = taken != Some(id);
                    if is_free {
                        work(tx);
                    }
                    is_free
                });
                let sizes = shards.ids().map(|id| tx.hold.shard(id).dbs[0].len() as u64);
                sizes.sum::<u64>()
            })
        };
        let first = slice(&mut share, true);
        assert!(0 < first && first < BLOCK, "a part of the first block");
        assert_eq!(slice(&mut share, false), BLOCK, "the rest of it");
        assert_eq!(slice(&mut share, false), 2 * BLOCK);
        assert!(!share.is_over());
        assert_eq!(slice(&mut share, false), 2 * BLOCK + 1);
        assert!(share.is_over());
        let another = Share::new(population, client);
        assert!(!another.is_over());
        share.give_up();
        assert!(another.is_over(), "of all threads");
    }
}
