//! The snapshot: the file `dbfilename` in `dir`, in Redis' dump format.
//!
//! `save.rs` writes it while all shards are held, `load.rs` reads it before the first client is served. Here is what is known
//! of both, and what happens at the end of the server.

mod load;
mod save;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use command::{Task, Wait};
use shard::{Hold, ShardId};

use crate::error::Error;
use crate::settings::SAVE;
use crate::shared::Shared;

/// What is known of snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    /// In seconds since 1970: of the last save, or of the start.
    last_save_seconds: AtomicU64,
    /// How many changes there had been at the last save, or when the snapshot was loaded.
    changes_saved: AtomicU64,
    pub(crate) save_count: AtomicU64,
    pub(crate) last_failed: AtomicBool,
    pub(crate) loaded_key_count: AtomicU64,
    pub(crate) expired_key_count: AtomicU64,
    /// What is new is saved when the threads have ended.
    saves_at_end: AtomicBool,
}

impl Snapshots {
    /// None so far.
    pub(crate) fn new(now_ms: u64) -> Snapshots {
        Snapshots {
            last_save_seconds: AtomicU64::new(now_ms / 1000),
            changes_saved: AtomicU64::new(0),
            save_count: AtomicU64::new(0),
            last_failed: AtomicBool::new(false),
            loaded_key_count: AtomicU64::new(0),
            expired_key_count: AtomicU64::new(0),
            saves_at_end: AtomicBool::new(false),
        }
    }

    /// When the last save was done, in seconds since 1970; when the server started before there was one.
    pub(crate) fn last_save_seconds(&self) -> u64 {
        self.last_save_seconds.load(Ordering::Relaxed)
    }

    /// How many of `changes` in all came after the last save.
    pub(crate) fn changes_since(&self, changes: u64) -> u64 {
        changes - self.changes_saved.load(Ordering::Relaxed)
    }

    /// Takes note that all of `changes` are on disk.
    fn note_saved(&self, changes: u64) {
        self.changes_saved.store(changes, Ordering::Relaxed);
    }

    /// What is not on disk when the threads have ended is to be saved then.
    pub(crate) fn save_at_end(&self) {
        self.saves_at_end.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    /// Whether a server that ends saves unless it is told otherwise.
    pub(crate) fn has_save_points(&self) -> bool {
        self.settings.is_on(SAVE)
    }

    /// Changes on all shards, which are entered.
    fn changes(&self, hold: &Hold<'_, Task, Wait>) -> u64 {
        self.shards.ids().map(|id| hold.shard(id).stats.changes).sum()
    }

    /// Saves at the end of the server, when its threads have ended, if that was asked for and there is something new.
    pub(crate) fn end(&self) -> Result<(), Error> {
        if !self.snapshots.saves_at_end.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut hold = Hold::new(&self.shards);
        let ids: Vec<ShardId> = self.shards.ids().collect();
        hold.try_enter_all(&ids, true).expect("a thread that ended holds nothing");
        if self.snapshots.changes_since(self.changes(&hold)) == 0 {
            return Ok(());
        }
        self.save(&hold)
    }
}
