//! A minimal load generator: PINGs over many connections, with a fixed number in flight on each, for one
//! second.
//!
//! `cargo run --release -p proactor --example ping -- PORT CONNECTIONS IN_FLIGHT`; prints requests per
//! second.

use std::net::TcpStream;
use std::time::Duration;

use proactor::{Config, Driver, Event, Socket};

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const PONG_BYTES: usize = b"+PONG\r\n".len();
const RUN_NS: u64 = 1_000_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default| args.get(index).map_or(Ok(default), |text| text.parse());
    let (port, connections, in_flight): (usize, usize, usize) =
        (number(0, 7777)?, number(1, 50)?, number(2, 1)?);
    let mut driver = Driver::open(&Config::default())?;
    for _ in 0..connections {
        let stream = TcpStream::connect(("127.0.0.1", u16::try_from(port)?))?;
        let conn = driver.adopt(Socket::from_tcp(stream)?);
        if let Some(output) = driver.output_mut(conn) {
            output.extend_from_slice(&PING.repeat(in_flight));
        }
    }
    let mut events = Vec::new();
    let mut replies = 0;
    let start_ns = driver.clock().monotonic_ns();
    let run_ns = loop {
        driver.turn(Some(Duration::from_millis(100)), &mut events)?;
        for event in events.drain(..) {
            let Event::Data { conn } = event else { return Err("the server closed a connection".into()) };
            let Some(mut io) = driver.take_io(conn) else { continue };
            let count = io.input.len() / PONG_BYTES;
            io.input.consume(count * PONG_BYTES);
            replies += count;
            for _ in 0..count {
                io.output.extend_from_slice(PING);
            }
            driver.put_io(conn, io);
        }
        let run_ns = driver.clock().monotonic_ns() - start_ns;
        if run_ns >= RUN_NS {
            break run_ns;
        }
    };
    println!("{} {}", replies as u64 * RUN_NS / run_ns, replies);
    Ok(())
}
