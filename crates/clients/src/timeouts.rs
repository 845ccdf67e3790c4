//! When blocked clients time out.
//!
//! A worker waits, is served and waits again, thousands of times before one of its waits ever times out. So
//! the end of a wait leaves the connection's *alarm* in place, and the next wait, whose deadline is later,
//! needs no new one. When the alarm fires, the owner of the connection checks its current wait, and sets the
//! alarm again if there is time left. So an alarm costs something once per timeout, not once per job.
//!
//! Invariant: the alarm of a waiting connection fires no later than its deadline.

use std::collections::BTreeSet;

use proactor::ConnId;

/// When the alarm of a connection fires; stored with the connection.
#[derive(Debug, Default)]
pub struct Alarm(Option<u64>);

/// Alarms on the monotonic clock, in milliseconds: one per connection, except for those that fire in this
/// turn.
#[derive(Debug, Default)]
pub struct Timeouts {
    alarms: BTreeSet<(u64, ConnId)>,
}

impl Timeouts {
    /// Ensures that the connection's alarm fires at `deadline_ms` or earlier.
    pub fn set(&mut self, alarm: &mut Alarm, conn: ConnId, deadline_ms: u64, now_ms: u64) {
        // An alarm that is due has fired, or is about to.
        if alarm.0.is_some_and(|rings_ms| now_ms < rings_ms && rings_ms <= deadline_ms) {
            return;
        }
        self.unset(alarm, conn);
        self.alarms.insert((deadline_ms, conn));
        alarm.0 = Some(deadline_ms);
    }

    /// Removes the alarm of a connection that is closed.
    pub fn unset(&mut self, alarm: &mut Alarm, conn: ConnId) {
        if let Some(rings_ms) = alarm.0.take() {
            self.alarms.remove(&(rings_ms, conn));
        }
    }

    /// When the next alarm fires.
    pub fn next_ms(&self) -> Option<u64> {
        self.alarms.first().map(|(rings_ms, _)| *rings_ms)
    }

    /// Removes and returns a connection whose alarm fires. If it has to wait longer, its alarm must be
    /// [set](Self::set) again.
    pub fn pop_due(&mut self, now_ms: u64) -> Option<ConnId> {
        let &(rings_ms, conn) = self.alarms.first()?;
        if rings_ms > now_ms {
            return None;
        }
        self.alarms.pop_first();
        Some(conn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(timeouts: &mut Timeouts, now_ms: u64) -> Vec<ConnId> {
        std::iter::from_fn(|| timeouts.pop_due(now_ms)).collect()
    }

    #[test]
    fn the_next_wait_of_a_connection_uses_the_alarm_of_the_last() {
        let (mut timeouts, mut alarm, conn) = (Timeouts::default(), Alarm::default(), ConnId::from_bits(7));
        for now_ms in 0..100 {
            timeouts.set(&mut alarm, conn, now_ms + 2000, now_ms);
            assert_eq!(timeouts.alarms.len(), 1);
        }
        assert_eq!((timeouts.next_ms(), due(&mut timeouts, 1999)), (Some(2000), vec![]));
        assert_eq!(due(&mut timeouts, 2000), [conn]);
        timeouts.set(&mut alarm, conn, 2099, 2000);
        assert_eq!(due(&mut timeouts, 2099), [conn]);
    }

    #[test]
    fn an_earlier_deadline_and_the_end_of_the_connection_take_the_alarm_away() {
        let (mut timeouts, mut alarm, conn) = (Timeouts::default(), Alarm::default(), ConnId::from_bits(7));
        timeouts.set(&mut alarm, conn, 2000, 0);
        timeouts.set(&mut alarm, conn, 500, 1);
        assert_eq!((timeouts.next_ms(), timeouts.alarms.len()), (Some(500), 1));
        timeouts.unset(&mut alarm, conn);
        assert_eq!(timeouts.next_ms(), None);
    }

    #[test]
    fn an_alarm_that_nobody_could_be_told_of_does_not_count() {
        let (mut timeouts, mut alarm, conn) = (Timeouts::default(), Alarm::default(), ConnId::from_bits(7));
        timeouts.set(&mut alarm, conn, 100, 0);
        // Its session was in use.
        assert_eq!(due(&mut timeouts, 100), [conn]);
        timeouts.set(&mut alarm, conn, 300, 200);
        assert_eq!(timeouts.next_ms(), Some(300));
    }
}
