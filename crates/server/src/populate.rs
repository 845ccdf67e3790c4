//! DEBUG POPULATE: makes many keys, each thread those of the shards at home with it.
//!
//! Every thread goes through all numbers in blocks, sorts the keys of a block by shard, and then fills one shard after the
//! other, so that a shard is entered once per block and others get their turn in between.

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
        for start in (0..self.count).step_by(BLOCK as usize) {
            for (number, key) in self.block(start) {
                if ids.contains(&tx.hold.shards().placement().shard(&key)) {
                    self.make(tx, number, &key);
                }
            }
        }
    }

    /// The keys of a block with their numbers.
    fn block(&self, start: u64) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let end = start.saturating_add(BLOCK).min(self.count);
        (start..end)
            .map(|number| (number, [&self.prefix, b":".as_slice(), number.to_string().as_bytes()].concat()))
    }

    /// Makes one key unless it is there.
    fn make(&self, tx: &mut Tx, number: u64, key: &[u8]) {
        let mut store = Store { tx, client: Client::internal(self.db, Proto::Resp2) };
        if store.exists(key) {
            return;
        }
        let mut value = format!("value:{number}").into_bytes();
        if let Some(bytes) = self.value_bytes {
            value.resize(bytes, 0);
        }
        store.set_string(key, &value, None);
        store.touched(key);
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
        let mut by_shard: Vec<Vec<(u64, Vec<u8>)>> = vec![Vec::new(); shards.len()];
        self.leave_all();
        for start in (0..population.count).step_by(BLOCK as usize) {
            for (number, key) in population.block(start) {
                let id = shards.placement().shard(&key);
                if shards.home(id) == self.host.id {
                    by_shard[id.index()].push((number, key));
                }
            }
            for (id, keys) in shards.ids().zip(&mut by_shard).filter(|(_, keys)| !keys.is_empty()) {
                while !self.tx.hold.try_enter(id) && !self.tx.hold.wait(id, true) {
                    // Whoever holds it runs bounded pieces of work.
                }
                for (number, key) in keys.drain(..) {
                    population.make(&mut self.tx, number, &key);
                }
                self.tx.finish(&mut self.host);
                self.leave_all();
            }
            self.post_all();
        }
    }
}
