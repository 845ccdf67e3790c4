//! Messages that a client causes for itself: it publishes on its own channels, or changes keys that it tracks. Each
//! comes right after the reply to the command that caused it, and before the reply to the next one of the pipeline.

use blackbox::{Client, Server, check, on_each_server, text};
use resp::Value;

/// A reply in one line: the words of a push or an array in brackets.
fn shown(value: &Value) -> String {
    let words = |items: &[Value]| items.iter().map(shown).collect::<Vec<_>>().join(" ");
    match value {
        Value::Push(items) => format!(">[{}]", words(items)),
        Value::Array(items) => format!("[{}]", words(items)),
        Value::Int(number) => number.to_string(),
        Value::Null => "nil".to_owned(),
        other => text(other),
    }
}

/// Sends all lines at once; `expected`: what comes, separated by commas.
#[track_caller]
fn pipeline(client: &mut Client, lines: &[&str], expected: &str) {
    let mut bytes = Vec::new();
    for line in lines {
        resp::encode_request(&resp::split_args(line.as_bytes()).expect("quotes are balanced"), &mut bytes);
    }
    client.send_bytes(&bytes);
    let received: Vec<String> = expected.split(", ").map(|_| shown(&client.receive())).collect();
    assert_eq!(received.join(", "), expected, "{lines:?}");
    check(client, "ECHO silent", "\"silent\"");
}

fn resp3(server: &Server) -> Client {
    let mut client = server.client();
    client.call("HELLO 3");
    client
}

#[test]
fn messages_to_oneself_keep_their_place() {
    for (lines, expected) in [
        (
            &["SUBSCRIBE c", "PUBLISH c m", "UNSUBSCRIBE c", "GET x"][..],
            ">[subscribe c 1], 1, >[message c m], >[unsubscribe c 0], nil",
        ),
        (
            &["PSUBSCRIBE c*", "PUBLISH c 1", "GET x", "PUBLISH c 2", "PUNSUBSCRIBE"],
            ">[psubscribe c* 1], 1, >[pmessage c* c 1], nil, 1, >[pmessage c* c 2], >[punsubscribe c* 0]",
        ),
        (
            &["SSUBSCRIBE c", "SPUBLISH c m", "SUNSUBSCRIBE"],
            ">[ssubscribe c 1], 1, >[smessage c m], >[sunsubscribe c 0]",
        ),
        (
            &["SUBSCRIBE c", "MULTI", "PUBLISH c 1", "GET x", "EXEC", "GET y", "UNSUBSCRIBE"],
            ">[subscribe c 1], OK, QUEUED, QUEUED, [1 nil], >[message c 1], nil, >[unsubscribe c 0]",
        ),
        // The client was subscribed when it published.
        (
            &["MULTI", "SUBSCRIBE c", "PUBLISH c m", "UNSUBSCRIBE c", "EXEC", "GET x"],
            "OK, QUEUED, QUEUED, QUEUED, [>[subscribe c 1] 1 >[unsubscribe c 0]], >[message c m], nil",
        ),
        (
            &["SUBSCRIBE c", "EVAL \"redis.call('PUBLISH', 'c', 'm') return 7\" 0", "UNSUBSCRIBE"],
            ">[subscribe c 1], 7, >[message c m], >[unsubscribe c 0]",
        ),
        // Messages are no replies.
        (
            &["SUBSCRIBE c", "CLIENT REPLY OFF", "PUBLISH c m", "CLIENT REPLY ON", "UNSUBSCRIBE"],
            ">[subscribe c 1], >[message c m], OK, >[unsubscribe c 0]",
        ),
        (&["SUBSCRIBE c", "PUBLISH c m", "RESET"], ">[subscribe c 1], 1, >[message c m], RESET"),
    ] {
        on_each_server(|server| pipeline(&mut resp3(server), lines, expected));
    }
}

#[test]
fn a_client_of_resp2_hears_of_its_transaction() {
    on_each_server(|server| {
        pipeline(
            &mut server.client(),
            &["MULTI", "SUBSCRIBE c", "PUBLISH c m", "UNSUBSCRIBE c", "EXEC", "GET x"],
            "OK, QUEUED, QUEUED, QUEUED, [[subscribe c 1] 1 [unsubscribe c 0]], [message c m], nil",
        );
    });
}

#[test]
fn events_of_oneself_keep_their_place() {
    on_each_server(|server| {
        let client = &mut resp3(server);
        check(client, "CONFIG SET notify-keyspace-events KA", "OK");
        let lines = ["PSUBSCRIBE __key*", "SET a 1", "GET a", "LPUSH l 1", "PUNSUBSCRIBE"];
        let expected = ">[psubscribe __key* 1], OK, >[pmessage __key* __keyspace@0__:a set], 1, 1, \
            >[pmessage __key* __keyspace@0__:l lpush], >[punsubscribe __key* 0]";
        pipeline(client, &lines, expected);
    });
}

#[test]
fn changes_of_tracked_keys_keep_their_place() {
    for (lines, expected) in [
        (
            &["CLIENT TRACKING ON", "GET x", "SET x 1", "GET x", "SET x 2", "CLIENT TRACKING OFF"][..],
            "OK, nil, OK, >[invalidate [x]], 1, OK, >[invalidate [x]], OK",
        ),
        (
            &["CLIENT TRACKING ON", "GET x", "GET y", "MSET x 1 y 2", "PING"],
            "OK, nil, nil, OK, >[invalidate [x]], >[invalidate [y]], PONG",
        ),
        (
            &["CLIENT TRACKING ON", "GET x", "MULTI", "SET x 1", "CLIENT TRACKING OFF", "EXEC", "PING"],
            "OK, nil, OK, QUEUED, QUEUED, [OK OK], >[invalidate [x]], PONG",
        ),
        (
            &["CLIENT TRACKING ON", "GET x", "FLUSHALL", "CLIENT TRACKING OFF"],
            "OK, nil, OK, >[invalidate nil], OK",
        ),
        (&["CLIENT TRACKING ON NOLOOP", "GET x", "SET x 1", "PING"], "OK, nil, OK, PONG"),
    ] {
        on_each_server(|server| pipeline(&mut resp3(server), lines, expected));
    }
}

#[test]
fn who_redirects_tells_the_other_of_its_own_changes() {
    on_each_server(|server| {
        let (client, other) = (&mut server.client(), &mut resp3(server));
        let id = other.id();
        let tracking = format!("CLIENT TRACKING ON REDIRECT {id}");
        pipeline(client, &[&tracking, "GET x", "SET x 1", "CLIENT TRACKING OFF"], "OK, nil, OK, OK");
        assert_eq!(shown(&other.receive()), ">[invalidate [x]]");
    });
}

#[test]
fn what_was_tracked_before_is_told_by_the_rules_of_now() {
    for (options, expected) in [
        // Once, by its prefix, and not at all if that is another one.
        ("BCAST", "OK, nil, OK, OK, OK, >[invalidate [x]]"),
        ("BCAST PREFIX other", "OK, nil, OK, OK, OK"),
        ("NOLOOP", "OK, nil, OK, OK, OK"),
        ("OPTIN", "OK, nil, OK, OK, OK, >[invalidate [x]]"),
    ] {
        on_each_server(|server| {
            let again = format!("CLIENT TRACKING ON {options}");
            let lines = ["CLIENT TRACKING ON", "GET x", "CLIENT TRACKING OFF", &again, "SET x 1"];
            pipeline(&mut resp3(server), &lines, expected);
        });
    }
}
