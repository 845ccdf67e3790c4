//! A cache line of its own.

/// A value that shares neither its cache line nor the neighbouring one with anything else. Processors fetch the two
/// together.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(crate) struct CacheLine<T>(pub(crate) T);

/// The size of two cache lines.
const LINE_BYTES: usize = 128;

// A `CacheLine` fills its cache lines completely at any address, so no other value can share them.
const _: () = {
    assert!(align_of::<CacheLine<bool>>() == LINE_BYTES && size_of::<CacheLine<bool>>() == LINE_BYTES);
    assert!(
        align_of::<CacheLine<[u64; 17]>>() == LINE_BYTES
            && size_of::<CacheLine<[u64; 17]>>() == 2 * LINE_BYTES
    );
};
