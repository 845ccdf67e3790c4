//! Limits how fast passwords can be tried: after a few wrong ones from one address, all are refused until a window of
//! time is over.
//!
//! Correct passwords are refused as well during that time. Otherwise they would stand out, and guessing would be as
//! fast as before.
//!
//! The time is passed in, in milliseconds of a monotonic clock.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// How long a wrong password counts.
const WINDOW_MS: u64 = 10_000;
/// `WINDOW_MS` in seconds, for texts.
pub const THROTTLE_S: &str = "10";
/// How many addresses have a count of their own. All others share one.
const ADDRESSES_MAX: usize = 1024;

/// Counts wrong passwords by address.
#[derive(Debug, Default)]
pub struct Throttle {
    windows: BTreeMap<Origin, Window>,
}

/// Where passwords come from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Origin {
    /// A network that one attacker may own: an address of IPv4, or a prefix of 64 bits of IPv6.
    Network(u128),
    /// A Unix socket.
    Local,
    /// All addresses without a count of their own.
    Others,
}

/// The wrong passwords since a time.
#[derive(Debug)]
struct Window {
    start_ms: u64,
    failure_count: u64,
}

impl Throttle {
    /// Whether passwords from there are checked now: while fewer than `failures_max` were wrong.
    pub fn admits(&self, from: Origin, now_ms: u64, failures_max: u64) -> bool {
        let window = self.windows.get(&from).or_else(|| self.windows.get(&Origin::Others));
        window.is_none_or(|window| window.is_over(now_ms) || window.failure_count < failures_max)
    }

    /// Counts a wrong password.
    pub fn note_failure(&mut self, from: Origin, now_ms: u64) {
        let mut key = from;
        if self.windows.len() >= ADDRESSES_MAX && !self.windows.contains_key(&key) {
            self.windows.retain(|_, window| !window.is_over(now_ms));
            if self.windows.len() >= ADDRESSES_MAX {
                key = Origin::Others;
            }
        }
        let window = self.windows.entry(key).or_insert(Window { start_ms: now_ms, failure_count: 0 });
        if window.is_over(now_ms) {
            *window = Window { start_ms: now_ms, failure_count: 0 };
        }
        window.failure_count += 1;
    }
}

impl Window {
    fn is_over(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.start_ms) >= WINDOW_MS
    }
}

impl Origin {
    /// The origin for an address.
    pub fn of(address: IpAddr) -> Origin {
        Origin::Network(match address.to_canonical() {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address) | u128::from(u64::MAX),
        })
    }

    /// The origin of a client, from the address and port that it shows. A client that shows none came by a Unix socket.
    pub fn of_peer(peer: &str) -> Origin {
        peer.parse().map_or(Origin::Local, |address: SocketAddr| Origin::of(address.ip()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 10;

    #[test]
    fn so_many_wrong_passwords_close_the_door_for_a_while() {
        let (mut throttle, now_ms) = (Throttle::default(), 5000);
        let (one, other) = (Origin::of_peer("10.0.0.1:7"), Origin::of_peer("10.0.0.2:7"));
        for _ in 0..MAX {
            assert!(throttle.admits(one, now_ms, MAX));
            throttle.note_failure(one, now_ms);
        }
        assert_eq!((throttle.admits(one, now_ms, MAX), throttle.admits(other, now_ms, MAX)), (false, true));
        assert!(throttle.admits(one, now_ms + WINDOW_MS, MAX));
        throttle.note_failure(one, now_ms + WINDOW_MS);
        assert!(throttle.admits(one, now_ms + WINDOW_MS, MAX), "it is counted anew");
    }

    #[test]
    fn all_addresses_of_a_network_are_one() {
        let mut throttle = Throttle::default();
        for number in 0..MAX {
            throttle.note_failure(Origin::of_peer(&format!("[2001:db8::{number}]:1")), 0);
        }
        assert!(!throttle.admits(Origin::of_peer("[2001:db8::ffff:1]:1"), 0, MAX));
        assert!(throttle.admits(Origin::of_peer("[2001:db8:0:1::1]:1"), 0, MAX));
        assert_eq!(Origin::of_peer("[::ffff:10.0.0.1]:1"), Origin::of_peer("10.0.0.1:2"));
        assert_eq!(Origin::of_peer("/tmp/socket:0"), Origin::Local);
    }

    #[test]
    fn an_attacker_with_many_addresses_fills_no_memory() {
        let mut throttle = Throttle::default();
        for number in 0..10_000_u32 {
            throttle.note_failure(Origin::of(IpAddr::V4(number.into())), 0);
        }
        assert!(throttle.windows.len() <= ADDRESSES_MAX + 1, "{}", throttle.windows.len());
        let unknown = Origin::of_peer("77.0.0.1:1");
        assert!(!throttle.admits(unknown, 0, MAX), "those that are not told apart share a count");
        assert!(throttle.admits(unknown, WINDOW_MS, MAX));
    }
}
