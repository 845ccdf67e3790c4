//! Writes the files of a snapshot, and turns them into the snapshot when they are complete.
//!
//! * In Redis' format there is one file; at the end, large values are appended to it from files of their own.
//! * In Darter's format there is a part for each thread, with the keys of its home shards, and further parts for large
//!   values. They are renamed when all of them are durable, and belong to the snapshot when the manifest that names
//!   them has been renamed.
//!
//! Until then all files have temporary names, and any failure leaves the old snapshot.
//!
//! A snapshot for replicas is written in Redis' format and never synced. Its files are unlinked as soon as
//! they are open, so they disappear with the last process or thread that has them open, however that ends.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Weak;

use proactor::{DiskFile, DiskWriter, Open};
use rdb::{Encoder, Manifest, Style};

use crate::names::{Names, part_name};
use crate::scribe::{LANES, Saving};
use crate::snapshots::{Settings, Snapshots};
use crate::spool::{Spool, SpoolState};

/// After this many bytes, the system is told to begin writing a file to the disk.
const SYNCED_BYTES: u64 = 4 * 1024 * 1024;
/// At most this many bytes are written before readers of the file are told.
const SPOOLED_BYTES: usize = 256 * 1024;
/// The number of the file that becomes the manifest.
const MANIFEST: u16 = u16::MAX;

/// The form of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotForm {
    /// How values are encoded.
    pub style: Style,
    /// In Darter's own format: the id of the snapshot. `None` in Redis' format.
    id: Option<u64>,
    /// The number of files that contain more than one large value; these have the first numbers.
    main_count: u16,
}

impl SnapshotForm {
    /// The form that the settings ask for, for a snapshot that a server with this many threads saves at
    /// `now_ms`.
    pub fn wanted(settings: &Settings, now_ms: u64, thread_count: u16) -> SnapshotForm {
        let style = settings.style;
        let numbers = 1..MANIFEST - u16::from(LANES);
        assert!(numbers.contains(&thread_count), "{thread_count} threads: files would share their numbers");
        match settings.has_own_format {
            false => SnapshotForm { style, id: None, main_count: 1 },
            true => SnapshotForm { style, id: Some(settings.names.new_id(now_ms)), main_count: thread_count },
        }
    }

    /// Whether it has parts.
    pub(crate) fn has_parts(self) -> bool {
        self.id.is_some()
    }

    /// The file for the keys of this thread's home shards.
    pub(crate) fn file_of(self, thread: u16) -> u16 {
        let file = if self.id.is_some() { thread } else { 0 };
        assert!(file < self.main_count, "thread {thread} would write among large values");
        file
    }

    /// The file for the large values of this lane; lanes are numbered from 1.
    pub(crate) fn file_of_lane(self, lane: u8) -> u16 {
        assert!((1..=LANES).contains(&lane), "lane {lane} is for no large value");
        self.main_count + u16::from(lane) - 1
    }
}

/// See the head of this file.
pub(crate) struct Output<'a> {
    snapshots: &'a Snapshots,
    /// The settings at the beginning of the save.
    settings: Settings,
    pub(crate) form: SnapshotForm,
    is_background: bool,
    files: BTreeMap<u16, Encoder<Sink>>,
    /// Parts that have been renamed.
    named: Vec<PathBuf>,
    /// The spool from which the main file is read while it is written, if it is for replicas.
    spool: Option<Weak<Spool>>,
}

impl<'a> Output<'a> {
    pub(crate) fn new(
        snapshots: &'a Snapshots,
        settings: Settings,
        form: SnapshotForm,
        is_background: bool,
        spool: Option<Weak<Spool>>,
    ) -> Output<'a> {
        Output { snapshots, settings, form, is_background, files: BTreeMap::new(), named: Vec::new(), spool }
    }

    /// Whether it was for readers and all of them have gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.spool.as_ref().is_some_and(|spool| spool.strong_count() == 0)
    }

    /// Tells its readers, if there are any, that nothing more follows: it is complete, or has failed.
    pub(crate) fn end_spool(&mut self, is_complete: bool) {
        let Some(spool) = &self.spool else { return };
        self.files.clear();
        if let Some(spool) = spool.upgrade() {
            spool.end(if is_complete { SpoolState::Complete } else { SpoolState::Failed });
        }
    }

    /// Describes an error of the files, for the log.
    pub(crate) fn trouble(&self, error: &io::Error) -> String {
        match self.spool {
            None => error.to_string(),
            Some(_) => {
                let path = self.path(0);
                let folder = path.parent().expect("a file is in a folder");
                format!("{error}, while writing a temporary file in {}", folder.display())
            }
        }
    }

    fn names(&self) -> &Names {
        &self.settings.names
    }

    fn path(&self, file: u16) -> PathBuf {
        self.names().temporary_path(self.is_background, file)
    }

    /// The encoder that writes to the file of this number.
    pub(crate) fn file(&mut self, number: u16) -> io::Result<&mut Encoder<Sink>> {
        if !self.files.contains_key(&number) {
            let mut file = DiskWriter::new(self.open(number)?);
            if let Some(id) = self.form.id {
                file.write_all(&rdb::part_head(id, number.into()))?;
            }
            let is_framed = self.form.id.is_some();
            let begins_early = self.settings.begins_early;
            let spool = if number == 0 { self.spool.clone() } else { None };
            let sink = Sink { file, is_framed, begins_early, begun: 0, spool };
            let encoder = match is_framed {
                true => Encoder::unsummed(sink, self.form.style),
                false => Encoder::styled(sink, self.form.style),
            };
            self.files.insert(number, encoder);
        }
        Ok(self.files.get_mut(&number).expect("it was just put there"))
    }

    fn open(&self, number: u16) -> io::Result<DiskFile> {
        let (path, disk) = (self.path(number), self.names().disk());
        let file = disk.open(&path, Open::Empty)?;
        if let Some(spool) = &self.spool {
            let reader = if number == 0 { Some(disk.open(&path, Open::Read)) } else { None };
            disk.remove(&path)?;
            if let (Some(reader), Some(spool)) = (reader, spool.upgrade()) {
                spool.begin(reader?);
            }
        }
        Ok(file)
    }

    /// Turns the files into the snapshot, unless `saving` was cancelled. Returns its length and name.
    pub(crate) fn complete(&mut self, saving: Option<&Saving>) -> io::Result<(u64, String)> {
        self.file(0)?;
        if self.spool.is_some() {
            return Ok((self.put_together()?, String::new()));
        }
        let name = self.names().name_at(self.snapshots.clock.now_ms());
        let (bytes, last) = match self.form.id {
            None => (self.put_together()?, 0),
            Some(id) => (self.name_parts(id, &name)?, MANIFEST),
        };
        let made = self.snapshots.make_snapshot(self.names(), &self.path(last), &name, saving);
        if !self.names().disk().has(&self.path(last)) {
            // The parts belong to the manifest now, whether it is durable or not.
            self.named.clear();
        }
        made?;
        self.names().remove_parts(&name, self.form.id);
        Ok((bytes, name))
    }

    /// Removes files that did not become the snapshot.
    pub(crate) fn discard(&mut self) {
        self.files.clear();
        if self.spool.is_some() {
            return;
        }
        let numbers = (0..=self.form.file_of_lane(LANES)).chain([MANIFEST]);
        for path in numbers.map(|number| self.path(number)).chain(self.named.clone()) {
            // Most of them do not exist.
            let _ = self.names().disk().remove(&path);
        }
    }

    /// Joins all files into one and makes it durable if it becomes the snapshot. Returns its length.
    fn put_together(&mut self) -> io::Result<u64> {
        let mut files = std::mem::take(&mut self.files).into_values();
        let mut main = files.next().expect("it was just asked for");
        for lane in files {
            let (lane, piece) = lane.into_piece()?;
            main.append(&mut lane.file.into_reader()?, piece)?;
        }
        main.end(self.settings.has_checksum)?;
        let bytes = main.offset();
        let file = main.finish()?.file;
        assert_eq!(file.written_bytes(), bytes, "the file lacks something that was encoded for it");
        if self.spool.is_none() {
            file.file().sync()?;
        }
        Ok(bytes)
    }

    /// Makes the parts durable, renames them, and writes the manifest. Returns their total length.
    fn name_parts(&mut self, id: u64, name: &str) -> io::Result<u64> {
        let mut parts = Vec::new();
        for (number, encoder) in std::mem::take(&mut self.files) {
            let sink = encoder.finish()?;
            sink.file.file().sync()?;
            parts.push((u32::from(number), sink.file.written_bytes()));
            let path = self.names().path(&part_name(name, id, number.into()));
            self.names().disk().rename(&self.path(number), &path)?;
            self.named.push(path);
        }
        self.names().sync()?;
        let bytes: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
        let text = Manifest { id, parts }.encode();
        let file = self.names().disk().open(&self.path(MANIFEST), Open::Empty)?;
        file.write_all_at(0, text.as_bytes())?;
        file.sync()?;
        Ok(bytes + text.len() as u64)
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        // A spool that has ended ignores this.
        self.end_spool(false);
    }
}

/// The destination of an encoder.
pub(crate) struct Sink {
    file: DiskWriter,
    is_framed: bool,
    /// Whether the disk begins to write early, so that the final sync need not wait for everything.
    begins_early: bool,
    /// The number of bytes that the disk has begun to write.
    begun: u64,
    /// The spool through which readers read it meanwhile.
    spool: Option<Weak<Spool>>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_framed {
            rdb::write_frames(bytes, &mut self.file)?;
        } else if let Some(spool) = &self.spool {
            let bytes = &bytes[..bytes.len().min(SPOOLED_BYTES)];
            self.file.write_all(bytes)?;
            spool.upgrade().ok_or(io::ErrorKind::BrokenPipe)?.advance(self.file.written_bytes());
            return Ok(bytes.len());
        } else {
            self.file.write_all(bytes)?;
        }
        let written = self.file.written_bytes();
        if self.begins_early && written - self.begun >= SYNCED_BYTES {
            self.file.file().begin_write_out(self.begun, written);
            self.begun = written;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
