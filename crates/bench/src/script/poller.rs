//! Sidekiq's poller: a job is scheduled, a script takes it when it is due, and it is pushed to its queue.

use proactor::Clock;

use crate::load::{Counted, Step, Workload};

const SCHEDULE: usize = 0;
const SCRIPT: usize = 1;
const PUSH: usize = 2;
pub(super) const KINDS: &[&str] = &["schedule", "take what is due", "push"];
pub(super) const RATE: &[usize] = &[SCRIPT];

pub(super) const SET: &str = "bench:schedule";
pub(super) const QUEUE: &str = "queue:bench";

/// One thread's clients.
pub(super) struct Poller {
    pub(super) script: String,
    pub(super) clock: Clock,
    pub(super) data: String,
    pub(super) clients: Vec<Client>,
}

pub(super) struct Client {
    number: u32,
    left: u64,
    /// The current step.
    now: usize,
}

impl Client {
    pub(super) fn new(number: u32, jobs: u64) -> Client {
        Client { number, left: jobs, now: PUSH }
    }
}

impl Workload for Poller {
    fn step(&mut self, client: usize, now_ns: u64, requests: &mut Vec<u8>) -> Step {
        let client = &mut self.clients[client];
        client.now = (client.now + 1) % KINDS.len();
        let time = self.clock.now_us();
        let seconds = format!("{}.{:06}", time / 1_000_000, time % 1_000_000);
        if client.now == SCHEDULE {
            let Some(left) = client.left.checked_sub(1) else { return Step::Done };
            client.left = left;
        }
        let Client { number, left, .. } = client;
        let job = format!(r#"{{"queue":"bench","jid":"{number:08x}{left:016x}","args":[{}]}}"#, self.data);
        let replies = match client.now {
            SCHEDULE => {
                resp::encode_request(&["zadd", SET, &seconds, &job], requests);
                1
            }
            SCRIPT => {
                resp::encode_request(&["evalsha", &self.script, "1", SET, &seconds], requests);
                1
            }
            _ => {
                resp::encode_request(&["sadd", "bench:queues", "bench"], requests);
                resp::encode_request(&["lpush", QUEUE, &job], requests);
                resp::encode_request(&["brpop", QUEUE, "2"], requests);
                3
            }
        };
        Step::Sent { replies, since_ns: now_ns }
    }

    fn reply(&mut self, client: usize, _index: u32, _reply: &[u8], _now_ns: u64) -> Counted {
        Counted::As(self.clients[client].now)
    }
}
