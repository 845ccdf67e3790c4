//! Background work of threads: expiry, eviction, defragmentation, compressing hashes, freeing large values, and when each of them is due.
//!
//! Each kind of work owns its state, and is given the clock, its settings and the counters that it needs. It enters
//! shards through [`Visits`], by trying, so it never waits and can be tested on a store without a
//! server.
//!
//! Not here: what a thread does in which order (`server`), and snapshots, which have their own slices.

#![forbid(unsafe_code)]

use command::Tx;
use shard::ShardId;

pub mod cron;
pub mod defrag;
pub mod eviction;
pub mod expiry;
pub mod garbage;
pub mod hashes;
pub mod queues;
pub mod timers;

/// How upkeep gets into shards: by trying, and holding no other.
pub trait Visits {
    /// Calls `work` with shard `id` entered, and leaves the shard with all that entails; `None` if it is taken.
    fn visit<R>(&mut self, id: ShardId, work: impl FnOnce(&mut Tx) -> R) -> Option<R>;

    /// The same with several shards, which ascend, entered together: what `work` does there is one transaction. One that
    /// `is_patient` waits longer for each, if no other does.
    fn visit_all<R>(
        &mut self,
        ids: &[ShardId],
        is_patient: bool,
        work: impl FnOnce(&mut Tx) -> R,
    ) -> Option<R>;
}

#[cfg(test)]
mod tests {
    use command::{Client, Local};
    use resp::Proto;

    use super::*;

    /// As the server's, so that what is used is counted.
    #[global_allocator]
    static ALLOCATOR: heap::Allocator = heap::Allocator;

    /// A store without a server, whose shards may all be taken.
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
