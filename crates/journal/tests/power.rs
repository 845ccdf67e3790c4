//! Power failures on the machine's own disk: what a process that writes a journal has asked of the kernel is recorded call by call, and
//! for each of many moments there is a folder that a power failure might have left then. Every slice that had been reported durable by
//! that moment must be in it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ds::random::Random;
use effectlog::{Lsn, Slice, StreamPosition};
use journal::{Base, Beginning, Contents, Data, Folder, Journal, Policy, Trouble, Tuning};
use powerlog::{Bytes, Disk, Event, Promise, Recording, What};
use scratch::Scratch;

/// Tells this binary, in its environment, to be the process that is recorded, and where.
const FOLDER: &str = "JOURNAL_TEST_FOLDER";
const SLICES: u64 = 150;
const POINTS: u64 = 250;
const TUNING: Tuning = Tuning {
    segment_bytes_first: 64 << 10,
    segment_bytes: 64 << 10,
    payload_bytes_max: 5_000,
    spares: 2,
    free_max: 2,
    write_bytes: 10_000,
};

fn journal_in(folder: &Path) -> Folder {
    Folder::new(proactor::Disk::real(), &folder.join("appendonlydir"))
}

fn slice(lsn: Lsn, position: StreamPosition) -> Slice {
    let number = lsn.get();
    let bytes = (number * 7919 % 9000) as usize;
    let mut payload = vec![number as u8; bytes];
    payload.iter_mut().step_by(97).enumerate().for_each(|(mark, byte)| *byte = mark as u8);
    Slice { number: lsn, position, db: Some(0), payload }
}

/// What is recorded: a journal whose segments are recycled. What was reported goes to a file beside it.
fn write_a_journal(folder: &Path, policy: Policy) {
    let mut told =
        OpenOptions::new().create(true).append(true).open(folder.join("told")).expect("a new file");
    let locked = Arc::new(journal_in(folder).lock().expect("nobody has it"));
    let beginning = Beginning {
        id: 7,
        stream: None,
        databases: 16,
        slice: Lsn::NONE,
        position: StreamPosition::START,
        data: Data::None,
    };
    let (journal, mut writer) =
        Journal::create(locked, TUNING, policy, beginning).expect("the disk is sound");
    while writer.next().0.get() <= SLICES {
        let (number, position) = writer.next();
        let next = slice(number, position);
        match writer.append(std::slice::from_ref(&next), 1_000) {
            Ok(last) => told.write_all(&last.get().to_ne_bytes()).expect("the disk is sound"),
            Err(Trouble::NoSpare { needed }) => {
                journal.prepare_spare(needed).expect("the disk is sound");
                continue;
            }
            Err(trouble) => panic!("{trouble}"),
        }
        if number.get() % 40 == 0 {
            let base = Base { slice: number, position: next.end(), file: None };
            journal.set_base(&base, 0).expect("the disk is sound");
        }
    }
}

/// The last slice that had been reported by a moment.
fn reported(events: &[Event], told: u64, moment: u64) -> u64 {
    let numbers = events.iter().filter(|event| event.begin <= moment).filter_map(|event| match &event.what {
        What::Write { file, bytes: Bytes::Some(bytes), .. } if *file == told => {
            Some(u64::from_ne_bytes(bytes.as_slice().try_into().expect("a number at once")))
        }
        _ => None,
    });
    numbers.max().unwrap_or(0)
}

/// The last slice that a journal has; all that it has must be what was written.
fn last_slice(folder: &Path) -> Result<u64, String> {
    let journal = journal_in(folder);
    let Contents::Journal(manifest) = journal.contents().map_err(|error| error.to_string())? else {
        return Ok(0);
    };
    let locked = journal.lock().map_err(|error| error.to_string())?;
    let mut scan = locked.recover(&manifest).map_err(|error| error.to_string())?;
    let mut last = manifest.base.slice;
    while let Some(scanned) = scan.next_slice().map_err(|error| error.to_string())? {
        if scanned.slice != slice(last.next(), scanned.slice.position) {
            return Err(format!("behind slice {last} comes {:?}", scanned.slice.number));
        }
        last = scanned.slice.number;
    }
    let end = scan.end().map_err(|error| error.to_string())?;
    end.damage().map_or(Ok(last.get()), |damage| Err(damage.to_string()))
}

/// Whether there is anything to do: the process that is recorded has, and the test where processes can be recorded.
fn can_be_recorded() -> bool {
    std::env::var_os(FOLDER).is_some() || Recording::is_possible()
}

/// Records the test of this name, which writes a journal; the first point at which something is lost, told in words.
fn first_loss(test: &str, policy: Policy) -> Option<String> {
    if let Some(folder) = std::env::var_os(FOLDER) {
        write_a_journal(Path::new(&folder), policy);
        return None;
    }
    let scratch = Scratch::new("journal");
    let folder = scratch.folder().join("recorded");
    fs::create_dir(&folder).expect("the disk is sound");
    let next = AtomicU64::new(1);
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", test]).env(FOLDER, &folder);
    command.stdout(File::create(scratch.path("output")).expect("the disk is sound"));
    let recording = Recording::start(command, &folder, move || next.fetch_add(1, Ordering::Relaxed));
    let events = recording.and_then(Recording::finish).expect("it can be traced");
    let told = events.iter().find_map(|event| match &event.what {
        What::Create { path, file } if path == Path::new("told") => Some(*file),
        _ => None,
    });
    let told = told.expect("it says what was reported");
    let end = events.last().expect("it did something").end;
    let output = fs::read_to_string(scratch.path("output")).expect("it is there");
    assert_eq!(reported(&events, told, end), SLICES, "{output}");
    let mut whole = Disk::new(&events, Promise::Any);
    whole.advance(end);
    assert_eq!(whole.differences(&folder).expect("the disk is sound"), [""; 0]);

    let mut random = Random::new(1);
    let mut moments: Vec<u64> = (0..POINTS).map(|_| random.below(end + 1)).collect();
    moments.sort_unstable();
    let mut disk = Disk::new(&events, Promise::Any);
    let mut points = moments.into_iter().enumerate();
    points.find_map(|(seed, moment)| {
        disk.advance(moment);
        let left = scratch.folder().join(format!("left-{seed}"));
        fs::create_dir_all(&left).expect("the disk is sound");
        disk.image(seed as u64, &left).expect("the disk is sound");
        let least = reported(&events, told, moment);
        let found = last_slice(&left);
        fs::remove_dir_all(left).expect("it is ours");
        match found {
            Ok(there) if there >= least => None,
            other => Some(format!("seed {seed}, moment {moment}, slice {least} was reported: {other:?}")),
        }
    })
}

#[test]
fn what_was_reported_outlives_a_power_failure() {
    if !can_be_recorded() {
        return;
    }
    let loss = first_loss("what_was_reported_outlives_a_power_failure", Policy::Always);
    assert_eq!(loss, None);
}

/// This promises less, so it is found out when it is held to more: the test above sees something.
#[test]
fn what_was_only_written_is_lost() {
    if !can_be_recorded() {
        return;
    }
    let loss = first_loss("what_was_only_written_is_lost", Policy::Everysec);
    assert!(loss.is_some() || std::env::var_os(FOLDER).is_some(), "nothing is lost");
}
