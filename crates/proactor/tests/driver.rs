//! The behaviour of every driver, tested by the same scenarios.

mod world;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use proactor::{CloseMode, Config, Driver, Event, IoChoice, listen_unix};
use scratch::Scratch;
use world::{Client, Ending, World, over_all_drivers, over_all_drivers_with};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

#[test]
fn echoes() {
    over_all_drivers(|world| {
        let (mut client, _) = world.connect();
        for _ in 0..3 {
            world.send(&mut client, b"hello");
            assert_eq!(world.receive(&mut client, 5), b"hello");
        }
    });
}

#[test]
fn keeps_the_order_of_a_pipeline_larger_than_any_buffer() {
    over_all_drivers(|world| {
        let (mut client, _) = world.connect();
        let sent = pattern(3_000_000);
        world.send(&mut client, &sent);
        assert!(world.receive(&mut client, sent.len()) == sent);
    });
}

#[test]
fn input_left_over_is_kept_and_appended_to() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        for (index, byte) in b"byte by byte".chunks(1).enumerate() {
            world.send(&mut client, byte);
            world.until("one byte", |world| world.input_len(conn) == index + 1);
        }
        assert_eq!(world.input(conn), b"byte by byte");
        assert!(world.data.len() >= 12, "each byte was reported");
        let mut io = world.driver.take_io(conn).expect("it is open");
        io.input.consume(5);
        world.driver.put_io(conn, io);
        assert_eq!(world.input(conn), b"by byte");
    });
}

#[test]
fn input_and_output_survive_a_turn_while_they_are_taken_out() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        world.send(&mut client, b"one");
        world.until("input", |world| world.input(conn) == b"one");
        let mut io = world.driver.take_io(conn).expect("it is open");
        io.output.extend_from_slice(b"ONE");
        world.send(&mut client, b"!");
        let reported = world.data.len();
        world.until("more input", |world| world.data.len() > reported);
        world.driver.put_io(conn, io);
        assert_eq!(world.input(conn), b"one!");
        assert_eq!(world.receive(&mut client, 3), b"ONE");
    });
}

#[test]
fn ten_megabytes_reach_a_slow_reader() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        let sent = pattern(10_000_000);
        for piece in sent.chunks(100_000) {
            world.reply(conn, piece);
        }
        assert_eq!(world.driver.output_pending_bytes(conn), sent.len());
        for _ in 0..20 {
            world.pump();
        }
        let stuck = world.driver.output_pending_bytes(conn);
        assert!(stuck > 0 && stuck < sent.len(), "{stuck} bytes wait for a reader that does not read");
        world.until("the slow reader", |_| {
            client.receive(50_000);
            client.received.len() == sent.len()
        });
        assert!(client.received == sent);
        world.until("the last completion", |world| world.driver.output_pending_bytes(conn) == 0);
    });
}

#[test]
fn who_writes_ahead_of_a_slow_reader_hears_when_it_has_read() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        world.reply(conn, &pattern(10_000_000));
        for _ in 0..20 {
            world.pump();
        }
        let (stuck, wakes) = (world.driver.output_pending_bytes(conn), world.wakes);
        world.driver.await_sending(conn);
        world.pump();
        assert_eq!((world.wakes, world.driver.output_pending_bytes(conn)), (wakes, stuck), "nothing is read");
        world.until("more to be sent", |world| {
            client.receive(50_000);
            world.wakes > wakes
        });
        assert!(world.driver.output_pending_bytes(conn) < stuck);
        world.until("all", |world| {
            client.receive(50_000);
            world.driver.output_pending_bytes(conn) == 0
        });
        assert_eq!(world.wakes, wakes + 1, "once");
    });
}

#[test]
fn the_end_of_input_is_reported_once_after_all_data_and_replies_still_go_out() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        world.send(&mut client, b"last words");
        client.finish();
        world.until("the end", |world| !world.closed.is_empty());
        for _ in 0..5 {
            world.pump();
        }
        assert_eq!(world.closed, [(conn, None)]);
        assert_eq!(world.input(conn), b"last words");
        world.reply(conn, b"answer");
        world.driver.close(conn, CloseMode::AfterFlush);
        assert_eq!(world.receive(&mut client, 6), b"answer");
        assert_eq!(world.receive_end(&mut client), Ending::Finished);
    });
}

#[test]
fn a_reset_while_output_is_pending_is_reported_once() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let (client, conn) = world.connect();
        world.reply(conn, &pattern(10_000_000));
        world.pump();
        client.reset();
        world.until("the reset", |world| !world.closed.is_empty());
        for _ in 0..5 {
            world.pump();
        }
        assert_eq!(world.closed.len(), 1);
        // Whether the send or the receive sees the error is up to the kernel, which shows it once.
        assert_eq!(world.closed[0].0, conn);
        world.reply(conn, b"to nobody");
        world.pump();
        world.driver.close(conn, CloseMode::AfterFlush);
        world.pump();
        assert!(world.driver.take_io(conn).is_none());
    });
}

#[test]
fn closing_after_the_flush_sends_everything() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        let sent = pattern(5_000_000);
        world.reply(conn, &sent);
        world.driver.close(conn, CloseMode::AfterFlush);
        assert!(world.driver.take_io(conn).is_none(), "the name stops working at once");
        assert!(world.driver.output_mut(conn).is_none());
        // Input that the server will never read must not turn the close into a reset.
        client.send(b"ignored");
        assert!(world.receive(&mut client, sent.len()) == sent);
        assert_eq!(world.receive_end(&mut client), Ending::Finished);
        assert!(world.closed.is_empty(), "the server closed it itself");
    });
}

#[test]
fn a_peer_that_never_reads_holds_a_closing_connection_for_a_bounded_time() {
    let config = Config { close_timeout: Duration::from_millis(50), ..Config::default() };
    over_all_drivers_with(&config, |world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        world.reply(conn, &pattern(20_000_000));
        world.driver.close(conn, CloseMode::AfterFlush);
        for _ in 0..5 {
            world.pump();
        }
        world.until_slot_is_free(conn);
        assert!(client.received.is_empty());
        world.receive_end(&mut client);
        assert!(client.received.len() < 20_000_000);
    });
}

#[test]
fn closing_now_drops_the_output_and_a_reset_is_a_reset() {
    over_all_drivers(|world| {
        world.is_echo = false;
        for mode in [CloseMode::Now, CloseMode::Reset] {
            let (mut client, conn) = world.connect();
            world.reply(conn, b"never sent");
            world.driver.close(conn, mode);
            let ending = world.receive_end(&mut client);
            assert!(client.received.is_empty());
            if mode == CloseMode::Reset {
                assert_eq!(ending, Ending::Broken);
            }
        }
    });
}

#[test]
fn a_dead_name_is_never_mistaken_for_a_live_one() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let (client, dead) = world.connect();
        world.driver.close(dead, CloseMode::Now);
        drop(client);
        world.until_slot_is_free(dead);
        let live = *world.opened.last().expect("one was opened");
        assert_eq!(live.slot(), dead.slot());
        assert_ne!(live, dead);
        assert!(world.driver.take_io(dead).is_none());
        assert!(world.driver.output_mut(dead).is_none());
        assert_eq!(world.driver.output_pending_bytes(dead), 0);
        world.driver.close(dead, CloseMode::Now);
        assert!(world.driver.take_io(live).is_some());
    });
}

#[test]
fn a_paused_connection_takes_little_and_loses_nothing() {
    let config = Config { paused_input_bytes_max: 10_000, ..Config::default() };
    over_all_drivers_with(&config, |world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        world.driver.pause_reading(conn);
        let sent = pattern(4_000_000);
        let mut count = client.send(&sent);
        for _ in 0..20 {
            world.pump();
            count += client.send(&sent[count..]);
        }
        assert!(world.data.is_empty(), "a paused connection reports no data");
        assert!(world.input_len(conn) < 3_000_000, "{} bytes were taken", world.input_len(conn));
        world.driver.resume_reading(conn);
        world.until("the rest", |world| {
            count += client.send(&sent[count..]);
            world.input_len(conn) == sent.len()
        });
        assert!(world.input(conn) == sent);
        assert_eq!(world.data[0], conn);
    });
}

#[test]
fn input_that_came_during_a_pause_is_reported_after_it() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        world.driver.pause_reading(conn);
        world.send(&mut client, b"early");
        for _ in 0..20 {
            world.pump();
        }
        assert!(world.data.is_empty());
        world.driver.resume_reading(conn);
        world.until("the report", |world| !world.data.is_empty());
        assert_eq!(world.data, [conn]);
        assert_eq!(world.input(conn), b"early");
    });
}

#[test]
fn the_hang_up_of_a_paused_connection_is_noticed() {
    let config = Config { paused_input_bytes_max: 100, ..Config::default() };
    over_all_drivers_with(&config, |world| {
        world.is_echo = false;
        for len in [0, 10, 1_000] {
            let (mut client, conn) = world.connect();
            world.driver.pause_reading(conn);
            world.send(&mut client, &pattern(len));
            for _ in 0..5 {
                world.pump();
            }
            let before = world.closed.len();
            drop(client);
            world.until("the hang-up", |world| world.closed.len() > before);
            assert_eq!(world.closed[before].0, conn);
            world.driver.close(conn, CloseMode::Now);
        }
    });
}

#[test]
fn a_thousand_connections_are_served_fairly() {
    over_all_drivers(|world| {
        let mut clients: Vec<(Client, _)> = (0..1_000).map(|_| world.connect()).collect();
        for (client, _) in &mut clients {
            world.send(client, b"ping");
        }
        for (client, _) in &mut clients {
            assert_eq!(world.receive(client, 4), b"ping");
        }
        drop(clients);
        world.until("all to leave", |world| world.closed.len() == 1_000);
    });
}

#[test]
fn another_thread_wakes_a_sleeping_one_and_a_notice_is_never_lost() {
    over_all_drivers(|world| {
        let waker = world.waker();
        waker.wake();
        world.turn(world::PATIENCE);
        assert_eq!(world.wakes, 1, "a notice from before the turn ends it at once");
        let thread = std::thread::spawn(move || {
            for _ in 0..100 {
                waker.wake();
                std::thread::yield_now();
            }
        });
        while !thread.is_finished() || world.wakes < 2 {
            world.turn(Duration::from_millis(100));
        }
        thread.join().expect("waking does not panic");
    });
}

#[test]
fn a_turn_waits_as_long_as_it_is_told() {
    over_all_drivers(|world| {
        let before_ns = world.driver.clock().monotonic_ns();
        world.turn(Duration::from_millis(20));
        let waited_ms = (world.driver.clock().monotonic_ns() - before_ns) / 1_000_000;
        assert!(waited_ms >= 20, "{waited_ms} ms");
        for _ in 0..100 {
            world.turn(Duration::ZERO);
        }
    });
}

#[test]
fn a_unix_socket_is_served_like_any_other() {
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let Ok(mut driver) = Driver::open(&Config { io, ..Config::default() }) else { continue };
        let scratch = Scratch::new("driver");
        let path = scratch.folder().join("socket");
        driver.listen(listen_unix(&path, Some(0o700), 16).expect("the path is free")).expect("it is fresh");
        let mut client = UnixStream::connect(&path).expect("the backlog has room");
        client.write_all(b"hello").expect("the socket has room");
        let mut events = Vec::new();
        let conn = loop {
            driver.turn(Some(Duration::from_secs(5)), &mut events).expect("the driver works");
            if let Some(Event::Accepted { socket, .. }) = events.pop() {
                assert_eq!((socket.is_unix(), socket.peer()), (true, path.to_str().expect("ASCII")));
                break driver.adopt(socket);
            }
        };
        while !events.iter().any(|event| matches!(event, Event::Data { .. })) {
            driver.turn(Some(Duration::from_secs(5)), &mut events).expect("the driver works");
        }
        driver.output_mut(conn).expect("it is open").extend_from_slice(b"answer");
        driver.turn(Some(Duration::ZERO), &mut events).expect("the driver works");
        let mut answer = [0; 6];
        client.read_exact(&mut answer).expect("it was sent");
        assert_eq!(&answer, b"answer");
        // The end follows so closely that the kernel wakes the driver once for both.
        client.write_all(b"last words").expect("the socket has room");
        client.shutdown(std::net::Shutdown::Write).expect("it is connected");
        let (mut has_ended, before) = (false, Instant::now());
        while !has_ended && before.elapsed() < world::PATIENCE {
            driver.turn(Some(Duration::from_secs(1)), &mut events).expect("the driver works");
            has_ended = events.iter().any(|event| matches!(event, Event::Closed { .. }));
        }
        assert!(has_ended, "{io:?} does not see the end");
        drop(driver);
        assert!(!path.exists(), "the file goes with its listener");
    }
}

impl World {
    /// Connects new clients until one gets the slot that `dead` had, which it then keeps.
    fn until_slot_is_free(&mut self, dead: proactor::ConnId) {
        let mut kept = Vec::new();
        self.until("the slot", |world| {
            world.pump();
            let (client, conn) = world.connect();
            kept.push(client);
            conn.slot() == dead.slot()
        });
        // The clients stay connected so that the slots they took stay taken.
        std::mem::forget(kept);
    }
}
