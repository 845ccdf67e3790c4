//! The buffers that the kernel receives into.
//!
//! A ring of descriptors shared with the kernel ("provided buffers"): the kernel takes a buffer when bytes
//! arrive, so idle connections need none; we copy the bytes out at once and put the buffer back.
//!
//! ```text
//!   entries:  [addr,len,id][addr,len,id] …          16 bytes each, a power of two of them, on a page boundary
//!              ▲ kernel's head     ▲ tail (ours; in the unused last two bytes of the first entry)
//!   memory:   [ 16 KiB ]   [ 16 KiB ]               one block for each buffer that is in use
//! ```
//!
//! The kernel uses buffers in turn, so all of them become resident. Therefore there are few at first, and
//! their number doubles whenever the kernel has run out of them. Buffers that were not needed lately are
//! freed when they come back ([`BufferRing::give_back_unused`]). Without connections all of them go, because
//! a new ring replaces this one, except that the first ones of a thread that is not elastic stay. They take at
//! most 2 MiB per thread, regardless of the data, so they do not count against `maxmemory`: a thread that no
//! longer receives anything keeps its buffers, and keys would have to be evicted for them.
//!
//! Invariant: between its completion and [`BufferRing::give`] a buffer is ours alone; otherwise it is the
//! kernel's alone. The memory is freed only after the driver's io_uring is closed.

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
/// How many buffers there are at first.
const FIRST_COUNT: usize = 8;

#[derive(Debug)]
pub(super) struct BufferRing {
    entries: NonNull<BufRingEntry>,
    /// The number of entries: the most buffers that there can be.
    count: u16,
    tail: u16,
    /// The memory of each buffer, by its id.
    buffers: Vec<Option<NonNull<u8>>>,
    /// The number of buffers that have memory, and how many should.
    there: usize,
    wanted: usize,
    /// The most buffers that were full at the same time since the last
    /// [`give_back_unused`](Self::give_back_unused).
    peak: usize,
}

// SAFETY: the memory belongs to this value alone; the kernel's part in it is bound to the ring, not to a
// thread.
unsafe impl Send for BufferRing {}

impl BufferRing {
    /// Registers a ring for up to `count` buffers (a power of two up to 2^15). No buffer has memory yet.
    pub(super) fn register(submitter: &Submitter<'_>, count: u16) -> io::Result<BufferRing> {
        assert!(count.is_power_of_two() && count <= 1 << 15, "a power of two of receive buffers");
        let entries = allocate(Self::entries_layout(count)).cast();
        let ring = BufferRing { entries, count, tail: 0, buffers: Vec::new(), there: 0, wanted: 0, peak: 0 };
        let address = ring.entries.as_ptr().addr() as u64;
        // SAFETY: the entries live as long as `ring`, which its driver drops after the io_uring.
        unsafe { submitter.register_buf_ring_with_flags(address, count, BUFFER_GROUP, 0) }?;
        Ok(ring)
    }

    /// Something will be received: the kernel gets the first buffers, unless it has some.
    #[inline]
    pub(super) fn begin(&mut self) {
        if self.wanted == 0 {
            self.want(FIRST_COUNT);
        }
    }

    /// Whether the kernel was given buffers.
    pub(super) fn has_begun(&self) -> bool {
        self.wanted > 0
    }

    /// Whether there are more than the first buffers.
    pub(super) fn has_grown(&self) -> bool {
        self.there > FIRST_COUNT
    }

    /// The kernel has run out of buffers: there will be twice as many.
    #[cold]
    pub(super) fn grow(&mut self) {
        self.peak = self.there;
        self.want(2 * self.wanted);
    }

    /// So many buffers came back at the same time.
    #[inline]
    pub(super) fn note_full(&mut self, count: usize) {
        self.peak = self.peak.max(count);
    }

    /// Keeps twice as many buffers as were full at the same time since the last call. The others are freed as
    /// they come back.
    pub(super) fn give_back_unused(&mut self) {
        if self.wanted > 0 {
            self.wanted =
                (2 * std::mem::take(&mut self.peak)).clamp(FIRST_COUNT, self.wanted.max(FIRST_COUNT));
        }
    }

    fn want(&mut self, count: usize) {
        self.wanted = count.min(usize::from(self.count));
        let mut id = 0;
        while self.there < self.wanted {
            if usize::from(id) == self.buffers.len() {
                self.buffers.push(None);
            }
            if self.buffers[usize::from(id)].is_none() {
                self.buffers[usize::from(id)] = Some(heap::as_fixed(|| allocate(BUFFER_LAYOUT)));
                self.there += 1;
                self.give(id);
            }
            id += 1;
        }
    }

    fn entries_layout(count: u16) -> Layout {
        Layout::from_size_align(usize::from(count) * size_of::<BufRingEntry>(), PAGE_BYTES)
            .expect("2^15 entries of 16 bytes are far below the limit")
    }

    /// The memory of a buffer.
    fn buffer(&self, id: u16) -> NonNull<u8> {
        self.buffers.get(usize::from(id)).copied().flatten().expect("the kernel names buffers it was given")
    }

    /// The first `len` bytes of a buffer that a completion has just passed to us.
    pub(super) fn bytes(&self, id: u16, len: usize) -> &[u8] {
        assert!(len <= BUFFER_BYTES, "the kernel writes into the buffer that it was given");
        let start = self.buffer(id).as_ptr();
        // SAFETY: initialised (zeroed, then written by the kernel), and ours until `give`, which needs `&mut
        // self`.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Passes a buffer (back) to the kernel, or frees it if there are too many.
    pub(super) fn give(&mut self, id: u16) {
        let start = self.buffer(id);
        if self.there > self.wanted {
            self.there -= 1;
            self.buffers[usize::from(id)] = None;
            // SAFETY: allocated in `want` with this layout, and nothing else refers to it.
            return heap::as_fixed(|| unsafe { dealloc(start.as_ptr(), BUFFER_LAYOUT) });
        }
        let index = usize::from(self.tail & (self.count - 1));
        // SAFETY: inside the allocation, as `index` is below `count`.
        let entry = unsafe { self.entries.as_ptr().add(index) };
        // SAFETY: live and aligned; the kernel does not read entries beyond the tail, and the entry's last
        // two bytes, which for the first entry are the tail, are not written here.
        let entry = unsafe { &mut *entry };
        entry.set_addr(start.as_ptr().addr() as u64);
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
        for memory in self.buffers.iter().flatten() {
            // SAFETY: allocated in `want` with this layout.
            heap::as_fixed(|| unsafe { dealloc(memory.as_ptr(), BUFFER_LAYOUT) });
        }
    }
}

const BUFFER_LAYOUT: Layout = match Layout::from_size_align(BUFFER_BYTES, 8) {
    Ok(layout) => layout,
    Err(_) => panic!("16 KiB is far below the limit"),
};

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layout has a size, since there is at least one buffer.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}
