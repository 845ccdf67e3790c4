//! DEBUG POPULATE: makes many keys, each thread those of the shards at home with it.
//!
//! Every thread goes through all numbers in blocks, sorts the keys of a block by shard, and then fills one shard after the
//! other, so that a shard is entered once per block. A block is a slice of work: after it the thread serves its clients, and
//! the rest of its share comes back to it as a message.
//!
//! It ends before its end when the client that asked is gone, or has only closed its sending side, and when there is no
//! more room in memory.
//!
//! Not here: when a thread comes to its share (`commands/populate.rs`).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use command::{Change, Client, CommandError, CommandResult, Store, Tx};
use process::system;
use resp::Proto;
use settings::{MAXMEMORY, Settings};
use shard::ShardId;

/// Numbers that are sorted by shard at a time, and bytes of values.
const BLOCK: u64 = 2 * 1024;
const BLOCK_BYTES: u64 = 4 << 20;
/// What a key takes at least beside itself and its value.
const ENTRY_BYTES_MIN: u64 = 16;

/// The keys `prefix:0` to `prefix:count-1`.
#[derive(Debug)]
pub(crate) struct Population {
    pub(crate) db: u32,
    pub(crate) prefix: Vec<u8>,
    pub(crate) count: u64,
    /// The values are cut or filled with zeros to this size.
    pub(crate) value_bytes: Option<usize>,
    /// More memory may not be in use: `maxmemory`, or what the machine has.
    bytes_max: u64,
    /// There was no room for all of them.
    pub(crate) lacks_room: AtomicBool,
    /// Nobody waits for it any more.
    pub(crate) is_given_up: AtomicBool,
}

/// What one thread has left to do of it.
pub(crate) struct Share {
    pub(crate) population: Arc<Population>,
    pub(crate) asker: Client,
    /// The number that comes next.
    pub(crate) next: u64,
    /// Numbers before that whose keys are to be made, by shard.
    pub(crate) by_shard: Vec<Vec<u64>>,
}

impl Population {
    /// Keys to be made; an error if they do not fit into memory, whatever is there already.
    pub(crate) fn new(
        db: u32,
        prefix: &[u8],
        count: u64,
        value_bytes: Option<usize>,
        settings: &Settings,
    ) -> Result<Population, CommandError> {
        let bytes_max = match settings.number(MAXMEMORY) as u64 {
            0 => system::machine_bytes(),
            limit => limit,
        };
        let entry_bytes = ENTRY_BYTES_MIN + (prefix.len() + value_bytes.unwrap_or(0)) as u64;
        if count.saturating_mul(entry_bytes) > bytes_max {
            return Err(CommandError::OUT_OF_MEMORY);
        }
        let (lacks_room, is_given_up) = Default::default();
        Ok(Population { db, prefix: prefix.to_vec(), count, value_bytes, bytes_max, lacks_room, is_given_up })
    }

    /// Makes the keys that lie on `ids`, all of which are entered, in one go.
    pub(crate) fn fill(&self, tx: &mut Tx, ids: &[ShardId]) -> CommandResult {
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

    pub(crate) fn block_from(&self, start: u64) -> Range<u64> {
        start..start.saturating_add(self.block()).min(self.count)
    }

    /// Whether there is room for more.
    pub(crate) fn has_room(&self) -> bool {
        if heap::allocated_bytes() > self.bytes_max {
            self.lacks_room.store(true, Ordering::Relaxed);
        }
        !self.lacks_room.load(Ordering::Relaxed)
    }

    /// Calls `visit` with the keys of these numbers.
    pub(crate) fn each_key(&self, numbers: Range<u64>, mut visit: impl FnMut(u64, &[u8])) {
        let mut key = [&self.prefix, b":".as_slice()].concat();
        let prefix_bytes = key.len();
        let mut digits = itoa::Buffer::new();
        for number in numbers {
            key.truncate(prefix_bytes);
            key.extend_from_slice(digits.format(number).as_bytes());
            visit(number, &key);
        }
    }

    /// Makes one key unless it is there.
    pub(crate) fn make(&self, tx: &mut Tx, number: u64, key: &[u8]) {
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
