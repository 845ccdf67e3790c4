//! Losses at the end of a log. No frame shows them, but the length of the segments and the mark do. Damage to slices in
//! the base loses nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use effectlog::{Lsn, StreamPosition};
use proactor::{Open, SimDisk};

use super::world::{BEGINNING, TUNING, folder, read, slice};
use crate::frame::BLOCK_BYTES;
use crate::{Base, Contents, Journal, Manifest, Policy, Repair, Scan, Verdict, Writer};

/// A journal in three segments, the first two of which are full.
struct Lost {
    sim: SimDisk,
    journal: Journal,
    writer: Writer,
}

const SLICES: u64 = 20;

impl Lost {
    /// The last slices are not confirmed by a frame behind them.
    fn new() -> Lost {
        let sim = SimDisk::new(1);
        let lock = folder(&sim.disk()).lock().unwrap();
        let (journal, writer) = Journal::create(lock.into(), TUNING, Policy::Always, BEGINNING).unwrap();
        let mut lost = Lost { sim, journal, writer };
        (0..SLICES).for_each(|_| lost.append());
        assert_eq!(lost.journal.facts().segments, 3);
        lost
    }

    fn append(&mut self) {
        while self.journal.prepare_spare(0).unwrap() {}
        let next = slice(&self.writer, 0, self.writer.next().1, 3_000);
        self.writer.append(&[next], 0).unwrap();
    }

    /// Ends the server. Nothing more is written.
    fn end(self) -> (SimDisk, Manifest) {
        self.sim.end_process();
        let manifest = manifest(&self.sim);
        (self.sim, manifest)
    }

    fn give_base(&self, slice: u64) {
        let base = Base { slice: Lsn::new(slice), position: StreamPosition::new(slice * 3_000), file: None };
        self.journal.set_base(&base, 1 << 20).unwrap();
    }
}

fn manifest(sim: &SimDisk) -> Manifest {
    let Contents::Journal(manifest) = folder(&sim.disk()).contents().unwrap() else { panic!("there is one") };
    manifest
}

/// The path of a segment, and its bytes.
fn segment(sim: &SimDisk, number: u64) -> (PathBuf, Vec<u8>) {
    let path = folder(&sim.disk()).segment(BEGINNING.id, number);
    let bytes = sim.disk().read(&path).unwrap();
    (path, bytes)
}

fn overwrite(sim: &SimDisk, path: &Path, bytes: &[u8]) {
    sim.disk().open(path, Open::Empty).unwrap().write_all_at(0, bytes).unwrap();
}

/// The number of slices that a scan returns, and its verdict. A check agrees.
fn found(sim: &SimDisk) -> (usize, Verdict) {
    let folder = folder(&sim.disk());
    let manifest = manifest(sim);
    let (slices, end) = read(Scan::behind_base(&folder, &manifest).unwrap());
    let report = crate::check(&folder, &mut |_| {}).unwrap();
    assert_eq!(report.end().damage().is_some(), end.damage().is_some(), "{report}\n{:?}", end.verdict);
    (slices.len(), end.verdict)
}

fn is_damaged(sim: &SimDisk) -> bool {
    matches!(found(sim).1, Verdict::Damaged { .. })
}

#[test]
fn a_segment_that_was_cut_is_noticed_wherever() {
    let blocks = TUNING.segment_bytes as usize / BLOCK_BYTES;
    for number in 1..=5 {
        for block in 0..blocks {
            let (sim, manifest) = Lost::new().end();
            assert_eq!(found(&sim), (SLICES as usize, Verdict::Clean));
            let (path, bytes) = segment(&sim, number);
            overwrite(&sim, &path, &bytes[..block * BLOCK_BYTES + 10]);
            let (_, end) = read(Scan::behind_base(&folder(&sim.disk()), &manifest).unwrap());
            let line = end.damage().expect("it is damaged").to_string();
            assert!(line.starts_with(path.to_str().unwrap()), "{number}, {block}: {line}");
            let kept = found(&sim).0;
            let lock: Arc<_> = folder(&sim.disk()).lock().unwrap().into();
            let repair = Repair::plan(&lock).unwrap().expect("it is damaged");
            repair.cut(TUNING).unwrap();
            drop(lock);
            assert_eq!(found(&sim), (kept, Verdict::Clean), "{number}, {block}");
        }
    }
}

/// The tail is overwritten, or another segment is in its place.
#[test]
fn a_tail_that_is_gone_is_noticed_behind_the_mark() {
    for is_swapped in [false, true] {
        for marked in [false, true] {
            let mut lost = Lost::new();
            let (path, _) = segment(&lost.sim, 3);
            let other = segment(&lost.sim, 1).1;
            lost.journal.mark();
            (0..2).for_each(|_| lost.append());
            if marked {
                lost.journal.mark();
            }
            let (sim, _) = lost.end();
            assert_eq!(found(&sim), (SLICES as usize + 2, Verdict::Clean));
            let mut bytes = segment(&sim, 3).1;
            let used = bytes.chunks(BLOCK_BYTES).position(|block| block[0] == 0).unwrap() * BLOCK_BYTES;
            let kept = if is_swapped { 0 } else { used - BLOCK_BYTES };
            bytes[kept..].copy_from_slice(&vec![0; other.len()][kept..]);
            overwrite(&sim, &path, if is_swapped { &other } else { &bytes });
            // Only the mark knows of slices after the last confirmed one.
            assert_eq!(is_damaged(&sim), marked || is_swapped, "swapped: {is_swapped}, marked: {marked}");
        }
    }
}

/// A torn mark is ignored in favour of the other one. A mark of an earlier life does not apply to a later one.
#[test]
fn a_mark_counts_for_its_own_life() {
    let mut lost = Lost::new();
    lost.journal.mark();
    lost.append();
    lost.journal.seal();
    let (sim, old) = lost.end();
    let path = folder(&sim.disk()).mark(BEGINNING.id);
    let bytes = sim.disk().read(&path).unwrap();
    for torn in [0, BLOCK_BYTES] {
        let mut changed = bytes.clone();
        changed[torn + 20..][..15].fill(0x55);
        overwrite(&sim, &path, &changed);
        let mark = crate::mark::Mark::read(&folder(&sim.disk()), BEGINNING.id).unwrap();
        assert_eq!(mark.slice.get(), [SLICES + 1, SLICES][usize::from(torn > 0)]);
        assert_eq!(found(&sim).1, Verdict::Clean);
    }
    overwrite(&sim, &path, &bytes);
    // A copy up to a time was asked for: later slices were durable and are given up.
    let lock = folder(&sim.disk()).lock().unwrap();
    let (slices, mut end) = read(lock.recover(&old).unwrap());
    let place = slices[9].slice.number;
    assert_eq!(place, Lsn::new(10));
    end.verdict = Verdict::Clean;
    let (journal, _) = Journal::resume(lock.into(), TUNING, Policy::Always, &old, &end, None).unwrap();
    assert_eq!((journal.facts().incarnation, found(&sim).1), (2, Verdict::Clean));
    journal.seal();
    assert_eq!(found(&sim).1, Verdict::Clean);
    sim.disk().remove(&path).unwrap();
    assert_eq!(found(&sim).1, Verdict::Clean, "no mark is no damage");
}

/// A start and a check agree, whichever of the files changed places.
#[test]
fn segments_that_changed_places_are_damage_for_a_check_too() {
    for one in 1..=4 {
        for other in one + 1..=5 {
            let lost = Lost::new();
            lost.journal.mark();
            let (sim, _) = lost.end();
            let (first, second) = (segment(&sim, one), segment(&sim, other));
            overwrite(&sim, &first.0, &second.1);
            overwrite(&sim, &second.0, &first.1);
            let (count, verdict) = found(&sim);
            // Where the log continues in the next segment, nothing is lost.
            let is_complete = (count, &verdict) == (SLICES as usize, &Verdict::Clean);
            assert!(
                is_complete != matches!(verdict, Verdict::Damaged { .. }),
                "{one} and {other}: {verdict:?}"
            );
            assert_eq!(is_complete, (one, other) == (3, 4) || one > 3, "{one} and {other}");
        }
    }
}

/// All slices after the base are read, and nothing must be cut, whatever damage the slices in the base have.
#[test]
fn damage_to_what_the_base_has_loses_nothing() {
    for base in [3, 9, 12, 15] {
        for damaged in 1..base {
            let lost = Lost::new();
            lost.give_base(base);
            let (sim, manifest) = lost.end();
            let mut at = damaged - 1;
            let numbers = 1..=3;
            let number = numbers.into_iter().find(|number| {
                let frames =
                    segment(&sim, *number).1.chunks(BLOCK_BYTES).filter(|block| block[0] != 0).count() as u64;
                let is_here = at < frames;
                at -= if is_here { 0 } else { frames };
                is_here
            });
            let (path, mut bytes) = segment(&sim, number.expect("it is in a segment"));
            bytes[at as usize * BLOCK_BYTES + 500] ^= 1;
            overwrite(&sim, &path, &bytes);
            assert_eq!(
                found(&sim),
                ((SLICES - base) as usize, Verdict::Clean),
                "base {base}, slice {damaged}"
            );
            let report = crate::check(&folder(&sim.disk()), &mut |_| {}).unwrap();
            let line = format!("the base has it: 1 slice from {damaged} on, in {}", path.display());
            assert!(report.to_string().contains(&line), "{report}");
            let lock: Arc<_> = folder(&sim.disk()).lock().unwrap().into();
            assert!(Repair::plan(&lock).unwrap().is_none(), "nothing is to be cut");
            let (_, end) = read(lock.recover(&manifest).unwrap());
            let (journal, mut writer) =
                Journal::resume(lock, TUNING, Policy::Always, &manifest, &end, None).unwrap();
            let next = slice(&writer, 0, writer.next().1, 100);
            writer.append(&[next], 0).unwrap();
            assert_eq!(found(&sim).0 as u64, SLICES - base + 1);
            // A replica that was away since then gets a full copy.
            let position = StreamPosition::new((damaged - 1) * 3_000 + 10);
            let mut stream = journal.read_back(position, StreamPosition::new(SLICES * 3_000));
            assert!(stream.next(None).is_err() && !journal.reaches_back_to(position));
        }
    }
}

/// The last slice of the base is damaged, with everything after it, so the end of the log is unknown.
#[test]
fn damage_to_all_behind_a_place_in_the_base_is_refused() {
    let lost = Lost::new();
    lost.give_base(12);
    let (sim, _) = lost.end();
    for number in 2..=3 {
        let (path, mut bytes) = segment(&sim, number);
        bytes.fill(0);
        overwrite(&sim, &path, &bytes);
    }
    assert!(is_damaged(&sim));
    let lock: Arc<_> = folder(&sim.disk()).lock().unwrap().into();
    let repair = Repair::plan(&lock).unwrap().expect("it is damaged");
    assert_eq!(repair.last_slice(), Lsn::new(12));
    repair.cut(TUNING).unwrap();
    drop(lock);
    assert_eq!(found(&sim), (0, Verdict::Clean));
}
