//! On which processors threads may run, and how many of them this process gets.
//!
//! The set of allowed processors is the one that `taskset` or a container's CPU set left. A CPU quota of a
//! control group (cgroup v1 and v2) takes away time rather than processors: more threads than it pays for
//! only get in each other's way. The standard library knows both.

use std::num::NonZero;
use std::sync::OnceLock;

use rustix::thread::{CpuSet as Mask, sched_getaffinity, sched_setaffinity};

/// The unit of times in `/proc`, on all of today's Linux machines.
const USER_HZ: u64 = 100;

/// Processors, by number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuSet(Vec<usize>);

/// The processors that this process may use. Determined once: a thread that is confined to some of them would
/// see only those.
pub fn allowed_cpus() -> &'static CpuSet {
    static ALLOWED: OnceLock<CpuSet> = OnceLock::new();
    ALLOWED.get_or_init(|| {
        let mask = sched_getaffinity(None).unwrap_or_default();
        CpuSet((0..Mask::MAX_CPU).filter(|cpu| mask.is_set(*cpu)).collect())
    })
}

/// The number of processors for which this process gets time: all that it may use, or fewer if its control
/// groups limit the time. At least 1; determined once.
pub fn cpu_quota() -> usize {
    static QUOTA: OnceLock<usize> = OnceLock::new();
    *QUOTA.get_or_init(|| {
        let allowed = allowed_cpus().count().max(1);
        std::thread::available_parallelism().map_or(allowed, NonZero::get).min(allowed)
    })
}

impl CpuSet {
    /// The processors in a list in Redis' form: numbers and ranges separated by commas; `a-b:n` is every n-th
    /// of a range.
    pub fn parse(list: &str) -> Option<CpuSet> {
        let mut cpus = Vec::new();
        for item in list.split(',') {
            let (range, step) = match item.split_once(':') {
                Some((range, step)) if range.contains('-') => (range, number(step).filter(|step| *step > 0)?),
                Some(_) => return None,
                None => (item, 1),
            };
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(range)?, number(range)?),
            };
            if first > last || last >= Mask::MAX_CPU {
                return None;
            }
            cpus.extend((first..=last).step_by(step));
        }
        cpus.sort_unstable();
        cpus.dedup();
        Some(CpuSet(cpus))
    }

    /// Number of processors.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The processors that are in `other` as well.
    pub fn and(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.0.iter().copied().filter(|cpu| other.0.contains(cpu)).collect())
    }

    /// The processor of the `thread_index`-th thread when threads are assigned round-robin.
    pub fn dealt(&self, thread_index: usize) -> CpuSet {
        let cpu = thread_index.checked_rem(self.0.len()).map(|index| self.0[index]);
        CpuSet(cpu.into_iter().collect())
    }

    /// The total time for which these have been idle since the machine started; `None` if the system does not
    /// report it.
    pub fn idle_ns(&self) -> Option<u64> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        Some(self.idle_ticks(&text)? * (1_000_000_000 / USER_HZ))
    }

    /// Computes that from the system's text: a line for each processor, with its name and the time in each
    /// state. Low-priority work counts as idle, because it gives way.
    fn idle_ticks(&self, stat: &str) -> Option<u64> {
        let mut ticks = None;
        for line in stat.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(cpu) = words.next().and_then(|name| number(name.strip_prefix("cpu")?)) else { continue };
            let states: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
            if let ([_user, nice, _system, idle, waiting, ..], true) = (&states[..], self.0.contains(&cpu)) {
                *ticks.get_or_insert(0) += nice + idle + waiting;
            }
        }
        ticks
    }

    /// Confines the calling thread, and threads that it starts, to these.
    ///
    /// # Errors
    /// The system's, if none of them exists or may be used.
    pub fn confine(&self) -> std::io::Result<()> {
        let mut mask = Mask::new();
        self.0.iter().for_each(|cpu| mask.set(*cpu));
        Ok(sched_setaffinity(None, &mask)?)
    }
}

/// Parses a number of digits only: no sign, no space.
fn number(text: &str) -> Option<usize> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_in_redis() {
        for (list, expected) in [
            ("0", Some(&[0][..])),
            ("1,3", Some(&[1, 3])),
            ("0-3", Some(&[0, 1, 2, 3])),
            ("0-7:2,1", Some(&[0, 1, 2, 4, 6])),
            ("5,5,4-5", Some(&[4, 5])),
            ("3-1", None),
            ("0-3:0", None),
            ("1:2", None),
            ("", None),
            ("1,", None),
            ("a", None),
            ("+1", None),
            ("1 ", None),
            ("0-99999999", None),
        ] {
            assert_eq!(CpuSet::parse(list), expected.map(|cpus| CpuSet(cpus.to_vec())), "{list}");
        }
    }

    #[test]
    fn idle_time_is_that_of_these_processors() {
        let stat = "cpu  9 9 9 900 9 0 0 0 0 0\ncpu0 1 2 3 400 5 6 7 0 0 0\ncpu1 1 0 3 500 0 6\ncpu12 7 1 1 30\nintr 12 4\n";
        let of = |cpus: &[usize]| CpuSet(cpus.to_vec()).idle_ticks(stat);
        assert_eq!([of(&[0]), of(&[0, 1]), of(&[1, 7])], [Some(407), Some(907), Some(500)]);
        assert_eq!([of(&[7]), of(&[12])], [None, None], "a line that is cut off says nothing");
        assert!(allowed_cpus().idle_ns().is_some());
    }

    #[test]
    fn threads_are_dealt_over_the_processors() {
        let set = CpuSet(vec![2, 5]);
        assert_eq!([0, 1, 2].map(|index| set.dealt(index).0), [[2], [5], [2]]);
        assert_eq!(CpuSet::default().dealt(3), CpuSet::default());
    }

    #[test]
    fn a_thread_is_confined_and_the_process_is_not() {
        let all = allowed_cpus();
        assert!(all.count() >= 1 && (1..=all.count()).contains(&cpu_quota()));
        let one = all.dealt(0);
        let seen = std::thread::spawn(move || {
            one.confine().expect("it is allowed");
            let mask = sched_getaffinity(None).expect("it can be asked for");
            (mask.count() as usize, allowed_cpus().count())
        });
        assert_eq!(seen.join().expect("nothing panics"), (1, all.count()));
        assert!(CpuSet::default().confine().is_err());
    }
}
