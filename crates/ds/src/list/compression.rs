//! Compression of the inner nodes of lists: zstd at its fastest level.
//!
//! The nodes of a backlog consist of a few thousand bytes of similar jobs; zstd reduces them to a fifth. A context takes
//! 220 KB, and far longer to create than to use, so each thread creates one per direction when it first needs one.

use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};

const LEVEL: i32 = 1;
/// A result is kept only if it saves at least one part in this many.
const SAVED_PART_MIN: usize = 8;

struct Codec {
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
    /// Output of either direction.
    output: Vec<u8>,
}

thread_local! {
    static CODEC: RefCell<Codec> = RefCell::new(Codec::new());
}

impl Codec {
    fn new() -> Self {
        let mut compressor = Compressor::new(LEVEL).expect("zstd knows its first level");
        // The node stores its length.
        compressor.include_contentsize(false).expect("zstd knows this parameter");
        let decompressor = Decompressor::new().expect("without a dictionary nothing can be wrong");
        Self { compressor, decompressor, output: Vec::new() }
    }
}

/// Returns `zeros` zero bytes followed by the compressed bytes, or `None` if that does not save enough.
pub(crate) fn compress(bytes: &[u8], zeros: usize) -> Option<Box<[u8]>> {
    CODEC.with_borrow_mut(|codec| {
        codec.output.clear();
        codec.output.reserve(bytes.len());
        // An error means that the result would be longer than the input.
        codec.compressor.compress_to_buffer(bytes, &mut codec.output).ok()?;
        let is_worth_it = zeros + codec.output.len() <= bytes.len() - bytes.len() / SAVED_PART_MIN;
        is_worth_it.then(|| std::iter::repeat_n(0, zeros).chain(codec.output.iter().copied()).collect())
    })
}

/// Calls `read` with the `len` bytes that [`compress`] was given. Panics if they are damaged.
pub(super) fn with_expanded<R>(compressed: &[u8], len: usize, read: impl FnOnce(&[u8]) -> R) -> R {
    CODEC.with_borrow_mut(|codec| {
        expand(&mut codec.decompressor, compressed, len, &mut codec.output);
        read(&codec.output)
    })
}

/// Returns the `len` bytes that [`compress`] was given. Panics if they are damaged.
pub(crate) fn expanded(compressed: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    CODEC.with_borrow_mut(|codec| expand(&mut codec.decompressor, compressed, len, &mut bytes));
    bytes
}

fn expand(decompressor: &mut Decompressor<'_>, compressed: &[u8], len: usize, bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.reserve_exact(len);
    let expanded = decompressor.decompress_to_buffer(compressed, bytes);
    assert!(expanded.is_ok_and(|expanded| expanded == len), "what was compressed comes back as it was");
}
