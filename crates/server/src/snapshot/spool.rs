//! Begins the snapshot for new replicas, which they read while it is written (`persistence`'s `spool.rs`), when it may
//! begin.
//!
//! It is saved like any other snapshot, and only one snapshot of any kind runs at a time. Before one begins, the caller
//! asks whether it [may begin](Shared::may_begin_spool). If not, it should ask again on the message `Snapshot`, which
//! all threads get when a save ends. As in Redis, `SAVE` and `BGSAVE` (also with `SCHEDULE`) are refused meanwhile.
//! Save points, checkpoints and saves that were scheduled before wait for its end.
//!
//! A failure of it never causes a command to be refused.

use std::io;
use std::sync::Arc;

use engine::{Task, Wait};
use persistence::{Purpose, Spool, save_settings};
use shard::Hold;

use crate::message::Message;
use crate::shared::Shared;
use process::processors;

impl Shared {
    /// Whether no save or load is in progress. While the caller holds all shards, this cannot change.
    pub(crate) fn may_begin_spool(&self) -> bool {
        !self.snapshots.progress.is_loading() && self.snapshots.current().is_none()
    }

    /// Begins a snapshot of the current data for replicas. All shards are entered, and it
    /// [may begin](Self::may_begin_spool). It is written until the last holder drops it. Later errors of its file are
    /// in the spool's state and in the log.
    pub(crate) fn begin_spool(
        &'static self,
        hold: &mut Hold<'_, Task, Wait>,
        content: replication::Content,
    ) -> io::Result<Arc<Spool>> {
        let saved = save_settings(&self.settings, &self.machine.disk);
        let settings = persistence::Settings {
            purpose: Purpose::Replicas,
            style: content.style(saved.style.compresses),
            has_own_format: false,
            // No reader waits for its end on the disk.
            begins_early: false,
            ..saved
        };
        let has_data = content != replication::Content::Functions;
        let content = match has_data {
            true => self.content(hold, Purpose::Replicas)?,
            false => self.content_without_data(Purpose::Replicas)?,
        };
        let tell = || self.broadcast(|| Message::Snapshot);
        let (saving, writer, readers) = self.snapshots.begin_spool(settings, &content, Box::new(tell))?;
        self.snapshots.run_writer(writer, move || processors::place_writer(&self.settings))?;
        if has_data {
            self.cut(hold, &saving);
        }
        self.begin_saving(&saving);
        Ok(readers)
    }
}
