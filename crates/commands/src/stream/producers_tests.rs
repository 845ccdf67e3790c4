//! Tests of producers that send messages twice, with a clock that stands still.

use ds::stream::Stream;
use engine::{Client, Local};
use resp::Proto;

use crate::FAMILIES;
use crate::clients::Clients;

fn at(now: i64) -> Clients {
    let mut clients = Clients::new();
    clients.0.now = now;
    clients
}

/// What XINFO STREAM shows of producers: producers and messages known, messages recorded and recognized.
fn figures(local: &mut Local) -> [i64; 4] {
    let info = local.line("XINFO STREAM s");
    ["pids-tracked", "iids-tracked", "iids-added", "iids-duplicates"].map(|field| {
        let after = info.split(field).nth(1).expect("all fields are shown");
        after.split("\r\n").nth(1).and_then(|number| number[1..].parse().ok()).expect("a number")
    })
}

#[test]
fn a_message_that_is_sent_again_is_not_added() {
    let mut clients = at(1000);
    clients.check("XADD s IDMP p m1 * f v", "$6 1000-0");
    assert_eq!(clients.effects(), ["XADD s 1000-0 f v", "XIDMPRECORD s p m1 1000-0"]);
    clients.0.now = 2000;
    clients.check("XADD s MAXLEN 9 IDMP p m1 * other fields", "$6 1000-0");
    assert_eq!(clients.effects(), [""; 0]);
    clients.check("XADD s IDMP q m1 * f v", "$6 2000-0");
    clients.check("XADD s IDMPAUTO p * a b c d", "$6 2000-1");
    clients.check("XADD s IDMPAUTO p KEEPREF * c d a b", "$6 2000-1");
    // Neither of these is the same message.
    for (line, id) in
        [("a b c e", "2000-2"), ("ab c d e", "2000-3"), ("a bc d e", "2000-4"), ("a b a b", "2000-5")]
    {
        clients.check(&format!("XADD s IDMPAUTO p * {line}"), &format!("$6 {id}"));
    }
    clients.check("XADD s IDMPAUTO p * c d c d", "$6 2000-6");
    assert_eq!(figures(&mut clients.0), [2, 8, 8, 2]);
    // After 100 seconds.
    clients.0.now = 101_000;
    clients.check("XADD s IDMP p m1 * f v", "$8 101000-0");
    clients.check("XADD s IDMP q m1 * f v", "$6 2000-0");
    assert_eq!(figures(&mut clients.0), [2, 8, 9, 3]);
    clients.0.now = 999_000;
    assert_eq!(figures(&mut clients.0), [0, 0, 9, 3]);
}

#[test]
fn each_producer_has_so_many_messages() {
    let mut clients = at(1000);
    clients.run(0, "XADD s 1-1 f v");
    clients.check("XCFGSET s IDMP-MAXSIZE 3 IDMP-DURATION 60", "+OK");
    assert_eq!(clients.effects()[1..], ["XCFGSET s IDMP-MAXSIZE 3 IDMP-DURATION 60"]);
    for message in 1..=4 {
        clients.run(0, &format!("XADD s IDMP p m{message} * f v"));
        clients.run(0, &format!("XADD s IDMP q m{message} * f v"));
    }
    assert_eq!(figures(&mut clients.0), [2, 6, 8, 0]);
    clients.check("XADD s IDMP p m2 * f v", "$6 1000-2");
    clients.check("XADD s IDMP p m1 * f v", "$6 1000-8");
    // The same limits as before change nothing, others make it forget all.
    clients.effects();
    clients.check("XCFGSET s IDMP-DURATION 60", "+OK");
    assert_eq!(clients.effects(), [""; 0]);
    clients.check("XADD s IDMP p m3 * f v", "$6 1000-4");
    clients.check("XCFGSET s IDMP-DURATION 61", "+OK");
    assert_eq!(figures(&mut clients.0), [0, 0, 9, 2]);
}

#[test]
fn a_transaction_that_watches_is_not_disturbed_by_what_is_known() {
    let mut clients = at(1000);
    clients.run(0, "XADD s IDMP p m * f v");
    clients.notify(&[engine::Class::Stream]);
    clients.check_change("XADD s IDMP p m * f v", "$6 1000-0", &[], &[]);
    let effects = ["XADD s 1000-1 f v", "XIDMPRECORD s p n 1000-1"];
    clients.check_change("XADD s IDMP p n * f v", "$6 1000-1", &effects, &["xadd"]);
}

/// Its entry may be gone, and the message may have been another one before.
#[test]
fn a_log_says_what_happened() {
    let mut clients = at(1000);
    clients.run(0, "XADD s MAXLEN 0 IDMP p m * f v");
    clients.0.now = 200_000;
    clients.run(0, "XADD s IDMP p m * f v");
    clients.run(0, "XADD s IDMP p m * f v");
    let effects = clients.0.take_effects();
    let mut replica = Local::new(FAMILIES);
    (replica.now, replica.keeps_due) = (50_000, true);
    replica.replay(&effects).expect("effects can be replayed");
    replica.keeps_due = false;
    assert_eq!(replica.line("XADD s IDMP p m * f v"), "$8\r\n200000-0\r\n");
    assert_eq!(figures(&mut replica), [1, 1, 2, 1]);
    // Another server may say it in one command.
    replica.keeps_due = true;
    assert_eq!(replica.line("XADD s IDMP p m 300000-1 f v"), "$8\r\n300000-1\r\n");
    replica.keeps_due = false;
    assert_eq!(replica.line("XADD s IDMP p m * f v"), "$8\r\n300000-1\r\n");
}

#[test]
fn long_ids_are_refused() {
    let mut local = Local::new(FAMILIES);
    let long = "x".repeat(65_536);
    assert!(local.line(&format!("XADD s IDMP p {long} * f v")).starts_with('$'));
    assert!(local.line(&format!("XADD s IDMP {long} m * f v")).starts_with('$'));
    let expected = "-ERR producer IDs and idempotent IDs must not be longer than 65536 bytes\r\n";
    for line in ["XADD s IDMP p {} * f v", "XADD s IDMP {} m * f v", "XADD s IDMPAUTO {} * f v"] {
        assert_eq!(local.line(&line.replace("{}", &format!("{long}y"))), expected);
    }
    assert_eq!(local.line(&format!("XIDMPRECORD s p {long}y 1-1")), expected);
}

#[test]
fn a_stream_with_producers_is_what_its_commands_build_and_what_is_dumped() {
    let mut clients = at(1000);
    for line in [
        "XADD s 999-1 f v",
        "XCFGSET s IDMP-DURATION 60",
        "XADD s IDMP p m1 * f v",
        "XADD s IDMP p m2 * f v",
        "XADD s IDMPAUTO q * f v",
        "XADD s IDMP p m1 * f v",
    ] {
        clients.run(0, line);
    }
    let local = &mut clients.0;
    let lines = local.with_store(Client::internal(0, Proto::Resp2), |store| {
        let stream = store.peek_as::<Stream>(b"s").expect("a stream").expect("it is there");
        super::rebuild::commands(b"s", stream)
    });
    let mut rebuilt = Local::new(FAMILIES);
    rebuilt.now = 2000;
    for line in &lines {
        rebuilt.reply(Proto::Resp2, &line.iter().map(|arg| &**arg).collect::<Vec<_>>());
    }
    assert_eq!(figures(&mut rebuilt), [2, 3, 3, 0]);
    let dump = local.reply(Proto::Resp2, &[b"DUMP", b"s"]);
    let start = dump.iter().position(|byte| *byte == b'\n').expect("a bulk string") + 1;
    let payload = &dump[start..dump.len() - 2];
    assert_eq!(payload[0], 27, "the type of Redis 8.8");
    let mut restored = Local::new(FAMILIES);
    restored.now = 2000;
    assert_eq!(restored.reply(Proto::Resp2, &[b"RESTORE", b"s", b"0", payload]), b"+OK\r\n");
    assert_eq!(figures(&mut restored), [2, 3, 3, 1]);
    for other in [&mut rebuilt, &mut restored] {
        assert_eq!(other.line("XADD s IDMP p m2 * f v"), "$6\r\n1000-1\r\n");
        assert_eq!(other.line("XADD s IDMPAUTO q * f v"), "$6\r\n1000-2\r\n");
    }
    // A stream without producers is dumped as before.
    let plain = clients.0.line("XADD plain 1-1 f v");
    assert!(plain.starts_with('$'));
    assert_eq!(clients.0.reply(Proto::Resp2, &[b"DUMP", b"plain"])[5], 19);
}
