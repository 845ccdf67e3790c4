//! The state that the threads of a run share: when to stop, and why.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::line::lossy;

/// Most distinct error texts that are counted separately.
const TEXTS_MAX: usize = 16;
/// Most bytes of an error text that are shown.
const TEXT_BYTES_MAX: usize = 160;

/// Set when the user interrupts the program.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Makes the first interrupt (Ctrl-C) end the current run, with a report of what was measured. The second ends the
/// program.
pub(crate) fn end_on_interrupt() -> io::Result<()> {
    flag::register_conditional_shutdown(SIGINT, 130, INTERRUPTED.clone())?;
    flag::register(SIGINT, INTERRUPTED.clone())?;
    Ok(())
}

/// Stops all threads of a run.
#[derive(Debug)]
pub(crate) struct Control {
    /// When to stop starting new requests, in nanoseconds from the start.
    pub(crate) end_ns: Option<u64>,
    pub(crate) limits: Limits,
    error_count: AtomicU64,
    is_broken: AtomicBool,
    trouble: Mutex<Option<String>>,
}

/// The limits of the faults that a run tolerates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most error replies; one more stops the run.
    pub(crate) errors_max: u64,
    /// How long the server may stay silent while replies are outstanding.
    pub(crate) silence: Duration,
}

/// Number of error replies by text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors(BTreeMap<String, u64>);

impl Control {
    pub(crate) fn new(end_ns: Option<u64>, limits: Limits) -> Control {
        Control {
            end_ns,
            limits,
            error_count: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
            trouble: Mutex::new(None),
        }
    }

    /// Stops the run at once. Only the first reason is kept.
    pub(crate) fn fail(&self, why: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.get_or_insert_with(|| why.to_owned());
        self.is_broken.store(true, Ordering::Relaxed);
    }

    /// Whether the run was stopped.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Whether no new requests may start at `now_ns`.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        if INTERRUPTED.load(Ordering::Relaxed) {
            self.fail("interrupted");
        }
        self.is_broken() || self.end_ns.is_some_and(|end_ns| now_ns >= end_ns)
    }

    /// Counts an error reply, and stops the run if there are too many.
    pub(crate) fn count_error(&self, text: &[u8]) {
        let count = self.error_count.fetch_add(1, Ordering::Relaxed) + 1;
        let errors_max = self.limits.errors_max;
        if count > errors_max {
            self.fail(&format!("{count} error replies (--errors-max {errors_max}): {}", shown(text)));
        }
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Errors {
    pub(crate) fn count(&mut self, text: &[u8]) {
        self.put(shown(text), 1);
    }

    pub(crate) fn add(&mut self, other: &Errors) {
        other.0.iter().for_each(|(text, count)| self.put(text.clone(), *count));
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(text, count)| (text.as_str(), *count))
    }

    fn put(&mut self, text: String, count: u64) {
        let is_known = self.0.contains_key(&text) || self.0.len() < TEXTS_MAX;
        *self.0.entry(if is_known { text } else { "others".to_owned() }).or_default() += count;
    }
}

/// An error reply's text without its protocol frame, for display.
fn shown(reply: &[u8]) -> String {
    // A blob error has its length in a line before the text.
    let text = match reply.split_first() {
        Some((b'!', rest)) => rest.splitn(2, |byte| *byte == b'\n').nth(1).unwrap_or(rest),
        Some((b'-', rest)) => rest,
        _ => reply,
    };
    let text = lossy(&text[..text.len().min(TEXT_BYTES_MAX)]);
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_errors_end_the_run_with_their_text() {
        let control = Control::new(None, Limits { errors_max: 2, silence: Duration::ZERO });
        control.count_error(b"-ERR one\r\n");
        control.count_error(b"-ERR one\r\n");
        assert!(!control.is_over(u64::MAX));
        control.count_error(b"-OOM no memory\r\n");
        assert!(control.is_over(0));
        assert_eq!(control.trouble().as_deref(), Some("3 error replies (--errors-max 2): OOM no memory"));
        control.fail("another reason");
        assert!(control.trouble().is_some_and(|why| why.contains("OOM")), "the first reason counts");
    }

    #[test]
    fn errors_are_counted_by_text_up_to_a_limit() {
        let mut errors = Errors::default();
        for number in 0..100 {
            errors.count(format!("-ERR {number}\r\n").as_bytes());
            errors.count(b"!9\r\nERR a\r\nbc\r\n");
        }
        assert_eq!(errors.total(), 200);
        assert_eq!(errors.iter().count(), TEXTS_MAX + 1);
        assert!(errors.iter().any(|entry| entry == ("ERR a\r\nbc", 100)));
    }
}
