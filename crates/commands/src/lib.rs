//! The data commands: one folder per family.
//!
//! Each command is an [`Entry`] with its function below it; a family lists its entries. A new command is added to the
//! file of its family, with a transcript.

#![forbid(unsafe_code)]

use engine::Entry;

pub mod bitmap;
#[cfg(test)]
mod clients;
mod expiring;
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
pub mod zset;

/// Every family of data commands.
pub const FAMILIES: &[&[Entry]] = &[
    bitmap::ENTRIES,
    geo::ENTRIES,
    hash::ENTRIES,
    hll::ENTRIES,
    keys::ENTRIES,
    list::ENTRIES,
    set::ENTRIES,
    stream::ENTRIES,
    string::ENTRIES,
    zset::ENTRIES,
];
