//! The properties of a world, derived from its seed: threads, shards, how shards are entered, and how hostile network
//! and scheduler are.

use effectlog::Tape;
use proactor::{Entropy, SimConfig};

/// How commands reach their shards, in terms of the server's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// `--shard-entry=roam`
    Roam,
    /// `--shard-entry=home --singlehop-blocking=true`
    HomeOneHop,
    /// `--shard-entry=home --singlehop-blocking=false`
    HomeTwoHops,
}

/// All of them, for tests that try each.
pub const ENTRIES: [Entry; 3] = [Entry::Roam, Entry::HomeOneHop, Entry::HomeTwoHops];

/// Most events for which a thread is off its core: as many as others need for many turns.
pub const OFF_CORE_EVENTS_MAX: u64 = 3_000;

/// A journal's promise, in terms of `appendfsync`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// `always`
    Always,
    /// `everysec`
    EverySecond,
    /// `no`
    Never,
}

/// The settings of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Journal {
    /// When changes are durable.
    pub sync: Sync,
    /// By how many percent of its base it grows before it gets a new base.
    pub rewrite_percentage: u64,
    /// Minimum of base and journal, in bytes, for that.
    pub rewrite_bytes_min: u64,
    /// Most bytes that may wait to be written before commands that write have to wait.
    pub pending_bytes_max: u64,
}

impl Journal {
    /// A random journal with this promise.
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
    /// One in this many possible points interrupts a thread; 0: none.
    pub interrupt_one_in: u64,
    /// Most events for which an interrupted thread is stalled.
    pub stall_events_max: u64,
    /// One in this many interruptions takes the thread off its core for up to [`OFF_CORE_EVENTS_MAX`] events, as if
    /// other processes wanted it; 0: none.
    pub off_core_one_in: u64,
    /// Whether the clock may advance while an interrupted thread is stalled.
    pub stalls_take_time: bool,
    /// The network.
    pub net: SimConfig,
    /// After this many runs a script is trusted to keep to its declared keys.
    pub script_trusted_after: u64,
    /// Whether snapshots are saved in Darter's own format, in several files.
    pub has_own_format: bool,
    /// Where its threads record their changes.
    pub tape: Option<Tape>,
    /// The journal that it keeps of them on the disk, if any.
    pub journal: Option<Journal>,
    /// One in this many starts ends in a power failure; 0: none.
    pub dies_in_start_one_in: u64,
    /// Whether it has replicas or a primary.
    pub replicates: bool,
    /// More arguments at the end of the command line.
    pub more: Vec<String>,
}

impl Setup {
    /// A random setup.
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

    /// This setup with other numbers of threads and shards, and another way of entry.
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
