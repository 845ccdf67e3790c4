//! The order in which JOB.TAKE tries its queues: as given, or a different one each time.
//!
//! With weights, a queue of weight 3 comes before one of weight 1 three times out of four, as in Sidekiq's
//! weighted queue lists. Each queue draws an exponentially distributed number, divided by its weight, and the
//! smallest comes first. So whichever queues are empty, the others come first in proportion to their weights
//! (Efraimidis and Spirakis, "Weighted random sampling with a reservoir").

use ds::random::Random;
use engine::{CommandError, keyword_is};

use crate::commands::parse_positive;

/// The largest weight.
const WEIGHT_MAX: u64 = 1 << 32;

const BAD_COUNT: &str = "ERR WEIGHTS needs one weight for each queue";
const BAD_WEIGHT: &str = "ERR weights are greater than 0 and not greater than 4294967296";

/// The order in which queues are tried.
#[derive(Clone, Debug, Default)]
pub(crate) enum Order<'k, 'a> {
    /// As given.
    #[default]
    Strict,
    /// All are equally likely to be first.
    Fair,
    /// Randomly, by these weights.
    Weights(&'k [&'a [u8]]),
}

impl<'k, 'a> Order<'k, 'a> {
    /// Parses the order that `args` begin with, if any, and returns the arguments after it.
    pub(crate) fn parse(args: &'k [&'a [u8]]) -> Option<(Order<'k, 'a>, &'k [&'a [u8]])> {
        let (word, rest) = args.split_first()?;
        if keyword_is(word, "strict") {
            return Some((Order::Strict, rest));
        }
        if keyword_is(word, "fair") {
            return Some((Order::Fair, rest));
        }
        if !keyword_is(word, "weights") {
            return None;
        }
        let count = rest.iter().position(|arg| keyword_is(arg, "from")).unwrap_or(rest.len());
        let (weights, rest) = rest.split_at(count);
        Some((Order::Weights(weights), rest))
    }

    /// Checks that the order fits this number of queues.
    pub(crate) fn check(&self, queue_count: usize) -> Result<(), CommandError> {
        let Order::Weights(weights) = self else { return Ok(()) };
        if weights.len() != queue_count {
            return Err(CommandError::new(BAD_COUNT));
        }
        weights.iter().try_for_each(|weight| parse_weight(weight).map(|_| ()))
    }

    /// The indexes of the queues, in the order in which to try them this time.
    pub(crate) fn indexes(&self, queue_count: usize, random: &mut Random) -> Vec<usize> {
        let mut indexes: Vec<usize> = (0..queue_count).collect();
        match self {
            Order::Strict => {}
            Order::Fair => random.shuffle(&mut indexes),
            Order::Weights(weights) => {
                assert_eq!(weights.len(), queue_count, "each queue has a weight");
                let drawn: Vec<f64> = weights
                    .iter()
                    .map(|weight| draw(random) / parse_weight(weight).unwrap_or(1) as f64)
                    .collect();
                indexes.sort_by(|one, other| drawn[*one].total_cmp(&drawn[*other]));
            }
        }
        indexes
    }
}

fn parse_weight(arg: &[u8]) -> Result<u64, CommandError> {
    let weight = parse_positive(arg, "a weight").ok().filter(|weight| *weight <= WEIGHT_MAX);
    weight.ok_or_else(|| CommandError::new(BAD_WEIGHT))
}

/// An exponentially distributed number.
fn draw(random: &mut Random) -> f64 {
    let uniform = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    -uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each queue is the first that is not empty.
    fn firsts(order: &Order, count: usize, is_empty: impl Fn(usize) -> bool) -> Vec<usize> {
        let (mut random, mut firsts) = (Random::new(7), vec![0; count]);
        for _ in 0..20_000 {
            let first = order.indexes(count, &mut random).into_iter().find(|index| !is_empty(*index));
            firsts[first.expect("one has some")] += 1;
        }
        firsts
    }

    #[track_caller]
    fn check(found: &[usize], expected: &[f64]) {
        for (count, share) in found.iter().zip(expected) {
            let off = *count as f64 / 20_000.0 - share;
            assert!(off.abs() < 0.015, "{found:?} {expected:?}");
        }
    }

    #[test]
    fn queues_come_first_in_proportion() {
        check(&firsts(&Order::Strict, 3, |index| index == 0), &[0.0, 1.0, 0.0]);
        check(&firsts(&Order::Fair, 4, |_| false), &[0.25; 4]);
        check(&firsts(&Order::Fair, 4, |index| index == 2), &[1.0 / 3.0, 1.0 / 3.0, 0.0, 1.0 / 3.0]);
        let weights: &[&[u8]] = &[b"5", b"3", b"2"];
        check(&firsts(&Order::Weights(weights), 3, |_| false), &[0.5, 0.3, 0.2]);
        check(&firsts(&Order::Weights(weights), 3, |index| index == 0), &[0.0, 0.6, 0.4]);
    }
}
