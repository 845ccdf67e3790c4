//! Makes a damaged journal end before the damage, for `--journal-repair truncate`.
//!
//! Nothing is overwritten or removed. Segments behind the damage, and the old manifest, stay in the folder under other
//! names (`….cut-<incarnation>`). So does a copy of the segment with the damage, because the journal keeps the intact part of
//! that segment and reuses it one day. The folder must be locked, so that no server uses it.

use std::path::PathBuf;
use std::sync::Arc;

use effectlog::Lsn;

use crate::copy::copy_file;
use crate::error::Error;
use crate::folder::LockedFolder;
use crate::journal::Journal;
use crate::manifest::Manifest;
use crate::scan::{End, Rest, Verdict};
use crate::segment::{FramePlace, Tuning};
use crate::writer::Policy;

/// A repair that has not been made yet.
#[derive(Debug)]
pub struct Repair {
    folder: Arc<LockedFolder>,
    manifest: Manifest,
    end: End,
    rest: Rest,
}

impl Repair {
    /// Plans a repair. `None` if none is needed, because a server starts from this journal.
    pub fn plan(folder: &Arc<LockedFolder>) -> Result<Option<Repair>, Error> {
        let manifest = folder.journal()?;
        let mut scan = folder.recover(&manifest)?;
        while scan.next_slice()?.is_some() {}
        let end = scan.conclude()?;
        if !matches!(end.verdict, Verdict::Damaged { .. }) {
            return Ok(None);
        }
        Ok(Some(Repair { folder: Arc::clone(folder), manifest, end, rest: scan.rest()? }))
    }

    /// The slices that are given up.
    pub fn rest(&self) -> &Rest {
        &self.rest
    }

    /// The last slice that stays.
    pub fn last_slice(&self) -> Lsn {
        self.end.place.last_slice().max(self.manifest.base.slice)
    }

    /// Makes the repair. Returns the paths of the files that were moved aside.
    pub fn cut(self, tuning: Tuning) -> Result<Vec<PathBuf>, Error> {
        let Repair { folder, manifest, mut end, .. } = self;
        folder.settle_manifest(&manifest)?;
        if end.place.slice <= manifest.base.slice || end.place.is_within_slice {
            let (slice, position) = (manifest.base.slice.next(), manifest.base.position);
            end.place = FramePlace { slice, position, checksum: 0, is_within_slice: false };
            end.segments.clear();
        }
        let kept = end.segments.last().filter(|last| last.place != end.place);
        let damaged =
            kept.map(|last| folder.segment(manifest.id, last.number)).filter(|path| *path == end.file);
        let copy = damaged.as_ref().map(|path| folder.aside(path, &manifest));
        if let Some((path, copy)) = damaged.as_ref().zip(copy.as_ref()) {
            copy_file(folder.disk(), path, copy)?;
        }
        let (.., aside) = Journal::cut(folder, tuning, Policy::No, &manifest, end)?;
        Ok(aside.into_iter().chain(copy).collect())
    }
}
