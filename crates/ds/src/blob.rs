//! A byte string behind one thin pointer: the items in the tables of collections.
//!
//! ```text
//! blob       pointer -> | length | bytes |     the length as in a listpack
//! slim blob  pointer with the length in its upper 16 bits -> | bytes |
//! ```
//!
//! A table uses the upper bits of its pointers. Where these are free, a slim blob saves the bytes of the length.

use std::mem::{self, MaybeUninit};
use std::ptr::NonNull;
use std::slice;

use crate::compact_table::{Block, Held};
use crate::listpack::{PREFIX_BYTES_MAX, item_range, prefix, prefix_bytes};
use crate::mover::Mover;

/// A byte string with its length in front.
pub(crate) struct Blob {
    /// The first byte of a boxed slice from [`Blob::written`]; owned.
    block: NonNull<u8>,
}

// SAFETY: a blob owns its bytes, which are not tied to a thread.
unsafe impl Send for Blob {}
// SAFETY: a blob owns its bytes, which are not tied to a thread, and `&Blob` only reads.
unsafe impl Sync for Blob {}

impl Blob {
    #[inline]
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self::written(bytes.len(), |blob| blob.push(bytes))
    }

    /// A blob of the `len` bytes that `write` appends. Panics if it appends another number.
    #[inline]
    pub(crate) fn written(len: usize, write: impl FnOnce(&mut Unwritten<'_>)) -> Self {
        let mut block = Box::new_uninit_slice(Self::memory_bytes(len));
        let mut unwritten = Unwritten(&mut block);
        unwritten.push_prefix(len);
        write(&mut unwritten);
        assert!(unwritten.0.is_empty(), "the length is what was said");
        Self { block: NonNull::from(Box::leak(block)).cast() }
    }

    /// Bytes that a blob of `len` bytes allocates.
    pub(crate) fn memory_bytes(len: usize) -> usize {
        prefix_bytes(len) + len
    }

    pub(crate) fn len(&self) -> usize {
        parts(self.block).1
    }

    /// Moves a blob in its table if the mover asks for it. Always returns true: the visit of this blob is complete.
    pub(crate) fn relocate(mut held: Held<'_, Self>, mover: &mut dyn Mover) -> bool {
        if mover.wants(held.raw().as_ptr().cast()) {
            let moved = Self::new(held.get());
            held.replace(|_| moved);
        }
        true
    }

    /// The bytes of a blob in a table, for changing them.
    pub(crate) fn bytes_mut<'a>(held: &'a mut Held<'_, Self>) -> &'a mut [u8] {
        let (bytes, len) = parts(held.raw().cast());
        // SAFETY: that many bytes of the blob follow, and `Held` borrows them mutably.
        unsafe { slice::from_raw_parts_mut(bytes.as_ptr(), len) }
    }
}

/// The part of a new blob that is not written yet.
pub(crate) struct Unwritten<'a>(&'a mut [MaybeUninit<u8>]);

impl Unwritten<'_> {
    /// Appends bytes.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let (place, rest) = mem::take(&mut self.0).split_at_mut(bytes.len());
        place.write_copy_of_slice(bytes);
        self.0 = rest;
    }

    /// Appends the length prefix for `len` bytes.
    #[inline]
    pub(crate) fn push_prefix(&mut self, len: usize) {
        let (bytes, prefix_len) = prefix(len);
        if prefix_len == 1 { self.push(&bytes[..1]) } else { self.push(&bytes) }
    }
}

/// Start and length of the bytes of the blob at `block`.
#[inline]
fn parts(block: NonNull<u8>) -> (NonNull<u8>, usize) {
    // SAFETY: there is at least the first byte of the length.
    let first = unsafe { slice::from_raw_parts(block.as_ptr(), 1) };
    let range = if first[0] == u8::MAX {
        // SAFETY: this first byte is followed by the rest of the length.
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
        // SAFETY: that many bytes follow, and the caller guarantees that they do not change meanwhile.
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
        // SAFETY: it is the box that `written` leaked, with the same length.
        drop(unsafe { Box::from_raw(boxed.as_ptr()) });
    }
}

/// Lowest of the pointer's bits above memory addresses.
const LENGTH_BIT: u32 = 48;
/// Stands for the length if the pointer is that of a blob.
const NOT_SLIM: usize = u16::MAX as usize;

/// A byte string with its length in the pointer; a blob if the length does not fit.
pub(crate) struct SlimBlob {
    /// The first byte of a boxed slice, with the length, or a blob's pointer, with [`NOT_SLIM`]; owned.
    pointer: NonNull<u8>,
}

// SAFETY: it owns its bytes, which are not tied to a thread.
unsafe impl Send for SlimBlob {}
// SAFETY: it owns its bytes, which are not tied to a thread, and `&SlimBlob` only reads.
unsafe impl Sync for SlimBlob {}

impl SlimBlob {
    pub(crate) fn new(bytes: Box<[u8]>) -> Self {
        let len = bytes.len();
        let (block, length) = if len < NOT_SLIM {
            (NonNull::from(Box::leak(bytes)).cast::<u8>(), len)
        } else {
            (Blob::new(&bytes).into_raw().cast(), NOT_SLIM)
        };
        assert!(block.addr().get() >> LENGTH_BIT == 0, "addresses have 48 bits");
        Self { pointer: block.map_addr(|address| address | length << LENGTH_BIT) }
    }

    /// Bytes that a string of `len` bytes allocates.
    pub(crate) fn memory_bytes(len: usize) -> usize {
        if len < NOT_SLIM { len } else { Blob::memory_bytes(len) }
    }

    /// Start and length of the bytes; if it is a blob, the blob's pointer and `None`.
    #[inline]
    fn parts(&self) -> (NonNull<u8>, Option<usize>) {
        let tagged = self.pointer.as_ptr();
        let len = tagged.addr() >> LENGTH_BIT;
        let block = tagged.map_addr(|address| address & ((1 << LENGTH_BIT) - 1));
        let block = NonNull::new(block).expect("blocks have addresses");
        (block, (len < NOT_SLIM).then_some(len))
    }

    fn slice(&self) -> NonNull<[u8]> {
        let (bytes, len) = match self.parts() {
            (bytes, Some(len)) => (bytes, len),
            (block, None) => parts(block),
        };
        NonNull::slice_from_raw_parts(bytes, len)
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: it owns these bytes, which were written when it was created.
        unsafe { self.slice().as_ref() }
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: it owns these bytes, which were written when it was created, and it is mutably borrowed.
        unsafe { self.slice().as_mut() }
    }

    /// Moves its memory if the mover asks for it.
    pub(crate) fn relocate(&mut self, mover: &mut dyn Mover) {
        if mover.wants(self.bytes().as_ptr()) {
            *self = self.clone();
        }
    }
}

impl Clone for SlimBlob {
    fn clone(&self) -> Self {
        Self::new(self.bytes().into())
    }
}

impl Drop for SlimBlob {
    fn drop(&mut self) {
        match self.parts() {
            // SAFETY: it is the box that `new` leaked.
            (_, Some(_)) => drop(unsafe { Box::from_raw(self.slice().as_ptr()) }),
            // SAFETY: it is the blob that `new` gave up.
            (block, None) => drop(unsafe { Blob::from_raw(block.cast()) }),
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(miri)]
    use std::alloc::{GlobalAlloc, Layout, System};

    use super::*;
    use crate::compact_table::CompactTable;

    /// Aligns all blocks to even addresses, as the program's allocator does and tables require; Miri's own does not.
    #[cfg(miri)]
    struct Even;

    #[cfg(miri)]
    #[global_allocator]
    static ALLOCATOR: Even = Even;

    #[cfg(miri)]
    // SAFETY: it is the system's allocator with a larger alignment.
    unsafe impl GlobalAlloc for Even {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller guarantees it.
            unsafe { System.alloc(layout.align_to(8).expect("a small power of two")) }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            // SAFETY: the caller guarantees it.
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
            held.replace(|old| Blob::written(old.len() + 1, |new| new.push(&vec![b'd'; len + 1])));
            assert_eq!(table.remove(7, |_| true).map(|blob| blob.len()), Some(len + 1));
        }
    }

    #[test]
    fn slim_blobs_of_all_lengths_come_back() {
        const { assert!(size_of::<Option<SlimBlob>>() == size_of::<usize>()) };
        for len in [0, 1, 255, 65_534, 65_535, 70_000] {
            let bytes = vec![b'b'; len];
            let mut slim = SlimBlob::new(bytes.clone().into());
            let clone = slim.clone();
            assert_eq!(slim.bytes(), bytes);
            slim.bytes_mut().fill(b'c');
            assert_eq!((slim.bytes(), clone.bytes()), (&vec![b'c'; len][..], &bytes[..]));
        }
        assert_eq!([16, 70_000].map(SlimBlob::memory_bytes), [16, 70_009]);
    }
}
