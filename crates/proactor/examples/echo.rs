//! A minimal server for measuring the loop: answers `+PONG` to every PING, inline or as a one-word command.
//!
//! `cargo run --release -p proactor --example echo -- PORT [epoll|uring|auto] [POLL_US]`, then
//! `redis-benchmark -p PORT -t ping_mbulk -n 1000000 -c 50 -P 1`.

use proactor::{CloseMode, Config, Driver, Event, Io, IoChoice, listen_tcp};

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

fn answer(io: &mut Io) {
    while io.input.as_slice().starts_with(PING) {
        io.input.consume(PING.len());
        io.output.extend_from_slice(b"+PONG\r\n");
    }
    // Anything else (redis-benchmark asks for CONFIG first) is an error, one per packet.
    if !io.input.is_empty() && !PING.starts_with(io.input.as_slice()) {
        io.input.consume(io.input.len());
        io.output.extend_from_slice(b"-ERR unknown command\r\n");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let io = match args.get(1).map(String::as_str) {
        Some("epoll") => IoChoice::Epoll,
        Some("uring") => IoChoice::Uring,
        _ => IoChoice::Auto,
    };
    let poll_us = args.get(2).map_or(Ok(30), |text| text.parse())?;
    let mut driver = Driver::open(&Config { io, poll_us, ..Config::default() })?;
    let listener = listen_tcp("127.0.0.1", args.first().map_or(Ok(7777), |text| text.parse())?, 511)?;
    println!("{} on {}", driver.name(), listener.local());
    driver.listen(listener)?;
    let mut events = Vec::new();
    loop {
        driver.turn(None, &mut events)?;
        for event in events.drain(..) {
            match event {
                Event::Accepted { socket, .. } => drop(driver.adopt(socket)),
                Event::Closed { conn, .. } => driver.close(conn, CloseMode::Now),
                Event::Data { conn } => {
                    if let Some(mut io) = driver.take_io(conn) {
                        answer(&mut io);
                        driver.put_io(conn, io);
                    }
                }
                Event::Detached { .. } | Event::Wake => {}
            }
        }
    }
}
