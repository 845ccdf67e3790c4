//! Prefetching.

/// Requests the cache line at `place` without waiting for it. Any address is allowed.
#[inline]
pub fn prefetch<T: ?Sized>(place: *const T) {
    // SAFETY: the instruction reads nothing and never faults; every x86-64 processor has it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    // On other processors, stable Rust has no such instruction yet.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
