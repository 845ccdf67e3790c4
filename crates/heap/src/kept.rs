//! How much memory without blocks is kept, and how much may be.
//!
//! Freed memory is kept for a while, because whoever freed it often needs as much again. If the whole process may take
//! only so much (`maxmemory`), and sizes change, memory kept for one size is missing for another: then it is returned
//! at once.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use crate::chunk::PAGE_BYTES;

/// Pages of slabs in the pool and of free large blocks.
static PAGES: AtomicI64 = AtomicI64::new(0);
static PAGES_MAX: AtomicI64 = AtomicI64::new(i64::MAX);

/// So many pages more, or fewer, are kept.
#[inline]
pub(crate) fn change(pages: i64) {
    if pages != 0 {
        PAGES.fetch_add(pages, Relaxed);
    }
}

/// Whether what is freed now is to go back at once.
#[inline]
pub(crate) fn is_too_much() -> bool {
    PAGES.load(Relaxed) > PAGES_MAX.load(Relaxed)
}

/// No more than so many bytes are to be kept, or any number; true if that is new.
pub(crate) fn limit(bytes: Option<u64>) -> bool {
    let pages = bytes.map_or(i64::MAX, |bytes| (bytes / PAGE_BYTES as u64) as i64);
    PAGES_MAX.swap(pages, Relaxed) != pages
}

/// Bytes that are kept.
pub fn kept_bytes() -> u64 {
    PAGES.load(Relaxed).max(0) as u64 * PAGE_BYTES as u64
}
