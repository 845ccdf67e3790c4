//! Stops one thread of a running program, as if a call of it did not return or no core were free for it,
//! while all other threads continue.
//!
//! A thread of this process becomes the tracer of that thread. When the tracer lets go, or ends, the traced
//! thread continues.

use std::fs;
use std::io;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use libc::pid_t;

use crate::tracer::{ptrace, wait_for};

/// A thread that stands still as long as this exists, unless its program is killed.
#[derive(Debug)]
pub struct Halt {
    let_go: Option<Sender<()>>,
    tracer: Option<JoinHandle<()>>,
}

impl Halt {
    /// Stops the thread of a program that has this name; it stands still when this returns. `None`: no thread
    /// has this name.
    pub fn thread(process_id: u32, name: &str) -> io::Result<Option<Halt>> {
        let Some(thread) = thread_named(process_id, name)? else { return Ok(None) };
        let (stopped, is_stopped) = mpsc::channel();
        let (let_go, until) = mpsc::channel::<()>();
        let tracer = thread::spawn(move || {
            let begun = stop(thread);
            let is_begun = begun.is_ok();
            // Sending fails only if the caller has panicked, and then no thread waits any more.
            let _ = stopped.send(begun);
            if is_begun {
                // An error means that the other end is gone, which is a request to let go as well.
                let _ = until.recv();
                if ptrace(libc::PTRACE_DETACH, thread, 0, 0).is_err() {
                    // The thread was killed, and its program ends only when its tracer has been told of that.
                    let _ = wait_for(thread);
                }
            }
        });
        is_stopped.recv().map_err(io::Error::other)??;
        Ok(Some(Halt { let_go: Some(let_go), tracer: Some(tracer) }))
    }
}

impl Drop for Halt {
    fn drop(&mut self) {
        drop(self.let_go.take());
        // The tracer does not panic.
        let _ = self.tracer.take().map(JoinHandle::join);
    }
}

fn thread_named(process_id: u32, name: &str) -> io::Result<Option<pid_t>> {
    for entry in fs::read_dir(format!("/proc/{process_id}/task"))? {
        let entry = entry?;
        // The thread may have ended meanwhile.
        let is_it = fs::read_to_string(entry.path().join("comm")).is_ok_and(|found| found.trim_end() == name);
        if is_it {
            return Ok(entry.file_name().to_string_lossy().parse().ok());
        }
    }
    Ok(None)
}

fn stop(thread: pid_t) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE, thread, 0, 0)?;
    ptrace(libc::PTRACE_INTERRUPT, thread, 0, 0)?;
    match wait_for(thread)? {
        Some(_) => Ok(()),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}
