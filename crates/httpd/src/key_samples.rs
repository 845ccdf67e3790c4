//! The largest and the hottest of the keys that were sampled, user by user.
//!
//! They come from the current round over all keys and the previous one, so that a key remains visible.

use std::collections::HashMap;
use std::time::Instant;

use serde_json::{Value as Json, json};

/// How many keys are kept.
const KEYS_MAX: usize = 20;
/// For how many users keys are kept.
const USERS_MAX: usize = 8;

/// The sampled keys by user.
#[derive(Default)]
pub(crate) struct KeySamples(HashMap<String, KeySample>);

/// The keys that were sampled for a user.
#[derive(Clone, Default)]
pub(crate) struct KeySample {
    /// The cursor of SCAN; empty at the beginning of a round.
    pub(crate) cursor: Vec<u8>,
    /// When keys were last sampled.
    pub(crate) last: Option<Instant>,
    pub(crate) largest: Rounds,
    pub(crate) hottest: Rounds,
}

/// The sampled keys of the current round and of the previous one.
#[derive(Clone, Default)]
pub(crate) struct Rounds([Vec<Seen>; 2]);

/// A sampled key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) key: Vec<u8>,
    /// Its type.
    pub(crate) kind: String,
    /// The figure by which keys are ranked.
    pub(crate) figure: i64,
}

impl KeySamples {
    /// The sampled keys of a user.
    pub(crate) fn of(&self, user: &str) -> KeySample {
        self.0.get(user).cloned().unwrap_or_default()
    }

    /// Stores the sampled keys of a user.
    pub(crate) fn keep(&mut self, user: String, sample: KeySample) {
        if self.0.len() >= USERS_MAX && !self.0.contains_key(&user) {
            self.0.clear();
        }
        self.0.insert(user, sample);
    }
}

impl KeySample {
    /// Begins a new round.
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

    /// Adds a key to the current round.
    pub(crate) fn note(&mut self, seen: Seen) {
        note(&mut self.0[0], seen);
    }

    /// The highest-ranked keys of both rounds, each once. `figure`: the name of the figure in JSON.
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

/// Adds a key if it belongs to the highest-ranked ones.
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
