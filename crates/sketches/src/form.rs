//! The form in which sketches are written: for each kind a list of typed fields, in the order in which RedisBloom's
//! modules save and load them. Numbers in arrays are little-endian.
//!
//! ```text
//! Bloom (version 4)
//!   u size  u filters  u options  u growth
//!   for each filter:  u entries  d error  u hashes  d bits-per-entry  u bits  u n2  s array  u size
//! CountMin (version 0)
//!   u width  u depth  u count  s cells of 32 bits
//! Cuckoo (version 4)
//!   u tables  u buckets  u items  u deleted  u bucket-size  u iterations  u expansion
//!   for each table:  u buckets  s array
//! TDigest (version 0)
//!   d compression  d min  d max  i capacity  i centroids n  i 0  i merges  d weight  d ±0
//!   n × d mean  n × d weight
//! TopK (version 0)
//!   u k  u width  u depth  d decay  s cells {fingerprint, count: 32 bits each}
//!   s heap of k × {fingerprint, length, item: 64 bits, count, padding}      s item and a zero byte, k times
//! ```
//!
//! `u` is an unsigned, `i` a signed and `d` a floating-point number, `s` a string. In the heap's records RedisBloom writes pointers as
//! items and ignores them when it loads; Darter keeps the state of the random numbers in the first of them.
//!
//! Reading trusts nothing: sizes are checked against the arrays that are there, and nothing is allocated by a number alone.

/// A field.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Field<'a> {
    /// An unsigned number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// A floating-point number.
    Double(f64),
    /// A string.
    Bytes(&'a [u8]),
}

/// Where the fields of a sketch are read from. A field of another type than the one requested is an error.
pub trait FieldSource {
    /// Why reading fails.
    type Error;
    /// An unsigned number.
    fn unsigned(&mut self) -> Result<u64, Self::Error>;
    /// A signed number.
    fn signed(&mut self) -> Result<i64, Self::Error>;
    /// A floating-point number.
    fn double(&mut self) -> Result<f64, Self::Error>;
    /// A string.
    fn bytes(&mut self) -> Result<Vec<u8>, Self::Error>;
    /// The error for fields that contradict each other.
    fn refuse(&mut self) -> Self::Error;
}
