//! Carries loaded data to the thread that puts them in place.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use effectlog::StreamPosition;
use engine::{Tx, replace_dbs};
use lua::LibrarySet;
use persistence::{Snapshots, StreamId};
use replication::log::Begun;
use scripting::Scripts;

/// Loaded data.
pub(crate) struct Loaded {
    pub(super) data: persistence::Loaded,
    pub(super) libraries: LibrarySet,
    /// Whether they came from elsewhere and are not in a snapshot of this server yet.
    pub(super) is_imported: bool,
    /// The journal that continues from them.
    pub(super) journal: Option<Begun>,
    /// The receiver of a message when they are in place.
    pub(super) installed: Option<Sender<()>>,
}

impl Loaded {
    /// The database selected in the stream that continues from them, if known.
    pub(crate) fn stream_db(&self) -> Option<u32> {
        self.data.stream_db
    }

    /// The stream that continues from them, its offset, and the database selected in it, if known and below
    /// `databases`.
    pub(super) fn stream(&self, databases: u32) -> Option<((StreamId, StreamPosition), u32)> {
        self.data.stream.zip(self.data.stream_db.filter(|db| *db < databases))
    }

    pub(super) fn has_data(&self) -> bool {
        self.data.key_count > 0
    }

    /// Replaces everything on the shards, all of which are entered. The data are the same as on disk afterwards.
    pub(crate) fn put_in_place(self, tx: &mut Tx, scripts: &Scripts, snapshots: &Snapshots) {
        let (data, shards) = (self.data, tx.hold.shards());
        assert_eq!(data.dbs.len(), shards.len(), "it was read for these shards");
        for (id, dbs) in shards.ids().zip(data.dbs) {
            replace_dbs(tx, id, dbs);
        }
        scripts.libraries.set(self.libraries);
        snapshots.loaded_key_count.store(data.key_count, Ordering::Relaxed);
        snapshots.expired_key_count.store(data.expired_count, Ordering::Relaxed);
        snapshots.note_saved(shards.changes());
    }
}
