//! Compares `ds::hash` with a map of the standard library; tests its forms, its cursors and its random picks.

use std::collections::{BTreeMap, BTreeSet};

use ds::hash::{CollectionLimits, Hash, HashRef};
use ds::mover::WalkPosition;
use ds::random::Random;
use proptest::prelude::*;

const LIMITS: CollectionLimits =
    CollectionLimits { entries_max: 128, value_bytes_max: 64, pack_bytes_min: 0 };

#[derive(Clone, Debug)]
enum Step {
    Set(u16, usize),
    Remove(u16),
    SetRange(u16, u16),
    RemoveRange(u16, u16),
    Move(u64),
    FreeSlice,
}

fn field(number: u16) -> Vec<u8> {
    if number == 0 { Vec::new() } else { format!("field:{number}").into_bytes() }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0..40_u16, 0..70_usize).prop_map(|(number, len)| Step::Set(number, len)),
        4 => (0..600_u16, prop_oneof![0..70_usize, 250..300_usize]).prop_map(|(number, len)| Step::Set(number, len)),
        10 => (0..40_u16).prop_map(Step::Remove),
        2 => (0..600_u16, 0..600_u16).prop_map(|(from, n)| Step::SetRange(from, n)),
        2 => (0..600_u16, 0..600_u16).prop_map(|(from, n)| Step::RemoveRange(from, n)),
        3 => any::<u64>().prop_map(Step::Move),
        1 => Just(Step::FreeSlice),
    ];
    proptest::collection::vec(step, 0..40)
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn apply(hash: &mut Hash, model: &mut Model, step: &Step, limits: &CollectionLimits) {
    let set = |hash: &mut Hash, model: &mut Model, number: u16, len: usize| {
        let (field, value) = (field(number), vec![len as u8; len]);
        let is_new = model.insert(field.clone(), value.clone()).is_none();
        assert_eq!(hash.set(&field, &value, limits), is_new);
    };
    let remove = |hash: &mut Hash, model: &mut Model, number: u16| {
        assert_eq!(hash.remove(&field(number)), model.remove(&field(number)).is_some());
    };
    match *step {
        Step::Set(number, len) => set(hash, model, number, len),
        Step::Remove(number) => remove(hash, model, number),
        Step::SetRange(from, n) => (from..from + n).for_each(|number| set(hash, model, number, 3)),
        Step::RemoveRange(from, n) => (from..from + n).for_each(|number| remove(hash, model, number)),
        Step::Move(seed) => {
            let (mut mover, mut place) = (Random::new(seed), WalkPosition::default());
            while !hash.defragment(&mut place, &mut mover) {}
        }
        Step::FreeSlice => {
            let len_before = hash.lend().len();
            assert_eq!(hash.free_slice(), !hash.lend().is_empty());
            assert!(hash.lend().len() < len_before || len_before == 0);
            model.retain(|field, _| hash.lend().contains(field));
        }
    }
}

/// All fields with their values.
fn contents(hash: HashRef<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    hash.iter().map(|(field, value)| (field.to_vec(), value.bytes().into_owned())).collect()
}

fn value(hash: HashRef<'_>, field: &[u8]) -> Option<Vec<u8>> {
    let value = hash.get(field)?;
    assert_eq!(value.len(), value.bytes().len());
    Some(value.bytes().into_owned())
}

fn check_all(hash: &Hash, model: &Model) {
    hash.debug_validate();
    assert_eq!((hash.lend().len(), hash.lend().is_empty()), (model.len(), model.is_empty()));
    assert_eq!(&contents(hash.lend()).into_iter().collect::<Model>(), model);
    assert_eq!(hash.lend().iter().count(), model.len());
    let mut visited = Vec::new();
    hash.lend().visit_ahead(|bytes, len| visited.push(bytes[..len].to_vec()));
    assert!(visited.into_iter().eq(contents(hash.lend()).into_iter().flat_map(<[_; 2]>::from)));
    for number in [0, 1, 39, 599] {
        assert_eq!(value(hash.lend(), &field(number)), model.get(&field(number)).cloned());
    }
    match hash.lend().random(model.len() as u64 * 7, u64::MAX / 3) {
        Some((field, value)) => assert_eq!(model.get(field), Some(&value.bytes().into_owned())),
        None => assert!(model.is_empty()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn behaves_like_a_map(
        steps in steps(),
        entries_max in 0..200_usize,
        value_bytes_max in 0..300_usize,
        pack_bytes_min in prop::sample::select(vec![0, 1, 2000]),
    ) {
        let limits = CollectionLimits { entries_max, value_bytes_max, pack_bytes_min };
        let (mut hash, mut model) = (Hash::new(), Model::new());
        let mut was_big = false;
        for (number, step) in steps.iter().enumerate() {
            apply(&mut hash, &mut model, step, &limits);
            check_all(&hash, &model);
            // Some changes follow each other directly; before others, the hash has been stored as bytes.
            if number % 2 == 0 && let Some(packed) = hash.lend().packed() {
                prop_assert_eq!(contents(HashRef::of(packed)), contents(hash.lend()));
                hash = Hash::unpacked(packed);
            }
            let is_big = hash.lend().encoding() == "hashtable";
            prop_assert!(is_big || !was_big, "a big hash stays big");
            prop_assert!(is_big || hash.lend().len() <= entries_max);
            was_big = is_big;
        }
        check_all(&hash.lend().to_hash(), &model);
        while hash.free_slice() {}
        hash.debug_validate();
        prop_assert!(hash.lend().is_empty());
    }

    #[test]
    fn scan_returns_what_stays_present(changes in proptest::collection::vec(steps(), 1..4), count in 0..100_usize) {
        let (mut hash, mut model) = (Hash::new(), Model::new());
        apply(&mut hash, &mut model, &Step::SetRange(100, 500), &LIMITS);
        let mut stayed: BTreeSet<Vec<u8>> = model.keys().cloned().collect();
        let mut seen = BTreeSet::new();
        let mut cursor = 0;
        for call in 0.. {
            cursor = hash.lend().scan(cursor, count, &mut |field, _| {
                seen.insert(field.to_vec());
            });
            if cursor == 0 {
                break;
            }
            for step in changes.get(call).map_or(&[][..], Vec::as_slice) {
                apply(&mut hash, &mut model, step, &LIMITS);
            }
            stayed.retain(|field| model.contains_key(field));
        }
        prop_assert!(stayed.is_subset(&seen));
    }
}

#[test]
fn leaves_the_small_form_when_redis_does() {
    let filled = |count: u16| {
        let mut hash = Hash::new();
        (1..=count).for_each(|number| assert!(hash.set(&field(number), b"v", &LIMITS)));
        hash
    };
    assert_eq!(Hash::new().lend().encoding(), "listpack");
    assert_eq!(filled(128).lend().encoding(), "listpack");
    assert_eq!(filled(129).lend().encoding(), "hashtable");
    for (field, value, encoding) in [(64, 64, "listpack"), (65, 1, "hashtable"), (1, 65, "hashtable")] {
        let mut hash = filled(3);
        assert!(hash.set(&vec![b'f'; field], &vec![b'v'; value], &LIMITS));
        assert_eq!(hash.lend().encoding(), encoding);
        assert_eq!(hash.lend().len(), 4);
    }
    let mut full = filled(128);
    assert!(!full.set(&field(5), b"other", &LIMITS));
    assert_eq!(full.lend().encoding(), "listpack");
    full.expect(128, &LIMITS);
    assert_eq!(full.lend().encoding(), "listpack");
    full.expect(129, &LIMITS);
    assert_eq!(
        (full.lend().encoding(), full.lend().len(), value(full.lend(), &field(5))),
        ("hashtable", 128, Some(b"other".to_vec()))
    );
}

#[test]
fn a_small_hash_keeps_the_order_of_its_fields() {
    let mut hash = Hash::new();
    for field in ["z", "a", "m"] {
        hash.set(field.as_bytes(), b"1", &LIMITS);
    }
    hash.set(b"a", b"longer than before", &LIMITS);
    let fields = |hash: &Hash| hash.lend().iter().map(|(field, _)| field.to_vec()).collect::<Vec<_>>();
    assert_eq!(fields(&hash), [b"z", b"a", b"m"]);
    let mut scanned = 0;
    assert_eq!(hash.lend().scan(77, 1, &mut |_, _| scanned += 1), 0);
    assert_eq!(scanned, 3);
    hash.remove(b"z");
    hash.set(b"z", b"2", &LIMITS);
    assert_eq!(fields(&hash), [b"a", b"m", b"z"]);
}

#[test]
fn random_is_fair_in_both_forms() {
    for count in [100_u16, 1000] {
        let mut hash = Hash::new();
        (0..count).for_each(|number| assert!(hash.set(&field(number), b"v", &LIMITS)));
        let mut random = Random::new(3);
        let mut counts = BTreeMap::new();
        for _ in 0..u32::from(count) * 200 {
            let (field, _) = hash.lend().random(random.next_u64(), random.next_u64()).unwrap();
            *counts.entry(field.to_vec()).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.len(), usize::from(count));
        assert!(counts.values().all(|&count| (100..300).contains(&count)), "{counts:?}");
    }
}

#[test]
fn memory_follows_the_contents() {
    let mut hash = Hash::new();
    assert_eq!(hash.memory_bytes(), 0);
    for number in 0..6 {
        hash.set(&field(number), b"0123456789", &LIMITS);
    }
    assert!(hash.memory_bytes() < 6 * 28, "{}", hash.memory_bytes());
    for number in 0..20_000_u32 {
        hash.set(format!("j|{number:08}").as_bytes(), b"12", &LIMITS);
    }
    assert!(hash.memory_bytes() < 20_000 * (13 + 52), "{}", hash.memory_bytes());
    for number in 0..20_000_u32 {
        assert!(hash.remove(format!("j|{number:08}").as_bytes()));
    }
    hash.debug_validate();
    assert!(hash.memory_bytes() < 8192, "{}", hash.memory_bytes());
}

proptest! {
    #[test]
    fn fields_expire_in_their_order(steps in proptest::collection::vec((0..4_u8, 0..20_u16, 0..50_i64), 0..200)) {
        let mut hash = Hash::new();
        let mut model: BTreeMap<u16, Option<i64>> = BTreeMap::new();
        for (what, number, at) in steps {
            let name = field(number);
            match what {
                0 => {
                    hash.set(&name, b"value", &LIMITS);
                    model.insert(number, None);
                }
                1 if model.contains_key(&number) => {
                    hash.set_expiry(&name, at);
                    model.insert(number, Some(at));
                }
                2 => {
                    hash.set_keeping_expiry(&name, b"other", &LIMITS);
                    model.entry(number).or_default();
                }
                _ => {
                    let due: BTreeSet<Vec<u8>> =
                        hash.take_due(at, usize::MAX).into_iter().map(|name| name.to_vec()).collect();
                    let is_due = |expiry: &Option<i64>| expiry.is_some_and(|expiry| expiry < at);
                    let expected = model.iter().filter(|(_, expiry)| is_due(expiry)).map(|(number, _)| field(*number));
                    prop_assert_eq!(due, expected.collect::<BTreeSet<_>>());
                    model.retain(|_, expiry| !is_due(expiry));
                }
            }
            hash.debug_validate();
            prop_assert_eq!(hash.lend().first_expiry(), model.values().copied().flatten().min());
            for (number, expiry) in &model {
                prop_assert_eq!(hash.lend().expiry(&field(*number)), *expiry);
            }
            prop_assert_eq!(hash.lend().len(), model.len());
            let hiding = hash.lend().hiding(|| Some(at));
            let shown: BTreeMap<u16, Option<i64>> =
                model.iter().filter(|(_, expiry)| expiry.is_none_or(|expiry| expiry >= at)).map(|(n, e)| (*n, *e)).collect();
            prop_assert_eq!(hiding.len(), shown.len());
            let names = |numbers: &BTreeMap<u16, Option<i64>>| numbers.keys().map(|n| field(*n)).collect::<BTreeSet<_>>();
            let mut visited = Vec::new();
            hiding.visit_ahead(|bytes, len| visited.push(bytes[..len].to_vec()));
            prop_assert!(visited.into_iter().eq(contents(hiding).into_iter().flat_map(<[_; 2]>::from)));
            prop_assert_eq!(hiding.iter().map(|(name, _)| name.to_vec()).collect::<BTreeSet<_>>(), names(&shown));
            let mut scanned = BTreeSet::new();
            prop_assert_eq!(hiding.scan(0, 1000, &mut |name, _| _ = scanned.insert(name.to_vec())), 0);
            prop_assert_eq!(scanned, names(&shown));
            for number in model.keys() {
                prop_assert_eq!(hiding.contains(&field(*number)), shown.contains_key(number));
                prop_assert_eq!(hiding.expiry(&field(*number)), shown.get(number).copied().flatten());
            }
            let random = hiding.random(number.into(), at as u64).map(|(name, _)| name.to_vec());
            prop_assert_eq!(random.is_some_and(|name| names(&shown).contains(&name)), !shown.is_empty());
        }
    }
}

/// A job as Sidekiq writes it.
fn job(random: &mut Random) -> Vec<u8> {
    let (jid, at) = (random.next_u64(), 1_700_000_000 + random.below(300_000));
    let class = ["InvoiceWorker", "ThumbnailWorker", "SearchIndexWorker"][random.below(3) as usize];
    format!(
        r#"{{"retry":true,"queue":"default","class":"{class}","args":[{}],"jid":"{jid:016x}{:08x}","created_at":{at}.{}}}"#,
        random.below(1_000_000),
        random.next_u64() as u32,
        random.below(1_000_000)
    )
    .into_bytes()
}

#[test]
fn values_that_are_alike_are_packed() {
    let packing = CollectionLimits { pack_bytes_min: 16 << 10, ..LIMITS };
    let (mut hash, mut plain) = (Hash::new(), Hash::new());
    let (mut model, mut random) = (Model::new(), Random::new(1));
    for number in 0..4000 {
        let value = job(&mut random);
        hash.set(&field(number), &value, &packing);
        plain.set(&field(number), &value, &LIMITS);
        model.insert(field(number), value);
    }
    check_all(&hash, &model);
    let figures = hash.lend().packing().expect("they are alike");
    assert!(figures.packed_count > 3500 && figures.dictionary_bytes <= 16 << 10, "{figures:?}");
    assert!(
        hash.memory_bytes() * 2 < plain.memory_bytes(),
        "{} {}",
        hash.memory_bytes(),
        plain.memory_bytes()
    );
    assert_eq!(plain.lend().packing(), None);
    // Packed values are replaced by others and the other way round, and removed; fields may be long.
    for _ in 0..4000 {
        let number = random.below(4000) as u16;
        let field =
            if number.is_multiple_of(7) { vec![b'f'; 120 + number as usize % 20] } else { field(number) };
        let value = match random.below(4) {
            0 => job(&mut random),
            1 => vec![b'v'; random.below(40) as usize],
            2 => (0..200).map(|_| random.next_u64() as u8).collect(),
            _ => {
                assert_eq!(hash.remove(&field), model.remove(&field).is_some());
                continue;
            }
        };
        let limits = if random.below(4) == 0 { &LIMITS } else { &packing };
        assert_eq!(hash.set(&field, &value, limits), model.insert(field, value).is_none());
    }
    check_all(&hash, &model);
    check_all(&hash.lend().to_hash(), &model);
}
