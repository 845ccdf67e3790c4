//! The processor time of each thread that serves clients, as the kernel counts it.

use std::fs;

/// The clocks of the server's threads.
#[derive(Debug, Default)]
pub(crate) struct ThreadClocks {
    paths: Vec<Option<String>>,
}

impl ThreadClocks {
    /// Finds the threads `darter-0`, `darter-1` … of this process.
    pub(crate) fn find(thread_count: usize) -> ThreadClocks {
        let mut paths = vec![None; thread_count];
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        for task in tasks.map(|task| task.path()) {
            let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
            let number = name.trim().strip_prefix("darter-").and_then(|number| number.parse::<usize>().ok());
            if let Some(path) = number.and_then(|number| paths.get_mut(number)) {
                *path = Some(task.join("schedstat").display().to_string());
            }
        }
        ThreadClocks { paths }
    }

    /// For how many nanoseconds each thread has run; 0 if the kernel does not say.
    pub(crate) fn run_ns(&self) -> Vec<u64> {
        let read = |path: &Option<String>| {
            let text = fs::read_to_string(path.as_deref()?).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        self.paths.iter().map(|path| read(path).unwrap_or(0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_has_had_the_processor() {
        let work = || {
            let clocks = ThreadClocks::find(4);
            let before = clocks.run_ns();
            // As long as it takes: the kernel counts what a thread has run.
            loop {
                let now = clocks.run_ns();
                if now[3] > before[3] || now[3] == 0 {
                    return (before, now);
                }
            }
        };
        let worker = std::thread::Builder::new().name("darter-3".to_owned()).spawn(work).unwrap();
        let (before, now) = worker.join().unwrap();
        assert_eq!(
            (before[..3].to_vec(), now[..3].to_vec()),
            (vec![0; 3], vec![0; 3]),
            "there are no such threads"
        );
    }
}
