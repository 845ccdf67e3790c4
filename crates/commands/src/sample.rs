//! Random elements: the parts that HRANDFIELD, SRANDMEMBER, SPOP and ZRANDMEMBER share.
//!
//! | of n elements | how | steps |
//! |---|---|---|
//! | `count` distinct ones, more than a third, or n is small | walk over all of them | n |
//! | `count` distinct ones, fewer | draw, and draw again if the element came before | `count`, expected |
//! | `-count`: elements may repeat | draw | `count` |
//!
//! Every subset is as likely as any other of its size. The order of its elements is not random.

use ds::random::Random;
use engine::{CommandError, Ctx, keyword_is, parse_i64};
use resp::Reply;

/// A collection of at most this many elements is always walked.
const WALK_LEN_MAX: usize = 128;

/// How many elements to draw.
#[derive(Clone, Copy)]
pub(crate) enum Draw {
    /// This many, or all if there are fewer.
    Distinct(usize),
    /// Exactly this many; elements may repeat.
    Repeated(u64),
}

impl Draw {
    /// Reads a count, which is negative for repeated elements.
    pub(crate) fn parse(arg: &[u8]) -> Result<Draw, CommandError> {
        match parse_i64(arg)? {
            i64::MIN => Err(CommandError::new(
                "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            )),
            count if count < 0 => Ok(Draw::Repeated(count.unsigned_abs())),
            count => Ok(Draw::Distinct(count as usize)),
        }
    }

    /// Parses the arguments after the count: none, or `word`, which asks for pairs and so doubles the length
    /// of the reply.
    pub(crate) fn parse_pairs(self, options: &[&[u8]], word: &str) -> Result<bool, CommandError> {
        match options {
            [] => Ok(false),
            [option] if keyword_is(option, word) => {
                let count = match self {
                    Draw::Distinct(count) => count as u64,
                    Draw::Repeated(count) => count,
                };
                if count > i64::MAX as u64 / 2 { Err(CommandError::OUT_OF_RANGE) } else { Ok(true) }
            }
            _ => Err(CommandError::SYNTAX),
        }
    }
}

/// A separate random generator, seeded from that of `key`'s shard: the collection is borrowed from the shard.
pub(crate) fn random(ctx: &mut Ctx, key: &[u8]) -> Random {
    Random::new(ctx.store.random(key).next_u64())
}

/// Whether to walk over all `len` elements for `count` distinct ones, rather than draw them.
pub(crate) fn should_walk(len: usize, count: usize) -> bool {
    len <= WALK_LEN_MAX || count.saturating_mul(3) > len
}

/// Chooses `count` of the `len` elements of `items` in one walk: takes each with the probability `wanted / left`
/// (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S).
pub(crate) fn walk<T>(
    items: impl Iterator<Item = T>,
    len: usize,
    count: usize,
    random: &mut Random,
) -> impl Iterator<Item = T> {
    let (mut wanted, mut left) = (count.min(len) as u64, len as u64);
    items.filter(move |_| {
        let chosen = random.below(left) < wanted;
        left -= 1;
        wanted -= u64::from(chosen);
        chosen
    })
}

/// The shortest element of a reply: an empty bulk string.
const ELEMENT_BYTES_MIN: u64 = 6;
/// After this many elements, the length of the whole reply is estimated.
const ELEMENTS_BEFORE_ESTIMATE: u64 = 4096;
/// An estimate may exceed the limit by one part in this many, because it may be wrong.
const ESTIMATE_MARGIN_PART: u64 = 8;

/// Keeps a short request from producing an endless reply: a reply that repeats elements may be as long as a string may
/// be. One that will be longer is refused before the work is done: at once if the number of elements says so, otherwise
/// after the first few thousand.
pub(crate) struct ReplyLimit {
    start_bytes: u64,
    bytes_max: u64,
    count: u64,
    drawn: u64,
}

impl ReplyLimit {
    /// The limit for a reply of `count` elements that begins now; an error if they cannot fit.
    pub(crate) fn new(reply: &mut Reply, string_bytes_max: u64, count: u64) -> Result<Self, CommandError> {
        if count.saturating_mul(ELEMENT_BYTES_MIN) > string_bytes_max {
            return Err(CommandError::OUT_OF_RANGE);
        }
        let start_bytes = reply.out().len() as u64;
        Ok(ReplyLimit { start_bytes, bytes_max: string_bytes_max, count, drawn: 0 })
    }

    /// Call this after each element. An error if the reply is too long, or will be.
    pub(crate) fn check(&mut self, reply: &mut Reply) -> Result<(), CommandError> {
        self.drawn += 1;
        let bytes = reply.out().len() as u64 - self.start_bytes;
        if self.drawn == ELEMENTS_BEFORE_ESTIMATE {
            let estimate = u128::from(bytes) * u128::from(self.count) / u128::from(self.drawn);
            let margin = self.bytes_max / ESTIMATE_MARGIN_PART;
            if estimate > u128::from(self.bytes_max.saturating_add(margin)) {
                return Err(CommandError::OUT_OF_RANGE);
            }
        }
        if bytes > self.bytes_max { Err(CommandError::OUT_OF_RANGE) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_takes_every_subset_as_often() {
        let mut random = Random::new(1);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..10_000 {
            let subset: Vec<u8> = walk(0..5, 5, 2, &mut random).collect();
            *counts.entry(subset).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 10);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_walk_takes_all_if_all_are_wanted() {
        let mut random = Random::new(1);
        assert_eq!(walk(0..4, 4, 100, &mut random).count(), 4);
        assert_eq!(walk(0..4, 4, 0, &mut random).count(), 0);
    }
}
