//! Sketches: structures that answer approximately, in much less memory than the data would take.
//!
//! | structure | answers | its error |
//! |---|---|---|
//! | [`Bloom`] | was this item added? | "yes" for some items that were not |
//! | [`Cuckoo`] | the same, and items can be deleted | the same |
//! | [`CountMin`] | how often was it added? | counts that are too high |
//! | [`TopK`] | which items are the most frequent? | counts that are too low |
//! | [`TDigest`] | what is the median? | least at both ends |
//!
//! Replies, sizes and hashes are those of RedisBloom: dumps and chunks of either can be loaded by the other. So what a
//! structure computes must be the same on every machine and in every replica: there is no clock, no seed from outside,
//! and no function of the C library ([`num`]).
//!
//! A structure is written as a list of [`Field`]s, which [`form`] describes. Its large arrays are kept as the bytes that
//! are written.
//!
//! Not here: the commands, the encoding of fields (`rdb`).

#![forbid(unsafe_code)]

mod array;
pub mod bloom;
pub mod count_min;
pub mod cuckoo;
pub mod form;
mod murmur;
mod num;
pub mod t_digest;
pub mod top_k;

pub use array::{BYTES_MAX, CreateError};
pub use bloom::Bloom;
pub use count_min::CountMin;
pub use cuckoo::Cuckoo;
pub use form::{Field, FieldSource};
pub use t_digest::TDigest;
pub use top_k::TopK;

/// A sketch of any kind.
#[derive(Clone, Debug)]
pub enum Sketch {
    /// A Bloom filter.
    Bloom(Bloom),
    /// A cuckoo filter.
    Cuckoo(Cuckoo),
    /// A count-min sketch.
    CountMin(CountMin),
    /// The most frequent items.
    TopK(TopK),
    /// A t-digest.
    TDigest(TDigest),
}

impl Sketch {
    /// A copy that can be written, if this sketch first has to be brought into the [form](form).
    pub fn written(&self) -> Option<Sketch> {
        match self {
            Sketch::TDigest(digest) => digest.sorted().map(Sketch::TDigest),
            Sketch::Bloom(_) | Sketch::Cuckoo(_) | Sketch::CountMin(_) | Sketch::TopK(_) => None,
        }
    }

    /// Field number `index` of the [form](form); `None` after the last one. [`written`](Self::written) says of which sketch.
    pub fn field(&self, index: usize) -> Option<Field<'_>> {
        match self {
            Sketch::Bloom(bloom) => bloom.field(index),
            Sketch::Cuckoo(filter) => filter.field(index),
            Sketch::CountMin(counts) => counts.field(index),
            Sketch::TopK(top) => top.field(index),
            Sketch::TDigest(digest) => digest.field(index),
        }
    }

    /// Memory allocated in addition to this struct, in bytes.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Sketch::Bloom(bloom) => bloom.memory_bytes(),
            Sketch::Cuckoo(filter) => filter.memory_bytes(),
            Sketch::CountMin(counts) => counts.memory_bytes(),
            Sketch::TopK(top) => top.memory_bytes(),
            Sketch::TDigest(digest) => digest.memory_bytes(),
        }
    }

    /// Frees a bounded number of its items. Returns false when nothing is left that is worth a slice.
    pub fn free_slice(&mut self) -> bool {
        match self {
            Sketch::TopK(top) => top.free_slice(),
            Sketch::Bloom(_) | Sketch::Cuckoo(_) | Sketch::CountMin(_) | Sketch::TDigest(_) => false,
        }
    }

    /// Calls `visit` with each block of memory that it owns, so that the block can be moved.
    pub fn visit_blocks(&mut self, visit: &mut dyn FnMut(Block<'_>)) {
        match self {
            Sketch::Bloom(bloom) => bloom.visit_blocks(visit),
            Sketch::Cuckoo(filter) => filter.visit_blocks(visit),
            Sketch::CountMin(counts) => counts.visit_blocks(visit),
            Sketch::TopK(top) => top.visit_blocks(visit),
            Sketch::TDigest(digest) => digest.visit_blocks(visit),
        }
    }
}

/// A block of memory of a sketch.
pub enum Block<'a> {
    /// An array of bytes.
    Array(&'a mut Vec<u8>),
    /// An item.
    Item(&'a mut Box<[u8]>),
    /// Centroids.
    Centroids(&'a mut Vec<t_digest::Centroid>),
}
