//! Loaded data on their way to the thread that puts them in place.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use command::{Garbage, Post, Tx, content, ready_after};
use keyspace::{Db, Dbs};
use persistence::{Snapshots, StreamId};
use recording::Begun;
use script::LibrarySet;
use scripting::Scripts;
use shard::ShardId;

/// Loaded data.
pub(crate) struct Loaded {
    pub(super) data: persistence::Loaded,
    pub(super) libraries: LibrarySet,
    /// They came from elsewhere, and are not in a snapshot of this server yet.
    pub(super) is_imported: bool,
    /// The journal that continues from them.
    pub(super) journal: Option<Begun>,
    /// Is sent a message when they are in place.
    pub(super) installed: Option<Sender<()>>,
}

impl Loaded {
    /// The database that is selected in the stream that continues from them, if known.
    pub(crate) fn stream_db(&self) -> Option<u32> {
        self.data.stream_db
    }

    /// The stream that continues from them, its offset, and the database selected in it, if known and one of so many.
    pub(super) fn stream(&self, databases: u32) -> Option<((StreamId, u64), u32)> {
        self.data.stream.zip(self.data.stream_db.filter(|db| *db < databases))
    }

    /// Replaces everything on the shards, all of which are entered. The data are then the same as on the disk.
    pub(crate) fn put_in_place(self, tx: &mut Tx, scripts: &Scripts, snapshots: &Snapshots) {
        let (data, shards) = (self.data, tx.hold.shards());
        assert_eq!(data.dbs.len(), shards.len(), "it was read for these shards");
        for (id, dbs) in shards.ids().zip(data.dbs) {
            put(tx, id, dbs);
        }
        scripts.libraries.set(self.libraries);
        snapshots.loaded_key_count.store(data.key_count, Ordering::Relaxed);
        snapshots.expired_key_count.store(data.expired_count, Ordering::Relaxed);
        snapshots.note_saved(shards.changes());
    }
}

/// Replaces all databases on shard `id`.
fn put(tx: &mut Tx, id: ShardId, mut dbs: Dbs) {
    let was_used = tx.hold.shards().is_used(id);
    for db in 0..dbs.len() {
        // Where neither has anything, nothing changes.
        if dbs.used(db).is_some() || was_used && tx.hold.shard(id).dbs.used(db).is_some() {
            replace(tx, id, db as u32, &mut dbs);
        }
    }
}

/// Replaces database `db` on shard `id` by that of `dbs`. Tells clients that watch a key of either, and serves those
/// that wait for what exists now.
fn replace(tx: &mut Tx, id: ShardId, db: u32, dbs: &mut Dbs) {
    let (placement, now) = (tx.hold.shards().placement(), tx.now);
    let shard = tx.hold.shard_mut(id);
    shard.dbs[db as usize].swap(&mut dbs[db as usize]);
    let old = dbs[db as usize].take();
    let new = &shard.dbs[db as usize];
    let of = |part: &Db, key: &[u8]| content(placement, part, key, now);
    shard.watches.replaced(db, |key| (of(&old, key), of(new, key)));
    let ready = |key: &[u8]| ready_after(placement, db, key, (&old, new));
    shard.ready.extend(shard.waiters.keys(db).filter_map(ready));
    let has_ready = !shard.ready.is_empty();
    tx.note_ready(has_ready);
    tx.wrote = true;
    if !old.is_empty() || old.is_cut() {
        tx.posts.push(Post::Free(Garbage::Db(Box::new(old))));
    }
}
