//! Reads a snapshot in Darter's own format: the manifest, and then its parts. The next idle thread reads the
//! next part.

use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rdb::{FileReader, FrameReader, Item, MANIFEST_BYTES_MAX, Manifest};

use super::{Counted, Others, Target, on_heap_to_serve};
use crate::error::Error;
use crate::names::part_name;

/// The state that loaders share.
struct Parts<'a> {
    target: &'a Target<'a>,
    manifest: Manifest,
    /// The index in the manifest of the next part to read.
    next: AtomicUsize,
    has_failed: AtomicBool,
    /// Items that are not keys, with the part that contains them.
    others: Mutex<Vec<(String, Item)>>,
}

impl Parts<'_> {
    /// Reads parts until none is left.
    fn work(&self) -> Result<(), Error> {
        while let Some(part) = self.manifest.parts.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            if self.has_failed.load(Ordering::Relaxed) {
                break;
            }
            self.read(*part).inspect_err(|_| self.has_failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    }

    fn read(&self, (number, bytes): (u32, u64)) -> Result<(), Error> {
        let (target, id) = (self.target, self.manifest.id);
        let name = part_name(target.name, id, number);
        let file = target.reader(&name);
        let file =
            file.map_err(|cause| target.error_in(&name, rdb::Error { offset: 0, why: cause.into() }))?;
        let frames = FrameReader::new(Counted::new(file, target), id, number, bytes);
        let mut part = FileReader::of_part(frames, 0, false);
        let mut take_other = |item| {
            self.others.lock().expect("nobody panicked").push((name.clone(), item));
            Ok(())
        };
        let taken = target.take_items(&mut part, 0, &mut take_other);
        taken.map_err(|error| target.error_in(&name, part.source_mut().located(error)))
    }
}

impl Others<'_, '_> {
    /// Reads all parts that the manifest in `file` lists, together with the other threads.
    pub(super) fn read_parts(&mut self, file: Counted) -> Result<(), Error> {
        let target = self.target;
        let mut text = Vec::new();
        let read = file.take(MANIFEST_BYTES_MAX as u64).read_to_end(&mut text);
        let manifest = read.map_err(|cause| rdb::Error { offset: 0, why: cause.into() });
        let manifest = manifest.and_then(|_| Manifest::decode(&text));
        let manifest = manifest.map_err(|error| target.error_in(target.name, error))?;
        let bytes = manifest.parts.iter().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
        target.load.progress.begin_file(bytes);
        let (next, has_failed, others) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::default());
        let parts = Parts { target, manifest, next, has_failed, others };
        let done = match target.load.thread_count {
            0 => vec![parts.work()],
            thread_count => std::thread::scope(|scope| {
                let work = || on_heap_to_serve(|| parts.work());
                let loaders: Vec<_> = (0..thread_count).map(|_| scope.spawn(work)).collect();
                loaders.into_iter().map(|loader| loader.join().expect("it did not panic")).collect()
            }),
        };
        done.into_iter().collect::<Result<(), Error>>()?;
        let tried = parts.next.into_inner();
        assert!(tried >= parts.manifest.parts.len(), "no part was left out");
        for (name, item) in parts.others.into_inner().expect("nobody panicked") {
            self.take(item).map_err(|error| target.error_in(&name, error))?;
        }
        Ok(())
    }
}
