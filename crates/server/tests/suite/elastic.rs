//! Connections are served on as many threads as their load needs.

use blackbox::{Client, Server, check, eventually};

fn server(threads: &str, more: &[&str]) -> Server {
    Server::darter(&[&["--proactor-threads", threads], more].concat())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn number(client: &mut Client, section: &str, field: &str) -> u64 {
    client.info(section, field).parse().expect("it is a number")
}

#[test]
fn few_requests_are_served_on_one_thread() {
    let server = server("4", &[]);
    let mut clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
    for _ in 0..20 {
        clients.iter_mut().for_each(|client| drop(client.call("PING")));
    }
    let client = &mut clients[0];
    eventually("it has looked", || number(client, "server", "threads_in_use") == 1);
    assert_eq!(number(client, "stats", "connections_moved"), 0);
}

#[test]
fn it_can_be_switched_while_the_server_runs() {
    let server = server("3", &[]);
    let mut clients: Vec<Client> = (0..30).map(|_| server.client()).collect();
    eventually("it has looked", || number(&mut clients[0], "server", "threads_in_use") == 1);
    for _ in 0..10 {
        clients.iter_mut().for_each(|client| drop(client.call("PING")));
    }
    clients[0].call("CONFIG SET threads-elastic no");
    eventually("all threads are used", || number(&mut clients[0], "server", "threads_in_use") == 3);
    eventually("they have got connections", || number(&mut clients[0], "stats", "connections_moved") >= 10);
    clients[0].call("CONFIG SET threads-elastic yes");
    eventually("one is enough", || number(&mut clients[0], "server", "threads_in_use") == 1);
    clients.iter_mut().for_each(|client| assert_eq!(client.show("PING"), "PONG"));
}

#[test]
fn whose_commands_are_slow_holds_up_nobody_else() {
    let server = server("2", &[]);
    let (mut slow, mut other) = (server.client(), server.client());
    eventually("it has looked", || number(&mut other, "server", "threads_in_use") == 1);
    // Again if all threads were in use for a moment, as on a busy machine.
    eventually("it is on a thread of its own", || {
        slow.call("EVAL 'local n = 0 for i = 1, 5000000 do n = n + i end return n' 0");
        number(&mut other, "stats", "connections_moved") >= 1
    });
    slow.send("EVAL 'while true do end' 0");
    eventually("the script runs", || !other.show("FUNCTION STATS").contains("\"running_script\"\n2) (nil)"));
    for _ in 0..100 {
        assert_eq!(other.show("ECHO served"), "\"served\"");
    }
    assert_eq!(other.show("SCRIPT KILL"), "OK");
    assert!(slow.receive().to_string().contains("killed"));
}

#[test]
fn a_script_that_has_written_nothing_ends_with_its_client() {
    // No script is slow, so nothing else ends it.
    let server = server("2", &["--busy-reply-threshold", "0"]);
    let (mut slow, mut other) = (server.client(), server.client());
    let id = slow.id();
    eventually("it has looked", || number(&mut other, "server", "threads_in_use") == 1);
    slow.send("EVAL 'while true do end' 1 key");
    eventually("the script runs", || number(&mut other, "memory", "number_of_cached_scripts") == 1);
    check(&mut other, &format!("CLIENT KILL ID {id}"), "(integer) 1");
    // Its shard is free again.
    check(&mut other, "SET key value", "OK");
}

#[test]
fn the_first_slow_command_holds_up_nobody_else_either() {
    for io in ["auto", "epoll"] {
        let server = server("2", &["--io", io, "--busy-reply-threshold", "0"]);
        let [mut slow, mut other, mut pusher, mut popper, mut subscriber] =
            std::array::from_fn(|_| server.client());
        let ids = [slow.id(), subscriber.id()];
        eventually("it has looked", || number(&mut other, "server", "threads_in_use") == 1);
        check(&mut other, "SET key served", "OK");
        subscriber.call("SUBSCRIBE channel");
        popper.send("BLPOP queue 0");
        eventually("it waits", || number(&mut other, "clients", "blocked_clients") == 1);
        slow.send("EVAL 'while true do end' 0");
        eventually("the script runs", || number(&mut other, "memory", "number_of_cached_scripts") == 1);
        for _ in 0..100 {
            check(&mut other, "GET key", "\"served\"");
        }
        // New connections, and those that have said nothing.
        let mut late = server.client();
        check(&mut late, "GET key", "\"served\"");
        check(&mut late, "BLPOP nothing 0.01", "(nil)");
        check(&mut pusher, "RPUSH queue job", "(integer) 1");
        assert_eq!(popper.receive().to_string(), "1) \"queue\"\n2) \"job\"");
        // Clients that cannot be moved are served by the thread itself.
        check(&mut late, "PUBLISH channel message", "(integer) 1");
        assert!(subscriber.receive().to_string().contains("message"));
        // Every client is found, the one with the script too.
        let list = late.show("CLIENT LIST");
        for id in ids {
            assert!(list.contains(&format!("id={id} ")), "{id}: {list}");
        }
        check(&mut late, "CONFIG SET busy-reply-threshold 1", "OK");
        check(&mut late, "SCRIPT KILL", "OK");
        assert!(slow.receive().to_string().contains("killed"));
        check(&mut slow, "GET key", "\"served\"");
        check(&mut subscriber, "PING", "1) \"pong\"\n2) \"\"");
    }
}
