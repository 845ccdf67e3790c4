//! Crashes of a server with a journal, at any moment: of threads, of the disk, of recovery, checkpoints and changes of segments.
//!
//! With `appendfsync always` the history of all transactions is strictly serializable across crashes: what was acknowledged or seen is
//! kept, and other transactions are kept completely or not at all. With `everysec` and `no`, a crash removes some of the last
//! transactions, and none that comes before a surviving one.

use std::collections::BTreeMap;

use engine::mutant::{self, Mutant};
use proactor::{DiskFaults, Entropy, Fault};
use sim::history::Access;
use sim::transactions::Load;
use sim::{Client, Death, Journal, Setup, Sync, World, for_each_seed, request};

/// Lives of one server.
const LIVES: usize = 4;
/// Transactions per life, and the number of bursts they come in. The server may rest between bursts.
const TRANSACTIONS: usize = 60;
const BURSTS: usize = 3;
/// Writes so much that a slice takes several segments, or that writes have to wait for the disk.
const LARGE: &str = "return redis.call('SET', KEYS[1], string.rep('x', tonumber(ARGV[1])))";
/// Most that everysec may lose, also if syncs and writes take long; and how long they take then.
const EVERYSEC_NS_MAX: u64 = 2_000_000_000;
const SLOW_NS_MAX: u64 = 3_000_000_000;

#[derive(Default, Debug)]
struct Totals {
    power_failures: u64,
    deaths_in_start: u64,
    ends: u64,
    failures: u64,
    saves: u64,
    answered: u64,
    promises: u64,
    lost: usize,
    /// The longest time before a crash at which something lost was acknowledged.
    oldest_ms: u64,
}

impl Totals {
    /// Checks that everything that should be covered happened in some run.
    fn assert(&self) {
        println!("{self:?}");
        let Totals { power_failures, deaths_in_start, ends, failures, saves, answered, .. } = self;
        let all = [power_failures, deaths_in_start, ends, failures, saves, answered];
        assert!(sim::are_seeds_chosen() || all.into_iter().all(|count| *count > 0));
    }
}

/// Sets random faults of the disk for this life.
fn spoil(world: &mut World, is_steady: bool) {
    if is_steady {
        let (short_write_one_in, hang_one_in) = ([0, 3][world.below(2)], [0, 0, 3][world.below(3)]);
        let hang_ns_max = SLOW_NS_MAX;
        let faults = DiskFaults { short_write_one_in, hang_one_in, hang_ns_max, ..DiskFaults::default() };
        world.disk().set_faults(faults);
    } else if world.one_in(3) {
        let hang_ns_max = [10_000, 50_000_000][world.below(2)];
        let room_bytes = [u64::MAX, u64::MAX, 150_000, 400_000][world.below(4)];
        world.disk().set_faults(DiskFaults {
            short_write_one_in: 3,
            hang_one_in: 10,
            hang_ns_max,
            room_bytes,
            ..DiskFaults::default()
        });
    }
    if !is_steady && world.one_in(4) {
        let faults = [Fault::WriteError, Fault::SyncError, Fault::NoRoom, Fault::Hang(3_000_000_000)];
        let (spared, fault) = (world.below(60) as u64, faults[world.below(4)]);
        world.disk().plan(spared, fault);
    }
    if world.one_in(2) {
        let spared = world.below(120) as u64;
        world.disk().fail_power_after(spared);
    }
}

/// A client that administers the server, and reads its promises.
struct Admin {
    client: Client,
    /// Turns the journal off and on.
    switches: bool,
    /// When the open INFO request was sent.
    asked: Option<u64>,
    /// INFO has promised that replies before this event survive any crash.
    promised: u64,
}

impl Admin {
    fn act(&mut self, world: &mut World) {
        for reply in world.pump(&mut self.client) {
            let Some(asked) = self.asked.take() else { continue };
            if reply.to_string().contains("crash_now_loses:nothing that was acknowledged") {
                self.promised = asked;
            }
        }
        if self.client.unanswered() > 0 || !world.one_in(300) {
            return;
        }
        if world.one_in(4) {
            let bytes = [2_000, 60_000, 400_000][world.below(3)].to_string();
            let key = format!("large:{}", world.below(3));
            return self.client.send(&request("EVAL", [LARGE, "1", &key, &bytes]));
        }
        let plain = ["BGREWRITEAOF", "BGREWRITEAOF", "BGSAVE"][world.below(3)];
        let setting = ["appendonly", "appendonly", "appendonly", "appendfsync"][world.below(4)];
        let is_more = world.one_in(2);
        let value = match setting {
            "appendonly" => ["no", "yes"][usize::from(is_more)],
            _ => ["everysec", "always"][usize::from(is_more)],
        };
        match world.below(3) {
            0 if self.switches => self.client.send(&request("CONFIG", ["SET", setting, value])),
            1 if self.switches => {
                self.client.send(&request("INFO", ["persistence"]));
                self.asked = Some(world.event);
            }
            _ => self.client.send(&request(plain, [""; 0])),
        }
    }
}

/// Runs one life of the server, to its death. Returns the event up to which it has promised that nothing is lost.
fn live(world: &mut World, load: &mut Load, totals: &mut Totals, (switches, is_steady): (bool, bool)) -> u64 {
    let life = world.life;
    let mut admin = Admin { client: world.connect(), switches, asked: None, promised: 0 };
    let crash_at = world.event + world.below(8_000) as u64;
    spoil(world, is_steady);
    for _ in 0..BURSTS {
        let count = load.started + TRANSACTIONS / BURSTS;
        load.run(world, count, |world| {
            admin.act(world);
            world.event >= crash_at
        });
        if world.life == life && world.event < crash_at && world.one_in(2) {
            let rest_ms = world.below(1_500) as u64;
            world.run_for(rest_ms, |world| admin.act(world));
        }
        if world.life != life {
            totals.failures += 1;
            return admin.promised;
        }
        if world.event >= crash_at {
            break;
        }
    }
    let death = [Death::Power, Death::Power, Death::Process][world.below(3)];
    *(if death == Death::Power { &mut totals.power_failures } else { &mut totals.ends }) += 1;
    world.restart(death);
    admin.promised
}

/// Runs a world for several lives, and checks what clients saw.
fn simulate(mut entropy: Entropy, sync: Sync, switches: bool, totals: &mut Totals) -> Result<(), String> {
    let is_lossy = switches || sync != Sync::Always;
    let mut setup = Setup::any(&mut entropy);
    setup.script_trusted_after = setup.script_trusted_after.max(1_000);
    setup.journal = Some(Journal::any(&mut entropy, sync));
    setup.has_own_format = entropy.one_in(2);
    setup.dies_in_start_one_in = 3;
    // Threads are not slow, so everysec's promise can be checked to the second.
    let is_steady = sync == Sync::EverySecond && entropy.one_in(2);
    setup.stalls_take_time &= !is_steady;
    let mut world = World::new(entropy, &setup);
    let mut load = Load::new(&mut world);
    world.settle(|_| {});
    load.is_lossy = is_lossy;
    load.ends_at_reply_one_in = [0, 10, 100][world.below(3)];
    let mut begun = 0;
    for _ in 0..LIVES {
        let promised = live(&mut world, &mut load, totals, (switches, is_steady));
        load.note_death(&mut world);
        let died = world.died_at;
        let survived = load.look(&mut world);
        if is_lossy {
            let is_change = |access: &Access| matches!(access, Access::Append { .. } | Access::Set { .. });
            let changes =
                load.history.transactions.iter().filter(|change| change.accesses.iter().any(is_change));
            let sent: BTreeMap<u64, u64> =
                changes.filter_map(|change| Some((change.answered?, change.sent))).collect();
            let lost = load.history.lose(begun, died, &survived)?;
            if let Some(answered) = lost.iter().find(|answered| **answered < promised) {
                return Err(format!(
                    "what was answered at {answered} is lost, and was safe at {promised}: {setup:?}"
                ));
            }
            let first_ns = lost.iter().map(|answered| load.moments_ns[answered]).min();
            let oldest = first_ns.map(|first_ns| world.died_ns - first_ns);
            // While the disk hangs, what it has not taken becomes older, and nothing is added to it. (Not by the last answer, which may
            // have been on its way when the server died.)
            let last_ns = lost.iter().filter_map(|answered| load.moments_ns.get(sent.get(answered)?)).max();
            let within = first_ns.zip(last_ns).map(|(first_ns, last_ns)| last_ns.saturating_sub(first_ns));
            if is_steady && let Some(ns) = within.filter(|ns| *ns > EVERYSEC_NS_MAX) {
                return Err(format!("what was answered within {} ms is lost: {setup:?}", ns / 1_000_000));
            }
            totals.lost += lost.len();
            totals.oldest_ms = totals.oldest_ms.max(oldest.unwrap_or(0) / 1_000_000);
            totals.promises += u64::from(promised > 0);
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
    for_each_seed("always", 25, |entropy| simulate(entropy, Sync::Always, false, &mut totals).unwrap());
    totals.assert();
}

#[test]
fn what_is_lost_is_what_came_last() {
    let mut totals = Totals::default();
    for_each_seed("everysec", 30, |entropy| {
        simulate(entropy, Sync::EverySecond, false, &mut totals).unwrap();
    });
    totals.assert();
    assert!(sim::are_seeds_chosen() || totals.lost > 0, "a crash takes something");
    let mut totals = Totals::default();
    for_each_seed("no", 10, |entropy| simulate(entropy, Sync::Never, false, &mut totals).unwrap());
    totals.assert();
}

/// `appendonly` and `appendfsync` change all the time.
#[test]
fn what_info_calls_safe_is_there() {
    let mut totals = Totals::default();
    for_each_seed("switches", 25, |entropy| simulate(entropy, Sync::Always, true, &mut totals).unwrap());
    totals.assert();
    assert!(sim::are_seeds_chosen() || totals.promises > 0, "INFO says that all is safe");
}

/// Each deliberate mistake is detected.
#[test]
fn what_is_answered_too_soon_shows() {
    for mistake in [Mutant::ReplyAtOnce, Mutant::DelegatedAtOnce, Mutant::ReadAtOnce, Mutant::CommitsLate] {
        mutant::switch(Some(mistake));
        let found = (1..=400).find_map(|seed| {
            let problem =
                simulate(Entropy::from_seed(seed), Sync::Always, false, &mut Totals::default()).err()?;
            Some(format!("seed {seed}: {}", problem.split_once("}: ").map_or(&*problem, |(_, rest)| rest)))
        });
        mutant::switch(None);
        println!("{mistake:?}: {}", found.unwrap_or_else(|| panic!("{mistake:?} does not show")));
    }
}
