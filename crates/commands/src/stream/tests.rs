//! Tests that transcripts cannot cover, because they have one client and a running clock: waiters, watchers,
//! effects, events, times, and that rebuilding a stream gives the same stream.

use ds::stream::{Stream, StreamId};
use engine::{Class, Client, Local, TxMessage};
use resp::Proto;

use crate::FAMILIES;
use crate::clients::Clients;

const NO_GROUP: &str = "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option";
const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

/// `XREAD` and similar commands with one entry of the stream `s`.
fn one_entry(id: &str) -> String {
    format!("*1 *2 $1 s *1 *2 $3 {id} *2 $1 f $1 v")
}

#[test]
fn an_entry_is_given_to_all_who_read_the_stream() {
    let mut clients = Clients::new();
    clients.check("XADD s 1-1 f v", "$3 1-1");
    clients.wait(1, "XREAD BLOCK 0 STREAMS s $");
    clients.wait(2, "XREAD COUNT 1 BLOCK 1000 STREAMS other s 0 1-1");
    clients.wait(3, "XREAD BLOCK 0 STREAMS s 5-0");
    clients.check("XADD s 1-2 f v", "$3 1-2");
    clients.check_served(&[&format!("1: {}", one_entry("1-2")), &format!("2: {}", one_entry("1-2"))]);
    clients.check("XADD s 5-1 f v", "$3 5-1");
    clients.check_served(&[&format!("3: {}", one_entry("5-1"))]);
}

#[test]
fn the_last_id_is_that_of_when_the_wait_began() {
    let mut clients = Clients::new();
    clients.wait(1, "XREAD BLOCK 0 STREAMS s s $ $");
    clients.check("XADD s 1-1 f v", "$3 1-1");
    // The stream is named twice.
    clients.check_served(&["1: *2 *2 $1 s *1 *2 $3 1-1 *2 $1 f $1 v *2 $1 s *1 *2 $3 1-1 *2 $1 f $1 v"]);
}

#[test]
fn a_reader_waits_on_while_the_stream_is_another_or_gone() {
    let mut clients = Clients::new();
    clients.check("XADD s 7-1 f v", "$3 7-1");
    clients.wait(1, "XREAD BLOCK 0 STREAMS s $");
    for line in ["DEL s", "SET s x", "DEL s", "RPUSH s a", "DEL s", "XADD s 6-6 f v", "FLUSHALL"] {
        clients.run(0, line);
        clients.0.outbox.retain(|message| !matches!(message, TxMessage::Free(_)));
        clients.check_served(&[]);
    }
    clients.check("XADD s 8-1 f v", "$3 8-1");
    clients.check_served(&[&format!("1: {}", one_entry("8-1"))]);
}

#[test]
fn consumers_are_served_first_come_first_served() {
    let mut clients = Clients::new();
    clients.check("XGROUP CREATE s g $ MKSTREAM", "+OK");
    clients.check("XGROUP CREATE s h $", "+OK");
    clients.wait(1, "XREADGROUP GROUP g alice BLOCK 0 STREAMS s >");
    clients.wait(2, "XREADGROUP GROUP g bob BLOCK 0 STREAMS s >");
    clients.wait(3, "XREADGROUP GROUP h carol BLOCK 0 STREAMS s >");
    clients.check("XADD s 1-1 f v", "$3 1-1");
    clients.check_served(&[&format!("1: {}", one_entry("1-1")), &format!("3: {}", one_entry("1-1"))]);
    clients.wait(1, "XREADGROUP GROUP g alice BLOCK 0 STREAMS s >");
    clients.check("XADD s 1-2 f v", "$3 1-2");
    clients.check_served(&[&format!("2: {}", one_entry("1-2"))]);
    // With a count, the rest is for the next client.
    clients.wait(2, "XREADGROUP GROUP g bob COUNT 1 BLOCK 0 NOACK STREAMS s >");
    clients.check("XGROUP SETID s g 0", "+OK");
    clients.check("together XADD s 1-3 f v ; XADD s 1-4 f v", "$3 1-3 $3 1-4");
    let all = "1: *1 *2 $1 s *4 *2 $3 1-1 *2 $1 f $1 v *2 $3 1-2 *2 $1 f $1 v *2 $3 1-3 *2 $1 f $1 v *2 $3 1-4 \
               *2 $1 f $1 v";
    clients.check_served(&[all]);
    clients.check("XPENDING s g", "*4 :4 $3 1-1 $3 1-4 *1 *2 $5 alice $1 4");
}

#[test]
fn a_consumer_is_told_that_its_group_is_gone() {
    for (lines, expected) in [
        (&["DEL s"][..], NO_GROUP),
        (&["XGROUP DESTROY s g"], NO_GROUP),
        (&["FLUSHALL"], NO_GROUP),
        (&["FLUSHDB"], NO_GROUP),
        (&["SWAPDB 0 1"], NO_GROUP),
        (&["RENAME s t"], NO_GROUP),
        (&["MOVE s 1"], NO_GROUP),
        (&["PEXPIREAT s 1"], NO_GROUP),
        (&["XADD t 1-1 f v", "RENAME t s"], NO_GROUP),
        (&["SET s x"], WRONG_TYPE),
        (&["SET t x", "COPY t s REPLACE"], WRONG_TYPE),
        (&["RPUSH t x", "RENAME t s"], WRONG_TYPE),
        (&["together DEL s ; RPUSH s a"], WRONG_TYPE),
        (&["together DEL s ; XADD s 1-1 f v"], NO_GROUP),
    ] {
        let mut clients = Clients::new();
        clients.check("XGROUP CREATE s g $ MKSTREAM", "+OK");
        clients.wait(1, "XREADGROUP GROUP g alice BLOCK 0 STREAMS s >");
        lines.iter().for_each(|line| _ = clients.run(0, line));
        clients.0.outbox.retain(|message| !matches!(message, TxMessage::Free(_)));
        clients.check_served(&[&format!("1: {expected}")]);
    }
}

#[test]
fn a_consumer_is_served_from_a_stream_that_takes_the_place() {
    for line in ["RENAME t s", "COPY t s REPLACE", "together DEL s ; RENAME t s"] {
        let mut clients = Clients::new();
        clients.check("XGROUP CREATE s g $ MKSTREAM", "+OK");
        clients.wait(1, "XREADGROUP GROUP g alice BLOCK 0 STREAMS s >");
        clients.check("XADD t 3-3 f v", "$3 3-3");
        clients.check("XGROUP CREATE t g 0", "+OK");
        clients.run(0, line);
        clients.check_served(&[&format!("1: {}", one_entry("3-3"))]);
    }
    // An expired stream is also gone once a command meets it.
    let mut clients = Clients::new();
    clients.check("XGROUP CREATE s g $ MKSTREAM", "+OK");
    clients.check("PEXPIRE s 10", ":1");
    clients.wait(1, "XREADGROUP GROUP g alice BLOCK 0 STREAMS s >");
    clients.0.now += 11;
    clients.check("EXISTS s", ":0");
    clients.0.now += 11;
    clients.check("XLEN s", ":0");
    clients.check_served(&[&format!("1: {NO_GROUP}")]);
}

#[test]
fn who_waits_for_a_list_does_not_hide_who_waits_for_a_stream() {
    let mut clients = Clients::new();
    clients.check("XGROUP CREATE s g $ MKSTREAM", "+OK");
    clients.check("DEL s", ":1");
    clients.wait(1, "BLPOP s 0");
    clients.wait(2, "BLPOP s 0");
    clients.check("XGROUP CREATE s g $ MKSTREAM", "+OK");
    clients.wait(3, "XREADGROUP GROUP g alice BLOCK 0 STREAMS s >");
    clients.wait(4, "XREAD BLOCK 0 STREAMS s $");
    clients.check("together DEL s ; RPUSH s a", ":1 :1");
    clients.check_served(&["1: *2 $1 s $1 a < LPUSH s a", &format!("3: {NO_GROUP}")]);
    clients.check("XADD s 1-1 f v", "$3 1-1");
    clients.check_served(&[&format!("4: {}", one_entry("1-1"))]);
    clients.check("DEL s", ":1");
    clients.check("RPUSH s a", ":1");
    clients.check_served(&["2: *2 $1 s $1 a < LPUSH s a"]);
}

#[test]
fn a_transaction_serves_when_it_is_complete() {
    let mut clients = Clients::new();
    clients.wait(1, "XREAD BLOCK 0 STREAMS s $");
    clients.check("together XADD s 1-1 f v ; DEL s", "$3 1-1 :1");
    clients.check_served(&[]);
    clients.check("together XADD s 1-1 f v ; XADD s 1-2 f v ; XDEL s 1-1", "$3 1-1 $3 1-2 :1");
    clients.check_served(&[&format!("1: {}", one_entry("1-2"))]);
}

#[test]
fn the_wait_says_when_it_ends() {
    let mut clients = Clients::new();
    clients.check("XGROUP CREATE s g $ MKSTREAM", "+OK");
    let mut wait = |line: &str| clients.how_long(line);
    assert_eq!(wait("XREAD BLOCK 1500 STREAMS a b a 0 0 0"), (1500, true, 2));
    assert_eq!(wait("XREADGROUP GROUP g alice BLOCK 0 STREAMS s >"), (0, true, 1));
    let too_long = "-ERR timeout is out of range";
    clients.check("XREAD BLOCK 9223372036854775807 STREAMS s 0", too_long);
    clients.check("XREADGROUP GROUP g alice BLOCK 9223372036854775807 STREAMS s >", too_long);
}

#[test]
fn effects_say_what_was_done() {
    let mut clients = Clients::new();
    let now = clients.0.now;
    for (line, expected) in [
        ("XADD s * f v", vec![format!("XADD s {now}-0 f v")]),
        ("XADD s * f v", vec![format!("XADD s {now}-1 f v")]),
        ("XADD s NOMKSTREAM MAXLEN ~ 9 9999999999999-* f v", vec!["XADD s 9999999999999-0 f v".into()]),
        (
            "XADD s MINID 9999999999999 9999999999999-* f v",
            vec!["XADD s MAXLEN = 2 9999999999999-1 f v".into()],
        ),
        ("XTRIM s MAXLEN ~ 1", vec![]),
        ("XTRIM s MINID 9999999999999-1", vec!["XTRIM s MAXLEN = 1".into()]),
        ("XGROUP CREATE s g $", vec!["XGROUP CREATE s g 9999999999999-1 MKSTREAM ENTRIESREAD -1".into()]),
        ("XGROUP SETID s g 0 ENTRIESREAD 3", vec!["XGROUP SETID s g 0-0 ENTRIESREAD 3".into()]),
        (
            "XREADGROUP GROUP g alice STREAMS s >",
            vec![
                "XGROUP CREATECONSUMER s g alice".into(),
                format!("XCLAIM s g alice 0 9999999999999-1 TIME {now} RETRYCOUNT 1 FORCE JUSTID"),
                "XGROUP SETID s g 9999999999999-1 ENTRIESREAD 4".into(),
            ],
        ),
        (
            "XREADGROUP GROUP g alice STREAMS s 0",
            vec![format!("XCLAIM s g alice 0 9999999999999-1 TIME {now} RETRYCOUNT 2 FORCE JUSTID")],
        ),
        ("XREADGROUP GROUP g bob BLOCK 0 NOACK STREAMS s >", vec!["XGROUP CREATECONSUMER s g bob".into()]),
        (
            "XADD s 9999999999999-2 f v",
            vec![
                "XADD s 9999999999999-2 f v".into(),
                "XGROUP SETID s g 9999999999999-2 ENTRIESREAD 5".into(),
            ],
        ),
        (
            "XCLAIM s g carol 0 9999999999999-1 TIME 5 LASTID 9999999999999-9",
            vec![
                "XGROUP CREATECONSUMER s g carol".into(),
                "XCLAIM s g carol 0 9999999999999-1 TIME 5 RETRYCOUNT 3 FORCE JUSTID".into(),
                "XGROUP SETID s g 9999999999999-9 ENTRIESREAD 5".into(),
            ],
        ),
        ("XDEL s 9999999999999-1 1-1", vec!["XDEL s 9999999999999-1 1-1".into()]),
        (
            "XAUTOCLAIM s g dave 0 0",
            vec!["XGROUP CREATECONSUMER s g dave".into(), "XACK s g 9999999999999-1".into()],
        ),
        ("XACK s g 9999999999999-1", vec![]),
        ("XGROUP DELCONSUMER s g dave", vec!["XGROUP DELCONSUMER s g dave".into()]),
        ("XGROUP DELCONSUMER s g dave", vec![]),
        ("XGROUP DESTROY s g", vec!["XGROUP DESTROY s g".into()]),
    ] {
        clients.run(1, line);
        assert_eq!(clients.effects(), expected, "{line}");
    }
}

#[test]
fn effects_of_trims_that_mind_groups_say_what_went() {
    let mut clients = Clients::new();
    for line in ["XADD s 1-1 f v", "XADD s 2-1 f v", "XADD s 3-1 f v", "XGROUP CREATE s g 2-1"] {
        clients.run(1, line);
    }
    clients.run(1, "XREADGROUP GROUP g alice STREAMS s >");
    clients.effects();
    for (line, expected) in [
        ("XADD s ACKED MAXLEN 1 4-1 f v", vec!["XADD s 4-1 f v", "XDEL s 1-1 2-1"]),
        ("XTRIM s MAXLEN 0 ACKED", vec![]),
        ("XADD s DELREF MAXLEN 1 5-1 f v", vec!["XADD s MAXLEN = 1 5-1 f v", "XACK s g 3-1"]),
        ("XTRIM s DELREF MINID 9", vec!["XTRIM s MAXLEN = 0"]),
        ("XDELEX s DELREF IDS 1 5-1", vec![]),
    ] {
        clients.run(1, line);
        assert_eq!(clients.effects(), expected, "{line}");
    }
}

#[test]
fn effects_of_deletions_are_commands_that_every_replica_knows() {
    let mut clients = Clients::new();
    for line in
        ["XADD s 1-1 f v", "XADD s 2-1 f v", "XADD s 3-1 f v", "XGROUP CREATE s g 0", "XGROUP CREATE s h 0"]
    {
        clients.run(1, line);
    }
    clients.run(1, "XREADGROUP GROUP g alice STREAMS s >");
    clients.run(1, "XREADGROUP GROUP h bob COUNT 2 STREAMS s >");
    clients.effects();
    for (line, expected) in [
        ("XDELEX s DELREF IDS 2 1-1 9-9", vec!["XACK s g 1-1", "XACK s h 1-1", "XDEL s 1-1"]),
        ("XACKDEL s g ACKED IDS 1 2-1", vec!["XACK s g 2-1"]),
        ("XACKDEL s h IDS 1 2-1", vec!["XACK s h 2-1", "XDEL s 2-1"]),
        ("XDELEX s KEEPREF IDS 1 3-1", vec!["XDEL s 3-1"]),
        ("XDELEX s IDS 1 3-1", vec![]),
    ] {
        clients.run(1, line);
        assert_eq!(clients.effects(), expected, "{line}");
    }
}

#[test]
fn events_come_in_order() {
    for (lines, expected) in [
        (&["XADD s 1-1 f v", "XADD s MAXLEN 1 1-2 f v", "XADD s 1-1 f v"][..], "xadd xadd xtrim"),
        (&["XADD s 1-1 f v", "XTRIM s MAXLEN 1", "XTRIM s MAXLEN 0"], "xadd xtrim"),
        (&["XADD s 1-1 f v", "XDEL s 1-1 1-1", "XDEL s 1-1", "DEL s"], "xadd xdel del"),
        (&["XADD s 1-1 f v", "XDELEX s IDS 1 1-1"], "xadd xdel"),
        (&["XADD s 1-1 f v", "XSETID s 2-2"], "xadd xsetid"),
        (
            &["XGROUP CREATE s g $ MKSTREAM", "XGROUP SETID s g 0", "XGROUP DESTROY s g"],
            "xgroup-create xgroup-setid xgroup-destroy",
        ),
        (
            &["XGROUP CREATE s g $ MKSTREAM", "XREADGROUP GROUP g a STREAMS s >", "XGROUP DELCONSUMER s g a"],
            "xgroup-create xgroup-createconsumer xgroup-delconsumer",
        ),
        (
            &["XGROUP CREATE s g $ MKSTREAM", "XCLAIM s g a 0 1-1", "XAUTOCLAIM s g b 0 0", "XACK s g 1-1"],
            "xgroup-create xgroup-createconsumer xgroup-createconsumer",
        ),
    ] {
        let mut clients = Clients::new();
        clients.notify(&[Class::Stream, Class::Generic]);
        lines.iter().for_each(|line| _ = clients.run(0, line));
        assert_eq!(clients.events().join(" "), expected, "{lines:?}");
    }
}

#[test]
fn times_are_told() {
    let mut clients = Clients::new();
    clients.0.now = 1000;
    clients.check("XADD s 1-1 f v", "$3 1-1");
    clients.check("XGROUP CREATE s g 0", "+OK");
    // A consumer that finds no entry exists, but was never active.
    clients.check("XREADGROUP GROUP g bob STREAMS s 0", "*1 *2 $1 s *0");
    clients.run(0, "XREADGROUP GROUP g alice STREAMS s >");
    clients.0.now += 500;
    let pending = "*1 *4 $3 1-1 $5 alice :500 :1";
    clients.check("XPENDING s g - + 10", pending);
    clients.check("XPENDING s g IDLE 500 - + 10 alice", pending);
    clients.check("XPENDING s g IDLE 501 - + 10", "*0");
    clients.check("XCLAIM s g bob 501 1-1", "*0");
    let consumer = |name: &str, pending, idle, inactive| {
        let length = name.len();
        format!("*8 $4 name ${length} {name} $7 pending :{pending} $4 idle :{idle} $8 inactive :{inactive}")
    };
    let both = format!("*2 {} {}", consumer("alice", 1, 500, 500), consumer("bob", 0, 0, -1));
    clients.check("XINFO CONSUMERS s g", &both);
    clients.check("XCLAIM s g bob 500 1-1 IDLE 100 JUSTID", "*1 $3 1-1");
    clients.check("XPENDING s g - + 10", "*1 *4 $3 1-1 $3 bob :100 :1");
    clients.check("XCLAIM s g bob 0 1-1 TIME 9999999 RETRYCOUNT 9223372036854775807 JUSTID", "*1 $3 1-1");
    clients.run(0, "XCLAIM s g bob 0 1-1");
    clients.check("XPENDING s g - + 10", "*1 *4 $3 1-1 $3 bob :0 :9223372036854775807");
    let full = clients.run(0, "XINFO STREAM s FULL").unwrap_or_default();
    let alice = "$4 name $5 alice $9 seen-time :1000 $11 active-time :1000 $9 pel-count :0 $7 pending *0";
    let bob = "$4 name $3 bob $9 seen-time :1500 $11 active-time :1500 $9 pel-count :1 $7 pending *1 *3 $3 1-1 \
               :1500 :9223372036854775807";
    assert!(full.ends_with(&format!("$9 consumers *2 *10 {alice} *10 {bob}")), "{full}");
}

#[test]
fn what_is_large_is_freed_later() {
    let mut clients = Clients::new();
    for _ in 0..100 {
        clients.run(0, "XADD s * f v");
    }
    clients.run(0, "XGROUP CREATE s g 0");
    clients.run(0, "XREADGROUP GROUP g alice STREAMS s >");
    clients.0.outbox.clear();
    for line in ["XGROUP DESTROY s g", "DEL s"] {
        clients.check(line, ":1");
        let Some(TxMessage::Free(mut garbage)) = clients.0.outbox.pop() else {
            panic!("{line} leaves nothing")
        };
        while !garbage.free_slice().1 {}
    }
}

/// Entries that are pending but were trimmed or deleted do no harm.
#[test]
fn an_older_primary_sets_ids_that_clients_cannot() {
    let mut local = Local::new(FAMILIES);
    for line in ["XADD s 5-5 f v", "XADD s 9-9 f v", "XDEL s 9-9"] {
        local.line(line);
    }
    let below = "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id\r\n";
    assert_eq!(local.line("XSETID s 7-7"), below);
    local.keeps_due = true;
    assert_eq!(local.line("XSETID s 7-7"), "+OK\r\n");
    assert_eq!(local.line("XADD s 8-8 f v"), "$3\r\n8-8\r\n");
}

#[test]
fn a_stream_is_what_its_commands_build() {
    let mut local = Local::new(FAMILIES);
    for line in [
        "XADD s 1-1 f v",
        "XADD s 1-2 f v g w",
        "XADD s 2-0 f v",
        "XADD s 3-0 f v",
        "XADD s 4-0 f v",
        "XGROUP CREATE s g 0",
        "XGROUP CREATE s h 2-0 ENTRIESREAD 3",
        "XREADGROUP GROUP g alice COUNT 4 STREAMS s >",
        "XREADGROUP GROUP g bob STREAMS s >",
        "XREADGROUP GROUP g bob STREAMS s 0",
        "XGROUP CREATECONSUMER s h carol",
        "XTRIM s MINID 1-2",
        "XDEL s 3-0",
        "XSETID s 9-9 ENTRIESADDED 20",
        "XGROUP CREATE empty g 5-5 MKSTREAM",
        "XADD trimmed 1-1 f v",
        "XGROUP CREATE trimmed g 0",
        "XREADGROUP GROUP g alice STREAMS trimmed >",
        "XTRIM trimmed MAXLEN 0",
    ] {
        assert!(!local.line(line).starts_with('-'), "{line}");
    }
    for key in ["s", "empty", "trimmed"] {
        let lines = local.with_store(Client::internal(0, Proto::Resp2), |store| {
            let stream = store.peek_as::<Stream>(key.as_bytes()).expect("a stream").expect("it is there");
            super::rebuild::commands(key.as_bytes(), stream)
        });
        let mut rebuilt = Local::new(FAMILIES);
        for line in &lines {
            let args: Vec<&[u8]> = line.iter().map(|arg| &**arg).collect();
            let reply = rebuilt.reply(Proto::Resp2, &args);
            assert!(
                !reply.starts_with(b"-"),
                "{key}: {} {}",
                args.concat().escape_ascii(),
                reply.escape_ascii()
            );
        }
        let shown = |local: &mut Local| {
            let full = local.line(&format!("XINFO STREAM {key} FULL COUNT 0"));
            // The times of consumers are not rebuilt.
            let mut lines: Vec<String> = full.split("\r\n").map(str::to_owned).collect();
            for index in 1..lines.len() {
                if lines[index - 1].ends_with("-time") {
                    lines[index] = String::new();
                }
            }
            lines
        };
        assert_eq!(shown(&mut rebuilt), shown(&mut local), "{key}");
    }
}

#[test]
fn many_entries_are_read_from_any_place() {
    let mut local = Local::new(FAMILIES);
    for ms in 1..=2000 {
        local.line(&format!("XADD s {ms}-0 f v"));
    }
    for ms in [1, 99, 100, 101, 1000, 1999, 2000] {
        let one =
            format!("*1\r\n*2\r\n${0}\r\n{ms}-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n", format!("{ms}-0").len());
        assert_eq!(local.line(&format!("XRANGE s {ms} {ms}")), one);
        assert_eq!(local.line(&format!("XREVRANGE s {ms} - COUNT 1")), one);
    }
    local.with_store(Client::internal(0, Proto::Resp2), |store| {
        let stream = store.peek_as::<Stream>(b"s").expect("a stream").expect("it is there");
        assert_eq!(stream.log.range(StreamId::MIN, StreamId::MAX).count(), 2000);
    });
}
