//! Receives a snapshot from the primary. A blocking task writes it to a file.
//!
//! The blocking task removes the file after reading it, or when the link ends before that.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use proactor::{BlockingStep, Disk, DiskFile, Open, Work};

/// A part of the snapshot.
enum Chunk {
    Bytes(Vec<u8>),
    End,
}

/// The end into which the link writes.
pub struct Incoming {
    sender: Sender<Chunk>,
    waiting_bytes: Arc<AtomicU64>,
}

/// The end from which the blocking task reads.
pub struct Outgoing {
    receiver: Receiver<Chunk>,
    waiting_bytes: Arc<AtomicU64>,
}

/// Why a snapshot was not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unread {
    /// The reason.
    pub why: String,
    /// Whether the snapshot has more databases than this server.
    pub needs_databases: bool,
}

/// Both ends.
pub fn incoming() -> (Incoming, Outgoing) {
    let (sender, receiver) = channel();
    let waiting_bytes = Arc::<AtomicU64>::default();
    (Incoming { sender, waiting_bytes: Arc::clone(&waiting_bytes) }, Outgoing { receiver, waiting_bytes })
}

impl Incoming {
    /// The bytes that have not been written yet.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Adds received bytes. A blocking task that has ended reports that itself.
    pub(crate) fn push(&self, bytes: &[u8]) {
        self.waiting_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let _ = self.sender.send(Chunk::Bytes(bytes.to_vec()));
    }

    /// The snapshot is complete.
    pub(crate) fn end(self) {
        let _ = self.sender.send(Chunk::End);
    }
}

impl Outgoing {
    /// The blocking task that writes the received bytes to a new file at `path` and loads it with `read`. It reports the
    /// outcome to `tell`, unless the link ended before.
    pub fn spool<L>(
        self,
        disk: Disk,
        path: PathBuf,
        read: impl FnOnce() -> Result<L, Unread> + Send + 'static,
        tell: impl FnOnce(Result<L, Unread>) + Send + 'static,
    ) -> Work {
        let mut file = Growing { outgoing: self, file: None, offset: 0 };
        let mut then = Some((read, tell));
        Box::new(move |may_wait| {
            let written = file.step(&disk, &path, may_wait);
            let Some((read, tell)) = (match written {
                Ok(Written::Some) => return BlockingStep::Worked,
                Ok(Written::Nothing) => return BlockingStep::Waits,
                Ok(Written::All | Written::Part) | Err(_) => then.take(),
            }) else {
                return BlockingStep::Ended;
            };
            let outcome = match written {
                Ok(Written::All) => Some(read()),
                Err(error) => {
                    let why = format!("cannot write {}: {error}", path.display());
                    Some(Err(Unread { why, needs_databases: false }))
                }
                Ok(_) => None,
            };
            // If the file stays, the next start removes it.
            let _ = disk.remove(&path);
            if let Some(outcome) = outcome {
                tell(outcome);
            }
            BlockingStep::Ended
        })
    }
}

/// The outcome of a step.
enum Written {
    Some,
    /// Nothing has arrived.
    Nothing,
    /// The snapshot is complete.
    All,
    /// The link ended before.
    Part,
}

/// The file as it grows.
struct Growing {
    outgoing: Outgoing,
    file: Option<DiskFile>,
    offset: u64,
}

impl Growing {
    /// Writes the next part.
    fn step(&mut self, disk: &Disk, path: &Path, may_wait: bool) -> io::Result<Written> {
        let Outgoing { receiver, waiting_bytes } = &self.outgoing;
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(disk.open(path, Open::Empty)?),
        };
        let next = if may_wait {
            receiver.recv().map_err(|_| TryRecvError::Disconnected)
        } else {
            receiver.try_recv()
        };
        Ok(match next {
            Ok(Chunk::Bytes(bytes)) => {
                file.write_all_at(self.offset, &bytes)?;
                self.offset += bytes.len() as u64;
                let before = waiting_bytes.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
                assert!(before >= bytes.len() as u64, "what is written was waiting");
                Written::Some
            }
            Ok(Chunk::End) => Written::All,
            Err(TryRecvError::Empty) => Written::Nothing,
            Err(TryRecvError::Disconnected) => Written::Part,
        })
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
        let (sender, outcome) = channel();
        let own = disk.clone();
        let read =
            move || own.read(path).map_err(|error| Unread { why: error.to_string(), needs_databases: false });
        let tell = move |read| sender.send(read).expect("somebody listens");
        let mut work = outgoing.spool(disk.clone(), path.to_owned(), read, tell);
        while work(ends) != BlockingStep::Ended {}
        drop(work);
        let read = outcome.try_recv().ok();
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
