//! Ranges as commands write them, converted to ranks.

use std::ops::Range;

use ds::num::{LexBound, ScoreBound, parse_lex_bound, parse_score_bound};
use ds::zset::ZSetRef;
use engine::{CommandError, parse_i64};

use crate::index_range::index_range;

const NOT_A_SCORE: &str = "ERR min or max is not a float";
const NOT_A_LEX_BOUND: &str = "ERR min or max not valid string range item";

/// The kind of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// Indexes, which count from the end if negative.
    Rank,
    /// Scores.
    Score,
    /// Members, all of the same score.
    Lex,
}

/// A range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Span<'a> {
    Rank { start: i64, stop: i64 },
    Score { min: ScoreBound, max: ScoreBound },
    Lex { min: LexBound<'a>, max: LexBound<'a> },
}

impl<'a> Span<'a> {
    /// Reads the two ends of a range, the lower one first.
    pub(super) fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Span<'a>, CommandError> {
        match by {
            By::Rank => Ok(Span::Rank { start: parse_i64(min)?, stop: parse_i64(max)? }),
            By::Score => match (parse_score_bound(min), parse_score_bound(max)) {
                (Some(min), Some(max)) => Ok(Span::Score { min, max }),
                _ => Err(CommandError::new(NOT_A_SCORE)),
            },
            By::Lex => match (parse_lex_bound(min), parse_lex_bound(max)) {
                (Some(min), Some(max)) => Ok(Span::Lex { min, max }),
                _ => Err(CommandError::new(NOT_A_LEX_BOUND)),
            },
        }
    }

    /// Whether the members within the range depend on how `zset` is encoded, which may differ in another store.
    pub(super) fn is_open(&self, zset: ZSetRef<'_>) -> bool {
        let score = |rank| zset.score_at(rank);
        matches!(self, Span::Lex { .. }) && score(0) != score(zset.len().saturating_sub(1))
    }

    /// The ranks of the members of `zset` within it. With `reverse`, indexes count from the highest score.
    pub(super) fn ranks(&self, zset: ZSetRef<'_>, reverse: bool) -> Range<usize> {
        match *self {
            Span::Score { min, max } => zset.score_range(min, max),
            Span::Lex { min, max } => zset.lex_range(min, max),
            Span::Rank { start, stop } => {
                let len = zset.len();
                let indexes = index_range(start, stop, len);
                if reverse { len - indexes.end..len - indexes.start } else { indexes }
            }
        }
    }
}
