//! The log thread and the disk thread, stepped in random order, with threads that commit, on disks that crash and fail.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

use effectlog::{Backlog, Collector, Found, Log, Lsn, Reader, Recorder, Stamp, StreamPosition};
use proactor::{Clock, DiskFaults, Entropy, Fault, SimDisk};

use super::world::{BEGINNING, TUNING, folder, read};
use crate::{
    Base, Beginning, Contents, Data, DiskOrders, DiskThread, Intake, Journal, LogThread, OnFailure, Order,
    Policy, Progress, Refusal, Scan, Step, Tuning, Verdict,
};

/// Two threads that commit, and the threads that write their commits.
struct House {
    sim: SimDisk,
    clock: Clock,
    now_ns: Arc<AtomicU64>,
    log: Arc<Log>,
    recorders: Vec<Recorder>,
    last_stamp: Stamp,
    backlog: Arc<Backlog>,
    progress: Arc<Progress>,
    intake: Arc<Intake>,
    log_thread: LogThread,
    disk_thread: DiskThread,
    orders: Sender<Order>,
    disk: DiskOrders,
    has_failed: Arc<AtomicBool>,
    /// The slice of each commit.
    commits: Vec<Lsn>,
}

impl House {
    fn new(seed: u64, policy: Policy) -> House {
        let (sim, now_ns) = (SimDisk::new(seed), Arc::new(AtomicU64::new(1)));
        let clock = Clock::simulated(Arc::clone(&now_ns));
        let (log, recorders, ends) = Log::new(2, Box::new(|| 0));
        let progress = Arc::new(Progress::new(2, Lsn::NONE, policy, Box::new(|_| {})));
        let has_failed = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&has_failed);
        let on_failure: OnFailure = Arc::new(move |_| flag.store(true, Ordering::Relaxed));
        let (disk, disk_thread) = DiskThread::new(&progress, &clock, Arc::clone(&on_failure));
        let (orders, obeyed) = channel();
        let collector = Collector::new(&log, ends);
        let backlog = Arc::new(Backlog::new(2, Box::new(|_| {})));
        backlog.set_limits(1 << 20, 1 << 20);
        let intake = Intake::new((&log, collector, &backlog), &progress, obeyed);
        let log_thread = LogThread::new((&log, &intake), &progress, &clock, disk.clone(), on_failure);
        House {
            sim,
            clock,
            now_ns,
            log,
            recorders,
            last_stamp: Stamp::NONE,
            backlog,
            progress,
            intake,
            log_thread,
            disk_thread,
            orders,
            disk,
            has_failed,
            commits: Vec::new(),
        }
    }

    /// Begins a journal whose first slice is `first`.
    fn begin(&mut self, id: u64, first: u64, data: Data) {
        self.begin_with(TUNING, (id, first), data);
    }

    fn begin_with(&mut self, tuning: Tuning, (id, first): (u64, u64), data: Data) {
        let lock = Arc::new(folder(&self.sim.disk()).lock().expect("nobody else has it"));
        let beginning = Beginning { id, slice: Lsn::new(first).before(), data, ..BEGINNING };
        let opened =
            Journal::create(lock, tuning, self.progress.policy(), beginning).expect("the disk works");
        let last = self.log.turn_on(Lsn::new(first));
        self.orders.send(Order::Begin(last, Box::new(opened))).expect("it is there");
    }

    fn commit(&mut self, thread: usize) {
        let number = self.commits.len();
        self.recorders[thread].push(0, &[b"SET", number.to_string().as_bytes()]);
        let place = self.recorders[thread].commit(self.last_stamp).expect("it is on");
        self.last_stamp = place.stamp;
        self.commits.push(place.slice);
        self.progress.nudge(|| self.clock.monotonic_ms());
    }

    /// Steps one of them, and lets time pass.
    fn step(&mut self, of_disk: bool) -> Step {
        self.now_ns.fetch_add(50_000, Ordering::Relaxed);
        let step = if of_disk { self.disk_thread.step() } else { self.log_thread.step() };
        if let Step::Waits(time) | Step::Rests(time) = step {
            self.now_ns.fetch_add(time.as_nanos() as u64 / 3, Ordering::Relaxed);
        }
        step
    }

    /// Steps both this many times.
    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.step(false);
            self.step(true);
        }
    }

    /// Runs both until neither has anything to do.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let steps = [self.step(false), self.step(true)];
            let is_idle = |step: &Step| matches!(step, Step::Waits(_) | Step::Ended);
            if steps.iter().all(is_idle) && !self.log.has_pending() {
                return;
            }
        }
        panic!("they come to no end");
    }

    /// The numbers of the commits in the folder's journal, in order.
    fn found(&self) -> Vec<usize> {
        let folder = folder(&self.sim.disk());
        let Contents::Journal(manifest) = folder.contents().expect("it can be read") else {
            return Vec::new();
        };
        let (slices, end) = read(Scan::behind_base(&folder, &manifest).expect("it can be read"));
        assert!(!matches!(end.verdict, Verdict::Damaged { .. }), "{:?}", end.verdict);
        let bytes: Vec<u8> = slices.into_iter().flat_map(|scanned| scanned.slice.payload).collect();
        let text = String::from_utf8(bytes).expect("it is text");
        let words: Vec<&str> = text.split("\r\n").collect();
        let sets = words.windows(3).filter(|words| words[0] == "SET");
        sets.map(|words| words[2].parse().expect("a number")).collect()
    }

    /// The number of commits in slices up to the durable one.
    fn durable_count(&self) -> usize {
        self.commits.iter().filter(|slice| **slice <= self.progress.durable()).count()
    }
}

/// Everything that was reported durable survives a crash at any moment, and the surviving commits are the first ones.
#[test]
fn what_is_durable_survives_and_nothing_is_in_another_order() {
    for seed in 0..300 {
        let mut entropy = Entropy::from_seed(seed);
        let policy = [Policy::Always, Policy::Everysec, Policy::No][entropy.below(3) as usize];
        let mut house = House::new(seed, policy);
        house.begin(7, 1, Data::None);
        if entropy.one_in(3) {
            house.sim.set_faults(DiskFaults { short_write_one_in: 5, ..DiskFaults::default() });
        }
        for _ in 0..entropy.below(400) {
            match entropy.below(6) {
                0 | 1 => house.commit(entropy.below(2) as usize),
                2 => drop(house.step(true)),
                _ => drop(house.step(false)),
            }
        }
        let durable = house.durable_count();
        house.sim.crash();
        let found = house.found();
        assert!(found.iter().copied().eq(0..found.len()), "seed {seed}: {found:?}");
        assert!(found.len() >= durable, "seed {seed}: {durable} were durable and {} are there", found.len());
    }
}

#[test]
fn after_a_failure_nothing_more_is_durable() {
    for (policy, fault) in [(Policy::Always, Fault::SyncError), (Policy::Everysec, Fault::WriteError)] {
        let mut house = House::new(1, policy);
        house.begin(7, 1, Data::None);
        house.commit(0);
        house.settle();
        let durable = house.durable_count();
        house.sim.plan(0, fault);
        house.commit(1);
        house.settle();
        assert!(house.has_failed.load(Ordering::Relaxed), "{policy:?}");
        assert_eq!(house.progress.refusal(), Refusal::Failed);
        house.commit(0);
        house.settle();
        assert_eq!(house.durable_count(), durable, "{policy:?}");
    }
}

/// Commands that write are refused while there is still room for the commits until then. Further commits wait.
#[test]
fn without_room_it_refuses_in_time_and_goes_on_by_itself() {
    for (policy, late) in [(Policy::Always, 0), (Policy::Everysec, 0), (Policy::Always, 2000)] {
        let mut house = House::new(1, policy);
        house.begin(7, 1, Data::None);
        house.settle();
        house.sim.set_faults(DiskFaults { room_bytes: 1, ..DiskFaults::default() });
        let work = |house: &mut House| {
            house.commit(0);
            house.steps(20);
        };
        while house.progress.refusal() == Refusal::None {
            work(&mut house);
        }
        assert_eq!(house.progress.refusal(), Refusal::NoRoom);
        assert!(house.progress.why().contains("make room"), "{}", house.progress.why());
        assert!(house.progress.written() >= *house.commits.last().expect("there are some"), "{policy:?}");
        (0..late).for_each(|_| work(&mut house));
        assert!(late == 0 || house.durable_count() < house.commits.len());
        house.sim.set_faults(DiskFaults::default());
        house.settle();
        // This is done once a second if no client waits for it.
        house.now_ns.fetch_add(2_000_000_000, Ordering::Relaxed);
        house.settle();
        assert_eq!((house.progress.refusal(), house.durable_count()), (Refusal::None, house.commits.len()));
        house.sim.crash();
        assert_eq!(house.found().len(), house.commits.len());
    }
}

/// Commands that write wait before the remaining room is too small, while it is unknown whether there will be more.
#[test]
fn what_is_committed_has_room() {
    let mut house = House::new(1, Policy::Everysec);
    house.begin(7, 1, Data::None);
    house.settle();
    // The disk thread is busy with other work.
    while !house.progress.is_full() {
        house.commit(0);
        for _ in 0..20 {
            house.step(false);
        }
        assert_eq!(house.progress.written(), *house.commits.last().expect("there are some"));
    }
    assert_eq!(house.progress.refusal(), Refusal::None);
    house.commit(0);
    house.settle();
    assert!(!house.progress.is_full(), "there is another segment");
}

/// After a new base the log is short, and so are new segments. All spares together may be smaller than the margin that
/// must be left in the long segment in use.
#[test]
fn short_segments_behind_a_long_one_hold_nobody_up() {
    let mut house = House::new(1, Policy::No);
    house.begin_with(Tuning { segment_bytes: 1 << 20, ..TUNING }, (7, 1), Data::None);
    let write = |house: &mut House| {
        house.recorders[0].push(0, &[b"ECHO", &[b'x'; 4000]]);
        house.last_stamp = house.recorders[0].commit(house.last_stamp).expect("it is on").stamp;
        house.progress.nudge(|| 1);
        house.settle();
        assert!(!house.progress.is_full(), "commands wait");
    };
    (0..1500).for_each(|_| write(&mut house));
    for _ in 0..500 {
        let cut = house.log.cut();
        house.settle();
        let base = Base { slice: cut.slice(), position: cut.end().expect("it was closed"), file: None };
        house.disk.set_base(base, 0, Box::new(|outcome| outcome.expect("the disk works")));
        write(&mut house);
    }
}

/// A thread that commits notices that the log thread is away. This ends when the log thread has written everything.
#[test]
fn a_log_thread_that_is_away_holds_back_commands() {
    for policy in [Policy::Everysec, Policy::No, Policy::Always] {
        let mut house = House::new(1, policy);
        house.progress.pressure.set_limits(1 << 20, 100);
        house.begin(7, 1, Data::None);
        house.settle();
        let look = |house: &House| {
            house.progress.look(house.clock.monotonic_ms());
            house.progress.is_full()
        };
        house.commit(0);
        house.now_ns.fetch_add(90_000_000, Ordering::Relaxed);
        house.commit(1);
        assert!(!look(&house));
        house.now_ns.fetch_add(12_000_000, Ordering::Relaxed);
        assert_eq!(look(&house), policy != Policy::Always, "with always their replies wait");
        house.settle();
        assert!(!look(&house), "everything is written");
        house.now_ns.fetch_add(500_000_000, Ordering::Relaxed);
        house.commit(0);
        assert!(!look(&house), "nothing waited meanwhile");
        let large = vec![b'x'; 600 * 1024];
        for is_too_much in [false, true] {
            house.recorders[0].push(0, &[b"ECHO", &large]);
            house.recorders[0].commit(house.last_stamp);
            house.progress.look_at_bytes(&house.log);
            assert_eq!(house.progress.is_full(), is_too_much);
        }
        house.settle();
        assert!(!house.progress.is_full());
    }
}

/// Two spares are what is usual, and one is enough to go on.
/// What a disk that hung for a moment has made grow.
#[test]
fn memory_that_is_not_needed_goes_back() {
    let mut house = House::new(1, Policy::Everysec);
    house.begin(7, 1, Data::None);
    house.settle();
    for _ in 0..5 {
        // The log thread is in a write, and each of these asks where the stream ends.
        for _ in 0..20 {
            house.recorders[0].push(0, &[b"SET", b"0", &[b'x'; 4000]]);
            house.last_stamp = house.recorders[0].commit(house.last_stamp).expect("it is on").stamp;
            house.intake.position();
        }
        house.settle();
    }
    let grown = house.intake.spare_bytes();
    assert!(grown > 20_000, "{grown}");
    for _ in 0..3 {
        house.now_ns.fetch_add(1_000_000_000, Ordering::Relaxed);
        house.commit(0);
        house.settle();
    }
    let kept = house.intake.spare_bytes();
    assert!(kept < 500, "{kept} of {grown}");
}

/// Two spares are usual, and one is enough to continue.
#[test]
fn room_for_one_segment_is_enough() {
    let mut house = House::new(1, Policy::Always);
    house.begin(7, 1, Data::None);
    house.settle();
    house.sim.set_faults(DiskFaults { room_bytes: 1, ..DiskFaults::default() });
    while house.progress.refusal() == Refusal::None {
        house.commit(0);
        house.steps(40);
    }
    let room_bytes = TUNING.segment_bytes * 9 / 2;
    house.sim.set_faults(DiskFaults { room_bytes, ..DiskFaults::default() });
    house.steps(100);
    assert_eq!(house.progress.refusal(), Refusal::None);
    house.commit(0);
    house.steps(100);
    assert_eq!((house.progress.refusal(), house.durable_count()), (Refusal::None, house.commits.len()));
}

/// A base takes little space, and leaves segments that can be reused.
#[test]
fn a_base_makes_room() {
    let mut house = House::new(1, Policy::Always);
    house.begin(7, 1, Data::None);
    house.settle();
    house.sim.set_faults(DiskFaults { room_bytes: TUNING.segment_bytes * 7 / 2, ..DiskFaults::default() });
    while house.progress.refusal() == Refusal::None {
        house.commit(0);
        house.steps(40);
    }
    let cut = house.log.cut();
    house.steps(100);
    let (position, file) = (cut.end().expect("it was closed"), "base-0000000000000007-9.rdb".to_owned());
    house
        .sim
        .disk()
        .replace(&Path::new("data/appendonlydir").join(&file), b"the base")
        .expect("there is room");
    let then = Box::new(|outcome: Result<(), crate::Trouble>| outcome.expect("there is room"));
    house.disk.set_base(Base { slice: cut.slice(), position, file: Some(file) }, 0, then);
    house.steps(100);
    assert_eq!(house.progress.refusal(), Refusal::None);
}

/// One journal follows another, as if it was off meanwhile. Earlier commits are in the former one.
#[test]
fn a_journal_follows_another_one() {
    let mut house = House::new(1, Policy::Everysec);
    house.begin(7, 1, Data::None);
    (0..5).for_each(|_| house.commit(0));
    house.step(false);
    (0..5).for_each(|_| house.commit(1));
    let last = house.log.turn_off();
    house.orders.send(Order::End(last)).expect("it is there");
    house.settle();
    assert_eq!(house.found().len(), 10, "turning it off makes everything durable");
    house.begin(8, 100, Data::Coming);
    (0..3).for_each(|_| house.commit(0));
    let cut = house.log.cut();
    house.commit(1);
    house.settle();
    assert_eq!(house.found().len(), 10, "until the new one has its base the old one counts");
    let position = cut.end().expect("it was closed");
    let file = "base-0000000000000008-1.rdb".to_owned();
    let path = Path::new("data/appendonlydir").join(&file);
    house.sim.disk().replace(&path, b"the base").expect("the disk works");
    let is_set = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_set);
    let then = Box::new(move |outcome: Result<(), crate::Trouble>| {
        outcome.expect("the disk works");
        flag.store(true, Ordering::Relaxed);
    });
    house.disk.set_base(Base { slice: cut.slice(), position, file: Some(file) }, 0, then);
    house.settle();
    assert!(is_set.load(Ordering::Relaxed));
    house.sim.crash();
    assert_eq!(house.found(), [13], "what the base has is not told");
    house.orders.send(Order::Stop).expect("it is there");
    assert!((0..10).any(|_| house.step(false) == Step::Ended));
    house.disk.stop();
    assert!((0..10).any(|_| house.step(true) == Step::Ended));
    assert!(house.clock.monotonic_ms() > 0);
}

/// The numbers of the commits that a replica has read.
fn heard(reader: &mut Reader) -> Vec<usize> {
    let mut text = String::new();
    while let Found::Bytes(bytes) = reader.next(50) {
        text += std::str::from_utf8(bytes).expect("it is text");
        let count = bytes.len();
        reader.advance(count);
    }
    let words: Vec<&str> = text.split("\r\n").collect();
    words
        .windows(3)
        .filter(|words| words[0] == "SET")
        .map(|words| words[2].parse().expect("a number"))
        .collect()
}

/// A stream that replicas read continues without a gap, whether a journal is on, ends, begins or has failed.
#[test]
fn a_stream_goes_on_while_journals_begin_and_end() {
    let mut house = House::new(1, Policy::Everysec);
    house.orders.send(Order::Stream(house.log.turn_on(Lsn::new(1)), true)).expect("it is there");
    house.commit(0);
    house.settle();
    let mut reader = house.backlog.read_from(StreamPosition::START, None).expect("it begins there");
    let lock = Arc::new(folder(&house.sim.disk()).lock().expect("nobody else has it"));
    for id in 1..4 {
        let beginning = Beginning { id, slice: Lsn::NONE, data: Data::Coming, ..BEGINNING };
        let opened = Journal::create(Arc::clone(&lock), TUNING, Policy::Everysec, beginning);
        let opened = Box::new(opened.expect("the disk works"));
        house.commit(1);
        let cut = house.log.cut();
        house.orders.send(Order::Begin(cut.slice(), opened)).expect("it is there");
        house.commit(0);
        house.settle();
        let position = cut.end().expect("it is closed");
        let base = Base { slice: cut.slice(), position, file: None };
        house.disk.set_base(base, 0, Box::new(|outcome| outcome.expect("the disk works")));
        house.commit(1);
        house.settle();
        assert_eq!(house.found().len(), 2, "the two behind its beginning");
        if id == 2 {
            let last = house.log.cut().slice();
            house.orders.send(Order::End(last)).expect("it is there");
            house.commit(0);
            house.settle();
        }
    }
    assert_eq!(heard(&mut reader), (0..house.commits.len()).collect::<Vec<usize>>());
    assert_eq!(reader.position(), house.backlog.end());
}

/// A stream that is turned off leaves the journal alone, and starts over at the log's place.
#[test]
fn a_stream_begins_where_the_log_is() {
    let mut house = House::new(2, Policy::Always);
    house.begin(7, 50, Data::None);
    house.commit(0);
    house.settle();
    let cut = house.log.cut();
    house.orders.send(Order::Stream(cut.slice(), true)).expect("it is there");
    house.commit(1);
    house.settle();
    let mut reader =
        house.backlog.read_from(cut.end().expect("it is closed"), None).expect("it begins there");
    assert_eq!(heard(&mut reader), [1]);
    house.orders.send(Order::Stream(house.log.cut().slice(), false)).expect("it is there");
    house.commit(0);
    house.settle();
    assert_eq!((heard(&mut reader), house.found()), (vec![], vec![0, 1, 2]));
}

/// The id that is found applies to everything that is found: the former id never counts after the place where the
/// stream got another.
#[test]
fn the_stream_has_the_id_under_which_it_was_written() {
    let (former, latter) = ([b'a'; 40], [b'b'; 40]);
    let mut counts = [0; 3];
    for seed in 0..300 {
        let mut entropy = Entropy::from_seed(seed);
        let policy = [Policy::Always, Policy::Everysec, Policy::No][entropy.below(3) as usize];
        let mut house = House::new(seed, policy);
        house.begin(7, 1, Data::None);
        house.orders.send(Order::Name(Lsn::NONE, former)).expect("it is there");
        house.settle();
        let step = |house: &mut House, entropy: &mut Entropy| match entropy.below(6) {
            0 | 1 => house.commit(entropy.below(2) as usize),
            2 => drop(house.step(true)),
            _ => drop(house.step(false)),
        };
        (0..entropy.below(100)).for_each(|_| step(&mut house, &mut entropy));
        let cut = house.log.cut();
        house.orders.send(Order::Name(cut.slice(), latter)).expect("it is there");
        (0..entropy.below(40)).for_each(|_| step(&mut house, &mut entropy));
        if entropy.one_in(3) {
            house.settle();
        }
        house.sim.crash();
        let folder = folder(&house.sim.disk());
        let Contents::Journal(manifest) = folder.contents().expect("it can be read") else { continue };
        let (_, end) = read(Scan::behind_base(&folder, &manifest).expect("it can be read"));
        let is_behind = cut.end().is_some_and(|cut| end.place.position > cut);
        match end.stream {
            None => counts[0] += 1,
            Some(id) if id == former => {
                assert!(!is_behind, "seed {seed}: {cut:?}, {end:?}");
                counts[1] += 1;
            }
            Some(id) => {
                assert_eq!(id, latter);
                counts[2] += 1;
            }
        }
    }
    // A crash in the moment between frames and the manifest is rare.
    assert!(counts[0] < counts[1] && counts[1] > 0 && counts[2] > 0, "{counts:?}");
}

/// The position of the stream is after everything that was committed, whatever the log thread does meanwhile: nothing
/// at all, or changing journals.
#[test]
fn a_position_is_behind_everything_that_was_committed() {
    for seed in 0..200 {
        let mut entropy = Entropy::from_seed(seed);
        let policy = [Policy::Always, Policy::Everysec, Policy::No][entropy.below(3) as usize];
        let mut house = House::new(seed, policy);
        house.orders.send(Order::Stream(house.log.turn_on(Lsn::new(1)), true)).expect("it is there");
        assert_eq!(house.intake.position(), StreamPosition::START, "nothing was committed");
        house.commit(0);
        let (count, mut before) = (1 + entropy.below(20), StreamPosition::START);
        let begins = entropy.below(count);
        for step in 0..count {
            match entropy.below(7) {
                // Slices with later commits may be closed before the log thread takes up the journal.
                _ if step == begins => {
                    let lock = Arc::new(folder(&house.sim.disk()).lock().expect("nobody else has it"));
                    let beginning = Beginning { id: 7, slice: Lsn::NONE, data: Data::Coming, ..BEGINNING };
                    let opened = Journal::create(lock, TUNING, policy, beginning).expect("the disk works");
                    let last = house.log.cut().slice();
                    house.orders.send(Order::Begin(last, Box::new(opened))).expect("it is there");
                }
                0 => {
                    let last = house.log.cut().slice();
                    house.orders.send(Order::Name(last, [b'a'; 40])).expect("it is there");
                }
                1 | 2 => drop(house.step(entropy.one_in(2))),
                _ => house.commit(entropy.below(2) as usize),
            }
            let position = house.intake.position();
            let last = house.commits.last().copied().unwrap_or_default();
            assert!(!house.log.has_pending() && position >= before, "seed {seed}");
            let end = house.backlog.end_of(last);
            assert!(end.is_some_and(|end| end <= position), "seed {seed}: {end:?}, {position}");
            before = position;
        }
        let mut reader = house.backlog.read_from(StreamPosition::START, None).expect("it begins there");
        house.settle();
        assert_eq!(heard(&mut reader), (0..house.commits.len()).collect::<Vec<usize>>(), "seed {seed}");
        assert_eq!(house.progress.counts.taken_bytes.load(Ordering::Relaxed), 0);
        let last = house.commits.last().copied().unwrap_or_default();
        assert!(house.progress.written() >= last, "seed {seed}: what was closed for somebody is written");
    }
}

/// A change that is committed soon after a check waits for the next one, unless a client waits for it.
#[test]
fn a_slice_that_somebody_waits_for_is_closed_at_once() {
    for has_journal in [false, true] {
        let mut house = House::new(3, Policy::Everysec);
        if has_journal {
            house.begin(7, 1, Data::None);
            house.settle();
            house.orders.send(Order::Stream(house.log.cut().slice(), true)).expect("it is there");
        } else {
            house.orders.send(Order::Stream(house.log.turn_on(Lsn::new(1)), true)).expect("it is there");
        }
        house.commit(0);
        house.settle();
        // Long after the last check, it is closed without a request.
        house.now_ns.fetch_add(10_000_000, Ordering::Relaxed);
        house.commit(0);
        assert!(house.step(false) == Step::Worked);
        let looks = |house: &mut House| {
            let slice = *house.commits.last().expect("there is one");
            (house.log_thread.step(), house.backlog.end_of(slice).is_some())
        };
        house.commit(1);
        let (step, is_closed) = looks(&mut house);
        assert!(matches!(step, Step::Rests(_)) && !is_closed);
        house.progress.hurry(*house.commits.last().expect("there is one"));
        assert_eq!(looks(&mut house), (Step::Worked, true));
        // The request is for that slice only.
        house.commit(1);
        let (step, is_closed) = looks(&mut house);
        assert!(matches!(step, Step::Rests(_)) && !is_closed);
    }
}

#[test]
fn an_order_that_comes_late_still_ends_the_slices_before_it() {
    let mut house = House::new(1, Policy::Everysec);
    house.begin(1, 1, Data::None);
    house.settle();
    house.commit(0);
    let last = house.log.cut().slice();
    house.commit(1);
    // The log thread looked for orders before this one came.
    house.orders.send(Order::Name(last, [b'0'; 40])).expect("it is there");
    let mut batch = Vec::new();
    let taken = house.intake.take(None, &mut batch, |_| false);
    assert_eq!(batch.iter().map(|slice| slice.number).collect::<Vec<_>>(), [last]);
    assert!(taken.has_more && matches!(house.intake.next_order(), Some(Order::Name(..))));
}
