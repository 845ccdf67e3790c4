//! BullMQ's way of keeping jobs: every step is a script of many calls, with MessagePack arguments and jobs in JSON.
//!
//! A client adds a job with one script. With another it finishes its current job and takes the next one. That makes about
//! 40 calls per job. BullMQ's stream of events is a list here, so that all servers can run it.

use std::io;

use proactor::Clock;
use resp::Value;

use crate::line::{Line, lossy};
use crate::load::{Counted, Step, Workload};

const ADD: usize = 0;
const FINISH: usize = 1;
pub(super) const KINDS: &[&str] = &["add", "finish and take"];
pub(super) const RATE: &[usize] = &[FINISH];
/// Number of finished jobs that a queue keeps.
const KEPT_MAX: u32 = 1000;

/// The SHA-1 names of the two scripts.
#[derive(Clone, Debug)]
pub(super) struct Scripts {
    add: String,
    finish: String,
}

impl Scripts {
    pub(super) fn load(line: &mut Line) -> io::Result<Scripts> {
        let add = super::load(line, include_str!("add.lua"))?;
        Ok(Scripts { add, finish: super::load(line, include_str!("finish.lua"))? })
    }
}

/// One thread's clients.
pub(super) struct Bullmq {
    pub(super) scripts: Scripts,
    pub(super) clock: Clock,
    pub(super) data: String,
    pub(super) clients: Vec<Client>,
}

pub(super) struct Client {
    queue: Queue,
    token: String,
    /// The id of the job that it works on; empty if it has none.
    job: String,
    is_adding: bool,
    left: u64,
}

impl Client {
    pub(super) fn new(queue: Queue, number: u32, jobs: u64) -> Client {
        Client {
            queue,
            token: format!("token-{number:06}"),
            job: String::new(),
            is_adding: false,
            left: jobs,
        }
    }
}

impl Workload for Bullmq {
    fn step(&mut self, client: usize, now_ns: u64, requests: &mut Vec<u8>) -> Step {
        let client = &mut self.clients[client];
        client.is_adding = !client.is_adding;
        let keys = |names: &[&str]| {
            let mut keys = vec![names.len().to_string()];
            keys.extend(names.iter().map(|name| client.queue.key(name)));
            keys
        };
        let (name, keys, args) = if client.is_adding {
            let Some(left) = client.left.checked_sub(1) else { return Step::Done };
            client.left = left;
            let args =
                [packed_arguments(client.queue, self.clock.now_ms()), self.data.clone().into(), options()];
            (&self.scripts.add, keys(&["wait", "meta", "id", "events", "marker", "metrics"]), args.to_vec())
        } else {
            let names =
                ["wait", "active", "completed", "delayed", "stalled", "meta", "events", "marker", "metrics"];
            let time = self.clock.now_ms().to_string();
            let settings = packed_settings(client.queue, &client.token);
            let result = br#"{"status":"sent","took":12}"#.to_vec();
            let job = std::mem::take(&mut client.job);
            (&self.scripts.finish, keys(&names), vec![job.into(), time.into(), result, settings])
        };
        let mut request: Vec<Vec<u8>> = vec![b"EVALSHA".to_vec(), name.clone().into()];
        request.extend(keys.into_iter().map(Vec::from));
        request.extend(args);
        resp::encode_request(&request, requests);
        Step::Sent { replies: 1, since_ns: now_ns }
    }

    fn reply(&mut self, client: usize, _index: u32, reply: &[u8], _now_ns: u64) -> Counted {
        let client = &mut self.clients[client];
        if client.is_adding {
            return Counted::As(ADD);
        }
        if let Ok(Some((Value::Array(items), _))) = resp::decode(reply)
            && let Some(Value::Bulk(id)) = items.first()
        {
            client.job = lossy(id);
        }
        Counted::As(FINISH)
    }
}

/// A queue, identified by its number.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    pub(super) number: u32,
    /// Whether its keys have a hash tag and so are in one slot.
    pub(super) has_hash_tag: bool,
}

impl Queue {
    pub(super) fn key(self, name: &str) -> String {
        let number = self.number;
        if self.has_hash_tag {
            format!("bull:{{bench{number}}}:{name}")
        } else {
            format!("bull:bench{number}:{name}")
        }
    }
}

// MessagePack: arrays of up to 15 items, maps of up to 15 pairs, strings of up to 255 bytes, 32-bit integers, doubles.

fn packed_arguments(queue: Queue, now_ms: u64) -> Vec<u8> {
    let mut out = vec![0x93];
    pack_text(&queue.key(""), &mut out);
    pack_text("send_mail", &mut out);
    out.push(0xcb);
    out.extend_from_slice(&(now_ms as f64).to_be_bytes());
    out
}

fn options() -> Vec<u8> {
    let mut out = vec![0x83];
    for (name, value) in [("attempts", 3), ("delay", 0), ("removeOnComplete", KEPT_MAX)] {
        pack_text(name, &mut out);
        pack_integer(value, &mut out);
    }
    out
}

fn packed_settings(queue: Queue, token: &str) -> Vec<u8> {
    let mut out = vec![0x94];
    pack_text(&queue.key(""), &mut out);
    pack_text(token, &mut out);
    pack_integer(30_000, &mut out);
    pack_integer(KEPT_MAX, &mut out);
    out
}

fn pack_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0xd9, text.len() as u8]);
    out.extend_from_slice(text.as_bytes());
}

fn pack_integer(number: u32, out: &mut Vec<u8>) {
    out.push(0xce);
    out.extend_from_slice(&number.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_packed_as_messagepack_says() {
        assert_eq!(options()[..11], [0x83, 0xd9, 8, b'a', b't', b't', b'e', b'm', b'p', b't', b's']);
        assert_eq!(options()[11..16], [0xce, 0, 0, 0, 3]);
        let arguments = packed_arguments(Queue { number: 7, has_hash_tag: true }, 1);
        assert_eq!(arguments[0], 0x93);
        assert!(arguments.ends_with(&[0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn a_client_adds_then_finishes_what_it_took() {
        let scripts = Scripts { add: "a".repeat(40), finish: "f".repeat(40) };
        let clients = vec![Client::new(Queue { number: 0, has_hash_tag: true }, 1, 2)];
        let mut bullmq = Bullmq { scripts, clock: Clock::real(), data: "{}".to_owned(), clients };
        let mut sent = || {
            let mut requests = Vec::new();
            let step = bullmq.step(0, 0, &mut requests);
            let reply: &[u8] = b"*2\r\n$3\r\n123\r\n*0\r\n";
            if step != Step::Done {
                bullmq.reply(0, 0, reply, 0);
            }
            lossy(&requests)
        };
        assert!(sent().contains("aaaa"));
        let first = sent();
        assert!(first.contains("ffff") && !first.contains("$3\r\n123\r\n"), "{first}");
        assert!(sent().contains("aaaa"));
        assert!(sent().contains("$3\r\n123\r\n"), "it finishes the job that it took before");
        assert_eq!(sent(), "");
    }
}
