//! Takes jobs from a queue and ends their leases, so that callgrind can count what a lease costs, or a command on
//! the queue's list.
//!
//! ```text
//! cargo build --release -p jobs --example lease
//! valgrind --tool=callgrind target/release/examples/lease lease 4000
//! ```
//!
//! Arguments: `lease`, or `take` to end no lease, or `RPOP`, `BRPOP`, `LMOVE` or `LPUSH` to do that instead; then
//! with how many of the queue's 8,000 jobs. Jobs are taken and ended 16 at a time. To get the cost of one job,
//! divide the difference between two runs by the difference of their counts. The protocol is not included.

use engine::Local;
use resp::Proto;

const JOBS: usize = 8000;
const AT_A_TIME: usize = 16;

#[global_allocator]
static ALLOCATOR: heap::Allocator = heap::Allocator;

/// A job of 230 bytes as Sidekiq writes it.
fn job(number: u64) -> String {
    let (jid, name) =
        (u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_0c91) >> 32, "x".repeat(60));
    format!(
        r#"{{"class": "InvoiceWorker", "args": [{number}, "{name}"], "jid": "{jid:024x}", "retry": true, "queue": "default", "created_at": 1700000000.123, "enqueued_at": 1700000000.456}}"#
    )
}

fn main() {
    heap::own();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, count] = &args[..] else { panic!("lease|take|RPOP|BRPOP|LMOVE|LPUSH COUNT") };
    let mut local = Local::new(&[commands::FAMILIES, &[jobs::ENTRIES]].concat());
    for number in 0..JOBS {
        local.reply(Proto::Resp2, &[b"LPUSH", b"queue:default", job(number as u64).as_bytes()]);
    }
    let count: usize = count.parse().expect("a number");
    for _ in 0..count.min(JOBS) / AT_A_TIME {
        let element = job(0);
        let plain: &[&[u8]] = match &what[..] {
            "RPOP" => &[b"RPOP", b"queue:default"],
            "BRPOP" => &[b"BRPOP", b"queue:default", b"0"],
            "LMOVE" => &[b"LMOVE", b"queue:default", b"queue:default", b"RIGHT", b"LEFT"],
            "LPUSH" => &[b"LPUSH", b"queue:default", element.as_bytes()],
            _ => &[],
        };
        if !plain.is_empty() {
            (0..AT_A_TIME).for_each(|_| drop(local.reply(Proto::Resp2, plain)));
            continue;
        }
        let take: &[&[u8]] = &[b"JOB.TAKE", b"worker", b"LEASE", b"60000", b"FROM", b"queue:default"];
        let taken: Vec<Vec<u8>> = (0..AT_A_TIME).map(|_| local.reply(Proto::Resp2, take)).collect();
        if what == "take" {
            continue;
        }
        for reply in &taken {
            let at = reply.windows(5).position(|bytes| bytes == b"$24\r\n").expect("it has an id") + 5;
            let ended = local.reply(Proto::Resp2, &[b"JOB.DONE", b"queue:default", &reply[at..at + 24]]);
            assert_eq!(ended, b":1\r\n");
        }
    }
}
