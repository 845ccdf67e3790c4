//! A byte string behind one thin pointer: what the tables of collections hold.
//!
//! ```text
//! | length | bytes |     the length as in a listpack
//! ```

use std::mem;
use std::ptr::NonNull;
use std::slice;

use crate::compact_table::{Block, Held};
use crate::listpack::{PREFIX_BYTES_MAX, item_range, prefix_bytes, push_prefix};
use crate::mover::Mover;

/// A byte string; see the head of this file.
pub(crate) struct Blob {
    /// The first byte of a boxed slice, made by [`Blob::written`]; owned.
    block: NonNull<u8>,
}

// SAFETY: a blob owns its bytes, and they are tied to no thread.
unsafe impl Send for Blob {}
// SAFETY: as above; `&Blob` only reads.
unsafe impl Sync for Blob {}

impl Blob {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self::written(bytes.len(), |blob| blob.extend_from_slice(bytes))
    }

    /// The `len` bytes that `write` appends.
    pub(crate) fn written(len: usize, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = Vec::with_capacity(Self::memory_bytes(len));
        push_prefix(&mut bytes, len);
        write(&mut bytes);
        assert_eq!(bytes.len(), Self::memory_bytes(len), "the length is what was said");
        Self { block: NonNull::from(Box::leak(bytes.into_boxed_slice())).cast() }
    }

    /// Bytes that a blob of `len` bytes allocates.
    pub(crate) fn memory_bytes(len: usize) -> usize {
        prefix_bytes(len) + len
    }

    pub(crate) fn len(&self) -> usize {
        parts(self.block).1
    }

    /// Moves a blob in its table; always true, as a visit that is over.
    pub(crate) fn relocate(mut held: Held<'_, Self>, mover: &mut dyn Mover) -> bool {
        if mover.wants(held.raw().as_ptr().cast()) {
            let moved = Self::new(held.get());
            held.replace(|_| moved);
        }
        true
    }

    /// The bytes of a blob in a table, to change them.
    pub(crate) fn bytes_mut<'a>(held: &'a mut Held<'_, Self>) -> &'a mut [u8] {
        let (bytes, len) = parts(held.raw().cast());
        // SAFETY: that many bytes of the blob follow, and who holds it is alone with it.
        unsafe { slice::from_raw_parts_mut(bytes.as_ptr(), len) }
    }
}

/// Where the bytes of the blob at `block` begin, and how many they are.
#[inline]
fn parts(block: NonNull<u8>) -> (NonNull<u8>, usize) {
    // SAFETY: there is at least the first byte of the length.
    let first = unsafe { slice::from_raw_parts(block.as_ptr(), 1) };
    let range = if first[0] == u8::MAX {
        // SAFETY: after this first byte the others of the length follow.
        item_range(unsafe { slice::from_raw_parts(block.as_ptr(), PREFIX_BYTES_MAX) }, 0)
    } else {
        item_range(first, 0)
    };
    // SAFETY: the bytes begin within the allocation, or at its end if there are none.
    (unsafe { block.add(range.start) }, range.len())
}

// SAFETY: the pointer is that of a leaked box, and is given up with the blob.
unsafe impl Block for Blob {
    type Ref<'a> = &'a [u8];

    #[inline]
    fn into_raw(self) -> NonNull<()> {
        let raw = self.block.cast();
        mem::forget(self);
        raw
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Self { block: raw.cast() }
    }

    #[inline]
    unsafe fn lend<'a>(raw: NonNull<()>) -> &'a [u8] {
        let (bytes, len) = parts(raw.cast());
        // SAFETY: that many bytes follow; by the caller's promise nobody changes them meanwhile.
        unsafe { slice::from_raw_parts(bytes.as_ptr(), len) }
    }

    #[inline]
    fn prefetch(address: *const ()) {
        crate::prefetch::prefetch(address);
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        let boxed = NonNull::slice_from_raw_parts(self.block, Self::memory_bytes(self.len()));
        // SAFETY: it is the box that `written` leaked, of the same length.
        drop(unsafe { Box::from_raw(boxed.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    #[cfg(miri)]
    use std::alloc::{GlobalAlloc, Layout, System};

    use super::*;
    use crate::compact_table::CompactTable;

    /// Gives bytes an even address, as the program's allocator does and tables expect; Miri's own does not.
    #[cfg(miri)]
    struct Even;

    #[cfg(miri)]
    #[global_allocator]
    static ALLOCATOR: Even = Even;

    #[cfg(miri)]
    // SAFETY: it is the system's, asked for more alignment.
    unsafe impl GlobalAlloc for Even {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: by what the caller promises.
            unsafe { System.alloc(layout.align_to(8).expect("a small power of two")) }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            // SAFETY: by what the caller promises.
            unsafe { System.dealloc(block, layout.align_to(8).expect("a small power of two")) }
        }
    }

    #[test]
    fn blobs_of_all_lengths_come_back() {
        for len in [0, 1, 254, 255, 256, 70_000] {
            let bytes = vec![b'b'; len];
            let mut table = CompactTable::new();
            table.insert(7, Blob::new(&bytes), |_| 7);
            assert_eq!(table.find(7, |_| true), Some(&bytes[..]));
            let mut held = table.find_mut(7, |_| true).expect("it is there");
            Blob::bytes_mut(&mut held).fill(b'c');
            assert_eq!(held.get(), vec![b'c'; len]);
            held.replace(|old| Blob::written(old.len() + 1, |new| new.extend(vec![b'd'; len + 1])));
            assert_eq!(table.remove(7, |_| true).map(|blob| blob.len()), Some(len + 1));
        }
    }
}
