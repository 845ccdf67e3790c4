//! The scripts that the server knows, for all threads.
//!
//! Scripts that came with `SCRIPT LOAD` stay until the cache is flushed, as clients rely on it. Those that
//! came with `EVAL` are kept because clients may go on with `EVALSHA`; some clients send ever new sources, so
//! only the last 500 that are in use stay, as in Redis 7.4. "In use" is one bit per script, set when it runs
//! and looked at when another must go (the clock algorithm): running a script writes nothing that is shared.
//!
//! A script that leaves the cache is marked, and every [`crate::Engine`] stops running it, without being
//! told.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::script::{Script, Sha1Hex};

/// How many scripts that came with `EVAL` are kept.
pub const EVAL_SCRIPT_COUNT_MAX: usize = 500;

/// How a script came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// With `EVAL`.
    Eval,
    /// With `SCRIPT LOAD`.
    Load,
}

/// Scripts by name.
#[derive(Debug, Default)]
pub struct ScriptCache {
    scripts: HashMap<Sha1Hex, (Arc<Script>, Origin), foldhash::fast::FixedState>,
    /// The names of the `EVAL` ones, the next candidate to leave in front.
    eval_order: VecDeque<Sha1Hex>,
    source_bytes: usize,
}

impl ScriptCache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> ScriptCache {
        ScriptCache::default()
    }

    /// The script with this name.
    #[must_use]
    pub fn get(&self, sha: &Sha1Hex) -> Option<Arc<Script>> {
        self.scripts.get(sha).map(|(script, _)| Arc::clone(script))
    }

    /// Keeps a script that an engine has compiled, and returns it, or the equal one that was here already.
    /// Once loaded, a script stays loaded.
    pub fn insert(&mut self, script: Arc<Script>, origin: Origin) -> Arc<Script> {
        let sha = *script.sha();
        if let Some((present, present_origin)) = self.scripts.get_mut(&sha) {
            if origin == Origin::Load && *present_origin == Origin::Eval {
                *present_origin = Origin::Load;
                self.eval_order.retain(|name| *name != sha);
            }
            return Arc::clone(present);
        }
        // The caller had it from here, and meanwhile the cache was flushed.
        let script = if script.is_gone() { Arc::new(script.anew()) } else { script };
        if origin == Origin::Eval {
            if self.eval_order.len() == EVAL_SCRIPT_COUNT_MAX {
                self.evict_one();
            }
            self.eval_order.push_back(sha);
        }
        self.source_bytes += script.source().len();
        self.scripts.insert(sha, (Arc::clone(&script), origin));
        script
    }

    /// Lets go of an `EVAL` script that has not run for the longest time, more or less.
    fn evict_one(&mut self) {
        while let Some(sha) = self.eval_order.pop_front() {
            let Some((script, _)) = self.scripts.get(&sha) else { continue };
            // Every bit that is found set is cleared, so this ends within two rounds if no thread runs
            // scripts meanwhile, and soon even if some do.
            if script.take_used() {
                self.eval_order.push_back(sha);
                continue;
            }
            script.set_gone();
            self.source_bytes -= script.source().len();
            self.scripts.remove(&sha);
            return;
        }
    }

    /// Lets go of everything.
    pub fn flush(&mut self) {
        for (script, _) in self.scripts.values() {
            script.set_gone();
        }
        *self = ScriptCache::default();
    }

    /// How many scripts there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scripts.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scripts.is_empty()
    }

    /// Memory held by the sources and their table, roughly.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let entry_bytes = size_of::<(Sha1Hex, (Arc<Script>, Origin))>() + size_of::<Script>();
        self.source_bytes + self.scripts.len() * entry_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(number: usize) -> Arc<Script> {
        Arc::new(Script::new(format!("return {number}").as_bytes()).unwrap())
    }

    #[test]
    fn evicts_unused_eval_scripts_only() {
        let mut cache = ScriptCache::new();
        let loaded = cache.insert(script(0), Origin::Load);
        let used = cache.insert(script(1), Origin::Eval);
        let unused = cache.insert(script(2), Origin::Eval);
        used.set_used();
        for number in 3..EVAL_SCRIPT_COUNT_MAX + 2 {
            cache.insert(script(number), Origin::Eval);
        }
        assert_eq!(cache.len(), EVAL_SCRIPT_COUNT_MAX + 1);
        assert!(!loaded.is_gone() && !used.is_gone() && unused.is_gone());
        assert!(cache.get(unused.sha()).is_none());
    }

    #[test]
    fn keeps_what_is_loaded_later() {
        let mut cache = ScriptCache::new();
        let first = cache.insert(script(0), Origin::Eval);
        assert!(Arc::ptr_eq(&first, &cache.insert(script(0), Origin::Load)));
        for number in 1..=2 * EVAL_SCRIPT_COUNT_MAX {
            cache.insert(script(number), Origin::Eval);
        }
        assert!(cache.get(first.sha()).is_some());
        assert_eq!(cache.len(), EVAL_SCRIPT_COUNT_MAX + 1);
        cache.flush();
        assert!(cache.is_empty() && first.is_gone());
        assert_eq!(cache.memory_bytes(), 0);
        // Whoever had it before the flush brings it back.
        let again = cache.insert(first, Origin::Load);
        assert!(!again.is_gone() && Arc::ptr_eq(&again, &cache.get(again.sha()).unwrap()));
    }
}
