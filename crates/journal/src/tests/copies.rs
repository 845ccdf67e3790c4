//! Copies of journals: whole, up to a time, and while the original is being written.

use std::path::Path;
use std::sync::Arc;

use proactor::{Disk, Open, SimDisk};

use super::world::{BEGINNING, TUNING, folder, read, slice};
use crate::{
    Base, Contents, Copied, Copying, Error, ErrorKind, Folder, Journal, LockedFolder, Policy, Reading, Scan,
    Scanned, Verdict, Writer, check,
};

fn append(journal: &Journal, writer: &mut Writer, count: usize) {
    for number in 0..count {
        while journal.prepare_spare(0).unwrap() {}
        let next = slice(writer, 0, writer.next().1, 100 + number % 5 * 4_000);
        writer.append(&[next], 1_000 + writer.next().0.get()).unwrap();
    }
}

fn put(disk: &Disk, name: &str) {
    let path = folder(disk).path().join(name);
    disk.open(&path, Open::Write).unwrap().write_all_at(0, name.as_bytes()).unwrap();
}

/// A journal with a base up to slice 7, and 20 slices.
fn original(disk: &Disk) -> (Journal, Writer) {
    let lock = folder(disk).lock().unwrap();
    let (journal, mut writer) = Journal::create(lock.into(), TUNING, Policy::Always, BEGINNING).unwrap();
    append(&journal, &mut writer, 7);
    set_base(disk, &journal, &writer);
    append(&journal, &mut writer, 13);
    (journal, writer)
}

fn set_base(disk: &Disk, journal: &Journal, writer: &Writer) {
    let (next, position) = writer.next();
    let file = format!("base-000000000000abcd-{}.rdb", next.before());
    put(disk, &file);
    put(disk, &format!("{file}.0000000000000001.0000"));
    journal.set_base(&Base { slice: next.before(), position, file: Some(file) }, 0).unwrap();
}

fn target(disk: &Disk) -> Arc<LockedFolder> {
    Folder::new(disk.clone(), Path::new("copy")).lock().unwrap().into()
}

fn copy(disk: &Disk, until_unix_ms: Option<u64>, watch: &mut dyn FnMut(&Scanned)) -> Result<Copied, Error> {
    Copying { id: 0xc0b1, until_unix_ms, tuning: TUNING }.copy(&folder(disk), &target(disk), watch)
}

/// Reads the copy as a start would, without the empty slice at its end.
fn copied(disk: &Disk) -> Vec<Scanned> {
    let target = Folder::new(disk.clone(), Path::new("copy"));
    let Contents::Journal(manifest) = target.contents().unwrap() else { panic!("there is one") };
    assert_eq!(manifest.id, 0xc0b1);
    let base = manifest.base.file.clone().unwrap();
    let original = base.replace("c0b1", "abcd");
    assert_eq!(disk.read(&target.path().join(&base)).unwrap(), original.as_bytes());
    let part = format!("{base}.0000000000000001.0000");
    assert_eq!(
        disk.read(&target.path().join(part)).unwrap(),
        format!("{original}.0000000000000001.0000").as_bytes()
    );
    let (mut slices, end) = read(Scan::behind_base(&target, &manifest).unwrap());
    assert_eq!(end.verdict, Verdict::Clean);
    let last = slices.pop_if(|last| last.slice.payload.is_empty());
    assert_eq!(last.is_some(), !slices.is_empty());
    slices
}

fn same(one: &[Scanned], other: &[Scanned]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(a, b)| (&a.slice, a.unix_ms) == (&b.slice, b.unix_ms))
}

#[test]
fn a_copy_ends_where_it_is_told_to() {
    let disk = SimDisk::new(1).disk();
    drop(original(&disk));
    let Contents::Journal(manifest) = folder(&disk).contents().unwrap() else { panic!("there is one") };
    let (all, _) = read(Scan::behind_base(&folder(&disk), &manifest).unwrap());
    assert_eq!(all.len(), 13);
    for until in [None, Some(1_007), Some(1_008), Some(1_011), Some(1_015), Some(1_020), Some(9_999)] {
        let found = copy(&disk, until, &mut |_| {}).unwrap();
        let count = until.map_or(13, |until| (until - 1_007).min(13)) as usize;
        let slices = copied(&disk);
        assert!(same(&slices, &all[..count]), "{until:?}");
        assert_eq!((found.slices, found.rest.slices), (count as u64, 13 - count as u64), "{until:?}");
        let target = Folder::new(disk.clone(), Path::new("copy"));
        let report = check(&target, &mut |_| {}).unwrap();
        assert_eq!(report.end().verdict, Verdict::Clean, "{report}");
        for name in disk.list(target.path()).unwrap() {
            disk.remove(&target.path().join(name)).unwrap();
        }
    }
    let error = copy(&disk, Some(1_006), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Later);
    let begins =
        "the journal begins at unix ms 1007 (1970-01-01 00:00:01 UTC), and its base has everything before";
    assert!(error.to_string().contains(begins), "{error}");
}

#[test]
fn an_original_may_go_on() {
    for change_at in [8, 11, 19, 20] {
        let disk = SimDisk::new(1).disk();
        let (journal, mut writer) = original(&disk);
        let mut is_changed = false;
        copy(&disk, None, &mut |scanned| {
            if !is_changed && scanned.slice.number.get() == change_at {
                is_changed = true;
                append(&journal, &mut writer, 3);
                set_base(&disk, &journal, &writer);
                append(&journal, &mut writer, 9);
            }
        })
        .unwrap();
        let slices = copied(&disk);
        let [first, last] = [0, slices.len() - 1].map(|index| slices[index].slice.number.get());
        assert!([8, 24].contains(&first) && last >= 20, "{first} to {last}");
    }
}

/// The files of the base are removed one by one. The remaining ones are not a base that may be copied.
#[test]
fn a_base_that_is_being_removed_is_not_copied() {
    let disk = SimDisk::new(1).disk();
    let (journal, mut writer) = original(&disk);
    let mut reading = Reading::begin(&folder(&disk), None).unwrap();
    let former = reading.manifest().base.file.clone().unwrap();
    append(&journal, &mut writer, 3);
    set_base(&disk, &journal, &writer);
    put(&disk, &former);
    let copying = Copying { id: 0xc0b1, until_unix_ms: None, tuning: TUNING };
    let error = copying.copy_once(&folder(&disk), &mut reading, &target(&disk), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("has another base by now"), "{error}");
    assert!(reading.is_outdated().unwrap(), "it is tried again");
    assert_eq!(target(&disk).contents().unwrap(), Contents::Nothing);
}

#[test]
fn a_copy_that_came_to_no_end_is_no_journal() {
    let disk = SimDisk::new(1).disk();
    let (journal, mut writer) = original(&disk);
    let Contents::Journal(manifest) = folder(&disk).contents().unwrap() else { panic!("there is one") };
    append(&journal, &mut writer, 30);
    // These slices are after the base.
    let number = manifest.segments[0].number + 2;
    let path = folder(&disk).segment(manifest.id, number);
    let file = disk.open(&path, Open::Write).unwrap();
    file.write_all_at(file.size_bytes().unwrap() - 4096 * 3 - 4000, b"damage").unwrap();
    let error = copy(&disk, None, &mut |_| {}).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Damaged);
    assert_eq!(target(&disk).contents().unwrap(), Contents::Nothing);
}
