//! Damage to every kind of field of frames and manifest: either exactly the prefix is read, or the folder is refused.

use std::path::PathBuf;
use std::sync::Arc;

use effectlog::{Lsn, Slice};
use proactor::{Disk, Open, SimDisk};

use super::world::{BEGINNING, TUNING, folder, read, slice};
use crate::frame::{BLOCK_BYTES, Frame, HEAD_BYTES, Head, padded_bytes};
use crate::{Contents, ErrorKind, Journal, Manifest, Policy, Repair, Report, Scan, Verdict};

/// A journal that ended well: its slices, and where the frames of each are.
struct Sample {
    sim: SimDisk,
    disk: Disk,
    slices: Vec<Slice>,
    frames: Vec<(PathBuf, u64, Head)>,
}

const SIZES: [usize; 9] = [10, 0, 12_000, 300, 9_000, 3_000, 20_000, 5, 700];

impl Sample {
    fn new() -> Sample {
        let sim = SimDisk::new(1);
        let disk = sim.disk();
        let lock = folder(&disk).lock().unwrap();
        let (journal, mut writer) = Journal::create(lock.into(), TUNING, Policy::Always, BEGINNING).unwrap();
        while journal.prepare_spare(3).unwrap() {}
        let mut slices: Vec<Slice> = Vec::new();
        for bytes in SIZES {
            let next = slice(&writer, 0, writer.next().1, bytes);
            writer.append(std::slice::from_ref(&next), 1_000 + next.number.get()).unwrap();
            slices.push(next);
        }
        let mut sample = Sample { sim, disk, slices, frames: Vec::new() };
        sample.frames = sample.all_frames();
        assert!(sample.frames.len() > 12 && sample.frames.iter().any(|frame| frame.0 != sample.frames[0].0));
        sample
    }

    fn manifest(&self) -> Manifest {
        let Contents::Journal(manifest) = folder(&self.disk).contents().unwrap() else {
            panic!("there is one")
        };
        manifest
    }

    fn all_frames(&self) -> Vec<(PathBuf, u64, Head)> {
        let (manifest, mut frames) = (self.manifest(), Vec::new());
        for number in 1..=manifest.last_number() {
            let path = folder(&self.disk).segment(manifest.id, number);
            let bytes = self.disk.read(&path).unwrap();
            let mut offset = 0;
            while let Some(head) = bytes[offset..].first_chunk().and_then(|bytes| Head::decode(bytes).ok()) {
                frames.push((path.clone(), offset as u64, head));
                offset += padded_bytes(head.payload_bytes);
            }
        }
        frames
    }

    fn bytes(&self, frame: usize) -> Vec<u8> {
        let (path, offset, head) = &self.frames[frame];
        self.disk.read(path).unwrap()[*offset as usize..][..padded_bytes(head.payload_bytes)].to_vec()
    }

    fn put(&self, frame: usize, offset: usize, bytes: &[u8]) {
        let (path, at, _) = &self.frames[frame];
        let file = self.disk.open(path, Open::Write).unwrap();
        file.write_all_at(at + offset as u64, bytes).unwrap();
    }

    /// Checks that the first incomplete slice is the one of this frame, and that everything after `intact_from` is
    /// unchanged.
    #[track_caller]
    fn check(&self, frame: usize, intact_from: usize, what: &str) {
        let lost = self.frames[frame].2.frame.slice;
        let rest = self.frames.get(intact_from..).unwrap_or_default();
        let was_durable = rest.iter().any(|(.., head)| head.frame.durable_slice >= lost);
        self.check_verdict(frame, was_durable, what);
    }

    /// Checks the verdict where the slice was certainly durable.
    #[track_caller]
    fn check_verdict(&self, frame: usize, was_durable: bool, what: &str) {
        let lost = self.frames[frame].2.frame.slice;
        let (slices, end) = read(Scan::behind_base(&folder(&self.disk), &self.manifest()).unwrap());
        let expected = &self.slices[..lost.before().get() as usize];
        assert!(slices.iter().map(|scanned| &scanned.slice).eq(expected), "{what}: not the prefix");
        let is_damaged = matches!(end.verdict, Verdict::Damaged { .. });
        assert_eq!(is_damaged, was_durable, "{what}: {:?}", end.verdict);
        assert_eq!(end.place.slice, lost);
        if is_damaged {
            let line = end.damage().unwrap().to_string();
            assert!(line.contains(&format!("slice {lost}")) && line.contains(".seg at byte "), "{line}");
        }
        let lock = folder(&self.disk).lock();
        if let Ok(lock) = lock {
            let opened = Journal::resume(lock.into(), TUNING, Policy::Always, &self.manifest(), &end, None);
            assert_eq!(opened.is_err(), is_damaged, "{what}");
        }
    }
}

/// Changes each frame, in a journal of its own.
fn for_each_frame(what: &str, change: impl Fn(&Sample, usize)) {
    for frame in 0..Sample::new().frames.len() {
        let sample = Sample::new();
        change(&sample, frame);
        sample.check(frame, frame + 1, &format!("{what}, frame {frame}"));
    }
}

#[test]
fn an_undamaged_journal_is_clean() {
    let sample = Sample::new();
    let (slices, end) = read(Scan::everything(&folder(&sample.disk), &sample.manifest()).unwrap());
    assert!(slices.iter().map(|scanned| &scanned.slice).eq(&sample.slices));
    assert_eq!(end.verdict, Verdict::Clean);
}

#[test]
fn a_flipped_bit_in_any_field_ends_the_log() {
    let fields = [0, 8, 16, 20, 22, 24, 32, 40, 44, 48, 56, 64, 72, 80];
    for field in fields {
        for_each_frame(&format!("a bit at {field}"), |sample, frame| {
            let byte = sample.bytes(frame)[field];
            sample.put(frame, field, &[byte ^ 4]);
        });
    }
    let sample = Sample::new();
    for frame in (0..sample.frames.len()).filter(|frame| sample.frames[*frame].2.payload_bytes > 0) {
        for at in [0, sample.frames[frame].2.payload_bytes - 1] {
            let sample = Sample::new();
            let byte = sample.bytes(frame)[HEAD_BYTES + at];
            sample.put(frame, HEAD_BYTES + at, &[byte ^ 128]);
            sample.check(frame, frame + 1, "the payload");
        }
    }
}

#[test]
fn a_frame_with_another_field_and_right_checksums_ends_the_log() {
    type Change = fn(&mut Frame);
    let changes: [(&str, Change); 9] = [
        ("journal", |frame| frame.journal_id += 1),
        ("former life", |frame| frame.incarnation -= 1),
        ("later life", |frame| frame.incarnation += 1),
        ("first", |frame| frame.is_first = !frame.is_first),
        ("slice", |frame| frame.slice = frame.slice.next()),
        ("slice before", |frame| frame.slice = frame.slice.before()),
        ("position", |frame| frame.position = frame.position.plus(1)),
        ("chain", |frame| frame.before ^= 1),
        ("before", |frame| frame.before = 0x1234),
    ];
    for (what, change) in changes {
        for_each_frame(what, |sample, frame| {
            let (.., head) = sample.frames[frame];
            let mut changed = head.frame;
            change(&mut changed);
            let payload = sample.bytes(frame)[HEAD_BYTES..][..head.payload_bytes].to_vec();
            sample.put(frame, 0, &changed.to_bytes(&payload));
        });
    }
}

#[test]
fn a_frame_that_is_written_again_with_other_words_breaks_the_chain_behind_it() {
    // The database, the times and the end of the slice are in no sequence, but the next frame has the checksum of the
    // head.
    let sample = Sample::new();
    for frame in 0..sample.frames.len() - 1 {
        for change in 0..3 {
            let sample = Sample::new();
            let (.., head) = sample.frames[frame];
            let mut changed = head.frame;
            match change {
                0 => changed.db = None,
                1 => changed.unix_ms += 1,
                _ => changed.durable_slice = Lsn::NONE,
            }
            let payload = sample.bytes(frame)[HEAD_BYTES..][..head.payload_bytes].to_vec();
            if changed == head.frame {
                continue;
            }
            sample.put(frame, 0, &changed.to_bytes(&payload));
            let (slices, end) = read(Scan::behind_base(&folder(&sample.disk), &sample.manifest()).unwrap());
            let next = sample.frames[frame + 1].2.frame.slice;
            assert_eq!((slices.len() as u64, end.place.slice), (next.before().get(), next));
            assert!(
                matches!(end.verdict, Verdict::Damaged { .. } | Verdict::Torn { .. }),
                "{:?}",
                end.verdict
            );
        }
    }
}

#[test]
fn frames_that_are_swapped_repeated_or_gone_end_the_log() {
    let sizes: Vec<usize> =
        Sample::new().frames.iter().map(|frame| padded_bytes(frame.2.payload_bytes)).collect();
    for one in 0..sizes.len() {
        for other in (0..sizes.len()).filter(|other| *other != one && sizes[*other] == sizes[one]) {
            // Repeated: the other frame is where this one was.
            let sample = Sample::new();
            sample.put(one, 0, &sample.bytes(other));
            sample.check(one, one + 1, &format!("{other} in the place of {one}"));
            let sample = Sample::new();
            let (first, second) = (sample.bytes(one), sample.bytes(other));
            sample.put(one, 0, &second);
            sample.put(other, 0, &first);
            let (first, last) = (one.min(other), one.max(other));
            // The frame that comes too early still names the last durable slice of its time.
            sample.check(first, first + 1, &format!("{first} and {last} swapped"));
        }
    }
    for_each_frame("zeros", |sample, frame| {
        let len = sample.bytes(frame).len();
        sample.put(frame, 0, &vec![0; len]);
    });
}

#[test]
fn a_segment_that_is_cut_or_missing_is_noticed() {
    let count = Sample::new().frames.len();
    for frame in 0..count {
        for ahead in [0, 1, HEAD_BYTES, HEAD_BYTES + 1] {
            let sample = Sample::new();
            let (path, offset, head) = sample.frames[frame].clone();
            if ahead >= HEAD_BYTES + head.payload_bytes {
                continue;
            }
            let bytes = sample.disk.read(&path).unwrap();
            let file = sample.disk.open(&path, Open::Empty).unwrap();
            file.write_all_at(0, &bytes[..offset as usize + ahead]).unwrap();
            // The mark shows it, too, where no frame does.
            sample.check_verdict(frame, true, &format!("cut at {ahead} bytes of frame {frame}"));
        }
    }
    let sample = Sample::new();
    let manifest = sample.manifest();
    for number in 1..=manifest.last_number() {
        let sample = Sample::new();
        let path = folder(&sample.disk).segment(manifest.id, number);
        sample.disk.remove(&path).unwrap();
        let (_, end) = read(Scan::behind_base(&folder(&sample.disk), &manifest).unwrap());
        let line = end.damage().unwrap().to_string();
        assert!(line.contains("missing") && line.starts_with(path.to_str().unwrap()), "{line}");
    }
}

#[test]
fn a_damaged_manifest_is_refused_and_never_replaced() {
    let sample = Sample::new();
    let path = folder(&sample.disk).path().join("journal.manifest");
    let text = sample.disk.read(&path).unwrap();
    for byte in 0..text.len() {
        let mut changed = text.clone();
        changed[byte] ^= 1;
        sample.disk.open(&path, Open::Empty).unwrap().write_all_at(0, &changed).unwrap();
        let error = folder(&sample.disk).contents().unwrap_err();
        assert!(error.to_string().starts_with("data/appendonlydir/journal.manifest at byte "), "{error}");
        if let Ok(lock) = folder(&sample.disk).lock() {
            assert!(Journal::create(lock.into(), TUNING, Policy::No, BEGINNING).is_err());
        }
        assert_eq!(sample.disk.read(&path).unwrap(), changed);
    }
    let newer = String::from_utf8(text).unwrap().replace("JOURNAL 2", "JOURNAL 3");
    sample.disk.open(&path, Open::Empty).unwrap().write_all_at(0, newer.as_bytes()).unwrap();
    let error = folder(&sample.disk).contents().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Version);
    assert!(error.to_string().contains("a newer version of Darter"), "{error}");
}

fn check(disk: &Disk) -> Report {
    crate::check(&folder(disk), &mut |_| {}).unwrap()
}

#[test]
fn a_check_tells_what_there_is_and_a_repair_cuts_at_the_damage() {
    let sample = Sample::new();
    let report = check(&sample.disk).to_string();
    assert!(report.contains("journal 000000000000abcd: incarnation 1, 16 databases"), "{report}");
    assert!(report.contains("-1.seg: slices 1 to 4, positions 0 to 12310, unix ms 1001 to 1004 (1970-01-01 00:00:01 to 1970-01-01 00:00:01 UTC)"), "{report}");
    assert!(report.contains("clean: the log ends behind slice 9, position 45015"), "{report}");
    let lock: Arc<_> = folder(&sample.disk).lock().unwrap().into();
    assert!(Repair::plan(&lock).unwrap().is_none(), "nothing is to be cut");
    assert_eq!(check(&sample.disk).outlook(), "a start loads 9 slices");

    // Slice 3 has several frames. The second one is damaged.
    let frame = sample.frames.iter().position(|frame| frame.2.frame.slice == Lsn::new(3)).unwrap() + 1;
    sample.put(frame, 100, b"damage");
    let report = check(&sample.disk).to_string();
    assert!(
        report.contains("damaged: data/appendonlydir/journal-000000000000abcd-1.seg at byte"),
        "{report}"
    );
    let rest = "7 slices (45005 bytes) written from unix ms 1003 to 1009 (1970-01-01 00:00:01 to 1970-01-01 00:00:01 UTC)";
    let outlook = format!(
        "a start is refused: restore the file from a copy, or give up {rest} with --journal-repair truncate"
    );
    assert_eq!(check(&sample.disk).outlook(), outlook);
    let before = sample.all_bytes();
    let repair = Repair::plan(&lock).unwrap().expect("it is damaged");
    assert_eq!((repair.last_slice(), repair.rest().to_string().as_str()), (Lsn::new(2), rest));
    let aside = repair.cut(TUNING).unwrap();
    assert!(aside.iter().any(|path| path.ends_with("journal-000000000000abcd-1.seg.cut-1")), "{aside:?}");
    let after = sample.all_bytes();
    assert!(before.iter().all(|bytes| after.contains(bytes)), "nothing is lost: {aside:?}");
    let manifest = sample.manifest();
    assert_eq!(manifest.incarnation, 2);
    let (slices, end) = read(Scan::behind_base(&folder(&sample.disk), &manifest).unwrap());
    assert_eq!((slices.len(), &end.verdict), (2, &Verdict::Clean));
    let (_, mut writer) = Journal::resume(lock, TUNING, Policy::Always, &manifest, &end, None).unwrap();
    let next = slice(&writer, 0, writer.next().1, 50);
    assert_eq!(writer.append(&[next], 0).unwrap(), Lsn::new(3));
    let (slices, end) = read(Scan::behind_base(&folder(&sample.disk), &sample.manifest()).unwrap());
    assert_eq!((slices.len(), end.verdict), (3, Verdict::Clean));
}

#[test]
fn a_repair_in_which_the_power_fails_is_done_again() {
    let mut spared = 0;
    loop {
        let sample = Sample::new();
        let frame = sample.frames.iter().position(|frame| frame.2.frame.slice == Lsn::new(3)).unwrap() + 1;
        sample.put(frame, 100, b"damage");
        // The data there are on disk.
        for path in sample.frames.iter().map(|frame| &frame.0) {
            sample.disk.open(path, Open::Write).unwrap().sync().unwrap();
        }
        let before = sample.all_bytes();
        let repair = || -> Result<bool, crate::Error> {
            let lock = Arc::new(folder(&sample.disk).lock()?);
            Ok(Repair::plan(&lock)?.map(|repair| repair.cut(TUNING)).transpose()?.is_some())
        };
        sample.sim.fail_power_after(spared);
        let is_done = repair().is_ok();
        sample.sim.crash();
        let again = repair().unwrap();
        assert!(!is_done || !again, "{spared}: what was repaired is durable");
        let (slices, end) = read(Scan::behind_base(&folder(&sample.disk), &sample.manifest()).unwrap());
        assert_eq!((slices.len(), end.verdict), (2, Verdict::Clean), "{spared}");
        let after = sample.all_bytes();
        assert!(before.iter().all(|bytes| after.contains(bytes)), "{spared}: something is lost");
        if is_done {
            break;
        }
        spared += 1;
    }
    assert!(spared > 10, "it fails everywhere: {spared}");
}

#[test]
fn what_comes_behind_a_time_is_set_aside() {
    for until in 1_000..1_010 {
        let sample = Sample::new();
        let lock = folder(&sample.disk).lock().unwrap();
        let (slices, end) = read(lock.recover(&sample.manifest()).unwrap().until(until));
        assert_eq!(slices.len() as u64, (until - 1_000).min(9));
        let before = sample.all_bytes();
        let (_, mut writer) =
            Journal::resume(lock.into(), TUNING, Policy::Always, &sample.manifest(), &end, None).unwrap();
        let next = slice(&writer, 0, writer.next().1, 50);
        let written = writer.append(&[next], 0).unwrap().get();
        let after = sample.all_bytes();
        assert!(until > 1_008 || before.iter().all(|bytes| after.contains(bytes)), "nothing is lost");
        let (slices, end) = read(Scan::behind_base(&folder(&sample.disk), &sample.manifest()).unwrap());
        assert_eq!((slices.len() as u64, end.verdict), (written, Verdict::Clean));
    }
}

impl Sample {
    /// The content of all files except the manifest.
    fn all_bytes(&self) -> Vec<Vec<u8>> {
        let folder = folder(&self.disk);
        let names = self.disk.list(folder.path()).unwrap();
        let segments = names.into_iter().filter(|name| name.to_string_lossy().contains(".seg"));
        segments.map(|name| self.disk.read(&folder.path().join(name)).unwrap()).collect()
    }
}

#[test]
fn blocks_are_the_unit_of_everything() {
    assert!(Sample::new().frames.iter().all(|frame| frame.1.is_multiple_of(BLOCK_BYTES as u64)));
}
