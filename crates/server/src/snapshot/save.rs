//! Writing the snapshot, all at once.
//!
//! It is written to files of its own in the same directory, made durable, and only then renamed, so that whatever happens
//! there is a whole snapshot, the old one or the new one (`output.rs`).

use std::io;
use std::sync::atomic::Ordering;

use command::{Task, Wait};
use commands::keys::encoded;
use keyspace::access::lru_clock;
use keyspace::{Lfu, Marks, RecordRef, UnixMs};
use rdb::{Encoder, ValueType};
use shard::Hold;

use super::aof::STATE_AUX;
use super::output::{Form, Output};
use crate::error::Error;
use crate::scripts::roamed::ROAMED_AUX;
use crate::settings::DBFILENAME;
use crate::shared::Shared;
use crate::upkeep::eviction::Rank;
use crate::version::{DARTER_VERSION, REDIS_VERSION};

/// What is saved of how much a key is used: as much as the policy wants to know.
#[derive(Clone, Copy)]
pub(super) struct Usage {
    is_idle_wanted: bool,
    lfu: Option<Lfu>,
    now: UnixMs,
}

impl Usage {
    /// Writes it before the key.
    fn encode<W: io::Write>(self, record: RecordRef<'_>, encoder: &mut Encoder<W>) -> io::Result<()> {
        match self.lfu {
            Some(lfu) => encoder.frequency(lfu.counter(record.access(), self.now)),
            None if self.is_idle_wanted => encoder.idle(record.idle_seconds(lru_clock(self.now)).into()),
            None => Ok(()),
        }
    }
}

impl Shared {
    /// Saves a snapshot; all shards are entered. What is being saved in the background is given up: it is older.
    pub(crate) fn save(&'static self, hold: &Hold<'_, Task, Wait>) -> Result<(), Error> {
        self.snapshots.give_up("another save overtook it");
        if !self.is_simulated() {
            self.snapshots.await_room();
        }
        let clock = &self.machine.clock;
        let started_ms = clock.now_ms();
        let mut output = Output::new(self, Form::wanted(self, started_ms), false);
        let saved = self.write(hold, started_ms, &mut output).and_then(|()| output.complete(None));
        output.discard();
        self.snapshots.keys_to_write.store(0, Ordering::Relaxed);
        match saved {
            Ok((bytes, name)) => {
                let now_ms = clock.now_ms();
                let took_ms = now_ms.saturating_sub(started_ms);
                tracing::info!("DB saved on disk: {bytes} bytes in {name}, {took_ms} ms");
                self.snapshots.note_saved(self.changes());
                self.snapshots.last_save_seconds.store(now_ms / 1000, Ordering::Relaxed);
                self.snapshots.save_count.fetch_add(1, Ordering::Relaxed);
                self.snapshots.last_failed.store(false, Ordering::Relaxed);
                Ok(())
            }
            Err(source) => {
                let name = self.settings.text(DBFILENAME);
                let error = Error::Io { what: format!("cannot save {name}"), source };
                tracing::warn!("{error}");
                Err(error)
            }
        }
    }

    /// All keys are gone from the shards, all of which are entered: with save points, they are to be gone from the disk, too.
    pub(crate) fn save_nothing(&'static self, hold: &Hold<'_, Task, Wait>) {
        if self.has_save_points() {
            // If it fails, it has said so.
            let _ = self.save(hold);
        }
    }

    /// Writes all data to the files of `output`.
    fn write(&self, hold: &Hold<'_, Task, Wait>, now_ms: u64, output: &mut Output) -> io::Result<()> {
        let head = self.snapshot_head(hold, now_ms, output.form)?;
        output.file(0)?.bytes(&head)?;
        let usage = self.usage(now_ms as UnixMs);
        let parts = || self.shards.ids().flat_map(|id| &hold.shard(id).dbs);
        let key_count: usize = parts().map(|part| part.len()).sum();
        self.snapshots.keys_written.store(0, Ordering::Relaxed);
        self.snapshots.keys_to_write.store(key_count as u64, Ordering::Relaxed);
        for db in 0..self.settings.databases() {
            for id in self.shards.ids() {
                if self.shutdown.is_aborted() {
                    return Err(io::Error::other("the shutdown that it was for was aborted"));
                }
                let part = &hold.shard(id).dbs[db as usize];
                let encoder = output.file(output.form.file_of(self.shards.home(id)))?;
                if !part.is_empty() {
                    encoder.select(db)?;
                    part.iter().try_for_each(|record| write_record(record, usage, encoder))?;
                    self.snapshots.keys_written.fetch_add(part.len() as u64, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// What comes before the databases.
    fn write_head<W: io::Write>(&self, encoder: &mut Encoder<W>, now_ms: u64) -> io::Result<()> {
        encoder.aux("redis-ver", REDIS_VERSION.as_bytes())?;
        encoder.aux("darter-ver", DARTER_VERSION.as_bytes())?;
        encoder.aux("redis-bits", b"64")?;
        encoder.aux("ctime", (now_ms / 1000).to_string().as_bytes())?;
        encoder.aux("used-mem", heap::allocated_bytes().to_string().as_bytes())?;
        encoder.aux("aof-base", b"0")?;
        if let Some(state) = self.snapshots.superseded_aof() {
            encoder.aux(STATE_AUX, state.as_bytes())?;
        }
        if let Some(names) = self.scripts.roamed.saved() {
            encoder.aux(ROAMED_AUX, &names)?;
        }
        self.libraries.get().1.iter().try_for_each(|library| encoder.function(library.code()))
    }

    /// What is to be saved of how much keys are used.
    pub(super) fn usage(&self, now: UnixMs) -> Usage {
        let rank = self.settings.policy().map(|policy| policy.rank);
        Usage { is_idle_wanted: rank == Some(Rank::Idle), lfu: self.settings.data_config().lfu, now }
    }

    /// What a snapshot begins with: the head, and how many keys there are.
    pub(super) fn snapshot_head(
        &self,
        hold: &Hold<'_, Task, Wait>,
        now_ms: u64,
        form: Form,
    ) -> io::Result<Vec<u8>> {
        let mut encoder = Encoder::of_chunks(form.style);
        if !form.has_parts() {
            encoder.header()?;
        }
        self.write_head(&mut encoder, now_ms)?;
        for db in 0..self.settings.databases() {
            let parts = || self.shards.ids().map(|id| &hold.shard(id).dbs[db as usize]);
            let key_count: usize = parts().map(|part| part.len()).sum();
            if key_count > 0 {
                let volatile_count: usize = parts().map(|part| part.volatile_len()).sum();
                encoder.database(db, key_count as u64, volatile_count as u64)?;
            }
        }
        encoder.finish()
    }
}

/// Writes everything of a record but the value.
pub(super) fn write_record_head<W: io::Write>(
    record: RecordRef<'_>,
    value_type: ValueType,
    usage: Usage,
    encoder: &mut Encoder<W>,
) -> io::Result<()> {
    let marks = record.marks();
    if marks != Marks::default() {
        encoder.marks(&marks.to_text())?;
    }
    if let Some(expiry) = record.expiry() {
        encoder.expiry(expiry)?;
    }
    usage.encode(record, encoder)?;
    encoder.value_type(value_type)?;
    encoder.string(record.key())
}

fn write_record<W: io::Write>(
    record: RecordRef<'_>,
    usage: Usage,
    encoder: &mut Encoder<W>,
) -> io::Result<()> {
    write_record_head(record, encoded::value_type(record.value(), encoder.style()), usage, encoder)?;
    encoded::write(record.value(), encoder)
}
