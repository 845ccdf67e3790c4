//! Connections move from thread to thread while their clients use them, without a visible effect.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use blackbox::{Client, Server, check, eventually, text};
use resp::Value;

const THREADS: usize = 3;

/// A server with each driver, whose connections move only when they are told to.
fn on_each_driver(test: impl Fn(&Server)) {
    for io in ["auto", "epoll"] {
        test(&Server::start(THREADS, io, &[]));
    }
}

/// Moves a client to a thread, if possible.
fn send_to(mover: &mut Client, id: i64, thread: usize) -> bool {
    mover.show(&format!("DEBUG MOVE-CLIENT {id} {thread}")) == "OK"
}

/// Tries to move a client to each thread, one after the other.
fn send_around(mover: &mut Client, id: i64) {
    for thread in 0..THREADS {
        send_to(mover, id, thread);
    }
}

/// While `work` lasts, sends these clients from thread to thread; returns how many times one went.
fn while_moving(server: &Server, ids: &[i64], work: impl FnOnce()) -> u64 {
    let is_over = AtomicBool::new(false);
    let mut mover = server.client();
    let before = moved(&mut mover);
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| {
            for round in 0.. {
                for (index, id) in ids.iter().enumerate() {
                    send_to(&mut mover, *id, (round + index) % THREADS);
                }
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
            moved(&mut mover) - before
        });
        // Also when it fails: else the other thread would go on for ever.
        let raised = Raise(&is_over);
        work();
        drop(raised);
        moving.join().expect("it only sends commands")
    })
}

/// Raises the flag when it is dropped.
struct Raise<'f>(&'f AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn moved(client: &mut Client) -> u64 {
    client.info("stats", "connections_moved").parse().expect("it is a number")
}

/// Brings another client to that thread.
fn place(mover: &mut Client, client: &mut Client, thread: usize) {
    let before = moved(mover);
    // The client may be on this thread already.
    if send_to(mover, client.id(), thread) {
        await_moves(mover, before + 1);
    }
}

/// Waits until connections have moved `count` times.
fn await_moves(client: &mut Client, count: u64) {
    eventually("the connection moves", || moved(client) >= count);
}

#[test]
fn replies_come_in_their_order_and_once() {
    const BATCHES: usize = 300;
    const BATCH: usize = 40;
    on_each_driver(|server| {
        let mut clients: Vec<Client> = (0..6).map(|_| server.client()).collect();
        let ids: Vec<i64> = clients.iter_mut().map(Client::id).collect();
        let moves = while_moving(server, &ids, || {
            std::thread::scope(|scope| {
                for (index, client) in clients.iter_mut().enumerate() {
                    scope.spawn(move || {
                        for batch in 0..BATCHES {
                            for number in 0..BATCH {
                                client.send(&format!("ECHO {index}-{batch}-{number}"));
                                client.send("INCR all");
                                client.send(&format!("INCR of{index}"));
                            }
                            for number in 0..BATCH {
                                assert_eq!(text(&client.receive()), format!("{index}-{batch}-{number}"));
                                assert!(matches!(client.receive(), Value::Int(_)));
                                assert_eq!(client.receive(), Value::Int((batch * BATCH + number + 1) as i64));
                            }
                        }
                    });
                }
            });
        });
        assert!(moves > 10, "only {moves} moves");
        check(&mut server.client(), "GET all", &format!("\"{}\"", 6 * BATCHES * BATCH));
    });
}

#[test]
fn a_request_that_is_cut_in_two_is_put_together_on_another_thread() {
    on_each_driver(|server| {
        let (mut client, mut mover) = (server.client(), server.client());
        let (id, value) = (client.id(), "x".repeat(100_000));
        let request = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n{value}\r\n*1\r\n$4\r\nPI");
        for round in 0..20 {
            let cut = 1 + round * 4_999;
            client.send_bytes(&request.as_bytes()[..cut]);
            let before = moved(&mut mover);
            assert!(
                send_to(&mut mover, id, round % THREADS) || send_to(&mut mover, id, (round + 1) % THREADS)
            );
            await_moves(&mut mover, before + 1);
            client.send_bytes(&request.as_bytes()[cut..]);
            assert_eq!(client.receive(), Value::Simple("OK".into()));
            client.send_bytes(b"NG\r\n");
            assert_eq!(client.receive(), Value::Simple("PONG".into()));
            check(&mut mover, "STRLEN k", "(integer) 100000");
        }
    });
}

#[test]
fn clients_that_wait_are_served_wherever_they_are() {
    on_each_driver(|server| {
        let (mut pusher, count) = (server.client(), 8);
        let mut waiters: Vec<Client> = (0..count).map(|_| server.client()).collect();
        let ids: Vec<i64> = waiters.iter_mut().map(Client::id).collect();
        let moves = while_moving(server, &ids, || {
            for round in 0..200 {
                for waiter in &mut waiters {
                    waiter.send("BLPOP other queue 0");
                }
                for number in 0..count {
                    pusher.call(&format!("RPUSH queue {round}-{number}"));
                }
                let mut served: Vec<String> =
                    waiters.iter_mut().map(|waiter| waiter.receive().to_string()).collect();
                served.sort();
                let expected: Vec<String> =
                    (0..count).map(|number| format!("1) \"queue\"\n2) \"{round}-{number}\"")).collect();
                assert_eq!(served, expected);
            }
        });
        assert!(moves > 10, "only {moves} moves");
        assert_eq!(pusher.info("clients", "blocked_clients"), "0");
        check(&mut pusher, "EXISTS queue", "(integer) 0");
    });
}

#[test]
fn who_waits_keeps_its_turn_and_its_timeout() {
    on_each_driver(|server| {
        let (mut mover, mut first, mut second) = (server.client(), server.client(), server.client());
        let ids = [first.id(), second.id()];
        let id = ids[0];
        first.send("BLPOP queue 0");
        let blocked = |mover: &mut Client, count: &str| {
            eventually("they wait", || mover.info("clients", "blocked_clients") == count);
        };
        blocked(&mut mover, "1");
        second.send("BLPOP queue 0");
        blocked(&mut mover, "2");
        // One that is on its way cannot be sent elsewhere, so the number of moves depends on how fast they are.
        eventually("they move", || {
            ids.iter().for_each(|id| send_around(&mut mover, *id));
            moved(&mut mover) >= 4
        });
        check(&mut mover, "RPUSH queue a b", "(integer) 2");
        assert_eq!(first.receive().to_string(), "1) \"queue\"\n2) \"a\"");
        assert_eq!(second.receive().to_string(), "1) \"queue\"\n2) \"b\"");
        // Its time is up on another thread than that on which it began.
        first.send("BLPOP queue 3");
        while_moving(server, &[id], || assert_eq!(first.receive(), Value::NullArray));
        // Another reply that ends the wait arrives, too.
        first.send("BLPOP queue 0");
        blocked(&mut mover, "1");
        send_around(&mut mover, id);
        check(&mut mover, &format!("CLIENT UNBLOCK {id} ERROR"), "(integer) 1");
        assert!(first.receive().to_string().contains("UNBLOCKED"));
        blocked(&mut mover, "0");
        assert_eq!(mover.info("clients", "clients_in_timeout_table"), "0");
    });
}

#[test]
fn transactions_and_watched_keys_come_along() {
    on_each_driver(|server| {
        let (mut client, mut mover) = (server.client(), server.client());
        let id = client.id();
        let step = |client: &mut Client, mover: &mut Client, line: &str, expected: &str| {
            let before = moved(mover);
            for thread in 0..THREADS {
                if send_to(mover, id, thread) {
                    await_moves(mover, before + 1);
                    break;
                }
            }
            check(client, line, expected);
        };
        for (changed, expected) in [(false, "1) OK\n2) (integer) 6"), (true, "(nil)")] {
            step(&mut client, &mut mover, "SELECT 3", "OK");
            step(&mut client, &mut mover, "WATCH k", "OK");
            if changed {
                mover.call("SELECT 3");
                mover.call("SET k 1");
            }
            step(&mut client, &mut mover, "MULTI", "OK");
            step(&mut client, &mut mover, "SET k 5", "QUEUED");
            step(&mut client, &mut mover, "INCR k", "QUEUED");
            step(&mut client, &mut mover, "EXEC", expected);
        }
    });
}

#[test]
fn each_client_is_listed_once_and_found_to_be_killed() {
    on_each_driver(|server| {
        let mut clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
        let ids: Vec<i64> = clients.iter_mut().map(Client::id).collect();
        let mut asker = server.client();
        while_moving(server, &ids, || {
            for _ in 0..200 {
                let list = text(&asker.call("CLIENT LIST"));
                for id in &ids {
                    let count = list.lines().filter(|line| line.starts_with(&format!("id={id} "))).count();
                    assert_eq!(count, 1, "{id} of {list}");
                }
            }
            for id in &ids {
                check(&mut asker, &format!("CLIENT KILL ID {id}"), "(integer) 1");
            }
        });
        clients.iter_mut().for_each(Client::expect_end);
    });
}

#[test]
fn who_comes_to_a_thread_with_a_slow_script_can_end_it_and_is_not_asked_again() {
    for io in ["auto", "epoll"] {
        let server = Server::start(THREADS, io, &["--busy-reply-threshold", "0"]);
        let [mut mover, mut asker, mut witness, mut comer, mut caller] =
            std::array::from_fn(|_| server.client());
        place(&mut asker, &mut mover, 1);
        // Scripts without keys run on the first thread, if it is awake.
        for (client, thread) in [(&mut asker, 2), (&mut witness, 2), (&mut comer, 1), (&mut caller, 0)] {
            place(&mut mover, client, thread);
        }
        let (id, before) = (comer.id(), moved(&mut witness));
        caller.send("EVAL \"while true do end\" 0");
        eventually("it runs", || witness.info("memory", "number_of_cached_scripts") == "1");
        // The second thread answers this before its client leaves, the first one when its script has ended.
        asker.send("CLIENT LIST");
        let asked = |witness: &mut Client| text(&witness.call("INFO commandstats")).contains("client|list");
        eventually("the list is asked for", || asked(&mut witness));
        mover.send(&format!("DEBUG MOVE-CLIENT {id} 0"));
        await_moves(&mut witness, before + 1);
        check(&mut witness, "CONFIG SET busy-reply-threshold 1", "OK");
        check(&mut comer, "SCRIPT KILL", "OK");
        assert!(caller.receive().to_string().contains("Script killed"));
        let list = text(&asker.receive());
        let count = list.lines().filter(|line| line.starts_with(&format!("id={id} "))).count();
        assert_eq!(count, 1, "{list}");
        assert_eq!(text(&mover.receive()), "OK");
    }
}

#[test]
fn clients_that_die_on_the_way_are_gone() {
    on_each_driver(|server| {
        let mut pusher = server.client();
        for round in 0..60 {
            let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
            let ids: Vec<i64> = clients.iter_mut().map(Client::id).collect();
            while_moving(server, &ids, || {
                for (index, client) in clients.iter_mut().enumerate() {
                    match index % 4 {
                        0 => client.send("BLPOP nothing 0"),
                        1 => client.send_bytes(b"*2\r\n$3\r\nGE"),
                        2 => (0..200).for_each(|_| client.send("LRANGE list 0 -1")),
                        _ => _ = client.stream().shutdown(std::net::Shutdown::Write),
                    }
                }
                clients.clear();
            });
            if round == 0 {
                pusher.call("RPUSH list a b c d e");
            }
        }
        eventually("all are gone", || pusher.info("clients", "connected_clients") == "1");
        assert_eq!(pusher.info("clients", "blocked_clients"), "0");
    });
}

#[test]
fn who_does_not_read_stays_where_it_is() {
    on_each_driver(|server| {
        let (mut client, mut mover) = (server.client(), server.client());
        let id = client.id();
        mover.call(&format!("SET large {}", "x".repeat(1 << 20)));
        for _ in 0..30 {
            client.send("GET large");
        }
        let before = moved(&mut mover);
        send_around(&mut mover, id);
        // The client may pause for longer than a move may take.
        std::thread::sleep(Duration::from_millis(300));
        for _ in 0..30 {
            assert_eq!(text(&client.receive()).len(), 1 << 20);
        }
        assert!(moved(&mut mover) <= before + 1);
        check(&mut client, "PING", "PONG");
    });
}

#[test]
fn what_cannot_move_says_so() {
    let server = Server::start(THREADS, "auto", &[]);
    let (mut client, mut subscriber) = (server.client(), server.client());
    let id = subscriber.id();
    subscriber.call("SUBSCRIBE news");
    let error = "(error) ERR there is no such client, or it cannot move";
    (0..THREADS).for_each(|thread| check(&mut client, &format!("DEBUG MOVE-CLIENT {id} {thread}"), error));
    check(&mut client, "DEBUG MOVE-CLIENT 999 0", error);
    check(&mut client, "DEBUG MOVE-CLIENT 1 3", "(error) ERR there is no such thread");
}
