//! The commands that treat a string as bits. Bit 0 is the highest bit of the first byte.

mod bit;
mod combine;
mod field;
mod range;

use engine::{CommandError, Ctx, Entry};

/// The bit commands.
pub const ENTRIES: &[Entry] = &[
    bit::GETBIT,
    bit::SETBIT,
    combine::BITOP,
    field::BITFIELD,
    field::BITFIELD_RO,
    range::BITCOUNT,
    range::BITPOS,
];

/// The position of a bit in a string as an argument, in units of `unit_bits`.
fn parse_offset(ctx: &Ctx, arg: &[u8], unit_bits: u64) -> Result<u64, CommandError> {
    ds::num::parse_i64(arg)
        .and_then(|number| u64::try_from(number).ok()?.checked_mul(unit_bits))
        .filter(|bit| bit / 8 < ctx.store.config().string_bytes_max)
        .ok_or_else(|| CommandError::new("ERR bit offset is not an integer or out of range"))
}
