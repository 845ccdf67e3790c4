//! The memory that is exempt from the limit of memory, with the allocator in use. The counts are the
//! process', so this file has only this test.

use heap::{Exempt, Exemption, Gauge, as_fixed, at_once, counted_bytes, exempt_bytes};

#[global_allocator]
static HEAP: heap::Allocator = heap::Allocator;

/// Memory of the test itself.
const SLACK: u64 = 64 << 10;

#[test]
fn what_is_exempt_does_not_count_wherever_it_is_freed() {
    heap::own();
    let mut gauge = Gauge::default();
    let start = gauge.read();
    let mut is_near =
        |expected: u64| gauge.read().abs_diff(expected) < SLACK && counted_bytes().abs_diff(expected) < SLACK;
    for capacity in [100, 5000, 100_000, 600_000, 5 << 20] {
        let count = (8 << 20) / capacity;
        let block = || {
            let bytes = Vec::<u8>::with_capacity(capacity);
            let exemption = Exemption::of_block(Exempt::Stream, bytes.capacity());
            (bytes, exemption)
        };
        let blocks: Box<[_]> = (0..count).map(|_| block()).collect();
        let list = size_of_val(&*blocks) as u64;
        assert!(is_near(start + list), "{capacity}: no more counts than the list");
        assert!(exempt_bytes(Exempt::Stream) >= (capacity * count) as u64, "{capacity}");
        std::thread::spawn(move || drop(blocks)).join().expect("it only frees");
        assert!(is_near(start) && exempt_bytes(Exempt::Stream) == 0, "{capacity}: freed by another thread");
    }
    let mut exemption = Exemption::none(Exempt::News);
    let bytes = vec![1_u8; 3 << 20];
    assert!(is_near(start + (3 << 20)));
    exemption.resize(bytes.len());
    assert!(is_near(start) && exemption.bytes() == 3 << 20);
    drop((bytes, exemption));
    let fixed = as_fixed(|| vec![1_u8; 2 << 20]);
    assert!(is_near(start) && exempt_bytes(Exempt::Fixed).abs_diff(2 << 20) < SLACK);
    as_fixed(|| drop(fixed));
    assert!(is_near(start) && exempt_bytes(Exempt::Fixed) == 0);
    what_is_done_at_once_is_seen_at_once();
    assert!(is_near(start));
    let known = vec![1_u8; 2 << 20];
    heap::fix();
    assert!(is_near(0), "what there is when the server has started");
    drop(known);
}

fn what_is_done_at_once_is_seen_at_once() {
    let start = counted_bytes();
    let seen = || std::thread::spawn(counted_bytes).join().expect("it only looks");
    let is_near = |bytes: u64, expected: u64| bytes.abs_diff(expected) < SLACK;
    let kept = at_once(|| {
        let waiting = vec![1_u8; 5 << 20];
        let kept = vec![1_u8; 1 << 20];
        assert!(is_near(seen(), start) && is_near(counted_bytes(), start), "it is not done");
        let exemption = Exemption::of_block(Exempt::Stream, waiting.capacity());
        // This is one change, although `as_fixed` is already one.
        let fixed = as_fixed(|| vec![1_u8; 2 << 20]);
        assert!(is_near(seen(), start), "it is not done");
        (kept, waiting, exemption, fixed)
    });
    assert!(is_near(seen(), start + (1 << 20)) && is_near(counted_bytes(), start + (1 << 20)));
    let (kept, waiting, exemption, fixed) = kept;
    as_fixed(|| drop(fixed));
    drop((kept, waiting, exemption));
    assert!(is_near(seen(), start));
}
