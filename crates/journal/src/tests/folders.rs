//! Folders of other programs, of other servers, or with something missing; and journals that replace another one.

use std::path::Path;
use std::sync::Arc;

use effectlog::{Lsn, StreamPosition};
use proactor::{Disk, Open, SimDisk};
use scratch::Scratch;

use super::world::{BEGINNING, TUNING, folder, read, slice};
use crate::{
    Base, Beginning, Contents, Data, Error, ErrorKind, Folder, Journal, LockedFolder, Policy, Writer,
};

fn put(disk: &Disk, name: &str) {
    disk.open(&folder(disk).path().join(name), Open::Write).unwrap().write_all_at(0, b"something").unwrap();
}

fn names(disk: &Disk) -> Vec<String> {
    let names = disk.list(folder(disk).path()).unwrap();
    names.into_iter().map(|name| name.into_string().unwrap()).collect()
}

fn append(writer: &mut Writer, bytes: usize) -> u64 {
    let next = slice(writer, 0, writer.next().1, bytes);
    writer.append(&[next], 0).unwrap().get()
}

#[track_caller]
fn check_error(error: &Error, kind: ErrorKind, text: &str) {
    assert_eq!((error.kind, error.to_string().as_str()), (kind, text));
}

#[test]
fn two_servers_do_not_use_one_folder() {
    let scratch = Scratch::new("lock");
    let real_folder = Folder::new(Disk::real(), &scratch.folder().join("appendonlydir"));
    for folder in [real_folder, folder(&SimDisk::new(1).disk())] {
        let lock = folder.lock().unwrap();
        let error = folder.lock().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Locked);
        assert!(
            error.to_string().contains("another server uses this folder (stop that server, or"),
            "{error}"
        );
        drop(lock);
        folder.lock().unwrap();
    }
}

#[test]
fn a_folder_of_somebody_else_is_recognised() {
    let disk = SimDisk::new(1).disk();
    assert_eq!(folder(&disk).contents().unwrap(), Contents::Nothing);
    put(&disk, "journal.lock");
    put(&disk, ".hidden");
    assert_eq!(folder(&disk).contents().unwrap(), Contents::Nothing);
    put(&disk, "appendonly.aof.1.base.rdb");
    let way_out = "(move them away, or choose another appenddirname)";
    let text = format!(
        "data/appendonlydir/appendonly.aof.1.base.rdb: the folder for the journal contains other files {way_out}"
    );
    check_error(&folder(&disk).contents().unwrap_err(), ErrorKind::Foreign, &text);
    put(&disk, "appendonly.aof.manifest");
    let manifest = folder(&disk).path().join("appendonly.aof.manifest");
    assert_eq!(folder(&disk).contents().unwrap(), Contents::RedisAof(manifest));
    let error = crate::check(&folder(&disk), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("redis-check-aof"), "{error}");
    // A journal may begin beside them, and then the folder is its own.
    let lock = folder(&disk).lock().unwrap();
    Journal::create(lock.into(), TUNING, Policy::No, BEGINNING).unwrap();
    assert!(matches!(folder(&disk).contents().unwrap(), Contents::Journal(_)));
    assert!(names(&disk).contains(&"appendonly.aof.1.base.rdb".to_owned()), "nothing of theirs goes");
}

#[test]
fn a_folder_that_cannot_be_used_is_refused_in_a_line() {
    let scratch = Scratch::new("file");
    let real = scratch.folder().join("file");
    std::fs::write(&real, b"a file").unwrap();
    let error = Folder::new(Disk::real(), &real).contents().unwrap_err();
    assert!(error.to_string().contains("(move the file away, or choose another appenddirname)"), "{error}");
    assert!(Folder::new(Disk::real(), &real).lock().is_err());
    std::fs::remove_file(&real).unwrap();
    let error = Folder::new(Disk::real(), &real.join("within")).lock().unwrap_err();
    assert!(error.to_string().contains("cannot make the folder: No such file"), "{error}");
    let refused = |number| {
        let error =
            Error::io(Path::new("x"), "lock it")(std::io::Error::from_raw_os_error(number)).to_string();
        assert!(!error.contains('\n'));
        error
    };
    let rights = "x: cannot lock it: Permission denied (os error 13) \
        (give the server's user the rights to it, or choose another appenddirname)";
    assert_eq!(refused(13), rights);
    assert!(refused(30).ends_with("(mount the file system for writing, or choose another folder)"));
    assert!(refused(28).ends_with("(make room on the disk)"));
}

#[test]
fn a_journal_without_its_manifest_is_not_overwritten() {
    let disk = SimDisk::new(1).disk();
    let lock: Arc<LockedFolder> = folder(&disk).lock().unwrap().into();
    Journal::create(Arc::clone(&lock), TUNING, Policy::No, BEGINNING).unwrap();
    disk.remove(&folder(&disk).path().join("journal.manifest")).unwrap();
    let before = names(&disk);
    let text = "data/appendonlydir/journal-000000000000abcd-1.seg: it belongs to a journal whose journal.manifest is missing \
        (put the manifest back, or move the files of that journal away)";
    check_error(&folder(&disk).contents().unwrap_err(), ErrorKind::Damaged, text);
    let other = Beginning { id: 2, ..BEGINNING };
    assert!(Journal::create(lock, TUNING, Policy::No, other).is_err());
    assert_eq!(names(&disk), before);
}

/// A journal with slices 1 to 3, and one that replaces it after slice 3.
fn successor(disk: &Disk) -> (Journal, Writer) {
    let lock: Arc<LockedFolder> = folder(disk).lock().unwrap().into();
    let (_, mut former) = Journal::create(Arc::clone(&lock), TUNING, Policy::Always, BEGINNING).unwrap();
    for _ in 0..3 {
        append(&mut former, 100);
    }
    let beginning = Beginning {
        id: 0xef,
        slice: Lsn::new(3),
        position: StreamPosition::new(300),
        data: Data::Coming,
        ..BEGINNING
    };
    let (journal, mut writer) = Journal::create(lock, TUNING, Policy::Always, beginning).unwrap();
    assert_eq!(append(&mut writer, 50), 4);
    while journal.prepare_spare(0).unwrap() {}
    (journal, writer)
}

#[test]
fn a_journal_takes_the_place_of_another_one_when_it_has_a_base() {
    let disk = SimDisk::new(1).disk();
    let (journal, mut writer) = successor(&disk);
    let Contents::Journal(manifest) = folder(&disk).contents().unwrap() else { panic!("there is one") };
    assert_eq!(manifest.id, BEGINNING.id);
    put(&disk, "base-00000000000000ef-4.rdb");
    put(&disk, "base-00000000000000ef-4.rdb.1");
    assert_eq!(append(&mut writer, 50), 5);
    let base = Base {
        slice: Lsn::new(4),
        position: StreamPosition::new(350),
        file: Some("base-00000000000000ef-4.rdb".to_owned()),
    };
    assert!(journal.facts().is_pending);
    journal.set_base(&base, 0).unwrap();
    let facts = journal.facts();
    assert_eq!((facts.is_pending, &facts.base, facts.spares), (false, &base, 2));
    assert!(
        names(&disk).iter().all(|name| !name.contains("abcd") && !name.contains("pending")),
        "{:?}",
        names(&disk)
    );
    // The next base takes that one's place.
    put(&disk, "base-00000000000000ef-5.rdb");
    let base = Base {
        slice: Lsn::new(5),
        position: StreamPosition::new(400),
        file: Some("base-00000000000000ef-5.rdb".to_owned()),
    };
    journal.set_base(&base, 0).unwrap();
    let bases: Vec<String> = names(&disk).into_iter().filter(|name| name.starts_with("base")).collect();
    assert_eq!(bases, ["base-00000000000000ef-5.rdb"]);
    let Contents::Journal(manifest) = folder(&disk).contents().unwrap() else { panic!("there is one") };
    assert_eq!((manifest.id, &manifest.base, manifest.former), (0xef, &base, vec![]));
}

#[test]
fn a_journal_that_got_no_base_is_gone_at_the_next_start() {
    let disk = SimDisk::new(1).disk();
    drop(successor(&disk));
    put(&disk, "base-00000000000000ef-4.rdb");
    put(&disk, "base-000000000000abcd-2.rdb");
    let lock = folder(&disk).lock().unwrap();
    let Contents::Journal(manifest) = folder(&disk).contents().unwrap() else { panic!("there is one") };
    let (slices, end) = read(lock.recover(&manifest).unwrap());
    assert_eq!(slices.len(), 3);
    let (_, writer) = Journal::resume(lock.into(), TUNING, Policy::Always, &manifest, &end, None).unwrap();
    assert_eq!(writer.next(), (Lsn::new(4), StreamPosition::new(300)));
    assert!(
        names(&disk).iter().all(|name| !name.contains("00ef") && !name.contains("base")),
        "{:?}",
        names(&disk)
    );
    // This also works without a journal before it.
    let disk = SimDisk::new(1).disk();
    let lock: Arc<LockedFolder> = folder(&disk).lock().unwrap().into();
    let coming = Beginning { data: Data::Coming, ..BEGINNING };
    let (journal, mut writer) = Journal::create(Arc::clone(&lock), TUNING, Policy::No, coming).unwrap();
    // It begins later than was expected when it was made, and gets more segments before its base.
    writer.begin_at((Lsn::new(32), StreamPosition::new(4_000)));
    while journal.prepare_spare(4).unwrap() {}
    drop((journal, writer));
    assert_eq!(folder(&disk).contents().unwrap(), Contents::Nothing);
    Journal::create(lock, TUNING, Policy::No, Beginning { id: 2, ..BEGINNING }).unwrap();
    assert!(names(&disk).iter().all(|name| !name.contains("abcd") && !name.contains("pending")));
}
