//! The inputs of union, intersection and difference (sets and sorted sets alike), and how their scores are combined.

use std::ops::ControlFlow;

use ds::set::SetRef;
use ds::zset::{ZSet, ZSetLimits, ZSetRef};
use engine::{Pace, Store, peek_shown};
use keyspace::ValueRef;

/// The function that combines the scores of a member in several inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Aggregate {
    Sum,
    Min,
    Max,
    /// The number of inputs that have the member, or the sum of their weights.
    Count,
}

impl Aggregate {
    /// Combines `total`, a member's score from the inputs so far, with its `score` in one more.
    fn apply(self, total: f64, score: f64) -> f64 {
        match self {
            Aggregate::Sum | Aggregate::Count => number_or_zero(total + score),
            Aggregate::Min if score < total => score,
            Aggregate::Max if score > total => score,
            Aggregate::Min | Aggregate::Max => total,
        }
    }
}

/// The sum of opposite infinities, and zero times infinity, are zero.
fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// An input.
#[derive(Clone, Copy)]
pub(super) struct ZsetInput<'a> {
    members: Members<'a>,
    weight: f64,
    /// Whether the weight alone counts.
    ignores_scores: bool,
}

#[derive(Clone, Copy)]
enum Members<'a> {
    None,
    /// A set; every member has the score 1.
    Set(SetRef<'a>),
    ZSet(ZSetRef<'a>),
}

impl<'a> ZsetInput<'a> {
    /// The set at `key`, if the key exists; its type was checked before.
    pub(super) fn of(store: &'a Store, key: &[u8], weight: f64, aggregate: Aggregate) -> ZsetInput<'a> {
        let members = match peek_shown(store, key) {
            None => Members::None,
            Some(ValueRef::Set(set)) => Members::Set(set),
            Some(ValueRef::ZSet(zset)) => Members::ZSet(zset),
            Some(
                ValueRef::Str(_)
                | ValueRef::List(_)
                | ValueRef::Hash(_)
                | ValueRef::Compressed(_)
                | ValueRef::Stream(_)
                | ValueRef::Sketch(_),
            ) => {
                unreachable!("the types of the inputs were checked")
            }
        };
        ZsetInput { members, weight, ignores_scores: aggregate == Aggregate::Count }
    }

    /// What a member with this score contributes; it may be NaN.
    fn weighted(&self, score: f64) -> f64 {
        if self.ignores_scores { self.weight } else { score * self.weight }
    }

    pub(super) fn len(&self) -> usize {
        match self.members {
            Members::None => 0,
            Members::Set(set) => set.len(),
            Members::ZSet(zset) => zset.len(),
        }
    }

    /// The weighted score of a member; it may be NaN.
    fn score(&self, member: &[u8]) -> Option<f64> {
        let score = match self.members {
            Members::None => None,
            Members::Set(set) => set.contains(member).then_some(1.0),
            Members::ZSet(zset) => zset.score(member),
        };
        Some(self.weighted(score?))
    }

    /// Visits every member with its weighted score, until `visit` breaks.
    fn each(&self, visit: &mut dyn FnMut(&[u8], f64) -> ControlFlow<()>, pace: &mut Pace<'_>) {
        let weighted = |score: f64| number_or_zero(self.weighted(score));
        let mut visit = |member: &[u8], score| {
            pace.step();
            visit(member, score)
        };
        // The visitor itself knows whether it broke.
        let _ = match self.members {
            Members::None => ControlFlow::Continue(()),
            Members::Set(set) => set.iter().try_for_each(|member| visit(&member, weighted(1.0))),
            Members::ZSet(zset) => {
                zset.iter().try_for_each(|(member, score)| visit(&member, weighted(score)))
            }
        };
    }
}

/// The result of an operation.
pub(super) struct Collected<'l> {
    /// The members.
    pub(super) set: ZSet,
    limits: &'l ZSetLimits,
    has_negative_zero: bool,
}

impl<'l> Collected<'l> {
    pub(super) fn new(limits: &'l ZSetLimits) -> Self {
        Collected { set: ZSet::new(), limits, has_negative_zero: false }
    }

    pub(super) fn insert(&mut self, member: &[u8], score: f64) {
        self.has_negative_zero |= score == 0.0 && score.is_sign_negative();
        self.set.insert(member, score, self.limits);
    }

    /// Whether a negative zero may have become a positive one although the result is large: while it was
    /// small, it had only one zero.
    pub(super) fn has_lost_a_sign(&self) -> bool {
        self.has_negative_zero && self.set.lend().encoding() == "skiplist"
    }
}

/// Collects the members of all `sources`. Sums begin at the smallest input, as in Redis, because the order
/// affects the last digit.
pub(super) fn union(
    mut sources: Vec<ZsetInput>,
    aggregate: Aggregate,
    result: &mut Collected,
    pace: &mut Pace<'_>,
) {
    sources.sort_by_key(ZsetInput::len);
    for source in sources {
        let mut insert = |member: &[u8], score| {
            let total = result.set.lend().score(member).map_or(score, |total| aggregate.apply(total, score));
            result.insert(member, total);
            ControlFlow::Continue(())
        };
        source.each(&mut insert, pace);
    }
}

/// Visits the members that all of `sources` have, until `visit` breaks.
pub(super) fn intersect(
    mut sources: Vec<ZsetInput>,
    aggregate: Aggregate,
    visit: &mut dyn FnMut(&[u8], f64) -> ControlFlow<()>,
    pace: &mut Pace<'_>,
) {
    sources.sort_by_key(ZsetInput::len);
    let Some((smallest, others)) = sources.split_first() else { return };
    let mut look_up = |member: &[u8], score| {
        let mut total = score;
        for other in others {
            let Some(score) = other.score(member) else { return ControlFlow::Continue(()) };
            total = aggregate.apply(total, score);
        }
        visit(member, total)
    };
    smallest.each(&mut look_up, pace);
}

/// Collects the members of the first of `sources` that no other has.
pub(super) fn difference(sources: &[ZsetInput], result: &mut Collected, pace: &mut Pace<'_>) {
    let Some((first, others)) = sources.split_first() else { return };
    let mut look_up = |member: &[u8], score| {
        if others.iter().all(|other| other.score(member).is_none()) {
            result.insert(member, score);
        }
        ControlFlow::Continue(())
    };
    first.each(&mut look_up, pace);
}
