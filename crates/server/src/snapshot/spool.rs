//! The snapshot that replicas begin with: what they read while it is written (`persistence`'s `spool.rs`), and when it may begin.
//!
//! It is saved like any other, so there is one of them all at a time. Who wants one asks whether it [may begin](Shared::may_begin_spool); if not, the
//! message `Snapshot`, which all threads get when a save ends, is a good time to ask again. As in Redis, `SAVE` and `BGSAVE` are refused
//! meanwhile, also with `SCHEDULE`; save points, checkpoints and what was scheduled before wait for its end.
//!
//! Whatever becomes of it, no command is refused because of it.

use std::io;
use std::sync::Arc;

use command::{Task, Wait};
use persistence::{Purpose, Spool};
use rdb::{Encoder, Style, VERSION};
use shard::Hold;

use super::save_settings;
use crate::message::Message;
use crate::shared::Shared;
use process::processors;

/// What replicas are to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpoolSettings {
    /// The libraries of functions without the data.
    pub(crate) only_functions: bool,
    /// Whose stream comes behind it.
    pub(crate) replication_id: [u8; 40],
    /// Where the cut is in that stream.
    pub(crate) offset: u64,
    /// The database that is selected there.
    pub(crate) db: u32,
}

impl SpoolSettings {
    /// What stands in the snapshot.
    pub(super) fn write<W: io::Write>(&self, encoder: &mut Encoder<W>) -> io::Result<()> {
        encoder.aux("repl-stream-db", self.db.to_string().as_bytes())?;
        encoder.aux("repl-id", &self.replication_id)?;
        encoder.aux("repl-offset", self.offset.to_string().as_bytes())
    }
}

impl Shared {
    /// Whether nothing is being saved or loaded. Who holds all shards knows that it stays so.
    pub(crate) fn may_begin_spool(&self) -> bool {
        !self.snapshots.progress.is_loading() && self.snapshots.current().is_none()
    }

    /// Begins what replicas read, from what is there now; all shards are entered, and it [may begin](Self::may_begin_spool). It is written as long as somebody
    /// has it. What goes wrong with its file comes later, as the state of the spool, and is in the log.
    pub(crate) fn begin_spool(
        &'static self,
        hold: &mut Hold<'_, Task, Wait>,
        spool: &SpoolSettings,
    ) -> io::Result<Arc<Spool>> {
        let saved = save_settings(&self.settings, &self.machine.disk);
        let settings = persistence::Settings {
            purpose: Purpose::Replicas,
            // Which Redis 7.0 loads, whatever this server's own snapshots are for.
            style: Style { version: VERSION, ..saved.style },
            has_own_format: false,
            // Nobody waits for its end on the disk.
            begins_early: false,
            ..saved
        };
        let content = match spool.only_functions {
            true => self.content_without_data(Some(spool))?,
            false => self.content(hold, Some(spool))?,
        };
        let tell = || self.broadcast(|| Message::Snapshot);
        let (saving, writer, readers) = self.snapshots.begin_spool(settings, &content, Box::new(tell))?;
        self.snapshots.run_writer(writer, move || processors::place_writer(&self.settings))?;
        if !spool.only_functions {
            self.cut(hold, &saving);
        }
        self.begin_saving(&saving);
        Ok(readers)
    }
}
