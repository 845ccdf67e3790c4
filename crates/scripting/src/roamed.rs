//! The names of scripts and functions that have touched undeclared keys. Flushing the script cache and
//! replacing libraries do not remove them, and snapshots keep them across restarts. So a script that roams
//! only once in many runs is not trusted again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The field of a snapshot that has the names, separated by spaces. Redis ignores it.
pub const ROAMED_AUX: &str = "darter-roamed";
/// Most names that are kept, because some clients send an endless stream of new scripts.
const NAMES_MAX: usize = 1_000;

/// Names of scripts (their SHA-1) and functions, the latest at the end. The lock is taken when a script or
/// function roams or runs for the first time, and for saving.
#[derive(Debug, Default)]
pub struct Roamed(Mutex<VecDeque<Box<[u8]>>>);

impl Roamed {
    /// Adds `name`, unless it is known.
    pub fn add(&self, name: &[u8]) {
        let mut names = self.lock();
        if names.iter().any(|known| **known == *name) {
            return;
        }
        if names.len() == NAMES_MAX {
            names.pop_front();
        }
        names.push_back(name.into());
    }

    /// Whether `name` has roamed.
    pub fn has(&self, name: &[u8]) -> bool {
        self.lock().iter().any(|known| **known == *name)
    }

    /// All names in the form for snapshots; `None` if no script or function has roamed.
    pub fn saved(&self) -> Option<Vec<u8>> {
        let names = self.lock();
        let names: Vec<&[u8]> = names.iter().map(|name| &**name).collect();
        (!names.is_empty()).then(|| names.join(&b' '))
    }

    /// Adds the names from a snapshot.
    pub fn restore(&self, saved: &[u8]) {
        saved.split(|byte| *byte == b' ').filter(|name| !name.is_empty()).for_each(|name| self.add(name));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Box<[u8]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_from_a_snapshot() {
        let (roamed, other) = (Roamed::default(), Roamed::default());
        assert_eq!(roamed.saved(), None);
        for number in 0..NAMES_MAX + 2 {
            roamed.add(number.to_string().as_bytes());
            roamed.add(b"often");
        }
        other.restore(&roamed.saved().expect("there are names"));
        assert!(other.has(b"1000") && !other.has(b"0"), "the latest are kept");
        assert_eq!(other.saved(), roamed.saved());
    }
}
