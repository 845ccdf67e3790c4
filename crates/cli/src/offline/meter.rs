//! Shows the progress of long work on a terminal.

use std::io::{IsTerminal, Write, stderr};

use proactor::Clock;

/// The time between two updates.
const UPDATE_MS: u64 = 1000;

/// Shows progress in one line of the terminal, after the first second. Does nothing if standard error is not a
/// terminal.
pub(crate) struct Meter {
    clock: Clock,
    is_terminal: bool,
    next_ms: u64,
    has_line: bool,
}

impl Meter {
    pub(crate) fn new() -> Meter {
        let clock = Clock::real();
        let next_ms = clock.monotonic_ms() + UPDATE_MS;
        Meter { clock, is_terminal: stderr().is_terminal(), next_ms, has_line: false }
    }

    /// Shows the progress, if an update is due.
    pub(crate) fn show(&mut self, what: impl FnOnce() -> String) {
        if !self.is_terminal {
            return;
        }
        let now_ms = self.clock.monotonic_ms();
        if now_ms >= self.next_ms {
            self.next_ms = now_ms + UPDATE_MS;
            self.has_line = true;
            // A failure to write is ignored: progress is not essential.
            let _ = write!(stderr(), "\r\x1b[K{}", what());
        }
    }

    /// Clears the line.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.has_line) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
