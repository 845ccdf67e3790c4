//! Where a simulated thread may be interrupted while it holds batons.
//!
//! Real threads are stopped anywhere by the operating system. Simulated ones take turns on one thread, and would never
//! meet a taken baton; so the simulation hangs something into the places at which it matters who comes between: around
//! taking and leaving a baton, while waiting for one, and before each command of a transaction. Without the feature
//! `simulation` all of this is nothing.

#[cfg(feature = "simulation")]
thread_local! {
    static HOOK: std::cell::Cell<Option<fn(bool)>> = const { std::cell::Cell::new(None) };
}

/// Lets other simulated threads run, if the simulation wants that here.
#[inline(always)]
pub fn interrupt() {
    #[cfg(feature = "simulation")]
    if let Some(hook) = HOOK.get() {
        hook(false);
    }
}

/// The same where this thread waits for another one, and does nothing else until that has run: the simulation lets
/// others run.
#[inline(always)]
pub fn pause() {
    #[cfg(feature = "simulation")]
    if let Some(hook) = HOOK.get() {
        hook(true);
    }
}

/// Calls `hook` at every such place that this thread comes to from now on, with whether the thread waits there.
#[cfg(feature = "simulation")]
pub fn on_interrupt(hook: fn(bool)) {
    HOOK.set(Some(hook));
}
