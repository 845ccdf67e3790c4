//! Which processor a thread runs on.
//!
//! Threads are dealt over the processors this process may use, so `taskset` and a container's CPU set are respected. With
//! more threads than processors they share.

/// How many processors this process may use; at least 1.
pub fn allowed_cpus() -> usize {
    core_affinity::get_core_ids().map_or(1, |ids| ids.len().max(1))
}

/// The processors this process may use. Ask before any thread is pinned: a pinned thread sees only its own.
pub fn cpu_set() -> CpuSet {
    CpuSet(core_affinity::get_core_ids().unwrap_or_default())
}

/// Processors to deal threads over.
#[derive(Clone, Debug)]
pub struct CpuSet(Vec<core_affinity::CoreId>);

impl CpuSet {
    /// Pins the calling thread, the `thread_index`-th of its kind, and says to which processor; None if it cannot.
    pub fn pin(&self, thread_index: usize) -> Option<usize> {
        let core = *self.0.get(thread_index.checked_rem(self.0.len())?)?;
        core_affinity::set_for_current(core).then_some(core.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_dealt_over_the_processors() {
        let set = cpu_set();
        let pinned = |index| {
            let set = set.clone();
            std::thread::spawn(move || set.pin(index)).join().expect("pinning does not panic")
        };
        assert_eq!(pinned(0), pinned(allowed_cpus()));
    }
}
