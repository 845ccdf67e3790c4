//! Reads the part of a journal that a start would load, without the folder's lock: its server may be writing to it.

use crate::check::{end_of_live, time};
use crate::error::{Error, ErrorKind};
use crate::folder::Folder;
use crate::manifest::Manifest;
use crate::scan::{End, Rest, Scan, Scanned};

/// The least time in milliseconds, in 1973. A smaller number is in seconds.
const MS_MIN: u64 = 100_000_000_000;

/// Reads the slices after the base, up to a given time or to the end.
#[derive(Debug)]
pub struct Reading {
    folder: Folder,
    manifest: Manifest,
    scan: Scan,
}

impl Reading {
    /// Begins to read. Ends before the first slice behind the base that was written after `until_unix_ms`, in
    /// milliseconds since 1970.
    pub fn begin(folder: &Folder, until_unix_ms: Option<u64>) -> Result<Reading, Error> {
        let manifest = folder.journal()?;
        let mut scan = Scan::behind_base(folder, &manifest)?;
        if let Some(until) = until_unix_ms {
            reaches_back(folder, &manifest, until)?;
            scan = scan.until(until);
        }
        Ok(Reading { folder: folder.clone(), manifest, scan })
    }

    /// The folder's manifest at the beginning.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The next slice.
    pub fn next_slice(&mut self) -> Result<Option<Scanned>, Error> {
        self.scan.next_slice()
    }

    /// The end, after the last slice, and what follows it. Damage is an error.
    pub fn end(&mut self) -> Result<(End, Rest), Error> {
        let (end, is_growing) = end_of_live(&mut self.scan)?;
        match end.damage() {
            Some(damage) => Err(damage),
            None if is_growing => Ok((end, Rest::default())),
            None => Ok((end, self.scan.rest()?)),
        }
    }

    /// Whether files of this journal may have been removed since the beginning, because it has another base. A failure
    /// should then be retried.
    pub fn is_outdated(&self) -> Result<bool, Error> {
        has_another_base(&self.folder, &self.manifest)
    }
}

/// Whether segments of this manifest may have been removed since it was read.
pub(crate) fn has_another_base(folder: &Folder, known: &Manifest) -> Result<bool, Error> {
    let now = folder.journal()?;
    Ok((now.id, now.incarnation) != (known.id, known.incarnation) || now.base != known.base)
}

/// Fails if the journal does not have the data of this time: slices in its base cannot be undone, and before the first
/// slice there were no data.
fn reaches_back(folder: &Folder, manifest: &Manifest, until: u64) -> Result<(), Error> {
    let base = &manifest.base;
    let (mut in_base, mut behind) = (None, None);
    let mut scan = Scan::everything(folder, manifest)?;
    while let Some(scanned) = scan.next_slice()? {
        if scanned.slice.number > base.slice {
            behind = Some(scanned.unix_ms);
            break;
        }
        in_base = in_base.max(Some(scanned.unix_ms));
    }
    let Some(earliest) = in_base.or(behind).filter(|earliest| *earliest > until) else { return Ok(()) };
    let before = if base.file.is_some() { ", and its base has everything before" } else { "" };
    let way_out = if until < MS_MIN {
        "times are in milliseconds since 1970, and this one looks like seconds: add three digits"
    } else {
        "ask for that time, in milliseconds since 1970, or a later one, or take an older copy of the folder"
    };
    Err(Error::new(
        ErrorKind::Later,
        &folder.manifest_path(),
        format!("the journal begins at unix ms {earliest} ({} UTC){before}", time(earliest)),
        way_out,
    ))
}
