//! How fast passwords may be tried: from one address a few wrong ones in a while, then none at all until the while is over.
//!
//! A right password is refused as well meanwhile. Otherwise it would stand out, and trying would be as fast as before.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Wrong passwords from one address in [`WINDOW`].
const AUTH_FAILURES_MAX: u32 = 10;
/// How long they count.
const WINDOW: Duration = Duration::from_secs(10);
/// The same as a header has it.
pub(crate) const RETRY_AFTER_S: &str = "10";
/// Addresses that are told apart; all others share one count.
const ADDRESSES_MAX: usize = 1024;

/// Wrong passwords by address.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    windows: HashMap<Option<u128>, (Instant, u32)>,
}

impl Throttle {
    /// Whether passwords from this address are looked at now.
    pub(crate) fn admits(&self, from: IpAddr, now: Instant) -> bool {
        let window = self.windows.get(&Some(network(from))).or_else(|| self.windows.get(&None));
        window.is_none_or(|(start, count)| now.duration_since(*start) >= WINDOW || *count < AUTH_FAILURES_MAX)
    }

    /// Notes a wrong password.
    pub(crate) fn note_failure(&mut self, from: IpAddr, now: Instant) {
        let mut key = Some(network(from));
        if self.windows.len() >= ADDRESSES_MAX && !self.windows.contains_key(&key) {
            self.windows.retain(|_, (start, _)| now.duration_since(*start) < WINDOW);
            if self.windows.len() >= ADDRESSES_MAX {
                key = None;
            }
        }
        let (start, count) = self.windows.entry(key).or_insert((now, 0));
        if now.duration_since(*start) >= WINDOW {
            (*start, *count) = (now, 0);
        }
        *count += 1;
    }
}

/// What one attacker has of addresses: one of IPv4, 64 bits of IPv6.
fn network(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address) | u128::from(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn so_many_wrong_passwords_close_the_door_for_a_while() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        let (one, other) = (address("10.0.0.1"), address("10.0.0.2"));
        for _ in 0..AUTH_FAILURES_MAX {
            assert!(throttle.admits(one, now));
            throttle.note_failure(one, now);
        }
        assert_eq!((throttle.admits(one, now), throttle.admits(other, now)), (false, true));
        assert!(throttle.admits(one, now + WINDOW));
        throttle.note_failure(one, now + WINDOW);
        assert!(throttle.admits(one, now + WINDOW), "it is counted anew");
    }

    #[test]
    fn all_addresses_of_a_network_are_one() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        for number in 0..AUTH_FAILURES_MAX {
            throttle.note_failure(address(&format!("2001:db8::{number}")), now);
        }
        assert!(!throttle.admits(address("2001:db8::ffff:1"), now));
        assert!(throttle.admits(address("2001:db8:0:1::1"), now));
    }

    #[test]
    fn an_attacker_with_many_addresses_fills_no_memory() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        for number in 0..10_000_u32 {
            throttle.note_failure(IpAddr::V4(number.into()), now);
        }
        assert!(throttle.windows.len() <= ADDRESSES_MAX + 1, "{}", throttle.windows.len());
        assert!(!throttle.admits(address("77.0.0.1"), now), "those that are not told apart share a count");
        assert!(throttle.admits(address("77.0.0.1"), now + WINDOW));
    }
}
