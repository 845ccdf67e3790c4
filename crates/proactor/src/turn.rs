//! One turn of the loop, the same for every driver that waits for a kernel.
//!
//! ```text
//!   flush what is dirty ─▶ anything to report, or more to do?  yes ─▶ look once, without waiting
//!                                     │ no
//!                                     ▼
//!                          poll for a bounded time, yielding in between (if that has paid recently, see `idle`)
//!                                     │ nothing
//!                                     ▼
//!                          announce the sleep ─▶ block ─▶ rise
//! ```
//!
//! Output that turns out to be held also ends the turn: the server has to know which slice it waits for
//! before the thread sleeps ([`Driver::held_for`](crate::Driver::held_for)). A codec's own output, such as a
//! step of a handshake, ends it too, and is sent when the next turn begins.
//!
//! A turn does bounded work: drivers take a bounded number of readiness events and bytes from the kernel, and
//! if something is left the next turn does not wait.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::connections::Connections;
use crate::event::Event;
use crate::idle::IdlePolicy;
use crate::{Clock, Error, Waker, sooner, sys};

/// The parts of one thread other than its connections.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) waker: Arc<Waker>,
    pub(crate) clock: Clock,
    pub(crate) idle: IdlePolicy,
    /// How long it has polled instead of sleeping.
    pub(crate) polled_ns: u64,
}

impl Thread {
    pub(crate) fn new(poll_us: u32) -> Result<Thread, Error> {
        let bell = sys::EventFd::new().map_err(Error::setup("an eventfd"))?;
        let waker = Arc::new(Waker::with_bell(bell));
        Ok(Thread { waker, clock: Clock::real(), idle: IdlePolicy::new(poll_us), polled_ns: 0 })
    }
}

/// The beginning of every turn, also of simulated drivers.
pub(crate) trait Flush {
    type Link;

    fn connections(&mut self) -> &mut Connections<Self::Link>;

    /// Sends as much of the output of a dirty connection as its socket takes.
    fn send_dirty(&mut self, slot: u32, events: &mut Vec<Event>);

    /// Resumes reading from a connection.
    fn read_resumed(&mut self, slot: u32);

    /// Ends a closing connection whose deadline has passed.
    fn end_overdue(&mut self, slot: u32);

    /// Accepts again, if the pause is over.
    fn accept_again(&mut self, now_ns: u64);

    /// Whether the kernel has nothing of a connection but its descriptor.
    fn is_free(link: &Self::Link) -> bool;

    /// Whether a detaching connection can be taken out.
    #[inline]
    fn has_detached(&mut self) -> bool {
        self.connections().has_detached(Self::is_free)
    }

    /// Does all of the above.
    #[inline]
    fn flush(&mut self, now_ns: u64, events: &mut Vec<Event>) {
        let dirty = self.connections().take_dirty();
        for &slot in &dirty {
            self.send_dirty(slot, events);
        }
        self.connections().flushed(dirty);
        while let Some(slot) = self.connections().take_resumed(events) {
            self.read_resumed(slot);
        }
        while let Some(slot) = self.connections().take_overdue(now_ns) {
            self.end_overdue(slot);
        }
        self.accept_again(now_ns);
    }
}

/// The part of a turn of a driver that waits for a kernel.
pub(crate) trait Backend: Flush {
    fn thread(&mut self) -> &mut Thread;

    /// Whether there is work left that needs no event from the kernel.
    fn has_more(&mut self) -> bool;

    /// When the driver wants to be called again even if nothing happens.
    fn next_deadline_ns(&mut self) -> Option<u64>;

    /// Reports what has happened, waiting for it for at most `wait`; `None` waits forever. May return early
    /// with nothing.
    fn collect(&mut self, wait: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()>;
}

/// Runs one turn; see the head of this file.
pub(crate) fn run<B: Backend>(
    backend: &mut B,
    timeout: Option<Duration>,
    events: &mut Vec<Event>,
) -> io::Result<()> {
    events.clear();
    backend.connections().begin_turn();
    let start_ns = backend.thread().clock.monotonic_ns();
    backend.flush(start_ns, events);
    let deadline_ns = timeout.map(|wait| start_ns.saturating_add(nanoseconds(wait)));
    let is_at_rest = events.is_empty()
        && !backend.has_more()
        && !backend.connections().is_held_anew
        && !backend.has_detached()
        && deadline_ns != Some(start_ns);
    if !is_at_rest || backend.thread().waker.is_notified() {
        backend.collect(Some(Duration::ZERO), events)?;
    } else {
        let poll_ns = backend.thread().idle.poll_ns(start_ns);
        if poll_ns == 0 || !poll(backend, start_ns, poll_ns, events)? {
            sleep(backend, start_ns, deadline_ns, poll_ns > 0, events)?;
        }
    }
    if backend.has_detached() {
        backend.connections().report_detached(B::is_free, events);
    }
    if backend.thread().waker.take_notice() {
        events.push(Event::Wake);
    }
    Ok(())
}

/// Checks repeatedly until something arrives or `poll_ns` have passed. True if something arrived.
fn poll<B: Backend>(
    backend: &mut B,
    start_ns: u64,
    poll_ns: u64,
    events: &mut Vec<Event>,
) -> io::Result<bool> {
    loop {
        backend.collect(Some(Duration::ZERO), events)?;
        let has_news = has_news(backend);
        let thread = backend.thread();
        let now_ns = thread.clock.monotonic_ns();
        let polled_ns = now_ns.saturating_sub(start_ns);
        if !events.is_empty() || has_news || thread.waker.is_notified() {
            thread.idle.poll_found(polled_ns);
            thread.polled_ns += polled_ns;
            return Ok(true);
        }
        if polled_ns >= poll_ns {
            thread.polled_ns += polled_ns;
            thread.idle.poll_was_in_vain();
            return Ok(false);
        }
        std::thread::yield_now();
        let back_ns = thread.clock.monotonic_ns();
        thread.idle.yielded(back_ns.saturating_sub(now_ns), back_ns);
    }
}

fn sleep<B: Backend>(
    backend: &mut B,
    start_ns: u64,
    deadline_ns: Option<u64>,
    has_polled: bool,
    events: &mut Vec<Event>,
) -> io::Result<()> {
    if !backend.thread().waker.try_sleep() {
        return backend.collect(Some(Duration::ZERO), events);
    }
    let mut now_ns = start_ns;
    let outcome = loop {
        // Computed again each time, because accepting may just have been paused.
        let deadline_ns = sooner(deadline_ns, backend.next_deadline_ns());
        let wait = deadline_ns.map(|deadline_ns| Duration::from_nanos(deadline_ns.saturating_sub(now_ns)));
        let outcome = backend.collect(wait, events);
        let has_news = has_news(backend);
        let thread = backend.thread();
        now_ns = thread.clock.monotonic_ns();
        let is_over = has_news || deadline_ns.is_some_and(|deadline_ns| now_ns >= deadline_ns);
        if outcome.is_err() || !events.is_empty() || is_over || thread.waker.is_notified() {
            break outcome;
        }
    };
    let thread = backend.thread();
    thread.waker.rise();
    if !has_polled {
        thread.idle.slept(now_ns.saturating_sub(start_ns));
    }
    outcome
}

/// Whether something without an event came up while the thread waited: output of a codec, held output, or a
/// connection that can be taken out.
fn has_news<B: Backend>(backend: &mut B) -> bool {
    let connections = backend.connections();
    connections.is_held_anew || connections.has_dirty() || backend.has_detached()
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
