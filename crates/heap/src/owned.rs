//! Which thread owns which heap.

use std::cell::Cell;
use std::ptr;
use std::sync::Mutex;

use crate::local::Local;
use crate::mail::HEAPS_MAX;
use crate::region;

/// Heaps that no thread has, and how many there are in all.
static HEAPS: Mutex<(Vec<Idle>, u16)> = Mutex::new((Vec::new(), 0));

/// A heap between two threads.
#[derive(Debug)]
pub(crate) struct Idle {
    heap: *mut Local,
    /// Another heap has what was in it.
    pub(crate) is_empty: bool,
}

impl Idle {
    /// The heap.
    pub(crate) fn local(&mut self) -> &mut Local {
        // SAFETY: the heap lives for ever, no thread has it, and there is one of this for each heap.
        unsafe { &mut *self.heap }
    }
}

// SAFETY: nobody else has the heap.
unsafe impl Send for Idle {}

thread_local! {
    static LOCAL: Cell<*mut Local> = const { Cell::new(ptr::null_mut()) };
}

/// Gives this thread a heap of its own, if it has none, there are not too many, and the system gives addresses. It must
/// call [`settle`] from time to time, and [`disown`] before it ends.
pub fn own() {
    if !LOCAL.get().is_null() {
        return;
    }
    let Some(region) = region::get() else { return };
    let mut heaps = HEAPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let heap = match heaps.0.pop() {
        Some(Idle { heap, .. }) => heap,
        None if usize::from(heaps.1) < HEAPS_MAX - 1 => {
            heaps.1 += 1;
            Box::into_raw(Box::new(Local::new(region, heaps.1)))
        }
        None => return,
    };
    LOCAL.set(heap);
}

/// Takes this thread's heap from it; the next thread that asks for one gets it with all that is in it.
pub fn disown() {
    with_local(|local| {
        while local.settle() {}
        // Nobody sees to it until another thread has it.
        while local.cool_large(true) {}
    });
    let heap = LOCAL.replace(ptr::null_mut());
    if !heap.is_null() {
        put_idle(Idle { heap, is_empty: false });
    }
}

/// Takes all heaps that no thread has.
pub(crate) fn take_idle() -> Vec<Idle> {
    std::mem::take(&mut HEAPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).0)
}

/// The next thread that asks for a heap gets this one.
pub(crate) fn put_idle(idle: Idle) {
    HEAPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).0.push(idle);
}

/// Whether this thread has a heap.
#[inline]
pub(crate) fn has_local() -> bool {
    !LOCAL.get().is_null()
}

/// Does `work` on this thread's heap; `None` if it has none.
#[inline(always)]
pub(crate) fn with_local<R>(work: impl FnOnce(&mut Local) -> R) -> Option<R> {
    // SAFETY: the heap lives for ever, only this thread has it, and `work`, which alone has this reference, does not ask for it
    // again: heaps do not allocate.
    let local = unsafe { LOCAL.get().as_mut() };
    local.map(work)
}
