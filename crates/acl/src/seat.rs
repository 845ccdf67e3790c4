//! Counts the connections of each user (`maxclients-per-user`).
//!
//! The default user is not counted: every new client is that user, and `maxclients` limits them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{CommandError, CommandResult};

/// The error for a client that exceeds the limit.
const TOO_MANY_CLIENTS: CommandError = CommandError::fixed("ERR max number of clients of this user reached");

/// How many connections a user has.
pub(crate) type SeatCount = Arc<AtomicU64>;

/// A connection's place among those of its user, until it is dropped.
#[derive(Debug)]
pub struct Seat(SeatCount);

impl Seat {
    /// Takes a seat in place of `old`, unless `old` is one of the same user. Fails if `count_max` are taken (0: no
    /// limit).
    pub(crate) fn take(count: &SeatCount, old: &mut Option<Seat>, count_max: u64) -> CommandResult {
        if old.as_ref().is_some_and(|seat| Arc::ptr_eq(&seat.0, count)) {
            return Ok(());
        }
        let taken = count.fetch_add(1, Ordering::Relaxed) + 1;
        let seat = Seat(count.clone());
        if count_max > 0 && taken > count_max {
            return Err(TOO_MANY_CLIENTS);
        }
        *old = Some(seat);
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_come_back() {
        let (count, other) = (SeatCount::default(), SeatCount::default());
        let [mut first, mut second, mut third] = [None, None, None];
        assert_eq!(Seat::take(&count, &mut first, 2), Ok(()));
        assert_eq!(Seat::take(&count, &mut first, 2), Ok(()), "it has one");
        assert_eq!(Seat::take(&count, &mut second, 2), Ok(()));
        assert_eq!(Seat::take(&other, &mut third, 2), Ok(()));
        assert_eq!(Seat::take(&count, &mut third, 2), Err(TOO_MANY_CLIENTS));
        assert_eq!(other.load(Ordering::Relaxed), 1, "who is refused stays as whom it acts");
        assert_eq!(Seat::take(&other, &mut second, 2), Ok(()));
        assert_eq!(Seat::take(&count, &mut third, 2), Ok(()));
        drop((first, second, third));
        assert_eq!((count.load(Ordering::Relaxed), other.load(Ordering::Relaxed)), (0, 0));
    }
}
