//! The file `cluster.json` in the data folder: which node this is, and what it must not forget.
//!
//! ```text
//! {"version": 1, "node": "n-5f0c2a91", "life": "00c0ffee00c0ffee",
//!  "store": {"cluster": 7, "highest": 512, "fallen_to": null},
//!  "terms": [[16, "<replication id>", "0123456789abcdef"], [17, "<replication id>", "00c0ffee00c0ffee"]],
//!  "mark": {"inode": 1, "directory_inode": 2, "born_ns": 3}}
//! ```
//!
//! `life` is that of the last process. It is written before that process takes part in the group, and only after the life
//! before it was proven dead, so one is enough: whoever has the lock of the folder may prove it dead (Group rule 8).
//!
//! `terms` says in which terms the node took part, under which replication id the data of a term are written, and in which
//! of its lives that was. An entry is durable before the first acknowledgement in its term (Group rule 9).
//!
//! `mark` is the identity of the file itself. A copy of the folder contains another one than its file has. A node that
//! started from a copy would prove that the original is dead, although it may live. It might also lead with data from a backup,
//! which lack what was acknowledged since. So a copy is refused until a person adopts it.
//!
//! `cluster.lock` is locked for as long as the process lives.
//!
//! Not here: copies of whole file systems and machines, whose marks are alike. Two processes that live at once are
//! noticed when they announce themselves.

use std::path::{Path, PathBuf};

use config::{DIR, Settings};
use proactor::{Disk, DiskLock, Entropy, FileIdentity};
use serde::{Deserialize, Serialize};
use topology::{History, Life, NodeId, Reason, Store, Term};

use crate::error::Error;
use crate::founding::is_unborn;

/// The name of the file.
const FILE: &str = "cluster.json";
/// The name of the lock.
const LOCK: &str = "cluster.lock";
/// The version of the format.
const VERSION: u64 = 1;
/// The largest file.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// The entries of `terms` that are kept.
pub const TERMS_MAX: usize = 16;

/// Names the data that one primary wrote, as in the replication protocol: 40 letters and digits.
pub type ReplicationId = [u8; 40];

/// See the head of this file.
#[derive(Debug)]
pub struct NodeState {
    disk: Disk,
    folder: PathBuf,
    kept: NodeFacts,
    /// Whether `life` in `kept` is that of this process.
    has_begun: bool,
    _lock: DiskLock,
}

/// The contents but for the mark.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeFacts {
    node: NodeId,
    life: Option<Life>,
    store: History,
    /// The latest last.
    terms: Vec<TermEntry>,
}

/// A term in which the node took part, the data that were written in it, and the node's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TermEntry(Term, String, Life);

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u64,
    node: NodeId,
    life: Option<Life>,
    store: History,
    terms: Vec<TermEntry>,
    mark: Mark,
}

/// The version alone, to be read first.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

/// The identity of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    inode: u64,
    directory_inode: u64,
    born_ns: Option<u64>,
}

/// A person's word about a folder that was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adoption {
    /// It becomes another node, which gets the data of the group from its primary.
    NewNode,
    /// It has moved: its data are the latest, and the original never starts again.
    Moved,
}

impl NodeState {
    /// Locks the data folder of these settings, and reads the file, or makes one for a new node.
    pub fn of(settings: &Settings, disk: &Disk, entropy: &mut Entropy) -> Result<NodeState, Error> {
        let wanted = crate::node_id_of(settings);
        NodeState::open(disk, &data_folder(settings)?, wanted.as_ref(), entropy)
    }

    /// Like [`of`](Self::of), for `folder`, an absolute path. `wanted` is the node's id; `None`: the file says it.
    pub fn open(
        disk: &Disk,
        folder: &Path,
        wanted: Option<&NodeId>,
        entropy: &mut Entropy,
    ) -> Result<NodeState, Error> {
        if let Some(state) = NodeState::open_existing(disk, folder)? {
            let found = &state.kept.node;
            return match wanted.filter(|wanted| *wanted != found) {
                None => Ok(state),
                Some(wanted) => Err(Error::OtherNode {
                    folder: folder.display().to_string(),
                    wanted: wanted.clone(),
                    found: found.clone(),
                }),
            };
        }
        let lock = lock(disk, folder)?;
        let node = wanted.map_or_else(|| draw(entropy), |wanted| Ok(wanted.clone()))?;
        let kept = NodeFacts { node, life: None, store: History::default(), terms: Vec::new() };
        write(disk, folder, &kept)?;
        Ok(NodeState { disk: disk.clone(), folder: folder.to_owned(), kept, has_begun: false, _lock: lock })
    }

    /// Locks a folder whose node exists; `None`: it has no file. Fails if the node's process lives.
    pub fn open_existing(disk: &Disk, folder: &Path) -> Result<Option<NodeState>, Error> {
        if !disk.has(&folder.join(FILE)) {
            return Ok(None);
        }
        let lock = lock(disk, folder)?;
        let (kept, is_original) = read(disk, folder)?;
        if !is_original {
            return Err(Error::Copied { path: folder.join(FILE).display().to_string() });
        }
        Ok(Some(NodeState {
            disk: disk.clone(),
            folder: folder.to_owned(),
            kept,
            has_begun: false,
            _lock: lock,
        }))
    }

    /// Accepts a folder that was copied, on the word of a person. `wanted` is the id for a new node; `None`: one is drawn.
    /// Returns the node's id.
    pub fn adopt(
        disk: &Disk,
        folder: &Path,
        adoption: Adoption,
        wanted: Option<&NodeId>,
        entropy: &mut Entropy,
    ) -> Result<NodeId, Error> {
        if !disk.has(&folder.join(FILE)) {
            return Err(Error::NoNode { folder: folder.display().to_string() });
        }
        let _lock = lock(disk, folder)?;
        let (mut kept, _) = read(disk, folder)?;
        if adoption == Adoption::NewNode {
            kept.node = match wanted {
                Some(wanted) if *wanted == kept.node => return Err(Error::SameNode(wanted.clone())),
                Some(wanted) => wanted.clone(),
                None => draw(entropy)?,
            };
            // That of the original, which may live.
            kept.life = None;
        }
        write(disk, folder, &kept)?;
        Ok(kept.node)
    }

    /// The id of this node.
    pub fn node(&self) -> &NodeId {
        &self.kept.node
    }

    /// The life of the last process of this node, which is over. It is to be proven dead before [`begin_life`](Self::begin_life).
    pub fn predecessor(&self) -> Option<Life> {
        self.kept.life.filter(|_| !self.has_begun)
    }

    /// Proves that the last process of this node is dead (Group rule 8). After an error the caller tries again.
    pub fn prove_predecessor(&self, store: &mut dyn Store, now_ms: u64) -> Result<(), topology::Error> {
        let Some(life) = self.predecessor() else { return Ok(()) };
        store.prove_dead(life, &Reason::new(&self.kept.node, now_ms, "the node has started again"))
    }

    /// Keeps the life of this process, durably. Only then may the process take part in the group. The predecessor's death has
    /// been proven.
    pub fn begin_life(&mut self, life: Life) -> Result<(), Error> {
        assert!(!self.has_begun, "a process has one life");
        self.change(|kept| kept.life = Some(life))?;
        self.has_begun = true;
        Ok(())
    }

    /// The memory of the store.
    pub fn history(&self) -> History {
        self.kept.store
    }

    /// Keeps the memory of the store. Writes to the disk if it has changed: a good time is after each change of the
    /// document.
    pub fn note_history(&mut self, history: History) -> Result<(), Error> {
        self.change(|kept| kept.store = history)
    }

    /// Notes that this process takes part in `term`, whose data are written under `id`. It is durable when this returns. Terms do
    /// not fall (Group rule 9).
    pub fn note_term(&mut self, term: Term, id: &ReplicationId) -> Result<(), Error> {
        assert!(self.has_begun, "a life begins before it takes part");
        let terms = self.term().max(Term::FIRST)..=Term::MAX;
        assert!(terms.contains(&term), "a node does not follow an older term than it knows");
        let life = self.kept.life.expect("it has begun");
        let id = std::str::from_utf8(id).ok().filter(|id| is_replication_id(id));
        let entry = TermEntry(term, id.expect("it has letters and digits only").to_owned(), life);
        self.change(|kept| {
            if kept.terms.last() != Some(&entry) {
                kept.terms.push(entry);
            }
            let excess = kept.terms.len().saturating_sub(TERMS_MAX);
            kept.terms.drain(..excess);
        })
    }

    /// The newest term in which this node took part; 0: in none.
    pub fn term(&self) -> Term {
        self.kept.terms.last().map_or(Term(0), |entry| entry.0)
    }

    /// The newest term whose data were written under `id`, as far as this node remembers.
    pub fn last_term_of(&self, id: &ReplicationId) -> Option<Term> {
        self.kept.terms.iter().rev().find(|entry| entry.1.as_bytes() == id).map(|entry| entry.0)
    }

    /// Whether a process with this life took part in a term with this folder, as far as this node remembers. If not, the folder
    /// is not the one that was in sync, for example because the disk was replaced under the same `cluster-node-id`.
    /// A life of no process, by which a first document names a node that has not started yet, fits any folder.
    pub fn took_part_as(&self, life: Life) -> bool {
        if is_unborn(life) {
            return true;
        }
        self.kept.terms.iter().any(|entry| entry.2 == life)
    }

    /// Changes the contents, durably. After an error they are as before, and the file is the old one or the new one.
    fn change(&mut self, change: impl FnOnce(&mut NodeFacts)) -> Result<(), Error> {
        let mut next = self.kept.clone();
        change(&mut next);
        if next != self.kept {
            write(&self.disk, &self.folder, &next)?;
            self.kept = next;
        }
        Ok(())
    }
}

impl Mark {
    fn of(identity: FileIdentity) -> Mark {
        let FileIdentity { inode, directory_inode, born_ns } = identity;
        Mark { inode, directory_inode, born_ns }
    }

    /// Whether this is the mark of the same file. Not each file system, and not each release of one, reports when a file was
    /// created.
    fn is(self, other: Mark) -> bool {
        let are_born_alike = self.born_ns.zip(other.born_ns).is_none_or(|(one, other)| one == other);
        self.inode == other.inode && self.directory_inode == other.directory_inode && are_born_alike
    }
}

/// The data folder of these settings, as an absolute path.
pub fn data_folder(settings: &Settings) -> Result<PathBuf, Error> {
    let folder = settings.text(DIR);
    let folder = if folder.is_empty() { "." } else { &folder };
    std::path::absolute(folder)
        .map_err(|source| Error::Io { what: format!("cannot find the folder {folder}"), source })
}

/// The node whose folder this is; `None`: it has no file. A server may use it.
pub fn node_in(disk: &Disk, folder: &Path) -> Result<Option<NodeId>, Error> {
    if !disk.has(&folder.join(FILE)) {
        return Ok(None);
    }
    match read(disk, folder)? {
        (facts, true) => Ok(Some(facts.node)),
        (_, false) => Err(Error::Copied { path: folder.join(FILE).display().to_string() }),
    }
}

/// Draws the id of a node.
fn draw(entropy: &mut Entropy) -> Result<NodeId, Error> {
    let mut bytes = [0; 4];
    entropy
        .secret(&mut bytes)
        .map_err(|source| Error::Io { what: "the system has no random numbers".to_owned(), source })?;
    Ok(format!("n-{:08x}", u32::from_be_bytes(bytes)).parse().expect("letters and digits are a name"))
}

fn lock(disk: &Disk, folder: &Path) -> Result<DiskLock, Error> {
    let path = folder.join(LOCK);
    disk.lock(&path).map_err(|source| match source.kind() {
        std::io::ErrorKind::WouldBlock => Error::InUse { folder: folder.display().to_string() },
        _ => Error::Io { what: format!("cannot lock {}", path.display()), source },
    })
}

fn is_replication_id(text: &str) -> bool {
    text.len() == size_of::<ReplicationId>() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Reads the file. Returns its contents, and whether it is the file that was written, not a copy.
fn read(disk: &Disk, folder: &Path) -> Result<(NodeFacts, bool), Error> {
    let path = folder.join(FILE);
    let io = |source| Error::Io { what: format!("cannot read {}", path.display()), source };
    let bad = |why: String| Error::BadState { path: path.display().to_string(), why };
    if disk.info(&path).map_err(io)?.bytes > FILE_BYTES_MAX {
        return Err(bad(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    let text = disk.read(&path).map_err(io)?;
    let version = serde_json::from_slice::<Versioned>(&text).map_err(|error| bad(error.to_string()))?.version;
    if version != VERSION {
        return Err(Error::OtherVersion { path: path.display().to_string(), found: version, known: VERSION });
    }
    let written: Written = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
    let Written { version: _, node, life, store, terms, mark } = written;
    if terms.len() > TERMS_MAX {
        return Err(bad(format!("it has more than {TERMS_MAX} terms")));
    }
    if let Some(entry) = terms.iter().find(|entry| !is_replication_id(&entry.1)) {
        return Err(bad(format!("the replication id of term {} is none", entry.0)));
    }
    let is_term = |entry: &TermEntry| (Term::FIRST..=Term::MAX).contains(&entry.0);
    if !terms.iter().all(is_term) || !terms.is_sorted_by(|one, other| one.0 <= other.0) {
        return Err(bad("its terms do not ascend".to_owned()));
    }
    let found = Mark::of(disk.identity(&path).map_err(io)?);
    Ok((NodeFacts { node, life, store, terms }, mark.is(found)))
}

/// Writes the file durably.
fn write(disk: &Disk, folder: &Path, kept: &NodeFacts) -> Result<(), Error> {
    let path = folder.join(FILE);
    let content = |identity| {
        let NodeFacts { node, life, store, terms } = kept.clone();
        let written = Written { version: VERSION, node, life, store, terms, mark: Mark::of(identity) };
        serde_json::to_vec(&written).expect("its keys are texts")
    };
    disk.replace_marked(&path, content)
        .map_err(|source| Error::Io { what: format!("cannot write {}", path.display()), source })
}
