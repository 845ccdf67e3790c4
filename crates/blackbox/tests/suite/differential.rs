//! Sends random commands to Darter and to redis-server, and compares every reply and, at the end, the data.
//!
//! A run consists of episodes. Each starts with an empty store and has its own seed, which also determines Darter's options and the
//! protocol. A run has a number of episodes, or lasts `DARTER_SECONDS`, and at least until every command of the table was answered without
//! an error, and sent with each word in its declaration. `DARTER_SEED=… DARTER_STEPS=…` replay one episode with this many batches. A failing episode is
//! shortened and printed as a block for `tests/transcripts/`. Allowed differences are in `blackbox::KNOWN`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use blackbox::{
    Answered, Batch, COMPRESSES_HASHES, FUNCTION_REQUESTS, Generator, HASHES_COMPRESSED, Mismatch, Pair,
    Server, is_callable, is_elsewhere, is_known_to_oracle, is_word_elsewhere, oracle, words,
};

/// Darter's options, used in turn.
const MODES: [&[&str]; 6] = [
    &["--proactor-threads=2"],
    &["--proactor-threads=2", "--shard-entry=home", "--zset-compress-bytes-min=1"],
    &["--proactor-threads=2", "--shard-entry=home", "--singlehop-blocking=false", COMPRESSES_HASHES],
    &["--proactor-threads=8", "--io=epoll", "--zset-compress-bytes-min=1", COMPRESSES_HASHES],
    &["--proactor-threads=8", "--io=epoll", "--shard-entry=home"],
    &["--proactor-threads=8", "--io=epoll", "--shard-entry=home", "--singlehop-blocking=false"],
];
/// Batches per episode.
const STEPS: usize = 120;
/// Number of distinct failures after which the run ends.
const FAILURES_MAX: usize = 12;
/// How often a failing episode is replayed to shorten it.
const SHRINK_PLAYS_MAX: usize = 300;
/// Episodes of a run, however fast the machine is. A seed reaches every command in some eighty.
const EPISODES: u64 = 90;
/// Most episodes in order to reach every command.
const EPISODES_MAX: u64 = 1_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// A seed that differs from run to run.
fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    now.as_millis() as u64 % 1_000_000_000
}

struct Run<'a> {
    pairs: Vec<Pair<'a>>,
    answered: Answered,
    failures: BTreeMap<String, String>,
}

impl Run<'_> {
    fn episode(&mut self, seed: u64, steps: usize) {
        let modes = MODES.len() as u64;
        let pair = &self.pairs[(seed % modes) as usize];
        let mut generator = Generator::new(seed, pair.table);
        let mut batches: Vec<Batch> = (0..steps).map(|_| generator.batch()).collect();
        let resp3 = seed / modes % 2 == 1;
        match pair.play(resp3, &batches) {
            Ok(answered) => {
                for (command, count) in answered {
                    *self.answered.entry(command).or_default() += count;
                }
            }
            Err(mismatch) if self.failures.contains_key(&mismatch.command) => {}
            Err(mismatch) => {
                batches.truncate(mismatch.batches);
                println!("DARTER_SEED={seed}: {}: {}", mismatch.command, mismatch.text);
                let text = report(pair, resp3, batches, mismatch.clone());
                let mode = pair.options.join(" ");
                let report = format!("=== DARTER_SEED={seed} DARTER_STEPS={steps} ({mode}): {text}");
                println!("{report}");
                self.failures.insert(mismatch.command, report);
            }
        }
    }

    /// The commands that have not been answered without an error yet, and the words that have not been sent.
    fn missing(&self) -> Vec<String> {
        let wanted = self.pairs[0].table.all().iter().filter(|command| {
            is_callable(command) && is_known_to_oracle(command) && !is_elsewhere(&command.full_name)
        });
        let names = wanted.flat_map(|command| {
            let words =
                words(command).into_iter().filter(|word| !is_word_elsewhere(&command.full_name, word));
            let with_words = words.map(|word| format!("{} {word}", command.full_name));
            std::iter::once(command.full_name.clone()).chain(with_words)
        });
        let aside = FUNCTION_REQUESTS.iter().chain(&[HASHES_COMPRESSED]);
        let names = names.chain(aside.map(|name| (*name).to_owned()));
        names.filter(|name| !self.answered.contains_key(name)).collect()
    }
}

/// The failure, shortened as far as possible.
fn report(pair: &Pair, resp3: bool, batches: Vec<Batch>, first: Mismatch) -> String {
    let batches = pair.shrink(resp3, batches, &first.command, SHRINK_PLAYS_MAX);
    let last = pair.play(resp3, &batches).err().unwrap_or(first);
    let block = pair.transcript(resp3, &batches).unwrap_or_else(|error| format!("{error}\n"));
    let pipelined = if batches.iter().any(|batch| batch.is_pipelined) { ", some in one piece" } else { "" };
    format!("{}\n{}\n--- as redis answers{pipelined}:\n{block}", last.command, last.text)
}

#[test]
fn random_commands_are_answered_as_by_redis() {
    let Some(redis) = oracle() else { return };
    let table = server::table();
    let start = |options| Server::darter(options).unwrap_or_else(|error| panic!("{error}"));
    let pair = |options| Pair { darter: RefCell::new(start(options)), options, redis: &redis, table: &table };
    let pairs = MODES.into_iter().map(pair).collect();
    let mut run = Run { pairs, answered: Answered::new(), failures: BTreeMap::new() };
    let replayed = number("DARTER_STEPS");
    let seed = number("DARTER_SEED").unwrap_or_else(fresh_seed);
    println!("DARTER_SEED={seed}");
    let time = number("DARTER_SECONDS").map(Duration::from_secs);
    let start = Instant::now();
    let mut episodes = 0;
    if let Some(steps) = replayed {
        run.episode(seed, steps as usize);
    } else {
        let goes_on = |episodes| time.map_or(episodes < EPISODES, |time| start.elapsed() < time);
        while run.failures.len() < FAILURES_MAX
            && (goes_on(episodes) || (!run.missing().is_empty() && episodes < EPISODES_MAX))
        {
            run.episode(seed + episodes, STEPS);
            episodes += 1;
            if episodes == EPISODES {
                println!("not exercised so far: {}", run.missing().join(", "));
            }
        }
    }
    println!("{episodes} episodes, {} replies without an error", run.answered.values().sum::<u64>());
    println!("{} hashes compressed", run.answered.get(HASHES_COMPRESSED).copied().unwrap_or_default());
    let missing = run.missing();
    println!("not exercised: {}", missing.join(", "));
    let failures: Vec<&str> = run.failures.values().map(String::as_str).collect();
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
    assert!(replayed.is_some() || missing.is_empty(), "never exercised: {}", missing.join(", "));
}
