//! Tests of both disks, and of each way in which the simulated one loses something that was not made durable.
//!
//! A rule about crashes is checked over many seeds: bytes that may be lost are lost for some seeds; bytes
//! that must not be lost are lost for no seed.

use std::sync::Mutex;

use scratch::Scratch;

use super::*;

const SEEDS: u64 = 60;

fn path(name: &str) -> PathBuf {
    Path::new("data").join(name)
}

/// Does something on a disk, crashes it, and inspects it. Returns the result for each seed.
fn after_crash<R>(act: impl Fn(&SimDisk, &Disk), look: impl Fn(&Disk) -> R) -> Vec<R> {
    let one = |seed| {
        let sim = SimDisk::new(seed);
        act(&sim, &sim.disk());
        sim.crash();
        look(&sim.disk())
    };
    (1..=SEEDS).map(one).collect()
}

fn write(disk: &Disk, name: &str, bytes: &[u8]) -> DiskFile {
    let file = disk.open(&path(name), Open::Empty).unwrap();
    file.write_all_at(0, bytes).unwrap();
    file
}

/// A file that is durable, and so is its name.
fn durable(disk: &Disk, name: &str, bytes: &[u8]) -> DiskFile {
    let file = write(disk, name, bytes);
    file.sync().unwrap();
    disk.sync_directory(Path::new("data")).unwrap();
    file
}

fn held(disk: &Disk, name: &str) -> Option<Vec<u8>> {
    disk.read(&path(name)).ok()
}

#[track_caller]
fn for_some<R: std::fmt::Debug>(found: &[R], what: &str, is: impl Fn(&R) -> bool) {
    assert!(found.iter().any(is), "{what} for no seed");
}

#[track_caller]
fn for_all<R: std::fmt::Debug>(found: &[R], what: &str, is: impl Fn(&R) -> bool) {
    assert!(found.iter().all(is), "not {what} for every seed");
}

#[test]
fn both_disks_read_what_was_written() {
    let scratch = Scratch::new("disk");
    let folder = scratch.folder();
    for (disk, folder) in [(Disk::real(), folder), (SimDisk::new(1).disk(), Path::new("data"))] {
        let (a, b) = (folder.join("a"), folder.join("b"));
        assert_eq!(disk.open(&a, Open::Read).unwrap_err().kind(), io::ErrorKind::NotFound);
        let file = disk.open(&a, Open::Write).unwrap();
        file.pre_write(5_000).unwrap();
        assert_eq!(file.size_bytes().unwrap(), 5_000);
        file.write_durably_at(4_096, b"durable").unwrap();
        file.write_all_at(4_100, b"BLE").unwrap();
        file.begin_write_out(0, 5_000);
        file.sync().unwrap();
        file.sync_and_forget().unwrap();
        let mut bytes = [1; 10];
        assert_eq!(file.read_at(4_095, &mut bytes).unwrap(), 10);
        assert_eq!(&bytes, b"\0duraBLE\0\0");
        assert_eq!(file.read_at(5_000, &mut bytes).unwrap(), 0);
        // It was just read, so it is in memory.
        assert_eq!(file.read_ready_at(5_000, &mut bytes).unwrap(), Some(0));
        assert_eq!(file.read_ready_at(4_095, &mut bytes).unwrap(), Some(10));
        file.sync_and_forget().unwrap();
        // It may have to be read from the disk now, and appears without waiting.
        let count =
            std::iter::repeat_with(|| file.read_ready_at(4_096, &mut bytes).unwrap()).flatten().next();
        assert_eq!(count, Some(10));
        disk.rename(&a, &b).unwrap();
        assert!(!disk.has(&a) && disk.is_file(&b));
        assert_eq!(disk.list(folder).unwrap(), ["b"]);
        // Reopening keeps the content, `Empty` does not.
        assert_eq!(disk.open(&b, Open::Write).unwrap().size_bytes().unwrap(), 5_000);
        assert_eq!(disk.open(&b, Open::Empty).unwrap().size_bytes().unwrap(), 0);
        let mut writer = DiskWriter::new(disk.open(&b, Open::Empty).unwrap());
        writer.write_all(b"one after ").unwrap();
        writer.write_all(b"the other").unwrap();
        assert_eq!(writer.written_bytes(), 19);
        let mut text = String::new();
        writer.into_reader().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "one after the other");
        let mut reader = disk.reader(&b).unwrap();
        reader.go_to(14).unwrap();
        text.clear();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!((&*text, reader.size_bytes().unwrap()), ("other", 19));
        disk.replace(&b, b"replaced").unwrap();
        disk.replace(&a, b"new").unwrap();
        assert_eq!((disk.read(&a).unwrap(), disk.read(&b).unwrap()), (b"new".to_vec(), b"replaced".to_vec()));
        assert_eq!(disk.list(folder).unwrap().len(), 2, "nothing temporary is left");
        disk.remove(&a).unwrap();
        assert_eq!(disk.remove(&a).unwrap_err().kind(), io::ErrorKind::NotFound);
        disk.remove(&b).unwrap();
        assert_eq!(disk.list(folder).unwrap().len(), 0);
    }
}

#[test]
fn a_file_that_is_replaced_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("replace");
    let folder = scratch.folder();
    let (disk, file) = (Disk::real(), folder.join("x.conf"));
    disk.replace(&file, b"port 1").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    disk.replace(&file, b"p").unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(disk.replace(folder, b"").is_err(), "a directory is no file");
    assert_eq!(disk.list(folder).unwrap(), ["x.conf"], "nothing temporary is left");
    let beside = disk.list(folder.parent().unwrap()).unwrap();
    let own = folder.file_name().unwrap().to_str().unwrap();
    let left = beside.iter().filter(|name| name.to_string_lossy().starts_with(own)).count();
    assert_eq!(left, 1, "nothing temporary is left beside the folder");
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(path).unwrap().mode() & 0o777
}

#[test]
fn what_is_created_is_private_and_what_takes_a_place_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let (disk, scratch) = (Disk::real(), Scratch::new("private"));
    let folder = scratch.folder();
    for how in [Open::Write, Open::Empty, Open::Direct] {
        let path = folder.join(format!("{how:?}"));
        disk.open(&path, how).unwrap();
        assert_eq!(mode(&path), 0o600, "{how:?}");
    }
    let inner = folder.join("inner");
    disk.create_directory(&inner).unwrap();
    assert_eq!(mode(&inner), 0o700);
    let (temporary, path) = (folder.join("temporary"), folder.join("file"));
    for (before, after) in [(None, 0o600), (Some(0o644), 0o644), (Some(0o4755), 0o644), (Some(0o440), 0o440)]
    {
        if let Some(before) = before {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(before)).unwrap();
        }
        disk.open(&temporary, Open::Empty).unwrap();
        disk.put_in_place(&temporary, &path).unwrap();
        assert_eq!(mode(&path), after, "{before:?}");
    }
}

#[test]
fn nothing_is_written_by_way_of_a_link() {
    let (disk, scratch) = (Disk::real(), Scratch::new("links"));
    let folder = scratch.folder();
    let (link, target) = (folder.join("link"), folder.join("target"));
    std::fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    for how in [Open::Write, Open::Empty, Open::Direct] {
        let error = disk.open(&link, how).unwrap_err().to_string();
        assert_eq!(error, "it is a symbolic link, which is not followed for writing", "{how:?}");
    }
    assert!(disk.lock(&link).is_err());
    assert_eq!(disk.read(&link).unwrap(), b"precious", "reading is another matter");
    // The link is replaced, and its target stays.
    disk.replace(&link, b"new").unwrap();
    assert_eq!(
        (disk.read(&target).unwrap(), disk.read(&link).unwrap()),
        (b"precious".to_vec(), b"new".to_vec())
    );
    // Hard links are how backups are made. Later writes reach both names.
    let second = folder.join("second");
    std::fs::hard_link(&target, &second).unwrap();
    disk.open(&second, Open::Write).unwrap();
    let error = disk.open(Path::new("/dev/null"), Open::Empty).unwrap_err().to_string();
    assert_eq!(error, "it is a device");
}

#[test]
fn what_another_user_may_have_put_there_is_not_written_to() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: only root can make files of another user");
    }
    let (disk, scratch) = (Disk::real(), Scratch::new("planted"));
    let folder = scratch.folder();
    let (path, inner) = (folder.join("planted"), folder.join("folder"));
    std::fs::write(&path, "precious").unwrap();
    std::fs::create_dir(&inner).unwrap();
    for path in [&path, &inner] {
        std::os::unix::fs::chown(path, Some(65_534), None).unwrap();
    }
    let expected =
        "it belongs to another user (id 65534), who may have put it there: others may write to the folder";
    for mode in [0o777, 0o1777, 0o770] {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(disk.open(&path, Open::Empty).unwrap_err().to_string(), expected, "{mode:o}");
        assert_eq!(disk.create_directory(&inner).unwrap_err().to_string(), expected, "{mode:o}");
    }
    assert_eq!(disk.read(&path).unwrap(), b"precious", "it was not emptied");
    // Only the folder's owner can put files there.
    std::os::unix::fs::chown(folder, Some(65_534), None).unwrap();
    disk.open(&path, Open::Write).unwrap();
    std::os::unix::fs::chown(folder, Some(0), None).unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    disk.open(&path, Open::Write).unwrap();
    disk.create_directory(&inner).unwrap();
}

#[test]
fn what_was_synced_survives_every_crash() {
    let bytes: Vec<u8> = (0..3_000u32).map(|number| number as u8).collect();
    let found = after_crash(|_, disk| drop(durable(disk, "a", &bytes)), |disk| held(disk, "a"));
    for_all(&found, "there", |found| found.as_ref() == Some(&bytes));
}

#[test]
fn unsynced_sectors_are_lost_kept_or_torn() {
    let (old, new) = (vec![b'o'; 2_048], vec![b'n'; 2_048]);
    let rewritten = |_: &SimDisk, disk: &Disk| durable(disk, "a", &old).write_all_at(0, &new).unwrap();
    let found = after_crash(rewritten, |disk| held(disk, "a").unwrap());
    for_some(&found, "all lost", |found| *found == old);
    for_some(&found, "all kept", |found| *found == new);
    for_some(&found, "some sectors kept", |found| {
        found.chunks(512).any(|part| part == &new[..512]) && found.chunks(512).any(|part| part == &old[..512])
    });
    for_some(&found, "torn", |found| {
        found.chunks(512).any(|part| part != &new[..512] && part != &old[..512])
    });
    for_all(&found, "as long as it was", |found| found.len() == old.len());
}

#[test]
fn an_unsynced_length_may_be_any_between() {
    let grown =
        |_: &SimDisk, disk: &Disk| durable(disk, "a", &[1; 100]).write_all_at(100, &[2; 5_000]).unwrap();
    let found = after_crash(grown, |disk| held(disk, "a").unwrap());
    for_some(&found, "as short as before", |found| found.len() == 100);
    for_some(&found, "as long as written", |found| found.len() == 5_100);
    for_some(&found, "between", |found| found.len() > 100 && found.len() < 5_100);
    for_all(&found, "as long as what is durable", |found| found.len() >= 100);
    let emptied = |_: &SimDisk, disk: &Disk| {
        drop(durable(disk, "a", &[1; 100]));
        disk.open(&path("a"), Open::Empty).unwrap();
    };
    let found = after_crash(emptied, |disk| held(disk, "a").unwrap().len());
    for_some(&found, "empty", |len| *len == 0);
    for_some(&found, "as it was", |len| *len == 100);
}

#[test]
fn a_durable_write_is_durable_and_its_neighbours_are_not() {
    let written = |_: &SimDisk, disk: &Disk| {
        let file = durable(disk, "a", &[b'o'; 4_096]);
        file.write_all_at(0, &[b'x'; 1_024]).unwrap();
        file.write_durably_at(1_024, &[b'n'; 1_024]).unwrap();
    };
    let found = after_crash(written, |disk| held(disk, "a").unwrap());
    for_all(&found, "durable", |found| found[1_024..] == [vec![b'n'; 1_024], vec![b'o'; 2_048]].concat());
    for_some(&found, "lost", |found| found[..1_024] == [b'o'; 1_024]);
}

#[test]
fn an_unsynced_creation_is_lost_or_kept() {
    let created = |_: &SimDisk, disk: &Disk| write(disk, "a", b"1").sync().unwrap();
    let found = after_crash(created, |disk| held(disk, "a"));
    for_some(&found, "lost", Option::is_none);
    for_some(&found, "kept", |found| found.as_deref() == Some(b"1"));
}

#[test]
fn an_unsynced_rename_is_lost_or_kept_and_the_file_has_one_name() {
    let renamed = |disk: &Disk| {
        drop(durable(disk, "a", b"old"));
        drop(durable(disk, "b", b"new"));
        disk.rename(&path("b"), &path("a")).unwrap();
    };
    let look = |disk: &Disk| (held(disk, "a").unwrap(), disk.has(&path("b")));
    let found = after_crash(|_, disk| renamed(disk), look);
    for_some(&found, "lost", |found| *found == (b"old".to_vec(), true));
    for_some(&found, "kept", |found| *found == (b"new".to_vec(), false));
    for_all(&found, "one of both", |(bytes, has_b)| (bytes == b"old") == *has_b);
    let synced = |_: &SimDisk, disk: &Disk| {
        renamed(disk);
        disk.sync_directory(Path::new("data")).unwrap();
    };
    for_all(&after_crash(synced, look), "kept", |found| *found == (b"new".to_vec(), false));
}

#[test]
fn an_unsynced_removal_is_lost_or_kept() {
    let removed = |disk: &Disk| {
        drop(durable(disk, "a", b"1"));
        disk.remove(&path("a")).unwrap();
    };
    let found = after_crash(|_, disk| removed(disk), |disk| held(disk, "a"));
    for_some(&found, "lost", |found| found.as_deref() == Some(b"1"));
    for_some(&found, "kept", Option::is_none);
    let synced = |_: &SimDisk, disk: &Disk| {
        removed(disk);
        disk.sync_directory(Path::new("data")).unwrap();
    };
    for_all(&after_crash(synced, |disk| held(disk, "a")), "gone", Option::is_none);
}

#[test]
fn names_of_other_directories_are_synced_by_themselves() {
    let created = |_: &SimDisk, disk: &Disk| {
        disk.open(Path::new("other/a"), Open::Empty).unwrap();
        disk.sync_directory(Path::new("data")).unwrap();
    };
    let found = after_crash(created, |disk| disk.has(Path::new("other/a")));
    for_some(&found, "lost", |is_there| !is_there);
}

#[test]
fn after_a_failed_sync_nothing_is_durable() {
    let failed = |sim: &SimDisk, disk: &Disk| {
        let file = durable(disk, "a", &[b'o'; 512]);
        file.write_all_at(0, &[b'n'; 512]).unwrap();
        sim.plan(0, Fault::SyncError);
        assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(libc::EIO));
        assert!(file.sync().is_err(), "the same file says so again");
        assert!(file.write_durably_at(0, b"x").is_err());
        // A newly opened file does not report the failure.
        disk.open(&path("a"), Open::Write).unwrap().sync().unwrap();
    };
    let found = after_crash(failed, |disk| held(disk, "a").unwrap());
    for_some(&found, "lost", |found| *found == [b'o'; 512]);
    let failed = |sim: &SimDisk, disk: &Disk| {
        let file = durable(disk, "a", &[b'o'; 512]);
        sim.plan(0, Fault::SyncError);
        assert!(file.write_durably_at(0, &[b'n'; 512]).is_err());
        assert!(file.sync().is_err());
    };
    let found = after_crash(failed, |disk| held(disk, "a").unwrap());
    for_some(&found, "lost", |found| *found == [b'o'; 512]);
    for_some(&found, "kept", |found| *found == [b'n'; 512]);
}

#[test]
fn after_a_failed_sync_of_a_directory_a_name_may_never_be_durable() {
    let failed = |sim: &SimDisk, disk: &Disk| {
        write(disk, "a", b"1").sync().unwrap();
        sim.plan(0, Fault::SyncError);
        assert!(disk.sync_directory(Path::new("data")).is_err());
        disk.sync_directory(Path::new("data")).unwrap();
    };
    let found = after_crash(failed, |disk| disk.has(&path("a")));
    for_some(&found, "lost", |is_there| !is_there);
    for_some(&found, "kept", |is_there| *is_there);
}

#[test]
fn writes_fail_are_short_or_find_no_room() {
    let sim = SimDisk::new(1);
    let disk = sim.disk();
    let file = disk.open(&path("a"), Open::Empty).unwrap();
    sim.plan(1, Fault::WriteError);
    file.write_all_at(0, b"1").unwrap();
    assert_eq!(file.write_all_at(1, b"2").unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(file.size_bytes().unwrap(), 1, "nothing of it was written");
    sim.plan(0, Fault::ShortWrite);
    assert!(file.write_at(0, &[7; 100]).unwrap() < 100);
    sim.set_faults(DiskFaults { short_write_one_in: 2, ..DiskFaults::default() });
    file.write_all_at(0, &[7; 10_000]).unwrap();
    assert_eq!(disk.read(&path("a")).unwrap(), [7; 10_000]);
    sim.plan(0, Fault::NoRoom);
    assert_eq!(file.write_all_at(0, b"1").unwrap_err().kind(), io::ErrorKind::StorageFull);
    // 20 sectors are taken.
    sim.set_faults(DiskFaults { room_bytes: 22 * 512, ..DiskFaults::default() });
    assert_eq!(file.write_at(10_000, &[8; 5_000]).unwrap(), 22 * 512 - 10_000, "as much as fits");
    assert_eq!(file.write_at(22 * 512, b"1").unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.write_all_at(0, b"what is there needs no room").unwrap();
    sim.plan(0, Fault::NoRoom);
    assert_eq!(disk.open(&path("b"), Open::Empty).unwrap_err().kind(), io::ErrorKind::StorageFull);
    disk.remove(&path("a")).unwrap();
    write(&disk, "b", &[1; 22 * 512]);
    sim.heal();
    write(&disk, "c", &[1; 22 * 512]);
}

#[test]
fn what_was_written_before_use_needs_no_room() {
    let sim = SimDisk::new(1);
    let file = sim.disk().open(&path("a"), Open::Write).unwrap();
    file.pre_write(4_096).unwrap();
    sim.set_faults(DiskFaults { room_bytes: 4_096, ..DiskFaults::default() });
    file.write_durably_at(0, &[1; 4_096]).unwrap();
    assert!(file.pre_write(8_192).is_err());
}

#[test]
fn a_sync_that_hangs_has_no_effect_before_its_time() {
    let sim = SimDisk::new(1);
    let disk = sim.disk();
    let file = write(&disk, "a", b"1");
    let seen = std::sync::Arc::new(Mutex::new(Vec::new()));
    let (told, own) = (seen.clone(), sim.clone());
    let crashes = std::sync::Arc::new(Mutex::new(false));
    let crashes_now = crashes.clone();
    sim.on_operation(move |until_ns| {
        told.lock().unwrap().extend(until_ns);
        if *crashes_now.lock().unwrap() {
            own.crash();
        }
        false
    });
    sim.plan(0, Fault::Hang(1_000));
    file.sync().unwrap();
    // The clock has advanced.
    sim.plan(0, Fault::Hang(500));
    file.sync().unwrap();
    assert_eq!(*seen.lock().unwrap(), [1_000, 1_500]);
    // The power fails while it hangs, so it never reports that something is durable.
    *crashes.lock().unwrap() = true;
    assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(libc::EBADF));
    assert!(file.write_at(0, b"2").is_err(), "a file of an earlier life is closed");
}

/// Replaces a file like `replace`, and crashes at some operation. Returns whether it had returned, and the
/// content.
fn replaced(seed: u64, crash_at: u64, replace: impl Fn(&Disk) -> io::Result<()>) -> (bool, Option<Vec<u8>>) {
    let sim = SimDisk::new(seed);
    let disk = sim.disk();
    drop(durable(&disk, "a", &[b'o'; 1_500]));
    let (first, own) = (sim.operations(), sim.clone());
    sim.on_operation(move |_| {
        if own.operations() == first + crash_at {
            own.crash();
        }
        false
    });
    let is_done = replace(&disk).is_ok();
    sim.crash();
    (is_done, held(&sim.disk(), "a"))
}

/// Whether, for some seed and moment, the content is one that must not occur.
fn breaks(replace: impl Fn(&Disk) -> io::Result<()>) -> bool {
    let (old, new) = (vec![b'o'; 1_500], vec![b'n'; 1_500]);
    (1..=SEEDS).any(|seed| {
        (1..8).any(|crash_at| {
            let (is_done, held) = replaced(seed, crash_at, &replace);
            let Some(held) = held else { return true };
            held != new && (is_done || held != old)
        })
    })
}

#[test]
fn a_replaced_file_is_the_old_one_or_the_new_one() {
    let new = [b'n'; 1_500];
    assert!(!breaks(|disk| disk.replace(&path("a"), &new)));
    // Each of its steps is needed.
    assert!(breaks(|disk| {
        let file = disk.open(&path("t"), Open::Empty)?;
        file.write_all_at(0, &new)?;
        disk.put_in_place(&path("t"), &path("a"))
    }));
    assert!(breaks(|disk| {
        let file = disk.open(&path("t"), Open::Empty)?;
        file.write_all_at(0, &new)?;
        file.sync()?;
        disk.rename(&path("t"), &path("a"))
    }));
    assert!(breaks(|disk| {
        let file = disk.open(&path("a"), Open::Empty)?;
        file.write_all_at(0, &new)?;
        file.sync()
    }));
    assert!(breaks(|disk| {
        let file = disk.open(&path("t"), Open::Empty)?;
        file.write_all_at(0, &new)?;
        file.sync()?;
        disk.remove(&path("a"))?;
        disk.put_in_place(&path("t"), &path("a"))
    }));
}

#[test]
fn a_seed_decides_what_a_crash_leaves() {
    let look = || after_crash(|_, disk| drop(write(disk, "a", &[3; 3_000])), |disk| held(disk, "a"));
    assert_eq!(look(), look());
}

#[test]
fn both_disks_write_past_the_cache() {
    let scratch = Scratch::new("direct");
    let folder = scratch.folder();
    for (disk, folder) in [(Disk::real(), folder), (SimDisk::new(1).disk(), Path::new("data"))] {
        let path = folder.join("a");
        disk.open(&path, Open::Write).unwrap().pre_write(4 * DIRECT_BYTES as u64).unwrap();
        let file = disk.open(&path, Open::Direct).unwrap();
        let buffer = vec![7; 3 * DIRECT_BYTES];
        let start = buffer.as_ptr().align_offset(DIRECT_BYTES);
        file.write_durably_at(DIRECT_BYTES as u64, &buffer[start..][..DIRECT_BYTES]).unwrap();
        let mut expected = vec![0; 4 * DIRECT_BYTES];
        expected[DIRECT_BYTES..2 * DIRECT_BYTES].fill(7);
        assert_eq!(disk.read(&path).unwrap(), expected);
    }
}

#[test]
fn a_file_is_locked_once() {
    let scratch = Scratch::new("lock");
    let folder = scratch.folder();
    let sim = SimDisk::new(1);
    for (disk, folder) in [(Disk::real(), folder), (sim.disk(), Path::new("data"))] {
        disk.create_directory(folder).unwrap();
        disk.create_directory(folder).unwrap();
        let (a, b) = (folder.join("a"), folder.join("b"));
        let lock = disk.lock(&a).unwrap();
        assert_eq!(disk.lock(&a).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(disk.lock(&b).unwrap());
        drop(lock);
        drop(disk.lock(&a).unwrap());
    }
    let (former, locked) = (sim.disk().lock(&path("a")).unwrap(), path("a"));
    sim.crash();
    let lock = sim.disk().lock(&locked).unwrap();
    drop(former);
    assert!(sim.disk().lock(&locked).is_err(), "what a former life had locked is no concern of this one");
    drop(lock);
}

#[test]
fn a_durable_write_is_torn_if_the_power_fails_meanwhile() {
    let bytes = vec![9; 2_000];
    let found: Vec<Vec<u8>> = (1..=SEEDS)
        .map(|seed| {
            let sim = SimDisk::new(seed);
            let file = durable(&sim.disk(), "a", &[1; 2_000]);
            let (crashing, calls) = (sim.clone(), Mutex::new(0));
            sim.on_operation(move |_| {
                let mut calls = calls.lock().unwrap();
                *calls += 1;
                if *calls == 2 {
                    crashing.crash();
                }
                false
            });
            assert!(file.write_durably_at(0, &bytes).is_err());
            held(&sim.disk(), "a").unwrap()
        })
        .collect();
    for_some(&found, "all of it", |held| *held == bytes);
    for_some(&found, "nothing of it", |held| *held == [1; 2_000]);
    for_some(&found, "some of it", |held| held.contains(&1) && held.contains(&9));
}

#[test]
fn what_a_failed_sync_lost_is_seen_when_the_cache_is_forgotten() {
    let found: Vec<(Vec<u8>, Vec<u8>)> = (1..=SEEDS)
        .map(|seed| {
            let sim = SimDisk::new(seed);
            let file = durable(&sim.disk(), "a", &[1; 2_000]);
            file.write_all_at(0, &[9; 2_000]).unwrap();
            sim.plan(0, Fault::SyncError);
            file.sync().unwrap_err();
            assert_eq!(held(&sim.disk(), "a").unwrap(), [9; 2_000], "the cache still shows it");
            sim.disk().open(&path("a"), Open::Write).unwrap().sync_and_forget().unwrap();
            let read = held(&sim.disk(), "a").unwrap();
            sim.crash();
            (read, held(&sim.disk(), "a").unwrap())
        })
        .collect();
    for_all(&found, "what is read is what there is", |(read, held)| read == held);
    for_some(&found, "something lost", |(read, _)| read.contains(&1));
}

#[test]
fn a_file_keeps_its_identity_and_a_copy_has_another() {
    let scratch = Scratch::new("identity");
    let sim = SimDisk::new(1).disk();
    for disk in [Disk::real(), sim.clone()] {
        let (one, other) = (PathBuf::from(scratch.path("one")), PathBuf::from(scratch.path("other")));
        let mut written = None;
        let content = |identity| {
            written = Some(identity);
            b"x".to_vec()
        };
        disk.replace_marked(&one, content).unwrap();
        let identity = disk.identity(&one).unwrap();
        assert_eq!(Some(identity), written, "that of the file that got the name");
        disk.replace(&other, &disk.read(&one).unwrap()).unwrap();
        assert_ne!(disk.identity(&other).unwrap(), identity);
        disk.rename(&one, &other).unwrap();
        assert_eq!(disk.identity(&other).unwrap(), identity);
    }
}
