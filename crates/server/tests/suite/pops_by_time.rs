//! BZTSPOP and BZTSMOVE on a running server: clients are served when a member is due, and not before.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blackbox::{Client, Scratch, Server, check, eventually, text};
use resp::Value;

/// The time `ms` from now in seconds since 1970.
fn seconds_in(ms: u64) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    (now + Duration::from_millis(ms)).as_secs_f64()
}

/// Adds a member that is due in `ms`. Returns when that is, as the score says.
fn add(client: &mut Client, set: &str, ms: u64, member: &str) -> f64 {
    let at = format!("{:.3}", seconds_in(ms));
    check(client, &format!("ZADD {set} {at} {member}"), "(integer) 1");
    at.parse().expect("a number")
}

fn waiting(client: &mut Client, count: usize) {
    eventually("all wait", || client.info("clients", "blocked_clients") == count.to_string());
}

/// Receives a reply of BZTSPOP with one member. It does not come before its time.
fn pops(client: &mut Client, set: &str, member: &str, at: f64) {
    let reply = client.receive();
    assert!(seconds_in(0) >= at, "{member} came too early");
    let Value::Array(parts) = &reply else { panic!("{reply}") };
    let [key, Value::Array(members)] = &parts[..] else { panic!("{reply}") };
    let [Value::Array(pair)] = &members[..] else { panic!("{reply}") };
    assert_eq!((text(key).as_str(), text(&pair[0]).as_str()), (set, member));
}

#[test]
fn a_client_is_served_when_the_first_member_of_a_set_is_due() {
    for options in [&["--num-shards=8"][..], &["--num-shards=8", "--shard-entry=home"]] {
        let server = Server::start(3, "auto", options);
        let (mut client, mut poller) = (server.client(), server.client());
        client.call("ZADD schedule 99999999999 later");
        // Soon, and so late that it is found by looking.
        for (set, ms) in [("schedule", 0), ("retry", 40), ("schedule", 1800)] {
            poller.send("BZTSPOP none schedule retry 10 0");
            waiting(&mut client, 1);
            let at = add(&mut client, set, ms, "job");
            pops(&mut poller, set, "job", at);
        }
        // A member that was there before the client came.
        let at = add(&mut client, "retry", 100, "job");
        poller.send("BZTSPOP schedule retry 1 0");
        pops(&mut poller, "retry", "job", at);
        poller.send("BZTSPOP schedule retry 1 0.01");
        assert_eq!(poller.receive(), Value::NullArray);
        check(&mut client, "ZCARD schedule", "(integer) 1");
    }
}

#[test]
fn an_earlier_member_is_served_earlier() {
    let server = Server::start(2, "auto", &[]);
    let (mut client, mut poller) = (server.client(), server.client());
    add(&mut client, "z", 3_600_000, "hour");
    add(&mut client, "z", 1_000_000, "sooner");
    poller.send("BZTSPOP z 5 0");
    waiting(&mut client, 1);
    for line in ["ZADD z XX 1 hour", "ZINCRBY z -1e10 sooner", "ZADD z 1 new", "GEOADD z -180 -85 place"] {
        client.call("ZADD z 99999999999 later");
        client.call(line);
        assert!(matches!(poller.receive(), Value::Array(_)), "{line}");
        poller.send("BZTSPOP z 5 0");
        waiting(&mut client, 1);
    }
}

#[test]
fn members_move_to_lists_for_those_who_wait_there() {
    for options in [&["--num-shards=8"][..], &["--num-shards=8", "--shard-entry=home"]] {
        let server = Server::start(3, "auto", options);
        let (mut client, mut mover, mut worker) = (server.client(), server.client(), server.client());
        for number in 0..8 {
            let (set, list) = (format!("z{number}"), format!("l{number}"));
            mover.send(&format!("BZTSMOVE none {set} {list} 10 0"));
            worker.send(&format!("BRPOP {list} 0"));
            waiting(&mut client, 2);
            let at = add(&mut client, &set, 20, "first");
            client.call(&format!("ZADD {set} 99999999999 later"));
            assert_eq!(mover.receive().to_string(), "1) \"first\"");
            assert!(seconds_in(0) >= at, "it came too early");
            assert_eq!(worker.receive().to_string(), format!("1) \"{list}\"\n2) \"first\""));
        }
    }
}

#[test]
fn a_thousand_clients_share_one_set_in_their_order() {
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    let mut pollers: Vec<Client> = (0..1000).map(|_| server.client()).collect();
    for (index, poller) in pollers.iter_mut().enumerate() {
        poller.send("BZTSPOP z 1 0");
        if index % 100 == 99 {
            waiting(&mut client, index + 1);
        }
    }
    let from = seconds_in(100);
    let members = (0..1000).map(|number| format!("{:.3} {number}", from + f64::from(number) / 1000.0));
    client.call(&format!("ZADD z {}", members.collect::<Vec<_>>().join(" ")));
    let mut numbers: Vec<usize> = Vec::new();
    for poller in &mut pollers {
        let reply = poller.receive().to_string();
        let number = reply.split('"').nth(3).and_then(|number| number.parse().ok());
        numbers.push(number.expect("a member"));
    }
    // Those of one hundred began to wait in any order.
    for (index, hundred) in numbers.chunks_mut(100).enumerate() {
        hundred.sort_unstable();
        assert_eq!(hundred, (100 * index..100 * index + 100).collect::<Vec<_>>());
    }
    check(&mut client, "EXISTS z", "(integer) 0");
}

#[test]
fn a_wait_ends_in_other_ways() {
    let server = Server::start(2, "auto", &[]);
    let (mut client, mut poller) = (server.client(), server.client());
    add(&mut client, "z", 3_600_000, "hour");
    let id = poller.id();
    for (line, reply) in [
        (format!("CLIENT UNBLOCK {id}"), "(nil)"),
        (format!("CLIENT UNBLOCK {id} ERROR"), "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        (
            "REPLICAOF 127.0.0.1 1".to_owned(),
            "(error) UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
        ),
    ] {
        poller.send("BZTSPOP z 1 0");
        waiting(&mut client, 1);
        client.call(&line);
        assert_eq!(poller.receive().to_string(), reply);
    }
    check(&mut client, "BZTSPOP z 1 0", "(error) READONLY You can't write against a read only replica.");
    check(&mut client, "REPLICAOF NO ONE", "OK");
    // That connection was closed. Who has gone takes nothing.
    let mut poller = server.client();
    poller.send("BZTSPOP z 1 0");
    waiting(&mut client, 1);
    drop(poller);
    waiting(&mut client, 0);
    client.call("ZADD z 1 hour");
    check(&mut client, "ZCARD z", "(integer) 1");
    check(&mut client, "EVAL 'return #redis.call(\"BZTSPOP\", KEYS[1], 9, 0)[2]' 1 z", "(integer) 1");
    check(&mut client, "EVAL 'return redis.call(\"BZTSPOP\", KEYS[1], 9, 0)' 1 z", "(nil)");
}

#[test]
fn what_was_taken_is_gone_after_a_restart() {
    let scratch = Scratch::new("pops-by-time");
    let folder = scratch.path("");
    let options = ["--dir", &folder, "--appendonly", "yes", "--appendfsync", "always"];
    let server = Server::start(2, "auto", &options);
    let mut client = server.client();
    check(&mut client, "ZADD z 1 a 2 b 3 c 99999999999 later", "(integer) 4");
    check(&mut client, "BZTSMOVE z l 2 0", "1) \"a\"\n2) \"b\"");
    check(&mut client, "BZTSPOP z 2 0", "1) \"z\"\n2) 1) 1) \"c\"\n      2) \"3\"");
    drop((client, server));
    let server = Server::start(2, "auto", &options);
    let mut client = server.client();
    check(&mut client, "ZRANGE z 0 -1", "1) \"later\"");
    check(&mut client, "LRANGE l 0 -1", "1) \"b\"\n2) \"a\"");
    // It is found again after a restart.
    let at = add(&mut client, "z", 30, "soon");
    client.send("BZTSPOP z 1 0");
    pops(&mut client, "z", "soon", at);
}
