//! The writer with enough space, without space, and when the disk fails; and its files on real disks.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use effectlog::{Lsn, StreamPosition};
use proactor::{Disk, DiskFaults, Fault, SimDisk};
use scratch::Scratch;

use super::world::{BEGINNING, TUNING, folder, read, slice};
use crate::{Base, Contents, Folder, Journal, Policy, Scan, Trouble, Tuning, Verdict, Writer};

fn begin(disk: &Disk, policy: Policy) -> (Journal, Writer) {
    Journal::create(folder(disk).lock().unwrap().into(), TUNING, policy, BEGINNING).unwrap()
}

fn append(writer: &mut Writer, bytes: usize) -> Result<u64, Trouble> {
    let next = slice(writer, 0, writer.next().1, bytes);
    writer.append(std::slice::from_ref(&next), next.number.get()).map(Lsn::get)
}

/// The numbers of the slices that are found, and the end of the log.
fn numbers(folder: &Folder, until: Option<u64>) -> (Vec<u64>, Verdict) {
    let Contents::Journal(manifest) = folder.contents().unwrap() else { panic!("there is one") };
    let scan = Scan::everything(folder, &manifest).unwrap();
    let (slices, end) = read(if let Some(until) = until { scan.until(until) } else { scan });
    (slices.iter().map(|scanned| scanned.slice.number.get()).collect(), end.verdict)
}

#[test]
fn without_spares_nothing_is_written_and_later_all_of_it() {
    let disk = SimDisk::new(1).disk();
    let (journal, mut writer) = begin(&disk, Policy::Always);
    assert_eq!(append(&mut writer, 20_000).unwrap(), 1);
    let next = writer.next();
    let Err(Trouble::NoSpare { needed }) = append(&mut writer, 100_000) else { panic!("it does not fit") };
    assert!((4..=6).contains(&needed), "{needed}");
    assert_eq!((writer.next(), journal.written_slice()), (next, Lsn::new(1)));
    while journal.prepare_spare(needed).unwrap() {}
    assert_eq!(append(&mut writer, 100_000).unwrap(), 2);
    assert_eq!(numbers(&folder(&disk), None), (vec![1, 2], Verdict::Clean));
}

#[test]
fn a_full_disk_loses_nothing_and_ends_nothing() {
    let sim = SimDisk::new(1);
    let disk = sim.disk();
    let (journal, mut writer) = begin(&disk, Policy::Always);
    sim.set_faults(DiskFaults { room_bytes: 100_000, ..DiskFaults::default() });
    let mut spares = 0;
    let trouble = loop {
        match journal.prepare_spare(9) {
            Ok(is_made) => spares += usize::from(is_made),
            Err(trouble) => break trouble,
        }
    };
    assert!(trouble.error().unwrap().is_no_room() && !trouble.is_final(), "{trouble}");
    assert!(trouble.to_string().ends_with("(make room on the disk)"), "{trouble}");
    assert_eq!((spares, journal.facts().spares), (2, 2));
    let mut last = 0;
    let trouble = loop {
        match append(&mut writer, 3_000) {
            Ok(slice) => last = slice,
            Err(trouble) => break trouble,
        }
    };
    assert!(matches!(trouble, Trouble::NoSpare { needed: 1 }), "{trouble}");
    assert_eq!((last, journal.durable_slice().get()), (24, 24), "what was written before is used up");
    sim.heal();
    assert!(journal.prepare_spare(0).unwrap());
    assert_eq!(append(&mut writer, 3_000).unwrap(), 25);
    assert_eq!(numbers(&folder(&disk), None), ((1..=25).collect(), Verdict::Clean));
}

#[test]
fn after_a_failure_nothing_is_durable_any_more() {
    for policy in [Policy::Always, Policy::Everysec] {
        let sim = SimDisk::new(1);
        let (journal, mut writer) = begin(&sim.disk(), policy);
        append(&mut writer, 100).unwrap();
        journal.sync().unwrap();
        sim.plan(0, Fault::SyncError);
        let failed = append(&mut writer, 100).and_then(|_| journal.sync().map(Lsn::get));
        let trouble = failed.unwrap_err();
        assert!(trouble.is_final(), "{trouble}");
        let text = trouble.to_string();
        assert!(
            text.contains("journal-000000000000abcd-1.seg") && text.contains("look at the disk"),
            "{text}"
        );
        // The disk works again, but the writer does not trust it.
        assert!(append(&mut writer, 100).unwrap_err().is_final());
        assert!(journal.sync().unwrap_err().is_final());
        assert!(journal.prepare_spare(0).unwrap_err().is_final());
        let base = Base { slice: Lsn::new(1), position: StreamPosition::new(100), file: None };
        assert!(journal.set_base(&base, 0).unwrap_err().is_final());
        assert_eq!(journal.durable_slice().get(), 1);
        assert_eq!(journal.failure().unwrap().to_string(), text);
    }
}

#[test]
fn a_rested_log_is_confirmed_by_an_empty_slice() {
    let disk = SimDisk::new(1).disk();
    let (journal, mut writer) = begin(&disk, Policy::Everysec);
    assert!(!writer.wants_confirmation());
    append(&mut writer, 100).unwrap();
    assert!(!writer.wants_confirmation(), "it is not durable");
    assert_eq!(journal.durable_slice(), Lsn::NONE);
    assert_eq!((journal.sync().unwrap(), journal.durable_slice()), (Lsn::new(1), Lsn::new(1)));
    assert!(writer.wants_confirmation());
    append(&mut writer, 0).unwrap();
    assert!(!writer.wants_confirmation());
    // From here, damage to the first slice is damage and not a torn tail.
    let path = folder(&disk).segment(BEGINNING.id, 1);
    disk.open(&path, proactor::Open::Write).unwrap().write_all_at(100, b"x").unwrap();
    assert!(matches!(numbers(&folder(&disk), None).1, Verdict::Damaged { .. }));
}

#[test]
fn the_policy_changes_while_it_writes() {
    let sim = SimDisk::new(1);
    let (journal, mut writer) = begin(&sim.disk(), Policy::No);
    append(&mut writer, 100).unwrap();
    assert_eq!(journal.durable_slice().get(), 0);
    writer.set_policy(Policy::Always).unwrap();
    assert_eq!(journal.durable_slice().get(), 1, "what was promised less is promised now");
    append(&mut writer, 100).unwrap();
    assert_eq!(journal.durable_slice().get(), 2);
    writer.set_policy(Policy::Everysec).unwrap();
    append(&mut writer, 100).unwrap();
    assert_eq!((journal.durable_slice(), journal.sync().unwrap()), (Lsn::new(2), Lsn::new(3)));
    sim.crash();
    assert_eq!(numbers(&folder(&sim.disk()), None), (vec![1, 2, 3], Verdict::Clean));
}

#[test]
fn segments_are_used_again_and_a_backlog_is_kept() {
    for (backlog_bytes, kept) in [(0, 1..3), (60_000, 15..30)] {
        let disk = SimDisk::new(1).disk();
        let (journal, mut writer) = begin(&disk, Policy::Always);
        for round in 1..=30 {
            for _ in 0..10 {
                while journal.prepare_spare(0).unwrap() {}
                append(&mut writer, 4_000).unwrap();
            }
            let base = Base {
                slice: Lsn::new(round * 10 - 3),
                position: StreamPosition::new((round * 10 - 3) * 4_000),
                file: None,
            };
            journal.set_base(&base, backlog_bytes).unwrap();
        }
        let files = disk.list(folder(&disk).path()).unwrap().len();
        assert!(files < 16, "{files} files");
        let (numbers, verdict) = numbers(&folder(&disk), None);
        assert_eq!((numbers.last(), verdict), (Some(&300), Verdict::Clean));
        let before_base = numbers.iter().filter(|number| **number <= 297).count();
        assert!((kept.start..kept.end + 10).contains(&before_base), "{before_base} slices before the base");
        assert!(matches!(
            journal.set_base(&Base { slice: Lsn::new(301), position: StreamPosition::START, file: None }, 0),
            Err(Trouble::Behind)
        ));
    }
}

#[test]
fn a_scan_ends_at_a_time() {
    let disk = SimDisk::new(1).disk();
    let (_, mut writer) = begin(&disk, Policy::Always);
    for _ in 0..5 {
        append(&mut writer, 10).unwrap();
    }
    let folder = folder(&disk);
    assert_eq!(numbers(&folder, Some(3)), (vec![1, 2, 3], Verdict::Until));
    assert_eq!(numbers(&folder, Some(0)), (vec![], Verdict::Until));
    assert_eq!(numbers(&folder, Some(5)), (vec![1, 2, 3, 4, 5], Verdict::Clean));
}

/// Temporary folders on real disks: one with a file system on a device, perhaps, and one in memory.
fn real_folders(name: &str) -> Vec<Scratch> {
    let places =
        [std::env::temp_dir(), Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), "/dev/shm".into()];
    let places = places.into_iter().filter(|place| place.is_dir());
    places.map(|place| Scratch::within(place, name)).collect()
}

#[test]
fn real_disks_have_what_was_written() {
    for scratch in real_folders("real") {
        let folder = Folder::new(Disk::real(), &scratch.folder().join("appendonlydir"));
        for (life, policy) in
            [Policy::Always, Policy::Everysec, Policy::No, Policy::Always].into_iter().enumerate()
        {
            let lock = folder.lock().unwrap();
            let opened = match folder.contents().unwrap() {
                Contents::Journal(manifest) => {
                    let (slices, end) = read(lock.recover(&manifest).unwrap());
                    assert_eq!((slices.len(), &end.verdict), (life * 20, &Verdict::Clean));
                    Journal::resume(lock.into(), TUNING, policy, &manifest, &end, None)
                }
                _ => Journal::create(lock.into(), TUNING, policy, BEGINNING),
            };
            let (journal, mut writer) = opened.unwrap();
            for bytes in (0..20).map(|number| number * 997) {
                while journal.prepare_spare(0).unwrap() {}
                append(&mut writer, bytes).unwrap();
            }
            assert_eq!(journal.durable_slice() == journal.written_slice(), policy == Policy::Always);
        }
        assert_eq!(numbers(&folder, None), ((1..=80).collect(), Verdict::Clean));
    }
}

#[test]
fn another_thread_syncs_while_one_writes() {
    let scratch = Scratch::new("threads");
    let folder = Folder::new(Disk::real(), &scratch.folder().join("appendonlydir"));
    let tuning = Tuning { segment_bytes_first: 256 << 10, segment_bytes: 256 << 10, ..TUNING };
    let lock = folder.lock().unwrap().into();
    let (journal, mut writer) = Journal::create(lock, tuning, Policy::Everysec, BEGINNING).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let written_before = journal.written_slice();
                assert!(journal.sync().unwrap() >= written_before);
                while journal.prepare_spare(0).unwrap() {}
            }
        });
        let mut written = 0;
        while written < 300 {
            match append(&mut writer, 3_000) {
                Ok(slice) => written = slice,
                Err(trouble) => assert!(matches!(trouble, Trouble::NoSpare { .. }), "{trouble}"),
            }
            assert!(journal.durable_slice() <= journal.written_slice());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(journal.sync().unwrap(), Lsn::new(300));
    assert_eq!(numbers(&folder, None), ((1..=300).collect(), Verdict::Clean));
}
