//! Points at which a simulated thread may be interrupted while it holds batons.
//!
//! The operating system interrupts real threads anywhere. Simulated threads take turns on one real thread, and would
//! never meet a taken baton. So the simulation installs a hook at the points where interleaving matters: around taking
//! and leaving a baton, while waiting for one, and before each command of a transaction. Without the feature
//! `simulation` all this does nothing.

#[cfg(feature = "simulation")]
thread_local! {
    static HOOK: std::cell::Cell<Option<fn(bool)>> = const { std::cell::Cell::new(None) };
}

/// Lets other simulated threads run, if the simulation chooses to.
#[inline(always)]
pub fn interrupt() {
    #[cfg(feature = "simulation")]
    if let Some(hook) = HOOK.get() {
        hook(false);
    }
}

/// Like [`interrupt`], where this thread waits for another one and can do nothing else: the simulation always runs
/// others.
#[inline(always)]
pub fn pause() {
    #[cfg(feature = "simulation")]
    if let Some(hook) = HOOK.get() {
        hook(true);
    }
}

/// Calls `hook` at every such point that this thread reaches from now on. The argument says whether the thread waits
/// there.
#[cfg(feature = "simulation")]
pub fn on_interrupt(hook: fn(bool)) {
    HOOK.set(Some(hook));
}
