//! `BITCOUNT` and `BITPOS`: count and find bits in a range of a string.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, block, integer, key,
    keyword_is, oneof, parse_i64, token,
};
use keyspace::Str;

pub(super) const BITCOUNT: Entry = Entry {
    name: "bitcount",
    summary: "Counts the number of set bits (population counting) in a string.",
    complexity: "O(N)",
    since: "2.6.0",
    group: Group::Bitmap,
    arity: -2,
    flags: &[ReadOnly],
    acl: &[Acl::Bitmap],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[
        key("key", 0),
        block(
            "range",
            &[
                integer("start"),
                integer("end"),
                oneof("unit", &[token("byte", "BYTE"), token("bit", "BIT")]).optional().since("7.0.0"),
            ],
        )
        .optional(),
    ],
    history: &[("7.0.0", "Added the `BYTE|BIT` option.")],
    reply: Shape::Int,
    run: Run::Function(bitcount),
    ..Entry::DEFAULT
};

/// The arguments are parsed only if there is a string, as in Redis 7.2.
fn bitcount(ctx: &mut Ctx) -> CommandResult {
    let Some(string) = ctx.store.read_as::<Str>(ctx.args[1])? else {
        ctx.reply.int(0);
        return Ok(());
    };
    let range = match ctx.args[2..] {
        [] => Range::ALL,
        [start, end] => Range::parse(start, Some(end), None)?,
        [start, end, unit] => {
            // BITCOUNT reports an invalid end before an invalid unit; BITPOS does it the other way round.
            let range = Range::parse(start, Some(end), None)?;
            if range.is_reversed() { range } else { Range::parse(start, Some(end), Some(unit))? }
        }
        _ => return Err(CommandError::SYNTAX),
    };
    let (bytes, mut pace) = (string.bytes(), Pace::new(ctx.host));
    let bits = if range.is_reversed() { None } else { range.bits(bytes.len()) };
    let count = bits.map_or(0, |(first, last)| count_ones(&bytes, first, last, &mut pace));
    ctx.reply.int(count as i64);
    Ok(())
}

pub(super) const BITPOS: Entry = Entry {
    name: "bitpos",
    summary: "Finds the first set (1) or clear (0) bit in a string.",
    complexity: "O(N)",
    since: "2.8.7",
    group: Group::Bitmap,
    arity: -3,
    flags: &[ReadOnly],
    acl: &[Acl::Bitmap],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[
        key("key", 0),
        integer("bit"),
        block(
            "range",
            &[
                integer("start"),
                block(
                    "end-unit-block",
                    &[
                        integer("end"),
                        oneof("unit", &[token("byte", "BYTE"), token("bit", "BIT")])
                            .optional()
                            .since("7.0.0"),
                    ],
                )
                .optional(),
            ],
        )
        .optional(),
    ],
    history: &[("7.0.0", "Added the `BYTE|BIT` option.")],
    reply: Shape::Int,
    run: Run::Function(bitpos),
    ..Entry::DEFAULT
};

fn bitpos(ctx: &mut Ctx) -> CommandResult {
    let wanted = match parse_i64(ctx.args[2])? {
        0 => false,
        1 => true,
        _ => return Err(CommandError::new("ERR The bit argument must be 1 or 0.")),
    };
    let Some(string) = ctx.store.read_as::<Str>(ctx.args[1])? else {
        // A missing key is an endless row of zeros, regardless of the range.
        ctx.reply.int(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let range = match ctx.args[3..] {
        [] => Range::ALL,
        [start] => Range::parse(start, None, None)?,
        [start, end] => Range::parse(start, Some(end), None)?,
        [start, end, unit] => Range::parse(start, Some(end), Some(unit))?,
        _ => return Err(CommandError::SYNTAX),
    };
    let (bytes, mut pace) = (string.bytes(), Pace::new(ctx.host));
    let position = range.bits(bytes.len()).and_then(|(first, last)| {
        // Without an end, zeros follow the string.
        let beyond = (!wanted && range.end.is_none()).then_some(last + 1);
        find(&bytes, wanted, first, last, &mut pace).or(beyond)
    });
    ctx.reply.int(position.map_or(-1, |position| position as i64));
    Ok(())
}

/// A range as arguments give it: both ends included, negative ends counted from the end of the string.
struct Range {
    start: i64,
    end: Option<i64>,
    in_bits: bool,
}

impl Range {
    const ALL: Range = Range { start: 0, end: None, in_bits: false };

    fn parse(start: &[u8], end: Option<&[u8]>, unit: Option<&[u8]>) -> Result<Range, CommandError> {
        let start = parse_i64(start)?;
        let in_bits = match unit {
            None => false,
            Some(unit) if keyword_is(unit, "BIT") => true,
            Some(unit) if keyword_is(unit, "BYTE") => false,
            Some(_) => return Err(CommandError::SYNTAX),
        };
        let end = end.map(parse_i64).transpose()?;
        Ok(Range { start, end, in_bits })
    }

    /// Both ends are counted from the end of the string, in the wrong order.
    fn is_reversed(&self) -> bool {
        self.start < 0 && self.end.is_some_and(|end| end < 0 && self.start > end)
    }

    /// The first and the last bit in a string of this length; `None` if the range is empty.
    fn bits(&self, length_bytes: usize) -> Option<(u64, u64)> {
        let unit_bits = if self.in_bits { 1 } else { 8 };
        let total = (length_bytes as i64) * 8 / unit_bits;
        let from_front = |index: i64| if index < 0 { (total + index).max(0) } else { index };
        let (start, end) = (from_front(self.start), from_front(self.end.unwrap_or(-1)).min(total - 1));
        (start <= end).then(|| ((start * unit_bits) as u64, ((end + 1) * unit_bits - 1) as u64))
    }
}

/// Bytes that are read at a time.
const PART_BYTES: usize = 64 * 1024;

/// The number of bits that are set from `first` to `last`.
fn count_ones(bytes: &[u8], first: u64, last: u64, pace: &mut Pace<'_>) -> u64 {
    let whole = &bytes[(first / 8) as usize..=(last / 8) as usize];
    let mut ones = 0;
    for part in whole.chunks(PART_BYTES) {
        let (words, rest) = part.as_chunks::<8>();
        ones += words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum::<u64>();
        ones += rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
        pace.bytes(part.len());
    }
    // Subtract the bits of the first and the last byte that are outside the range.
    let before = u16::from(bytes[(first / 8) as usize]) >> (8 - first % 8);
    let after = bytes[(last / 8) as usize] & (0x7f >> (last % 8));
    ones - u64::from(before.count_ones()) - u64::from(after.count_ones())
}

/// The first bit from `first` to `last` that is `wanted`.
fn find(bytes: &[u8], wanted: bool, first: u64, last: u64, pace: &mut Pace<'_>) -> Option<u64> {
    let without = if wanted { 0x00 } else { 0xff };
    let mut at = first;
    while at <= last {
        let index = (at / 8) as usize;
        if at.is_multiple_of(8) && bytes[index] == without {
            let end = bytes.len().min(index + PART_BYTES);
            at += 8 * bytes[index..end].iter().take_while(|&&byte| byte == without).count() as u64;
            pace.bytes(end - index);
        } else if (bytes[index] & 0x80 >> (at % 8) != 0) == wanted {
            return Some(at);
        } else {
            at += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_counted_and_searched_bit_by_bit(
            bytes in proptest::collection::vec(prop_oneof![Just(0), Just(255), any::<u8>()], 1..40),
            one: u64,
            other: u64,
        ) {
            let total = bytes.len() as u64 * 8;
            let (first, last) = ((one % total).min(other % total), (one % total).max(other % total));
            let is_on = |&at: &u64| bytes[(at / 8) as usize] >> (7 - at % 8) & 1 == 1;
            let mut host = ();
            let pace = &mut Pace::new(&mut host);
            prop_assert_eq!(count_ones(&bytes, first, last, pace), (first..=last).filter(is_on).count() as u64);
            prop_assert_eq!(find(&bytes, true, first, last, pace), (first..=last).find(is_on));
            prop_assert_eq!(find(&bytes, false, first, last, pace), (first..=last).find(|at| !is_on(at)));
        }
    }
}
