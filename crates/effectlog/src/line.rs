//! A cache line of its own.

/// Something that shares no cache line with anything else, nor the line beside it, which processors fetch with it.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(crate) struct Line<T>(pub(crate) T);

/// Bytes of a line and the one beside it.
const LINE_BYTES: usize = 128;

// Nothing else fits into what a `Line` takes, wherever it stands.
const _: () = {
    assert!(align_of::<Line<bool>>() == LINE_BYTES && size_of::<Line<bool>>() == LINE_BYTES);
    assert!(align_of::<Line<[u64; 17]>>() == LINE_BYTES && size_of::<Line<[u64; 17]>>() == 2 * LINE_BYTES);
};
