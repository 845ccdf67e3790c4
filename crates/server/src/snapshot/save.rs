//! Writing the snapshot.
//!
//! It is written to a file of its own in the same directory, made durable, and only then renamed, so that whatever happens
//! there is a whole snapshot, the old one or the new one.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use command::{Task, Wait};
use commands::keys::encoded;
use keyspace::UnixMs;
use keyspace::access::lru_clock;
use proactor::Clock;
use rdb::Encoder;
use shard::Hold;

use crate::error::Error;
use crate::eviction::Rank;
use crate::settings::{DBFILENAME, RDBCHECKSUM, RDBCOMPRESSION};
use crate::shared::Shared;
use crate::version::{DARTER_VERSION, REDIS_VERSION};

impl Shared {
    /// Saves a snapshot; all shards are entered.
    pub(crate) fn save(&self, hold: &Hold<'_, Task, Wait>) -> Result<(), Error> {
        let clock = Clock::real();
        let started_ms = clock.now_ms();
        let name = self.settings.text(DBFILENAME);
        let temporary = format!("temp-{}.rdb", std::process::id());
        let saved = self.write(hold, Path::new(&temporary), started_ms).and_then(|bytes| {
            fs::rename(&temporary, &*name)?;
            // The directory: the working directory.
            File::open(".")?.sync_all()?;
            Ok(bytes)
        });
        self.snapshots.last_failed.store(saved.is_err(), Ordering::Relaxed);
        match saved {
            Ok(bytes) => {
                let now_ms = clock.now_ms();
                let took_ms = now_ms.saturating_sub(started_ms);
                tracing::info!("DB saved on disk: {bytes} bytes in {name}, {took_ms} ms");
                self.snapshots.note_saved(self.changes(hold));
                self.snapshots.last_save_seconds.store(now_ms / 1000, Ordering::Relaxed);
                self.snapshots.save_count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(source) => {
                // It may not be there.
                let _ = fs::remove_file(&temporary);
                let error = Error::Io { what: format!("cannot save {name}"), source };
                tracing::warn!("{error}");
                Err(error)
            }
        }
    }

    /// Writes all data to the file `path` and makes it durable; its length.
    fn write(&self, hold: &Hold<'_, Task, Wait>, path: &Path, now_ms: u64) -> io::Result<u64> {
        let mut encoder = Encoder::new(File::create(path)?, self.settings.is_on(RDBCOMPRESSION));
        encoder.header()?;
        encoder.aux("redis-ver", REDIS_VERSION.as_bytes())?;
        encoder.aux("darter-ver", DARTER_VERSION.as_bytes())?;
        encoder.aux("redis-bits", b"64")?;
        encoder.aux("ctime", (now_ms / 1000).to_string().as_bytes())?;
        encoder.aux("used-mem", heap::allocated_bytes().to_string().as_bytes())?;
        encoder.aux("aof-base", b"0")?;
        for library in self.libraries.get().1.iter() {
            encoder.function(library.code())?;
        }
        for db in 0..self.settings.databases() {
            self.write_database(hold, db, now_ms as UnixMs, &mut encoder)?;
        }
        encoder.end(self.settings.is_on(RDBCHECKSUM))?;
        let bytes = encoder.offset();
        encoder.finish()?.sync_all()?;
        Ok(bytes)
    }

    fn write_database(
        &self,
        hold: &Hold<'_, Task, Wait>,
        db: u32,
        now: UnixMs,
        encoder: &mut Encoder<File>,
    ) -> io::Result<()> {
        let parts = || self.shards.ids().map(|id| &hold.shard(id).dbs[db as usize]);
        let key_count: usize = parts().map(|part| part.len()).sum();
        if key_count == 0 {
            return Ok(());
        }
        let volatile_count: usize = parts().map(|part| part.volatile_len()).sum();
        encoder.database(db, key_count as u64, volatile_count as u64)?;
        let (rank, config) = (self.settings.policy().map(|policy| policy.rank), self.settings.data_config());
        for record in parts().flat_map(|part| part.iter()) {
            if let Some(expiry) = record.expiry() {
                encoder.expiry(expiry)?;
            }
            match (rank, config.lfu) {
                (Some(Rank::Idle), _) => encoder.idle(record.idle_seconds(lru_clock(now)).into())?,
                (Some(Rank::Rare), Some(lfu)) => encoder.frequency(lfu.counter(record.access(), now))?,
                _ => {}
            }
            encoder.value_type(encoded::value_type(record.value()))?;
            encoder.string(record.key())?;
            encoded::write(record.value(), encoder)?;
        }
        Ok(())
    }
}
