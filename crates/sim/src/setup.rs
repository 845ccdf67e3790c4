//! What kind of world a seed makes: threads, shards, how they are entered, how unkind network and scheduler are.

use effectlog::Tape;
use proactor::{Entropy, SimConfig};

/// How commands come to their shards, as the server's settings say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// `--shard_entry=roam`
    Roam,
    /// `--shard_entry=home --singlehop_blocking=true`
    HomeOneHop,
    /// `--shard_entry=home --singlehop_blocking=false`
    HomeTwoHops,
}

/// All of them, for tests that go through each.
pub const ENTRIES: [Entry; 3] = [Entry::Roam, Entry::HomeOneHop, Entry::HomeTwoHops];

/// The most events for which a thread is off its core: what others do in many turns.
pub const OFF_CORE_EVENTS_MAX: u64 = 3_000;

/// A kind of world.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Threads of the server.
    pub threads: u64,
    /// Shards of the store.
    pub shards: u64,
    /// How shards are entered.
    pub entry: Entry,
    /// One in so many places interrupts a thread; 0 is none.
    pub interrupt_one_in: u64,
    /// The most events that an interrupted thread sits out.
    pub stall_events_max: u64,
    /// One in so many interruptions takes the thread off its core, for up to [`OFF_CORE_EVENTS_MAX`] events, as other
    /// processes do that want it; 0 is none.
    pub off_core_one_in: u64,
    /// The clock may move on while an interrupted thread is stalled.
    pub stalls_take_time: bool,
    /// The network.
    pub net: SimConfig,
    /// After how many runs a script is trusted to keep to its declared keys.
    pub script_trusted_after: u64,
    /// Snapshots are saved in Darter's own format, in several files.
    pub has_own_format: bool,
    /// Where its threads record what they change.
    pub tape: Option<Tape>,
}

impl Setup {
    /// Any of all.
    pub fn any(entropy: &mut Entropy) -> Setup {
        let mut pick = |choices: &[u64]| choices[entropy.below(choices.len() as u64) as usize];
        Setup {
            threads: pick(&[1, 2, 2, 3, 3, 4]),
            shards: pick(&[1, 2, 3, 5, 8]),
            entry: ENTRIES[pick(&[0, 0, 1, 2]) as usize],
            interrupt_one_in: pick(&[0, 2, 3, 10, 50]),
            stall_events_max: pick(&[1, 4, 30, 300]),
            off_core_one_in: pick(&[0, 0, 20, 200]),
            stalls_take_time: pick(&[0, 1]) == 1,
            net: SimConfig {
                latency_ns_max: pick(&[1, 5_000, 100_000, 3_000_000]),
                window_bytes: pick(&[64, 1_000, 64 * 1024]) as usize,
                cut_one_in: 0,
            },
            script_trusted_after: pick(&[0, 3, 1_000]),
            has_own_format: false,
            tape: None,
        }
    }

    /// As many as a test wants of both.
    pub fn with(self, threads: u64, shards: u64, entry: Entry) -> Setup {
        Setup { threads, shards, entry, ..self }
    }

    /// The server's command line.
    pub(crate) fn args(&self) -> Vec<String> {
        let (entry, is_single_hop) = match self.entry {
            Entry::Roam => ("roam", true),
            Entry::HomeOneHop => ("home", true),
            Entry::HomeTwoHops => ("home", false),
        };
        vec![
            "--protected-mode=no".to_owned(),
            "--databases=16".to_owned(),
            "--save=".to_owned(),
            "--enable-debug-command=yes".to_owned(),
            format!("--snapshot_format={}", if self.has_own_format { "darter" } else { "rdb" }),
            format!("--proactor_threads={}", self.threads),
            format!("--num_shards={}", self.shards),
            format!("--shard_entry={entry}"),
            format!("--singlehop_blocking={is_single_hop}"),
            format!("--script_trusted_after={}", self.script_trusted_after),
        ]
    }
}
