//! Dictionaries: arbitrary samples, values and packed bytes, and the purpose of packing.

#[path = "checks/dictionary.rs"]
mod checks;

use checks::{assert_unpacks, check_dictionary, pack, teach};
use ds::dictionary::{Dictionary, Learner, SAMPLE_BYTES_MAX, SAMPLES, TEXT_BYTES_MAX};
use ds::random::Random;
use proptest::prelude::*;

/// Pieces of values: words, digits, ids, other bytes.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::sample::select(vec![
            &br#"{"class":"HardWorker","args":["#[..], br#"],"jid":""#, br#"","created_at":17"#, b"a", b"ab.12345",
        ])
        .prop_map(<[u8]>::to_vec),
        2 => "[0-9a-f]{0,60}".prop_map(String::into_bytes),
        2 => "[-0-9.:,TZ]{0,40}".prop_map(String::into_bytes),
        1 => "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-g]{12}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..80),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(piece(), 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check_dictionary(&bytes);
    }

    #[test]
    fn values_come_back_also_when_more_was_learned(
        first in prop::collection::vec(value(), 0..20),
        then in prop::collection::vec(value(), 0..20),
        plain in prop::collection::vec(value(), 1..20),
    ) {
        let mut dictionary = Dictionary::new();
        teach(&mut dictionary, first.iter().map(Vec::as_slice));
        let packed: Vec<_> = plain.iter().map(|plain| pack(&dictionary, plain)).collect();
        teach(&mut dictionary, then.iter().chain(&first).map(Vec::as_slice));
        for (packed, plain) in packed.iter().zip(&plain) {
            assert_unpacks(&dictionary, packed, plain);
            pack(&dictionary, plain);
        }
    }

    #[test]
    fn damaged_bytes_are_survived(
        samples in prop::collection::vec(value(), 0..20),
        plain in value(),
        at: prop::sample::Index,
        byte: u8,
    ) {
        let mut dictionary = Dictionary::new();
        teach(&mut dictionary, samples.iter().map(Vec::as_slice));
        let mut packed = pack(&dictionary, &plain);
        if !packed.is_empty() {
            let at = at.index(packed.len());
            packed[at] = byte;
            let _ = dictionary.unpack(&packed, &mut [0; 1000]);
        }
    }
}

fn job(random: &mut Random, class: u64) -> Vec<u8> {
    format!(
        r#"{{"retry":true,"queue":"default","class":"Worker{class}","args":[{}],"jid":"{:024x}","created_at":17{:08}.{:07}}}"#,
        random.below(100_000), u128::from(random.next_u64()) << 8, random.below(100_000_000), random.below(10_000_000),
    )
    .into_bytes()
}

#[test]
fn a_job_takes_little_more_than_what_is_its_own() {
    let mut random = Random::new(1);
    let samples: Vec<_> = (0..SAMPLES as u64).map(|number| job(&mut random, number % 3)).collect();
    let mut dictionary = Dictionary::new();
    assert!(teach(&mut dictionary, samples.iter().map(Vec::as_slice)) < 1000, "a few of them say all");
    for number in 0..100 {
        let plain = job(&mut random, number % 3);
        // 12 bytes are for the id, 8 for the time and about 2 for the argument.
        let packed = pack(&dictionary, &plain);
        assert!(packed.len() < 50, "{} of {}", packed.len(), plain.len());
        assert_eq!(packed, pack(&dictionary, &plain), "what is packed is packed always alike");
    }
}

#[test]
fn nothing_is_learned_where_nothing_is_alike() {
    let mut random = Random::new(1);
    let samples: Vec<Vec<u8>> =
        (0..SAMPLES).map(|_| (0..500).map(|_| random.next_u64() as u8).collect()).collect();
    let mut dictionary = Dictionary::new();
    assert_eq!(teach(&mut dictionary, samples.iter().map(Vec::as_slice)), 0);
    assert!(dictionary.is_empty());
}

#[test]
fn learning_and_dictionaries_have_limits() {
    let mut random = Random::new(1);
    let mut dictionary = Dictionary::new();
    for _ in 0..20 {
        let mut alike: Vec<u8> = (0..2000).map(|_| random.next_u64() as u8).collect();
        let mut learner = Learner::new();
        for number in 0..2 * SAMPLES {
            assert_eq!(learner.has_seen_enough(), number >= SAMPLES);
            alike[0] = number as u8;
            (0..2).for_each(|_| learner.look_at(&alike));
        }
        let mut decisions = 1;
        let added_bytes = loop {
            if let Some(added_bytes) = learner.decide(&mut dictionary) {
                break added_bytes;
            }
            decisions += 1;
        };
        assert!(added_bytes <= SAMPLE_BYTES_MAX && decisions == SAMPLES + 1);
        assert!(dictionary.memory_bytes() <= 2 * TEXT_BYTES_MAX);
    }
}
