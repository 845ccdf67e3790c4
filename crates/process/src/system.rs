//! The services of the operating system other than I/O: limits, signals, resource usage.
//!
//! Each function is a thin, safe shell around one system call, by rustix where possible. Signals are blocked in every
//! thread, and one thread waits for them. So no system call is ever interrupted, which a crate that installs handlers
//! cannot promise.

use std::io;
use std::mem::MaybeUninit;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use rustix::process::{Resource, Rlimit, getpid, getrlimit, kill_process, setrlimit};

/// Raises the limit of open files to `wanted`, or as near as the system allows. Returns the limit.
pub fn raise_file_limit(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // None is without limit.
    let Some(current) = limit.current.filter(|current| *current < wanted) else {
        return limit.current.unwrap_or(u64::MAX);
    };
    let maximum = limit.maximum.unwrap_or(u64::MAX);
    for (current, maximum) in [(wanted, maximum.max(wanted)), (wanted.min(maximum), maximum)] {
        let maximum = limit.maximum.and(Some(maximum));
        if setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum }).is_ok() {
            return current;
        }
    }
    current
}

/// Forks the process; true in the new one. There may be no other threads.
pub(crate) fn fork() -> io::Result<bool> {
    // SAFETY: no other thread can have left anything half done that the new process would need.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(child == 0),
    }
}

/// Disables huge pages for the process.
pub fn disable_huge_pages() {
    // If the kernel does not know the call, huge pages stay as they are.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// A signal that the server handles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// `SIGTERM`
    Terminate,
    /// `SIGINT`
    Interrupt,
    /// `SIGHUP`
    Hangup,
}

/// The set of these signals.
fn obeyed_signals() -> libc::sigset_t {
    set_of(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
}

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the call initialises the set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: the set was initialised, the signals exist.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) };
    }
    // SAFETY: it was initialised above.
    unsafe { set.assume_init() }
}

/// Gives up rights that no server needs (`no_new_privs`), for this thread and those that it starts. If an attacker made
/// the server run a program, that program would get no further rights from its file. Core dumps and `perf` remain
/// possible. Logs if the server runs as root.
pub fn give_up_privileges() {
    if let Err(error) = rustix::thread::set_no_new_privs(true) {
        tracing::debug!("cannot set no_new_privs: {error}");
    }
    if rustix::process::geteuid().is_root() {
        // Not a warning: in a container this may be all right, and a good start logs no warnings.
        tracing::info!("the server runs as root, which it does not need: give it a user of its own");
    }
}

/// Blocks these signals for the calling thread and those that it starts. Only [`wait_for_signal`] gets them.
pub fn hold_signals() {
    let set = obeyed_signals();
    // SAFETY: `set` is initialised, and the old mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Ignores the signal that a write gets beyond the limit of file sizes (`ulimit -f`): the write fails instead, and is
/// handled as on a full disk.
pub fn ignore_file_size_signal() {
    // SAFETY: no handler is set that could be called.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Blocks signals for the calling thread while `work` runs. Threads that `work` starts block them for ever.
pub(crate) fn without_signals<T>(signals: &[libc::c_int], work: impl FnOnce() -> T) -> T {
    let (set, mut before) = (set_of(signals), set_of(&[]));
    // SAFETY: both are initialised.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
    let done = work();
    // SAFETY: it is what was there before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    done
}

/// Waits for a signal that the server handles.
pub fn wait_for_signal() -> Signal {
    let set = obeyed_signals();
    let mut signal = 0;
    loop {
        // SAFETY: `set` is initialised and `signal` is a valid place for the answer.
        if unsafe { libc::sigwait(&raw const set, &raw mut signal) } == 0 {
            return match signal {
                libc::SIGINT => Signal::Interrupt,
                libc::SIGHUP => Signal::Hangup,
                _ => Signal::Terminate,
            };
        }
    }
}

/// Stops the process (`SIGSTOP`) until it is continued. This tells upstart that a service is ready.
pub(crate) fn stop_oneself() {
    // It cannot fail: the process exists, and may send itself signals.
    let _ = kill_process(getpid(), rustix::process::Signal::STOP);
}

/// Processor time in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTime {
    /// Time in the kernel.
    pub system: f64,
    /// Time in the program.
    pub user: f64,
}

/// The processor time of `whose`: `RUSAGE_SELF`, `RUSAGE_CHILDREN` or `RUSAGE_THREAD`.
pub fn cpu_time(whose: libc::c_int) -> CpuTime {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid place for the answer.
    if unsafe { libc::getrusage(whose, usage.as_mut_ptr()) } != 0 {
        return CpuTime::default();
    }
    // SAFETY: zeroes are a valid `rusage`, and the call has filled it.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    CpuTime { system: seconds(usage.ru_stime), user: seconds(usage.ru_utime) }
}

/// The resident memory of this process in bytes; 0 if it is unknown.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// The physical memory of the machine in bytes.
pub fn machine_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram as u64 * u64::from(system.mem_unit)
}

/// How many bytes of memory this process may have: the memory of the machine, the limit of its control groups (v1 and
/// v2), or three quarters of `ulimit -d`, whichever is least. The last quarter is for memory that the server does not
/// count.
pub fn memory_bytes_max() -> u64 {
    let data = getrlimit(Resource::Data).current.map(|bytes| bytes / 4 * 3);
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = groups.lines().flat_map(limits_of_group);
    of_groups.chain(data).fold(machine_bytes(), u64::min)
}

/// The memory limits of the group in a line of `/proc/self/cgroup`, and of its parents.
fn limits_of_group(line: &str) -> Vec<u64> {
    let mut words = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (words.next(), words.next()) else { return Vec::new() };
    let (root, name) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let limit = |group: &Path| {
        let path = Path::new(root).join(group.strip_prefix("/").unwrap_or(group)).join(name);
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    Path::new(group).ancestors().filter_map(limit).collect()
}

/// The system's text for an error, as Redis quotes it.
pub fn words_of(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Name, release and machine of the operating system.
pub fn name() -> String {
    let read = |what: &str| {
        std::fs::read_to_string(format!("/proc/sys/kernel/{what}")).map(|text| text.trim().to_owned())
    };
    let parts: io::Result<Vec<String>> = ["ostype", "osrelease", "arch"].into_iter().map(read).collect();
    parts.map_or_else(|_| std::env::consts::OS.to_owned(), |parts| parts.join(" "))
}

/// Sends a notification to systemd.
pub(crate) fn notify_systemd(state: &str) {
    let Some(place) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match place.as_encoded_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&place),
    };
    let told = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = told {
        tracing::warn!("cannot notify systemd: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_answers() {
        assert!(raise_file_limit(64) >= 64);
        assert!(resident_bytes() > 100_000);
        assert!(machine_bytes() > resident_bytes());
        assert!(cpu_time(libc::RUSAGE_SELF).user >= 0.0);
        assert!(!name().is_empty());
    }
}
