//! `CLIENT PAUSE`: makes clients' commands wait for a time.
//!
//! Each thread keeps the pause and its end. A command that must wait is kept as arguments in its session, and nothing
//! more is read from its client. At the end of the pause, or at `CLIENT UNPAUSE`, the commands run in the order in
//! which they came to the thread, and each pipeline continues. Blocked clients time out as usual. Keys do not expire
//! actively during a pause.
//!
//! Not here: what runs at the end of a pause (`server`).

use crate::session::client::Session;
use crate::session::state::Postponed;
use engine::{Command, OwnedArgs};

/// A pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pause {
    /// The end of the pause, on the monotonic clock.
    until_ms: u64,
    /// Whether all commands wait, or only those that write.
    all: bool,
}

/// The pause of one thread.
#[derive(Debug, Default)]
pub struct Pausing {
    pause: Option<Pause>,
    /// Whether commands that write wait without a deadline, because the server is handing over to a replica.
    hands_over: bool,
    /// The number of commands postponed so far.
    postponed_count: u64,
}

impl Pausing {
    /// Whether there is a pause.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.pause.is_some() || self.hands_over
    }

    /// The end of the pause, on the monotonic clock.
    pub fn end_ms(&self) -> Option<u64> {
        self.pause.map(|pause| pause.until_ms)
    }

    /// Whether a command must wait. `writes` says whether it may write.
    pub fn stops(&self, writes: bool) -> bool {
        writes && self.hands_over || self.pause.is_some_and(|pause| pause.all || writes)
    }

    /// Keeps a command of this client for the end of the pause.
    pub fn postpone(&mut self, session: &mut Session, command: &Command, args: &[&[u8]]) {
        self.postponed_count += 1;
        let number = self.postponed_count;
        session.state.postpone(Postponed { command: command.id, args: OwnedArgs::new(args), number });
    }

    /// Begins a pause at `now_ms`, or extends the current one: the later end and the stricter kind win.
    pub fn begin(&mut self, now_ms: u64, pause_ms: u64, all: bool) {
        let until_ms = now_ms.saturating_add(pause_ms);
        self.pause = Some(match self.pause {
            Some(old) => Pause { until_ms: until_ms.max(old.until_ms), all: all || old.all },
            None => Pause { until_ms, all },
        });
    }

    /// Begins or ends the wait for a hand-over to a replica.
    pub fn hand_over(&mut self, hands_over: bool) {
        self.hands_over = hands_over;
    }

    /// Ends the pause. While the server hands over, commands that write continue to wait.
    pub fn end(&mut self) {
        self.pause = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_end_and_the_stricter_kind_count() {
        let mut pausing = Pausing::default();
        assert!(!pausing.stops(true) && pausing.end_ms().is_none());
        pausing.begin(1000, 500, false);
        assert!(pausing.stops(true) && !pausing.stops(false));
        pausing.begin(1100, 100, true);
        assert!(pausing.stops(false));
        assert_eq!(pausing.end_ms(), Some(1500));
        pausing.begin(1200, 500, false);
        assert!(pausing.stops(false));
        assert_eq!(pausing.end_ms(), Some(1700));
        pausing.hand_over(true);
        pausing.end();
        assert!(pausing.stops(true) && !pausing.stops(false) && pausing.end_ms().is_none());
        pausing.hand_over(false);
        assert!(!pausing.is_on());
    }
}
