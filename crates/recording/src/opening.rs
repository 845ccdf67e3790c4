//! Opens the journal at the start: an existing one is read and continued, or a new one begins with the loaded data.

use std::sync::Arc;
use std::time::Duration;

use journal::{
    Beginning, Contents, Data, End, Folder, LockedFolder, Manifest, Refusal, Scan, Scanned, StreamId, Tuning,
    Verdict,
};
use persistence::FoundSlice;
use proactor::Disk;
use replication::{Following, Primary};
use settings::{APPENDDIRNAME, DIR, Settings};

use crate::journal::{Opened, locked, policy};
use crate::keeper::Keeper;

/// How often to check whether the last slice is durable.
const SETTLE_LOOK: Duration = Duration::from_millis(1);

/// The locked folder of a journal.
pub struct Opening {
    /// The folder.
    pub folder: Arc<LockedFolder>,
    /// The journal in it, if there is one.
    pub manifest: Option<Manifest>,
    tuning: Tuning,
}

/// The path of the journal's folder.
pub(crate) fn path(settings: &Settings) -> std::path::PathBuf {
    let directory = settings.text(DIR);
    let directory = if directory.is_empty() { "." } else { &*directory };
    std::path::Path::new(directory).join(&*settings.text(APPENDDIRNAME))
}

impl Opening {
    /// Locks the folder.
    pub fn new(settings: &Settings, disk: &Disk, tuning: Tuning) -> Result<Opening, journal::Error> {
        let folder = Folder::new(disk.clone(), &path(settings));
        // What is not ours is not touched, not even for the lock.
        folder.contents()?;
        Opening::again(Arc::new(folder.lock()?), tuning)
    }

    /// Reads the manifest again in a folder that is already locked.
    pub fn again(folder: Arc<LockedFolder>, tuning: Tuning) -> Result<Opening, journal::Error> {
        let manifest = match folder.contents()? {
            Contents::Journal(manifest) => Some(manifest),
            Contents::Nothing | Contents::RedisAof(_) => None,
        };
        Ok(Opening { folder, manifest, tuning })
    }

    /// About how many bytes of slices follow the base of the existing journal. The last segment counts in full, though
    /// it may not be full.
    pub fn slice_bytes(&self) -> u64 {
        let Some(manifest) = &self.manifest else { return 0 };
        let Some(last) = manifest.segments.last() else { return 0 };
        let in_last = self.folder.segment_bytes(manifest.id, last.number);
        last.place.position.saturating_sub(manifest.base.position) + in_last
    }

    /// The slices of the existing journal.
    pub fn scan(&self, manifest: &Manifest) -> Result<Slices, journal::Error> {
        Ok(Slices { scan: self.folder.recover(manifest)?, folder: self.folder.clone(), id: manifest.id })
    }

    /// Continues the existing journal at its end, where the stream has selected database `stream_db`. If the server is
    /// a replica, the stream is a copy of its primary's, otherwise its own.
    pub fn resume(
        &self,
        settings: &Settings,
        (primary, following): (&Primary, &Following),
        end: &End,
        stream_db: Option<u32>,
    ) -> Result<Opened, journal::Error> {
        let manifest = self.manifest.as_ref().expect("it was read");
        if let Verdict::Torn { dropped_bytes, .. } = end.verdict {
            tracing::warn!(
                "the last write to the journal is incomplete: {dropped_bytes} bytes, never acknowledged as durable, are dropped"
            );
        }
        let folder = self.folder.clone();
        let position = end.place.position;
        match end.stream.filter(|_| following.is_replica()) {
            Some(id) => following.go_on_behind(primary, (id, position), stream_db),
            None => {
                primary.go_on_behind(end.stream, position);
                following.set_stream_db(stream_db);
            }
        }
        let stream = Some(primary.history().id);
        let opened = journal::Journal::resume(folder, self.tuning, policy(settings), manifest, end, stream)?;
        Ok(Box::new(opened))
    }

    /// Creates a journal with a random id, whose slices will be applied to `data`. It begins at the end of the log when
    /// it is turned on. If replicas will know its stream by another id by then, it must not be given an id here: they
    /// would lack changes that were not recorded.
    pub fn create(
        &self,
        settings: &Settings,
        stream: Option<StreamId>,
        id: u64,
        data: Data,
    ) -> Result<Opened, journal::Error> {
        let databases = settings.databases();
        let beginning = Beginning { id, stream, databases, slice: 0, position: 0, data };
        let folder = self.folder.clone();
        let opened = journal::Journal::create(folder, self.tuning, policy(settings), beginning)?;
        Ok(Box::new(opened))
    }
}

impl Keeper {
    /// Waits until all commits are durable, and opens the journal that is on for reading. All shards are entered.
    pub fn settled_journal(&self) -> Result<Opening, String> {
        let (journal, progress) = (self.journal, &self.journal.progress);
        let failed = |why: &str| Err(format!("cannot load the journal: {why}"));
        if !journal.is_on() || journal.awaits_first_base() || self.is_simulated {
            return failed("there is none, or it has no base yet");
        }
        if journal.checkpoint_started_ms().is_some() {
            return failed("it is being rewritten");
        }
        let slice = journal.log.cut().slice();
        progress.ask_for(slice);
        while progress.durable() < slice {
            if progress.refusal() == Refusal::Failed {
                return failed(&progress.why());
            }
            std::thread::sleep(SETTLE_LOOK);
        }
        let folder = locked(&journal.folder).clone().expect("what is on has a folder");
        Opening::again(folder, self.tuning).map_err(|error| error.to_string())
    }
}

/// Reads slices for recovery.
pub struct Slices {
    scan: Scan,
    folder: Arc<LockedFolder>,
    id: u64,
}

impl Slices {
    /// The next slice.
    pub fn next_slice(&mut self) -> Result<Option<FoundSlice>, String> {
        let found = self.scan.next_slice().map_err(|error| error.to_string())?;
        Ok(found.map(|Scanned { slice, segment, unix_ms, .. }| {
            let file = self.folder.segment(self.id, segment).display().to_string();
            FoundSlice { slice, unix_ms, file: file.into() }
        }))
    }

    /// The end of the slices.
    pub fn end(self) -> Result<End, journal::Error> {
        self.scan.end()
    }
}
