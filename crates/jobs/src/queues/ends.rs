//! Finds the end of a queue from which workers take.

use ds::Kind;
use ds::list::End;
use engine::Store;
use keyspace::List;
use keyspace::queue::Shown;

/// The end of the list at `key` from which elements are taken, as shown by pops, or else by the workers of
/// its job system, or else by pushes. The tail if nothing shows it.
pub fn popping_end(store: &Store, key: &[u8]) -> End {
    let (id, hash) = store.locate(key);
    let of_queue = store.db(id).queues().figures(hash, key).and_then(|figures| figures.known_taken_at());
    let known = of_queue.or_else(|| by_name(store, key)).or_else(|| shown(store, key).taken_at());
    known.unwrap_or(End::Tail)
}

/// The end from which workers take, by the name alone: the key need not exist.
fn by_name(store: &Store, key: &[u8]) -> Option<End> {
    let (patterns, _) = store.tx.hold.shards().queues().patterns();
    patterns.class_of(key, Kind::List).and_then(|class| class.system.popping_end())
}

/// The end at which jobs join the queue at `key`. If nothing shows it, it becomes the head.
pub fn coming_end(store: &Store, key: &[u8]) -> End {
    let (id, hash) = store.locate(key);
    if let Some(figures) = store.db(id).queues().figures(hash, key)
        && figures.known_taken_at().is_none()
    {
        figures.settle_taken_at(shown(store, key));
    }
    popping_end(store, key).other()
}

/// The observed use of the list at `key`, which is not known to be a queue. If it shows no end, that of the
/// list that was there until it became empty.
fn shown(store: &Store, key: &[u8]) -> Shown {
    let list = store.peek_as::<List>(key).ok().flatten().map(|list| list.shown());
    let (id, hash) = store.locate(key);
    let before = || store.db(id).queues().shown_before(hash);
    list.filter(|shown| shown.taken_at().is_some()).unwrap_or_else(before)
}
