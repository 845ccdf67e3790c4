//! Tests of members that expire, with a clock that stands still.

use engine::{Class, Client, Local, TxMessage};
use resp::Proto;

use crate::FAMILIES;
use crate::clients::Clients;

/// A set whose member `a` expires in a second, `b` in two, and `c` never; at 1000 s.
fn expiring() -> Clients {
    let mut clients = Clients::new();
    clients.0.now = 1_000_000;
    for line in ["SADD s a b c", "SPEXPIRE s 1000 MEMBERS 1 a", "SPEXPIRE s 2000 MEMBERS 1 b"] {
        clients.run(0, line);
    }
    clients.effects();
    clients
}

#[test]
fn whoever_looks_into_a_set_takes_out_what_is_due() {
    for (line, reply) in [
        ("SISMEMBER s a", ":0"),
        ("SMISMEMBER s a b c", "*3 :0 :1 :1"),
        ("SCARD s", ":2"),
        ("SMEMBERS s", "*2 $1 b $1 c"),
        ("SSCAN s 0", "*2 $1 0 *2 $1 b $1 c"),
        ("SADD s a", ":1"),
        ("SREM s a", ":0"),
        ("SMOVE s t a", ":0"),
        ("SRANDMEMBER s 9", "*2 $1 b $1 c"),
        ("SPOP s 9", "*2 $1 b $1 c"),
        ("SINTER s s", "*2 $1 b $1 c"),
        ("SINTERCARD 1 s", ":2"),
        ("SUNIONSTORE t s", ":2"),
        ("ZUNION 1 s", "*2 $1 b $1 c"),
        ("SORT s ALPHA", "*2 $1 b $1 c"),
        ("SPTTL s MEMBERS 4 a b c d", "*4 :-2 :999 :-1 :-2"),
        ("SADDEX s MNX KEEPTTL MEMBERS 1 a", ":1"),
        ("SADDEX s MXX KEEPTTL MEMBERS 2 a b", ":0"),
    ] {
        let mut clients = expiring();
        clients.0.now += 1000;
        clients.check("SISMEMBER s a", ":1");
        clients.0.now += 1;
        clients.check(line, reply);
        assert_eq!(clients.effects()[0], "SREM s a", "{line}");
    }
}

#[test]
fn a_set_without_members_is_gone() {
    let mut clients = expiring();
    clients.run(0, "SREM s c");
    clients.notify(&[Class::Set, Class::Generic, Class::KeyMiss]);
    clients.0.now += 2001;
    clients.check("TYPE s", "+none");
    clients.check_change("SCARD s", ":0", &[], &["keymiss"]);
    let mut clients = expiring();
    clients.run(0, "SREM s c");
    clients.notify(&[Class::Set, Class::Generic]);
    clients.0.now += 2001;
    clients.check_change("SADD s d", ":1", &["SREM s a b", "SADD s d"], &["sexpired", "del", "sadd"]);
}

#[test]
fn effects_and_events_say_when_and_what() {
    for (line, reply, effects, events) in [
        ("SEXPIRE s 10 NX MEMBERS 1 a", "*1 :0", &[][..], &[][..]),
        (
            "SEXPIRE s 10 MEMBERS 3 a none c",
            "*3 :1 :-2 :1",
            &["SPEXPIREAT s 1010000 MEMBERS 2 a c"],
            &["sexpire"],
        ),
        (
            "SEXPIREAT s 2000 GT MEMBERS 3 a b c",
            "*3 :1 :1 :0",
            &["SPEXPIREAT s 2000000 MEMBERS 2 a b"],
            &["sexpire"],
        ),
        ("SPEXPIREAT s 2000000 MEMBERS 1 c LT", "*1 :1", &["SPEXPIREAT s 2000000 MEMBERS 1 c"], &["sexpire"]),
        ("SPEXPIREAT s 999999 MEMBERS 2 a c", "*2 :2 :2", &["SREM s a c"], &["srem"]),
        ("SEXPIRE s 0 MEMBERS 3 a b c", "*3 :2 :2 :2", &["SREM s a b c"], &["srem", "del"]),
        ("SPERSIST s MEMBERS 3 a c none", "*3 :1 :-1 :-2", &["SPERSIST s MEMBERS 1 a"], &["spersist"]),
        ("SPERSIST s MEMBERS 1 c", "*1 :-1", &[], &[]),
        (
            "SADDEX s EX 20 MEMBERS 2 a d",
            ":1",
            &["SADD s a d", "SPEXPIREAT s 1020000 MEMBERS 2 a d"],
            &["sadd", "sexpire"],
        ),
        ("SADDEX s MEMBERS 3 a c d", ":1", &["SADD s a c d", "SPERSIST s MEMBERS 1 a"], &["sadd"]),
        ("SADDEX s KEEPTTL MEMBERS 2 a d", ":1", &["SADD s a d"], &["sadd"]),
        ("SADDEX s MNX MEMBERS 2 a d", ":0", &[], &[]),
        ("SADDEX s PXAT 1 MEMBERS 3 a d c", ":1", &["SREM s a c"], &["srem"]),
        ("SADDEX t PXAT 1 MEMBERS 1 a", ":1", &[], &[]),
        ("SADDEX t MXX EX 9 MEMBERS 1 a", ":0", &[], &[]),
        ("SADD s a", ":0", &[], &[]),
    ] {
        let mut clients = expiring();
        clients.notify(&[Class::Set, Class::Generic]);
        clients.check_change(line, reply, effects, events);
    }
}

#[test]
fn what_is_added_again_keeps_its_time_and_what_is_removed_loses_it() {
    let mut clients = expiring();
    clients.run(0, "SADD s a");
    clients.check("SPTTL s MEMBERS 1 a", "*1 :1000");
    for line in ["SREM s a", "SMOVE s t b"] {
        clients.check(line, ":1");
    }
    clients.run(0, "SADD s a b");
    clients.check("SPTTL s MEMBERS 2 a b", "*2 :-1 :-1");
    clients.check("SPTTL t MEMBERS 1 b", "*1 :-1");
    clients.check("OBJECT ENCODING s", "$8 listpack");
}

#[test]
fn copies_dumps_and_rebuilt_sets_expire_too() {
    let mut clients = expiring();
    for line in
        ["COPY s {s}2", "RENAME {s}2 {s}3", "MOVE {s}3 1", "SADD {s}4 1 2", "SEXPIRE {s}4 9 MEMBERS 1 2"]
    {
        clients.run(0, line);
    }
    for key in ["s", "{s}4"] {
        let payload = clients.0.reply(Proto::Resp2, &[b"DUMP", key.as_bytes()]);
        let start = payload.windows(2).position(|end| end == b"\r\n").expect("a length") + 2;
        let payload = payload[start..payload.len() - 2].to_vec();
        clients.effects();
        clients.0.reply(Proto::Resp2, &[b"RESTORE", b"new", b"0", &payload, b"REPLACE"]);
        let same = clients.0.line(&format!("SPEXPIRETIME {key} MEMBERS 3 a b 2"));
        assert_eq!(clients.0.line("SPEXPIRETIME new MEMBERS 3 a b 2"), same);
        assert!(clients.effects().iter().all(|effect| !effect.starts_with("RESTORE")));
        for at in 0..payload.len() {
            clients.0.reply(Proto::Resp2, &[b"RESTORE", b"cut", b"0", &payload[..at]]);
        }
        assert_eq!(clients.0.line("EXISTS cut"), ":0\r\n");
    }
    let lines = clients.0.with_store(Client::internal(0, Proto::Resp2), |store| {
        crate::keys::rebuild::commands(b"s", store.peek(b"s").expect("it is there").value(), None)
    });
    let mut rebuilt = Local::new(FAMILIES);
    rebuilt.now = clients.0.now;
    for line in &lines {
        rebuilt.reply(Proto::Resp2, &line.iter().map(|arg| &**arg).collect::<Vec<_>>());
    }
    for line in ["SPEXPIRETIME s MEMBERS 3 a b c", "DEBUG DIGEST-VALUE s"] {
        assert_eq!(rebuilt.line(line), clients.0.line(line));
    }
    let mut there = Client::internal(1, Proto::Resp2);
    there.deny_blocking = true;
    clients.0.now += 1001;
    let mut out = resp::Output::new();
    clients.0.run(there, &[b"SCARD", b"{s}3"], &mut (), &mut out);
    assert_eq!(out.to_vec(), b":2\r\n");
    assert!(clients.0.outbox.iter().all(|message| !matches!(message, TxMessage::Served { .. })));
}

#[test]
fn members_of_every_form_expire() {
    for members in [
        (1..=9).map(|number: i32| number.to_string()).collect::<Vec<_>>(),
        (1..=9).map(|number| format!("m{number}")).collect(),
        (1..=900).map(|number| number.to_string()).collect(),
        (1..=900).map(|number| format!("m{number}")).collect(),
        vec!["x".repeat(2_000_000), "y".to_owned(), "z".to_owned()],
    ] {
        let mut clients = expiring();
        clients.run(0, &format!("SADD t {}", members.join(" ")));
        let count = members.len();
        let at = members.iter().enumerate();
        at.for_each(|(index, member)| {
            _ = clients.run(0, &format!("SPEXPIREAT t {} MEMBERS 1 {member}", 1_000_000 + index));
        });
        clients.0.now += 2;
        clients.check("SCARD t", &format!(":{}", count - 2));
        clients.check(&format!("SISMEMBER t {}", members[1]), ":0");
        clients.check(&format!("SISMEMBER t {}", members[2]), ":1");
        clients.0.now += count as i64;
        clients.check("EXISTS t", ":0");
    }
}
