//! What a thread does beside commands: expiry, eviction, defragmentation, and what is due at a time.
//!
//! Not here: snapshots (`snapshot/`), which have their own slices.

use command::Tx;
use shard::ShardId;

mod background;
pub(crate) mod cron;
pub(crate) mod defrag;
pub(crate) mod eviction;
mod expiry;
pub(crate) mod garbage;
pub(crate) mod timers;

/// How upkeep gets into shards: one at a time, by trying, and holding no other.
pub(crate) trait Visits {
    /// Calls `work` with shard `id` entered, and leaves the shard with all that entails; `None` if it is taken.
    fn visit<R>(&mut self, id: ShardId, work: impl FnOnce(&mut Tx) -> R) -> Option<R>;
}

#[cfg(test)]
mod tests {
    use command::{Client, Local};
    use resp::Proto;

    use super::*;

    /// A store without a server, whose shards may all be taken.
    pub(super) struct Alone {
        pub(super) local: Local,
        pub(super) is_taken: bool,
    }

    impl Alone {
        pub(super) fn new() -> Alone {
            Alone { local: Local::new(commands::FAMILIES), is_taken: false }
        }

        pub(super) fn shards(&mut self) -> impl Iterator<Item = ShardId> + use<> {
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
    }
}
