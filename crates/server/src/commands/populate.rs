//! DEBUG POPULATE on all threads: each makes the keys of the shards at home with it, in slices.
//!
//! Not here: the keys (`populate.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use command::CommandError;
use proactor::ConnId;
use session::Part;

use crate::message::Message;
use crate::populate::{Population, Share};
use crate::thread::{Thread, ThreadHost};

impl ThreadHost {
    /// Lets all threads make keys; the current client is answered when they have.
    pub(crate) fn populate(&mut self, population: Population) {
        let population = Arc::new(population);
        let share = |asker| {
            let population = population.clone();
            Message::Populate(Box::new(Share { population, asker, next: 0, by_shard: Vec::new() }))
        };
        let asked = population.clone();
        self.gather(
            share,
            Box::new(move |_, reply| {
                if asked.lacks_room.load(Ordering::Relaxed) {
                    reply.error(CommandError::OUT_OF_MEMORY.text());
                } else if asked.is_given_up.load(Ordering::Relaxed) {
                    reply.error(b"ERR the keys are not all there, because the client hung up");
                } else {
                    reply.ok();
                }
            }),
        );
    }
}

impl Thread {
    /// Makes some keys of its share, and sends itself the rest of it.
    pub(crate) fn populate(&mut self, mut share: Box<Share>) {
        let population = share.population.clone();
        if share.asker.thread == self.host.id {
            let conn = ConnId::from_bits(share.asker.connection);
            let is_there = self.host.connections.session(conn).is_some_and(|session| !session.has_hung_up);
            population.is_given_up.fetch_or(!is_there, Ordering::Relaxed);
        }
        let is_over = population.is_given_up.load(Ordering::Relaxed) || !population.has_room();
        let is_done = share.next == population.count && share.by_shard.iter().all(Vec::is_empty);
        if is_over || is_done {
            return self.host.mailroom.answer(share.asker, Part::Count(0));
        }
        self.leave_all();
        self.populate_slice(&population, &mut share);
        self.host.mailroom.put_off(Message::Populate(share));
    }

    fn populate_slice(&mut self, population: &Population, share: &mut Share) {
        let shards = &self.host.shared.shards;
        share.by_shard.resize_with(shards.len(), Vec::new);
        if share.by_shard.iter().all(Vec::is_empty) {
            let numbers = population.block_from(share.next);
            share.next = numbers.end;
            population.each_key(numbers, |number, key| {
                let id = shards.placement().shard(key);
                if shards.home(id) == self.host.id {
                    share.by_shard[id.index()].push(number);
                }
            });
        }
        for (id, numbers) in shards.ids().zip(&mut share.by_shard) {
            // A shard that is taken gets its keys in the next slice.
            if numbers.is_empty() || !(self.tx.hold.try_enter(id) || self.tx.hold.wait(id, false)) {
                continue;
            }
            for number in numbers.drain(..) {
                population
                    .each_key(number..number + 1, |number, key| population.make(&mut self.tx, number, key));
            }
            self.tx.finish(&mut self.host);
            self.leave_all();
        }
        self.post_all();
    }
}
