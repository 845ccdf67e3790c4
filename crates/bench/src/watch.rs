//! Observes the server besides the load: its memory over time, and its processor time before and after.
//!
//! It queries `INFO` over a connection of its own. If the server runs on this machine, the memory of its processes also
//! comes from `/proc`, children included (a server that forks to save has two).

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::line::{Info, Line};
use crate::target::{Address, Greeting, Target};

const INTERVAL: Duration = Duration::from_millis(250);
/// A server that does not answer within this time is not asked again.
const INFO_TIMEOUT: Duration = Duration::from_secs(2);

/// Memory at one moment. Unknown figures are absent.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Memory {
    pub(crate) seconds: f64,
    pub(crate) used_bytes: Option<u64>,
    /// The resident memory of all the server's processes.
    pub(crate) rss_bytes: Option<u64>,
    /// `rss_bytes` with shared pages divided among the processes that share them.
    pub(crate) pss_bytes: Option<u64>,
}

/// Reads a server's memory.
#[derive(Debug)]
pub(crate) struct Eye {
    line: Line,
    pid: Option<u32>,
    start: Instant,
}

impl Eye {
    /// `None` if the server cannot be queried. `is_deep`: also reads `/proc`, which for large servers takes the kernel
    /// milliseconds and so disturbs measurements of latency.
    pub(crate) fn open(target: &Target, greeting: Greeting, is_deep: bool) -> Option<Eye> {
        if greeting == Greeting::Silent {
            return None;
        }
        let mut line = target.line(greeting).ok()?;
        line.wait_at_most(Some(INFO_TIMEOUT)).ok()?;
        let pid = local_pid(target, &line.info("everything").ok()?).filter(|_| is_deep);
        Some(Eye { line, pid, start: Instant::now() })
    }

    /// The current memory; `None` if the server does not answer.
    pub(crate) fn look(&mut self) -> Option<Memory> {
        let info = self.line.info("memory").ok()?;
        let processes = self.pid.map(Processes::of).unwrap_or_default();
        Some(Memory {
            seconds: self.start.elapsed().as_secs_f64(),
            used_bytes: info.number("used_memory"),
            rss_bytes: processes.rss_bytes.or_else(|| info.number("used_memory_rss")),
            pss_bytes: processes.pss_bytes,
        })
    }
}

/// Reads the memory periodically until it is stopped.
#[derive(Debug)]
pub(crate) struct Watch {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Memory>>,
}

impl Watch {
    pub(crate) fn start(mut eye: Eye) -> Watch {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stopped = is_stopped.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = Vec::new();
            loop {
                // When stopped, it reads the memory once more, for the end.
                let is_last = stopped.load(Ordering::Relaxed);
                let Some(memory) = eye.look() else { return seen };
                seen.push(memory);
                if is_last {
                    return seen;
                }
                std::thread::park_timeout(INTERVAL);
            }
        });
        Watch { is_stopped, thread }
    }

    /// Stops, and returns what was read.
    pub(crate) fn stop(self) -> Vec<Memory> {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

/// The server's processor time so far, in seconds. From `/proc` if possible, which is finer than `INFO`.
pub(crate) fn server_cpu_seconds(target: &Target, info: &Info) -> Option<f64> {
    if let Some(pid) = local_pid(target, info) {
        return Some(process_cpu_ns(pid)? as f64 / 1e9);
    }
    let user: f64 = info.number("used_cpu_user")?;
    let system: f64 = info.number("used_cpu_sys")?;
    Some(user + system)
}

/// The server's process id, if it runs on this machine and we may inspect it.
fn local_pid(target: &Target, info: &Info) -> Option<u32> {
    let is_local = match &target.address {
        Address::Unix(_) => true,
        Address::Tcp(host, _) => host == "localhost" || host == "::1" || host.starts_with("127."),
    };
    let pid: u32 = info.number("process_id").filter(|_| is_local)?;
    // In another container, the number may mean another process, or none.
    let executable = info.text("executable").map(Path::new).and_then(Path::file_name)?;
    let own = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    (own.file_name()? == executable || own.file_name()?.to_string_lossy().starts_with("redis")).then_some(pid)
}

pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn process_cpu_ns(pid: u32) -> Option<u64> {
    let mut total = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        total += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(total)
}

/// Memory of a process and its children.
#[derive(Debug, Default)]
struct Processes {
    rss_bytes: Option<u64>,
    pss_bytes: Option<u64>,
}

impl Processes {
    fn of(pid: u32) -> Processes {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let mut found = Processes::default();
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        for process in std::iter::once(pid).chain(children) {
            let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
            for (field, total) in [("Rss:", &mut found.rss_bytes), ("Pss:", &mut found.pss_bytes)] {
                let line = rollup.lines().find_map(|line| line.strip_prefix(field));
                let kilobytes = line.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
                *total = total
                    .or(Some(0).filter(|_| kilobytes.is_some()))
                    .map(|sum| sum + kilobytes.unwrap_or(0) * 1024);
            }
        }
        found
    }
}
