//! Compares `ds::set` with a set of the standard library; tests its three forms, its cursors and its random picks.

use std::collections::{BTreeMap, BTreeSet};

use ds::mover::WalkPosition;
use ds::random::Random;
use ds::set::{Set, SetLimits, SetRef};
use proptest::prelude::*;

const LIMITS: SetLimits =
    SetLimits { intset_entries_max: 512, listpack_entries_max: 128, listpack_value_bytes_max: 64 };

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>),
    Remove(Vec<u8>),
    InsertRange(i64, u16),
    RemoveRange(i64, u16),
    Pop(u64),
    Move(u64),
    FreeSlice,
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (-20..20_i64).prop_map(|number| number.to_string().into_bytes()),
        1 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        1 => prop_oneof![Just(""), Just("-0"), Just("01"), Just("+1"), Just("one")].prop_map(Vec::from),
        1 => (0..300_usize).prop_map(|len| vec![b'm'; len]),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => member().prop_map(Step::Insert),
        6 => member().prop_map(Step::Remove),
        2 => (-40_000..40_000_i64, 0..700_u16).prop_map(|(from, n)| Step::InsertRange(from, n)),
        2 => (-40_000..40_000_i64, 0..700_u16).prop_map(|(from, n)| Step::RemoveRange(from, n)),
        2 => any::<u64>().prop_map(Step::Pop),
        3 => any::<u64>().prop_map(Step::Move),
        1 => Just(Step::FreeSlice),
    ];
    proptest::collection::vec(step, 0..30)
}

type Model = BTreeSet<Vec<u8>>;

fn apply(set: &mut Set, model: &mut Model, step: &Step, limits: &SetLimits) {
    let range = |from: i64, n: u16| (from..from + i64::from(n)).map(|number| number.to_string().into_bytes());
    match step {
        Step::Insert(member) => assert_eq!(set.insert(member, limits), model.insert(member.clone())),
        Step::Remove(member) => assert_eq!(set.remove(member), model.remove(member)),
        Step::InsertRange(from, n) => {
            range(*from, *n).for_each(|member| assert_eq!(set.insert(&member, limits), model.insert(member)));
        }
        Step::RemoveRange(from, n) => {
            range(*from, *n).for_each(|member| assert_eq!(set.remove(&member), model.remove(&member)));
        }
        Step::Pop(random) => match set.pop_random(*random, !random) {
            Some(member) => assert!(model.remove(&member)),
            None => assert!(model.is_empty()),
        },
        Step::Move(seed) => {
            let (mut mover, mut place) = (Random::new(*seed), WalkPosition::default());
            while !set.defragment(&mut place, &mut mover) {}
        }
        Step::FreeSlice => {
            assert_eq!(set.free_slice(), !set.lend().is_empty());
            model.retain(|member| set.lend().contains(member));
        }
    }
}

fn check_all(set: &Set, model: &Model) {
    set.debug_validate();
    assert_eq!((set.lend().len(), set.lend().is_empty()), (model.len(), model.is_empty()));
    assert_eq!(&set.lend().iter().map(|member| member.to_vec()).collect::<Model>(), model);
    assert_eq!(set.lend().iter().count(), model.len());
    let mut visited = Vec::new();
    set.lend().visit_ahead(|bytes, len| visited.push(bytes[..len].to_vec()));
    assert!(visited.into_iter().eq(set.lend().iter().map(|member| member.to_vec())));
    for member in ["0", "-0", "01", "19", "", "one"] {
        assert_eq!(set.lend().contains(member.as_bytes()), model.contains(member.as_bytes()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn behaves_like_a_set(
        steps in steps(),
        intset_entries_max in 0..900_usize,
        listpack_entries_max in 0..200_usize,
        listpack_value_bytes_max in 0..200_usize,
    ) {
        let limits = SetLimits { intset_entries_max, listpack_entries_max, listpack_value_bytes_max };
        let (mut set, mut model) = (Set::new(), Model::new());
        for (number, step) in steps.iter().enumerate() {
            apply(&mut set, &mut model, step, &limits);
            check_all(&set, &model);
            // Some changes follow each other directly; before others, the set has been stored as bytes.
            if number % 2 == 0 && let Some(packed) = set.lend().packed() {
                prop_assert_eq!(SetRef::of(packed).encoding(), set.lend().encoding());
                set = Set::unpacked(packed);
            }
            match set.lend().encoding() {
                "intset" => prop_assert!(set.lend().len() <= intset_entries_max),
                "listpack" => prop_assert!(set.lend().len() <= listpack_entries_max),
                encoding => prop_assert_eq!(encoding, "hashtable"),
            }
        }
        check_all(&set.lend().to_set(), &model);
        while set.free_slice() {}
        set.debug_validate();
        prop_assert!(set.lend().is_empty() && set.lend().random(1, 2).is_none());
    }

    #[test]
    fn scan_returns_what_stays_present(changes in proptest::collection::vec(steps(), 1..4), count in 0..100_usize) {
        let (mut set, mut model) = (Set::new(), Model::new());
        apply(&mut set, &mut model, &Step::InsertRange(0, 1500), &LIMITS);
        let mut stayed = model.clone();
        let mut seen = Model::new();
        let mut cursor = 0;
        for call in 0.. {
            cursor = set.lend().scan(cursor, count, &mut |member| {
                seen.insert(member.to_vec());
            });
            if cursor == 0 {
                break;
            }
            for step in changes.get(call).map_or(&[][..], Vec::as_slice) {
                apply(&mut set, &mut model, step, &LIMITS);
            }
            stayed.retain(|member| model.contains(member));
        }
        prop_assert!(stayed.is_subset(&seen));
    }
}

fn check_encoding(members: &[&str], encoding: &str) {
    let mut set = Set::new();
    for member in members {
        set.insert(member.as_bytes(), &LIMITS);
    }
    assert_eq!(set.lend().encoding(), encoding, "{members:?}");
}

fn numbers(count: i64) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

fn with<'a>(numbers: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    numbers.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

#[test]
fn changes_form_when_redis_does() {
    let long = "x".repeat(65);
    check_encoding(&["1", "-5", "9223372036854775807"], "intset");
    check_encoding(&["1", "01"], "listpack");
    check_encoding(&["a", "1"], "listpack");
    check_encoding(&["1", &long], "hashtable");
    check_encoding(&[&long[1..]], "listpack");
    check_encoding(&with(&numbers(512), &[]), "intset");
    check_encoding(&with(&numbers(512), &["511"]), "intset");
    check_encoding(&with(&numbers(513), &[]), "hashtable");
    check_encoding(&with(&numbers(127), &["a"]), "listpack");
    check_encoding(&with(&numbers(127), &["a", "a", "5"]), "listpack");
    check_encoding(&with(&numbers(127), &["a", "b"]), "hashtable");
    check_encoding(&with(&numbers(128), &["a"]), "hashtable");
}

#[test]
fn expected_members_choose_the_form() {
    let check = |present: &[&str], first: &str, count: usize, encoding: &str| {
        let mut set = Set::new();
        present.iter().for_each(|member| assert!(set.insert(member.as_bytes(), &LIMITS)));
        set.expect(first.as_bytes(), count, &LIMITS);
        assert_eq!(
            (set.lend().encoding(), set.lend().len()),
            (encoding, present.len()),
            "{present:?} {first} {count}"
        );
        present.iter().for_each(|member| assert!(set.lend().contains(member.as_bytes())));
    };
    check(&[], "1", 512, "intset");
    check(&[], "1", 513, "hashtable");
    check(&[], "a", 128, "listpack");
    check(&[], "a", 129, "hashtable");
    check(&["1"], "a", 512, "intset");
    check(&["1"], "2", 513, "hashtable");
    check(&["a"], "1", 128, "listpack");
    check(&["a"], "1", 129, "hashtable");
    let mut set = Set::new();
    set.expect(b"1", 1, &SetLimits { intset_entries_max: 0, ..LIMITS });
    assert_eq!(set.lend().encoding(), "listpack");
}

#[test]
fn random_is_fair_in_all_forms() {
    for (count, more) in [(100, None), (100, Some("a")), (1000, Some("a"))] {
        let mut set = Set::new();
        numbers(count).iter().map(String::as_str).chain(more).for_each(|member| {
            set.insert(member.as_bytes(), &LIMITS);
        });
        let mut random = Random::new(4);
        let mut counts = BTreeMap::new();
        for _ in 0..set.lend().len() * 200 {
            let member = set.lend().random(random.next_u64(), random.next_u64()).unwrap();
            *counts.entry(member.to_vec()).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.len(), set.lend().len());
        assert!(counts.values().all(|&count| (100..300).contains(&count)), "{counts:?}");
    }
}

#[test]
fn memory_follows_the_contents() {
    let mut set = Set::new();
    assert_eq!(set.memory_bytes(), 0);
    numbers(500).iter().for_each(|member| assert!(set.insert(member.as_bytes(), &LIMITS)));
    assert!(set.memory_bytes() <= 1024, "{}", set.memory_bytes());
    numbers(20_000).iter().skip(500).for_each(|member| assert!(set.insert(member.as_bytes(), &LIMITS)));
    assert!(set.memory_bytes() < 20_000 * 58, "{}", set.memory_bytes());
    while set.lend().len() > 3 {
        assert!(set.pop_random(set.lend().len() as u64, 5).is_some());
    }
    set.debug_validate();
    assert!(set.memory_bytes() < 8192, "{}", set.memory_bytes());
}

proptest! {
    #[test]
    fn members_expire_in_their_order(
        steps in proptest::collection::vec((0..5_u8, 0..20_i64, 0..50_i64), 0..200),
        as_text: bool,
        entries_max in 0..30_usize,
    ) {
        let limits = SetLimits { intset_entries_max: entries_max, listpack_entries_max: entries_max, ..LIMITS };
        let name = |number: i64| if as_text { format!("m{number}") } else { number.to_string() }.into_bytes();
        let (mut set, mut model) = (Set::new(), BTreeMap::<Vec<u8>, Option<i64>>::new());
        for (step, number, at) in steps {
            let member = name(number);
            match step {
                0 => {
                    prop_assert_eq!(set.insert(&member, &limits), !model.contains_key(&member));
                    model.entry(member).or_default();
                }
                1 if model.contains_key(&member) => {
                    set.set_expiry(&member, at);
                    model.insert(member, Some(at));
                }
                1 => {}
                2 => prop_assert_eq!(set.remove(&member), model.remove(&member).is_some()),
                3 => {
                    let had = model.get_mut(&member).and_then(Option::take).is_some();
                    prop_assert_eq!(set.persist(&member), had);
                }
                _ => {
                    let is_due = |expiry: &Option<i64>| expiry.is_some_and(|expiry| expiry < at);
                    let due: BTreeSet<Vec<u8>> =
                        model.iter().filter(|(_, expiry)| is_due(expiry)).map(|(member, _)| member.clone()).collect();
                    let hiding = set.lend().hiding(|| Some(at));
                    let shown: BTreeSet<Vec<u8>> = hiding.iter().map(|member| member.to_vec()).collect();
                    let expected: BTreeSet<Vec<u8>> =
                        model.keys().filter(|member| !due.contains(*member)).cloned().collect();
                    prop_assert_eq!(hiding.len(), expected.len());
                    prop_assert_eq!(&shown, &expected);
                    let mut scanned = BTreeSet::new();
                    let mut cursor = 0;
                    loop {
                        cursor = hiding.scan(cursor, 1, &mut |member| _ = scanned.insert(member.to_vec()));
                        if cursor == 0 {
                            break;
                        }
                    }
                    prop_assert_eq!(&scanned, &expected);
                    let mut visited = BTreeSet::new();
                    hiding.visit_ahead(|bytes, len| _ = visited.insert(bytes[..len].to_vec()));
                    prop_assert_eq!(&visited, &expected);
                    prop_assert_eq!(hiding.random(number as u64, 7).is_some(), !expected.is_empty());
                    prop_assert!(due.iter().all(|member| !hiding.contains(member)));
                    prop_assert_eq!(set.lend().is_due(at), !due.is_empty() && expected.is_empty());
                    let taken: BTreeSet<Vec<u8>> =
                        set.take_due(at, usize::MAX).into_iter().map(Vec::from).collect();
                    prop_assert_eq!(&taken, &due);
                    model.retain(|member, _| !due.contains(member));
                }
            }
            set.debug_validate();
            let expiries: BTreeMap<Vec<u8>, i64> = set.lend().expiries().map(|(member, at)| (member.to_vec(), at)).collect();
            let expected: BTreeMap<Vec<u8>, i64> =
                model.iter().filter_map(|(member, expiry)| Some((member.clone(), (*expiry)?))).collect();
            prop_assert_eq!(&expiries, &expected);
            prop_assert_eq!(set.lend().first_expiry(), expected.values().copied().min());
            prop_assert_eq!(set.lend().packed().is_some(), expected.is_empty() && set.lend().encoding() != "hashtable");
            prop_assert!(set.lend().to_set().lend().expiries().eq(set.lend().expiries()));
        }
        while set.free_slice() {}
        prop_assert!(set.lend().is_empty() && set.lend().first_expiry().is_none());
    }
}
