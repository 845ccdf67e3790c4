//! Folders that no server starts from: one line says which file, where in it, and what to do; nothing is partly loaded or overwritten.
//! A check of a folder predicts what a start does.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use blackbox::{Scratch, Server, StartError, eventually, run};
use rustix::process::Signal;

fn options(folder: &str) -> Vec<&str> {
    vec!["--appendonly", "yes", "--appendfsync", "always", "--dir", folder]
}

/// The only line that a server prints that refuses to start.
#[track_caller]
fn refused(launcher: &[&str], folder: &str) -> String {
    match Server::launch(launcher, &options(folder)) {
        Err(StartError::Failed { log, .. }) => {
            let errors: Vec<&str> = log.lines().filter(|line| line.starts_with("darter: ")).collect();
            assert_eq!(errors.len(), 1, "{log}");
            assert!(!log.contains("panicked"), "{log}");
            errors[0].to_owned()
        }
        Err(error) => panic!("{error}"),
        Ok(server) => panic!("{} starts", server.name()),
    }
}

/// The exit status of a check, and its last line.
fn checked(folder: &str) -> (i32, String) {
    let output = run(&[], &["--check-journal", folder]);
    let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("it is text");
    (output.status.code().expect("it ends by itself"), text.lines().last().unwrap_or_default().to_owned())
}

/// A folder with a journal that has a base, and slices before and after it.
fn journal(scratch: &Scratch) -> String {
    let data = scratch.path("data");
    fs::create_dir(&data).expect("the folder can be made");
    let mut server = Server::start(2, "auto", &options(&data));
    let mut client = server.client();
    for number in 0..20 {
        assert_eq!(client.show(&format!("SET key:{number} {number}")), "OK");
        if number == 9 {
            assert_eq!(client.show("BGREWRITEAOF"), "Background append only file rewriting started");
            let manifest = format!("{data}/appendonlydir/journal.manifest");
            eventually("it has a base", || {
                fs::read_to_string(&manifest).expect("the file is there").contains(".rdb")
            });
        }
    }
    drop(client);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    data
}

/// All files of the journal with their lengths, and the contents of the short ones.
fn files(data: &str) -> BTreeMap<PathBuf, (u64, Vec<u8>)> {
    let entries = fs::read_dir(Path::new(data).join("appendonlydir")).expect("the folder can be read");
    let file = |path: PathBuf| {
        let length = fs::metadata(&path).expect("the file is there").len();
        let bytes = if length < 1 << 20 { fs::read(&path).expect("the file is there") } else { Vec::new() };
        (path, (length, bytes))
    };
    entries.map(|entry| file(entry.expect("the folder can be read").path())).collect()
}

/// The only file whose name ends with this.
fn file(data: &str, end: &str) -> PathBuf {
    let files = files(data);
    let found: Vec<&PathBuf> =
        files.keys().filter(|path| path.display().to_string().ends_with(end)).collect();
    assert_eq!(found.len(), 1, "{end}");
    found[0].clone()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("the file is there");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("the file can be written");
}

#[test]
fn what_a_check_says_a_start_does() {
    let scratch = Scratch::new("journal-refused");
    let data = journal(&scratch);
    let (manifest, segment) = (file(&data, "manifest"), file(&data, "-1.seg"));
    let (base, spare) = (file(&data, ".0000"), file(&data, "-2.seg"));
    let text = fs::read_to_string(&manifest).unwrap();
    let check = |what: &str, status: i32, parts: &[&str]| {
        let before = files(&data);
        let (found, outlook) = checked(&data);
        assert_eq!(found, status, "{what}: {outlook}");
        let line = refused(&[], &data);
        for part in parts {
            assert!(line.contains(part), "{what}: no {part:?} in {line}");
        }
        assert_eq!(files(&data), before, "{what}: a start that is refused changes nothing");
    };
    for (what, path) in [("segment", &segment), ("spare", &spare), ("base", &base)] {
        let away = scratch.path("away");
        fs::rename(path, &away).unwrap();
        let name = path.display().to_string();
        check(&format!("no {what}"), 2, &[&name]);
        fs::rename(&away, path).unwrap();
    }
    let place = format!("{} at byte {}", segment.display(), 15 * 4096);
    flip(&segment, 15 * 4096 + 60);
    check("a changed head", 2, &[&place, "--journal-repair truncate"]);
    flip(&segment, 15 * 4096 + 60);
    let name = base.display().to_string();
    flip(&base, 40);
    check("a changed base", 2, &[&name, "wrong checksum at offset 20", "(restore the base from a copy"]);
    flip(&base, 40);
    flip(&manifest, 30);
    check("a changed manifest", 1, &["journal.manifest at byte ", "restore it from a copy"]);
    flip(&manifest, 30);
    fs::write(&manifest, text.replace("JOURNAL 2", "JOURNAL 7")).unwrap();
    check(
        "a newer version",
        1,
        &["a newer version of Darter wrote this journal: its format is 7", "start the version that wrote it"],
    );
    fs::remove_file(&manifest).unwrap();
    check(
        "no manifest",
        1,
        &["belongs to a journal whose journal.manifest is missing", "put the manifest back"],
    );
    fs::write(&manifest, &text).unwrap();

    // The end was being written when the power failed: it is dropped.
    let (status, outlook) = checked(&data);
    assert_eq!(status, 0, "{outlook}");
    let server = Server::start(1, "auto", &options(&data));
    assert_eq!(server.client().show("DBSIZE"), "(integer) 20");
    let line = refused(&[], &data);
    assert!(
        line.contains("another server uses this folder (stop that server, or choose another dir"),
        "{line}"
    );
}

#[test]
fn a_folder_without_rights_is_refused() {
    let scratch = Scratch::new("journal-rights");
    let data = scratch.path("data");
    fs::create_dir(&data).unwrap();
    let launcher: &[&str] = match rustix::process::geteuid().is_root() {
        // Permissions do not restrict root.
        true => &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
        false => &[],
    };
    let may_run =
        std::process::Command::new("sh").args(["-c", "setpriv --version && test -n \"$DARTER\""]).output();
    if !launcher.is_empty() && !may_run.is_ok_and(|ran| ran.status.success()) {
        println!("SKIPPED: no other user can be had");
        return;
    }
    let set = |path: &str, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let inner = format!("{data}/appendonlydir");
    set(&data, 0o555);
    let line = refused(launcher, &data);
    assert!(line.contains(&format!("{inner}: cannot make the folder: Permission denied")), "{line}");
    set(&data, 0o777);
    fs::create_dir(&inner).unwrap();
    set(&inner, 0o555);
    let line = refused(launcher, &data);
    assert!(
        line.contains("journal.lock: cannot lock it: Permission denied")
            && line.contains("(give the server's user the rights to it"),
        "{line}"
    );
    set(&inner, 0o000);
    let line = refused(launcher, &data);
    assert!(line.contains(&inner) && line.contains("Permission denied"), "{line}");
    set(&inner, 0o755);
    assert_eq!(fs::read_dir(&inner).unwrap().count(), 0, "nothing is left there");
}

#[test]
fn a_file_system_that_is_read_only_is_served_and_can_be_checked() {
    let works = std::process::Command::new("unshare").args(["-rm", "true"]).output();
    if !works.is_ok_and(|ran| ran.status.success()) {
        println!("SKIPPED: no file system can be mounted");
        return;
    }
    let scratch = Scratch::new("journal-read-only");
    let data = journal(&scratch);
    // Mounted where it is, visible only to the server.
    let script =
        format!("mount --bind {data} {data} && mount -o remount,bind,ro {data} && exec \"$0\" \"$@\"");
    let launcher = ["unshare", "-rm", "sh", "-c", &script];
    let server = Server::launch(&launcher, &options(&data)).unwrap_or_else(|error| panic!("{error}"));
    let line = server.client().show("SET key value");
    assert!(line.contains("journal.lock: cannot lock it: Read-only file system"), "{line}");
    assert!(line.contains("(mount the file system for writing, or choose another folder)"), "{line}");
    assert_eq!(server.client().show("DBSIZE"), "(integer) 20");
    drop(server);
    let copy = scratch.path("copy");
    for args in [&["--check-journal", &data][..], &["--copy-journal", &data, "--to", &copy]] {
        let output = run(&launcher, args);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success() && text.contains("a start loads the base and "), "{text}");
    }
    let server = Server::start(1, "auto", &options(&copy));
    assert_eq!(server.client().show("DBSIZE"), "(integer) 20");
}
