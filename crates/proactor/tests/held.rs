//! Output that waits for a slice: nothing leaves early, nothing is lost, and the order is kept.

mod world;

use std::time::{Duration, Instant};

use proactor::{CloseMode, Config, ConnId};
use world::{Client, World, over_all_drivers, over_all_drivers_with};

/// How long a failing test takes.
const LONG: Duration = Duration::from_secs(600);

impl World {
    /// Queues a reply that waits for `slice`.
    fn reply_held(&mut self, conn: ConnId, bytes: &[u8], slice: u64) {
        let output = self.driver.output_mut(conn).expect("the connection is open");
        let mark = output.mark();
        output.extend_from_slice(bytes);
        output.hold_from(mark, slice);
    }

    /// Runs turns, each of which may sleep for long, until output is held for `slice`.
    fn turn_until_held_for(&mut self, slice: u64) {
        let start = Instant::now();
        let mut events = Vec::new();
        while self.driver.held_for() != Some(slice) {
            self.driver.turn(Some(LONG), &mut events).expect("the driver works");
            assert!(start.elapsed() < LONG, "it slept");
        }
    }

    /// Runs a few turns, and receives the bytes that have arrived.
    fn look(&mut self, client: &mut Client) -> Vec<u8> {
        for _ in 0..10 {
            self.pump();
            client.receive(usize::MAX);
        }
        client.received.clone()
    }
}

#[test]
fn a_held_reply_and_those_behind_it_wait_and_count() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        world.reply(conn, b"a");
        world.reply_held(conn, b"bb", 7);
        world.reply(conn, b"ccc");
        world.reply_held(conn, b"dddd", 9);
        assert_eq!(world.look(&mut client), b"a");
        assert_eq!((world.driver.held_for(), world.driver.output_pending_bytes(conn)), (Some(7), 9));
        assert_eq!(world.driver.usage(conn).output_bytes, 9);
        world.driver.release(6);
        assert_eq!(world.look(&mut client), b"a");
        world.driver.release(8);
        assert_eq!(world.receive(&mut client, 6), b"abbccc");
        assert_eq!(world.look(&mut client), b"");
        assert_eq!((world.driver.held_for(), world.driver.output_pending_bytes(conn)), (Some(9), 4));
        assert!(world.driver.is_holding() && world.driver.losers().is_empty());
        world.driver.release(9);
        assert_eq!(world.receive(&mut client, 4), b"dddd");
        assert_eq!(world.driver.held_for(), None);
        world.reply_held(conn, b"e", 9);
        assert_eq!(world.receive(&mut client, 1), b"e", "what is released is not held");
    });
}

#[test]
fn what_is_lost_never_goes_whenever_it_came() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let (mut early, early_conn) = world.connect();
        let (mut late, late_conn) = world.connect();
        let (mut other, other_conn) = world.connect();
        world.reply_held(early_conn, b"lost", 7);
        assert_eq!(world.look(&mut early), b"");
        world.reply_held(late_conn, b"kept ", 5);
        world.reply_held(late_conn, b"lost", 6);
        world.driver.lose(6..=8);
        world.driver.release(20);
        world.reply_held(other_conn, b"kept", 9);
        assert_eq!(world.receive(&mut other, 4), b"kept");
        assert_eq!((world.look(&mut early), world.look(&mut late)), (b"".to_vec(), b"kept ".to_vec()));
        let mut losers = world.driver.losers();
        losers.sort_unstable_by_key(|conn| conn.to_bits());
        let mut expected = [early_conn, late_conn];
        expected.sort_unstable_by_key(|conn| conn.to_bits());
        assert_eq!(losers, expected);
    });
}

/// Held output must be reported before the thread sleeps: when there is some at first, and after a part was
/// sent.
#[test]
fn a_turn_that_finds_held_output_does_not_sleep() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        world.look(&mut client);
        world.reply_held(conn, b"one", 1);
        world.reply_held(conn, b"two", 2);
        world.turn_until_held_for(1);
        world.driver.release(1);
        world.turn_until_held_for(2);
        assert_eq!(world.receive(&mut client, 3), b"one");
    });
}

#[test]
fn a_turn_while_the_output_is_out_leaves_what_is_held() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        world.reply_held(conn, b"one ", 1);
        assert_eq!(world.look(&mut client), b"");
        let mut io = world.driver.take_io(conn).expect("it is open");
        let mark = io.output.mark();
        io.output.extend_from_slice(b"two ");
        io.output.hold_from(mark, 2);
        // As a script's flush does.
        world.reply_held(conn, b"three ", 3);
        assert_eq!(world.look(&mut client), b"");
        world.driver.put_io(conn, io);
        world.reply(conn, b"four");
        for (slice, expected) in [(1, "one "), (2, "two "), (3, "three four")] {
            assert_eq!(world.look(&mut client), b"", "before slice {slice}");
            world.driver.release(slice);
            assert_eq!(world.receive(&mut client, expected.len()), expected.as_bytes());
        }
    });
}

#[test]
fn a_close_waits_for_what_is_held_longer_than_for_a_peer() {
    let config = Config { close_timeout: Duration::from_millis(20), ..Config::default() };
    over_all_drivers_with(&config, |world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        world.reply_held(conn, b"+OK\r\n", 1);
        world.driver.close(conn, CloseMode::AfterFlush);
        let start_ns = world.driver.clock().monotonic_ns();
        world.until("three times its patience", |world| {
            client.receive(usize::MAX);
            assert_eq!((client.received.len(), client.ending), (0, None));
            world.driver.clock().monotonic_ns() - start_ns > 60_000_000
        });
        world.driver.release(1);
        assert_eq!(world.receive(&mut client, 5), b"+OK\r\n");
        // How it ends depends on whether this thread runs within the timeout.
        world.receive_end(&mut client);
    });
}

#[test]
fn what_is_held_is_never_sent_by_a_close_that_does_not_wait() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        world.reply_held(conn, b"never", 1);
        assert_eq!(world.look(&mut client), b"");
        world.driver.close(conn, CloseMode::Now);
        world.driver.release(1);
        world.receive_end(&mut client);
        assert!(client.received.is_empty());
    });
}

/// A client, the bytes that it has to receive, and for each byte the slice that has to be released first.
struct Account {
    client: Client,
    conn: ConnId,
    expected: Vec<u8>,
    /// Ends of replies and the slices they wait for.
    marks: Vec<(usize, u64)>,
    seen: usize,
}

impl Account {
    /// Number of bytes that may have been sent by now.
    fn free_bytes(&self, released: u64) -> usize {
        let mut free = 0;
        for &(end, slice) in &self.marks {
            if slice > released {
                break;
            }
            free = end;
        }
        free
    }

    fn check(&mut self, released: u64) {
        self.client.receive(usize::MAX);
        let (received, free) = (&self.client.received, self.free_bytes(released));
        assert!(received.len() <= free, "{} bytes came, {free} are released", received.len());
        assert!(received[self.seen..] == self.expected[self.seen..received.len()]);
        self.seen = received.len();
    }
}

#[test]
fn replies_held_at_random_marks_are_complete_and_in_order() {
    over_all_drivers(|world| {
        world.is_echo = false;
        let mut entropy = world.entropy();
        let mut below = |bound: u64| entropy.below(bound);
        let mut accounts: Vec<Account> = (0..8)
            .map(|_| {
                let (client, conn) = world.connect();
                Account { client, conn, expected: Vec::new(), marks: Vec::new(), seen: 0 }
            })
            .collect();
        let (mut current, mut released) = (1, 0);
        for _ in 0..400 {
            let account = &mut accounts[below(8) as usize];
            let length = if below(12) == 0 { below(60_000) } else { 1 + below(200) } as usize;
            let bytes: Vec<u8> = (0..length).map(|_| below(256) as u8).collect();
            account.expected.extend_from_slice(&bytes);
            // Reads of durable data wait for nothing, those of other shards for older slices.
            let slice = if below(3) == 0 { 0 } else { current - below(current.min(3)) };
            account.marks.push((account.expected.len(), slice));
            if slice == 0 {
                world.reply(account.conn, &bytes);
            } else {
                world.reply_held(account.conn, &bytes, slice);
            }
            current += below(2);
            if below(4) == 0 && released < current {
                released += 1 + below(current - released);
                world.driver.release(released);
            }
            if below(2) == 0 {
                world.pump();
                accounts.iter_mut().for_each(|account| account.check(released));
            }
        }
        world.driver.release(current);
        world.until("all replies", |_| {
            accounts.iter_mut().for_each(|account| account.check(current));
            accounts.iter().all(|account| account.seen == account.expected.len())
        });
        assert_eq!(world.driver.held_for(), None);
    });
}
