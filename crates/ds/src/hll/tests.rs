//! Both forms agree on the same elements, and their estimates are close to the truth.

use proptest::prelude::*;

use super::*;

const SPARSE_BYTES_MAX: u64 = 3000;

fn filled(elements: std::ops::Range<u32>, sparse_bytes_max: u64) -> Vec<u8> {
    let mut hll = new();
    for element in elements {
        add(&mut hll, &element.to_le_bytes(), sparse_bytes_max).expect("it is sound");
    }
    hll
}

fn values(hll: &[u8]) -> Vec<u8> {
    let mut registers = Registers::default();
    registers.merge(hll).expect("it is sound");
    registers.values().to_vec()
}

/// As Redis 7.0.15 shows them.
#[test]
fn an_element_has_the_register_that_it_has_in_redis() {
    for (element, runs) in [
        ("", "Z:5938 v:2,1 Z:10445"),
        ("a", "Z:12711 v:2,1 Z:3672"),
        ("hello world", "Z:9399 v:4,1 Z:6984"),
        ("12345678", "Z:10579 v:3,1 Z:5804"),
        ("123456781234567", "Z:13130 v:1,1 Z:3253"),
    ] {
        let mut hll = new();
        assert_eq!(add(&mut hll, element.as_bytes(), SPARSE_BYTES_MAX), Ok(true));
        assert_eq!(decode(&hll), runs, "{element}");
    }
}

#[test]
fn estimates_are_near_the_truth() {
    for exponent in 0..20 {
        let truth = 1 << exponent;
        let estimate = count(&mut filled(0..truth, SPARSE_BYTES_MAX)).expect("it is sound");
        let error = (estimate as f64 - f64::from(truth)).abs() / f64::from(truth);
        assert!(error < 0.03, "{estimate} instead of {truth}");
    }
}

#[test]
fn a_sparse_one_becomes_dense_when_it_is_large() {
    let mut sparse = filled(0..1000, SPARSE_BYTES_MAX);
    assert!(is_sparse(&sparse) && sparse.len() < 3000);
    let before = (values(&sparse), count(&mut sparse));
    assert_eq!(make_dense(&mut sparse), Ok(true));
    assert!(!is_sparse(&sparse) && has_header(&sparse));
    assert_eq!((values(&sparse), count(&mut sparse)), before);
    assert!(!is_sparse(&filled(0..10_000, SPARSE_BYTES_MAX)));
    assert!(!is_sparse(&filled(0..1, 0)));
}

#[test]
fn runs_that_do_not_cover_the_registers_are_corrupt() {
    for body in [&b""[..], b"\x7f", b"\x7f\xff\0", b"\x7f\xfe", b"\x7f\xfe\x81", b"\xff"] {
        let mut hll = [&new()[..HEADER_BYTES], body].concat();
        assert!(has_header(&hll));
        assert_eq!(count(&mut hll), Err(Corrupt), "{body:?}");
        assert_eq!(make_dense(&mut hll), Err(Corrupt), "{body:?}");
        assert_eq!(Registers::default().merge(&hll), Err(Corrupt), "{body:?}");
    }
}

proptest! {
    #[test]
    fn runs_hold_what_single_registers_hold(raises in proptest::collection::vec((0..40_usize, 1..33_u8), 1..200)) {
        let mut hll = new();
        let mut model = vec![0; REGISTERS];
        for (index, value) in raises {
            // At the beginning, at the end, and far apart.
            for index in [index, REGISTERS - 1 - index, index * 400] {
                let rises = model[index] < value;
                model[index] = model[index].max(value);
                prop_assert_eq!(raise(&mut hll, index, value, u64::MAX), Ok(rises));
            }
        }
        prop_assert!(is_sparse(&hll));
        prop_assert_eq!(values(&hll), model.clone());
        let mut dense = hll.clone();
        make_dense(&mut dense).expect("it is sound");
        prop_assert_eq!(values(&dense), model);
        prop_assert_eq!(count(&mut dense), count(&mut hll));
    }

    #[test]
    fn merged_is_as_added_together(one in 0..3000_u32, other in 0..3000_u32) {
        let mut merged = Registers::default();
        merged.merge(&filled(0..one, SPARSE_BYTES_MAX)).expect("it is sound");
        merged.merge(&filled(1000..1000 + other, SPARSE_BYTES_MAX)).expect("it is sound");
        let mut together = filled(0..one, SPARSE_BYTES_MAX);
        for element in 1000..1000 + other {
            add(&mut together, &element.to_le_bytes(), SPARSE_BYTES_MAX).expect("it is sound");
        }
        prop_assert_eq!(merged.values(), values(&together));
        prop_assert_eq!(Ok(merged.count()), count(&mut together));
        let mut written = new();
        merged.write(&mut written, SPARSE_BYTES_MAX).expect("it is sound");
        prop_assert_eq!(values(&written), values(&together));
    }
}
