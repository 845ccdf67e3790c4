//! Decides how many threads serve, and on which processors they run.
//!
//! By default the kernel places the threads: two servers on one machine must not be tied to the same core, and the unit
//! files of distributions forbid the system call. `server_cpulist` confines the process to some processors, as in
//! Redis, and `bgsave_cpulist` the thread that writes snapshots. `pin` assigns each thread to one processor, so that
//! measurements are repeatable.

use config::Id;
use config::{BGSAVE_CPULIST, PIN, SERVER_CPULIST, Settings, TABLE};
use proactor::{CpuSet, allowed_cpus, cpu_quota};

/// The number of threads, and its reason.
#[derive(PartialEq, Eq, Debug)]
pub struct ThreadCount {
    /// How many.
    pub count: usize,
    /// Why this number, for the log.
    pub reason: String,
}

impl ThreadCount {
    /// The number from the settings, or the default.
    pub fn of(settings: &Settings) -> ThreadCount {
        match settings.thread_count() {
            Some((count, name)) => ThreadCount { count, reason: format!("set by {name}") },
            None => ThreadCount::by_default(settings),
        }
    }

    /// One thread for each processor that the server may use, or fewer if its CPU quota is smaller.
    fn by_default(settings: &Settings) -> ThreadCount {
        let list = list(settings, SERVER_CPULIST);
        let usable = list.as_ref().map_or(allowed_cpus().count(), |list| list.and(allowed_cpus()).count());
        ThreadCount::least(usable.max(1), cpu_quota(), list.is_some())
    }

    fn least(usable: usize, quota: usize, is_listed: bool) -> ThreadCount {
        let whose =
            if is_listed { "processors of server_cpulist" } else { "processors this process may use" };
        let (count, reason) = if quota < usable {
            (quota, format!("the CPU quota of the control group, with {usable} {whose}"))
        } else {
            (usable, format!("as many as {whose}"))
        };
        ThreadCount { count, reason }
    }
}

/// Confines the calling thread, and threads that it starts, to `server_cpulist`.
pub fn confine_server(settings: &Settings) {
    // Both are found out once, before anything is confined.
    let _ = (allowed_cpus(), cpu_quota());
    confine(settings, SERVER_CPULIST);
}

/// The processor of thread number `index`, if threads are pinned.
pub fn of_thread(settings: &Settings, index: usize) -> Option<CpuSet> {
    settings.is_on(PIN).then(|| for_server(settings).dealt(index))
}

/// Pins the calling thread, which is number `index`.
pub fn pin(index: usize, processor: &CpuSet) {
    if let Err(error) = processor.confine() {
        tracing::warn!("cannot pin thread {index} to a processor: {error}");
    }
}

/// Places the thread that writes a snapshot: it may have been started by a pinned thread.
pub fn place_writer(settings: &Settings) {
    if settings.is_on(BGSAVE_CPULIST) {
        confine(settings, BGSAVE_CPULIST);
    } else if settings.is_on(PIN) {
        // A refusal was already logged when the thread was pinned.
        let _ = for_server(settings).confine();
    }
}

fn confine(settings: &Settings, id: Id) {
    if let Some(Err(error)) = list(settings, id).map(|list| list.confine()) {
        let name = TABLE.setting(id).name;
        tracing::warn!("cannot run on the processors {} of {name}: {error}", settings.text(id));
    }
}

/// The allowed processors that are in `server_cpulist`.
pub fn for_server(settings: &Settings) -> CpuSet {
    let allowed = allowed_cpus();
    list(settings, SERVER_CPULIST).map_or_else(|| allowed.clone(), |list| list.and(allowed))
}

fn list(settings: &Settings, id: Id) -> Option<CpuSet> {
    settings.is_on(id).then(|| CpuSet::parse(&settings.text(id))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_says_where_it_comes_from() {
        for (usable, quota, is_listed, count, reason) in [
            (8, 8, false, 8, "as many as processors this process may use"),
            (8, 2, false, 2, "the CPU quota of the control group, with 8 processors this process may use"),
            (4, 8, true, 4, "as many as processors of server_cpulist"),
            (4, 3, true, 3, "the CPU quota of the control group, with 4 processors of server_cpulist"),
        ] {
            let expected = ThreadCount { count, reason: reason.to_owned() };
            assert_eq!(ThreadCount::least(usable, quota, is_listed), expected);
        }
    }
}
