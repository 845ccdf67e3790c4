//! The report of a crash: what the handler recorded, with names. See `crash/mod.rs`.

use std::cell::Cell;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::{NOTES, PANIC, SERVER, note_reported, wait_for_crash, write_to_log};

/// The server's answers for a report. The reporter calls this while the crashed thread stands still. So an answer may
/// take no lock that a thread could hold.
pub trait Reported: Sync {
    /// Whether crashes are reported. A signal handler calls this.
    fn is_wanted(&self) -> bool;

    /// The name and version of the program.
    fn version(&self) -> String;

    /// The name of the command with this number.
    fn command_name(&self, number: u16) -> Option<String>;

    /// Lines `name:value` about the server.
    fn facts(&self) -> String;
}

thread_local! {
    static IS_REPORTER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread writes the report.
pub(super) fn is_reporter() -> bool {
    IS_REPORTER.get()
}

/// The body of the reporter thread.
pub(super) fn wait() {
    IS_REPORTER.set(true);
    if !wait_for_crash() {
        return;
    }
    // Piece by piece: if something goes wrong, what came before is there.
    write_to_log(&head());
    write_to_log(&cause());
    backtrace();
    write_to_log(&facts());
    write_to_log("=== DARTER BUG REPORT END. Make sure to include from START to END. ===\n\n");
    note_reported();
}

fn head() -> String {
    format!(
        "\n\n=== DARTER BUG REPORT START: Cut & paste starting from here ===\n\
         {} crashed by signal: {}, si_code: {}\n",
        SERVER.get().map(|server| server.version()).unwrap_or_default(),
        NOTES.signal.load(Ordering::Relaxed),
        NOTES.code.load(Ordering::Relaxed)
    )
}

fn cause() -> String {
    let mut text = String::new();
    match NOTES.code.load(Ordering::Relaxed) {
        1.. => {
            let _ = writeln!(text, "Accessing address: {:#x}", NOTES.address.load(Ordering::Relaxed));
        }
        _ => {
            let _ = writeln!(text, "Sent by process: {}", NOTES.sender.load(Ordering::Relaxed));
        }
    }
    if let Ok(panic) = PANIC.try_lock()
        && !panic.is_empty()
    {
        let _ = writeln!(text, "{panic}");
    }
    let name: Vec<u8> =
        NOTES.thread_name.iter().flat_map(|part| part.load(Ordering::Relaxed).to_ne_bytes()).collect();
    let name = String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
    let _ = writeln!(text, "Thread: {name}");
    let (command, thread) = (NOTES.command.load(Ordering::Relaxed), NOTES.thread.load(Ordering::Relaxed));
    let name = u16::try_from(command).ok().and_then(|number| SERVER.get()?.command_name(number));
    match name {
        Some(name) => {
            let (client, db) = (NOTES.client.load(Ordering::Relaxed), NOTES.db.load(Ordering::Relaxed));
            let _ = writeln!(
                text,
                "Current command: {name} (its arguments are not shown), client id={client} db={db}"
            );
        }
        None if thread >= 0 => text.push_str("Current command: none of a client of this thread\n"),
        None => {}
    }
    text
}

/// Writes the frames, each as soon as its name is known.
fn backtrace() {
    let count = NOTES.frame_count.load(Ordering::Acquire);
    write_to_log("\n------ STACK TRACE ------\n");
    for (number, address) in
        NOTES.frames[..count].iter().map(|frame| frame.load(Ordering::Relaxed)).enumerate()
    {
        let mut line = String::new();
        backtrace::resolve(address as *mut _, |symbol| {
            let _ = write!(line, "{number:3}: {address:#018x} ");
            match symbol.name() {
                Some(name) => {
                    let _ = write!(line, "{name:#}");
                }
                None => line.push('?'),
            }
            if let (Some(file), Some(row)) = (symbol.filename(), symbol.lineno()) {
                let _ = write!(line, " at {}:{row}", file.display());
            }
            line.push('\n');
        });
        if line.is_empty() {
            let _ = writeln!(line, "{number:3}: {address:#018x}");
        }
        write_to_log(&line);
    }
    if count == 0 {
        write_to_log("not available: the thread has no stack for it\n");
    }
}

/// The server's own lines about itself.
fn facts() -> String {
    let lines = SERVER.get().map(|server| server.facts()).unwrap_or_default();
    format!("\n------ INFO OUTPUT ------\n# Server\n{lines}\n")
}
