//! The commands of sketches, with the replies of RedisBloom: one folder per family.
//!
//! The structures are in `sketches`. The requests themselves are the effects: a sketch that is the same on two servers is
//! the same after a command, because nothing in it depends on the machine or on chance from outside. Transcripts and the
//! tests of all data commands are those of `commands`.

#![forbid(unsafe_code)]

use engine::Entry;

pub mod bloom;
pub mod count_min;
pub mod cuckoo;
pub mod t_digest;
pub mod top_k;

/// Every family of commands of sketches.
pub const FAMILIES: &[&[Entry]] =
    &[bloom::ENTRIES, count_min::ENTRIES, cuckoo::ENTRIES, t_digest::ENTRIES, top_k::ENTRIES];
