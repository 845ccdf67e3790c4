//! Logs web pages that try to command the server through a browser (cross-protocol scripting).
//!
//! A connection that speaks HTTP is closed without a reply, before the body of the request is read. This is logged at
//! most once in [`QUIET_S`], as in Redis, so that an attacker cannot fill the log.

use std::sync::atomic::{AtomicU64, Ordering};

use proactor::CloseMode;

use crate::session::Session;

/// The shortest time between two such lines in the log.
const QUIET_S: u64 = 60;

/// When an attempt was last logged.
#[derive(Debug, Default)]
pub struct AttackLog {
    /// Seconds since 1970; 0: never.
    logged_s: AtomicU64,
}

impl AttackLog {
    /// Ends a connection whose client speaks HTTP: nothing more is read, and it is closed at once.
    #[cold]
    pub fn end(&self, session: &mut Session, now_s: u64, mode: CloseMode) {
        session.state.close(mode);
        self.note(now_s, &session.peer);
    }

    /// Logs the attempt of `peer`, unless one was logged shortly before `now_s`.
    pub fn note(&self, now_s: u64, peer: &str) {
        if self.is_due(now_s) {
            tracing::warn!(
                "Possible SECURITY ATTACK detected: somebody is sending POST or Host: as a command. This is likely a web page that uses a browser to reach this server (cross-protocol scripting). \
                 Connection from {peer} aborted."
            );
        }
    }

    fn is_due(&self, now_s: u64) -> bool {
        let logged_s = self.logged_s.load(Ordering::Relaxed);
        now_s.abs_diff(logged_s) > QUIET_S
            && self.logged_s.compare_exchange(logged_s, now_s, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_line_for_the_first_attempt_and_then_one_a_minute() {
        let log = AttackLog::default();
        let due: Vec<bool> =
            [1_000_000, 1_000_000, 1_000_060, 1_000_061, 1_000_062, 1_000_000, 900_000, 900_001]
                .map(|now_s| log.is_due(now_s))
                .into();
        // After the clock was set back, attempts are still logged.
        assert_eq!(due, [true, false, false, true, false, true, true, false]);
    }
}
