//! Checks a folder for `--check-journal` and reports the result.
//!
//! A check only reads and takes no lock, so it may run on a folder that a server is writing to. The log may grow while
//! the check searches behind its end, and segments may disappear when the journal gets another base. So an apparent
//! torn tail or damage is examined again:
//!
//! * If the frame counts now, the log has grown, and the check has read everything that existed when it began.
//! * If the manifest has another base, the check reads everything again from the new one.
//! * Otherwise the finding stands.
//!
//! Not here: whether the base can be loaded (`persistence`), and how damage is repaired (`repair.rs`).

use std::fmt;

use ds::calendar::date;
use effectlog::{Lsn, StreamPosition};

use crate::error::Error;
use crate::folder::Folder;
use crate::manifest::Manifest;
use crate::reading::has_another_base;
use crate::scan::{End, Rest, Scan, Scanned, Skipped, Verdict};
use crate::segment::{FramePlace, SegmentName};

/// The number of times that everything is read again because the journal got another base.
pub(crate) const BASES_MAX: usize = 5;

/// The findings of a check. They are displayed as lines of text.
#[derive(Clone, Debug)]
pub struct Report {
    manifest: Manifest,
    segments: Vec<SegmentReport>,
    end: End,
    rest: Rest,
    is_growing: bool,
}

/// The slices that begin in a segment.
#[derive(Clone, Copy, Debug)]
struct SegmentReport {
    number: u64,
    slices: (Lsn, Lsn),
    positions: (StreamPosition, StreamPosition),
    unix_ms: (u64, u64),
}

/// Reads the whole journal of a folder and passes each slice to `watch`. Slices are passed again if the journal gets
/// another base meanwhile.
pub fn check(folder: &Folder, watch: &mut dyn FnMut(&Scanned)) -> Result<Report, Error> {
    for _ in 1..BASES_MAX {
        let report = check_once(folder, watch)?;
        if report.end.damage().is_none() || !has_another_base(folder, &report.manifest)? {
            return Ok(report);
        }
    }
    check_once(folder, watch)
}

fn check_once(folder: &Folder, watch: &mut dyn FnMut(&Scanned)) -> Result<Report, Error> {
    let manifest = folder.journal()?;
    let mut scan = Scan::everything(folder, &manifest)?;
    let mut segments: Vec<SegmentReport> = Vec::new();
    while let Some(scanned) = scan.next_slice()? {
        watch(&scanned);
        note(&scanned, &mut segments);
    }
    let (end, is_growing) = end_of_live(&mut scan)?;
    let rest = if end.verdict == Verdict::Clean { Rest::default() } else { scan.rest()? };
    Ok(Report { manifest, segments, rest, end, is_growing })
}

/// The end of a log that a server may be writing to, and whether a server is.
pub(crate) fn end_of_live(scan: &mut Scan) -> Result<(End, bool), Error> {
    let mut end = scan.conclude()?;
    let is_growing =
        matches!(end.verdict, Verdict::Torn { .. } | Verdict::Damaged { .. }) && scan.has_grown()?;
    if is_growing {
        end.verdict = Verdict::Clean;
    }
    Ok((end, is_growing))
}

fn note(scanned: &Scanned, segments: &mut Vec<SegmentReport>) {
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

impl Report {
    /// The end of the log.
    pub fn end(&self) -> &End {
        &self.end
    }

    /// The folder's manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether the journal was being written during the check.
    pub fn is_growing(&self) -> bool {
        self.is_growing
    }

    /// Describes in a line what a start would do.
    pub fn outlook(&self) -> String {
        let slices = self.end.place.last_slice().since(self.manifest.base.slice);
        let loads = format!("a start loads {}", content(self.manifest.base.file.is_some(), slices));
        match self.end.verdict {
            Verdict::Clean | Verdict::Until if self.is_growing => {
                format!("{loads}, and what a server is writing at this moment")
            }
            Verdict::Clean | Verdict::Until => loads,
            Verdict::Torn { .. } => format!("{loads}, and drops the torn tail"),
            Verdict::Damaged { .. } => {
                let rest = match self.rest.slices {
                    0 => "what is missing".to_owned(),
                    _ => self.rest.to_string(),
                };
                format!(
                    "a start is refused: restore the file from a copy, or give up {rest} with --journal-repair truncate"
                )
            }
        }
    }
}

/// Describes the content of a journal: a base, if it has one, and the number of slices after it.
pub fn content(has_base: bool, slices: u64) -> String {
    let slices = count(slices, "slice");
    if has_base { format!("the base and {slices} behind it") } else { slices }
}

fn range<N: fmt::Display>((from, to): &(N, N)) -> String {
    format!("{from} to {to}")
}

fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

impl fmt::Display for Rest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rest { slices, bytes, unix_ms } = *self;
        write!(formatter, "{} ({})", count(slices, "slice"), count(bytes, "byte"))?;
        let Some((from, to)) = unix_ms else { return Ok(()) };
        let (first, last) = (time(from), time(to));
        write!(formatter, " written from unix ms {from} to {to} ({first} to {last} UTC)")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Manifest { id, incarnation, databases, base, spares, .. } = &self.manifest;
        writeln!(formatter, "journal {id:016x}: incarnation {incarnation}, {databases} databases")?;
        let file = base.file.as_deref().unwrap_or("no data");
        writeln!(formatter, "base: {file}, up to slice {}, position {}", base.slice, base.position)?;
        for SegmentReport { number, slices, positions, unix_ms } in &self.segments {
            let name = SegmentName { journal_id: *id, number: *number };
            let (slices, positions, times) = (range(slices), range(positions), range(unix_ms));
            let (from, to) = (time(unix_ms.0), time(unix_ms.1));
            let times = format!("unix ms {times} ({from} to {to} UTC)");
            writeln!(formatter, "{name}: slices {slices}, positions {positions}, {times}")?;
        }
        let begun = |number: &&u64| self.segments.iter().all(|segment| segment.number != **number);
        let spares: Vec<String> = spares.iter().filter(begun).map(u64::to_string).collect();
        if !spares.is_empty() {
            let spares = spares.join(", ");
            writeln!(
                formatter,
                "spare segments: {spares} (made in advance for what comes, with nothing in them)"
            )?;
        }
        for Skipped { slice, file, offset, what, until } in &self.end.skipped {
            let file = file.display();
            let slices = count(until.since(*slice), "slice");
            writeln!(
                formatter,
                "damaged, and not needed, because the base has it: {slices} from {slice} on, in {file} at byte {offset}: {what}"
            )?;
        }
        if self.end.damage().is_some() && self.rest.slices > 0 {
            writeln!(formatter, "behind that there are {}", self.rest)?;
        }
        write!(formatter, "{}", self.end)
    }
}

/// The date and the time of day, in UTC.
pub fn time(unix_ms: u64) -> String {
    let (year, month, day) = date(unix_ms / 86_400_000);
    let seconds = unix_ms / 1_000 % 86_400;
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FramePlace { position, .. } = self.place;
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
