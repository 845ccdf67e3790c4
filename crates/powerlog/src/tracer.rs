//! The tracer: stops a program at calls that change files, looks at each, and lets the program continue.
//!
//! ```text
//! traced thread      seccomp stop ──▶ (kernel does the call) ──▶ exit stop ──▶ continues
//! tracer             moment `begin`, the call's arguments        result, moment `end`, event
//! ```
//!
//! One thread starts the program and traces all its threads and children, because the kernel takes requests
//! from that thread only. When that thread ends, the program is killed. A caller that wants it killed earlier
//! calls [`Recording::kill`]. The tracer then waits until no thread is within a recorded call, because the
//! effect of a call that never returned would be unknown.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use libc::{c_int, c_long, c_uint, c_void, pid_t};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use crate::calls::{Asked, CALLS, Files};
use crate::event::Event;

/// A program that is being recorded.
#[derive(Debug)]
pub struct Recording {
    process_id: u32,
    is_to_end: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Vec<Event>>>,
}

impl Recording {
    /// Whether programs can be recorded here: a sandbox may forbid processes to trace their children. Prints
    /// the reason if not.
    pub fn is_possible() -> bool {
        let tried = Recording::start(Command::new("true"), &std::env::temp_dir(), || 0);
        let outcome = tried.and_then(Recording::finish);
        if let Err(error) = &outcome {
            println!("SKIPPED: this system lets no process trace its children: {error}");
        }
        outcome.is_ok()
    }

    /// Starts `command` and records the changes that it makes to files in `folder`, which is empty. Each call
    /// of `moment` returns a later moment.
    pub fn start(
        command: Command,
        folder: &Path,
        moment: impl Fn() -> u64 + Send + 'static,
    ) -> io::Result<Recording> {
        let folder = folder.canonicalize()?;
        let (sender, receiver) = mpsc::channel();
        let is_to_end = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_to_end);
        let thread = thread::spawn(move || {
            let begun = spawn(command);
            let (pid, error) = match begun {
                Ok(pid) => (pid, None),
                Err(error) => (0, Some(error)),
            };
            let is_begun = error.is_none();
            // Sending fails only if the caller has panicked, and then no thread waits any more.
            let _ = sender.send(error.map_or(Ok(pid as u32), Err));
            if is_begun { trace(pid, folder, &moment, &ends) } else { Ok(Vec::new()) }
        });
        let process_id = receiver.recv().map_err(io::Error::other)??;
        Ok(Recording { process_id, is_to_end, thread })
    }

    /// The program's process.
    pub fn process_id(&self) -> u32 {
        self.process_id
    }

    /// Whether the program and all processes that it started have ended.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Kills the program, between calls that are recorded. Fails if it has ended by itself.
    pub fn kill(&self) -> io::Result<()> {
        self.is_to_end.store(true, Ordering::Relaxed);
        // The signal does nothing to the program, but its tracer is told of it.
        // SAFETY: sends a signal.
        let sent = unsafe { libc::kill(self.process_id as pid_t, libc::SIGURG) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits until the program has ended, and returns all its events.
    pub fn finish(self) -> io::Result<Vec<Event>> {
        self.thread.join().map_err(|_| io::Error::other("the tracer has panicked"))?
    }
}

/// Starts the program, which waits for its tracer at its first instruction.
fn spawn(mut command: Command) -> io::Result<pid_t> {
    // Checked here because the child could not report it: the filter stops its calls, and no tracer handles
    // them yet.
    if !is_there(Path::new(command.get_program())) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let rules: BTreeMap<i64, Vec<_>> = CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Trace(0), arch);
    let program: BpfProgram = filter.map_err(io::Error::other)?.try_into().map_err(io::Error::other)?;
    let prepare = move || {
        ptrace(libc::PTRACE_TRACEME, 0, 0, 0)?;
        apply_filter(&program).map_err(|_| io::Error::from(io::ErrorKind::PermissionDenied))
    };
    // SAFETY: between fork and exec it makes system calls only; it neither allocates nor locks.
    unsafe { command.pre_exec(prepare) };
    let child = command.spawn()?;
    Ok(child.id() as pid_t)
}

/// Whether a program can be found.
fn is_there(program: &Path) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    program.is_file()
        || program.components().count() == 1
            && std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Follows the program and all processes that it starts until all have ended.
fn trace(
    leader: pid_t,
    folder: PathBuf,
    moment: &dyn Fn() -> u64,
    is_to_end: &AtomicBool,
) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut files = Files::new(folder);
    // Each thread, with the call that it is in.
    let mut threads: HashMap<pid_t, Option<(u64, Asked)>> = HashMap::new();
    let options = libc::PTRACE_O_TRACESECCOMP
        | libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_EXITKILL;
    wait_for(leader)?;
    ptrace(libc::PTRACE_SETOPTIONS, leader, 0, options as usize)?;
    threads.insert(leader, None);
    go_on(libc::PTRACE_CONT, leader, 0);
    while let Some((thread, status)) = wait_for(-1)? {
        if !libc::WIFSTOPPED(status) {
            threads.remove(&thread);
            continue;
        }
        let is_new = !threads.contains_key(&thread);
        let call = threads.entry(thread).or_default();
        let is_ending = is_to_end.load(Ordering::Relaxed);
        let (signal, what) = (libc::WSTOPSIG(status), status >> 16);
        if what == libc::PTRACE_EVENT_SECCOMP && is_ending {
            // The thread stays stopped before the call until it is killed.
        } else if what == libc::PTRACE_EVENT_SECCOMP {
            let Some(info) = call_info(thread)? else { continue };
            // SAFETY: at this stop the kernel fills in this member.
            let asked = unsafe { info.u.seccomp };
            *call = files.asked(thread, asked.nr as c_long, asked.args).map(|asked| (moment(), asked));
            let how = if call.is_some() { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
            go_on(how, thread, 0);
        } else if signal == libc::SIGTRAP | 0x80 {
            if let Some((begin, asked)) = call.take() {
                let Some(info) = call_info(thread)? else { continue };
                // SAFETY: at this stop the kernel fills in this member.
                let result = unsafe { info.u.exit.sval };
                if let Some(what) = files.done(thread, asked, result) {
                    events.push(Event { begin, end: moment(), what });
                }
            }
            go_on(libc::PTRACE_CONT, thread, 0);
        } else if what != 0 || is_new && signal == libc::SIGSTOP {
            go_on(libc::PTRACE_CONT, thread, 0);
        } else {
            go_on(libc::PTRACE_CONT, thread, signal as usize);
        }
        if is_ending && threads.values().all(Option::is_none) {
            for thread in threads.keys() {
                // SAFETY: sends a signal to a thread, and to its process. The thread is not forgotten before
                // this one has been told of its end.
                unsafe { libc::kill(*thread, libc::SIGKILL) };
            }
        }
    }
    Ok(events)
}

/// Lets a thread continue. If it was killed meanwhile, `wait_for` will report that.
fn go_on(how: c_uint, thread: pid_t, signal: usize) {
    let _ = ptrace(how, thread, 0, signal);
}

/// The next stop or end of a thread that this thread traces; `None` when there are no more.
pub(crate) fn wait_for(which: pid_t) -> io::Result<Option<(pid_t, c_int)>> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is ours for the call.
        let thread = unsafe { libc::waitpid(which, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if thread > 0 {
            return Ok(Some((thread, status)));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ECHILD) => return Ok(None),
            Some(libc::EINTR) => {}
            _ => return Err(error),
        }
    }
}

/// The call that a stopped thread is in.
fn call_info(thread: pid_t) -> io::Result<Option<libc::ptrace_syscall_info>> {
    let mut info = MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    let bytes = size_of::<libc::ptrace_syscall_info>();
    match ptrace(libc::PTRACE_GET_SYSCALL_INFO, thread, bytes, info.as_mut_ptr() as usize) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        outcome => outcome?,
    }
    // SAFETY: plain numbers, which were zeros before the kernel wrote its own over them.
    Ok(Some(unsafe { info.assume_init() }))
}

pub(crate) fn ptrace(request: c_uint, thread: pid_t, address: usize, data: usize) -> io::Result<()> {
    let (address, data) = (ptr::without_provenance_mut::<c_void>(address), data as *mut c_void);
    // SAFETY: `data` is a number, or leads to a structure of the length that `address` says and that lives
    // for the call.
    let result = unsafe { libc::ptrace(request, thread, address, data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
