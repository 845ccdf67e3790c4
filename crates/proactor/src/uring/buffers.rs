//! The buffers that the kernel receives into.
//!
//! A ring of descriptors shared with the kernel ("provided buffers"): the kernel takes a buffer when bytes arrive, so idle
//! connections need none; we copy the bytes out at once and put the buffer back.
//!
//! ```text
//!   entries:  [addr,len,id][addr,len,id] …          16 bytes each, a power of two of them, on a page boundary
//!              ▲ kernel's head     ▲ tail (ours; it lies in the unused last two bytes of the first entry)
//!   memory:   [ 16 KiB ][ 16 KiB ] …                buffer `id` at id × 16 KiB
//! ```
//!
//! Invariant: between its completion and [`BufferRing::give`] a buffer is ours alone; otherwise it is the kernel's alone.
//! The memory is freed only after the driver's io_uring is closed.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// Bytes per buffer.
const BUFFER_BYTES: usize = 16 * 1024;
/// The only group of buffers.
pub(super) const BUFFER_GROUP: u16 = 0;
const PAGE_BYTES: usize = 4096;

#[derive(Debug)]
pub(super) struct BufferRing {
    entries: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    count: u16,
    tail: u16,
}

// SAFETY: the memory belongs to this value alone; the kernel's part in it is bound to the ring, not to a thread.
unsafe impl Send for BufferRing {}

impl BufferRing {
    /// Registers `count` buffers (a power of two up to 2^15).
    pub(super) fn register(submitter: &Submitter<'_>, count: u16) -> io::Result<BufferRing> {
        assert!(count.is_power_of_two() && count <= 1 << 15, "a power of two of receive buffers");
        let entries = allocate(Self::entries_layout(count)).cast();
        let memory = allocate(Self::memory_layout(count));
        let mut ring = BufferRing { entries, memory, count, tail: 0 };
        let address = ring.entries.as_ptr().addr() as u64;
        // SAFETY: the entries live as long as `ring`, which its driver drops after the io_uring.
        unsafe { submitter.register_buf_ring_with_flags(address, count, BUFFER_GROUP, 0) }?;
        for id in 0..count {
            ring.give(id);
        }
        Ok(ring)
    }

    fn entries_layout(count: u16) -> Layout {
        Layout::from_size_align(usize::from(count) * size_of::<BufRingEntry>(), PAGE_BYTES)
            .expect("2^15 entries of 16 bytes are far below the limit")
    }

    fn memory_layout(count: u16) -> Layout {
        Layout::from_size_align(usize::from(count) * BUFFER_BYTES, PAGE_BYTES)
            .expect("2^15 buffers of 16 KiB are far below the limit")
    }

    /// The first `len` bytes of a buffer that a completion has just passed to us.
    pub(super) fn bytes(&self, id: u16, len: usize) -> &[u8] {
        assert!(id < self.count && len <= BUFFER_BYTES, "the kernel names buffers it was given");
        // SAFETY: inside the allocation, as just checked.
        let start = unsafe { self.memory.as_ptr().add(usize::from(id) * BUFFER_BYTES) };
        // SAFETY: initialised (zeroed, then written by the kernel), and ours until `give`, which needs `&mut self`.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Passes a buffer (back) to the kernel.
    pub(super) fn give(&mut self, id: u16) {
        assert!(id < self.count, "the kernel names buffers it was given");
        let index = usize::from(self.tail & (self.count - 1));
        // SAFETY: inside the allocation, as `id` is below `count`.
        let start = unsafe { self.memory.as_ptr().add(usize::from(id) * BUFFER_BYTES) };
        // SAFETY: inside the allocation, as `index` is below `count`.
        let entry = unsafe { self.entries.as_ptr().add(index) };
        // SAFETY: live and aligned; the kernel does not read entries beyond the tail, and the entry's last two bytes, which
        // for the first entry are the tail, are not written here.
        let entry = unsafe { &mut *entry };
        entry.set_addr(start.addr() as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `entries` is the first entry of a ring.
        let tail = unsafe { BufRingEntry::tail(self.entries.as_ptr()) };
        // SAFETY: aligned, live, and on our side only accessed here.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        // Release: the kernel reads the entry after it has seen the tail.
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for BufferRing {
    fn drop(&mut self) {
        // SAFETY: allocated in `register` with this layout.
        unsafe { dealloc(self.entries.as_ptr().cast(), Self::entries_layout(self.count)) };
        // SAFETY: allocated in `register` with this layout.
        unsafe { dealloc(self.memory.as_ptr(), Self::memory_layout(self.count)) };
    }
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layout has a size, since there is at least one buffer.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}
