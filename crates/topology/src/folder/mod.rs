//! A store in a folder of one machine, for tests and demonstrations.
//!
//! ```text
//! topology.json      everything but the announcements; replaced as a whole: written beside, synced, renamed
//! topology.new       the next one
//! topology.lock      locked by the process that changes it
//! nodes/a.json       what node a says of itself
//! nodes/a.alive      locked by the process of node a, for as long as it lives
//! ```
//!
//! The kernel gives locks back when a process ends, however it ends, so neither a lock nor an announcement outlives
//! it. A reader needs no lock: it sees the file as it was before or after a change.
//!
//! Not here: more than one machine. Locks and renames of network file systems promise less.

mod watch;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::contents::Contents;
use crate::document::Document;
use crate::error::Error;
use crate::history::History;
use crate::ids::{ClusterName, Life, Revision};
use crate::outcome::{Reading, Swap, Unsettled};
use crate::records::{ANNOUNCEMENT_BYTES_MAX, Announcement, LogEntry, Reason};
use crate::store::{NODES_MAX, Store, Watch};

/// The largest file: a document as a JSON string, and proofs and changes with the longest reasons.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// How long a change waits for another one.
const LOCK_MS_MAX: u64 = 2_000;
/// How long a process that looks whether a node lives may hold that node's lock.
const PROBE_MS_MAX: u64 = 200;
/// How long it sleeps before it looks again.
const LOCK_STEP: Duration = Duration::from_millis(1);

/// See the head of this file.
#[derive(Debug)]
pub struct FolderStore {
    folder: Folders,
    history: History,
    /// The lock that says that the announced node lives.
    alive: Option<(String, File)>,
}

/// The folder of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    path: PathBuf,
}

/// Why a file was not replaced.
enum NotReplaced {
    /// The old one is still there.
    Certainly(Error),
    /// Perhaps it was.
    Perhaps(Error),
}

impl NotReplaced {
    fn into_error(self) -> Error {
        match self {
            NotReplaced::Certainly(error) | NotReplaced::Perhaps(error) => error,
        }
    }
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::File { path: path.display().to_string(), source }
}

/// Reads a whole file that has at most `bytes_max` bytes; `None`: it does not exist.
fn read_limited(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it has more than {bytes_max} bytes")));
    }
    Ok(Some(bytes))
}

/// Creates and locks a file, which stays locked until it is closed; `None`: another process kept its lock for that long.
fn lock(path: &Path, wait_ms_max: u64) -> Result<Option<File>, Error> {
    let open = || OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let file = open().map_err(file_error(path))?;
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(error)) => return Err(file_error(path)(error)),
            Err(TryLockError::WouldBlock) if begin.elapsed() > Duration::from_millis(wait_ms_max) => {
                return Ok(None);
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_STEP),
        }
    }
}

impl Folders {
    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The present contents.
    pub(crate) fn read(&self) -> Result<Contents, Error> {
        let path = self.file("topology.json");
        let Some(text) = read_limited(&path, FILE_BYTES_MAX).map_err(file_error(&path))? else {
            return Ok(Contents::default());
        };
        serde_json::from_slice(&text).map_err(|error| file_error(&path)(io::Error::other(error)))
    }

    /// Holds the lock of changes until the file is closed.
    fn lock(&self) -> Result<File, Error> {
        let path = self.file("topology.lock");
        let timeout = || Error::TimedOut { member: path.display().to_string(), limit_ms: LOCK_MS_MAX };
        lock(&path, LOCK_MS_MAX)?.ok_or_else(timeout)
    }

    /// Replaces the contents. The caller holds the lock.
    fn replace(&self, contents: &Contents) -> Result<(), NotReplaced> {
        let text = serde_json::to_vec(contents).expect("its keys are texts");
        self.replace_file("topology.json", "topology.new", &text)?;
        let sync = || File::open(&self.path)?.sync_all();
        sync().map_err(|error| NotReplaced::Perhaps(file_error(&self.path)(error)))
    }

    fn replace_file(&self, name: &str, next: &str, text: &[u8]) -> Result<(), NotReplaced> {
        let (path, new) = (self.file(name), self.file(next));
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(text)?;
            file.sync_all()
        };
        write().map_err(|error| NotReplaced::Certainly(file_error(&new)(error)))?;
        fs::rename(&new, &path).map_err(|error| NotReplaced::Perhaps(file_error(&path)(error)))
    }
}

impl FolderStore {
    /// Opens the store of a cluster in `folder`, and creates it if necessary. `history` is the memory of it.
    pub fn open(folder: &Path, cluster: &ClusterName, history: History) -> Result<FolderStore, Error> {
        let path = folder.join(cluster.as_str());
        fs::create_dir_all(path.join("nodes")).map_err(file_error(&path))?;
        Ok(FolderStore { folder: Folders { path }, history, alive: None })
    }

    /// Reads the contents, and checks that they are not older than they were.
    fn contents(&mut self) -> Result<Contents, Error> {
        let floor = self.history.floor()?;
        let contents = self.folder.read()?;
        self.history.observe(floor, 0, contents.revision)?;
        Ok(contents)
    }

    /// Writes a document that nothing has checked, as a person does who edits it.
    pub fn write_unchecked(&mut self, text: &str) -> Result<Revision, Error> {
        let _lock = self.folder.lock()?;
        let mut contents = self.contents()?;
        let revision = contents.write_document(text);
        self.folder.replace(&contents).map_err(NotReplaced::into_error)?;
        Ok(revision)
    }

    /// Takes the lock that says that `node` lives.
    fn live(&mut self, node: &str) -> Result<(), Error> {
        if self.alive.as_ref().is_some_and(|(name, _)| name == node) {
            return Ok(());
        }
        let path = self.folder.file(&format!("nodes/{node}.alive"));
        let file = lock(&path, PROBE_MS_MAX)?.ok_or_else(|| Error::SameId { node: node.to_owned() })?;
        self.alive = Some((node.to_owned(), file));
        Ok(())
    }

    /// Reads the announcement in a file of `nodes`, if its node lives.
    fn announced(path: &Path) -> Option<Announcement> {
        let alive = File::open(path.with_extension("alive")).ok()?;
        // A lock that can be had is held by no process.
        if !matches!(alive.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return None;
        }
        let text = read_limited(path, ANNOUNCEMENT_BYTES_MAX as u64).ok()??;
        Announcement::decode(&text)
    }
}

impl Store for FolderStore {
    fn read(&mut self) -> Result<Reading, Error> {
        Ok(self.contents()?.reading())
    }

    fn compare_and_swap(&mut self, on: &Reading, document: &Document, why: &Reason) -> Swap {
        on.assert_may_become(document);
        let _lock = match self.folder.lock() {
            Ok(lock) => lock,
            Err(error) => return Swap::NotDone(error),
        };
        let mut contents = match self.contents() {
            Ok(contents) => contents,
            Err(error) => return Swap::NotDone(error),
        };
        let Some(made) = contents.swap(on.revision, &document.encode(), why) else {
            return Swap::Lost(contents.reading());
        };
        match self.folder.replace(&contents) {
            Ok(()) => {
                self.history.highest = self.history.highest.max(made);
                Swap::Done(made)
            }
            Err(NotReplaced::Certainly(error)) => Swap::NotDone(error),
            Err(NotReplaced::Perhaps(error)) => Swap::Unknown(Unsettled::new(on.revision, error)),
        }
    }

    fn watch(&mut self) -> Result<Box<dyn Watch>, Error> {
        Ok(Box::new(watch::FolderWatch::new(self.folder.clone(), self.history)))
    }

    fn announce(&mut self, announcement: &Announcement) -> Result<(), Error> {
        let node = announcement.instance.node.as_str();
        self.live(node)?;
        let (name, next) = (format!("nodes/{node}.json"), format!("nodes/{node}.new"));
        let replaced = self.folder.replace_file(&name, &next, announcement.encode().as_bytes());
        replaced.map_err(NotReplaced::into_error)
    }

    fn live_nodes(&mut self) -> Result<Vec<Announcement>, Error> {
        let path = self.folder.file("nodes");
        let entries = fs::read_dir(&path).map_err(file_error(&path))?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let mut found: Vec<Announcement> =
            paths.take(NODES_MAX).filter_map(|path| FolderStore::announced(&path)).collect();
        found.sort_by(|one, other| one.instance.cmp(&other.instance));
        Ok(found)
    }

    fn prove_dead(&mut self, life: Life, why: &Reason) -> Result<(), Error> {
        let _lock = self.folder.lock()?;
        let mut contents = self.contents()?;
        contents.prove_dead(life, why);
        let replaced = self.folder.replace(&contents);
        replaced.map_err(NotReplaced::into_error)
    }

    fn log(&mut self, count_max: usize) -> Result<Vec<LogEntry>, Error> {
        Ok(self.contents()?.log(count_max))
    }

    fn history(&self) -> History {
        self.history
    }

    fn accept_as_it_is(&mut self) {
        self.history = History::default();
    }
}
