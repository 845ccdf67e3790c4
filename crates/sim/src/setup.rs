//! The properties of a world, derived from its seed: threads, shards, how these are entered, and how hostile network
//! and scheduler are.

use effectlog::Tape;
use proactor::{Entropy, SimConfig};

/// How commands come to their shards, as the server's settings say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// `--shard-entry=roam`
    Roam,
    /// `--shard-entry=home --singlehop-blocking=true`
    HomeOneHop,
    /// `--shard-entry=home --singlehop-blocking=false`
    HomeTwoHops,
}

/// All of them, for tests that go through each.
pub const ENTRIES: [Entry; 3] = [Entry::Roam, Entry::HomeOneHop, Entry::HomeTwoHops];

/// The most events for which a thread is off its core: what others do in many turns.
pub const OFF_CORE_EVENTS_MAX: u64 = 3_000;

/// What a journal promises, as `appendfsync` says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// `always`
    Always,
    /// `everysec`
    EverySecond,
    /// `no`
    Never,
}

/// A journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Journal {
    /// When it is durable.
    pub sync: Sync,
    /// By how many percent of its base it grows until it gets a new one.
    pub rewrite_percentage: u64,
    /// The least bytes of both for that.
    pub rewrite_bytes_min: u64,
    /// Bytes that may wait to be written before commands that write wait, too.
    pub pending_bytes_max: u64,
}

impl Journal {
    /// Any of all with this promise.
    pub fn any(entropy: &mut Entropy, sync: Sync) -> Journal {
        let mut pick = |choices: &[u64]| choices[entropy.below(choices.len() as u64) as usize];
        Journal {
            sync,
            rewrite_percentage: pick(&[0, 20, 100]),
            rewrite_bytes_min: pick(&[100, 2_000, 20_000]),
            pending_bytes_max: pick(&[1 << 20, 64 << 20]),
        }
    }

    fn args(&self) -> [String; 5] {
        let sync = match self.sync {
            Sync::Always => "always",
            Sync::EverySecond => "everysec",
            Sync::Never => "no",
        };
        [
            "--appendonly=yes".to_owned(),
            format!("--appendfsync={sync}"),
            format!("--auto-aof-rewrite-percentage={}", self.rewrite_percentage),
            format!("--auto-aof-rewrite-min-size={}", self.rewrite_bytes_min),
            format!("--journal_pending_max={}", self.pending_bytes_max),
        ]
    }
}

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
    /// What is kept of that on the disk.
    pub journal: Option<Journal>,
    /// One in so many starts ends in a power failure; 0 is none.
    pub dies_in_start_one_in: u64,
    /// It has replicas, or a primary.
    pub replicates: bool,
    /// What stands behind all that on the command line.
    pub more: Vec<String>,
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
            journal: None,
            dies_in_start_one_in: 0,
            replicates: false,
            more: Vec::new(),
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
        let args = [
            "--protected-mode=no".to_owned(),
            "--databases=16".to_owned(),
            "--save=".to_owned(),
            "--enable-debug-command=yes".to_owned(),
            format!("--snapshot-format={}", if self.has_own_format { "darter" } else { "rdb" }),
            format!("--proactor-threads={}", self.threads),
            format!("--num-shards={}", self.shards),
            format!("--shard-entry={entry}"),
            format!("--singlehop-blocking={is_single_hop}"),
            format!("--script-trusted-after={}", self.script_trusted_after),
        ];
        let journal = self.journal.iter().flat_map(Journal::args);
        args.into_iter().chain(journal).chain(self.more.iter().cloned()).collect()
    }
}
