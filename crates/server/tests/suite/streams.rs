//! Streams on a running server: readers that claim are served when the time comes, and what is known of producers and
//! of released entries survives restarts.

use blackbox::{Scratch, Server, check, eventually, text};
use resp::Value;

/// The idle time and the number of deliveries of the only entry in a reply to a reader that claims.
fn only_entry(reply: &Value) -> (i64, i64) {
    let Value::Array(streams) = reply else { panic!("{reply}") };
    let [Value::Array(stream)] = &streams[..] else { panic!("{reply}") };
    let [Value::Bulk(_), Value::Array(entries)] = &stream[..] else { panic!("{reply}") };
    let [Value::Array(entry)] = &entries[..] else { panic!("{reply}") };
    let [_, _, Value::Int(idle_ms), Value::Int(count)] = entry[..] else { panic!("{reply}") };
    (idle_ms, count)
}

#[test]
fn a_reader_gets_an_entry_as_soon_as_it_has_been_idle_long_enough() {
    for options in [&[][..], &["--num-shards=8", "--shard-entry=home"]] {
        let server = Server::start(2, "auto", options);
        let (client, waiting) = (&mut server.client(), &mut server.client());
        client.call("XADD s 1-1 f v");
        client.call("XGROUP CREATE s g 0");
        client.call("XREADGROUP GROUP g alice STREAMS s >");
        // The first is due within the span of which threads are told, the second beyond it.
        for (idle_ms, count) in [(200, 1), (1900, 2)] {
            waiting.send(&format!("XREADGROUP GROUP g bob BLOCK 0 CLAIM {idle_ms} STREAMS s >"));
            let (was_idle_ms, was_count) = only_entry(&waiting.receive());
            assert!(was_idle_ms >= idle_ms && was_count == count, "{was_idle_ms} {was_count}");
        }
        // Others may have read it meanwhile; what is released serves at once.
        waiting.send("XREADGROUP GROUP g bob BLOCK 0 CLAIM 3600000 STREAMS s >");
        eventually("it waits", || client.info("clients", "blocked_clients") == "1");
        check(client, "XNACK s g FAIL IDS 1 1-1", "(integer) 1");
        assert_eq!(only_entry(&waiting.receive()).1, 3);
        // At its timeout it has nothing.
        waiting.send("XREADGROUP GROUP g bob BLOCK 10 CLAIM 3600000 STREAMS s >");
        assert_eq!(waiting.receive().to_string(), "(nil)");
    }
}

#[test]
fn producers_and_released_entries_survive_a_restart() {
    for options in [
        &["--snapshot-format", "rdb"][..],
        &["--snapshot-format", "darter"],
        &["--snapshot-format", "rdb", "--rdb-version", "12"],
        &["--appendonly", "yes", "--appendfsync", "always"],
    ] {
        let scratch = Scratch::new("streams");
        let folder = scratch.path("");
        let options = [&["--dir", &folder, "--dbfilename", "dump.rdb"], options].concat();
        let server = Server::start(2, "auto", &options);
        let client = &mut server.client();
        let id = text(&client.call("XADD s IDMP p m * f v"));
        let other = text(&client.call("XADD s IDMPAUTO p * f v"));
        client.call("XADD s IDMP p m * f v");
        client.call("XGROUP CREATE s g 0");
        client.call("XREADGROUP GROUP g c STREAMS s >");
        check(client, &format!("XNACK s g FATAL IDS 1 {other}"), "(integer) 1");
        check(client, &format!("XNACK s g FAIL IDS 1 {id}"), "(integer) 1");
        if options.contains(&"yes") {
            // A part comes from the base, and a part from behind it.
            client.call("BGREWRITEAOF");
            eventually("it is rewritten", || client.info("persistence", "aof_rewrite_in_progress") == "0");
            check(client, &format!("XNACK s g SILENT IDS 1 {other}"), "(integer) 1");
            check(client, &format!("XNACK s g FATAL IDS 1 {other}"), "(integer) 1");
            client.call("XADD s IDMP q m * f v");
        } else {
            client.call("XADD s IDMP q m * f v");
            check(client, "SAVE", "OK");
        }
        let last = text(&client.call("XADD s IDMP q m * f v"));
        drop(server);
        let server = Server::start(3, "auto", &options);
        let client = &mut server.client();
        for (message, expected) in [("IDMP p m", &id), ("IDMPAUTO p", &other), ("IDMP q m", &last)] {
            assert_eq!(&text(&client.call(&format!("XADD s {message} * f v"))), expected, "{options:?}");
        }
        check(client, "XLEN s", "(integer) 3");
        let pending = client.show("XPENDING s g - + 9");
        let expected = format!(
            "1) 1) \"{id}\"\n   2) \"\"\n   3) (integer) -1\n   4) (integer) 1\n2) 1) \"{other}\"\n   2) \"\"\n   3) (integer) -1\n   \
             4) (integer) 9223372036854775807"
        );
        assert_eq!(pending, expected, "{options:?}");
        // The order in which they were released.
        let order = if options.contains(&"yes") { [&id, &other] } else { [&other, &id] };
        for id in order {
            let claimed = client.show("XREADGROUP GROUP g c COUNT 1 CLAIM 0 STREAMS s >");
            assert!(claimed.contains(id.as_str()), "{options:?} {claimed}");
            client.call(&format!("XACK s g {id}"));
        }
    }
}
