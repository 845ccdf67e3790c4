//! Manages the journal's folder: its files, the journals they belong to, and the lock that lets one server use it.
//!
//! ```text
//!   journal.manifest            what the journal consists of
//!   journal.manifest.pending    the same of a journal that is to take its place when its base is complete
//!   journal.lock                locked by the server that uses the folder
//!   journal-<id>-<number>.seg   segments
//!   journal-<id>.durable        up to which slice they were durable
//!   base-<id>-…                 bases, with further files beside them
//!   temp-….rdb                  bases that are being written
//! ```
//!
//! Files of a journal whose manifest is missing are never touched: the manifest may have been lost by mistake. The
//! remains of a crash are named in the manifest (`former`) or in the pending one, or are a segment or base of the
//! journal that its manifest does not list. Only such files are removed.
//!
//! A [`Folder`] reads, even while a server runs. A [`LockedFolder`] belongs to this process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use proactor::{Disk, DiskLock, Open};

use crate::error::{Error, ErrorKind};
use crate::manifest::{MANIFEST_BYTES_MAX, Manifest, NotAManifest};
use crate::mutant::{self, Mutant};
use crate::scan::Scan;
use crate::segment::{SegmentName, SegmentStart};

const MANIFEST: &str = "journal.manifest";
const PENDING: &str = "journal.manifest.pending";
const NEXT: &str = "journal.manifest.tmp";
const LOCK: &str = "journal.lock";
/// The end of the name of a journal's mark.
const MARK: &str = ".durable";

/// A folder that is only read.
#[derive(Clone, Debug)]
pub struct Folder {
    disk: Disk,
    path: PathBuf,
}

/// The contents of a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Contents {
    /// It does not exist, or contains no files of Darter or of Redis.
    Nothing,
    /// A journal.
    Journal(Manifest),
    /// Redis' append-only files: their manifest.
    RedisAof(PathBuf),
}

impl Folder {
    /// The folder at `path`, which need not exist.
    pub fn new(disk: Disk, path: &Path) -> Folder {
        Folder { disk, path: path.to_owned() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The disk that it is on.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The path of a segment.
    pub fn segment(&self, journal_id: u64, number: u64) -> PathBuf {
        self.path.join(SegmentName { journal_id, number }.to_string())
    }

    /// The length of a segment's file. 0 if there is none.
    pub fn segment_bytes(&self, journal_id: u64, number: u64) -> u64 {
        self.disk().info(&self.segment(journal_id, number)).map_or(0, |info| info.bytes)
    }

    /// The path of a journal's mark.
    pub(crate) fn mark(&self, journal_id: u64) -> PathBuf {
        self.path.join(mark_name(journal_id))
    }

    pub(crate) fn manifest_path(&self) -> PathBuf {
        self.path.join(MANIFEST)
    }

    /// Determines its contents. Anything uncertain, or of another program, is an error.
    pub fn contents(&self) -> Result<Contents, Error> {
        if let Some(manifest) = self.manifest()? {
            return Ok(Contents::Journal(manifest));
        }
        let names = self.names()?;
        let redis = names.iter().find(|name| name.ends_with(".manifest"));
        if let Some(name) = redis {
            return Ok(Contents::RedisAof(self.path.join(name)));
        }
        let pending_id = self.pending().map(|manifest| manifest.id);
        for name in &names {
            match Owner::of(name) {
                Owner::Journal(id) if Some(id) == pending_id => {}
                Owner::Journal(_) => {
                    return Err(Error::new(
                        ErrorKind::Damaged,
                        &self.path.join(name),
                        "it belongs to a journal whose journal.manifest is missing",
                        "put the manifest back, or move the files of that journal away",
                    ));
                }
                Owner::Nobody => {}
                Owner::Somebody => {
                    return Err(Error::new(
                        ErrorKind::Foreign,
                        &self.path.join(name),
                        "the folder for the journal contains other files",
                        "move them away, or choose another appenddirname",
                    ));
                }
            }
        }
        Ok(Contents::Nothing)
    }

    /// The manifest of the journal; an error if there is none.
    pub fn journal(&self) -> Result<Manifest, Error> {
        match self.contents()? {
            Contents::Journal(manifest) => Ok(manifest),
            Contents::Nothing if self.disk.has(&self.path.join(PENDING)) => Err(Error::new(
                ErrorKind::Foreign,
                &self.path.join(PENDING),
                "this journal has no base yet, so a server starts without it",
                "wait until the server has saved its base, or move the folder away",
            )),
            Contents::Nothing => Err(Error::new(
                ErrorKind::Foreign,
                &self.path,
                "there is no journal here",
                "name the folder with journal.manifest, which is appenddirname within dir",
            )),
            Contents::RedisAof(path) => Err(Error::new(
                ErrorKind::Foreign,
                &path,
                "these are Redis' append-only files, not a journal",
                "check them with redis-check-aof",
            )),
        }
    }

    /// The journal's manifest, if there is one.
    pub fn manifest(&self) -> Result<Option<Manifest>, Error> {
        let path = self.manifest_path();
        match self.disk.info(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(&path, "read it")(error)),
            Ok(info) if info.bytes > MANIFEST_BYTES_MAX as u64 => {
                return Err(not_a_manifest(&path, 0, NotAManifest::Magic));
            }
            Ok(_) => {}
        }
        let text = self.disk.read(&path).map_err(Error::io(&path, "read it"))?;
        let manifest = Manifest::decode(&text).map_err(|(offset, why)| not_a_manifest(&path, offset, why))?;
        Ok(Some(manifest))
    }

    /// The manifest of a journal that has not replaced the folder's journal yet. An unreadable one is ignored.
    fn pending(&self) -> Option<Manifest> {
        Manifest::decode(&self.disk.read(&self.path.join(PENDING)).ok()?).ok()
    }

    /// The names of all its files. Empty if it does not exist.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let names = match self.disk.list(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(Error::io(&self.path, "read the folder"))?,
        };
        let text = |name: OsString| name.to_string_lossy().into_owned();
        let mut names: Vec<String> = names.into_iter().map(text).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The size of a base with its further files, as far as it can be determined.
    pub fn base_bytes(&self, file: &str) -> u64 {
        let names = self.names().unwrap_or_default();
        let infos = names.iter().filter(|name| is_of_base(name, file));
        infos.filter_map(|name| self.disk.info(&self.path.join(name)).ok()).map(|info| info.bytes).sum()
    }

    /// Creates the folder if it does not exist, and locks it for this process.
    pub fn lock(&self) -> Result<LockedFolder, Error> {
        self.disk.create_directory(&self.path).map_err(Error::io(&self.path, "make the folder"))?;
        let path = self.path.join(LOCK);
        let lock = self.disk.lock(&path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::new(
                ErrorKind::Locked,
                &path,
                "another server uses this folder",
                "stop that server, or choose another dir or appenddirname",
            ),
            _ => Error::io(&path, "lock it")(error),
        })?;
        Ok(LockedFolder { folder: self.clone(), _lock: lock })
    }
}

fn not_a_manifest(path: &Path, offset: usize, why: NotAManifest) -> Error {
    let (kind, way_out) = match why {
        NotAManifest::Version(_) => (ErrorKind::Version, "start the version that wrote it"),
        _ => (
            ErrorKind::Damaged,
            "restore it from a copy, or move the whole folder away to start from the last snapshot",
        ),
    };
    Error::new(kind, path, why.what(), way_out).at(offset as u64)
}

/// The journal that a file belongs to, by its name.
enum Owner {
    /// A segment or a base.
    Journal(u64),
    /// No journal: such a file may be in any folder.
    Nobody,
    Somebody,
}

impl Owner {
    fn of(name: &str) -> Owner {
        if let Ok(SegmentName { journal_id, .. }) = name.parse() {
            return Owner::Journal(journal_id);
        }
        let rest = name.strip_prefix("base-").or_else(|| {
            let rest = name.strip_prefix("journal-")?;
            rest.strip_suffix(MARK)
        });
        if let Some(id) = rest.and_then(|rest| rest.get(..16))
            && let Ok(id) = u64::from_str_radix(id, 16)
        {
            return Owner::Journal(id);
        }
        let may_be_anywhere =
            [LOCK, MANIFEST, PENDING, NEXT, "lost+found"].contains(&name) || name.starts_with('.');
        let may_be_anywhere = may_be_anywhere || is_temporary(name);
        if may_be_anywhere { Owner::Nobody } else { Owner::Somebody }
    }
}

/// Whether it is the temporary file of an unfinished base.
fn is_temporary(name: &str) -> bool {
    name.starts_with("temp-") && name.ends_with(".rdb")
}

/// A folder locked by this process.
#[derive(Debug)]
pub struct LockedFolder {
    folder: Folder,
    _lock: DiskLock,
}

impl std::ops::Deref for LockedFolder {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.folder
    }
}

impl LockedFolder {
    /// Reads the slices after the base, so that the journal can be continued after them
    /// ([`Journal::resume`](crate::Journal::resume)).
    ///
    /// It first makes durable what earlier processes wrote, and drops the system's cache. After a failed sync, the
    /// cache contains data that the disk does not have.
    pub fn recover(&self, manifest: &Manifest) -> Result<Scan, Error> {
        let last = manifest.segments.last().map(|start| start.number);
        for number in last.into_iter().chain(manifest.spares.iter().copied()) {
            let path = self.segment(manifest.id, number);
            // The scan reports more about a missing file.
            if self.disk.has(&path) {
                let file = self.disk.open(&path, Open::Write);
                file.and_then(|file| file.sync_and_forget()).map_err(Error::io(&path, "make it durable"))?;
            }
        }
        Scan::behind_base(self, manifest)
    }

    /// Makes `manifest`, which was read from this folder, durable. Files may be removed or renamed because of a
    /// manifest only after this.
    ///
    /// The process that put it in place may have ended before the folder was synced, or the sync may have failed. Then
    /// the disk still has an older manifest, and no sync need change that: it is replaced once more.
    pub(crate) fn settle_manifest(&self, manifest: &Manifest) -> Result<(), Error> {
        if mutant::is_on(Mutant::TrustsManifest) {
            return Ok(());
        }
        self.write_under_temporary_name(manifest)?;
        self.put_manifest_in_place(false)
    }

    /// Writes the next manifest durably under a temporary name. If that fails, nothing has changed.
    pub(crate) fn write_next_manifest(&self, manifest: &Manifest) -> Result<(), Error> {
        let manifest = self.with_lengths(manifest).map_err(Error::io(&self.path.join(NEXT), "write it"))?;
        self.write_under_temporary_name(&manifest)
    }

    fn write_under_temporary_name(&self, manifest: &Manifest) -> Result<(), Error> {
        let path = self.path.join(NEXT);
        assert_eq!(manifest.check(), Ok(()), "a manifest that no start would accept is not written");
        let write = || {
            let file = self.disk.open(&path, Open::Empty)?;
            file.write_all_at(0, manifest.encode().as_bytes())?;
            file.sync()
        };
        write().map_err(Error::io(&path, "write it"))
    }

    /// The manifest with the current lengths of its segments. Segments that do not exist yet have none.
    fn with_lengths(&self, manifest: &Manifest) -> io::Result<Manifest> {
        let mut lengths = BTreeMap::new();
        for number in manifest.numbers() {
            match self.disk.info(&self.segment(manifest.id, number)) {
                Ok(info) => drop(lengths.insert(number, info.bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Manifest { lengths, ..manifest.clone() })
    }

    /// Renames it durably. If that fails, it is unknown which manifest a crash leaves.
    pub(crate) fn put_manifest_in_place(&self, is_pending: bool) -> Result<(), Error> {
        let path = if is_pending { self.path.join(PENDING) } else { self.manifest_path() };
        self.disk.put_in_place(&self.path.join(NEXT), &path).map_err(Error::io(&path, "replace it"))
    }

    pub(crate) fn write_manifest(&self, manifest: &Manifest, is_pending: bool) -> Result<(), Error> {
        self.write_next_manifest(manifest)?;
        self.put_manifest_in_place(is_pending)
    }

    /// Makes the names of the folder's files durable.
    pub(crate) fn sync_names(&self) -> Result<(), Error> {
        self.disk.sync_directory(&self.path).map_err(Error::io(&self.path, "make the folder's names durable"))
    }

    /// Removes the remains of earlier runs: files that `manifest`, the current one, does not need.
    ///
    /// No base may be in the making meanwhile.
    pub(crate) fn remove_leftovers(&self, manifest: Option<&Manifest>) -> Result<(), Error> {
        let pending_id = self.pending().map(|pending| pending.id);
        let goes = |name: &str| match (Owner::of(name), manifest) {
            (Owner::Journal(id), Some(manifest)) if id == manifest.id => !needs(manifest, name),
            (Owner::Journal(id), manifest) => {
                Some(id) == pending_id || manifest.is_some_and(|manifest| manifest.former.contains(&id))
            }
            (Owner::Nobody | Owner::Somebody, _) => name == NEXT || is_temporary(name),
        };
        for name in self.names()?.into_iter().filter(|name| goes(name)) {
            self.remove(&name)?;
        }
        // This file is last, because it names the owner of the others.
        if self.disk.has(&self.path.join(PENDING)) {
            self.sync_names()?;
            self.remove(PENDING)?;
        }
        Ok(())
    }

    /// Removes the journal, because a snapshot contains its data. If this is interrupted, the rest is removed when the
    /// next journal begins.
    pub fn retire(&self) -> Result<(), Error> {
        let Some(manifest) = self.manifest()? else { return Ok(()) };
        self.settle_manifest(&manifest)?;
        self.remove_leftovers(Some(&manifest))?;
        // A removed file must not reappear after the last manifest that names its owner is gone.
        self.sync_names()?;
        let (path, pending) = (self.manifest_path(), self.path.join(PENDING));
        self.disk.rename(&path, &pending).map_err(Error::io(&path, "rename it"))?;
        self.sync_names()?;
        self.remove_files_of(&[vec![manifest.id], manifest.former].concat())
    }

    /// Removes the files of journals that are no longer needed, and the pending manifest of one that is complete.
    pub(crate) fn remove_files_of(&self, former: &[u64]) -> Result<(), Error> {
        for name in self.names()? {
            if let Owner::Journal(id) = Owner::of(&name)
                && former.contains(&id)
            {
                self.remove(&name)?;
            }
        }
        // This file is last, because it may name the owner of the others.
        if self.disk.has(&self.path.join(PENDING)) {
            self.sync_names()?;
            self.remove(PENDING)?;
        }
        Ok(())
    }

    /// The path to which a file is moved aside, in the incarnation of `manifest`.
    pub(crate) fn aside(&self, path: &Path, manifest: &Manifest) -> PathBuf {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.path.join(format!("{name}.cut-{}", manifest.incarnation))
    }

    /// Renames all segments that are not kept, and keeps a copy of the manifest. Returns their new paths.
    pub(crate) fn set_aside(
        &self,
        manifest: &Manifest,
        kept: &[SegmentStart],
    ) -> Result<Vec<PathBuf>, Error> {
        let copy = self.aside(&self.manifest_path(), manifest);
        self.disk.replace(&copy, manifest.encode().as_bytes()).map_err(Error::io(&copy, "write it"))?;
        let mut paths = vec![copy];
        for number in manifest.numbers().filter(|number| kept.iter().all(|kept| kept.number != *number)) {
            let path = self.segment(manifest.id, number);
            let mut aside = self.aside(&path, manifest);
            if self.disk.has(&path) {
                // After a crash during this, existing names belong to another attempt.
                while self.disk.has(&aside) {
                    aside.as_mut_os_string().push(".more");
                }
                self.disk.rename(&path, &aside).map_err(Error::io(&path, "rename it"))?;
                paths.push(aside);
            }
        }
        self.sync_names()?;
        Ok(paths)
    }

    /// Removes a base with its further files.
    pub(crate) fn remove_base(&self, file: &str) -> Result<(), Error> {
        self.names()?.iter().filter(|name| is_of_base(name, file)).try_for_each(|name| self.remove(name))
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        match self.disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(&path, "remove it")(error))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a journal needs a file with its id.
fn needs(manifest: &Manifest, name: &str) -> bool {
    if let Ok(SegmentName { number, .. }) = name.parse() {
        return manifest.spares.contains(&number)
            || manifest.segments.iter().any(|start| start.number == number);
    }
    let base = manifest.base.file.as_deref();
    name == mark_name(manifest.id) || base.is_some_and(|base| is_of_base(name, base))
}

fn mark_name(journal_id: u64) -> String {
    format!("journal-{journal_id:016x}{MARK}")
}

/// Whether a file is the base with this name, or one of its further files.
fn is_of_base(name: &str, base: &str) -> bool {
    name.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
