//! The memory that the process takes from the system. Freed memory goes back, for values of any size, at once if
//! MEMORY PURGE asks for it; `maxmemory` also holds for the process with large values; and a request takes only the
//! memory of the bytes that have arrived.

use blackbox::{Client, Server, check, eventually};
use ds::random::Random;

const MIB: u64 = 1 << 20;
/// The bytes of each fill.
const FILL_BYTES: u64 = 48 * MIB;
/// The memory that may stay after a fill: spare slabs, the table of keys, and memory that belongs to no value.
const LEFT_BYTES: u64 = 6 * MIB;
/// Values of small, large and mapped blocks, and the sizes between.
const SIZES: [u64; 9] = [100, 1_000, 9_000, 20_000, 32_000, 40_000, 100_000, 700_000, 5_000_000];

fn fill(client: &mut Client, bytes: u64) {
    check(client, &format!("DEBUG POPULATE {} key {bytes}", (FILL_BYTES / bytes).max(1)), "OK");
}

#[test]
fn every_size_goes_back() {
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    let before = server.resident_bytes();
    for bytes in SIZES {
        fill(&mut client, bytes);
        assert!(server.resident_bytes() > before + FILL_BYTES / 2, "values of {bytes} bytes");
        check(&mut client, "FLUSHALL", "OK");
        eventually(&format!("the memory of values of {bytes} bytes"), || {
            server.resident_bytes() < before + LEFT_BYTES
        });
    }
}

#[test]
fn what_was_deleted_between_others_goes_back() {
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    for bytes in [20_000, 70_000, 300_000] {
        let count = FILL_BYTES / bytes;
        fill(&mut client, bytes);
        let full = server.resident_bytes();
        for number in (0..count).filter(|number| number % 4 > 0) {
            check(&mut client, &format!("DEL key:{number}"), "(integer) 1");
        }
        eventually(&format!("three quarters of the memory of values of {bytes} bytes"), || {
            server.resident_bytes() + FILL_BYTES * 5 / 8 < full
        });
        check(&mut client, "FLUSHALL", "OK");
    }
}

#[test]
fn memory_purge_gives_back_at_once() {
    let server = Server::start(1, "auto", &[]);
    let mut client = server.client();
    for bytes in SIZES {
        fill(&mut client, bytes);
        let full = server.resident_bytes();
        check(&mut client, "FLUSHALL", "OK");
        check(&mut client, "MEMORY PURGE", "OK");
        let left = server.resident_bytes();
        assert!(left + FILL_BYTES / 8 * 7 < full, "values of {bytes} bytes: {full}, then {left}");
    }
}

#[test]
fn maxmemory_holds_for_the_process_with_large_values() {
    const LIMIT: u64 = 128 * MIB;
    let server = Server::start(2, "auto", &["--maxmemory-policy", "allkeys-lru"]);
    let mut client = server.client();
    let empty = server.resident_bytes();
    check(&mut client, &format!("CONFIG SET maxmemory {LIMIT}"), "OK");
    let value = vec![b'x'; 2 << 20];
    let mut random = Random::new(1);
    let mut largest = 0;
    // Sizes change from round to round, so that what one has freed is of little use to the next.
    for (round, (from, to)) in [(9_000, 33_000), (33_000, 500_000), (20_000, 60_000)].into_iter().enumerate()
    {
        let mut left = 3 * LIMIT;
        let mut key = 0;
        while left > 0 {
            let mut requests = Vec::new();
            let mut count = 0;
            while count < 100 && left > 0 && requests.len() < 4 << 20 {
                let bytes = from + random.below(to - from);
                left = left.saturating_sub(bytes + 50);
                key += 1;
                let name = format!("{round}:{key}");
                resp::encode_request(&[b"SET", name.as_bytes(), &value[..bytes as usize]], &mut requests);
                count += 1;
            }
            client.send_bytes(&requests);
            for _ in 0..count {
                assert_eq!(client.receive().to_string(), "OK");
            }
            let resident = server.resident_bytes() - empty;
            largest = largest.max(resident);
            assert!(resident < LIMIT / 100 * 115, "{resident} bytes with values of {from} to {to} bytes");
        }
    }
    assert!(largest > LIMIT / 2, "{largest}");
}

#[test]
fn a_large_request_takes_what_came_of_it() {
    const CAME: u64 = 10 * MIB;
    let server = Server::start(2, "auto", &[]);
    let mut client = server.client();
    let (resident, used) = (server.resident_bytes(), number(&mut client, "used_memory"));
    let clients: Vec<Client> = (0..10)
        .map(|_| {
            let mut client = server.client();
            client.send_bytes(b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$536870912\r\n");
            let piece = vec![b'x'; 64 * 1024];
            (0..CAME / piece.len() as u64).for_each(|_| client.send_bytes(&piece));
            client
        })
        .collect();
    let all = clients.len() as u64 * CAME;
    eventually("what was sent", || number(&mut client, "used_memory") - used >= all);
    let took = number(&mut client, "used_memory") - used;
    assert!(took <= all / 2 * 3, "{took} bytes are used for {all}");
    eventually("no more than what was sent is taken", || server.resident_bytes() - resident <= all / 4 * 5);
}

fn number(client: &mut Client, field: &str) -> u64 {
    client.info("memory", field).parse().expect("a number")
}
