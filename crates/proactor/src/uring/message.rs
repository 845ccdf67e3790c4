//! The addresses of several chunks, in the kernel's form, for one send.
//!
//! A connection that has needed one keeps it in a box, because the kernel reads it when it starts the
//! operation, which is later than the call that queues it.

use std::io::IoSlice;

use crate::sending::{SEND_CHUNKS_MAX, Sending};

pub(super) struct Message {
    header: libc::msghdr,
    vectors: [libc::iovec; SEND_CHUNKS_MAX],
}

// SAFETY: the pointers are only ever used by the kernel, for operations of the driver that owns this.
unsafe impl Send for Message {}

impl Message {
    pub(super) fn new() -> Box<Message> {
        // SAFETY: all-zero is a valid header: null pointers with zero lengths.
        let header = unsafe { std::mem::zeroed() };
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Box::new(Message { header, vectors: [nothing; SEND_CHUNKS_MAX] })
    }

    /// Points at the bytes that `sending` has left, and returns the address of the header, which is valid
    /// until the box or the chunks are moved.
    pub(super) fn point_at(&mut self, sending: &Sending) -> *const libc::msghdr {
        let mut slices = [IoSlice::new(&[]); SEND_CHUNKS_MAX];
        let count = sending.slices(&mut slices);
        for (vector, slice) in self.vectors.iter_mut().zip(&slices[..count]) {
            *vector = libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() };
        }
        self.header.msg_iov = self.vectors.as_mut_ptr();
        self.header.msg_iovlen = count as _;
        &raw const self.header
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Message").finish_non_exhaustive()
    }
}
