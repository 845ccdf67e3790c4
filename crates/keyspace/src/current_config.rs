//! The settings of the data path, which `CONFIG SET` changes while all threads use them.
//!
//! A thread has a reference of its own and looks at the beginning of each turn whether it is still the current one:
//! one load and one comparison. Settings that were replaced are freed with their last reference.

#![expect(clippy::disallowed_types, reason = "it is locked only when CONFIG SET has changed something")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::data_config::Config;

/// See the head of this file.
#[derive(Debug)]
pub struct CurrentConfig {
    current: Mutex<Arc<Config>>,
    /// The address of the current settings, for comparisons. It cannot be that of others while a thread holds these.
    address: AtomicUsize,
}

impl CurrentConfig {
    /// Creates it with these settings.
    pub fn new(config: Config) -> CurrentConfig {
        let current = Arc::new(config);
        CurrentConfig { address: AtomicUsize::new(address(&current)), current: Mutex::new(current) }
    }

    /// The current settings.
    pub fn get(&self) -> Arc<Config> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces `mine` if there are newer settings.
    #[inline]
    pub fn refresh(&self, mine: &mut Arc<Config>) {
        if address(mine) != self.address.load(Ordering::Acquire) {
            self.replace(mine);
        }
    }

    #[cold]
    fn replace(&self, mine: &mut Arc<Config>) {
        *mine = self.get();
    }

    /// Replaces the current settings.
    pub fn publish(&self, config: Config) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(config);
        self.address.store(address(&current), Ordering::Release);
    }
}

fn address(config: &Arc<Config>) -> usize {
    Arc::as_ptr(config).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_live_as_long_as_a_thread_uses_them() {
        let config = CurrentConfig::new(Config::default());
        let (mut first, mut second) = (config.get(), config.get());
        let before = Arc::downgrade(&first);
        config.publish(Config { promotes: true, ..Config::default() });
        assert!(!first.promotes, "a turn goes on with the settings that it began with");
        config.refresh(&mut first);
        assert!(first.promotes && before.upgrade().is_some(), "the second thread still uses the old ones");
        config.refresh(&mut second);
        assert!(second.promotes && before.upgrade().is_none(), "the last user has freed them");
    }
}
