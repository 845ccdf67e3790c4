//! What `--check-journal` tells of a folder, and what `--journal-repair truncate` does to it.
//!
//! A check only reads, takes no lock, and may look at a folder that a server is writing to. There it can meet a log that grows
//! while it looks for what comes behind its end, and segments that go. So what looks like damage is looked at again, and
//! believed if nothing has moved.
//!
//! A repair gives up what comes behind the last whole slice, and overwrites nothing: segments behind it, and the manifest as it was,
//! stay in the folder under other names.

use std::fmt;
use std::sync::Arc;

use ds::calendar::date;

use crate::error::{Error, ErrorKind};
use crate::folder::{Contents, Folder, LockedFolder};
use crate::journal::Journal;
use crate::manifest::Manifest;
use crate::scan::{End, Scan, Verdict};
use crate::segment::{Place, SegmentName, Tuning};
use crate::writer::Policy;

/// What there is to tell of a folder. Shown, it is some lines of text.
#[derive(Clone, Debug)]
pub struct Report {
    manifest: Manifest,
    segments: Vec<SegmentReport>,
    end: End,
}

/// The slices that begin in a segment.
#[derive(Clone, Copy, Debug)]
struct SegmentReport {
    number: u64,
    slices: (u64, u64),
    positions: (u64, u64),
    unix_ms: (u64, u64),
}

/// Reads all of the folder's journal.
pub fn check(folder: &Folder) -> Result<Report, Error> {
    let mut report = check_once(folder)?;
    for _ in 0..3 {
        if report.end.damage().is_none() {
            break;
        }
        let before = std::mem::replace(&mut report, check_once(folder)?);
        if before.manifest == report.manifest && before.end == report.end {
            break;
        }
    }
    Ok(report)
}

fn check_once(folder: &Folder) -> Result<Report, Error> {
    let manifest = the_manifest(folder)?;
    let mut scan = Scan::everything(folder, &manifest)?;
    let mut segments: Vec<SegmentReport> = Vec::new();
    while let Some(scanned) = scan.next_slice()? {
        let (slice, unix_ms) = (&scanned.slice, scanned.unix_ms);
        match segments.last_mut().filter(|last| last.number == scanned.segment) {
            Some(last) => {
                last.slices.1 = slice.number;
                last.positions.1 = slice.end();
                last.unix_ms = (last.unix_ms.0.min(unix_ms), last.unix_ms.1.max(unix_ms));
            }
            None => segments.push(SegmentReport {
                number: scanned.segment,
                slices: (slice.number, slice.number),
                positions: (slice.position, slice.end()),
                unix_ms: (unix_ms, unix_ms),
            }),
        }
    }
    Ok(Report { manifest, segments, end: scan.end()? })
}

fn the_manifest(folder: &Folder) -> Result<Manifest, Error> {
    match folder.contents()? {
        Contents::Journal(manifest) => Ok(manifest),
        Contents::Nothing => Err(Error::new(
            ErrorKind::Foreign,
            folder.path(),
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

impl Report {
    /// How the log ends.
    pub fn end(&self) -> &End {
        &self.end
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Manifest { id, term, databases, base, .. } = &self.manifest;
        writeln!(formatter, "journal {id:016x}: term {term}, {databases} databases")?;
        let file = base.file.as_deref().unwrap_or("no data");
        writeln!(formatter, "base: {file}, up to slice {}, position {}", base.slice, base.position)?;
        for SegmentReport { number, slices, positions, unix_ms } in &self.segments {
            let name = SegmentName { journal_id: *id, number: *number };
            let [slices, positions, times] =
                [slices, positions, unix_ms].map(|(from, to)| format!("{from} to {to}"));
            let (from, to) = (time(unix_ms.0), time(unix_ms.1));
            let times = format!("unix ms {times} ({from} to {to} UTC)");
            writeln!(formatter, "{name}: slices {slices}, positions {positions}, {times}")?;
        }
        write!(formatter, "{}", self.end)
    }
}

/// Date and time of day, in UTC.
fn time(unix_ms: u64) -> String {
    let (year, month, day) = date(unix_ms / 86_400_000);
    let seconds = unix_ms / 1_000 % 86_400;
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { position, .. } = self.place;
        let (last, file) = (self.place.last_slice(), self.file.display());
        let behind = format!(
            "the log ends behind slice {last}, position {position}, in {file} at byte {}",
            self.offset
        );
        match &self.verdict {
            Verdict::Clean => write!(formatter, "clean: {behind}"),
            Verdict::Until => write!(formatter, "cut at the time that was asked for: {behind}"),
            Verdict::Torn { what, dropped_bytes } => write!(
                formatter,
                "torn: {behind}: {what}; {dropped_bytes} bytes behind that had never been reported durable and are dropped"
            ),
            Verdict::Damaged { .. } => {
                let damage = self.damage().map(|damage| damage.to_string()).unwrap_or_default();
                write!(formatter, "damaged: {damage}; {behind}")
            }
        }
    }
}

/// Gives up what comes behind the last slice that is whole; says what that was, in a line for each file. The folder has to be locked,
/// so no server uses it.
pub fn truncate(folder: &Arc<LockedFolder>, tuning: Tuning) -> Result<Vec<String>, Error> {
    let manifest = the_manifest(folder)?;
    let mut scan = folder.recover(&manifest)?;
    while scan.next_slice()?.is_some() {}
    let mut end = scan.end()?;
    let mut lines = vec![end.to_string()];
    if !matches!(end.verdict, Verdict::Damaged { .. }) {
        lines.push("nothing is cut: a server starts from this".to_owned());
        return Ok(lines);
    }
    if end.place.slice <= manifest.base.slice || end.place.is_within_slice {
        let (slice, position) = (manifest.base.slice + 1, manifest.base.position);
        end.place = Place { slice, position, checksum: 0, is_within_slice: false };
        end.segments.clear();
    }
    let (.., aside) = Journal::cut(Arc::clone(folder), tuning, Policy::No, &manifest, end.clone())?;
    lines.extend(aside.iter().map(|path| format!("set aside: {}", path.display())));
    lines.push(format!("cut: the log ends behind slice {}", end.place.last_slice()));
    Ok(lines)
}
