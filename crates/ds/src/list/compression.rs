//! What lies deep within a list is compressed: zstd at its fastest level.
//!
//! The nodes of a backlog are a few thousand bytes of alike jobs each, of which zstd leaves a fifth. Contexts, which take 220 KB
//! and far longer to make than to use, are one for each direction and thread, made when that thread needs the first.

use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};

const LEVEL: i32 = 1;
/// Less than one part in so many saved is not worth the time.
const SAVED_PART_MIN: usize = 8;

struct Codec {
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
    /// What comes out of either.
    output: Vec<u8>,
}

thread_local! {
    static CODEC: RefCell<Codec> = RefCell::new(Codec::new());
}

impl Codec {
    fn new() -> Self {
        let mut compressor = Compressor::new(LEVEL).expect("zstd knows its first level");
        // The node knows its length.
        compressor.include_contentsize(false).expect("zstd knows this parameter");
        let decompressor = Decompressor::new().expect("without a dictionary nothing can be wrong");
        Self { compressor, decompressor, output: Vec::new() }
    }
}

/// The bytes compressed, behind so many zeros, if that saves something.
pub(crate) fn compress(bytes: &[u8], zeros: usize) -> Option<Box<[u8]>> {
    CODEC.with_borrow_mut(|codec| {
        codec.output.clear();
        codec.output.reserve(bytes.len());
        // An error says that it would be longer than that.
        codec.compressor.compress_to_buffer(bytes, &mut codec.output).ok()?;
        let is_worth_it = zeros + codec.output.len() <= bytes.len() - bytes.len() / SAVED_PART_MIN;
        is_worth_it.then(|| std::iter::repeat_n(0, zeros).chain(codec.output.iter().copied()).collect())
    })
}

/// Lends the `len` bytes that [`compress`] made `compressed` of.
pub(super) fn with_expanded<R>(compressed: &[u8], len: usize, read: impl FnOnce(&[u8]) -> R) -> R {
    CODEC.with_borrow_mut(|codec| {
        expand(&mut codec.decompressor, compressed, len, &mut codec.output);
        read(&codec.output)
    })
}

/// The same in memory of their own.
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
