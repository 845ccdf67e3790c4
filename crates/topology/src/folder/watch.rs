//! News of a store in a folder: looks whether the file was replaced.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::Folders;
use crate::error::Error;
use crate::history::History;
use crate::outcome::{Reading, Sight};
use crate::store::Watch;

/// How often the file is looked at.
const STEP: Duration = Duration::from_millis(10);

/// Which file it is: inode, size, and time of its last change.
type Mark = Option<(u64, u64, i64, i64)>;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct FolderWatch {
    folder: Folders,
    history: History,
    mark: Mark,
    last: Option<Reading>,
}

impl FolderWatch {
    pub(super) fn new(folder: Folders, history: History) -> FolderWatch {
        FolderWatch { folder, history, mark: None, last: None }
    }

    fn mark(&self) -> Mark {
        let metadata = fs::metadata(self.folder.file("topology.json")).ok()?;
        Some((metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
    }

    /// Reads the file if it may be another one than before.
    fn look(&mut self) -> Result<Option<Reading>, Error> {
        let mark = self.mark();
        if self.last.is_some() && mark == self.mark {
            return Ok(None);
        }
        let floor = self.history.floor()?;
        let contents = self.folder.read()?;
        self.history.observe(floor, 0, contents.revision)?;
        self.mark = mark;
        let reading = contents.reading();
        if self.last.as_ref().is_some_and(|last| last.is_like(&reading)) {
            return Ok(None);
        }
        self.last = Some(reading.clone());
        Ok(Some(reading))
    }
}

impl Watch for FolderWatch {
    fn next(&mut self, wait: Duration) -> Result<Sight, Error> {
        let begin = Instant::now();
        loop {
            if let Some(reading) = self.look()? {
                return Ok(Sight::Changed(reading));
            }
            let Some(left) = wait.checked_sub(begin.elapsed()) else { return Ok(Sight::Silent) };
            std::thread::sleep(left.min(STEP));
        }
    }
}
