//! Reads a snapshot into databases that no other component has yet.
//!
//! ```text
//!   Load::snapshot ─┬▶ pieces.rs   one file in Redis' format, which several threads read together ─┐
//!                   └▶ parts.rs    the files of Darter's own format, each read by one thread ──────┴▶ Target ──▶ Loaded
//! ```
//!
//! Data are never half loaded: the caller gets the databases when the end was reached and the checksum is
//! correct. An [`Extras`] gets the parts of a file that are neither keys nor this crate's concern.
//!
//! Not here: putting the databases into the shards, and serving clients meanwhile (`server`).

mod examine;
mod parts;
mod pieces;
mod target;

use std::io::{Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use effectlog::StreamPosition;
use engine::Command;
use keyspace::queue::Known;
use keyspace::{Config, Dbs, UnixMs};
use proactor::Clock;
use rdb::{FileReader, Item, MANIFEST_MAGIC, Why};
use shard::Placement;

use crate::error::Error;
use crate::names::Names;
use crate::progress::Progress;
use crate::superseded::STATE_AUX;
use crate::tuning::Tuning;

pub use examine::{Examined, examine};
pub(crate) use target::{Counted, Target};

/// The parameters of a load.
#[derive(Clone, Copy)]
pub struct Load<'a> {
    /// Where snapshots are.
    pub names: &'a Names,
    /// The shard of each key.
    pub placement: &'a Placement,
    /// The number of databases of each shard.
    pub db_count: u32,
    /// The settings for values.
    pub config: &'a Config,
    /// Which keys are queues.
    pub queues: &'a Arc<Known>,
    /// Whether the checksum of a file in Redis' format is checked.
    pub has_checksum: bool,
    /// The clock, for the log and for expired keys.
    pub clock: &'a Clock,
    /// The progress that it updates.
    pub progress: &'a Progress,
    /// Stops the load, without a result, once this is set.
    pub is_stopped: &'a AtomicBool,
    /// The number of threads that read in addition to the caller; with 0 the caller reads alone.
    pub thread_count: usize,
    /// The load fails if the process would use more memory than this.
    pub memory_bytes_max: u64,
    /// The amounts that are read at a time.
    pub tuning: Tuning,
}

/// Handles the parts of a file that are not keys. The thread that began the load calls it.
pub trait Extras {
    /// Handles a field about the snapshot.
    fn field(&mut self, name: &[u8], value: &[u8]);
    /// Loads a library of functions. An error is a part of a sentence.
    fn library(&mut self, code: &[u8]) -> Result<(), String>;
    /// Changes the libraries by a command with [`Role::Libraries`](crate::Role). An error is a part of a
    /// sentence.
    fn change_libraries(&mut self, command: &Command, args: &[&[u8]]) -> Result<(), String>;
}

/// The loaded data.
pub struct Loaded {
    /// The databases, by shard and then by number.
    pub dbs: Vec<Dbs>,
    /// The state of the append-only file that the snapshot supersedes.
    pub superseded_aof: Option<String>,
    /// The database selected in the stream that continues from it, if known.
    pub stream_db: Option<u32>,
    /// The id of that stream, and the offset at which it continues, if known.
    pub stream: Option<(StreamId, StreamPosition)>,
    /// The number of keys in all databases.
    pub key_count: u64,
    /// The number of expired keys, which were left out.
    pub expired_count: u64,
}

/// Does work on a separate heap. A serving thread then gets that heap with the loaded data.
pub fn on_heap_to_serve<R>(work: impl FnOnce() -> R) -> R {
    heap::own();
    let done = work();
    heap::disown();
    done
}

impl Load<'_> {
    /// The content of the snapshot `name` at the time `now`. `None` if the load was stopped.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is damaged.
    pub fn snapshot(
        &self,
        name: &str,
        now: UnixMs,
        extras: &mut dyn Extras,
    ) -> Result<Option<Loaded>, Error> {
        self.read_into(Target::new(self, name, now), extras)
    }

    /// The content of the snapshot `name` with which a stream begins. Expired keys are kept, because the
    /// stream deletes them. `None` if the load was stopped.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is damaged.
    pub fn beginning(&self, name: &str, extras: &mut dyn Extras) -> Result<Option<Loaded>, Error> {
        let now = self.clock.now_ms() as UnixMs;
        self.read_into(Target::of_stream(self, name, now), extras)
    }

    fn read_into(&self, target: Target<'_>, extras: &mut dyn Extras) -> Result<Option<Loaded>, Error> {
        let mut others = Others::new(&target, extras);
        let read = self.read_snapshot(target.name, &mut others);
        let (superseded_aof, stream_db) = (others.superseded_aof, others.stream_db);
        let stream = others.stream_id.zip(others.stream_offset);
        // The sender may have been gone already.
        if self.is_stopped() {
            return Ok(None);
        }
        read.map(|()| Some(Loaded { stream_db, stream, ..target.loaded(superseded_aof) }))
    }

    /// Reads all of the snapshot `name`.
    pub(crate) fn read_snapshot(&self, name: &str, others: &mut Others<'_, '_>) -> Result<(), Error> {
        let target = others.target;
        let opened = self.names.reader(name).and_then(|mut file| {
            let mut head = Vec::new();
            (&mut file).take(MANIFEST_MAGIC.len() as u64).read_to_end(&mut head)?;
            Ok((file, head))
        });
        let (file, head) =
            opened.map_err(|cause| target.error(rdb::Error { offset: 0, why: cause.into() }))?;
        self.progress.begin_file(file.size_bytes().unwrap_or_default());
        let has_parts = head == MANIFEST_MAGIC;
        let file = Counted::behind(Cursor::new(head), file, target);
        match has_parts {
            true => others.read_parts(file),
            false => others.read_file(file).map(|_| ()).map_err(|error| target.error(error)),
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
}

/// The parts of a snapshot that are not keys.
pub(crate) struct Others<'a, 'e> {
    pub(crate) target: &'a Target<'a>,
    pub(crate) extras: &'e mut dyn Extras,
    /// The state of the append-only file that it supersedes.
    pub(crate) superseded_aof: Option<String>,
    /// The database selected in the stream that continues from it.
    pub(crate) stream_db: Option<u32>,
    /// The id of that stream, and the offset at which it continues.
    stream_id: Option<StreamId>,
    stream_offset: Option<StreamPosition>,
}

/// The id of a stream: forty hexadecimal digits.
pub type StreamId = [u8; 40];

/// The name of the field with the database selected in the stream that continues from a snapshot.
pub const STREAM_DB_AUX: &str = "repl-stream-db";
/// The name of the field that marks a queue as paused. It contains the number of its database, a space, and
/// its key.
pub const PAUSED_AUX: &str = "darter-paused";
/// The name of the field with the id of that stream.
pub const STREAM_ID_AUX: &str = "repl-id";
/// The name of the field with the offset at which that stream continues.
pub const STREAM_OFFSET_AUX: &str = "repl-offset";

impl<'a, 'e> Others<'a, 'e> {
    pub(crate) fn new(target: &'a Target<'a>, extras: &'e mut dyn Extras) -> Others<'a, 'e> {
        Others { target, extras, superseded_aof: None, stream_db: None, stream_id: None, stream_offset: None }
    }

    /// Reads a whole file, with other threads if there are some. Returns its end.
    pub(crate) fn read_file(&mut self, file: Counted) -> Result<u64, rdb::Error> {
        match self.target.load.thread_count {
            0 => self.read_alone(file),
            thread_count => self.read_with(thread_count, file),
        }
    }

    fn read_alone(&mut self, file: Counted) -> Result<u64, rdb::Error> {
        let target = self.target;
        let mut file = FileReader::new(file, target.load.has_checksum)?;
        target.take_items(&mut file, 0, &mut |item| self.take(item))?;
        Ok(file.offset())
    }

    /// Handles an item that is neither a key nor a database.
    fn take(&mut self, item: Item) -> Result<(), rdb::Error> {
        match item {
            Item::Library(offset, code) => {
                let loaded = self.extras.library(&code);
                loaded.map_err(|why| rdb::Error { offset, why: Why::Library(why) })?;
            }
            Item::Aux(name, value) => {
                if name == b"used-mem"
                    && let Some(bytes) = ds::num::parse_i64(&value)
                {
                    self.target.load.progress.used_bytes.store(bytes as u64, Ordering::Relaxed);
                }
                if name == PAUSED_AUX.as_bytes() {
                    self.target.pause(&value);
                }
                if name == STATE_AUX.as_bytes() {
                    self.superseded_aof = String::from_utf8(value.clone()).ok();
                }
                if name == STREAM_DB_AUX.as_bytes() {
                    self.stream_db = ds::num::parse_i64(&value).and_then(|db| u32::try_from(db).ok());
                }
                if name == STREAM_ID_AUX.as_bytes() {
                    let is_id = value.iter().all(u8::is_ascii_hexdigit);
                    self.stream_id = value.as_slice().try_into().ok().filter(|_| is_id);
                }
                if name == STREAM_OFFSET_AUX.as_bytes() {
                    self.stream_offset = ds::num::parse_i64(&value)
                        .and_then(|offset| u64::try_from(offset).ok().map(StreamPosition::new));
                }
                self.extras.field(&name, &value);
                tracing::debug!("snapshot: {} {}", name.escape_ascii(), value.escape_ascii());
            }
            Item::Database(_) | Item::Sizes(..) | Item::Key(_) | Item::End => {}
        }
        Ok(())
    }
}
