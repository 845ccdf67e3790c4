//! The log: lines of text on standard output or in a file.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use tracing::Level;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::prelude::*;

use crate::error::Error;
use crate::settings::{LOGFILE, LOGLEVEL, Settings};

/// What is shown: 0 nothing, 1 errors … 5 everything.
static SHOWN: AtomicU8 = AtomicU8::new(3);

/// Opens the log that the settings name. Once per process; later calls change the level only.
pub(crate) fn open(settings: &Settings) -> Result<(), Error> {
    show(settings);
    let path = settings.text(LOGFILE);
    let (writer, is_terminal) = if path.is_empty() {
        (BoxMakeWriter::new(io::stdout), io::stdout().is_terminal())
    } else {
        let file = File::options()
            .create(true)
            .append(true)
            .open(&*path)
            .map_err(|source| Error::Io { what: format!("cannot open the log file {path}"), source })?;
        (BoxMakeWriter::new(Mutex::new(file)), false)
    };
    let shown = dynamic_filter_fn(|metadata, _| rank(*metadata.level()) <= SHOWN.load(Ordering::Relaxed));
    let lines =
        tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(is_terminal).with_target(false);
    // A second server in one process (a test) shares the first one's log.
    let _ = tracing_subscriber::registry().with(lines.with_filter(shown)).try_init();
    Ok(())
}

/// Takes over `loglevel`.
pub(crate) fn show(settings: &Settings) {
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

/// A text from outside as a part of one line of the log: what would begin another line is shown as `\\n` and the like.
pub(crate) fn one_line(text: &[u8]) -> String {
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
