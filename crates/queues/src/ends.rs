//! The end of a queue from which workers take.

use command::Store;
use ds::Kind;
use ds::list::End;

/// The end of the list at `key` from which elements are taken, as the pops show, or else as workers of its job system
/// do. The tail if the list is no queue.
pub fn popping_end(store: &Store, key: &[u8]) -> End {
    let (id, hash) = store.locate(key);
    store.db(id).queues().figures(hash, key).map_or_else(|| by_name(store, key), |figures| figures.taken_at())
}

/// The same of a key that is not there, so that nothing is known of it but its name.
fn by_name(store: &Store, key: &[u8]) -> End {
    let (patterns, _) = store.tx.hold.shards().queues().patterns();
    patterns.class_of(key, Kind::List).map_or(End::Tail, |class| class.system.popping_end())
}

/// The other end.
pub fn opposite(end: End) -> End {
    match end {
        End::Head => End::Tail,
        End::Tail => End::Head,
    }
}
