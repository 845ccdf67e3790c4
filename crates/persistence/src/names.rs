//! Names the snapshot's files, its temporary files and their directory.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use proactor::{Disk, DiskReader};

use ds::calendar::date;

/// The placeholder for the save's time in the name of a snapshot.
const TIMESTAMP: &str = "{timestamp}";
/// The form of a timestamp, with 0 for each digit. Such texts sort by time.
const PATTERN: &str = "0000-00-00T00-00-00";

/// The place and the names of snapshots, as the settings were at some moment.
#[derive(Clone, Debug)]
pub struct Names {
    disk: Disk,
    directory: PathBuf,
    name: String,
}

impl Names {
    /// Snapshots in `directory` (the working directory if it is empty) with this `name`, in which
    /// `{timestamp}` represents the time of the save.
    pub fn new(disk: &Disk, directory: &str, name: &str) -> Names {
        let directory = PathBuf::from(if directory.is_empty() { "." } else { directory });
        Names { disk: disk.clone(), directory, name: name.to_owned() }
    }

    /// The disk that they are on.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Reads the file of this name.
    pub fn reader(&self, name: &str) -> io::Result<DiskReader> {
        self.disk.reader(&self.path(name))
    }

    /// The name of snapshots, possibly with `{timestamp}`.
    pub fn pattern(&self) -> &str {
        &self.name
    }

    /// The path of a file of this name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The name of a snapshot saved at `now_ms`.
    pub fn name_at(&self, now_ms: u64) -> String {
        self.name.replace(TIMESTAMP, &timestamp(now_ms / 1000))
    }

    /// The name of the snapshot to load: the newest one, if names have timestamps.
    pub fn name_to_load(&self) -> String {
        let Some((before, after)) = self.name.split_once(TIMESTAMP) else { return self.name.clone() };
        let is_one = |file: &String| {
            let time = file.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            time.is_some_and(|time| digits_as_0(time) == PATTERN)
        };
        self.present().filter(is_one).max().unwrap_or_else(|| self.name.clone())
    }

    /// The names of all existing files.
    fn present(&self) -> impl Iterator<Item = String> {
        let entries = self.disk.list(&self.directory).unwrap_or_default();
        entries.into_iter().filter_map(|name| name.into_string().ok())
    }

    /// The path of a temporary file that will become the snapshot or a part of it. Saves in the background
    /// use other names.
    pub fn temporary_path(&self, is_background: bool, file: u16) -> PathBuf {
        let process = std::process::id();
        self.path(&match (is_background, file) {
            (true, file) => format!("temp-{process}.{file}.rdb"),
            (false, 0) => format!("temp-{process}.rdb"),
            (false, file) => format!("temp-{process}.save.{file}.rdb"),
        })
    }

    /// A new id for a snapshot saved at `now_ms`.
    pub fn new_id(&self, now_ms: u64) -> u64 {
        let taken: Vec<u64> = self.present().filter_map(|file| part_of(&file).map(|(_, id)| id)).collect();
        let mut id = now_ms;
        while taken.contains(&id) {
            id += 1;
        }
        id
    }

    /// Removes the parts of the snapshot `name`, except those with the id `kept`.
    pub fn remove_parts(&self, name: &str, kept: Option<u64>) {
        for file in self.present() {
            if part_of(&file).is_some_and(|(its, id)| its == name && Some(id) != kept) {
                // If it cannot be removed, the next save tries again.
                let _ = self.disk.remove(&self.path(&file));
            }
        }
    }

    /// Removes files of unfinished saves that earlier servers have left behind.
    pub fn remove_leftovers(&self) {
        for name in self.present() {
            let middle = name.strip_prefix("temp-").and_then(|rest| rest.strip_suffix(".rdb"));
            let Some(process) = middle.and_then(|middle| middle.split('.').next()?.parse::<u32>().ok())
            else {
                continue;
            };
            let is_gone = process == std::process::id() || !Path::new(&format!("/proc/{process}")).exists();
            if is_gone && self.disk.remove(&self.path(&name)).is_ok() {
                tracing::warn!("removed {name}, left over from an unfinished save");
            }
        }
    }

    /// Renames `temporary`, which is durable, to `name` beside it.
    pub fn rename(&self, temporary: &Path, name: &str) -> io::Result<()> {
        self.disk.put_in_place(temporary, &self.path(name))
    }

    /// Makes the names of files durable.
    pub fn sync(&self) -> io::Result<()> {
        self.disk.sync_directory(&self.directory)
    }
}

fn digits_as_0(text: &str) -> String {
    text.chars().map(|digit| if digit.is_ascii_digit() { '0' } else { digit }).collect()
}

/// The name of a part of the snapshot `name`.
pub fn part_name(name: &str, id: u64, number: u32) -> String {
    format!("{name}.{id:016x}.{number:04}")
}

/// The snapshot that a file is a part of, with its id, if it is one.
fn part_of(file: &str) -> Option<(&str, u64)> {
    let (rest, number) = file.rsplit_once('.')?;
    let (name, id) = rest.rsplit_once('.')?;
    let id = u64::from_str_radix(id, 16).ok()?;
    (file == part_name(name, id, number.parse().ok()?)).then_some((name, id))
}

/// A time for people.
pub fn moment(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let text = timestamp(seconds);
    let (day, time) = text.split_once('T').expect("a timestamp has both");
    format!("{day} {} UTC", time.replace('-', ":"))
}

/// A time in UTC, from seconds since 1970.
fn timestamp(seconds: u64) -> String {
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_their_names() {
        let name = part_name("dump.rdb", 0x19a_8b7c_6d5e, 3);
        assert_eq!(
            (&*name, part_of(&name)),
            ("dump.rdb.0000019a8b7c6d5e.0003", Some(("dump.rdb", 0x19a_8b7c_6d5e)))
        );
        assert!(part_of(&part_name("a", u64::MAX, 12_345)).is_some());
        for other in [
            "dump.rdb",
            "dump.rdb.19a8b7c6d5e.0003",
            "dump.rdb.0000019A8B7C6D5E.0003",
            "dump.rdb.0000019a8b7c6d5e.3",
            "",
        ] {
            assert_eq!(part_of(other), None, "{other}");
        }
    }

    #[test]
    fn timestamps_are_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00-00-00"),
            (951_827_696, "2000-02-29T12-34-56"),
            (1_735_689_599, "2024-12-31T23-59-59"),
            (4_107_542_400, "2100-03-01T00-00-00"),
        ] {
            assert_eq!(timestamp(seconds), text);
            assert_eq!(digits_as_0(text), PATTERN);
        }
    }
}
