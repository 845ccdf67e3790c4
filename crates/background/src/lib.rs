//! Background work of threads: expiry, eviction, defragmentation, compressing hashes and lists, freeing large
//! values, shares of a snapshot, and when each of them is due.
//!
//! Each kind of work owns its state, and is given the clock, settings and counters that it needs. It enters
//! shards through [`Visits`], by trying, so it never waits and can be tested on a store without a server.
//!
//! Not here: the order of the work in a thread (`server`).

#![forbid(unsafe_code)]

use engine::Tx;
use shard::ShardId;

pub mod cron;
pub mod defrag;
pub mod eviction;
pub mod expiry;
pub mod garbage;
pub mod hashes;
pub mod lists;
pub mod snapshot;

/// How upkeep enters shards: by trying, and holding no other.
pub trait Visits {
    /// Enters shard `id`, reads the clock, calls `work`, and leaves the shard with all that this entails. Returns
    /// `None` if the shard is taken.
    fn visit<R>(&mut self, id: ShardId, work: impl FnOnce(&mut Tx) -> R) -> Option<R>;

    /// Enters several shards, whose ids must ascend, reads the clock, and calls `work`, which is one transaction on all
    /// of them. Returns `None` if one is taken. With `is_patient` it waits longer for each, unless another
    /// thread is already waiting patiently.
    fn visit_all<R>(
        &mut self,
        ids: &[ShardId],
        is_patient: bool,
        work: impl FnOnce(&mut Tx) -> R,
    ) -> Option<R>;
}

#[cfg(test)]
mod tests {
    use engine::{Client, Local};
    use resp::Proto;

    use super::*;

    /// The server's allocator, so that used memory is counted.
    #[global_allocator]
    static ALLOCATOR: heap::Allocator = heap::Allocator;

    /// A store without a server; all of its shards can be made to appear taken.
    pub(crate) struct Alone {
        pub(crate) local: Local,
        pub(crate) is_taken: bool,
    }

    impl Alone {
        pub(crate) fn new() -> Alone {
            Alone { local: Local::new(commands::FAMILIES), is_taken: false }
        }

        pub(crate) fn shards(&mut self) -> impl Iterator<Item = ShardId> + use<> {
            let client = Client::internal(0, Proto::Resp2);
            let ids: Vec<ShardId> =
                self.local.with_store(client, |store| store.tx.hold.shards().ids().collect());
            ids.into_iter()
        }
    }

    impl Visits for Alone {
        fn visit<R>(&mut self, _id: ShardId, work: impl FnOnce(&mut Tx) -> R) -> Option<R> {
            let client = Client::internal(0, Proto::Resp2);
            (!self.is_taken).then(|| self.local.with_store(client, |store| work(store.tx)))
        }

        fn visit_all<R>(
            &mut self,
            ids: &[ShardId],
            _is_patient: bool,
            work: impl FnOnce(&mut Tx) -> R,
        ) -> Option<R> {
            self.visit(*ids.first()?, work)
        }
    }
}
