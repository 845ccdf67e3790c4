//! Opens the journal at the start: continues an existing one after reading it, or begins a new one with the
//! loaded data.

use std::sync::Arc;
use std::time::Duration;

use crate::{Following, Primary};
use config::{APPENDDIRNAME, DIR, Settings};
use effectlog::{Lsn, StreamPosition};
use journal::{
    Beginning, Contents, Data, End, Folder, LockedFolder, Manifest, Refusal, Scan, Scanned, Skipped,
    StreamId, Tuning, Verdict, Writer,
};
use persistence::FoundSlice;
use proactor::Disk;

use crate::log::journal::{Opened, locked, policy};
use crate::log::keeper::Keeper;

/// How often to check whether the last slice is durable.
const SETTLE_LOOK: Duration = Duration::from_millis(1);

/// The folder of a journal.
pub struct Opening {
    /// The folder.
    pub folder: Folder,
    /// The locked folder; or the reason why the folder can be read but not locked.
    pub locked: Result<Arc<LockedFolder>, journal::Error>,
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

/// The journal that the settings ask for.
pub enum Begun {
    /// It is open.
    Open(Arc<LockedFolder>, Opened),
    /// It cannot be written, for this reason, but its content can be served.
    ReadOnly(Box<journal::Error>),
}

impl Begun {
    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        matches!(self, Begun::Open(..))
    }
}

impl Opening {
    /// Locks the folder. If nothing can be written there, it can only be read.
    pub fn new(settings: &Settings, disk: &Disk, tuning: Tuning) -> Result<Opening, journal::Error> {
        let folder = Folder::new(disk.clone(), &path(settings));
        // Files that are not ours must not be touched, not even by the lock.
        let contents = folder.contents()?;
        match folder.lock() {
            Ok(locked) => Opening::again(Arc::new(locked), tuning),
            Err(error) if error.is_read_only() => {
                Ok(Opening { folder, locked: Err(error), manifest: manifest(contents), tuning })
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the manifest again in a folder that is already locked.
    pub fn again(locked: Arc<LockedFolder>, tuning: Tuning) -> Result<Opening, journal::Error> {
        let (folder, manifest) = (Folder::clone(&locked), manifest(locked.contents()?));
        Ok(Opening { folder, locked: Ok(locked), manifest, tuning })
    }

    /// Approximate bytes of slices after the base of the existing journal. The last segment counts in full,
    /// though it may not be full.
    pub fn slice_bytes(&self) -> u64 {
        let Some(manifest) = &self.manifest else { return 0 };
        let Some(last) = manifest.segments.last() else { return 0 };
        let in_last = self.folder.segment_bytes(manifest.id, last.number);
        last.place.position.since(manifest.base.position) + in_last
    }

    /// Reads the slices of the existing journal.
    pub fn scan(&self, manifest: &Manifest) -> Result<Slices, journal::Error> {
        let recovered = match &self.locked {
            Ok(locked) => locked.recover(manifest),
            Err(error) => Err(error.clone()),
        };
        let scan = match recovered {
            // A journal that cannot be made durable now is only read.
            Err(error) if error.is_read_only() => Scan::behind_base(&self.folder, manifest)?,
            recovered => recovered?,
        };
        Ok(Slices { scan, folder: self.folder.clone(), id: manifest.id, last: None })
    }

    /// Continues the existing journal at its end, where the stream has selected database `stream_db`. If the
    /// server is a replica, the stream is a copy of its primary's, otherwise its own.
    pub fn resume(
        &self,
        settings: &Settings,
        (primary, following): (&Primary, &Following),
        end: &End,
        stream_db: Option<u32>,
    ) -> Result<Begun, journal::Error> {
        let manifest = self.manifest.as_ref().expect("it was read");
        if let Verdict::Torn { dropped_bytes, .. } = end.verdict {
            tracing::warn!(
                "the last write to the journal is incomplete: {dropped_bytes} bytes, never acknowledged as durable, are dropped"
            );
        }
        for Skipped { slice, file, offset, what, .. } in &end.skipped {
            tracing::warn!(
                "{} at byte {offset}: slice {slice} is damaged, and not needed, because the base has it: {what}",
                file.display()
            );
        }
        let is_whole = end.damage().is_some() || end.place.slice > manifest.base.slice;
        assert!(is_whole, "a log that is not damaged reaches its base");
        let position = end.place.position;
        match end.stream.filter(|_| following.is_replica()) {
            Some(id) => following.go_on_behind(primary, (id, position), stream_db),
            None => {
                primary.go_on_behind(end.stream, position);
                following.set_stream_db(stream_db);
            }
        }
        let stream = Some(primary.history().id);
        self.unless_read_only(|folder| {
            journal::Journal::resume(folder, self.tuning, policy(settings), manifest, end, stream)
        })
    }

    /// Creates a journal with a random id, whose slices will be applied to `data`. It begins at the end of
    /// the log when it is turned on. If replicas will know its stream by another id by then, do not pass a
    /// stream id here: they would lack changes that were not recorded.
    pub fn create(
        &self,
        settings: &Settings,
        stream: Option<StreamId>,
        id: u64,
        data: Data,
    ) -> Result<Begun, journal::Error> {
        self.unless_read_only(|folder| self.create_in(folder, settings, stream, id, data))
    }

    /// Creates the journal in its locked folder.
    pub(crate) fn create_in(
        &self,
        folder: Arc<LockedFolder>,
        settings: &Settings,
        stream: Option<StreamId>,
        id: u64,
        data: Data,
    ) -> Result<(journal::Journal, Writer), journal::Error> {
        let databases = settings.databases();
        let beginning =
            Beginning { id, stream, databases, slice: Lsn::NONE, position: StreamPosition::START, data };
        journal::Journal::create(folder, self.tuning, policy(settings), beginning)
    }

    /// Opens the journal, unless the disk is full or read-only.
    fn unless_read_only(
        &self,
        open: impl FnOnce(Arc<LockedFolder>) -> Result<(journal::Journal, Writer), journal::Error>,
    ) -> Result<Begun, journal::Error> {
        let opened = self.locked.clone().and_then(|folder| Ok((folder.clone(), open(folder)?)));
        match opened {
            Ok((folder, opened)) => Ok(Begun::Open(folder, Box::new(opened))),
            Err(error) if error.is_read_only() => Ok(Begun::ReadOnly(Box::new(error))),
            Err(error) => Err(error),
        }
    }
}

impl Keeper {
    /// Waits until all commits are durable, and opens the running journal for reading. All shards are
    /// entered.
    #[expect(
        clippy::disallowed_methods,
        reason = "DEBUG LOADAOF waits for the disk, with all shards entered"
    )]
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
    folder: Folder,
    id: u64,
    /// The slice that was returned last.
    last: Option<Lsn>,
}

/// The journal that a folder contains.
fn manifest(contents: Contents) -> Option<Manifest> {
    match contents {
        Contents::Journal(manifest) => Some(manifest),
        Contents::Nothing | Contents::RedisAof(_) => None,
    }
}

impl Slices {
    /// The next slice.
    pub fn next_slice(&mut self) -> Result<Option<FoundSlice>, String> {
        let found = self.scan.next_slice().map_err(|error| error.to_string())?;
        if let Some(Scanned { slice, .. }) = &found {
            let last = self.last.replace(slice.number);
            assert!(
                last.is_none_or(|last| slice.number == last.next()),
                "slice {} is left out",
                slice.number.before()
            );
        }
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
