//! A journal that runs, crashes and is recovered, and a model of what it must contain.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use effectlog::{Lsn, Slice, StreamPosition};
use proactor::{Disk, DiskFaults, Entropy, Open, SimDisk};

use crate::{
    Base, Beginning, Contents, Data, End, Folder, Journal, Manifest, Policy, Scan, Scanned, Trouble, Tuning,
    Verdict, Writer,
};

pub(super) const TUNING: Tuning = Tuning {
    segment_bytes_first: 32 << 10,
    segment_bytes: 32 << 10,
    payload_bytes_max: 5_000,
    spares: 2,
    free_max: 2,
    write_bytes: 10_000,
};

pub(super) fn folder(disk: &Disk) -> Folder {
    Folder::new(disk.clone(), Path::new("data/appendonlydir"))
}

pub(super) const BEGINNING: Beginning = Beginning {
    id: 0xabcd,
    stream: None,
    databases: 16,
    slice: Lsn::NONE,
    position: StreamPosition::START,
    data: Data::None,
};

/// All slices that a scan returns, and its end.
pub(super) fn read(mut scan: Scan) -> (Vec<Scanned>, End) {
    let mut slices = Vec::new();
    while let Some(scanned) = scan.next_slice().unwrap() {
        slices.push(scanned);
    }
    (slices, scan.end().unwrap())
}

/// The next slice, with this many bytes.
pub(super) fn slice(writer: &Writer, number_ahead: u64, position: StreamPosition, bytes: usize) -> Slice {
    let number = writer.next().0.get() + number_ahead;
    let mut payload = vec![number as u8; bytes];
    payload.iter_mut().step_by(97).enumerate().for_each(|(mark, byte)| *byte = mark as u8);
    Slice { number: Lsn::new(number), position, db: Some((number % 16) as u32), payload }
}

/// See the head of this file.
pub(super) struct World {
    pub(super) sim: SimDisk,
    pub(super) entropy: Entropy,
    /// The number of operations of the disk until the power fails or the process is killed.
    left: Arc<AtomicU64>,
    /// Whether the process is killed then.
    is_kill: Arc<AtomicBool>,
    /// Whether that has happened.
    has_crashed: Arc<AtomicBool>,
    /// The slices that were given to the writer since the last recovery, and those that were recovered.
    slices: BTreeMap<Lsn, Slice>,
    /// The last slice that was reported durable.
    reported: Lsn,
    /// The last one that was written without an error.
    written: Lsn,
    /// The last slice that the system has in its cache: the server was killed, and the power is on.
    cached: Lsn,
    /// Whether there certainly is a journal.
    is_created: bool,
    /// Whether the disk fails at times.
    has_faults: bool,
    now_ms: u64,
}

/// A broken promise.
pub(super) type Broken = String;

macro_rules! ensure {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            return Err(format!($($text)*));
        }
    };
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let sim = SimDisk::new(seed);
        let (left, has_crashed) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::new(AtomicBool::new(false)));
        let is_kill = Arc::new(AtomicBool::new(false));
        let (crashing, counter, flag) = (sim.clone(), Arc::clone(&left), Arc::clone(&has_crashed));
        let kills = Arc::clone(&is_kill);
        sim.on_operation(move |_| {
            if counter.fetch_sub(1, Ordering::Relaxed) == 1 {
                if kills.load(Ordering::Relaxed) {
                    crashing.end_process()
                } else {
                    crashing.crash()
                }
                flag.store(true, Ordering::Relaxed);
            }
            false
        });
        World {
            sim,
            entropy: Entropy::from_seed(seed),
            left,
            is_kill,
            has_crashed,
            slices: BTreeMap::new(),
            reported: Lsn::NONE,
            written: Lsn::NONE,
            cached: Lsn::NONE,
            is_created: false,
            has_faults: false,
            now_ms: 1_000,
        }
    }

    /// One life: recovery, work, and an end in the middle of something.
    pub(super) fn live(&mut self, policy: Policy) -> Result<(), Broken> {
        let is_killed = self.entropy.one_in(4);
        let (left, steps) = match is_killed && self.entropy.one_in(2) {
            true => (u64::MAX, self.entropy.below(40)),
            false => (1 + self.entropy.below(120), 400),
        };
        self.left.store(left, Ordering::Relaxed);
        self.is_kill.store(is_killed, Ordering::Relaxed);
        self.has_crashed.store(false, Ordering::Relaxed);
        if let Some((journal, mut writer)) = self.start(policy)? {
            let mut has_failed = false;
            for _ in 0..steps {
                let done = self.step(&journal, &mut writer);
                self.reported = self.reported.max(journal.durable_slice());
                has_failed = done.is_err_and(|trouble| trouble.is_final());
                if self.has_crashed.load(Ordering::Relaxed) || has_failed {
                    break;
                }
            }
            drop((journal, writer));
            if has_failed && self.entropy.one_in(2) {
                self.begin_anew(policy);
            }
        }
        if is_killed {
            // Slices that could not be written are in the cache and are lost all the same.
            self.cached = if self.has_faults { Lsn::NONE } else { self.written };
        } else {
            self.cached = Lsn::NONE;
            if !self.has_crashed.load(Ordering::Relaxed) {
                self.sim.crash();
            }
        }
        self.left.store(u64::MAX, Ordering::Relaxed);
        Ok(())
    }

    /// Begins a journal to replace the one that has failed, as a server does. It never gets its base.
    fn begin_anew(&mut self, policy: Policy) {
        let Ok(lock) = folder(&self.sim.disk()).lock() else { return };
        let beginning = Beginning { id: self.entropy.next_u64(), data: Data::Coming, ..BEGINNING };
        let _ = Journal::create(lock.into(), TUNING, policy, beginning);
    }

    /// Makes one slice durable, and cuts the power while an empty slice that confirms it is written.
    pub(super) fn lose_power_while_confirming(&mut self) -> Result<(), Broken> {
        let opened = self.start(Policy::Always)?;
        let (journal, mut writer) = opened.expect("nothing fails yet");
        for (bytes, left) in [(300, u64::MAX), (0, 2)] {
            self.left.store(left, Ordering::Relaxed);
            let next = slice(&writer, 0, writer.next().1, bytes);
            let is_written = self.append_all(&mut writer, &[next]).is_ok();
            assert_eq!(is_written, bytes > 0);
            self.reported = journal.durable_slice();
        }
        self.start(Policy::Always).map(drop)
    }

    /// Makes the disk fail at times.
    pub(super) fn begin_to_fail(&mut self, faults: DiskFaults) {
        self.sim.set_faults(faults);
        self.has_faults = true;
    }

    /// Recovers the journal, checks it, and continues.
    fn start(&mut self, policy: Policy) -> Result<Option<(Journal, Writer)>, Broken> {
        let folder = folder(&self.sim.disk());
        let Ok(lock) = folder.lock() else {
            ensure!(self.is_excused(), "the folder is locked");
            return Ok(None);
        };
        let opened = match folder.contents().map_err(|error| error.to_string())? {
            Contents::Nothing => {
                ensure!(!self.is_created && self.reported == Lsn::NONE, "the journal is not there");
                Journal::create(lock.into(), TUNING, policy, BEGINNING)
            }
            Contents::RedisAof(path) => return Err(format!("{path:?} is not of Redis")),
            Contents::Journal(manifest) => {
                let Ok(scan) = lock.recover(&manifest) else {
                    ensure!(self.is_excused(), "no segment can be made durable");
                    return Ok(None);
                };
                let end = self.check(&folder, &manifest, scan)?;
                Journal::resume(lock.into(), TUNING, policy, &manifest, &end, None)
            }
        };
        self.is_created |= opened.is_ok();
        if let Ok((journal, writer)) = &opened {
            let next = self.slices.last_key_value().map(|(number, slice)| (number.next(), slice.end()));
            let next = next.unwrap_or((Lsn::NONE.next(), StreamPosition::START));
            ensure!(writer.next() == next, "goes on at {:?}, not at {next:?}", writer.next());
            self.reported = journal.durable_slice();
        }
        Ok(opened.ok())
    }

    /// Reads the journal. It must contain everything that was reported durable, and no more than what was written,
    /// without gaps.
    fn check(&mut self, folder: &Folder, manifest: &Manifest, mut scan: Scan) -> Result<End, Broken> {
        if let Some(file) = &manifest.base.file {
            let base =
                folder.disk().read(&folder.path().join(file)).map_err(|error| format!("{file}: {error}"))?;
            ensure!(base == manifest.base.slice.to_string().as_bytes(), "{file} is not the base");
        }
        let mut next = manifest.base.slice.next();
        while let Some(Scanned { slice, .. }) = scan.next_slice().map_err(|error| error.to_string())? {
            ensure!(slice.number == next, "slice {} after {}", slice.number, next.before());
            ensure!(self.slices.get(&next) == Some(&slice), "slice {next} is another one");
            next = next.next();
        }
        let end = scan.end().map_err(|error| error.to_string())?;
        ensure!(!matches!(end.verdict, Verdict::Damaged { .. }), "{}", end.damage().expect("it is damaged"));
        ensure!(end.place.slice == next && !end.place.is_within_slice, "ends at {:?}, not {next}", end.place);
        let last = next.before();
        ensure!(
            last >= self.reported,
            "slice {} was reported durable, and {last} is the last one",
            self.reported
        );
        let cached = std::mem::take(&mut self.cached);
        ensure!(last >= cached, "slice {cached} was written before a kill, and {last} is the last one");
        self.slices.retain(|number, _| *number <= last);
        self.written = last;
        Ok(end)
    }

    /// Whether a failure is expected here.
    fn is_excused(&self) -> bool {
        self.has_crashed.load(Ordering::Relaxed) || self.has_faults
    }

    fn step(&mut self, journal: &Journal, writer: &mut Writer) -> Result<(), Trouble> {
        self.now_ms += self.entropy.below(50);
        match self.entropy.below(20) {
            0..10 => self.append(journal, writer),
            10..12 if writer.wants_confirmation() => {
                let (_, position) = writer.next();
                let slice = slice(writer, 0, position, 0);
                self.append_all(writer, &[slice])
            }
            10..15 => journal.sync().map(drop),
            15 => {
                journal.mark();
                Ok(())
            }
            16..18 => journal.prepare_spare(0).map(drop),
            18 => self.checkpoint(journal),
            _ if writer.policy() == Policy::Always => Ok(()),
            _ => writer.set_policy(Policy::Everysec),
        }
    }

    fn append(&mut self, journal: &Journal, writer: &mut Writer) -> Result<(), Trouble> {
        let mut position = writer.next().1;
        let mut slices = Vec::new();
        for ahead in 0..1 + self.entropy.below(3) {
            let bytes_max = [100, 2_000, 12_000, 50_000][self.entropy.below(4) as usize];
            let next = slice(writer, ahead, position, self.entropy.below(bytes_max) as usize);
            position = next.end();
            slices.push(next);
        }
        match self.append_all(writer, &slices) {
            Err(Trouble::NoSpare { needed }) => {
                while journal.prepare_spare(needed)? {}
                self.append_all(writer, &slices)
            }
            appended => appended,
        }
    }

    fn append_all(&mut self, writer: &mut Writer, slices: &[Slice]) -> Result<(), Trouble> {
        for slice in slices {
            self.slices.insert(slice.number, slice.clone());
        }
        self.written = writer.append(slices, self.now_ms)?;
        Ok(())
    }

    fn checkpoint(&mut self, journal: &Journal) -> Result<(), Trouble> {
        let base_slice = journal.facts().base.slice;
        let cut = base_slice.get() + self.entropy.below(journal.written_slice().since(base_slice) + 1);
        let cut = Lsn::new(cut);
        let Some(last) = self.slices.get(&cut).filter(|_| cut > base_slice) else { return Ok(()) };
        let name = format!("base-{:016x}-{cut}.rdb", journal.facts().id);
        let (disk, path) = (self.sim.disk(), folder(&self.sim.disk()).path().join(&name));
        let written = disk.open(&path, Open::Empty).and_then(|file| {
            file.write_all_at(0, cut.to_string().as_bytes())?;
            file.sync()?;
            disk.sync_directory(path.parent().expect("it has a folder"))
        });
        if written.is_err() {
            return Ok(());
        }
        let base = Base { slice: cut, position: last.end(), file: Some(name) };
        journal.set_base(&base, [0, 20_000][self.entropy.below(2) as usize])
    }
}
