//! The largest and the hottest of the keys that were sampled, user by user.
//!
//! They come from the current round over all keys and the previous one, so that a key remains visible.

use std::collections::HashMap;
use std::time::Instant;

use serde_json::{Value as Json, json};

/// Keys that are kept.
const KEYS_MAX: usize = 20;
/// Users whose keys are remembered.
const USERS_MAX: usize = 8;

/// How far each user has looked at keys.
#[derive(Default)]
pub(crate) struct KeySamples(HashMap<String, KeySample>);

/// The keys that a user was shown.
#[derive(Clone, Default)]
pub(crate) struct KeySample {
    /// Where SCAN goes on; empty: it has not begun.
    pub(crate) cursor: Vec<u8>,
    /// When keys were last looked at.
    pub(crate) last: Option<Instant>,
    pub(crate) largest: Rounds,
    pub(crate) hottest: Rounds,
}

/// What was seen in this round, and in the last one.
#[derive(Clone, Default)]
pub(crate) struct Rounds([Vec<Seen>; 2]);

/// A key that was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) key: Vec<u8>,
    /// Its type.
    pub(crate) kind: String,
    /// What it is compared by.
    pub(crate) figure: i64,
}

impl KeySamples {
    /// Those of a user.
    pub(crate) fn of(&self, user: &str) -> KeySample {
        self.0.get(user).cloned().unwrap_or_default()
    }

    /// Keeps those of a user.
    pub(crate) fn keep(&mut self, user: String, sample: KeySample) {
        if self.0.len() >= USERS_MAX && !self.0.contains_key(&user) {
            self.0.clear();
        }
        self.0.insert(user, sample);
    }
}

impl KeySample {
    /// A round is over.
    pub(crate) fn begin_anew(&mut self) {
        self.largest.begin_anew();
        self.hottest.begin_anew();
    }
}

impl Rounds {
    fn begin_anew(&mut self) {
        self.0.swap(0, 1);
        self.0[0].clear();
    }

    /// Adds what was seen in this round.
    pub(crate) fn note(&mut self, seen: Seen) {
        note(&mut self.0[0], seen);
    }

    /// The first of both rounds, each key once, with what they are compared by under this name.
    pub(crate) fn shown(&self, figure: &str) -> Json {
        let mut all = self.0[1].clone();
        self.0[0].iter().for_each(|seen| note(&mut all, seen.clone()));
        all.iter()
            .map(|seen| {
                let key = String::from_utf8_lossy(&seen.key);
                json!({ "key": key, "type": seen.kind, figure: seen.figure })
            })
            .collect()
    }
}

/// Adds what was seen, if it belongs to the first so many.
fn note(all: &mut Vec<Seen>, new: Seen) {
    all.retain(|known| known.key != new.key);
    let place = all.partition_point(|known| known.figure >= new.figure);
    all.insert(place, new);
    all.truncate(KEYS_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_both_rounds_are_shown() {
        let seen = |key: &str, figure| Seen { key: key.into(), kind: "list".to_owned(), figure };
        let mut rounds = Rounds::default();
        (0..100).for_each(|number| rounds.note(seen(&format!("k{number}"), number)));
        rounds.begin_anew();
        rounds.note(seen("k99", 5));
        rounds.note(seen("new", 1000));
        let shown = rounds.shown("bytes");
        assert_eq!(shown[0], json!({ "key": "new", "type": "list", "bytes": 1000 }));
        assert_eq!(shown[1]["key"], "k98", "what a key is now counts");
        assert_eq!(shown.as_array().unwrap().len(), KEYS_MAX);
        rounds.begin_anew();
        rounds.begin_anew();
        assert_eq!(rounds.shown("bytes"), json!([]));
    }
}
