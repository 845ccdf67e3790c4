//! Which thread owns which heap.

use std::cell::Cell;
use std::ptr;
use std::sync::Mutex;

use crate::exchange::HEAPS_MAX;
use crate::local::Local;
use crate::region;

/// Heaps that no thread has, and the number of heaps created so far.
static HEAPS: Mutex<(Vec<Idle>, u16)> = Mutex::new((Vec::new(), 0));

/// A heap that no thread has.
#[derive(Debug)]
pub(crate) struct Idle {
    heap: *mut Local,
    /// Another heap has inherited its contents.
    pub(crate) is_empty: bool,
}

impl Idle {
    /// The heap.
    pub(crate) fn local(&mut self) -> &mut Local {
        // SAFETY: heaps are never freed, no thread has this one, and each heap has only one `Idle`.
        unsafe { &mut *self.heap }
    }
}

// SAFETY: no thread has the heap.
unsafe impl Send for Idle {}

thread_local! {
    static LOCAL: Cell<*mut Local> = const { Cell::new(ptr::null_mut()) };
}

/// Gives this thread a heap of its own, unless it has one, the limit on heaps is reached, or the system refuses
/// addresses. The thread must call [`settle`](crate::settle) from time to time, and [`disown`] before it ends.
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

/// Takes this thread's heap away. The next thread that asks for a heap gets it with its contents.
pub fn disown() {
    with_local(|local| {
        while local.settle() {}
        // No thread maintains the heap until another one has it.
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

/// Makes the heap available to the next thread that asks for one.
pub(crate) fn put_idle(idle: Idle) {
    HEAPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).0.push(idle);
}

/// Whether this thread has a heap.
#[inline]
pub(crate) fn has_local() -> bool {
    !LOCAL.get().is_null()
}

/// Calls `work` with this thread's heap; `None` if it has none.
#[inline(always)]
pub(crate) fn with_local<R>(work: impl FnOnce(&mut Local) -> R) -> Option<R> {
    // SAFETY: heaps are never freed, only this thread has this one, and `work`, the only holder of the reference, does
    // not get a second one: heaps do not allocate.
    let local = unsafe { LOCAL.get().as_mut() };
    local.map(work)
}
