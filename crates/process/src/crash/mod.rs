//! Reports a crash in the log, and then ends the process as the signal does by default.
//!
//! ```text
//!   SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT (a panic aborts)
//!     └─▶ handler, on the thread's alternate stack: notes signal, addresses of the frames, command ──▶ pipe
//!                                                                                                      │
//!   reporter thread, which has waited since the start ◀────────────────────────────────────────────────┘
//!     └─▶ names of functions, what the server tells of itself ──▶ log;   then the handler lets the signal do what it does by default
//! ```
//!
//! The handler only does what is safe in a signal handler: it stores numbers, and reads and writes pipes. Names and
//! texts need memory, which the crashed thread may have left in disorder. So another thread makes them, and the handler
//! waits for it for a limited time. A crash during the report ends the process at once.
//!
//! A report contains no keys, values or arguments: it names the command, without what it was called with.

mod report;

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

pub use report::Reported;

use crate::system::without_signals;

/// The signals that are reported.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];
/// The most frames of a backtrace.
const FRAMES_MAX: usize = 128;
/// The size of a thread's alternate stack: more than unwinding needs.
const STACK_BYTES: usize = 128 * 1024;
/// How long the handler waits for the report, in milliseconds.
const REPORT_MS: c_int = 20_000;

/// The notes of the handler for the reporter.
struct Notes {
    is_crashing: AtomicBool,
    signal: AtomicI32,
    /// `si_code`: positive if the processor raised the signal; otherwise a process sent it.
    code: AtomicI32,
    address: AtomicUsize,
    sender: AtomicI32,
    frames: [AtomicUsize; FRAMES_MAX],
    frame_count: AtomicUsize,
    /// The name of the thread, as the kernel stores it.
    thread_name: [AtomicU64; 2],
    /// The number of the thread if it runs commands, else -1.
    thread: AtomicI32,
    /// The client whose command ran, the number of the command (-1: none) and the database.
    client: AtomicU64,
    command: AtomicI32,
    db: AtomicI32,
}

static NOTES: Notes = Notes {
    is_crashing: AtomicBool::new(false),
    signal: AtomicI32::new(0),
    code: AtomicI32::new(0),
    address: AtomicUsize::new(0),
    sender: AtomicI32::new(0),
    frames: [const { AtomicUsize::new(0) }; FRAMES_MAX],
    frame_count: AtomicUsize::new(0),
    thread_name: [const { AtomicU64::new(0) }; 2],
    thread: AtomicI32::new(-1),
    client: AtomicU64::new(0),
    command: AtomicI32::new(-1),
    db: AtomicI32::new(0),
};

/// The message of the panic, if there was one.
static PANIC: Mutex<String> = Mutex::new(String::new());
static SERVER: OnceLock<&'static dyn Reported> = OnceLock::new();
static PIPES: OnceLock<Pipes> = OnceLock::new();

/// The pipes between handler and reporter. Each has one end of both.
struct Pipes {
    crashed: [c_int; 2],
    reported: [c_int; 2],
}

thread_local! {
    /// The activity of this thread, if it runs commands.
    static DOING: Doing = const {
        Doing {
            thread: AtomicI32::new(-1),
            client: AtomicU64::new(0),
            db: AtomicI32::new(0),
            command: AtomicI32::new(-1),
        }
    };
    /// Whether this thread has an alternate stack, which must be large enough for a backtrace.
    static HAS_STACK: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread's crash is being reported.
    static HAS_CRASHED: Cell<bool> = const { Cell::new(false) };
}

/// The activity of a thread. Only the thread itself uses this, and a signal handler that interrupts it.
struct Doing {
    /// The number of the thread; -1: it runs no commands.
    thread: AtomicI32,
    /// The client that is served (0: none), its database, and the last command that ran for it.
    client: AtomicU64,
    db: AtomicI32,
    command: AtomicI32,
}

/// Reports crashes from now on, while `server` wants it.
pub fn watch(server: &'static dyn Reported) -> io::Result<()> {
    let pipes = Pipes { crashed: pipe()?, reported: pipe()? };
    if SERVER.set(server).is_err() || PIPES.set(pipes).is_err() {
        return Ok(());
    }
    // The kernel may deliver a signal that is sent from outside to any thread. The reporter could not report it.
    let reporter = std::thread::Builder::new().name("crash-report".to_owned());
    without_signals(&SIGNALS, || reporter.spawn(report::wait))?;
    take_alternate_stack();
    // SAFETY: zeroes are a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    for signal in SIGNALS {
        // SAFETY: the handler has the signature that SA_SIGINFO asks for, and does what a handler may.
        if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Records the message of a panic. The process is about to abort.
pub fn note_panic(text: String) {
    // A thread that panics at the same time has printed its message on standard error.
    if let Ok(mut panic) = PANIC.try_lock() {
        *panic = text;
    }
}

/// Gives the calling thread an alternate stack for the handler, until the process ends.
pub fn take_alternate_stack() {
    // Not from the allocator, whose memory counts as that of data.
    let Some(stack) = new_pages(STACK_BYTES, libc::PROT_READ | libc::PROT_WRITE) else { return };
    let alternate = libc::stack_t { ss_sp: stack, ss_flags: 0, ss_size: STACK_BYTES };
    // SAFETY: the memory is never freed, and nothing else uses it.
    let is_taken = unsafe { libc::sigaltstack(&raw const alternate, std::ptr::null_mut()) } == 0;
    HAS_STACK.set(is_taken);
}

/// Lets a report say that this thread, which runs commands, has this number.
pub fn watch_thread(number: u16) {
    take_alternate_stack();
    DOING.with(|doing| doing.thread.store(i32::from(number), Ordering::Relaxed));
}

/// This thread runs a command for a client.
#[inline]
pub fn note_command(client: u64, db: u32, command: u16) {
    DOING.with(|doing| {
        doing.client.store(client, Ordering::Relaxed);
        doing.db.store(db as i32, Ordering::Relaxed);
        doing.command.store(i32::from(command), Ordering::Relaxed);
    });
}

/// This thread serves no client for now.
#[inline]
pub fn note_no_client() {
    DOING.with(|doing| doing.client.store(0, Ordering::Relaxed));
}

/// Writes to a page that may not be written: for `DEBUG SEGFAULT`.
pub fn write_where_nobody_may() {
    let page = new_pages(4096, libc::PROT_READ).expect("there is room for a page");
    // SAFETY: the address is not null and aligned; that the write faults is what this is for.
    unsafe { page.cast::<u8>().write_volatile(1) };
}

/// Maps new pages with this protection.
fn new_pages(bytes: usize, protection: c_int) -> Option<*mut c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: these are new pages, which are not in use.
    let pages = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    (pages != libc::MAP_FAILED).then_some(pages)
}

fn pipe() -> io::Result<[c_int; 2]> {
    let mut ends = [0; 2];
    // SAFETY: there is room for both ends.
    match unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } {
        0 => Ok(ends),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The handler.
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    let is_wanted = SERVER.get().is_some_and(|server| server.is_wanted());
    if is_wanted && let Some(pipes) = PIPES.get() {
        if NOTES.is_crashing.swap(true, Ordering::SeqCst) {
            wait_for_the_other();
        } else {
            HAS_CRASHED.set(true);
            note(signal, info);
            report_and_wait(pipes);
        }
    }
    // SAFETY: no handler; what the processor met it meets again when this one returns.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: the kernel passes valid information.
    if unsafe { (*info).si_code } <= 0 {
        // SAFETY: no pointers. It is delivered when this handler returns.
        unsafe { libc::raise(signal) };
    }
}

/// Waits for another thread that crashed before: it ends the process when its report is written. Does not wait if this
/// is a further crash of that thread or of the reporter.
fn wait_for_the_other() {
    if !HAS_CRASHED.get() && !report::is_reporter() {
        // SAFETY: no entries.
        unsafe { libc::poll(std::ptr::null_mut(), 0, REPORT_MS) };
    }
}

/// Records the crash. Only stores numbers.
fn note(signal: c_int, info: *mut libc::siginfo_t) {
    NOTES.signal.store(signal, Ordering::Relaxed);
    // SAFETY: the kernel passes valid information.
    let info = unsafe { &*info };
    NOTES.code.store(info.si_code, Ordering::Relaxed);
    if info.si_code > 0 {
        // SAFETY: these signals come with an address.
        NOTES.address.store(unsafe { info.si_addr() } as usize, Ordering::Relaxed);
    } else {
        // SAFETY: a signal that was sent comes with its sender.
        NOTES.sender.store(unsafe { info.si_pid() }, Ordering::Relaxed);
    }
    let mut name = [0_u64; 2];
    // SAFETY: there is room for the sixteen bytes of a name.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    NOTES.thread_name.iter().zip(name).for_each(|(stored, part)| stored.store(part, Ordering::Relaxed));
    note_doing();
    if HAS_STACK.get() {
        note_frames();
    }
}

/// Records what this thread was doing, if it runs commands.
fn note_doing() {
    DOING.with(|doing| {
        NOTES.thread.store(doing.thread.load(Ordering::Relaxed), Ordering::Relaxed);
        let client = doing.client.load(Ordering::Relaxed);
        if client != 0 {
            NOTES.client.store(client, Ordering::Relaxed);
            NOTES.db.store(doing.db.load(Ordering::Relaxed), Ordering::Relaxed);
            NOTES.command.store(doing.command.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    });
}

/// Records the addresses of the frames: those of the handler, then those of the crash.
fn note_frames() {
    let mut count = 0;
    let walk = |frame: &backtrace::Frame| {
        NOTES.frames[count].store(frame.ip() as usize, Ordering::Relaxed);
        count += 1;
        count < FRAMES_MAX
    };
    // SAFETY: one thread at a time comes here, as `is_crashing` says; this asks for no lock.
    unsafe { backtrace::trace_unsynchronized(walk) };
    NOTES.frame_count.store(count, Ordering::Release);
}

/// Wakes the reporter, and waits for its report.
fn report_and_wait(pipes: &Pipes) {
    let byte = [0_u8];
    // SAFETY: the byte is there, the pipe is open.
    unsafe { libc::write(pipes.crashed[1], byte.as_ptr().cast(), 1) };
    let mut done = libc::pollfd { fd: pipes.reported[0], events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&raw mut done, 1, REPORT_MS) };
}

/// Waits for a crash. The reporter calls this.
fn wait_for_crash() -> bool {
    let Some(pipes) = PIPES.get() else { return false };
    let mut byte = [0_u8];
    // SAFETY: there is room for the byte, the pipe is open.
    unsafe { libc::read(pipes.crashed[0], byte.as_mut_ptr().cast(), 1) == 1 }
}

/// Wakes the handler after the report is written.
fn note_reported() {
    let byte = [0_u8];
    if let Some(pipes) = PIPES.get() {
        // SAFETY: the byte is there, the pipe is open.
        unsafe { libc::write(pipes.reported[1], byte.as_ptr().cast(), 1) };
    }
}

/// Writes a part of the report to the log, without its lock.
fn write_to_log(text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        // SAFETY: these bytes are there; a descriptor that is not open is an error.
        let written = unsafe { libc::write(crate::log::descriptor(), rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => rest = &rest[written..],
            _ => return,
        }
    }
}
