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

/// How often it is looked whether the last slice is durable.
const SETTLE_LOOK: Duration = Duration::from_millis(1);

/// The folder of a journal, which is this server's now.
pub struct Opening {
    /// Where it is.
    pub folder: Arc<LockedFolder>,
    /// The journal that is there.
    pub manifest: Option<Manifest>,
    tuning: Tuning,
}

/// Where the journal is.
pub(crate) fn path(settings: &Settings) -> std::path::PathBuf {
    let directory = settings.text(DIR);
    let directory = if directory.is_empty() { "." } else { &*directory };
    std::path::Path::new(directory).join(&*settings.text(APPENDDIRNAME))
}

impl Opening {
    /// Takes the folder.
    pub fn new(settings: &Settings, disk: &Disk, tuning: Tuning) -> Result<Opening, journal::Error> {
        let folder = Folder::new(disk.clone(), &path(settings));
        // What is not ours is not touched, not even for the lock.
        folder.contents()?;
        Opening::again(Arc::new(folder.lock()?), tuning)
    }

    /// Looks once more what there is in a folder that was taken.
    pub fn again(folder: Arc<LockedFolder>, tuning: Tuning) -> Result<Opening, journal::Error> {
        let manifest = match folder.contents()? {
            Contents::Journal(manifest) => Some(manifest),
            Contents::Nothing | Contents::RedisAof(_) => None,
        };
        Ok(Opening { folder, manifest, tuning })
    }

    /// About how many bytes of slices the journal that is there has behind its base, and hardly more: the last segment is not full.
    pub fn slice_bytes(&self) -> u64 {
        let Some(manifest) = &self.manifest else { return 0 };
        let last = manifest.segments.last().map_or(0, |last| last.place.position);
        last.saturating_sub(manifest.base.position) + self.tuning.segment_bytes
    }

    /// The slices of the journal that is there.
    pub fn scan(&self, manifest: &Manifest) -> Result<Slices, journal::Error> {
        Ok(Slices { scan: self.folder.recover(manifest)?, folder: self.folder.clone(), id: manifest.id })
    }

    /// Goes on with the journal that is there, behind its end, where the stream has `stream_db` selected: with the stream that this server copies if it
    /// follows a primary, and otherwise with one of its own.
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

    /// Makes a new one, with a random id, whose slices are applied to `data`. It begins where the log is when it is turned on. If replicas know its stream
    /// by another id by then, none is to be given here: they would lack what was not recorded.
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
    /// The journal that is on, to be read while all wait: all shards are entered, and everything that was committed is durable in it.
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

/// Reads slices, for recovery.
pub struct Slices {
    scan: Scan,
    folder: Arc<LockedFolder>,
    id: u64,
}

impl Slices {
    /// The next one.
    pub fn next_slice(&mut self) -> Result<Option<FoundSlice>, String> {
        let found = self.scan.next_slice().map_err(|error| error.to_string())?;
        Ok(found.map(|Scanned { slice, segment, unix_ms, .. }| {
            let file = self.folder.segment(self.id, segment).display().to_string();
            FoundSlice { slice, unix_ms, file: file.into() }
        }))
    }

    /// How they end.
    pub fn end(self) -> Result<End, journal::Error> {
        self.scan.end()
    }
}
