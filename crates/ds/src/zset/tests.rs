//! Compares sorted sets with a sorted vector, validating after every operation.

use super::*;
use crate::random::Random;
use proptest::prelude::*;

const REDIS_LIMITS: ZSetLimits = ZSetLimits { entries_max: 128, value_bytes_max: 64, pack_bytes_min: 0 };

#[derive(Clone, Debug)]
enum Op {
    Insert(Vec<u8>, f64),
    Remove(Vec<u8>),
    PopMin,
    PopMax,
    RemoveRange(usize, usize),
    Move(u64),
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        9 => (0_u32..400).prop_map(|number| number.to_string().into_bytes()),
        1 => (0_usize..100).prop_map(|length| vec![b'm'; length]),
    ]
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        (-3_i32..4).prop_map(f64::from),
        any::<f64>().prop_filter("a number", |score| !score.is_nan()),
        Just(-0.0),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (member(), score()).prop_map(|(member, score)| Op::Insert(member, score)),
        4 => member().prop_map(Op::Remove),
        1 => Just(Op::PopMin),
        1 => Just(Op::PopMax),
        1 => (any::<usize>(), 0_usize..30).prop_map(|(start, count)| Op::RemoveRange(start, count)),
        1 => any::<u64>().prop_map(Op::Move),
    ]
}

/// In order, with the scores as the set stores them.
type Model = Vec<(Vec<u8>, f64)>;

fn sort(model: &mut Model) {
    model.sort_by(|left, right| small::compare((&left.0, left.1), (&right.0, right.1)));
}

fn apply(set: &mut ZSet, model: &mut Model, limits: &ZSetLimits, op: Op) {
    match op {
        Op::Insert(member, score) => {
            let place = model.iter().position(|(other, _)| *other == member);
            let old = place.map(|place| model[place].1);
            assert_eq!(set.insert(&member, score, limits), old);
            if let Some(place) = place {
                model[place].1 = if old == Some(score) { model[place].1 } else { score };
            } else {
                model.push((member, score));
            }
            sort(model);
        }
        Op::Remove(member) => {
            let place = model.iter().position(|(other, _)| *other == member);
            assert_eq!(set.remove(&member), place.map(|place| model.remove(place).1));
        }
        Op::PopMin => {
            let expected = (!model.is_empty()).then(|| model.remove(0));
            assert_eq!(set.pop_min(), expected);
        }
        Op::PopMax => assert_eq!(set.pop_max(), model.pop()),
        Op::RemoveRange(start, count) => {
            let start = start % (model.len() + 1);
            let end = (start + count).min(model.len());
            let mut removed = Model::new();
            let visited = set.remove_rank_range(start..start + count, &mut |member, score| {
                removed.push((member.to_vec(), score));
            });
            assert_eq!(visited, removed.len());
            assert_eq!(removed, model.drain(start..end).collect::<Model>());
        }
        Op::Move(seed) => {
            let (mut mover, mut place) = (Random::new(seed), WalkPosition::default());
            while !set.defragment(&mut place, &mut mover) {}
        }
    }
}

fn check_reads(set: &ZSet, model: &Model) {
    let pairs = || model.iter().map(|(member, score)| (Cow::Borrowed(&member[..]), *score));
    assert_eq!(set.lend().len(), model.len());
    assert!(set.lend().iter().eq(pairs()));
    for rank in [0, model.len() / 3, model.len() * 2 / 3, model.len().saturating_sub(1), model.len()] {
        assert!(set.lend().iter_from_rank(rank, false).eq(pairs().skip(rank)));
        let backward = set.lend().iter_from_rank(rank, true);
        let expected = if rank < model.len() { rank + 1 } else { 0 };
        assert_eq!(backward.len(), expected);
        assert!(backward.eq(pairs().take(expected).rev()));
        for (reverse, skipped) in [(false, rank.min(model.len())), (true, model.len() - expected)] {
            for limit in [0, 1, model.len() / 2, model.len()] {
                let mut visited = Vec::new();
                let limited = set.lend().iter_from_rank(rank, reverse).limited(limit);
                limited.for_each(|pair| visited.push(pair));
                match reverse {
                    true => assert!(visited.into_iter().eq(pairs().rev().skip(skipped).take(limit))),
                    false => assert!(visited.into_iter().eq(pairs().skip(skipped).take(limit))),
                }
            }
        }
        assert_eq!(set.lend().at(rank), pairs().nth(rank));
        assert_eq!(set.lend().score_at(rank), pairs().nth(rank).map(|(_, score)| score));
        if let Some((member, score)) = model.get(rank) {
            assert_eq!((set.lend().rank(member), set.lend().score(member)), (Some(rank), Some(*score)));
        }
    }
    assert_eq!((set.lend().rank(b"absent"), set.lend().score(b"absent")), (None, None));
    for bound in [f64::NEG_INFINITY, -2.0, 0.0, -0.0, 1.0, 1.5, f64::INFINITY] {
        let below = model.iter().filter(|(_, score)| *score < bound).count();
        let not_above = model.iter().filter(|(_, score)| *score <= bound).count();
        let all = ScoreBound::Inclusive(f64::INFINITY);
        assert_eq!(set.lend().score_range(ScoreBound::Inclusive(bound), all), below..model.len());
        assert_eq!(set.lend().score_range(ScoreBound::Exclusive(bound), all), not_above..model.len());
        let all = ScoreBound::Inclusive(f64::NEG_INFINITY);
        assert_eq!(set.lend().score_range(all, ScoreBound::Inclusive(bound)), 0..not_above);
        assert_eq!(set.lend().score_range(all, ScoreBound::Exclusive(bound)), 0..below);
    }
}

fn check(limits: ZSetLimits, validate_every: usize, ops: Vec<Op>) {
    let (mut set, mut model) = (ZSet::new(), Model::new());
    for (number, op) in ops.into_iter().enumerate() {
        apply(&mut set, &mut model, &limits, op);
        if number % validate_every == 0 {
            set.debug_validate();
            check_reads(&set, &model);
        }
        // Some changes follow each other directly; before others, the set has been stored as bytes.
        if number % 2 == 0
            && let Some(packed) = set.lend().packed()
        {
            set = ZSetRef::of(packed).to_zset();
        }
    }
    set.debug_validate();
    check_reads(&set, &model);
}

proptest! {
    #[test]
    fn a_small_set_behaves_like_a_sorted_vector(ops in proptest::collection::vec(op(), 1..100)) {
        check(ZSetLimits { entries_max: usize::MAX, value_bytes_max: usize::MAX, pack_bytes_min: 0 }, 1, ops);
    }

    #[test]
    fn a_large_set_behaves_like_a_sorted_vector(ops in proptest::collection::vec(op(), 1..200)) {
        check(ZSetLimits { entries_max: 0, value_bytes_max: 0, pack_bytes_min: 0 }, 1, ops);
    }

    #[test]
    fn members_of_one_score_are_found_by_name(
        members in proptest::collection::btree_set("[ab]{0,4}", 0..40),
        min in "[ab]{0,4}",
        max in "[ab]{0,4}",
        entries_max in 0_usize..30,
    ) {
        let mut set = ZSet::new();
        for member in &members {
            set.insert(member.as_bytes(), 0.0, &ZSetLimits { entries_max, value_bytes_max: 64, pack_bytes_min: 0 });
        }
        let count = |from: &dyn Fn(&String) -> bool| members.iter().filter(|member| from(member)).count();
        let (min_bytes, max_bytes) = (min.as_bytes(), max.as_bytes());
        let closed = set.lend().lex_range(LexBound::Inclusive(min_bytes), LexBound::Inclusive(max_bytes));
        prop_assert_eq!(closed.len(), count(&|member| *member >= min && *member <= max));
        let open = set.lend().lex_range(LexBound::Exclusive(min_bytes), LexBound::Exclusive(max_bytes));
        prop_assert_eq!(open.len(), count(&|member| *member > min && *member < max));
        prop_assert_eq!(set.lend().lex_range(LexBound::Exclusive(min_bytes), LexBound::Max).start, count(&|member| *member <= min));
        prop_assert_eq!(set.lend().lex_range(LexBound::Min, LexBound::Max), 0..members.len());
        prop_assert_eq!(set.lend().lex_range(LexBound::Max, LexBound::Min).len(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_set_that_grows_large_does_too(ops in proptest::collection::vec(op(), 300..500)) {
        check(REDIS_LIMITS, 20, ops);
    }
}

fn numbered(count: u32, score: impl Fn(u32) -> f64) -> ZSet {
    let mut set = ZSet::new();
    for number in 0..count {
        set.insert(format!("{number:08}").as_bytes(), score(number), &REDIS_LIMITS);
    }
    set.debug_validate();
    set
}

#[test]
fn a_deep_tree_keeps_its_order() {
    let mut random = Random::new(1);
    let mut set = numbered(10_000, |number| f64::from(number.wrapping_mul(2_654_435_761) >> 8));
    assert_eq!(set.lend().encoding(), "skiplist");
    assert!(set.lend().iter().is_sorted_by(|(left, score), (right, other)| {
        small::compare((left, *score), (right, *other)).is_lt()
    }));
    while set.lend().len() > 1000 {
        let (member, score) =
            set.lend().random(random.next_u64()).map(|(member, score)| (member.into_owned(), score)).unwrap();
        let rank = set.lend().rank(&member).unwrap();
        assert_eq!(set.lend().at(rank), Some((Cow::Borrowed(&member[..]), score)));
        assert_eq!(set.remove(&member), Some(score));
        if set.lend().len().is_multiple_of(1000) {
            set.debug_validate();
        }
    }
    let full = set.memory_bytes();
    assert_eq!(set.remove_rank_range(1..usize::MAX, &mut |_, _| ()), 999);
    set.debug_validate();
    assert!(set.memory_bytes() < full / 2);
    while set.free_slice() {}
    set.debug_validate();
}

#[test]
fn ordered_inserts_fill_the_leaves() {
    for (order, set) in [
        ("ascending", numbered(5000, f64::from)),
        ("descending", numbered(5000, |number| -f64::from(number))),
        ("one score", numbered(5000, |_| 1.0)),
    ] {
        let Form::Large(large) = &set.form else { panic!("the set is large") };
        assert!(large.tree.leaf_fill() > 0.95, "{order}: {}", large.tree.leaf_fill());
    }
}

#[test]
fn forms() {
    let mut set = ZSet::new();
    assert_eq!(set.memory_bytes(), 0);
    set.insert(b"m", -0.0, &REDIS_LIMITS);
    assert!(set.lend().score(b"m").is_some_and(f64::is_sign_positive), "the small form has one zero");
    assert!(set.memory_bytes() <= 40, "{}", set.memory_bytes());
    for number in 1..128 {
        set.insert(number.to_string().as_bytes(), 1.0, &REDIS_LIMITS);
    }
    assert_eq!((set.lend().len(), set.lend().encoding()), (128, "listpack"));
    set.insert(b"m", 7.0, &REDIS_LIMITS);
    assert_eq!(set.lend().encoding(), "listpack", "a new score adds no entry");
    set.insert(b"one more", 1.0, &REDIS_LIMITS);
    assert_eq!((set.lend().len(), set.lend().encoding()), (129, "skiplist"));
    assert_eq!(set.lend().at(128), Some((Cow::Borrowed(&b"m"[..]), 7.0)));

    let mut set = ZSet::new();
    set.insert(&[b'x'; 64], 1.0, &REDIS_LIMITS);
    assert_eq!(set.lend().encoding(), "listpack");
    set.insert(&[b'x'; 65], 1.0, &REDIS_LIMITS);
    assert_eq!(set.lend().encoding(), "skiplist");
}

#[test]
fn scans_show_what_stays() {
    let mut set = numbered(3000, f64::from);
    let mut seen = std::collections::BTreeSet::new();
    let (mut cursor, mut step) = (0, 0);
    loop {
        cursor = set.lend().scan(cursor, 10, &mut |member, _| {
            seen.insert(member.to_vec());
        });
        for number in (3000 + step * 10)..(3010 + step * 10) {
            set.insert(format!("{number:08}").as_bytes(), 0.5, &REDIS_LIMITS);
        }
        set.remove(format!("{:08}", 2000 + step).as_bytes());
        step += 1;
        if cursor == 0 {
            break;
        }
    }
    assert!((0..2000).all(|number| seen.contains(format!("{number:08}").as_bytes())));
}

const PACKING_LIMITS: ZSetLimits = ZSetLimits { entries_max: 128, value_bytes_max: 64, pack_bytes_min: 4096 };

fn job(number: u32, class: u32) -> Vec<u8> {
    let id = crate::random::mix(u64::from(number));
    format!(
        r#"{{"retry":true,"queue":"default","class":"Worker{class}","args":[{number}],"jid":"{id:024x}","created_at":17{:09}}}"#,
        id % 1_000_000_000,
    )
    .into_bytes()
}

/// Sets of jobs, some with equal scores, others without a pattern or too short or too long to be packed.
fn packing_op() -> impl Strategy<Value = Op> {
    let member = prop_oneof![
        20 => (0_u32..600, 0_u32..3).prop_map(|(number, class)| job(number, class)),
        1 => proptest::collection::vec(any::<u8>(), 40..100),
        1 => (4090_usize..4100).prop_map(|length| vec![b'm'; length]),
    ];
    let score = prop_oneof![
        20 => any::<u32>().prop_map(f64::from),
        1 => Just(7.0),
    ];
    prop_oneof![
        40 => (member, score).prop_map(|(member, score)| Op::Insert(member, score)),
        3 => (0_u32..600, 0_u32..3).prop_map(|(number, class)| Op::Remove(job(number, class))),
        1 => Just(Op::PopMin),
        1 => Just(Op::PopMax),
        1 => (any::<usize>(), 0_usize..10).prop_map(|(start, count)| Op::RemoveRange(start, count)),
        1 => any::<u64>().prop_map(Op::Move),
    ]
}

fn packed_count(set: &ZSet) -> usize {
    set.lend().packing().map_or(0, |figures| figures.packed_count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_set_that_packs_its_members_does_too(ops in proptest::collection::vec(packing_op(), 600..900)) {
        check(PACKING_LIMITS, 50, ops);
    }
}

fn jobs(count: u32, score: impl Fn(u32) -> f64) -> ZSet {
    let mut set = ZSet::new();
    for number in 0..count {
        set.insert(&job(number, number % 3), score(number), &PACKING_LIMITS);
    }
    set.debug_validate();
    set
}

#[test]
fn jobs_are_packed_and_come_back() {
    let set = jobs(3000, f64::from);
    assert_eq!(packed_count(&set), 3000, "also those that came before anything was learned");
    let mut plain = ZSet::new();
    for number in 0..3000 {
        plain.insert(&job(number, number % 3), f64::from(number), &REDIS_LIMITS);
    }
    let (packed_bytes, plain_bytes) = (set.memory_bytes(), plain.memory_bytes());
    assert!(packed_bytes < plain_bytes * 2 / 3, "{packed_bytes} of {plain_bytes}");
    let mut clone = set.lend().to_zset();
    clone.debug_validate();
    drop(set);
    assert_eq!(clone.lend().rank(&job(1000, 1)), Some(1000));
    assert_eq!(clone.lend().rank(&job(1000, 2)), None);
    assert_eq!(clone.insert(&job(1000, 1), -1.0, &PACKING_LIMITS), Some(1000.0));
    assert_eq!(clone.pop_min(), Some((job(1000, 1), -1.0)));
    assert_eq!(clone.pop_max(), Some((job(2999, 2), 2999.0)));
    while clone.free_slice() {
        clone.debug_validate();
    }
}

#[test]
fn a_set_that_packing_makes_smaller_goes_on_with_it() {
    let limits = ZSetLimits { pack_bytes_min: 20 << 10, ..PACKING_LIMITS };
    let mut set = ZSet::new();
    for number in 0..280 {
        set.insert(&job(number, number % 3), f64::from(number), &limits);
    }
    assert_eq!(packed_count(&set), 280);
}

#[test]
fn jobs_of_new_classes_are_learned_too() {
    let mut set = jobs(1000, f64::from);
    for number in 1000..4000 {
        let job =
            format!(r#"[{number},"another form of jobs altogether","{:024x}",{}]"#, number * 7, number % 7);
        set.insert(job.as_bytes(), f64::from(number), &PACKING_LIMITS);
    }
    set.debug_validate();
    assert!(packed_count(&set) > 3000, "{}", packed_count(&set));
}

#[test]
fn members_of_one_score_or_without_a_pattern_are_not_packed() {
    assert!(packed_count(&jobs(2000, |_| 1.0)) == 0);
    let mut random = Random::new(1);
    let mut set = ZSet::new();
    for number in 0..3000 {
        let member: Vec<u8> = (0..100).map(|_| random.next_u64() as u8).collect();
        set.insert(&member, f64::from(number), &PACKING_LIMITS);
    }
    assert_eq!(packed_count(&set), 0);
    set.debug_validate();
}
