//! Tests the behaviour that is particular to connections whose bytes pass through a codec. The scenarios of
//! `driver.rs`, which also run through a codec, test the rest.

mod world;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use proactor::{CloseMode, Codec, Config, HANDSHAKE_BYTES_MAX};
use world::{Ending, PATIENCE, World, over_all_drivers_coded};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

#[test]
fn output_waits_for_the_handshake_and_then_goes_out() {
    over_all_drivers_coded(&Config::default(), |world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect_only();
        world.reply(conn, b"early");
        for _ in 0..5 {
            world.pump();
        }
        assert_eq!(world.driver.output_pending_bytes(conn), 5, "it is not sent before the handshake");
        world.shake_hands(&mut client);
        assert!(world.data.is_empty(), "a handshake is no data");
        assert_eq!(world.receive(&mut client, 5), b"early");
    });
}

#[test]
fn a_step_of_a_handshake_is_answered_although_there_is_nothing_to_report() {
    for poll_us in [0, 1_000_000] {
        let config = Config { poll_us, ..Config::default() };
        over_all_drivers_coded(&config, |world| {
            let (mut client, _) = world.connect_only();
            world.until("the handshake", |world| {
                client.receive(usize::MAX);
                let speaks = client.codec.as_ref().is_some_and(Codec::has_words);
                if client.flush() && speaks && !client.is_ready() {
                    // A turn that waited for more data would exceed the test's patience.
                    world.turn(PATIENCE);
                }
                client.is_ready()
            });
        });
    }
}

#[test]
fn frames_that_come_byte_by_byte_are_put_together() {
    over_all_drivers_coded(&Config::default(), |world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        let mut wire = Vec::new();
        let codec = client.codec.as_mut().expect("it is coded");
        codec.send(b"hello ", &mut wire);
        codec.send(b"world", &mut wire);
        for (index, byte) in wire.iter().enumerate() {
            world.send_raw(&mut client, &[*byte]);
            for _ in 0..3 {
                world.pump();
            }
            // Six bytes and their head; the second frame ends the wire.
            assert!(index >= 8 || world.data.is_empty(), "half a frame is no data");
        }
        world.until("both frames", |world| world.input(conn) == b"hello world");
        assert_eq!(world.data, [conn, conn]);
    });
}

#[test]
fn a_goodbye_ends_a_connection_and_an_end_without_one_breaks_it() {
    over_all_drivers_coded(&Config::default(), |world| {
        world.is_echo = false;
        let (mut polite, conn) = world.connect();
        world.send(&mut polite, b"last words");
        let mut goodbye = Vec::new();
        polite.codec.as_mut().expect("it is coded").finish(&mut goodbye);
        world.send_raw(&mut polite, &goodbye);
        world.until("the goodbye", |world| !world.closed.is_empty());
        assert_eq!(world.closed, [(conn, None)], "its socket is still open");
        assert_eq!(world.input(conn), b"last words");
        world.reply(conn, b"answer");
        world.driver.close(conn, CloseMode::AfterFlush);
        assert_eq!(world.receive(&mut polite, 6), b"answer");
        assert_eq!(world.receive_end(&mut polite), Ending::Finished);
        assert!(polite.is_told, "the server says goodbye as well");
        let (mut rude, conn) = world.connect();
        world.send(&mut rude, b"last words");
        rude.stop();
        world.until("the end", |world| world.closed.len() == 2);
        assert_eq!(world.closed[1], (conn, Some(ErrorKind::UnexpectedEof)));
        assert_eq!(world.input(conn), b"last words");
        world.driver.close(conn, CloseMode::Now);
    });
}

#[test]
fn a_peer_that_breaks_the_rules_is_told_so_even_if_the_server_closes_at_once() {
    over_all_drivers_coded(&Config::default(), |world| {
        world.is_echo = false;
        for is_ready in [false, true] {
            let (mut client, conn) = if is_ready { world.connect() } else { world.connect_only() };
            world.reply(conn, b"not for those");
            let before = world.closed.len();
            world.send_raw(&mut client, &[9, 1, 0, 7]);
            world.until("the end", |world| world.closed.len() > before);
            assert_eq!(world.closed[before], (conn, Some(ErrorKind::InvalidData)));
            world.driver.close(conn, CloseMode::Now);
            assert!(world.driver.output_mut(conn).is_none(), "the name stops working at once");
            world.receive_end(&mut client);
            assert!(client.codec.as_ref().expect("it is coded").has_heard_alert);
            for _ in 0..3 {
                world.pump();
            }
            assert_eq!(world.closed.len(), before + 1, "reported once");
        }
    });
}

#[test]
fn a_handshake_has_bounds_in_bytes() {
    over_all_drivers_coded(&Config::default(), |world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect_only();
        // A frame that never ends, again and again.
        let junk = vec![0xff; 2 * HANDSHAKE_BYTES_MAX];
        let mut sent = 0;
        world.until("the end", |world| {
            sent += client.send_raw(&junk[sent..]);
            !world.closed.is_empty()
        });
        assert_eq!(world.closed, [(conn, Some(ErrorKind::InvalidData))]);
        world.driver.close(conn, CloseMode::Now);
    });
}

#[test]
fn a_close_before_or_in_a_handshake_waits_for_it_but_not_for_ever() {
    // One client needs less than this, even on a busy machine; the other takes all of it.
    let config = Config { close_timeout: Duration::from_secs(3), ..Config::default() };
    over_all_drivers_coded(&config, |world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect_only();
        world.reply(conn, b"-ERR too many\r\n");
        world.driver.close(conn, CloseMode::AfterFlush);
        world.until("the end", |_| {
            client.receive(usize::MAX);
            client.flush();
            client.ending.is_some()
        });
        assert_eq!((&client.received[..], client.is_told), (&b"-ERR too many\r\n"[..], true));
        let (mut silent, conn) = world.connect_only();
        world.reply(conn, b"-ERR too many\r\n");
        world.driver.close(conn, CloseMode::AfterFlush);
        world.receive_end(&mut silent);
        assert!(silent.received.is_empty());
        let (quitter, conn) = world.connect_only();
        let before = world.closed.len();
        drop(quitter);
        world.until("the end", |world| world.closed.len() > before);
        assert_eq!(world.closed[before].0, conn);
        assert_eq!(world.closed[before].1, None, "it has said nothing");
        world.driver.close(conn, CloseMode::Now);
    });
}

#[test]
fn who_leaves_a_handshake_takes_no_place_until_the_timeout() {
    let config = Config { close_timeout: Duration::from_secs(3600), ..Config::default() };
    over_all_drivers_coded(&config, |world| {
        world.is_echo = false;
        let (quitter, conn) = world.connect_only();
        drop(quitter);
        world.until("the end", |world| !world.closed.is_empty());
        world.driver.close(conn, CloseMode::AfterFlush);
        world.until("its codec is gone", |world| world.codec_count() == 0);
    });
}

#[test]
fn a_slow_reader_has_shared_bytes_waiting_and_few_of_its_own() {
    over_all_drivers_coded(&Config::default(), |world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        let value = Arc::new(pattern(12_000_000));
        let output = world.driver.output_mut(conn).expect("it is open");
        output.extend_from_slice(b"[");
        output.push_shared(Arc::clone(&value));
        output.extend_from_slice(b"]");
        for _ in 0..20 {
            world.pump();
        }
        let usage = world.driver.usage(conn);
        assert!(usage.output_bytes > 0, "it does not read");
        assert_eq!(usage.output_bytes, world.driver.output_pending_bytes(conn));
        assert_eq!(Arc::strong_count(&value), 2, "the rest of the value is not copied");
        let own_bytes = usage.output_capacity_bytes - value.len();
        assert!(own_bytes < 3 << 20, "{own_bytes} bytes are encoded");
        let whole = [b"[", &value[..], b"]"].concat();
        world.until("the slow reader", |_| {
            client.receive(100_000);
            client.received.len() == whole.len()
        });
        assert!(client.received == whole);
        world.until("the last completion", |world| world.driver.output_pending_bytes(conn) == 0);
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

#[test]
fn the_goodbye_follows_output_that_just_fills_what_may_be_under_way() {
    over_all_drivers_coded(&Config::default(), |world: &mut World| {
        world.is_echo = false;
        for len in [1 << 20, (1 << 20) - 64 * 3, (1 << 19), 32 * 16 * 1024 - 1] {
            let (mut client, conn) = world.connect();
            let sent = pattern(len);
            world.reply(conn, &sent);
            world.pump();
            world.driver.close(conn, CloseMode::AfterFlush);
            assert!(world.receive(&mut client, len) == sent);
            assert_eq!((world.receive_end(&mut client), client.is_told), (Ending::Finished, true));
        }
    });
}
