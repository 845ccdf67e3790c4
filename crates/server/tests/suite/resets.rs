//! Connections that are reset in any state: no trace of them stays, no data is lost, and other clients are served.

use blackbox::{Client, Server, Witness, check, eventually, text};
use resp::Value;

/// Clients that are reset at once in each state.
const CLIENTS: usize = 6;

/// Runs a test where commands run on their client's thread, where they are delegated, and where they hop.
fn on_each_server(test: impl Fn(&Server)) {
    for (threads, io, entry) in
        [(1, "epoll", "roam"), (3, "auto", "roam"), (3, "epoll", "roam"), (3, "auto", "home")]
    {
        test(&Server::start(threads, io, &["--lua-time-limit", "20", "--shard-entry", entry]));
    }
}

/// Brings clients into a state, sees them there, resets them.
fn check_state(
    server: &Server,
    witness: &mut Witness,
    prepare: impl Fn(&mut Client),
    is_there: impl Fn(&mut Client) -> bool,
) {
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    clients.iter_mut().for_each(&prepare);
    eventually("the state", || is_there(witness.client()));
    witness.look();
    clients.into_iter().for_each(Client::reset);
    witness.alone();
}

#[track_caller]
fn is_field(client: &mut Client, field: &str, value: usize) -> bool {
    client.info("clients", field) == value.to_string()
}

#[test]
fn in_a_transaction() {
    on_each_server(|server| {
        let prepare = |client: &mut Client| {
            check(client, "WATCH k1 k2 k3", "OK");
            check(client, "MULTI", "OK");
            check(client, "SET k1 v", "QUEUED");
            check(client, "BLPOP k4 0", "QUEUED");
        };
        check_state(server, &mut Witness::new(server), prepare, |witness| {
            is_field(witness, "total_watched_keys", 3)
        });
    });
}

#[test]
fn while_they_wait() {
    on_each_server(|server| {
        let witness = &mut Witness::new(server);
        for command in
            ["BRPOP k1 k2 k3 0", "BLMOVE k1 k2 LEFT RIGHT 0", "BLMPOP 0 2 k1 k2 LEFT", "BZPOPMIN k1 k2 1000"]
        {
            let prepare = |client: &mut Client| {
                check(client, "PING", "PONG");
                client.send(command);
                client.send("SET never run");
            };
            check_state(server, witness, prepare, |witness| is_field(witness, "blocked_clients", CLIENTS));
        }
        // A client that waited is gone, so an element pushed now stays.
        let (mut pusher, mut waiter) = (server.client(), server.client());
        let id = waiter.id();
        waiter.send("BRPOP k1 k2 0");
        eventually("blocked", || pusher.field_of(id, "flags") == "b");
        waiter.reset();
        eventually("gone", || pusher.field_of(id, "id").is_empty());
        check(&mut pusher, "LPUSH k1 v", "(integer) 1");
        check(&mut pusher, "LRANGE k1 0 -1", "1) \"v\"");
        check(&mut pusher, "DEL k1", "(integer) 1");
    });
}

#[test]
fn while_they_listen() {
    on_each_server(|server| {
        let witness = &mut Witness::new(server);
        let prepare = |client: &mut Client| {
            client.call("SUBSCRIBE c1");
            client.call("PSUBSCRIBE p*");
        };
        check_state(server, witness, prepare, |witness| {
            witness.call("PUBLISH c1 x") == Value::Int(CLIENTS as i64)
                && witness.call("PUBLISH px x") == Value::Int(CLIENTS as i64)
        });
        check_state(
            server,
            witness,
            |client| check(client, "MONITOR", "OK"),
            |witness| text(&witness.call("CLIENT LIST")).matches("flags=O").count() == CLIENTS,
        );
    });
}

#[test]
fn in_a_script() {
    on_each_server(|server| {
        let mut witness = Witness::new(server);
        let (mut caller, mut other) = (server.client(), server.client());
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
        check(&mut other, "PING", "PONG");
        caller.send("EVAL \"while true do end\" 1 {k}a");
        eventually("slow", || other.show("GET {k}b").contains("BUSY"));
        caller.reset();
        // Reset some clients that got BUSY, and some whose command was not looked at.
        for client in &mut clients {
            client.send("INCR {k}c");
        }
        clients.into_iter().for_each(Client::reset);
        check(&mut other, "SCRIPT KILL", "OK");
        eventually("it ends", || other.show("GET {k}b") == "(nil)");
        eventually("they are gone", || is_field(&mut other, "connected_clients", 2));
        other.call("DEL {k}c");
        other.reset();
        witness.alone();
    });
}

#[test]
fn in_the_middle_of_a_large_reply() {
    on_each_server(|server| {
        let mut witness = Witness::new(server);
        let value = vec![b'x'; 8 << 20];
        witness.client().send_args(&[b"SET", b"large", &value]);
        assert_eq!(witness.client().receive().to_string(), "OK");
        let used = |witness: &mut Witness| -> usize {
            witness.client().info("memory", "used_memory").parse().unwrap()
        };
        let before_bytes = used(&mut witness);
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
        for client in &mut clients {
            client.send("GET large");
            client.send("GET large");
            // The reply has begun.
            let mut first = [0];
            std::io::Read::read_exact(client.stream(), &mut first).unwrap();
        }
        witness.look();
        clients.into_iter().for_each(Client::reset);
        eventually("its memory is back", || used(&mut witness) < before_bytes + (2 << 20));
        check(witness.client(), "DEL large", "(integer) 1");
        witness.alone();
    });
}

/// Elements that wander between lists.
const WANDERERS: usize = 100;

#[test]
fn while_their_commands_are_elsewhere() {
    on_each_server(|server| {
        let mut witness = Witness::new(server);
        for number in 0..WANDERERS {
            witness.client().call(&format!("RPUSH l0 {number}"));
        }
        for round in 0..20 {
            let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
            for (number, client) in clients.iter_mut().enumerate() {
                let (from, to) = ((round + number) % 4, (round + number * 3 + 1) % 4);
                let mut bytes = Vec::new();
                for _ in 0..50 {
                    let lists = [format!("l{from}"), format!("l{to}")];
                    resp::encode_request(&["LMOVE", &lists[0], &lists[1], "LEFT", "RIGHT"], &mut bytes);
                    resp::encode_request(&["MULTI"], &mut bytes);
                    resp::encode_request(&["LMOVE", &lists[1], &lists[0], "LEFT", "RIGHT"], &mut bytes);
                    resp::encode_request(&["LMOVE", &lists[0], "l2", "LEFT", "RIGHT"], &mut bytes);
                    resp::encode_request(&["EXEC"], &mut bytes);
                }
                client.send_bytes(&bytes);
            }
            clients.into_iter().for_each(Client::reset);
            witness.look();
        }
        eventually("they are gone", || is_field(witness.client(), "connected_clients", 1));
        let mut found: Vec<String> = (0..4)
            .flat_map(|list| match witness.client().call(&format!("LRANGE l{list} 0 -1")) {
                Value::Array(items) => items,
                other => panic!("{other}"),
            })
            .map(|item| text(&item))
            .collect();
        found.sort_by_key(|item| item.parse::<usize>().unwrap());
        assert_eq!(found, (0..WANDERERS).map(|number| number.to_string()).collect::<Vec<_>>());
        witness.client().call("DEL l0 l1 l2 l3");
        witness.alone();
    });
}
