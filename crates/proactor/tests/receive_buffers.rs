//! The buffers that a thread receives into do not count against `maxmemory`. The counts are the process', so
//! this file has only this test.

use heap::{Exempt, exempt_bytes};
use proactor::{Config, Driver, IoChoice, listen_tcp};

#[global_allocator]
static HEAP: heap::Allocator = heap::Allocator;

/// The memory that the kernel gets with the first listener.
const FIRST_BYTES: u64 = 8 * 16 * 1024;

#[test]
fn what_a_thread_receives_into_does_not_count() {
    heap::own();
    let mut driver = match Driver::open(&Config { io: IoChoice::Uring, ..Config::default() }) {
        Ok(driver) => driver,
        Err(error) => return println!("skipped: {error}"),
    };
    let before = exempt_bytes(Exempt::Fixed);
    driver.listen(listen_tcp("127.0.0.1", 0, 16).expect("some port is free")).expect("it can be watched");
    assert_eq!(exempt_bytes(Exempt::Fixed), before + FIRST_BYTES);
    drop(driver);
    assert_eq!(exempt_bytes(Exempt::Fixed), before);
}
