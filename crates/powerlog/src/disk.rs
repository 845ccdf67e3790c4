//! A disk at a moment of a recording: the changes that are certainly on it, and those that may be.
//!
//! Changes wait in the order in which they were made, until a sync makes them sure. The sure ones at the
//! front are *settled*. An image consists of the settled changes, then of all waiting changes that are sure,
//! and of those others that the seed selects.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ds::random::Random;

use crate::event::{Bytes, Event, FileId, What};
use crate::file::File;

/// The unit that a disk usually writes as a whole.
const SECTOR: u64 = 512;
/// The most calls that can be under way at once.
const CALLS_AT_ONCE: usize = 64;

/// The states in which a power failure may leave changes that no sync has covered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// Any state, as POSIX allows: each sector and each name is kept or lost by itself, and the sync of a
    /// file does not cover its name.
    Any,
    /// The states that ext4 leaves in its usual mode (`data=ordered`): names change in their order, each sync
    /// makes them durable, and where a file grows, a beginning of the appended bytes is left, never a hole.
    Ordered,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    File(FileId),
    Directory,
}

type Names = BTreeMap<PathBuf, Entry>;

/// A change that is not settled.
#[derive(Clone, Debug)]
struct Waiting<T> {
    /// A moment after its call had ended.
    end: u64,
    /// Whether a sync has covered it.
    is_sure: bool,
    change: T,
}

#[derive(Clone, Copy, Debug)]
enum Change<'e> {
    Write(u64, &'e Bytes),
    Length(u64),
}

#[derive(Clone, Debug)]
enum Naming {
    Put(PathBuf, Entry),
    Move(PathBuf, PathBuf, Entry),
    Drop(PathBuf),
}

#[derive(Clone, Debug, Default)]
struct Kept<'e> {
    settled: File,
    waiting: Vec<Waiting<Change<'e>>>,
}

/// A disk that advances through the events of a recording.
#[derive(Debug)]
pub struct Disk<'e> {
    events: &'e [Event],
    promise: Promise,
    /// The number of events that have ended.
    ended: usize,
    moment: u64,
    files: HashMap<FileId, Kept<'e>>,
    /// The names as the program sees them.
    seen: Names,
    settled: Names,
    waiting: Vec<Waiting<Naming>>,
}

/// How many of the changes that are not sure are kept.
#[derive(Clone, Copy, Debug)]
enum Luck {
    All,
    Nothing,
    /// Each with this probability, in percent.
    Some(u64),
}

impl Luck {
    fn keeps(self, random: &mut Random) -> bool {
        match self {
            Luck::All => true,
            Luck::Nothing => false,
            Luck::Some(chance) => random.below(100) < chance,
        }
    }
}

impl<'e> Disk<'e> {
    /// A disk before the first of these events, which are in the order in which they ended.
    pub fn new(events: &'e [Event], promise: Promise) -> Disk<'e> {
        Disk {
            events,
            promise,
            ended: 0,
            moment: 0,
            files: HashMap::new(),
            seen: Names::new(),
            settled: Names::new(),
            waiting: Vec::new(),
        }
    }

    /// Advances to a later moment.
    pub fn advance(&mut self, moment: u64) {
        self.moment = moment;
        while let Some(event) = self.events.get(self.ended).filter(|event| event.end <= moment) {
            self.ended += 1;
            self.apply(event);
        }
    }

    fn apply(&mut self, event: &'e Event) {
        let end = event.end;
        match &event.what {
            What::Write { file, offset, bytes, is_durable } => {
                let change = Change::Write(*offset, bytes);
                self.file(*file).wait_for(Waiting { end, is_sure: *is_durable, change });
            }
            What::SetLength { file, bytes } => {
                self.file(*file).wait_for(Waiting { end, is_sure: false, change: Change::Length(*bytes) });
            }
            What::Sync { file } => {
                self.file(*file).sync(event.begin);
                if self.promise == Promise::Ordered {
                    self.sync_names(event.begin, |_| true);
                }
            }
            What::SyncDirectory { path } => {
                let all = self.promise == Promise::Ordered;
                self.sync_names(event.begin, |name| all || name.parent() == Some(path));
            }
            what => {
                if let Some(change) = naming(what, &self.seen) {
                    change.apply(&mut self.seen);
                    self.waiting.push(Waiting { end, is_sure: false, change });
                }
            }
        }
    }

    fn file(&mut self, file: FileId) -> &mut Kept<'e> {
        self.files.entry(file).or_default()
    }

    /// Makes those names sure that a sync covers which began at `begin`.
    fn sync_names(&mut self, begin: u64, covers: impl Fn(&Path) -> bool) {
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.end < begin) {
            waiting.is_sure |= covers(waiting.change.path());
        }
        let sure = self.waiting.iter().take_while(|waiting| waiting.is_sure).count();
        for waiting in self.waiting.drain(..sure) {
            waiting.change.apply(&mut self.settled);
        }
    }

    /// Writes to `folder`, which is empty, a state that a power failure at this moment may leave.
    pub fn image(&self, seed: u64, folder: &Path) -> io::Result<()> {
        let mut random = Random::new(seed);
        let luck = match random.below(6) {
            0 => Luck::Nothing,
            1 => Luck::All,
            _ => Luck::Some([5, 50, 90, 97][random.below(4) as usize]),
        };
        let under_way: Vec<&Event> = self.events[self.ended..]
            .iter()
            .take(CALLS_AT_ONCE)
            .filter(|event| event.begin <= self.moment)
            .collect();
        for (path, entry) in self.names_left(&under_way, luck, &mut random) {
            let path = folder.join(path);
            match entry {
                // Paths come in an order in which a directory comes before its contents.
                Entry::Directory => fs::create_dir(path)?,
                Entry::File(id) => {
                    // Seeded by the file's number, so that a file with two names has the same bytes under
                    // both.
                    let mut random = Random::new(seed.wrapping_add(id << 32));
                    let kept = self.files.get(&id).cloned().unwrap_or_default();
                    kept.left(id, &under_way, self.promise, luck, &mut random).store(&path)?;
                }
            }
        }
        Ok(())
    }

    /// The names that a power failure leaves; those in directories that are lost are lost as well.
    fn names_left(&self, under_way: &[&Event], luck: Luck, random: &mut Random) -> Names {
        let mut names = self.settled.clone();
        let begun = under_way.iter().filter_map(|event| naming(&event.what, &self.seen));
        let begun = begun.map(|change| Waiting { end: u64::MAX, is_sure: false, change });
        let mut is_cut = false;
        for waiting in self.waiting.iter().cloned().chain(begun) {
            let keeps = luck.keeps(random);
            is_cut |= self.promise == Promise::Ordered && !keeps && !waiting.is_sure;
            if waiting.is_sure || keeps && !is_cut {
                waiting.change.apply(&mut names);
            }
        }
        let mut there = Names::new();
        for (path, entry) in names {
            let parent = path.parent().unwrap_or(Path::new(""));
            if parent.as_os_str().is_empty() || there.get(parent) == Some(&Entry::Directory) {
                there.insert(path, entry);
            }
        }
        there
    }

    /// The places where a folder differs from the recording up to now; empty unless a call was missed.
    pub fn differences(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut differences = Vec::new();
        let mut folders = vec![folder.to_owned()];
        let mut there = Vec::new();
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path.clone());
                }
                there.push(path.strip_prefix(folder).map_err(io::Error::other)?.to_owned());
            }
        }
        for path in &there {
            match self.seen.get(path) {
                None => differences.push(format!("{}: nobody made it", path.display())),
                Some(Entry::Directory) => {}
                Some(Entry::File(id)) => {
                    let kept = self.files.get(id).cloned().unwrap_or_default();
                    let random = &mut Random::new(0);
                    let file = kept.left(*id, &[], Promise::Ordered, Luck::All, random);
                    if let Some(at) = file.differs(&fs::read(folder.join(path))?) {
                        differences.push(format!("{}: differs from byte {at} on", path.display()));
                    }
                }
            }
        }
        let gone = self.seen.keys().filter(|path| !there.contains(path));
        differences.extend(gone.map(|path| format!("{}: nobody removed it", path.display())));
        Ok(differences)
    }
}

/// The change that an event makes to names, as the program sees them.
fn naming(what: &What, seen: &Names) -> Option<Naming> {
    Some(match what {
        What::Create { path, file } => Naming::Put(path.clone(), Entry::File(*file)),
        What::MakeDirectory { path } => Naming::Put(path.clone(), Entry::Directory),
        What::Rename { from, to } => Naming::Move(from.clone(), to.clone(), *seen.get(from)?),
        What::Link { from, to } => Naming::Put(to.clone(), *seen.get(from)?),
        What::Remove { path } => Naming::Drop(path.clone()),
        What::Write { .. } | What::SetLength { .. } | What::Sync { .. } | What::SyncDirectory { .. } => {
            return None;
        }
    })
}

impl Naming {
    /// The name whose directory must be synced.
    fn path(&self) -> &Path {
        match self {
            Naming::Put(path, _) | Naming::Move(_, path, _) | Naming::Drop(path) => path,
        }
    }

    fn apply(&self, names: &mut Names) {
        match self {
            Naming::Put(path, entry) => drop(names.insert(path.clone(), *entry)),
            Naming::Move(from, to, entry) => {
                if names.get(from) == Some(entry) {
                    names.remove(from);
                }
                names.insert(to.clone(), *entry);
            }
            Naming::Drop(path) => drop(names.remove(path)),
        }
    }
}

impl<'e> Kept<'e> {
    fn wait_for(&mut self, waiting: Waiting<Change<'e>>) {
        self.waiting.push(waiting);
        self.settle();
    }

    /// Makes those bytes sure that a sync covers which began at `begin`.
    fn sync(&mut self, begin: u64) {
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.end < begin) {
            waiting.is_sure = true;
        }
        self.settle();
    }

    fn settle(&mut self) {
        let sure = self.waiting.iter().take_while(|waiting| waiting.is_sure).count();
        for waiting in self.waiting.drain(..sure) {
            match waiting.change {
                Change::Write(offset, bytes) => self.settled.write(offset, bytes),
                Change::Length(bytes) => self.settled.set_length(bytes),
            }
        }
    }

    /// The file as a power failure leaves it.
    fn left(
        self,
        id: FileId,
        under_way: &[&'e Event],
        promise: Promise,
        luck: Luck,
        random: &mut Random,
    ) -> File {
        let mut rest = Rest { file: self.settled, promise, luck, is_cut: false };
        let begun = under_way.iter().filter_map(|event| match &event.what {
            What::Write { file, offset, bytes, .. } if *file == id => Some(Change::Write(*offset, bytes)),
            What::SetLength { file, bytes } if *file == id => Some(Change::Length(*bytes)),
            _ => None,
        });
        let begun = begun.map(|change| Waiting { end: u64::MAX, is_sure: false, change });
        for waiting in self.waiting.into_iter().chain(begun) {
            match waiting.change {
                Change::Write(offset, bytes) if waiting.is_sure => rest.file.write(offset, bytes),
                Change::Length(bytes) if waiting.is_sure => rest.file.set_length(bytes),
                Change::Length(bytes) => {
                    if luck.keeps(random) && !rest.is_cut {
                        rest.file.set_length(bytes);
                    } else {
                        rest.is_cut |= promise == Promise::Ordered;
                    }
                }
                Change::Write(offset, bytes) => rest.write(offset, bytes, random),
            }
        }
        rest.file
    }
}

/// A file that keeps some of the bytes written to it.
struct Rest {
    file: File,
    promise: Promise,
    luck: Luck,
    /// Whether some of the bytes that made it longer were lost. With [`Promise::Ordered`] no bytes behind
    /// them are kept.
    is_cut: bool,
}

impl Rest {
    fn write(&mut self, offset: u64, bytes: &Bytes, random: &mut Random) {
        let (old, end) = (self.file.bytes, offset + bytes.count());
        if end > old {
            let longer = match self.luck {
                _ if self.is_cut => old,
                luck if luck.keeps(random) => end,
                Luck::Some(_) => old + random.below(end - old),
                Luck::All | Luck::Nothing => old,
            };
            self.is_cut |= self.promise == Promise::Ordered && longer < end;
            self.file.set_length(longer);
        }
        let limit = end.min(self.file.bytes);
        let mut place = offset;
        while place < limit {
            let next = (place / SECTOR * SECTOR + SECTOR).min(limit);
            let is_appended = self.promise == Promise::Ordered && place >= old;
            let upto = match self.luck {
                luck if is_appended || luck.keeps(random) => next,
                // Torn: only the beginning of the sector is new.
                Luck::Some(_) if random.below(4) == 0 => place + random.below(next - place),
                Luck::Some(_) | Luck::All | Luck::Nothing => place,
            };
            self.file.put(offset, bytes, place - offset, upto - offset);
            place = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use scratch::Scratch;

    use super::*;

    fn event(at: u64, what: What) -> Event {
        Event { begin: at * 10, end: at * 10 + 5, what }
    }

    fn write(offset: u64, text: &str, is_durable: bool) -> What {
        What::Write { file: 1, offset, bytes: text.as_bytes().to_vec().into(), is_durable }
    }

    /// All contents that the file `log` may have after a power failure at a moment; `None`: no such file.
    fn left(events: &[Event], promise: Promise, moment: u64) -> Vec<Option<String>> {
        let mut disk = Disk::new(events, promise);
        disk.advance(moment);
        let scratch = Scratch::new("powerlog");
        let folder = scratch.folder().join("disk");
        let mut found: Vec<Option<String>> = (0..300)
            .map(|seed| {
                fs::create_dir_all(&folder).unwrap();
                disk.image(seed, &folder).unwrap();
                let bytes = fs::read(folder.join("log")).ok();
                fs::remove_dir_all(&folder).unwrap();
                bytes.map(|bytes| String::from_utf8(bytes).unwrap())
            })
            .collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn what_was_synced_is_there() {
        let path = PathBuf::from("log");
        let events = [
            event(1, What::Create { path, file: 1 }),
            event(2, write(0, "abc", false)),
            event(3, What::Sync { file: 1 }),
            event(4, What::SyncDirectory { path: PathBuf::new() }),
            event(5, write(3, "de", false)),
            event(6, write(0, "X", true)),
        ];
        let some = |texts: &[&str]| texts.iter().map(|text| Some((*text).to_owned())).collect::<Vec<_>>();
        // The sync has begun but not ended, so anything is possible.
        let early = left(&events, Promise::Any, 32);
        assert!(early.contains(&None) && early.contains(&Some(String::new())), "{early:?}");
        assert!(early.contains(&Some("abc".to_owned())), "{early:?}");
        // The name is not durable before its directory is.
        assert_eq!(left(&events, Promise::Any, 36).len(), 2);
        assert_eq!(left(&events, Promise::Any, 46), some(&["abc"]));
        assert_eq!(left(&events, Promise::Ordered, 36), some(&["abc"]));
        // The appended bytes are there completely, in part or not at all; a durable write makes no other
        // bytes durable.
        assert_eq!(left(&events, Promise::Ordered, 56), some(&["abc", "abcd", "abcde"]));
        assert_eq!(left(&events, Promise::Ordered, 66), some(&["Xbc", "Xbcd", "Xbcde"]));
        assert!(left(&events, Promise::Any, 66).contains(&Some("Xbc\0\0".to_owned())));
    }

    #[test]
    fn names_in_any_order_or_in_theirs() {
        let (new, log) = (PathBuf::from("new"), PathBuf::from("log"));
        let events = [
            event(1, What::Create { path: log.clone(), file: 1 }),
            event(2, write(0, "old", true)),
            event(3, What::SyncDirectory { path: PathBuf::new() }),
            event(4, What::Create { path: new.clone(), file: 2 }),
            event(5, What::Rename { from: new, to: log.clone() }),
            event(6, What::Remove { path: log }),
        ];
        let old = Some("old".to_owned());
        assert_eq!(left(&events, Promise::Any, 46), std::slice::from_ref(&old));
        assert_eq!(left(&events, Promise::Ordered, 56), [Some(String::new()), old.clone()]);
        assert_eq!(left(&events, Promise::Any, 66), [None, Some(String::new()), old]);
    }
}
