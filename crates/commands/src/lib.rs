//! The data commands: one folder per family.
//!
//! Each command is an [`Entry`] with its function below it; a family lists its entries. A new command is added to the
//! file of its family, with a transcript.

#![forbid(unsafe_code)]

use engine::Entry;

pub mod bitmap;
pub mod bloom;
#[cfg(test)]
mod clients;
pub mod count_min;
pub mod cuckoo;
pub mod geo;
pub mod hash;
pub mod hll;
mod index_range;
pub mod keys;
pub mod list;
mod sample;
mod scan;
pub mod set;
pub mod stream;
pub mod string;
pub mod t_digest;
pub mod top_k;
pub mod zset;

/// Every family of data commands.
pub const FAMILIES: &[&[Entry]] = &[
    bitmap::ENTRIES,
    bloom::ENTRIES,
    count_min::ENTRIES,
    cuckoo::ENTRIES,
    geo::ENTRIES,
    hash::ENTRIES,
    hll::ENTRIES,
    keys::ENTRIES,
    list::ENTRIES,
    set::ENTRIES,
    stream::ENTRIES,
    string::ENTRIES,
    t_digest::ENTRIES,
    top_k::ENTRIES,
    zset::ENTRIES,
];
