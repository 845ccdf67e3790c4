//! Asking for memory before it is needed.

/// Has the line at `place` brought to the processor's cache, without waiting for it. Any address will do.
#[inline]
pub fn prefetch<T: ?Sized>(place: *const T) {
    // SAFETY: the instruction reads nothing and never faults; it is part of every x86-64.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    // Elsewhere stable Rust has no such instruction yet.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
