//! Spare memory for input and output.
//!
//! A connection owns buffers only while there are bytes in them. Then the next connection gets them, still warm in the
//! cache. So a thousand idle connections have no buffers, and a busy thread allocates none.
//!
//! A long reply consists of more buffers than its connection took. Nobody would take those again, so as many buffers are
//! kept as were taken.

use crate::input::InputBuffer;

/// Buffers below this size are not worth keeping.
const KEPT_BYTES_MIN: usize = 256;
/// Larger buffers were needed for one large value, or for a connection that sends much at once.
const KEPT_BYTES_MAX: usize = 64 * 1024;
/// One larger buffer is kept for such connections. Beyond this size it is freed.
const LARGE_BYTES_MAX: usize = 1 << 20;
/// How many spare buffers one thread keeps, and how many bytes they have in all.
const KEPT_COUNT_MAX: usize = 256;
const KEPT_BYTES_IN_ALL: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    /// How many were taken and have not come back, of those taken since the last [`give_back_unused`](Self::give_back_unused):
    /// some never do, because their connection moves to another thread.
    lent_count: usize,
    /// The fewest spare buffers since the last [`give_back_unused`](Self::give_back_unused): as many were not needed.
    unused_count: usize,
    /// Not given to a connection whose buffer is still small: a slow client could keep it for a few bytes.
    large: Vec<u8>,
    is_large_used: bool,
}

impl BufferPool {
    /// An empty buffer, with spare memory if there is any.
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let memory = self.spare.pop().unwrap_or_default();
        self.lent_count += 1;
        self.unused_count = self.unused_count.min(self.spare.len());
        self.spare_bytes -= memory.capacity();
        memory
    }

    #[inline]
    pub(crate) fn give(&mut self, mut memory: Vec<u8>) {
        if memory.capacity() == 0 {
            return;
        }
        let is_lent = self.lent_count > 0;
        self.lent_count = self.lent_count.saturating_sub(1);
        let fits = is_lent
            && (KEPT_BYTES_MIN..=KEPT_BYTES_MAX).contains(&memory.capacity())
            && self.spare.len() < KEPT_COUNT_MAX
            && self.spare_bytes + memory.capacity() <= KEPT_BYTES_IN_ALL;
        if fits {
            memory.clear();
            self.spare_bytes += memory.capacity();
            self.spare.push(memory);
        } else if memory.capacity() > self.large.capacity() && memory.capacity() <= LARGE_BYTES_MAX {
            memory.clear();
            self.large = memory;
            self.is_large_used = true;
        }
    }

    /// Frees buffers that were not needed since the last call.
    pub(crate) fn give_back_unused(&mut self) {
        let unused = self.spare.drain(..self.unused_count.min(self.spare.len()));
        self.spare_bytes -= unused.map(|memory| memory.capacity()).sum::<usize>();
        self.unused_count = self.spare.len();
        self.lent_count = 0;
        if self.spare.is_empty() {
            self.spare = Vec::new();
        }
        if !std::mem::take(&mut self.is_large_used) {
            self.large = Vec::new();
        }
    }

    /// Moves `input`, which lacks space for `needed` more bytes, to the large spare buffer, if that has
    /// enough.
    #[cold]
    pub(crate) fn enlarge(&mut self, input: &mut InputBuffer, needed: usize) {
        if self.large.capacity() >= input.len() + needed {
            let mut memory = std::mem::take(&mut self.large);
            self.is_large_used = true;
            memory.extend_from_slice(input.as_slice());
            self.give(std::mem::replace(input, InputBuffer::from_memory(memory)).into_memory());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool_that_lent(count: usize) -> BufferPool {
        let mut pool = BufferPool::default();
        (0..count).for_each(|_| drop(pool.take()));
        pool
    }

    #[test]
    fn the_large_buffer_goes_to_whoever_lacks_room() {
        let mut pool = BufferPool::default();
        pool.give(Vec::with_capacity(LARGE_BYTES_MAX + 1));
        pool.give(Vec::with_capacity(3 * KEPT_BYTES_MAX));
        assert_eq!(pool.take().capacity(), 0, "nobody gets it who has nothing yet");
        let mut input = InputBuffer::from_memory(Vec::with_capacity(KEPT_BYTES_MAX));
        input.append(b"abc");
        pool.enlarge(&mut input, 4 * KEPT_BYTES_MAX);
        assert_eq!(input.capacity(), KEPT_BYTES_MAX, "it would not be enough");
        input.consume(1);
        pool.enlarge(&mut input, 2 * KEPT_BYTES_MAX);
        assert_eq!((input.as_slice(), input.capacity()), (&b"bc"[..], 3 * KEPT_BYTES_MAX));
        assert_eq!(pool.take().capacity(), KEPT_BYTES_MAX, "the small one is spare now");
        pool.enlarge(&mut InputBuffer::new(), 1);
        pool.give(input.into_memory());
        assert_eq!(pool.large.capacity(), 3 * KEPT_BYTES_MAX);
    }

    #[test]
    fn what_was_not_needed_for_a_while_is_freed() {
        let mut pool = pool_that_lent(10);
        (0..10).for_each(|_| pool.give(Vec::with_capacity(KEPT_BYTES_MAX)));
        pool.give(Vec::with_capacity(2 * KEPT_BYTES_MAX));
        pool.give_back_unused();
        let taken = [pool.take(), pool.take()];
        taken.into_iter().for_each(|memory| pool.give(memory));
        assert_eq!((pool.spare.len(), pool.large.capacity()), (10, 2 * KEPT_BYTES_MAX));
        pool.give_back_unused();
        assert_eq!((pool.spare.len(), pool.spare_bytes, pool.large.capacity()), (2, 2 * KEPT_BYTES_MAX, 0));
        pool.give_back_unused();
        assert_eq!((pool.spare.capacity(), pool.spare_bytes), (0, 0));
    }

    #[test]
    fn no_more_are_kept_than_were_taken() {
        let mut pool = BufferPool::default();
        for _ in 0..5 {
            let mut input = pool.take();
            input.reserve_exact(KEPT_BYTES_MIN);
            pool.give(input);
            // The parts of a long reply.
            (0..3).for_each(|_| pool.give(Vec::with_capacity(KEPT_BYTES_MAX)));
            assert_eq!((pool.spare.len(), pool.spare_bytes), (1, KEPT_BYTES_MIN));
        }
        pool.give(Vec::new());
        let both = [pool.take(), pool.take()];
        both.into_iter().for_each(|memory| pool.give(memory));
        assert_eq!(pool.spare.len(), 1, "nothing is no buffer");
    }

    #[test]
    fn what_it_keeps_is_limited() {
        let mut pool = pool_that_lent(KEPT_COUNT_MAX);
        for _ in 0..2 {
            (0..KEPT_COUNT_MAX).for_each(|_| pool.give(Vec::with_capacity(KEPT_BYTES_MAX)));
            let kept = (0..KEPT_COUNT_MAX).map(|_| pool.take());
            assert_eq!(kept.map(|memory| memory.capacity()).sum::<usize>(), KEPT_BYTES_IN_ALL);
        }
    }
}
