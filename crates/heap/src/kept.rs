//! Limits the free memory that is kept.
//!
//! Freed memory is kept for a while, because it is often needed again. If `maxmemory` limits the process and the sizes
//! of values change, memory kept for one size is missing for another; then it is returned at once.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use crate::chunk::PAGE_BYTES;

/// Pages kept in pooled slabs and free large blocks.
static PAGES: AtomicI64 = AtomicI64::new(0);
static PAGES_MAX: AtomicI64 = AtomicI64::new(i64::MAX);

/// Adds `pages` to the pages that are kept, or subtracts them if negative.
#[inline]
pub(crate) fn change(pages: i64) {
    if pages != 0 {
        PAGES.fetch_add(pages, Relaxed);
    }
}

/// Whether memory that is freed now must be returned at once.
#[inline]
pub(crate) fn is_too_much() -> bool {
    PAGES.load(Relaxed) > PAGES_MAX.load(Relaxed)
}

/// Limits the bytes that are kept; `None` removes the limit. Returns true if the limit changed.
pub(crate) fn limit(bytes: Option<u64>) -> bool {
    let pages = bytes.map_or(i64::MAX, |bytes| (bytes / PAGE_BYTES as u64) as i64);
    PAGES_MAX.swap(pages, Relaxed) != pages
}

/// Bytes of free memory in pooled slabs and large blocks that are kept for reuse.
pub fn kept_bytes() -> u64 {
    PAGES.load(Relaxed).max(0) as u64 * PAGE_BYTES as u64
}
