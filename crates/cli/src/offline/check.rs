//! `--check-journal`, with or without `--journal-repair truncate`.
//!
//! The exit status is 0 if a server would start from the folder, with or without a torn tail; 2 if a start would be
//! refused because something is damaged; and 1, as for all other errors, if the folder cannot be checked.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use effectlog::Lsn;
use journal::{Folder, Repair, Report, Scanned, Tuning, time};
use persistence::{Names, examine};

use crate::offline::error::Error;
use crate::offline::meter::Meter;
use crate::offline::say;

/// The exit status if the server would refuse to start.
const DAMAGED: u8 = 2;
/// Effects that delete all keys, which are reported.
const FLUSHES: &[&[u8]] = &[b"*1\r\n$8\r\nFLUSHALL\r\n", b"*1\r\n$7\r\nFLUSHDB\r\n"];
/// The name and time of each flush, by its slice.
type Flushes = BTreeMap<Lsn, (&'static str, u64)>;
/// How many of the last flushes are reported.
const FLUSHES_MAX: usize = 10;

/// Reports what the folder contains, and what a start would do.
pub(crate) fn check(folder: &Folder) -> Result<ExitCode, Error> {
    let mut flushes = Flushes::new();
    let mut meter = Meter::new();
    let report = journal::check(folder, &mut |scanned| {
        meter.show(|| format!("segment {}, slice {}", scanned.segment, scanned.slice.number));
        note_flush(scanned, &mut flushes);
    });
    meter.end();
    let report = report?;
    say(&report.to_string())?;
    say_flushes(flushes, report.manifest().base.slice)?;
    let base = check_base(folder, &report, &mut meter);
    meter.end();
    match base {
        Err(why) => {
            say(&format!("a start is refused: {}", persistence::Error::Base(Box::new(why))))?;
            Ok(DAMAGED.into())
        }
        Ok(line) => {
            line.iter().try_for_each(|line| say(line))?;
            say(&report.outlook())?;
            let is_damaged = report.end().damage().is_some();
            Ok(if is_damaged { DAMAGED.into() } else { ExitCode::SUCCESS })
        }
    }
}

/// Reports the last flushes, and how to recover the state before them. Flushes that are part of the base cannot be
/// undone.
fn say_flushes(flushes: Flushes, base_slice: Lsn) -> Result<(), Error> {
    let skipped = flushes.len().saturating_sub(FLUSHES_MAX);
    for (slice, (what, unix_ms)) in flushes.into_iter().skip(skipped) {
        let way_back = match slice > base_slice {
            true => format!("--journal-until {} ends before it", unix_ms.saturating_sub(1)),
            false => "part of the base".to_owned(),
        };
        let moment = time(unix_ms);
        say(&format!("{what} in slice {slice}, at unix ms {unix_ms} ({moment} UTC): {way_back}"))?;
    }
    Ok(())
}

/// Records a slice that deletes all keys. (A value with the same bytes is reported too.)
fn note_flush(scanned: &Scanned, flushes: &mut Flushes) {
    for (pattern, what) in FLUSHES.iter().zip(["FLUSHALL", "FLUSHDB"]) {
        if memchr::memmem::find(&scanned.slice.payload, pattern).is_some() {
            flushes.insert(scanned.slice.number, (what, scanned.unix_ms));
        }
    }
}

/// Reads the base; returns a line about its content, or about what is wrong with it.
fn check_base(
    folder: &Folder,
    report: &Report,
    meter: &mut Meter,
) -> Result<Option<String>, persistence::Error> {
    let Some(base) = &report.manifest().base.file else { return Ok(None) };
    let names = Names::new(folder.disk(), &folder.path().display().to_string(), base);
    let mut watch = |bytes: u64| meter.show(|| format!("base, {bytes} bytes"));
    match examine(&names, base, &mut watch) {
        Ok(found) => Ok(Some(format!(
            "the base is complete, and its checksums are right: keys: {}, bytes: {}",
            found.key_count, found.bytes
        ))),
        // A server that runs has another one by now.
        Err(_) if is_replaced(folder, base) => {
            Ok(Some("the base was replaced while it was checked, and is left out".to_owned()))
        }
        Err(error) => Err(error),
    }
}

fn is_replaced(folder: &Folder, base: &str) -> bool {
    let now = folder.manifest();
    now.is_ok_and(|now| now.is_some_and(|now| now.base.file.as_deref() != Some(base)))
}

/// Drops what follows the damage, and reports what is left.
pub(crate) fn repair(folder: &Folder) -> Result<ExitCode, Error> {
    // No folder is made by a lock where nothing is to be repaired.
    folder.journal()?;
    let locked = Arc::new(folder.lock()?);
    match Repair::plan(&locked)? {
        None => say("nothing is cut: a server starts from this")?,
        Some(repair) => {
            say(&format!("the log is cut behind slice {}; it loses {}", repair.last_slice(), repair.rest()))?;
            for path in repair.cut(Tuning::default())? {
                say(&format!("kept aside: {}", path.display()))?;
            }
        }
    }
    drop(locked);
    check(folder)
}
