//! The scripts that the server knows. All threads share them.
//!
//! Scripts loaded with `SCRIPT LOAD` stay until the cache is flushed, because clients rely on that. Scripts
//! from `EVAL` are kept because clients may continue with `EVALSHA`. Some clients send an endless stream of
//! new sources, so only the last 500 that are in use are kept, as in Redis 7.4. "In use" is one bit per
//! script (the clock algorithm): it is set when the script runs and checked when a script has to be evicted,
//! so running a script writes to no shared memory once that bit is set.
//!
//! A script that leaves the cache is marked as gone, and every [`crate::Engine`] then refuses to run it.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::script::{Script, Sha1Hex};

/// Number of `EVAL` scripts that are kept.
pub const EVAL_SCRIPT_COUNT_MAX: usize = 500;

/// How a script was loaded.
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
    /// Names of the `EVAL` scripts. The next candidate for eviction is in front.
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

    /// Adds a script that an engine has compiled. Returns it, or the equal script that was already present. A
    /// script from `EVAL` becomes a loaded one if it is loaded, never the reverse.
    pub fn insert(&mut self, script: Arc<Script>, origin: Origin) -> Arc<Script> {
        let sha = *script.sha();
        if let Some((present, present_origin)) = self.scripts.get_mut(&sha) {
            if origin == Origin::Load && *present_origin == Origin::Eval {
                *present_origin = Origin::Load;
                self.eval_order.retain(|name| *name != sha);
            }
            return Arc::clone(present);
        }
        // The caller got it from the cache, which has been flushed since.
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

    /// Evicts an `EVAL` script that has not run for a long time.
    fn evict_one(&mut self) {
        while let Some(sha) = self.eval_order.pop_front() {
            let Some((script, _)) = self.scripts.get(&sha) else { continue };
            // Each set bit is cleared, so this ends within two rounds if no thread runs scripts meanwhile,
            // and soon even if some do.
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

    /// Removes all scripts, and marks them as gone.
    pub fn flush(&mut self) {
        for (script, _) in self.scripts.values() {
            script.set_gone();
        }
        *self = ScriptCache::default();
    }

    /// Number of scripts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scripts.len()
    }

    /// Whether there are no scripts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scripts.is_empty()
    }

    /// Approximate memory used by the sources and the table.
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
        // A thread that still has the script brings it back.
        let again = cache.insert(first, Origin::Load);
        assert!(!again.is_gone() && Arc::ptr_eq(&again, &cache.get(again.sha()).unwrap()));
    }
}
