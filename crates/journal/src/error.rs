//! The errors of a journal's files. Each is one line with the file, the place in it, the error, and what to do. Its
//! kind tells the caller what it means.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error in a file of the journal, or in its folder.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Error {
    /// The file or folder.
    pub path: PathBuf,
    /// The offset in the file, if that is meaningful.
    pub offset: Option<u64>,
    /// The kinds of errors that a program may want to distinguish.
    pub kind: ErrorKind,
    what: Cow<'static, str>,
    way_out: &'static str,
}

/// The kinds of errors that a program may want to distinguish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The system refused an operation.
    Io(io::ErrorKind),
    /// Another server uses the folder.
    Locked,
    /// A file was written by another version.
    Version,
    /// A file is damaged, missing, or not what its name says.
    Damaged,
    /// The folder belongs to another program.
    Foreign,
    /// The journal begins later than the requested position.
    Later,
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.path.display())?;
        if let Some(offset) = self.offset {
            write!(formatter, " at byte {offset}")?;
        }
        write!(formatter, ": {} ({})", self.what, self.way_out)
    }
}

impl Error {
    pub(crate) fn new(
        kind: ErrorKind,
        path: &Path,
        what: impl Into<Cow<'static, str>>,
        way_out: &'static str,
    ) -> Error {
        Error { path: path.to_owned(), offset: None, kind, what: what.into(), way_out }
    }

    pub(crate) fn at(self, offset: u64) -> Error {
        Error { offset: Some(offset), ..self }
    }

    /// The system refused to `act` on the file.
    pub(crate) fn io(path: &Path, act: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |error| {
            let kind = error.kind();
            let way_out = match kind {
                io::ErrorKind::PermissionDenied => {
                    "give the server's user the rights to it, or choose another appenddirname"
                }
                io::ErrorKind::ReadOnlyFilesystem => {
                    "mount the file system for writing, or choose another folder"
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room on the disk",
                io::ErrorKind::NotADirectory => "move the file away, or choose another appenddirname",
                io::ErrorKind::NotFound => "create it or put it back, or choose another folder",
                _ => "look at the disk and at the system's log",
            };
            Error::new(ErrorKind::Io(kind), path, format!("cannot {act}: {error}"), way_out)
        }
    }

    /// Whether nothing can be written there for now, because the disk is full or read-only. Existing data can still be
    /// read.
    pub fn is_read_only(&self) -> bool {
        self.is_no_room() || self.kind == ErrorKind::Io(io::ErrorKind::ReadOnlyFilesystem)
    }

    /// Whether the disk was full.
    pub fn is_no_room(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge];
        matches!(self.kind, ErrorKind::Io(kind) if full.contains(&kind))
    }
}

/// The reason why an operation was not done.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Trouble {
    /// This many spare segments must be ready. Nothing was written. Prepare them and try again.
    #[error("{needed} spare segments are needed")]
    NoSpare {
        /// The number of spares.
        needed: usize,
    },
    /// No spare segment could be created. Nothing has changed. Try again when there may be space.
    #[error("{0}")]
    NotReady(Error),
    /// The log has not reached the end of the base yet. Try again.
    #[error("the journal has not written everything that the base contains")]
    Behind,
    /// A write or a sync has failed, now or before. Nothing more becomes durable, and nothing may be tried again. A
    /// server that promises durability ends. Any other server begins a new journal
    /// ([`Data::Coming`](crate::Data::Coming)) and refuses writes until that journal has its base.
    #[error("{0}")]
    Failed(Error),
}

impl Trouble {
    /// The error about a file, if there is one.
    pub fn error(&self) -> Option<&Error> {
        match self {
            Trouble::NotReady(error) | Trouble::Failed(error) => Some(error),
            Trouble::NoSpare { .. } | Trouble::Behind => None,
        }
    }

    /// Whether the journal can no longer be written.
    pub fn is_final(&self) -> bool {
        match self {
            Trouble::Failed(_) => true,
            Trouble::NoSpare { .. } | Trouble::NotReady(_) | Trouble::Behind => false,
        }
    }
}
