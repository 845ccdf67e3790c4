//! What was loaded, on its way to the thread that puts it in its place.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use command::{Garbage, Post, Tx};
use journal::LockedFolder;
use keyspace::{Db, Kind};
use persistence::{Snapshots, StreamId};
use recording::Opened;
use script::LibrarySet;
use scripting::Scripts;
use shard::{Ready, ShardId};

/// What was loaded.
pub(crate) struct Loaded {
    pub(super) data: persistence::Loaded,
    pub(super) libraries: LibrarySet,
    /// No snapshot has it yet.
    pub(super) is_imported: bool,
    /// The journal that goes on from it.
    pub(super) journal: Option<(Arc<LockedFolder>, Opened)>,
    /// Told when it is in its place.
    pub(super) installed: Option<Sender<()>>,
}

impl Loaded {
    /// The database that is selected in the stream that goes on from it, if it says so.
    pub(crate) fn stream_db(&self) -> Option<u32> {
        self.data.stream_db
    }

    /// Which stream goes on from it, at which offset, and which of so many databases is selected in it, if it says so.
    pub(super) fn stream(&self, databases: u32) -> Option<((StreamId, u64), u32)> {
        self.data.stream.zip(self.data.stream_db.filter(|db| *db < databases))
    }

    /// Puts it in the place of everything on the shards, all of which are entered. What is there then is as on the disk.
    pub(crate) fn put_in_place(self, tx: &mut Tx, scripts: &Scripts, snapshots: &Snapshots) {
        let (data, shards) = (self.data, tx.hold.shards());
        assert_eq!(data.dbs.len(), shards.len(), "it was read for these shards");
        for (id, dbs) in shards.ids().zip(data.dbs) {
            for (db, new) in (0..).zip(dbs) {
                replace(tx, id, db, new);
            }
        }
        scripts.libraries.set(self.libraries);
        snapshots.loaded_key_count.store(data.key_count, Ordering::Relaxed);
        snapshots.expired_key_count.store(data.expired_count, Ordering::Relaxed);
        snapshots.note_saved(shards.changes());
    }
}

/// Puts `new` in the place of database `db` on shard `id`. Whoever watches a key of either is told, and whoever waits for a
/// key that is there now is to be served.
fn replace(tx: &mut Tx, id: ShardId, db: u32, new: Db) {
    let placement = tx.hold.shards().placement();
    let shard = tx.hold.shard_mut(id);
    let mut old = new;
    shard.dbs[db as usize].swap(&mut old);
    let new = &shard.dbs[db as usize];
    let has = |part: &Db, key: &[u8]| part.find(placement.hash(key), key).is_some();
    shard.watches.touch_all(db, |key| has(&old, key) || has(new, key));
    for key in shard.waiters.keys(db) {
        let was_lost =
            old.find(placement.hash(key), key).is_some_and(|old| old.value().kind() == Kind::Stream);
        if was_lost || has(new, key) {
            shard.ready.push(Ready { db, key: key.into(), was_lost, has_more: false });
        }
    }
    let has_ready = !shard.ready.is_empty();
    tx.note_ready(has_ready);
    tx.wrote = true;
    if !old.is_empty() || old.is_cut() {
        tx.posts.push(Post::Free(Garbage::Db(Box::new(old))));
    }
}
