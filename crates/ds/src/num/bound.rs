//! The ends of sorted-set ranges as commands write them: `(1.5`, `+inf`, `[member`, `-`.

use super::float::parse_strtod;

/// One end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScoreBound {
    /// The score itself belongs to the range.
    Inclusive(f64),
    /// The score itself does not belong to the range.
    Exclusive(f64),
}

/// One end of a range of members that all have the same score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Before every member: `-`.
    Min,
    /// After every member: `+`.
    Max,
    /// The member itself belongs to the range.
    Inclusive(&'a [u8]),
    /// The member itself does not belong to the range.
    Exclusive(&'a [u8]),
}

/// Parses one end of a score range. As in Redis this is laxer than for scores (see [`parse_strtod`]): a number out of
/// range becomes infinite or zero.
pub fn parse_score_bound(text: &[u8]) -> Option<ScoreBound> {
    let number = |text: &[u8]| parse_strtod(text).map(|(value, _)| value);
    match text {
        [b'(', text @ ..] => number(text).map(ScoreBound::Exclusive),
        text => number(text).map(ScoreBound::Inclusive),
    }
}

/// Parses one end of a range of members: `-`, `+`, or a member after `[` or `(`.
pub fn parse_lex_bound(text: &[u8]) -> Option<LexBound<'_>> {
    match text {
        [b'-'] | [b'-', 0, ..] => Some(LexBound::Min),
        [b'+'] | [b'+', 0, ..] => Some(LexBound::Max),
        [b'[', member @ ..] => Some(LexBound::Inclusive(member)),
        [b'(', member @ ..] => Some(LexBound::Exclusive(member)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn score_bounds() {
        use ScoreBound::{Exclusive, Inclusive};
        for (text, bound) in [
            ("1.5", Some(Inclusive(1.5))),
            ("(1.5", Some(Exclusive(1.5))),
            ("-inf", Some(Inclusive(f64::NEG_INFINITY))),
            ("(+inf", Some(Exclusive(f64::INFINITY))),
            ("", Some(Inclusive(0.0))),
            ("(", Some(Exclusive(0.0))),
            (" 2", Some(Inclusive(2.0))),
            ("( 2", Some(Exclusive(2.0))),
            ("2\0x", Some(Inclusive(2.0))),
            ("1e999", Some(Inclusive(f64::INFINITY))),
            ("1e-999", Some(Inclusive(0.0))),
            ("0x10", Some(Inclusive(16.0))),
            (" ", None),
            ("2 ", None),
            ("[2", None),
            ("((2", None),
            ("nan", None),
            ("a", None),
        ] {
            assert_eq!(parse_score_bound(text.as_bytes()), bound, "{text:?}");
        }
    }

    #[test]
    fn lex_bounds() {
        for (text, bound) in [
            ("-", Some(LexBound::Min)),
            ("+", Some(LexBound::Max)),
            ("[a", Some(LexBound::Inclusive(b"a"))),
            ("(", Some(LexBound::Exclusive(b""))),
            ("", None),
            ("a", None),
            ("-a", None),
            ("+inf", None),
        ] {
            assert_eq!(parse_lex_bound(text.as_bytes()), bound, "{text:?}");
        }
    }
}
