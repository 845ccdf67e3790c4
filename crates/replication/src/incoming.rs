//! A snapshot on its way from the primary to a file, which a thread of its own writes.
//!
//! The file goes when it was read, or when the link ends before.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use proactor::{Disk, Open};

/// What comes.
enum Chunk {
    Bytes(Vec<u8>),
    End,
}

/// Where the link puts it.
pub struct Incoming {
    sender: Sender<Chunk>,
    waiting_bytes: Arc<AtomicU64>,
}

/// Where it comes out.
pub struct Outgoing {
    receiver: Receiver<Chunk>,
    waiting_bytes: Arc<AtomicU64>,
}

/// Both ends.
pub fn incoming() -> (Incoming, Outgoing) {
    let (sender, receiver) = channel();
    let waiting_bytes = Arc::<AtomicU64>::default();
    (Incoming { sender, waiting_bytes: Arc::clone(&waiting_bytes) }, Outgoing { receiver, waiting_bytes })
}

impl Incoming {
    /// Bytes that are not written yet.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// More has come. If nobody takes it any more, that will be said.
    pub(crate) fn push(&self, bytes: &[u8]) {
        self.waiting_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let _ = self.sender.send(Chunk::Bytes(bytes.to_vec()));
    }

    /// That was all.
    pub(crate) fn end(self) {
        let _ = self.sender.send(Chunk::End);
    }
}

impl Outgoing {
    /// Writes what comes to a new file at `path`, and has `read` read it; `None`: the link ended before.
    ///
    /// # Errors
    /// Of the disk, or those of `read`.
    pub fn spool<L>(
        self,
        disk: &Disk,
        path: &Path,
        read: impl FnOnce() -> Result<L, String>,
    ) -> Option<Result<L, String>> {
        let outcome = match self.write(disk, path) {
            Ok(false) => None,
            Ok(true) => Some(read()),
            Err(error) => Some(Err(format!("cannot write {}: {error}", path.display()))),
        };
        // If it stays, the next start removes it.
        let _ = disk.remove(path);
        outcome
    }

    /// Writes everything; false: the end did not come.
    fn write(self, disk: &Disk, path: &Path) -> io::Result<bool> {
        let file = disk.open(path, Open::Empty)?;
        let mut offset = 0;
        for chunk in &self.receiver {
            match chunk {
                Chunk::End => return Ok(true),
                Chunk::Bytes(bytes) => {
                    file.write_all_at(offset, &bytes)?;
                    offset += bytes.len() as u64;
                    self.waiting_bytes.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
                }
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proactor::SimDisk;

    fn check(pieces: &[&[u8]], ends: bool, expected: Option<&[u8]>) {
        let disk = SimDisk::new(1).disk();
        let path = Path::new("x.rdb");
        let (incoming, outgoing) = incoming();
        for piece in pieces {
            incoming.push(piece);
        }
        assert_eq!(incoming.waiting_bytes(), pieces.iter().map(|piece| piece.len() as u64).sum::<u64>());
        if ends {
            incoming.end();
        } else {
            drop(incoming);
        }
        let read = outgoing.spool(&disk, path, || disk.read(path).map_err(|error| error.to_string()));
        assert_eq!(read.map(|read| read.expect("it can be read")).as_deref(), expected);
        assert!(!disk.has(path));
    }

    #[test]
    fn what_came_whole_is_read_and_leaves_no_file() {
        check(&[b"ab", b"", b"c"], true, Some(b"abc"));
        check(&[], true, Some(b""));
        check(&[b"ab"], false, None);
    }
}
