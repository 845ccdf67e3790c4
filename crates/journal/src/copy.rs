//! Copies a journal into a new one with exactly the data that a start would load.
//!
//! ```text
//!   base-<id>-5.rdb, …      ── copied ─────────▶ base-<new id>-5.rdb, …
//!   slices behind the base  ── written again ──▶ journal-<new id>-1.seg, …
//! ```
//!
//! The original is only read, without its lock, so a server may be writing to it. The copy contains everything that
//! existed when it began, and some of what was added meanwhile. If the original gets another base, so that files
//! disappear, the copy starts over. Until the copy is complete and durable, its manifest has another name, so a partial
//! copy is never loaded.

use std::io;
use std::path::Path;
use std::sync::Arc;

use proactor::{Disk, DiskFile, Open};

use crate::check::BASES_MAX;
use crate::error::{Error, ErrorKind, Trouble};
use crate::folder::{Folder, LockedFolder};
use crate::journal::Journal;
use crate::life::{Beginning, Data};
use crate::manifest::Base;
use crate::reading::Reading;
use crate::scan::{End, Rest, Scanned};
use crate::segment::Tuning;
use crate::writer::{Policy, Writer};

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// The parameters of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Copying {
    /// The random id of the copy.
    pub id: u64,
    /// The copy ends before the first slice behind the base that was written after this time, in milliseconds since
    /// 1970.
    pub until_unix_ms: Option<u64>,
    /// Sizes of the copy's segments.
    pub tuning: Tuning,
}

/// The result of a copy.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Whether there is a base.
    pub has_base: bool,
    /// The number of slices of the original after the base.
    pub slices: u64,
    /// Whether an empty slice was added to confirm the last slice that is not empty.
    pub is_confirmed: bool,
    /// The end of the original, or the place where it was cut.
    pub end: End,
    /// The slices behind that end, which were left out.
    pub rest: Rest,
}

impl Copying {
    /// Copies the journal in `from` to a folder without a journal, and passes each slice to `watch`.
    pub fn copy(
        &self,
        from: &Folder,
        to: &Arc<LockedFolder>,
        watch: &mut dyn FnMut(&Scanned),
    ) -> Result<Copied, Error> {
        let mut rounds = 1..BASES_MAX;
        loop {
            let mut reading = Reading::begin(from, self.until_unix_ms)?;
            let copied = self.copy_once(from, &mut reading, to, watch);
            if copied.is_ok() || rounds.next().is_none() || !reading.is_outdated()? {
                return copied;
            }
        }
    }

    pub(crate) fn copy_once(
        &self,
        from: &Folder,
        reading: &mut Reading,
        to: &Arc<LockedFolder>,
        watch: &mut dyn FnMut(&Scanned),
    ) -> Result<Copied, Error> {
        let manifest = &reading.manifest().clone();
        let Base { slice, position, .. } = manifest.base;
        let beginning = Beginning {
            id: self.id,
            stream: None,
            databases: manifest.databases,
            slice,
            position,
            data: Data::Coming,
        };
        let (journal, mut writer) = Journal::create(Arc::clone(to), self.tuning, Policy::No, beginning)?;
        let file = self.copy_base(from, reading, to)?;
        let (mut slices, mut last_ms, mut is_confirmed) = (0, 0, false);
        while let Some(scanned) = reading.next_slice()? {
            watch(&scanned);
            append(&journal, &mut writer, &scanned)?;
            (slices, last_ms) = (slices + 1, scanned.unix_ms);
            is_confirmed = !scanned.slice.payload.is_empty();
        }
        let (end, rest) = reading.end()?;
        journal.sync().map_err(in_files)?;
        if is_confirmed {
            // It confirms the last slice, so that damage to that slice can be told from a torn tail.
            let (number, position) = writer.next();
            let slice = effectlog::Slice { number, position, db: None, payload: Vec::new() };
            append(&journal, &mut writer, &Scanned { slice, unix_ms: last_ms, segment: 0, offset: 0 })?;
            journal.sync().map_err(in_files)?;
        }
        let has_base = file.is_some();
        journal.set_base(&Base { slice, position, file }, 0).map_err(in_files)?;
        journal.seal();
        Ok(Copied { has_base, slices, is_confirmed, end, rest })
    }

    /// Copies the base with its further files. Returns its new name. All files are opened first, so a base that is
    /// replaced afterwards is still complete.
    fn copy_base(
        &self,
        from: &Folder,
        reading: &Reading,
        to: &Arc<LockedFolder>,
    ) -> Result<Option<String>, Error> {
        let base = &reading.manifest().base;
        let Some(old) = &base.file else { return Ok(None) };
        let new = format!("base-{:016x}-{}.rdb", self.id, base.slice);
        let beside = format!("{old}.");
        let mut sources = Vec::new();
        for name in from.names()?.iter().filter(|name| *name == old || name.starts_with(&beside)) {
            let path = from.path().join(name);
            let file = from.disk().open(&path, Open::Read).map_err(Error::io(&path, "open it"))?;
            sources.push((path, file, format!("{new}{}", &name[old.len()..])));
        }
        // Some of its files may have been removed before they were listed, which only this check detects.
        if reading.is_outdated()? {
            let (what, way_out) = ("the journal has another base by now", "copy it again");
            return Err(Error::new(ErrorKind::Damaged, &from.path().join(old), what, way_out));
        }
        for (path, source, name) in sources {
            copy_bytes(from.disk(), (&path, &source), &to.path().join(name))?;
        }
        Ok(Some(new))
    }
}

/// Writes a slice again, with its time.
fn append(journal: &Journal, writer: &mut Writer, scanned: &Scanned) -> Result<(), Error> {
    let slices = std::slice::from_ref(&scanned.slice);
    loop {
        match writer.append(slices, scanned.unix_ms) {
            Ok(_) => return Ok(()),
            Err(Trouble::NoSpare { needed }) => while journal.prepare_spare(needed).map_err(in_files)? {},
            Err(trouble) => return Err(in_files(trouble)),
        }
    }
}

fn in_files(trouble: Trouble) -> Error {
    trouble.error().expect("spares were prepared, and the log has come to the end of its base").clone()
}

/// Copies a file, replacing an existing one. Makes its bytes durable, but not its name.
pub(crate) fn copy_file(disk: &Disk, from: &Path, to: &Path) -> Result<u64, Error> {
    let source = disk.open(from, Open::Read).map_err(Error::io(from, "open it"))?;
    copy_bytes(disk, (from, &source), to)
}

fn copy_bytes(disk: &Disk, (from, source): (&Path, &DiskFile), to: &Path) -> Result<u64, Error> {
    let target = disk.open(to, Open::Empty).map_err(Error::io(to, "make it"))?;
    let mut bytes = vec![0; COPY_BYTES];
    let mut offset = 0;
    loop {
        let count = match source.read_at(offset, &mut bytes) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::io(from, "read it")(error).at(offset)),
        };
        target.write_all_at(offset, &bytes[..count]).map_err(Error::io(to, "write it"))?;
        offset += count as u64;
    }
    target.sync().map_err(Error::io(to, "make it durable"))?;
    Ok(offset)
}
