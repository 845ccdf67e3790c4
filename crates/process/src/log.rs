//! The log: lines of text on standard output or in a file, and in the system's log as well if the settings ask for
//! that.
//!
//! Debian's logrotate renames the file without notice. So once a second the server checks whether the file at the path
//! is still the one that it writes to. If not, and on `SIGHUP`, it opens the path again.

use std::ffi::CString;
use std::fs::{File, Metadata};
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use config::{LOGFILE, LOGLEVEL, SYSLOG_ENABLED, SYSLOG_FACILITY, SYSLOG_IDENT, Settings};
use syslog_tracing::{Facility, Options, Syslog};
use tracing::Level;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::prelude::*;

use crate::error::Error;

/// The levels that are logged: 0 none, 1 errors … 5 all.
static SHOWN: AtomicU8 = AtomicU8::new(3);
/// The file, if the log goes to one.
static FILE: OnceLock<LogFile> = OnceLock::new();
/// Whether lines also go to the system's log.
static HAS_SYSTEM_LOG: AtomicBool = AtomicBool::new(false);
/// The log's descriptor, for the report of a crash, which must not wait for a lock.
static DESCRIPTOR: AtomicI32 = AtomicI32::new(1);

/// A log file. If another file appears at its path, lines go there.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<File> {
        let file = File::options().create(true).append(true).open(path)?;
        DESCRIPTOR.store(file.as_raw_fd(), Ordering::Relaxed);
        Ok(file)
    }

    /// Reopens the path if another file is there or if `always`. If that fails, the open file stays in use.
    fn follow(&self, always: bool) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |there: Metadata| {
            file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
        };
        let goes = always || !std::fs::metadata(&self.path).is_ok_and(is_same);
        if goes && let Ok(opened) = LogFile::open(&self.path) {
            *file = opened;
        }
    }
}

/// Writes a line to the file.
struct Line;

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(log) = FILE.get() else { return Ok(bytes.len()) };
        log.file.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens the log that the settings name. This happens once per process; later calls only change the level.
pub fn open(settings: &Settings) -> Result<(), Error> {
    show(settings);
    let path = settings.text(LOGFILE);
    let (writer, is_terminal) = if path.is_empty() {
        (BoxMakeWriter::new(io::stdout), io::stdout().is_terminal())
    } else {
        let failed = |source| Error { what: format!("cannot open the log file {path}"), source };
        // The working directory may change.
        let path = std::path::absolute(&*path).map_err(failed)?;
        let file = LogFile::open(&path).map_err(failed)?;
        let _ = FILE.set(LogFile { path, file: Mutex::new(file) });
        (BoxMakeWriter::new(|| Line), false)
    };
    let shown = dynamic_filter_fn(|metadata, _| rank(*metadata.level()) <= SHOWN.load(Ordering::Relaxed));
    // A line that cannot be written is dropped. To complain on standard error, which may be closed or full, too, would
    // end the process.
    let lines = tracing_subscriber::fmt::layer()
        .log_internal_errors(false)
        .with_writer(writer)
        .with_ansi(is_terminal)
        .with_target(false);
    let system_lines = system_log(settings)?.map(|writer| {
        HAS_SYSTEM_LOG.store(true, Ordering::Relaxed);
        let shown = dynamic_filter_fn(|metadata, _| rank(*metadata.level()) <= SHOWN.load(Ordering::Relaxed));
        // The system's log adds the time and the level itself.
        let lines = tracing_subscriber::fmt::layer().log_internal_errors(false);
        let lines = lines.with_writer(writer).with_ansi(false).with_target(false);
        lines.with_level(false).without_time().with_filter(shown)
    });
    // A second server in one process (a test) shares the first one's log.
    let _ = tracing_subscriber::registry().with(lines.with_filter(shown)).with(system_lines).try_init();
    Ok(())
}

/// Prints an error. If standard error is closed or full, the exit status has to suffice.
pub fn complain(error: &dyn std::fmt::Display) {
    let _ = io::stderr().write_all(format!("darter: {error}\n").as_bytes());
}

/// Logs why the server does not start, unless the log is standard output: the error is printed on standard error as
/// well.
pub fn note_refusal(error: &dyn std::fmt::Display) {
    if FILE.get().is_some() || HAS_SYSTEM_LOG.load(Ordering::Relaxed) {
        tracing::error!("{error}");
    }
}

/// Reopens the log file if another file is at its path.
pub fn follow() {
    FILE.get().into_iter().for_each(|log| log.follow(false));
}

/// Reopens the log file.
pub fn reopen() {
    FILE.get().into_iter().for_each(|log| log.follow(true));
}

/// The log's descriptor, for the report of a crash, which must not wait for a lock.
pub(crate) fn descriptor() -> RawFd {
    DESCRIPTOR.load(Ordering::Relaxed)
}

/// The system's log, if it is enabled.
fn system_log(settings: &Settings) -> Result<Option<Syslog>, Error> {
    if !settings.is_on(SYSLOG_ENABLED) {
        return Ok(None);
    }
    let ident = CString::new(settings.text(SYSLOG_IDENT).as_bytes()).map_err(|error| Error {
        what: "cannot use syslog-ident".to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, error),
    })?;
    let facility = match settings.number(SYSLOG_FACILITY) {
        1 => Facility::User,
        17 => Facility::Local1,
        18 => Facility::Local2,
        19 => Facility::Local3,
        20 => Facility::Local4,
        21 => Facility::Local5,
        22 => Facility::Local6,
        23 => Facility::Local7,
        _ => Facility::Local0,
    };
    Ok(Syslog::new(ident, Options::LOG_PID | Options::LOG_NDELAY | Options::LOG_NOWAIT, facility))
}

/// Applies `loglevel`.
pub fn show(settings: &Settings) {
    SHOWN.store(settings.number(LOGLEVEL) as u8, Ordering::Relaxed);
}

fn rank(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// A text from outside as part of one line of the log. Characters that would begin another line are shown as `\\n` and
/// the like.
pub fn one_line(text: &[u8]) -> String {
    let mut line = String::with_capacity(text.len());
    for character in String::from_utf8_lossy(text).chars() {
        if character.is_control() && character != '\t' {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// Logs a line of a script, at one of Redis' levels.
pub fn script_line(level: i64, text: &[u8]) {
    let text = one_line(text);
    match level {
        0 => tracing::trace!("{text}"),
        1 => tracing::debug!("{text}"),
        2 => tracing::info!("{text}"),
        _ => tracing::warn!("{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_on_its_line() {
        assert_eq!(
            one_line(b"one\n2026 WARN two\r\x1b[1m\tthree \xc3\xa9"),
            "one\\n2026 WARN two\\r\\u{1b}[1m\tthree \u{e9}"
        );
    }
}
