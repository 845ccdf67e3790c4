//! Numbers that say where something is in the log.
//!
//! ```text
//!   slice     Lsn 7                │ Lsn 8           │ Lsn 9 …        in which slice: what waits for the disk, for replicas
//!   bytes     StreamPosition 1000  │ 1210            │ 1210 …         where in the stream: what replicas have
//!   records   Stamp 40, 45, 52     │ Stamp 53        │ …              in which order, within a slice
//! ```
//!
//! They are types because mixing them up would lose data without an error: nearly all comparisons of small numbers look
//! right. They are made of bare numbers where these come from outside (a frame, a message of a replica), and become bare
//! numbers where they go there.

use std::fmt;

use crate::sync::{AtomicU64, Ordering};

/// Declares a number that has an order.
macro_rules! place {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(u64);

        impl $name {
            /// For a number that comes from outside, such as a file.
            #[inline]
            pub const fn new(number: u64) -> Self {
                Self(number)
            }

            /// For a number that goes outside, such as into a file.
            #[inline]
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }

    };
}

/// Declares a place that threads share. Its methods are those of `AtomicU64`.
macro_rules! atomic {
    ($(#[$doc:meta])* $atomic:ident, $name:ident) => {
        $(#[$doc])*
        #[derive(Default)]
        #[repr(transparent)]
        pub struct $atomic(AtomicU64);

        impl $atomic {
            /// Creates it with this value.
            pub fn new(value: $name) -> Self {
                Self(AtomicU64::new(value.0))
            }

            /// See `AtomicU64`.
            #[inline]
            pub fn load(&self, order: Ordering) -> $name {
                $name(self.0.load(order))
            }

            /// See `AtomicU64`.
            #[inline]
            pub fn store(&self, value: $name, order: Ordering) {
                self.0.store(value.0, order);
            }

            /// See `AtomicU64`.
            #[inline]
            pub fn swap(&self, value: $name, order: Ordering) -> $name {
                $name(self.0.swap(value.0, order))
            }

            /// See `AtomicU64`.
            #[inline]
            pub fn fetch_max(&self, value: $name, order: Ordering) -> $name {
                $name(self.0.fetch_max(value.0, order))
            }

            /// See `AtomicU64`.
            #[inline]
            pub fn fetch_min(&self, value: $name, order: Ordering) -> $name {
                $name(self.0.fetch_min(value.0, order))
            }
        }

        impl fmt::Debug for $atomic {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.load(Ordering::Relaxed).fmt(formatter)
            }
        }
    };
}

place! {
    /// The number of a slice of the log (*log sequence number*).
    Lsn
}

atomic! {
    /// An [`Lsn`] that threads share.
    AtomicLsn, Lsn
}

impl Lsn {
    /// Before all slices: where nothing was written, read, or waited for.
    pub const NONE: Lsn = Lsn(0);
    /// Behind all slices.
    pub const MAX: Lsn = Lsn(u64::MAX);

    /// The slice after this one.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }

    /// How many slices come after `earlier`, up to this one.
    #[inline]
    pub const fn since(self, earlier: Lsn) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The slice before this one; [`NONE`](Self::NONE) before the first one.
    #[inline]
    #[must_use]
    pub const fn before(self) -> Lsn {
        Lsn(self.0.saturating_sub(1))
    }
}

impl AtomicLsn {
    /// Goes on to the next slice, and returns the one before.
    #[inline]
    pub fn fetch_next(&self, order: Ordering) -> Lsn {
        Lsn(self.0.fetch_add(1, order))
    }

    /// Goes on to the slice after `from` if `from` is its value.
    #[inline]
    pub fn end(&self, from: Lsn, order: Ordering) {
        let _ = self.0.compare_exchange(from.0, from.next().0, order, Ordering::Relaxed);
    }
}

place! {
    /// Orders the records of a slice.
    Stamp
}

impl Stamp {
    /// Before all records.
    pub const NONE: Stamp = Stamp(0);

    /// The least stamp that is greater than this one.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Stamp {
        Stamp(self.0 + 1)
    }
}

place! {
    /// A position in the stream, in bytes from its beginning: what Redis calls a replication offset.
    StreamPosition
}

atomic! {
    /// A [`StreamPosition`] that threads share.
    AtomicStreamPosition, StreamPosition
}

impl StreamPosition {
    /// The beginning of a stream.
    pub const START: StreamPosition = StreamPosition(0);
    /// Behind all streams.
    pub const MAX: StreamPosition = StreamPosition(u64::MAX);

    /// The position this many bytes further on.
    #[inline]
    #[must_use]
    pub const fn plus(self, bytes: usize) -> StreamPosition {
        StreamPosition(self.0 + bytes as u64)
    }

    /// The position this many bytes back, or the beginning.
    #[inline]
    #[must_use]
    pub const fn minus(self, bytes: u64) -> StreamPosition {
        StreamPosition(self.0.saturating_sub(bytes))
    }

    /// How many bytes there are from `earlier` up to here; 0 if it is not earlier.
    #[inline]
    pub const fn since(self, earlier: StreamPosition) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
