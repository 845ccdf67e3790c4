//! Files that the server creates: their permissions, and the server's behaviour if something else stands in their
//! place.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use blackbox::{Client, Scratch, Server, check, eventually};

const LINK: &str = "it is a symbolic link, which is not followed for writing";

fn start(scratch: &Scratch, more: &[&str]) -> Server {
    Server::start(2, "auto", &[&["--dir", &scratch.path("")], more].concat())
}

fn mode(path: &str) -> u32 {
    fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{path}: {error}")).mode() & 0o777
}

/// A file of another user that must not change, and a link to it.
fn plant(scratch: &Scratch, link: &str) -> String {
    let victim = scratch.file("victim", "precious");
    symlink(&victim, scratch.path(link)).expect("nothing is there yet");
    victim
}

fn refused(client: &mut Client, request: &str) -> String {
    let reply = client.show(request);
    assert!(reply.starts_with("(error)"), "{request}: {reply}");
    reply
}

#[test]
fn all_that_is_written_is_private() {
    let scratch = Scratch::new("private");
    let users = scratch.file("users.acl", "user default on nopass ~* &* +@all\n");
    fs::set_permissions(&users, fs::Permissions::from_mode(0o640)).expect("it is ours");
    for format in ["rdb", "darter"] {
        let server =
            start(&scratch, &["--appendonly", "yes", "--aclfile", &users, "--snapshot-format", format]);
        let client = &mut server.client();
        for (request, expected) in [("SET k v", "OK"), ("SAVE", "OK"), ("ACL SAVE", "OK")] {
            check(client, request, expected);
        }
        check(client, "BGREWRITEAOF", "Background append only file rewriting started");
        eventually("it is rewritten", || client.info("persistence", "aof_rewrite_in_progress") == "0");
        let journal = scratch.path("appendonlydir");
        assert_eq!(mode(&journal), 0o700);
        for folder in [scratch.path(""), journal] {
            for entry in fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("a name").path())
            {
                if entry.is_file() && !entry.ends_with("users.acl") {
                    assert_eq!(mode(&entry.display().to_string()), 0o600, "{}", entry.display());
                }
            }
        }
        assert_eq!(mode(&users), 0o640, "it is as private as it was");
        client.send("SHUTDOWN NOSAVE");
        client.expect_end();
    }
}

#[test]
fn a_snapshot_keeps_the_permissions_of_the_one_before() {
    let scratch = Scratch::new("kept-permissions");
    let server = start(&scratch, &["--dbfilename", "dump.rdb"]);
    let client = &mut server.client();
    check(client, "SAVE", "OK");
    let dump = scratch.path("dump.rdb");
    fs::set_permissions(&dump, fs::Permissions::from_mode(0o640)).expect("it is ours");
    check(client, "SAVE", "OK");
    assert_eq!(mode(&dump), 0o640);
    // A link is replaced, as in Redis, and what it leads to is left alone.
    fs::remove_file(&dump).expect("it is there");
    let victim = plant(&scratch, "dump.rdb");
    check(client, "SAVE", "OK");
    assert_eq!((fs::read_to_string(victim).unwrap(), mode(&dump)), ("precious".to_owned(), 0o600));
}

#[test]
fn nothing_is_saved_through_a_planted_link() {
    let scratch = Scratch::new("planted");
    let server = start(&scratch, &[]);
    let client = &mut server.client();
    let temporary = format!("temp-{}.rdb", server.process_id());
    let victim = plant(&scratch, &temporary);
    let reply = refused(client, "SAVE");
    assert!(reply.contains(LINK), "{reply}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    // The failed save removed the link with the rest of its files; otherwise an operator who has read the error does
    // so.
    let _ = fs::remove_file(scratch.path(&temporary));
    check(client, "SAVE", "OK");
}

#[test]
fn files_are_replaced_by_names_that_nobody_foresees() {
    let scratch = Scratch::new("unforeseen");
    let users = scratch.file("users.acl", "user default on nopass ~* &* +@all\n");
    let config = scratch.file("darter.conf", "");
    let options = [&*config, "--dir", &scratch.path(""), "--aclfile", &users];
    let server = Server::darter(&options).unwrap_or_else(|error| panic!("{error}"));
    let client = &mut server.client();
    let victim = plant(&scratch, &format!("users.acl.{}.tmp", server.process_id()));
    symlink(&victim, scratch.path(&format!("darter.conf.{}.tmp", server.process_id()))).unwrap();
    check(client, "ACL SAVE", "OK");
    check(client, "CONFIG REWRITE", "OK");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn a_pid_file_is_not_written_through_a_link_and_a_pipe_is_not_waited_for() {
    let scratch = Scratch::new("pid-link");
    let victim = plant(&scratch, "pid");
    let server = start(&scratch, &["--pidfile", &scratch.path("pid")]);
    let log = server.log();
    assert!(log.contains("cannot write the pid file") && log.contains(LINK), "{log}");
    assert_eq!(fs::read_to_string(victim).unwrap(), "precious");
    drop(server);
    let pipe = scratch.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let server = start(&scratch, &["--pidfile", &pipe]);
    assert!(server.log().contains("cannot write the pid file"), "{}", server.log());
}

#[test]
fn the_journals_folder_may_be_elsewhere_but_its_files_may_not() {
    let scratch = Scratch::new("elsewhere");
    let elsewhere = Scratch::new("other-disk");
    symlink(elsewhere.path(""), scratch.path("appendonlydir")).expect("nothing is there yet");
    let mut server = start(&scratch, &["--appendonly", "yes"]);
    check(&mut server.client(), "SET k v", "OK");
    server.client().send("SHUTDOWN NOSAVE");
    server.wait();
    let segments = || {
        let names = fs::read_dir(elsewhere.path("")).expect("it is there");
        names
            .map(|entry| entry.expect("a name").path())
            .filter(|path| path.extension().is_some_and(|end| end == "seg"))
    };
    let segment = segments().next().expect("the journal is there");
    let moved = elsewhere.path("moved");
    fs::rename(&segment, &moved).expect("nobody has it open");
    symlink(&moved, &segment).expect("its name is free");
    let outcome = Server::darter(&["--dir", &scratch.path(""), "--appendonly", "yes"]);
    let log = outcome.map(|server| server.log()).expect_err("it does not start").to_string();
    assert!(
        log.contains(LINK) && log.contains(Path::new(&segment).file_name().unwrap().to_str().unwrap()),
        "{log}"
    );
}

#[test]
fn what_has_no_end_is_not_read_as_configuration_or_users() {
    let scratch = Scratch::new("endless");
    let users = scratch.file("users.acl", "user default on nopass ~* &* +@all\n");
    let config = scratch.file("darter.conf", "");
    let options = [&*config, "--dir", &scratch.path(""), "--aclfile", &users];
    let server = Server::darter(&options).unwrap_or_else(|error| panic!("{error}"));
    let client = &mut server.client();
    for (request, path) in [("CONFIG REWRITE", &config), ("ACL LOAD", &users)] {
        fs::remove_file(path).unwrap();
        symlink("/dev/zero", path).unwrap();
        assert!(refused(client, request).contains("it is not a regular file"), "{request}");
        fs::remove_file(path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo is there").success());
        assert!(refused(client, request).contains("it is not a regular file"), "{request}");
    }
}
