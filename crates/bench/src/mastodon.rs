//! `mastodon`: the mix of requests that Mastodon makes.
//!
//! Seven of ten steps push or fetch a job in one of six queues. The others write home feeds (ZADD and ZREMRANGEBYRANK for
//! several followers in one pipeline), publish to a few subscribers, ask whether a channel has subscribers, and count
//! visitors. A job is fetched only if one was pushed, so no fetch waits.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::memmem;
use proactor::{Clock, Entropy};
use resp::Value;

use crate::line::{Line, lossy};
use crate::load::{Counted, Step, Workload};
use crate::number::grouped;
use crate::options::{Common, Crowd};
use crate::report::Report;
use crate::run::{Plan, Team, run};
use crate::target::Greeting;

/// Mastodon's queues with the weights that its Sidekiq is configured with.
const QUEUES: [(&str, u64); 6] =
    [("default", 8), ("push", 6), ("ingress", 4), ("mailers", 2), ("pull", 1), ("scheduler", 1)];
const KINDS: &[&str] = &["push", "fetch", "feed", "publish", "exists", "visitor", "message"];
const PUSH: usize = 0;
const FETCH: usize = 1;
const FEED: usize = 2;
const PUBLISH: usize = 3;
const EXISTS: usize = 4;
const VISITOR: usize = 5;
const MESSAGE: usize = 6;
/// The kinds that count as operations. Messages do not: the server sends them unasked.
const RATE: &[usize] = &[PUSH, FETCH, FEED, PUBLISH, EXISTS, VISITOR];

/// The text before the send time in a message.
const SENT: &str = r#""sent":"#;
/// Number of followers whose feeds one pipeline writes.
const FOLLOWERS: u64 = 10;
/// The rank, counted from the end, of the last entry that is removed from a feed.
const FEED_KEEPS: &str = "-401";
/// Number of accounts whose channel has a subscriber.
const SUBSCRIBED: u64 = 20;

/// Do what Mastodon does: jobs, home feeds, publishing.
#[derive(Debug, clap::Args)]
pub(crate) struct Mastodon {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    crowd: Crowd,
    /// Accounts, each with a feed and a channel.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(SUBSCRIBED..=1_000_000_000))]
    accounts: u64,
    /// Connections that subscribe to channels.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=1000))]
    subscribers: u32,
}

struct Mix {
    accounts: u64,
    knows_pfadd: bool,
    clock: Clock,
    /// Number of jobs in queues that no client has set out to fetch.
    queued: Arc<AtomicU64>,
    clients: Vec<Client>,
}

#[derive(Clone)]
struct Client {
    random: Entropy,
    left: u64,
    kind: usize,
    is_subscriber: bool,
}

impl Workload for Mix {
    fn step(&mut self, client: usize, now_ns: u64, requests: &mut Vec<u8>) -> Step {
        if self.clients[client].is_subscriber {
            return self.subscribe(client, now_ns, requests);
        }
        let Some(left) = self.clients[client].left.checked_sub(1) else { return Step::Done };
        self.clients[client].left = left;
        let kind = self.draw(client);
        let client = &mut self.clients[client];
        client.kind = kind;
        let account = client.random.below(self.accounts);
        let replies = match kind {
            PUSH => {
                let queue = QUEUES[weighted(&mut client.random)].0;
                let job = job(queue, client.random.next_u64(), self.clock.now_ms());
                resp::encode_request(&["sadd", "bench:queues", queue], requests);
                resp::encode_request(&["lpush", &queue_key(queue), &job], requests);
                2
            }
            FETCH => {
                resp::encode_request(&fetch(&mut client.random), requests);
                1
            }
            FEED => {
                let status = self.clock.now_us().to_string();
                for follower in 0..FOLLOWERS {
                    let feed = format!("bench:feed:home:{}", (account + follower) % self.accounts);
                    resp::encode_request(&["zadd", &feed, &status, &status], requests);
                    resp::encode_request(&["zremrangebyrank", &feed, "0", FEED_KEEPS], requests);
                }
                2 * FOLLOWERS as u32
            }
            PUBLISH => {
                let event =
                    format!(r#"{{"event":"update","payload":"{{\"content\":\"hello\"}}",{SENT}{now_ns}}}"#);
                resp::encode_request(&["publish", &channel(account), &event], requests);
                1
            }
            EXISTS => {
                resp::encode_request(&["exists", &format!("bench:subscribed:{account}")], requests);
                1
            }
            _ => {
                resp::encode_request(&["pfadd", "bench:visitors", &account.to_string()], requests);
                1
            }
        };
        Step::Sent { replies, since_ns: now_ns }
    }

    fn reply(&mut self, client: usize, index: u32, reply: &[u8], _now_ns: u64) -> Counted {
        let client = &mut self.clients[client];
        if client.is_subscriber {
            // Replies to SUBSCRIBE have no send time.
            return sent_ns(reply).map_or(Counted::No, |sent_ns| Counted::Since(MESSAGE, sent_ns));
        }
        if client.kind == PUSH && index == 1 {
            self.queued.fetch_add(1, Ordering::Relaxed);
        }
        Counted::As(client.kind)
    }
}

impl Mix {
    fn subscribe(&mut self, client: usize, now_ns: u64, requests: &mut Vec<u8>) -> Step {
        let client = &mut self.clients[client];
        client.left -= 1;
        if client.left == 0 {
            return Step::Listen;
        }
        let channels: Vec<String> = (0..SUBSCRIBED).map(channel).collect();
        let mut request = vec!["subscribe"];
        request.extend(channels.iter().map(String::as_str));
        resp::encode_request(&request, requests);
        Step::Sent { replies: SUBSCRIBED as u32, since_ns: now_ns }
    }

    /// The kind of the next step, drawn by frequency.
    fn draw(&mut self, client: usize) -> usize {
        match self.clients[client].random.below(100) {
            0..35 => PUSH,
            35..70 if take_one(&self.queued) => FETCH,
            35..70 => PUSH,
            70..84 => FEED,
            84..91 => PUBLISH,
            91..97 => EXISTS,
            _ if self.knows_pfadd => VISITOR,
            _ => EXISTS,
        }
    }
}

impl Mastodon {
    pub(crate) fn run(&self) -> io::Result<Report> {
        let target = self.common.target()?;
        let mut line = target.line(Greeting::Plain)?;
        self.clear(&mut line)?;
        let knows_pfadd = !matches!(line.call(&["PFADD", "bench:visitors"])?, Value::Error(text)
            if lossy(&text).contains("unknown command"));
        let plan = Plan {
            kinds: KINDS,
            rate: RATE,
            duration: self.crowd.duration(),
            ..self.common.plan(&target, "mastodon")
        };
        let outcome = run(&plan, self.teams(knows_pfadd))?;
        let title = format!("Mastodon's mixture: {} connections", grouped(self.crowd.connections().into()));
        let mut report = Report::new("mastodon", title, &plan, outcome);
        if !knows_pfadd {
            report.notes.push("the server does not know PFADD: EXISTS in its place".to_owned());
        }
        // If the server is gone, there is nothing to delete.
        let _ = self.clear(&mut line);
        Ok(report)
    }

    fn teams(&self, knows_pfadd: bool) -> Vec<Team<Mix>> {
        let queued = Arc::new(AtomicU64::new(0));
        let client = |number: u32| Client {
            random: Entropy::from_seed(self.common.seed + u64::from(number)),
            left: self.crowd.requests(),
            kind: PUSH,
            is_subscriber: false,
        };
        let mut teams: Vec<Team<Mix>> = Vec::new();
        for numbers in self.crowd.threads() {
            teams.push(Team {
                clients: vec![(Greeting::Plain, false); numbers.len()],
                workload: Mix {
                    accounts: self.accounts,
                    knows_pfadd,
                    clock: Clock::real(),
                    queued: queued.clone(),
                    clients: numbers.map(client).collect(),
                },
            });
        }
        if let Some(team) = teams.first_mut() {
            for _ in 0..self.subscribers {
                team.clients.push((Greeting::Plain, true));
                team.workload.clients.push(Client { left: 2, is_subscriber: true, ..client(0) });
            }
        }
        teams
    }

    fn clear(&self, line: &mut Line) -> io::Result<()> {
        for (queue, _) in QUEUES {
            line.demand(&["UNLINK", &queue_key(queue)])?;
        }
        for account in 0..self.accounts {
            line.demand(&["UNLINK", &format!("bench:feed:home:{account}")])?;
        }
        line.demand(&["UNLINK", "bench:queues", "bench:visitors"])
    }
}

fn queue_key(queue: &str) -> String {
    format!("queue:bench-{queue}")
}

fn channel(account: u64) -> String {
    format!("bench:timeline:{account}")
}

/// When a message was published.
fn sent_ns(message: &[u8]) -> Option<u64> {
    let number = &message[memmem::find(message, SENT.as_bytes())? + SENT.len()..];
    let length = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&number[..length]).ok()?.parse().ok()
}

fn job(queue: &str, number: u64, now_ms: u64) -> String {
    format!(
        r#"{{"retry":true,"queue":"{queue}","class":"ActivityPub::DeliveryWorker","args":["{{\"type\":\"Create\"}}",{},"https://example.org/inbox"],"jid":"{number:024x}","created_at":{now_ms},"enqueued_at":{now_ms}}}"#,
        number % 100_000
    )
}

/// A random queue, drawn by weight.
fn weighted(random: &mut Entropy) -> usize {
    let mut drawn = random.below(QUEUES.iter().map(|(_, weight)| weight).sum());
    for (index, (_, weight)) in QUEUES.iter().enumerate() {
        match drawn.checked_sub(*weight) {
            Some(rest) => drawn = rest,
            None => return index,
        }
    }
    0
}

/// BRPOP from all queues, starting with one drawn by weight.
fn fetch(random: &mut Entropy) -> Vec<String> {
    let first = weighted(random);
    let mut request = vec!["brpop".to_owned()];
    request.extend((0..QUEUES.len()).map(|offset| queue_key(QUEUES[(first + offset) % QUEUES.len()].0)));
    request.push("2".to_owned());
    request
}

fn take_one(queued: &AtomicU64) -> bool {
    queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_of_ten_steps_are_jobs_and_none_is_fetched_that_was_not_pushed() {
        let client = Client { random: Entropy::from_seed(1), left: 10_000, kind: PUSH, is_subscriber: false };
        let queued = Arc::new(AtomicU64::new(0));
        let mut mix =
            Mix { accounts: 100, knows_pfadd: true, clock: Clock::real(), queued, clients: vec![client] };
        let mut counts = [0u64; 7];
        let mut requests = Vec::new();
        while let Step::Sent { replies, .. } = mix.step(0, 0, &mut requests) {
            counts[mix.clients[0].kind] += 1;
            assert!(counts[FETCH] <= counts[PUSH]);
            for index in 0..replies {
                mix.reply(0, index, b":1\r\n", 0);
            }
            requests.clear();
        }
        let jobs = counts[PUSH] + counts[FETCH];
        assert!((6_700..7_300).contains(&jobs), "{counts:?}");
        assert!(counts[..6].iter().all(|count| *count > 100), "{counts:?}");
    }

    #[test]
    fn a_subscriber_listens_and_sees_how_old_messages_are() {
        let subscriber = Client { random: Entropy::from_seed(1), left: 2, kind: PUSH, is_subscriber: true };
        let publisher = Client { left: 1_000_000, is_subscriber: false, ..subscriber.clone() };
        let clients = vec![subscriber, publisher];
        let queued = Arc::new(AtomicU64::new(0));
        let mut mix = Mix { accounts: 100, knows_pfadd: true, clock: Clock::real(), queued, clients };
        let mut requests = Vec::new();
        assert_eq!(mix.step(0, 0, &mut requests), Step::Sent { replies: 20, since_ns: 0 });
        assert_eq!(mix.reply(0, 0, b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", 5), Counted::No);
        assert_eq!(mix.step(0, 5, &mut requests), Step::Listen);
        while mix.clients[1].kind != PUBLISH {
            requests.clear();
            mix.step(1, 123_456, &mut requests);
        }
        assert_eq!(mix.reply(0, 20, &requests, 200_000), Counted::Since(MESSAGE, 123_456));
    }

    #[test]
    fn queues_are_drawn_by_their_weights() {
        let mut random = Entropy::from_seed(1);
        let mut counts = [0u64; 6];
        (0..22_000).for_each(|_| counts[weighted(&mut random)] += 1);
        for (count, (queue, weight)) in counts.iter().zip(QUEUES) {
            let expected = weight * 1000;
            assert!(count.abs_diff(expected) < expected / 5, "{queue}: {count}, not {expected}");
        }
    }
}
