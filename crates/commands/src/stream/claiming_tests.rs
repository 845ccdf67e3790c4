//! Tests of XREADGROUP with CLAIM, and of XNACK, with a clock that stands still.

use ds::stream::Stream;
use engine::{Client, Local, TxMessage};
use resp::Proto;

use crate::FAMILIES;
use crate::clients::Clients;

/// A group `g` of the stream `s`; alice has read the entries 1-1 to 3-1 at 1000.
fn read_by_alice() -> Clients {
    let mut clients = Clients::new();
    clients.0.now = 1000;
    for line in ["XADD s 1-1 f v", "XADD s 2-1 f v", "XADD s 3-1 f v", "XGROUP CREATE s g 0"] {
        clients.run(0, line);
    }
    clients.run(0, "XREADGROUP GROUP g alice STREAMS s >");
    clients.effects();
    clients
}

/// A reply from the stream `s`: id, idle time and number of deliveries of each entry.
fn claimed(entries: &[(&str, i64, i64)]) -> String {
    let entry =
        |(id, idle_ms, count): &(&str, i64, i64)| format!(" *4 $3 {id} *2 $1 f $1 v :{idle_ms} :{count}");
    let entries_text: String = entries.iter().map(entry).collect();
    format!("*1 *2 $1 s *{}{entries_text}", entries.len())
}

#[test]
fn idle_entries_come_before_new_ones_the_longest_waiting_first() {
    let mut clients = read_by_alice();
    clients.run(0, "XCLAIM s g alice 0 3-1 TIME 500 JUSTID");
    clients.run(0, "XADD s 4-1 f v");
    clients.0.now = 1400;
    clients.check("XREADGROUP GROUP g bob CLAIM 900 COUNT 1 STREAMS s >", &claimed(&[("3-1", 900, 1)]));
    clients.0.now = 1500;
    let expected = claimed(&[("1-1", 500, 1), ("2-1", 500, 1), ("4-1", 0, 0)]);
    clients.effects();
    clients.check("XREADGROUP GROUP g bob CLAIM 500 STREAMS s >", &expected);
    let expected = [
        "XCLAIM s g bob 0 1-1 2-1 TIME 1500 RETRYCOUNT 2 FORCE JUSTID",
        "XCLAIM s g bob 0 4-1 TIME 1500 RETRYCOUNT 1 FORCE JUSTID",
        "XGROUP SETID s g 4-1 ENTRIESREAD 4",
    ];
    assert_eq!(clients.effects(), expected);
    clients.check("XREADGROUP GROUP g bob CLAIM 9223372036854775807 STREAMS s >", "*-1");
    // Its own history is as without the option.
    let history = "*1 *2 $1 s *1 *2 $3 1-1 *2 $1 f $1 v";
    clients.check("XREADGROUP GROUP g bob COUNT 1 CLAIM 0 STREAMS s 0", history);
}

#[test]
fn claimed_entries_stay_pending_whatever_noack_says() {
    let mut clients = read_by_alice();
    clients.run(0, "XACK s g 2-1 3-1");
    clients.run(0, "XADD s 4-1 f v");
    let expected = claimed(&[("1-1", 0, 1), ("4-1", 0, 0)]);
    clients.check("XREADGROUP GROUP g bob NOACK CLAIM 0 STREAMS s >", &expected);
    clients.check("XPENDING s g - + 10", "*1 *4 $3 1-1 $3 bob :0 :2");
    clients.check("XREADGROUP GROUP g bob NOACK CLAIM 0 STREAMS s >", &claimed(&[("1-1", 0, 2)]));
    // Twice in one command: once as new, once as pending for too long.
    clients.run(0, "XGROUP SETID s g 0");
    let expected = claimed(&[("1-1", 0, 3), ("1-1", 0, 0), ("2-1", 0, 0)]);
    clients.check("XREADGROUP GROUP g bob COUNT 3 CLAIM 0 STREAMS s >", &expected);
    clients.check(
        "XREADGROUP GROUP g bob COUNT 1 MAXSIZE 1 CLAIM 0 STREAMS s s > >",
        &claimed(&[("1-1", 0, 1)]),
    );
}

#[test]
fn deleted_entries_are_not_claimed_and_stay_pending() {
    let mut clients = read_by_alice();
    clients.run(0, "XDEL s 1-1");
    clients.run(0, "XNACK s g FAIL IDS 1 1-1");
    clients.check("XREADGROUP GROUP g bob CLAIM 0 COUNT 1 STREAMS s >", &claimed(&[("2-1", 0, 1)]));
    clients.run(0, "XTRIM s MAXLEN 0");
    clients.check("XREADGROUP GROUP g bob CLAIM 0 STREAMS s >", "*-1");
    clients.check("XPENDING s g", "*4 :3 $3 1-1 $3 3-1 *2 *2 $5 alice $1 1 *2 $3 bob $1 1");
}

#[test]
fn a_reader_is_served_when_an_entry_has_been_idle_long_enough() {
    let mut clients = read_by_alice();
    clients.wait(1, "XREADGROUP GROUP g bob BLOCK 0 CLAIM 3000 STREAMS s >");
    // Later looks tell the thread.
    assert_eq!(clients.told(), []);
    clients.0.now = 3000;
    clients.run(0, "wake s");
    assert_eq!(clients.told(), [4000]);
    clients.check_served(&[]);
    clients.run(0, "XGROUP CREATE t g $ MKSTREAM");
    clients.wait(2, "XREADGROUP GROUP g carol BLOCK 0 COUNT 2 CLAIM 2500 STREAMS t s > >");
    assert_eq!(clients.told(), [3500]);
    clients.0.now = 3500;
    clients.run(0, "wake s");
    assert_eq!(clients.told(), [4000, 4000]);
    clients.check_served(&[&format!("2: {}", claimed(&[("1-1", 2500, 1), ("2-1", 2500, 1)]))]);
    clients.0.now = 4000;
    clients.run(0, "wake s");
    clients.check_served(&[&format!("1: {}", claimed(&[("3-1", 3000, 1)]))]);
    assert_eq!(clients.told(), []);
}

#[test]
fn what_others_read_meanwhile_serves_a_reader_in_its_time() {
    let mut clients = Clients::new();
    clients.0.now = 1000;
    clients.run(0, "XGROUP CREATE s g 0 MKSTREAM");
    clients.wait(1, "XREADGROUP GROUP g alice BLOCK 0 CLAIM 100 STREAMS s >");
    clients.wait(2, "XREADGROUP GROUP g bob BLOCK 0 CLAIM 100 STREAMS s >");
    assert_eq!(clients.told(), []);
    clients.run(0, "XADD s 1-1 f v");
    assert_eq!(clients.told(), [1100, 1100]);
    clients.check_served(&[&format!("1: {}", claimed(&[("1-1", 0, 0)]))]);
    // It was acknowledged before.
    clients.run(0, "XACK s g 1-1");
    clients.0.now = 1100;
    clients.run(0, "wake s");
    clients.check_served(&[]);
    clients.run(0, "XGROUP DESTROY s g");
    clients.0.outbox.retain(|message| !matches!(message, TxMessage::Free(_)));
    clients
        .check_served(&["2: -NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option"]);
}

#[test]
fn released_entries_have_no_consumer_and_come_first() {
    let mut clients = read_by_alice();
    clients.check("XNACK s g FAIL IDS 2 3-1 1-1", ":2");
    let expected = ["XNACK s g SILENT IDS 2 3-1 1-1 RETRYCOUNT 1 FORCE FORCE"];
    assert_eq!(clients.effects(), expected);
    clients.0.now = 1200;
    let pending = "*3 *4 $3 1-1 $0  :-1 :1 *4 $3 2-1 $5 alice :200 :1 *4 $3 3-1 $0  :-1 :1";
    clients.check("XPENDING s g - + 10", pending);
    clients.check("XPENDING s g IDLE 999999 - + 10", "*2 *4 $3 1-1 $0  :-1 :1 *4 $3 3-1 $0  :-1 :1");
    clients.check("XPENDING s g", "*4 :3 $3 1-1 $3 3-1 *1 *2 $5 alice $1 1");
    let full = clients.run(0, "XINFO STREAM s FULL").unwrap_or_default();
    assert!(full.contains("$9 pel-count :3 $12 nacked-count :2 $7 pending *3 *4 $3 1-1 $0  :0 :1"), "{full}");
    // The history of the consumer does not have them.
    let own = "*1 *2 $1 s *1 *2 $3 2-1 *2 $1 f $1 v";
    clients.check("XREADGROUP GROUP g alice STREAMS s 0", own);
    // Released again, it comes last.
    clients.check("XNACK s g SILENT IDS 1 3-1", ":1");
    let expected = claimed(&[("1-1", 1200, 1), ("3-1", 1200, 0), ("2-1", 0, 2)]);
    clients.check("XREADGROUP GROUP g bob CLAIM 0 STREAMS s >", &expected);
    let full = clients.run(0, "XINFO STREAM s FULL").unwrap_or_default();
    assert!(full.contains("$12 nacked-count :0"), "{full}");
}

#[test]
fn released_entries_can_be_claimed_at_once() {
    for line in ["XCLAIM s g bob 99999 1-1 JUSTID", "XAUTOCLAIM s g bob 99999 0 JUSTID"] {
        let mut clients = read_by_alice();
        clients.run(0, "XNACK s g FATAL IDS 1 1-1");
        assert!(clients.run(0, line).is_some_and(|reply| reply.contains("*1 $3 1-1")), "{line}");
        clients.check("XPENDING s g - + 1", "*1 *4 $3 1-1 $3 bob :0 :9223372036854775807");
    }
    // The group is gone with its consumer's entries, but not with those that were released.
    let mut clients = read_by_alice();
    clients.run(0, "XNACK s g FAIL IDS 1 1-1");
    clients.check("XGROUP DELCONSUMER s g alice", ":2");
    clients.check("XPENDING s g", "*4 :1 $3 1-1 $3 1-1 *0");
    clients.check("XACK s g 1-1", ":1");
    clients.check("XPENDING s g", "*4 :0 $-1 $-1 *-1");
}

#[test]
fn who_waits_gets_what_is_released() {
    let mut clients = read_by_alice();
    clients.wait(1, "XREADGROUP GROUP g bob BLOCK 0 CLAIM 3600000 STREAMS s >");
    clients.wait(2, "XREADGROUP GROUP g carol BLOCK 0 STREAMS s >");
    clients.check("XNACK s g FAIL IDS 2 9-9 2-1", ":1");
    clients.check_served(&[&format!("1: {}", claimed(&[("2-1", 1000, 1)]))]);
}

#[test]
fn released_entries_are_what_their_commands_build() {
    let mut clients = read_by_alice();
    for line in ["XNACK s g FATAL IDS 2 3-1 1-1", "XNACK s g SILENT IDS 1 1-1 RETRYCOUNT 3", "XDEL s 3-1"] {
        clients.run(0, line);
    }
    let local = &mut clients.0;
    let lines = local.with_store(Client::internal(0, Proto::Resp2), |store| {
        let stream = store.peek_as::<Stream>(b"s").expect("a stream").expect("it is there");
        super::rebuild::commands(b"s", stream)
    });
    let mut rebuilt = Local::new(FAMILIES);
    for line in &lines {
        rebuilt.reply(Proto::Resp2, &line.iter().map(|arg| &**arg).collect::<Vec<_>>());
    }
    for line in
        ["XPENDING s g - + 1", "XPENDING s g (1-1 + 9", "XREADGROUP GROUP g x COUNT 1 CLAIM 99 STREAMS s >"]
    {
        rebuilt.now = local.now;
        assert_eq!(rebuilt.line(line), local.line(line), "{line}");
    }
}
