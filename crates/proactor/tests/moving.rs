//! Takes connections out of a driver and attaches them again, over all drivers.

mod world;

use proactor::{CloseMode, Config, ConnId};
use world::{World, over_all_drivers, over_all_drivers_coded};

/// Runs a scenario over all drivers, with and without a codec.
fn over_all(scenario: impl Fn(&mut World)) {
    over_all_drivers(&scenario);
    over_all_drivers_coded(&Config::default(), scenario);
}

/// Detaches the connection and attaches it again. Returns its new name.
fn take_around(world: &mut World, conn: ConnId) -> ConnId {
    world.driver.detach(conn);
    world.until("it to be detached", |world| world.detached.contains(&conn));
    let detached = world.driver.take(conn).expect("nothing of it is on its way");
    assert!(
        world.driver.take(conn).is_none() && world.driver.take_io(conn).is_none(),
        "its name works no more"
    );
    world.driver.attach(detached)
}

#[test]
fn what_is_sent_meanwhile_is_reported_afterwards_and_nothing_is_lost() {
    over_all(|world| {
        let (mut client, mut conn) = world.connect();
        for round in 0..20 {
            world.is_echo = false;
            world.send(&mut client, b"a half ");
            world.until("the half", |world| world.input_len(conn) == 7);
            world.driver.detach(conn);
            let reported = world.data.len();
            world.send(&mut client, format!("and the other {round}").as_bytes());
            conn = take_around(world, conn);
            assert_eq!(world.data.len(), reported, "nobody may look at it now");
            world.is_echo = true;
            let expected = format!("a half and the other {round}");
            assert_eq!(world.receive(&mut client, expected.len()), expected.as_bytes());
        }
        world.send(&mut client, b"bye");
        assert_eq!(world.receive(&mut client, 3), b"bye");
    });
}

#[test]
fn who_does_not_read_stays_until_it_has_read() {
    over_all(|world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        let sent = vec![7; 9_000_000];
        world.reply(conn, &sent);
        world.driver.detach(conn);
        (0..50).for_each(|_| world.pump());
        assert_eq!(world.detached, []);
        assert!(world.driver.take(conn).is_none());
        // It stays after all, and its input is reported again.
        world.driver.stop_detaching(conn);
        world.send(&mut client, b"still here");
        world.until("input", |world| world.input(conn) == b"still here");
        world.driver.detach(conn);
        assert!(world.receive(&mut client, sent.len()) == sent);
        world.until("it to be detached", |world| world.detached == [conn]);
        let detached = world.driver.take(conn).expect("nothing of it is on its way");
        let conn = world.driver.attach(detached);
        assert_eq!(world.input(conn), b"still here");
    });
}

#[test]
fn output_that_comes_before_it_is_taken_keeps_it_where_it_is() {
    over_all(|world| {
        let (mut client, conn) = world.connect();
        world.driver.detach(conn);
        world.until("it to be detached", |world| world.detached == [conn]);
        world.reply(conn, b"wait");
        assert!(world.driver.take(conn).is_none());
        world.driver.stop_detaching(conn);
        assert_eq!(world.receive(&mut client, 4), b"wait");
        world.send(&mut client, b"echo");
        assert_eq!(world.receive(&mut client, 4), b"echo");
    });
}

#[test]
fn a_paused_connection_stays_paused() {
    over_all(|world| {
        world.is_echo = false;
        let (mut client, conn) = world.connect();
        world.driver.pause_reading(conn);
        let conn = take_around(world, conn);
        world.send(&mut client, b"quiet");
        (0..20).for_each(|_| world.pump());
        assert_eq!(world.data, []);
        world.driver.resume_reading(conn);
        world.until("a report", |world| world.data == [conn]);
        assert_eq!(world.input(conn), b"quiet");
    });
}

#[test]
fn an_end_is_noticed_wherever_it_is() {
    over_all_drivers(|world| {
        world.is_echo = false;
        // While it is being detached, and when it has arrived.
        for is_early in [true, false] {
            let (mut client, conn) = world.connect();
            world.driver.detach(conn);
            let conn = if is_early {
                client.stop();
                (0..20).for_each(|_| world.pump());
                world.driver.stop_detaching(conn);
                conn
            } else {
                let conn = take_around(world, conn);
                client.stop();
                conn
            };
            world.until("the end", |world| world.closed.iter().any(|(closed, _)| *closed == conn));
            world.driver.close(conn, CloseMode::AfterFlush);
            world.receive_end(&mut client);
        }
        // If no driver takes the connection, it is closed.
        let (mut client, conn) = world.connect();
        world.driver.detach(conn);
        world.until("it to be detached", |world| world.detached.contains(&conn));
        drop(world.driver.take(conn));
        world.receive_end(&mut client);
    });
}
