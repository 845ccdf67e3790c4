//! The two queues shared with the kernel, and the operations that this driver puts into them.
//!
//! Flags: SINGLE_ISSUER and DEFER_TASKRUN, so that completions are produced only when this thread asks, and
//! in batches; COOP_TASKRUN on kernels before 6.1. TASKRUN_FLAG lets polling see in user space whether there
//! is anything to ask for.
//!
//! A [`Tag`] identifies an operation; the kernel hands it back with the completion:
//!
//! ```text
//!   63      60 59                  32 31                    0
//!   [ kind   ][ generation, 28 bits  ][ slot                 ]
//! ```
//!
//! Since a slot is not reused before its last completion, slot and kind would suffice. The generation is only
//! asserted.
//!
//! Invariant: memory that an operation refers to (only sends do) is not moved or freed until its completion.
//! The caller of [`Ring::send`] guarantees that. An operation that does not fit into the queue waits in
//! `backlog`, in order.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Submitter, cqueue, opcode};

use super::buffers::BUFFER_GROUP;
use crate::event::ConnId;

/// The sizes of the queues: how many operations can be queued before the kernel is asked to take them, and
/// how many completions. More of these are kept by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    submissions: u32,
    completions: u32,
}

/// 200 KiB, for a thread with connections.
pub(super) const FULL: Sizes = Sizes { submissions: 1024, completions: 8192 };
/// Two pages, for a thread that only waits to be woken.
pub(super) const SMALL: Sizes = Sizes { submissions: 8, completions: 64 };

/// Completions taken per call.
const TAKEN_MAX: usize = 1024;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum OpKind {
    Accept,
    Receive,
    Send,
    HangUp,
    Cancel,
    Bell,
}

impl OpKind {
    const ALL: [OpKind; 6] =
        [OpKind::Accept, OpKind::Receive, OpKind::Send, OpKind::HangUp, OpKind::Cancel, OpKind::Bell];
}

/// The operation, and the connection or listener, that a completion belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) kind: OpKind,
    pub(super) id: ConnId,
}

impl Tag {
    const GENERATION_MASK: u32 = (1 << 28) - 1;

    pub(super) fn new(kind: OpKind, id: ConnId) -> Tag {
        Tag { kind, id: ConnId { slot: id.slot, generation: id.generation & Self::GENERATION_MASK } }
    }

    /// A tag for operations that belong to no connection.
    pub(super) fn numbered(kind: OpKind, number: u32) -> Tag {
        Tag { kind, id: ConnId { slot: number, generation: 0 } }
    }

    /// Whether it belongs to `id`.
    pub(super) fn is_of(self, id: ConnId) -> bool {
        self == Tag::new(self.kind, id)
    }

    fn pack(self) -> u64 {
        (self.kind as u64) << 60 | u64::from(self.id.generation) << 32 | u64::from(self.id.slot)
    }

    fn unpack(bits: u64) -> Tag {
        let kind = OpKind::ALL[(bits >> 60) as usize];
        let generation = (bits >> 32) as u32 & Self::GENERATION_MASK;
        Tag { kind, id: ConnId { slot: bits as u32, generation } }
    }
}

/// One completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) tag: Tag,
    /// The return value of the system call, or the negated error number.
    pub(super) result: i32,
    /// Whether the operation continues and will complete again.
    pub(super) has_more: bool,
    /// The buffer that was filled.
    pub(super) buffer: Option<u16>,
}

impl Completion {
    /// The result as a length, or the error.
    pub(super) fn length(&self) -> io::Result<usize> {
        usize::try_from(self.result).map_err(|_| io::Error::from_raw_os_error(-self.result))
    }
}

/// The data of a send.
#[derive(Clone, Copy, Debug)]
pub(super) enum ToSend {
    Bytes(*const u8, u32),
    Message(*const libc::msghdr),
}

pub(super) struct Ring {
    ring: IoUring,
    backlog: VecDeque<Entry>,
}

impl Ring {
    pub(super) fn open(sizes: Sizes) -> io::Result<Ring> {
        let build = |defer: bool| {
            let mut builder = IoUring::builder();
            builder.setup_cqsize(sizes.completions).setup_clamp().setup_submit_all().setup_taskrun_flag();
            if defer {
                builder.setup_single_issuer().setup_defer_taskrun();
            } else {
                builder.setup_coop_taskrun();
            }
            builder.build(sizes.submissions)
        };
        let ring = build(true).or_else(|error| {
            if error.raw_os_error() == Some(libc::EINVAL) { build(false) } else { Err(error) }
        })?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        Ok(Ring { ring, backlog: VecDeque::new() })
    }

    pub(super) fn submitter(&self) -> Submitter<'_> {
        self.ring.submitter()
    }

    /// Accepts until cancelled.
    pub(super) fn accept(&mut self, fd: RawFd, tag: Tag) {
        self.push(opcode::AcceptMulti::new(Fd(fd)).flags(libc::SOCK_CLOEXEC).build(), tag);
    }

    /// Receives until cancelled, into provided buffers.
    pub(super) fn receive(&mut self, fd: RawFd, tag: Tag) {
        self.push(opcode::RecvMulti::new(Fd(fd), BUFFER_GROUP).build(), tag);
    }

    /// Receives once, into a provided buffer.
    pub(super) fn receive_once(&mut self, fd: RawFd, tag: Tag) {
        let entry = opcode::Recv::new(Fd(fd), std::ptr::null_mut(), 0).buf_group(BUFFER_GROUP).build();
        self.push(entry.flags(Flags::BUFFER_SELECT), tag);
    }

    /// Completes when the peer hangs up.
    pub(super) fn watch_hang_up(&mut self, fd: RawFd, tag: Tag) {
        self.push(opcode::PollAdd::new(Fd(fd), libc::POLLRDHUP as u32).build(), tag);
    }

    /// Completes whenever an eventfd is written to.
    pub(super) fn watch_bell(&mut self, fd: RawFd, tag: Tag) {
        self.push(opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32).multi(true).build(), tag);
    }

    /// Cancels one operation.
    pub(super) fn cancel(&mut self, target: Tag, tag: Tag) {
        self.push(opcode::AsyncCancel::new(target.pack()).build(), tag);
    }

    /// Cancels all operations on a descriptor.
    pub(super) fn cancel_all(&mut self, fd: RawFd, tag: Tag) {
        self.push(opcode::AsyncCancel2::new(CancelBuilder::fd(Fd(fd)).all()).build(), tag);
    }

    /// Sends a run of bytes, or those that a message points at.
    ///
    /// # Safety
    /// The bytes, and the message, must stay in place and unchanged until the completion.
    pub(super) unsafe fn send(&mut self, fd: RawFd, what: ToSend, tag: Tag) {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let entry = match what {
            ToSend::Bytes(start, len) => opcode::Send::new(Fd(fd), start, len).flags(flags).build(),
            ToSend::Message(message) => opcode::SendMsg::new(Fd(fd), message).flags(flags as u32).build(),
        };
        self.push(entry, tag);
    }

    fn push(&mut self, entry: Entry, tag: Tag) {
        let entry = entry.user_data(tag.pack());
        if !self.backlog.is_empty() || !self.try_push(&entry) {
            // The queue is full: ask the kernel to take it. If it does not, the entry waits.
            self.backlog.push_back(entry);
            let _ = self.ring.submit();
            self.work_off_backlog();
        }
    }

    fn try_push(&mut self, entry: &Entry) -> bool {
        // SAFETY: only `send` refers to memory, and its caller guarantees that the memory stays in place.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    fn work_off_backlog(&mut self) {
        while let Some(entry) = self.backlog.pop_front() {
            if !self.try_push(&entry) {
                self.backlog.push_front(entry);
                return;
            }
        }
    }

    /// Whether the kernel has to be called: for operations to submit, or completions to produce.
    pub(super) fn needs_kernel(&mut self) -> bool {
        let queue = self.ring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    /// Whether there are completions to take.
    pub(super) fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Whether the kernel says that a call would find completions. This is a hint. The kernel adds the work
    /// first and then sets the flag. So a faster thread may do the work, clear the flag, and see it set again
    /// with nothing behind it, until the next piece of work. The flag is therefore a reason to call once, and
    /// no reason to stay awake; a call that waits does pending work before it sleeps.
    pub(super) fn may_have_work(&mut self) -> bool {
        self.ring.submission().taskrun()
    }

    /// Submits queued operations and waits for one completion for at most `wait`; zero does not wait.
    pub(super) fn enter(&mut self, wait: Option<Duration>) -> io::Result<()> {
        self.work_off_backlog();
        let result = match wait {
            Some(Duration::ZERO) => self.ring.submit(),
            Some(wait) => {
                let timespec = Timespec::from(wait);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timespec))
            }
            None => self.ring.submit_and_wait(1),
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // Timed out, interrupted, or the completion queue has to be emptied first: not an error.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Appends the available completions to `into`.
    pub(super) fn take_completions(&mut self, into: &mut Vec<Completion>) {
        into.extend(self.ring.completion().take(TAKEN_MAX).map(|entry| Completion {
            tag: Tag::unpack(entry.user_data()),
            result: entry.result(),
            has_more: cqueue::more(entry.flags()),
            buffer: cqueue::buffer_select(entry.flags()),
        }));
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Operations in progress must release their memory before it is freed. The call fails if no operation
        // is in progress.
        let patience = Timespec::from(Duration::from_secs(1));
        let _ = self.ring.submitter().register_sync_cancel(Some(patience), CancelBuilder::any());
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ring").field("backlog", &self.backlog.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_survives_the_kernel() {
        for kind in OpKind::ALL {
            let id = ConnId { slot: 0xfedc_ba98, generation: 0xffff_fff7 };
            let tag = Tag::new(kind, id);
            assert_eq!(Tag::unpack(tag.pack()), tag);
            assert!(tag.is_of(id));
            assert!(!tag.is_of(ConnId { generation: 6, ..id }));
        }
    }
}
