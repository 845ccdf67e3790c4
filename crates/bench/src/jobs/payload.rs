//! A job in Sidekiq's format. Its arguments contain its number and the time at which it was due.

use std::io::Write;
use std::sync::LazyLock;

use clap::ValueEnum;
use memchr::memmem;
use proactor::Clock;

use crate::target::Greeting;

/// The Sidekiq version whose wire pattern is used: 6.4, 7.3 or 8.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sidekiq {
    #[value(name = "6")]
    Six,
    #[value(name = "7")]
    Seven,
    #[value(name = "8")]
    Eight,
}

impl Sidekiq {
    /// The first requests of its connections.
    pub(crate) fn greeting(self) -> Greeting {
        match self {
            Sidekiq::Six => Greeting::Plain,
            Sidekiq::Seven => Greeting::Named("redis-client(sidekiq_v7.3.2)", "0.22.2"),
            Sidekiq::Eight => Greeting::Named("redis-client(sidekiq_v8.1.7)", "0.30.0"),
        }
    }

    /// Most jobs in one LPUSH of a bulk push.
    pub(crate) fn slice_max(self) -> u64 {
        match self {
            Sidekiq::Six => u64::MAX,
            Sidekiq::Seven | Sidekiq::Eight => 1000,
        }
    }
}

/// The format of jobs.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    sidekiq: Sidekiq,
    bytes_min: usize,
}

/// The fields that a fetched job carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) id: u64,
    /// When it was due, in nanoseconds from the start.
    pub(crate) due_ns: u64,
}

const ARGS: &[u8] = br#""args":["#;
/// The words that pad longer jobs. Real text repeats words, and how much it does decides how well a server that compresses
/// performs.
const WORDS: [&[u8]; 16] = [
    b"account",
    b"report",
    b"welcome",
    b"invoice",
    b"daily",
    b"export",
    b"user",
    b"refund",
    b"status",
    b"weekly",
    b"image",
    b"follow",
    b"thumbnail",
    b"delivery",
    b"search",
    b"index",
];
/// The frame of the padding among the arguments.
const PADDING_FRAME_BYTES: usize = br#","""#.len();
/// Most bytes after the arguments.
const BACK_BYTES_MAX: usize = 128;

impl Form {
    /// Jobs of at least `bytes_min` bytes.
    pub(crate) fn new(sidekiq: Sidekiq, bytes_min: usize) -> Form {
        Form { sidekiq, bytes_min }
    }

    /// Appends a job for `queue`.
    pub(crate) fn write(&self, queue: &str, job: Job, clock: &Clock, out: &mut Vec<u8>) {
        let start = out.len();
        let now_us = clock.now_us();
        let (seconds, us) = (now_us / 1_000_000, now_us % 1_000_000);
        let Job { id, due_ns } = job;
        let (high, low) = (spread(id), spread(!id) as u32);
        // Writing to memory does not fail.
        let mut back = Vec::with_capacity(BACK_BYTES_MAX);
        let _ = write!(back, r#"],"jid":"{high:016x}{low:08x}","created_at":"#);
        let time = back.len();
        let _ = match self.sidekiq {
            Sidekiq::Six | Sidekiq::Seven => write!(back, "{seconds}.{us:06}"),
            Sidekiq::Eight => write!(back, "{}", now_us / 1000),
        };
        let time = time..back.len();
        back.extend_from_slice(br#","enqueued_at":"#);
        back.extend_from_within(time);
        back.push(b'}');
        out.extend_from_slice(br#"{"retry":true,"queue":""#);
        out.extend_from_slice(queue.as_bytes());
        let _ = write!(out, r#"","class":"LoadWorker","args":[{id},{due_ns}"#);
        let missing = self.bytes_min.saturating_sub(out.len() - start + back.len());
        if missing > 0 {
            out.extend_from_slice(br#",""#);
            let end = out.len() + missing.saturating_sub(PADDING_FRAME_BYTES);
            let mut bits = high;
            while out.len() < end {
                out.extend_from_slice(WORDS[bits as usize % WORDS.len()]);
                out.push(b' ');
                bits = bits.rotate_right(4);
            }
            out.truncate(end);
            out.push(b'"');
        }
        out.extend_from_slice(&back);
    }
}

/// A pseudo-random number, different for each `number` (the finaliser of splitmix64).
pub(crate) fn spread(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Finds the job in a reply to BRPOP; `None` if it is not one of ours.
pub(crate) fn read(reply: &[u8]) -> Option<Job> {
    static FINDER: LazyLock<memmem::Finder<'_>> = LazyLock::new(|| memmem::Finder::new(ARGS));
    let args = &reply[FINDER.find(reply)? + ARGS.len()..];
    let (id, rest) = number(args)?;
    let (due_ns, _) = number(rest.strip_prefix(b",")?)?;
    Some(Job { id, due_ns })
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = text[..length]
        .iter()
        .try_fold(0_u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    (length > 0).then(|| (number, &text[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(sidekiq: Sidekiq, bytes_min: usize, job: Job) -> String {
        let mut out = b"before".to_vec();
        Form::new(sidekiq, bytes_min).write("q0", job, &Clock::real(), &mut out);
        String::from_utf8(out).expect("JSON is text").split_off("before".len())
    }

    #[test]
    fn a_job_is_json_with_its_number_and_length() {
        for sidekiq in [Sidekiq::Six, Sidekiq::Seven, Sidekiq::Eight] {
            for bytes_min in [0, 200, 201, 5000] {
                let job = Job { id: 12_345, due_ns: 678 };
                let text = written(sidekiq, bytes_min, job);
                assert!(text.len() >= bytes_min && text.len() <= bytes_min.max(200), "{text}");
                let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
                assert_eq!(json["queue"], "q0");
                assert_eq!(json["jid"].as_str().map(str::len), Some(24));
                assert_eq!(json["created_at"].is_u64(), sidekiq == Sidekiq::Eight);
                let reply = format!("*2\r\n$8\r\nqueue:q0\r\n${}\r\n{text}\r\n", text.len());
                assert_eq!(read(reply.as_bytes()), Some(job));
            }
        }
    }

    #[test]
    fn what_is_no_job_of_ours() {
        for text in [
            "*-1\r\n",
            "_\r\n",
            r#"{"args":[]}"#,
            r#"{"args":["a"]}"#,
            r#"{"args":[1]}"#,
            r#""args":["#,
            r#""args":[18446744073709551616,1]"#,
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
