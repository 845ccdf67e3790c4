//! DEBUG POPULATE: makes many keys, each thread those of the shards at home with it.
//!
//! Every thread goes through all numbers in blocks, sorts the keys of a block by shard, and then fills one shard after the
//! other, so that a shard is entered once per block and others get their turn in between.

use std::ops::Range;
use std::sync::Arc;

use command::{Client, Store, Tx};
use resp::Proto;
use shard::ShardId;

use crate::gather::Part;
use crate::thread::{Thread, ThreadHost};

/// Numbers that are sorted by shard at a time.
const BLOCK: u64 = 16 * 1024;

/// The keys `prefix:0` to `prefix:count-1`.
#[derive(Debug)]
pub(crate) struct Population {
    pub(crate) db: u32,
    pub(crate) prefix: Vec<u8>,
    pub(crate) count: u64,
    /// The values are cut or filled with zeros to this size.
    pub(crate) value_bytes: Option<usize>,
}

impl Population {
    /// Makes the keys that lie on `ids`, all of which are entered.
    pub(crate) fn fill(&self, tx: &mut Tx, ids: &[ShardId]) {
        let placement = tx.hold.shards().placement();
        self.each_key(0..self.count, |number, key| {
            if ids.contains(&placement.shard(key)) {
                self.make(tx, number, key);
            }
        });
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

    /// Makes one key unless it is there.
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
        store.touched(key, 1);
        if store.records_effects(key) {
            store.effect(key, &[b"SET", key, &value]);
        }
    }
}

impl ThreadHost {
    /// Lets all threads make keys; the current client is answered when they have.
    pub(crate) fn populate(&mut self, population: Population) {
        let population = Arc::new(population);
        self.ask(
            Arc::new(move |thread: &mut Thread| {
                thread.populate(&population);
                Part::Count(0)
            }),
            Box::new(|_, reply| reply.ok()),
        );
    }
}

impl Thread {
    fn populate(&mut self, population: &Population) {
        let shards = &self.host.shared.shards;
        let mut by_shard: Vec<Vec<u64>> = vec![Vec::new(); shards.len()];
        self.leave_all();
        for start in (0..population.count).step_by(BLOCK as usize) {
            let end = start.saturating_add(BLOCK).min(population.count);
            population.each_key(start..end, |number, key| {
                let id = shards.placement().shard(key);
                if shards.home(id) == self.host.id {
                    by_shard[id.index()].push(number);
                }
            });
            for (id, numbers) in shards.ids().zip(&mut by_shard).filter(|(_, numbers)| !numbers.is_empty()) {
                while !self.tx.hold.try_enter(id) && !self.tx.hold.wait(id, true) {
                    // Whoever holds it runs bounded pieces of work, unless it waits for a shard that this thread keeps.
                    self.drain_kept();
                }
                for number in numbers.drain(..) {
                    population.each_key(number..number + 1, |number, key| {
                        population.make(&mut self.tx, number, key)
                    });
                }
                self.tx.finish(&mut self.host);
                self.leave_all();
            }
            self.post_all();
        }
    }
}
