//! The knowledge about queues that all databases and threads share: the patterns, and the list of queues.
//!
//! Locks are taken only when a queue becomes known or is forgotten, when patterns change, and by readers.

#![expect(clippy::disallowed_types, reason = "taken when queues become known or forgotten, and by readers")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::figures::Figures;
use super::promotions::Promotions;
use super::recognize::{Learnt, Patterns, bound_queue};

/// The most names that are learnt from other keys.
const LEARNT_MAX: usize = 100_000;
/// The most keys that are searched for names.
const SOURCES_MAX: usize = 10_000;
/// The default of [`Known::set_count_max`].
const COUNT_MAX: usize = 100_000;

/// The known queues and patterns.
#[derive(Debug)]
pub struct Known {
    /// Counts the changes of `patterns`.
    version: AtomicU64,
    /// Counts the changes that may turn existing keys into queues.
    searches: AtomicU64,
    patterns: RwLock<Arc<Patterns>>,
    listed: Mutex<Listed>,
    count: AtomicUsize,
    count_max: AtomicUsize,
    turned_away: AtomicU64,
    now_ms: AtomicU64,
    /// The statistics of `job-recovery`.
    pub recovery: RecoveryFigures,
    /// Sets whose members name queues, by database and key.
    sources: Mutex<BTreeSet<(u32, Box<[u8]>)>>,
    paused: Mutex<BTreeSet<(u32, Box<[u8]>)>>,
    promotions: Promotions,
}

/// The statistics of `job-recovery`: its work since the server started, and the pops that it remembers. INFO,
/// `/metrics` and others show nothing else.
#[derive(Debug, Default)]
pub struct RecoveryFigures {
    /// Processes that died, whose jobs were returned if they had any.
    pub dead_processes: AtomicU64,
    /// Jobs that were returned to their queues.
    pub returned_jobs: AtomicU64,
    /// Jobs that could not be returned because the key of their queue holds something else.
    pub left_jobs: AtomicU64,
    /// When a process was last found dead, in milliseconds since 1970; 0: never.
    pub last_ms: AtomicU64,
    /// Memory of the remembered pops, in all databases.
    pub popped_bytes: AtomicUsize,
    /// Pops that were forgotten early, because too many were remembered.
    pub forgotten_pops: AtomicU64,
}

/// The listed queues, and some that are gone, because forgetting one must not search all of them.
#[derive(Debug, Default)]
struct Listed {
    all: Vec<Arc<Figures>>,
    /// An upper bound of the number of gone ones.
    gone_count: usize,
}

impl Default for Known {
    fn default() -> Self {
        Known {
            version: AtomicU64::new(1),
            searches: AtomicU64::new(1),
            patterns: RwLock::default(),
            listed: Mutex::default(),
            count: AtomicUsize::new(0),
            count_max: AtomicUsize::new(COUNT_MAX),
            turned_away: AtomicU64::new(0),
            now_ms: AtomicU64::new(0),
            recovery: RecoveryFigures::default(),
            sources: Mutex::default(),
            paused: Mutex::default(),
            promotions: Promotions::default(),
        }
    }
}

impl Known {
    /// The patterns, and the number of their changes.
    pub fn patterns(&self) -> (Arc<Patterns>, u64) {
        // The version is read first: a reader that misses a change will check again.
        let version = self.version();
        let patterns = self.patterns.read().unwrap_or_else(PoisonError::into_inner);
        (Arc::clone(&patterns), version)
    }

    /// The number of changes of the patterns.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The number of changes of the patterns that required a check of existing keys.
    pub fn searches(&self) -> u64 {
        self.searches.load(Ordering::Relaxed)
    }

    /// Sets the operator's patterns. Existing keys have to be checked again.
    pub fn set_globs(&self, globs: Vec<Box<[u8]>>) {
        let mut patterns = self.patterns.write().unwrap_or_else(PoisonError::into_inner);
        if patterns.globs() != globs {
            *patterns = Arc::new(patterns.with_globs(globs));
            self.version.fetch_add(1, Ordering::Release);
            self.searches.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Limits the number of known queues.
    pub fn set_count_max(&self, count_max: usize) {
        self.count_max.store(count_max, Ordering::Relaxed);
    }

    /// The number of queues that were not admitted because of that limit.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// The sorted sets whose due jobs move to queues.
    pub fn promotions(&self) -> &Promotions {
        &self.promotions
    }

    /// Number of known queues.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The approximate time, in milliseconds of the monotonic clock.
    pub fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    /// Sets that time; called ten times a second.
    pub fn set_now_ms(&self, now_ms: u64) {
        self.now_ms.store(now_ms, Ordering::Relaxed);
    }

    /// All queues.
    pub fn listed(&self) -> Vec<Arc<Figures>> {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.all.iter().filter(|figures| !figures.is_gone()).cloned().collect()
    }

    /// Whether another queue may become known; if so, counts it.
    pub(super) fn admit(&self) -> bool {
        let count_max = self.count_max.load(Ordering::Relaxed);
        let is_admitted = self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
            (count < count_max).then(|| count + 1)
        });
        if is_admitted.is_err() {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
        }
        is_admitted.is_ok()
    }

    pub(super) fn list(&self, figures: impl Iterator<Item = Arc<Figures>>) {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).all.extend(figures);
    }

    /// Accounts for this many forgotten queues; the listed ones must be marked as gone.
    pub(super) fn forget(&self, count: usize) {
        self.count.fetch_sub(count, Ordering::Relaxed);
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.gone_count += count;
        if listed.gone_count * 2 > listed.all.len() {
            listed.all.retain(|figures| !figures.is_gone());
            listed.gone_count = 0;
        }
    }

    /// Adds a set whose members name queues.
    pub(super) fn add_source(&self, db: u32, key: &[u8]) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() < SOURCES_MAX {
            sources.insert((db, key.into()));
        }
    }

    /// The sets whose members name queues.
    pub fn sources(&self) -> Vec<(u32, Box<[u8]>)> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Removes such a set.
    pub fn drop_source(&self, db: u32, key: &[u8]) {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).remove(&(db, key.into()));
    }

    /// Learns from a member of such a set. Returns true if it names a queue that was not known.
    pub fn learn_from(&self, member: &[u8]) -> bool {
        bound_queue(member).is_some_and(|learnt| self.learn(learnt))
    }

    pub(super) fn learn(&self, learnt: Learnt) -> bool {
        let mut patterns = self.patterns.write().unwrap_or_else(PoisonError::into_inner);
        if patterns.learnt_count() >= LEARNT_MAX {
            return false;
        }
        let mut learned = Patterns::clone(&patterns);
        // Existing keys need no check: pausing a queue examines its key.
        let is_found = matches!(learnt, Learnt::Custom(_));
        let is_new = learned.learn(learnt);
        if is_new {
            *patterns = Arc::new(learned);
            self.version.fetch_add(1, Ordering::Release);
            self.searches.fetch_add(u64::from(!is_found), Ordering::Relaxed);
        }
        is_new
    }

    pub(super) fn note_paused(&self, db: u32, name: &[u8], is_paused: bool) {
        let mut paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        if is_paused {
            paused.insert((db, name.into()));
        } else {
            paused.remove(&(db, name.into()));
        }
    }

    /// The queues that are paused, by database and key.
    pub fn paused(&self) -> Vec<(u32, Box<[u8]>)> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
