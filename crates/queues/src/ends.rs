//! The end of a queue from which workers take.

use command::Store;
use ds::Kind;
use ds::list::{End, List};
use ds::queue::Shown;

/// The end of the list at `key` from which elements are taken, as the pops show, or else workers of its job system, or else pushes.
/// The tail if nothing does.
pub fn popping_end(store: &Store, key: &[u8]) -> End {
    let (id, hash) = store.locate(key);
    let of_queue = store.db(id).queues().figures(hash, key).and_then(|figures| figures.known_taken_at());
    let known = of_queue.or_else(|| by_name(store, key)).or_else(|| shown(store, key).taken_at());
    known.unwrap_or(End::Tail)
}

/// The same of a key that need not be there, by nothing but its name.
fn by_name(store: &Store, key: &[u8]) -> Option<End> {
    let (patterns, _) = store.tx.hold.shards().queues().patterns();
    patterns.class_of(key, Kind::List).and_then(|class| class.system.popping_end())
}

/// The end at which jobs join the queue at `key`. If nothing shows it, it is the head from now on.
pub fn coming_end(store: &Store, key: &[u8]) -> End {
    let (id, hash) = store.locate(key);
    if let Some(figures) = store.db(id).queues().figures(hash, key)
        && figures.known_taken_at().is_none()
    {
        figures.settle_taken_at(shown(store, key));
    }
    popping_end(store, key).other()
}

/// How the list at `key` has been used that is not known to be a queue, or was until it had no elements any more.
fn shown(store: &Store, key: &[u8]) -> Shown {
    let list = store.peek_as::<List>(key).ok().flatten().map(|list| list.shown);
    let (id, hash) = store.locate(key);
    let before = || store.db(id).queues().shown_before(hash);
    list.filter(|shown| shown.taken_at().is_some()).unwrap_or_else(before)
}
