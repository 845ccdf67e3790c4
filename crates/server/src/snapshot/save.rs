//! Saves a snapshot at once, while all shards are held. Also builds the part of every snapshot that is not data. Not
//! here: the saving itself (`persistence`).

use std::io;
use std::sync::Arc;

use config::{DBFILENAME, Settings};
use engine::{Task, Wait};
use keyspace::UnixMs;
use persistence::{
    PAUSED_AUX, Purpose, STATE_AUX, STREAM_DB_AUX, STREAM_ID_AUX, STREAM_OFFSET_AUX, Saved, Saving, Scribe,
    SnapshotContent, Usage, VERSION_AUX, save_settings, style,
};
use process::processors;
use rdb::Encoder;
use scripting::ROAMED_AUX;
use shard::Hold;

use crate::connections::balancing::threads_at_work;
use crate::error::Error;
use crate::message::Message;
use crate::shared::Shared;
use crate::version::{DARTER_VERSION, SNAPSHOT_REDIS_VERSION};
use keyspace::eviction::Rank;

/// For so much memory one thread visits shards.
const VISITED_BYTES: u64 = 16 << 20;

/// How many of the threads visit shards for a snapshot of so much memory: those `at_work`, which serve connections, and more
/// where there is enough for them. What a thread needs for it would otherwise be more than the data.
fn visitors(bytes: u64, at_work: usize, threads: usize) -> u16 {
    let worth = usize::try_from(bytes / VISITED_BYTES).map_or(threads, |full| full + 1);
    worth.max(at_work).min(threads) as u16
}

impl Shared {
    /// Saves a snapshot. All shards are entered. A background save in progress is cancelled, because it is older.
    pub(crate) fn save(&'static self, hold: &Hold<'_, Task, Wait>) -> Result<(), Error> {
        let saved = self.content(hold, Purpose::Snapshot).and_then(|content| {
            let is_aborted = || self.shutdown.is_aborted();
            let settings = save_settings(&self.settings, &self.machine.disk);
            self.snapshots.save(settings, &content, self.shards.changes(), &is_aborted)
        });
        match saved {
            Ok(Saved { bytes, name, took_ms }) => {
                tracing::info!("DB saved on disk: {bytes} bytes in {name}, {took_ms} ms");
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

    /// Begins to save the current data. All shards are entered, and no other save is in progress. The error is for the
    /// log.
    pub(crate) fn save_in_background(
        &'static self,
        hold: &mut Hold<'_, Task, Wait>,
        settings: persistence::Settings,
    ) -> io::Result<()> {
        let content = self.content(hold, settings.purpose)?;
        let tell = || self.broadcast(|| Message::Snapshot);
        let (saving, writer) =
            self.snapshots.begin(settings, &content, self.shards.changes(), Box::new(tell))?;
        self.snapshots.run_writer(writer, move || processors::place_writer(&self.settings))?;
        self.cut(hold, &saving);
        self.begin_saving(&saving);
        Ok(())
    }

    /// Makes the cut: data are captured before they change from here on. All shards are entered.
    pub(super) fn cut(&'static self, hold: &mut Hold<'_, Task, Wait>, saving: &Arc<Saving>) {
        for id in self.shards.used() {
            for (number, db) in hold.shard_mut(id).dbs.iter_mut() {
                if !db.is_empty() {
                    db.begin_cut(Box::new(Scribe::new(saving, number, self.shards.home(id))));
                }
            }
        }
    }

    /// Makes the threads begin to capture the snapshot, whose content is fixed.
    pub(super) fn begin_saving(&'static self, saving: &Arc<Saving>) {
        let at_work = if self.is_simulated() { self.threads.len() } else { threads_at_work(self) };
        saving.set_visitors(visitors(heap::allocated_bytes(), at_work, self.threads.len()));
        self.snapshots.began(saving);
        self.broadcast(|| Message::Snapshot);
        saving.close_one();
        tracing::info!("Background {} started", saving.purpose.activity());
    }

    /// Saves the empty state to the disk, if save points are set: all keys are gone from the shards, all of which are
    /// entered.
    pub(crate) fn save_nothing(&'static self, hold: &Hold<'_, Task, Wait>) {
        if self.settings.has_save_points() {
            // `save` logs its own errors.
            let _ = self.save(hold);
        }
    }

    /// The content of a snapshot that is saved now. All shards are entered.
    pub(super) fn content<'a>(
        &self,
        hold: &'a Hold<'_, Task, Wait>,
        purpose: Purpose,
    ) -> io::Result<SnapshotContent<'a>> {
        Ok(SnapshotContent {
            shards: self.shards.used().map(|id| (self.shards.home(id), &hold.shard(id).dbs)).collect(),
            ..self.content_without_data(purpose)?
        })
    }

    /// The content without the databases.
    pub(super) fn content_without_data(&self, purpose: Purpose) -> io::Result<SnapshotContent<'static>> {
        let now_ms = self.machine.clock.now_ms();
        let mut about = Encoder::of_chunks(style(&self.settings));
        self.write_about(&mut about, now_ms, purpose)?;
        Ok(SnapshotContent {
            shards: Vec::new(),
            thread_count: self.threads.len() as u16,
            usage: usage(&self.settings, now_ms as UnixMs),
            about: about.finish()?,
        })
    }

    /// Writes the part before the databases.
    fn write_about<W: io::Write>(
        &self,
        encoder: &mut Encoder<W>,
        now_ms: u64,
        purpose: Purpose,
    ) -> io::Result<()> {
        encoder.aux("redis-ver", SNAPSHOT_REDIS_VERSION.as_bytes())?;
        encoder.aux(VERSION_AUX, DARTER_VERSION.as_bytes())?;
        encoder.aux("redis-bits", b"64")?;
        encoder.aux("ctime", (now_ms / 1000).to_string().as_bytes())?;
        encoder.aux("used-mem", heap::allocated_bytes().to_string().as_bytes())?;
        encoder.aux("aof-base", b"0")?;
        if let Some(db) = self.following.stream_db() {
            encoder.aux(STREAM_DB_AUX, db.to_string().as_bytes())?;
            encoder.aux(STREAM_ID_AUX, &self.primary.history().id)?;
            encoder.aux(STREAM_OFFSET_AUX, self.following.offset().to_string().as_bytes())?;
        }
        for (db, key) in self.shards.queues().paused() {
            encoder.aux(PAUSED_AUX, &[format!("{db} ").as_bytes(), &key].concat())?;
        }
        // An append-only file of this server does not concern a replica.
        if let Some(state) = self.snapshots.superseded_aof().filter(|_| purpose != Purpose::Replicas) {
            encoder.aux(STATE_AUX, state.as_bytes())?;
        }
        if let Some(names) = self.scripts.roamed.saved() {
            encoder.aux(ROAMED_AUX, &names)?;
        }
        self.scripts.libraries.get().1.iter().try_for_each(|library| encoder.function(library.code()))
    }
}

/// What the snapshot records about the use of keys.
fn usage(settings: &Settings, now: UnixMs) -> Usage {
    let rank = settings.policy().map(|policy| policy.rank);
    Usage { is_idle_wanted: rank == Some(Rank::Idle), lfu: settings.data_config().lfu, now }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_threads_visit_the_shards_of_few_data() {
        for (mib, at_work, expected) in
            [(0, 1, 1), (20, 1, 2), (20, 4, 4), (200, 1, 13), (4000, 1, 32), (1, 32, 32)]
        {
            assert_eq!(
                visitors(mib << 20, at_work, 32),
                expected,
                "{mib} MiB, {at_work} threads serve connections"
            );
        }
        assert_eq!(visitors(u64::MAX, 1, 2), 2);
    }
}
