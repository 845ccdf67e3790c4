//! Folders that are read while a server writes to them.

use effectlog::StreamPosition;
use proactor::{Disk, SimDisk};

use super::world::{BEGINNING, TUNING, folder, slice};
use crate::{Base, Journal, Policy, Scan, Verdict, Writer, check};

fn append(journal: &Journal, writer: &mut Writer, count: usize) {
    for _ in 0..count {
        while journal.prepare_spare(0).unwrap() {}
        let next = slice(writer, 0, writer.next().1, 9_000);
        writer.append(&[next], 1_000 + writer.next().0.get()).unwrap();
    }
}

fn journal(disk: &Disk, count: usize) -> (Journal, Writer) {
    let lock = folder(disk).lock().unwrap();
    let (journal, mut writer) = Journal::create(lock.into(), TUNING, Policy::Always, BEGINNING).unwrap();
    append(&journal, &mut writer, count);
    (journal, writer)
}

#[test]
fn a_log_that_grows_while_it_is_checked_is_not_damaged() {
    let mut grown = 0;
    for count in 1..8 {
        let disk = SimDisk::new(1).disk();
        let (journal, mut writer) = journal(&disk, count);
        let mut has_grown = false;
        let report = check(&folder(&disk), &mut |scanned| {
            if scanned.slice.number.get() == count as u64 {
                has_grown = true;
                append(&journal, &mut writer, 3);
            }
        });
        let report = report.unwrap();
        assert!(has_grown && report.end().verdict == Verdict::Clean, "{report}");
        assert!(report.end().place.last_slice().get() >= count as u64, "{report}");
        let outlook = report.outlook();
        assert_eq!(outlook.ends_with(", and what a server is writing at this moment"), report.is_growing());
        // The reader has not read any of the slices in a later segment before.
        assert!(report.is_growing() || report.end().place.last_slice().get() > count as u64, "{outlook}");
        grown += u32::from(report.is_growing());
    }
    assert!(grown > 0, "some end was looked at twice");
}

#[test]
fn segments_that_go_while_they_are_checked_are_not_damaged() {
    let disk = SimDisk::new(1).disk();
    let (journal, mut writer) = journal(&disk, 6);
    let mut bases = 0;
    let report = check(&folder(&disk), &mut |_| {
        if bases < 2 {
            let (next, position) = writer.next();
            journal.set_base(&Base { slice: next.before(), position, file: None }, 0).unwrap();
            append(&journal, &mut writer, 9);
            bases += 1;
        }
    });
    let report = report.unwrap();
    assert_eq!(report.end().verdict, Verdict::Clean, "{report}");
    assert_eq!((report.manifest().base.slice.get(), bases), (15, 2));
    assert_eq!(report.end().place.last_slice().get(), 24);
}

#[test]
fn the_stream_is_read_back_from_any_position_while_it_goes_on() {
    let disk = SimDisk::new(1).disk();
    let (journal, mut writer) = journal(&disk, 6);
    let mut whole = Vec::new();
    let mut scan = Scan::everything(&folder(&disk), &folder(&disk).journal().unwrap()).unwrap();
    while let Some(scanned) = scan.next_slice().unwrap() {
        whole.extend_from_slice(&scanned.slice.payload);
    }
    let end = writer.next().1;
    let (start, length) = (StreamPosition::START, whole.len());
    assert_eq!(start.plus(length), end);
    for from in (0..length).step_by(997).chain([length - 1, length]) {
        let (mut stream, mut read) = (journal.read_back(start.plus(from), end), Vec::new());
        while let Some(bytes) = stream.next(None).unwrap() {
            read.extend(bytes);
        }
        assert!(read == whole[from..], "from {from}");
    }
    // The reader waits for slices that are written meanwhile.
    let mut stream = journal.read_back(end.minus(1), end.plus(9_000));
    assert_eq!(stream.next(None).unwrap().map(|bytes| bytes.len()), Some(1));
    append(&journal, &mut writer, 1);
    assert_eq!(stream.next(None).unwrap().map(|bytes| bytes.len()), Some(9_000));
    assert_eq!(stream.next(None).unwrap(), None);
    // A removed part is an error, and is never left out silently.
    let mut stream = journal.read_back(start, end);
    let (next, position) = writer.next();
    journal.set_base(&Base { slice: next.before(), position, file: None }, 0).unwrap();
    assert!(!journal.reaches_back_to(start) && journal.reaches_back_to(position));
    append(&journal, &mut writer, 20);
    let mut read = 0;
    let error = loop {
        match stream.next(None) {
            Ok(bytes) => read += bytes.expect("it is not all there").len(),
            Err(error) => break error,
        }
    };
    assert!(read < length, "{error}");
}
