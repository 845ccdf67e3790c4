//! Random commands to Darter and to redis-server, every reply and in the end the data compared.
//!
//! The run is cut into episodes, each from an empty store and from a seed of its own. It lasts `DARTER_SECONDS`
//! (20 without it), and at least until every command of the table was answered without an error.
//! `DARTER_SEED=… DARTER_STEPS=…` play one episode again, of so many batches. What goes wrong is made as short as
//! possible and printed as a block for `tests/transcripts/`. What may differ is in `blackbox::KNOWN`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use blackbox::{Abilities, Answered, Batch, Generator, Mismatch, Pair, Server, oracle};
use command::Table;

/// How Darter is started.
const OPTIONS: &[&str] = &["--proactor_threads=2"];
/// Batches of an episode.
const STEPS: usize = 120;
/// How many ways to fail are looked for before the run ends.
const FAILURES_MAX: usize = 12;
/// How often a failing episode is played to shorten it.
const SHRINK_PLAYS_MAX: usize = 300;
/// How many times the wanted time the run may take to reach every command.
const PATIENCE: u32 = 6;

/// Commands that this server refuses always.
const ALWAYS_REFUSED: [(&str, &str); 1] = [("object|freq", "there are frequencies only under an LFU policy")];

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
    pair: Pair<'a>,
    abilities: Abilities,
    has_resp3: bool,
    answered: Answered,
    failures: BTreeMap<String, String>,
}

impl Run<'_> {
    fn episode(&mut self, seed: u64, steps: usize) {
        let mut generator = Generator::new(seed, self.pair.table, self.abilities);
        let mut batches: Vec<Batch> = (0..steps).map(|_| generator.batch()).collect();
        let resp3 = self.has_resp3 && seed % 2 == 1;
        match self.pair.play(resp3, &batches) {
            Ok(answered) => {
                for (command, count) in answered {
                    *self.answered.entry(command).or_default() += count;
                }
            }
            Err(mismatch) if self.failures.contains_key(&mismatch.command) => {}
            Err(mismatch) => {
                batches.truncate(mismatch.batches);
                println!("DARTER_SEED={seed}: {}: {}", mismatch.command, mismatch.text);
                let report = self.report(seed, steps, resp3, batches, mismatch.clone());
                println!("{report}");
                self.failures.insert(mismatch.command, report);
            }
        }
    }

    fn report(&self, seed: u64, steps: usize, resp3: bool, batches: Vec<Batch>, first: Mismatch) -> String {
        let batches = self.pair.shrink(resp3, batches, &first.command, SHRINK_PLAYS_MAX);
        let last = self.pair.play(resp3, &batches).err().unwrap_or(first);
        let block = self.pair.transcript(resp3, &batches).unwrap_or_else(|error| format!("{error}\n"));
        let pipelined =
            if batches.iter().any(|batch| batch.is_pipelined) { ", some in one piece" } else { "" };
        format!(
            "=== {}: DARTER_SEED={seed} DARTER_STEPS={steps}\n{}\n--- as redis answers{pipelined}:\n{block}",
            last.command, last.text
        )
    }

    /// The commands that nobody has seen to work yet.
    fn missing(&self) -> Vec<&str> {
        let names = self.pair.table.all().iter().filter(|command| command.entry.subcommands.is_empty());
        let names = names.map(|command| &command.full_name[..]);
        names
            .filter(|name| {
                !self.answered.contains_key(*name)
                    && ALWAYS_REFUSED.iter().all(|(refused, _)| refused != name)
            })
            .collect()
    }
}

#[test]
fn random_commands_are_answered_as_by_redis() {
    let Some(redis) = oracle() else { return };
    let darter = Server::darter(OPTIONS).unwrap_or_else(|error| panic!("{error}"));
    let knows = |command| darter.knows(command).expect("it answers");
    let table = Table::new(commands::FAMILIES);
    let mut run = Run {
        abilities: Abilities { transactions: knows("MULTI"), scripts: knows("EVAL") },
        has_resp3: knows("HELLO"),
        pair: Pair {
            has_digest: knows("DEBUG"),
            darter: RefCell::new(darter),
            options: OPTIONS,
            redis: &redis,
            table: &table,
        },
        answered: Answered::new(),
        failures: BTreeMap::new(),
    };
    if !run.has_resp3 {
        println!("SKIPPED: RESP3, for this server has no HELLO");
    }
    if !run.pair.has_digest {
        println!("SKIPPED: digests, for this server has no DEBUG");
    }
    let replayed = number("DARTER_STEPS");
    let seed = number("DARTER_SEED").unwrap_or_else(fresh_seed);
    println!("DARTER_SEED={seed}");
    let time = Duration::from_secs(number("DARTER_SECONDS").unwrap_or(20));
    let start = Instant::now();
    let mut episodes = 0;
    if let Some(steps) = replayed {
        run.episode(seed, steps as usize);
    } else {
        while run.failures.len() < FAILURES_MAX
            && (start.elapsed() < time || (!run.missing().is_empty() && start.elapsed() < time * PATIENCE))
        {
            run.episode(seed + episodes, STEPS);
            episodes += 1;
        }
    }
    println!("{episodes} episodes, {} replies without an error", run.answered.values().sum::<u64>());
    let failures: Vec<&str> = run.failures.values().map(String::as_str).collect();
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
    let missing = run.missing();
    assert!(replayed.is_some() || missing.is_empty(), "never exercised: {}", missing.join(", "));
}
