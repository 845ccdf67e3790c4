//! The commands on a thread that has nothing but users and a disk.

use std::path::Path;

use acl::{Entry, Grammar, Storage, UserAdministration, Users};
use engine::{Client, CommandResult, Host, Local, OwnCall, Table, function_of};
use proactor::{Disk, SimDisk};
use resp::{Output, Proto};

const ACL_FILE: &str = "users.acl";

/// A thread, and the only client there is.
struct Thread {
    users: Users,
    disk: Disk,
    has_file: bool,
    change_count: usize,
}

impl Host for Thread {
    fn run_own(&mut self, call: OwnCall<'_, '_>) -> CommandResult {
        let Thread { users, disk, has_file, change_count } = self;
        let access = users.access();
        let mut administration = UserAdministration {
            users,
            user: access.user(),
            grammar: Grammar { table: call.store.tx.table, all_channels: false },
            storage: has_file.then_some(Storage { disk, path: ACL_FILE }),
            now_ms: 0,
            draw_secret: &mut |into| {
                into.fill(0xab);
                Ok(())
            },
            has_changed: false,
        };
        let result = function_of(acl::ENTRIES, call.command)(&mut call.on(&mut administration));
        *change_count += usize::from(administration.has_changed);
        result
    }
}

/// A thread on an empty disk, and all its commands.
fn thread(has_file: bool) -> (Local, Thread) {
    let entries: Vec<engine::Entry> = acl::ENTRIES.iter().map(Entry::of_host).collect();
    let table = Table::new(&[]);
    let users = Users::new(Grammar { table: &table, all_channels: false }, None);
    let disk = SimDisk::new(1).disk();
    (Local::new(&[Vec::leak(entries)]), Thread { users, disk, has_file, change_count: 0 })
}

#[track_caller]
fn check((local, thread): &mut (Local, Thread), line: &str, expected: &str) {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let mut out = Output::new();
    local.run(Client::internal(0, Proto::Resp2), &args, thread, &mut out);
    assert_eq!(String::from_utf8_lossy(&out.to_vec()), expected, "{line}");
}

#[test]
fn users_come_back_from_their_file() {
    let mut server = thread(true);
    check(&mut server, "ACL SETUSER anna on ~a*", "+OK\r\n");
    assert_eq!(server.1.change_count, 0, "nobody can be a client of hers yet");
    check(&mut server, "ACL SAVE", "+OK\r\n");
    check(&mut server, "ACL DELUSER anna nobody", ":1\r\n");
    check(&mut server, "ACL USERS", "*1\r\n$7\r\ndefault\r\n");
    check(&mut server, "ACL LOAD", "+OK\r\n");
    check(&mut server, "ACL USERS", "*2\r\n$4\r\nanna\r\n$7\r\ndefault\r\n");
    check(&mut server, "ACL SETUSER anna ~b*", "+OK\r\n");
    assert_eq!(server.1.change_count, 3);
}

#[test]
fn users_stay_as_they_are_if_the_file_is_wrong() {
    let mut server = thread(true);
    check(&mut server, "ACL LOAD", "-ERR Error loading ACLs, opening file 'users.acl': entity not found\r\n");
    check(&mut server, "ACL SETUSER anna", "+OK\r\n");
    server.1.disk.replace(Path::new(ACL_FILE), b"user berta +@nothing\n").expect("the disk takes it");
    check(
        &mut server,
        "ACL LOAD",
        "-ERR users.acl:1: Error in applying operation '+@nothing': Unknown command or category name in ACL. WARNING: \
         ACL errors detected, no change to the previously active ACL rules was performed\r\n",
    );
    check(&mut server, "ACL USERS", "*2\r\n$4\r\nanna\r\n$7\r\ndefault\r\n");
    assert_eq!(server.1.change_count, 0);
}

#[test]
fn without_a_file_there_is_nothing_to_load_or_save() {
    let mut server = thread(false);
    for line in ["ACL LOAD", "ACL SAVE"] {
        let text = "-ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL \
                    SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in \
                    order to store users in the Redis configuration.\r\n";
        check(&mut server, line, text);
    }
}

#[test]
fn a_password_has_as_many_bits_as_asked_for() {
    let mut server = thread(false);
    check(&mut server, "ACL GENPASS 9", "$3\r\naba\r\n");
}
