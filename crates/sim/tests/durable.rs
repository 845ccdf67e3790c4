//! Crashes of a server with a journal, at any moment: of threads, of the disk, of recovery, checkpoints and changes of segments.
//!
//! With `appendfsync always` the history of all transactions is strictly serializable over all crashes: what was
//! acknowledged or seen is there, what was not is there as a whole or not at all. With `everysec` and `no` a crash takes some of the last
//! transactions away, and none that comes before one that is there.

use command::mutant::{self, Mutant};
use proactor::{DiskFaults, Entropy, Fault};
use sim::transactions::Load;
use sim::{Client, Death, Journal, Setup, Sync, World, for_each_seed, request};

/// Lives of one server.
const LIVES: usize = 4;
/// Transactions of each.
const TRANSACTIONS: usize = 60;

#[derive(Default, Debug)]
struct Totals {
    power_failures: u64,
    deaths_in_start: u64,
    ends: u64,
    failures: u64,
    saves: u64,
    answered: u64,
    lost: usize,
}

impl Totals {
    /// Everything that is to happen has happened to some.
    fn assert(&self) {
        println!("{self:?}");
        let Totals { power_failures, deaths_in_start, ends, failures, saves, answered, lost: _ } = self;
        let all = [power_failures, deaths_in_start, ends, failures, saves, answered];
        assert!(std::env::var("DARTER_SEED").is_ok() || all.into_iter().all(|count| *count > 0));
    }
}

/// What may go wrong with the disk in this life.
fn spoil(world: &mut World) {
    if world.one_in(3) {
        let hang_ns_max = [10_000, 50_000_000][world.below(2)];
        world.disk.set_faults(DiskFaults {
            short_write_one_in: 3,
            hang_one_in: 10,
            hang_ns_max,
            ..DiskFaults::default()
        });
    }
    if world.one_in(4) {
        let faults = [Fault::WriteError, Fault::SyncError, Fault::NoRoom, Fault::Hang(3_000_000_000)];
        let (spared, fault) = (world.below(60) as u64, faults[world.below(4)]);
        world.disk.plan(spared, fault);
    }
    if world.one_in(2) {
        let spared = world.below(120) as u64;
        world.disk.fail_power_after(spared);
    }
}

/// One life of the server, to its death; when it had begun.
fn live(world: &mut World, load: &mut Load, totals: &mut Totals) {
    let life = world.life;
    let mut admin: Client = world.connect();
    let (crash_at, count) = (world.event + world.below(6_000) as u64, load.started + TRANSACTIONS);
    spoil(world);
    load.run(world, count, |world| {
        if world.one_in(500) && admin.unanswered() == 0 {
            let command = ["BGREWRITEAOF", "BGREWRITEAOF", "BGSAVE"][world.below(3)];
            admin.send(&request(command, [""; 0]));
        }
        world.pump(&mut admin);
        world.event >= crash_at
    });
    if world.life != life {
        totals.failures += 1;
        return;
    }
    let death = [Death::Power, Death::Power, Death::Process][world.below(3)];
    *(if death == Death::Power { &mut totals.power_failures } else { &mut totals.ends }) += 1;
    world.restart(death);
}

/// A world that has seen some lives, and what clients saw of them.
fn simulate(mut entropy: Entropy, sync: Sync, totals: &mut Totals) -> Result<(), String> {
    let mut setup = Setup::any(&mut entropy);
    setup.script_trusted_after = setup.script_trusted_after.max(1_000);
    setup.journal = Some(Journal::any(&mut entropy, sync));
    setup.has_own_format = entropy.one_in(2);
    setup.dies_in_start_one_in = 3;
    let mut world = World::new(entropy, &setup);
    let mut load = Load::new(&mut world);
    world.settle(|_| {});
    load.is_lossy = sync != Sync::Always;
    load.ends_at_reply_one_in = [0, 10, 100][world.below(3)];
    let mut begun = 0;
    for _ in 0..LIVES {
        live(&mut world, &mut load, totals);
        load.note_death(&mut world);
        let died = world.died_at;
        let survived = load.look(&mut world);
        if sync != Sync::Always {
            totals.lost += load.history.lose(begun, died, &survived)?.len();
        }
        begun = died + 1;
    }
    load.finish(&mut world);
    totals.saves += world.saves;
    let answered = load.history.transactions.iter().filter(|transaction| transaction.answered.is_some());
    totals.answered += answered.count() as u64;
    totals.deaths_in_start += world.deaths_in_start;
    load.history.check().map_err(|problem| format!("{setup:?}: {problem}"))
}

#[test]
fn what_was_acknowledged_or_seen_is_there() {
    let mut totals = Totals::default();
    for_each_seed("always", 25, |entropy| simulate(entropy, Sync::Always, &mut totals).unwrap());
    totals.assert();
}

#[test]
fn what_is_lost_is_what_came_last() {
    let mut totals = Totals::default();
    for_each_seed("everysec", 20, |entropy| {
        simulate(entropy, Sync::EverySecond, &mut totals).unwrap();
    });
    totals.assert();
    assert!(std::env::var("DARTER_SEED").is_ok() || totals.lost > 0, "a crash takes something");
    let mut totals = Totals::default();
    for_each_seed("no", 10, |entropy| simulate(entropy, Sync::Never, &mut totals).unwrap());
    totals.assert();
}

/// Each mistake shows.
#[test]
fn what_is_answered_too_soon_shows() {
    for mistake in [Mutant::ReplyAtOnce, Mutant::DelegatedAtOnce, Mutant::ReadAtOnce, Mutant::CommitsLate] {
        mutant::switch(Some(mistake));
        let found = (1..=400).find_map(|seed| {
            let problem = simulate(Entropy::from_seed(seed), Sync::Always, &mut Totals::default()).err()?;
            Some(format!("seed {seed}: {}", problem.split_once("}: ").map_or(&*problem, |(_, rest)| rest)))
        });
        mutant::switch(None);
        println!("{mistake:?}: {}", found.unwrap_or_else(|| panic!("{mistake:?} does not show")));
    }
}
