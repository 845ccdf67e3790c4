//! Properties that must hold for arbitrary bytes as a HyperLogLog, used by the test here and by the fuzz
//! target: nothing panics, a sound one stays sound, and both forms agree.

use ds::hll::{self, Registers};

const SPARSE_BYTES_MAX: u64 = 60;

/// Uses the front of `input` as the body of a sparse HyperLogLog, and all of it as a whole string, and adds the rest.
pub(crate) fn check_hll(input: &[u8]) {
    let (body, elements) = input.split_at(input.len().min(40));
    check(input.to_vec(), elements);
    check([&hll::new()[..16], body].concat(), elements);
}

fn check(mut hll: Vec<u8>, elements: &[u8]) {
    if !hll::has_header(&hll) {
        return;
    }
    let mut registers = Registers::default();
    let is_sound = registers.merge(&hll).is_ok();
    assert_eq!(hll::count(&mut hll), if is_sound { Ok(registers.count()) } else { Err(hll::Corrupt) });
    if hll::is_sparse(&hll) {
        assert_eq!(hll::make_dense(&mut hll.clone()).is_ok(), is_sound);
        assert_eq!(hll::decode(&hll).is_empty(), hll.len() == 16);
    }
    for element in elements.chunks(3) {
        let changed = hll::add(&mut hll, element, SPARSE_BYTES_MAX);
        assert!(hll::has_header(&hll));
        assert!(!is_sound || (changed.is_ok() && hll::add(&mut hll, element, SPARSE_BYTES_MAX) == Ok(false)));
    }
    if is_sound {
        assert_eq!(hll::make_dense(&mut hll.clone()), Ok(hll::is_sparse(&hll)));
        registers.merge(&hll).expect("it was sound");
        let mut merged = hll::new();
        registers.write(&mut merged, SPARSE_BYTES_MAX).expect("it is sound");
        assert_eq!(hll::count(&mut merged), Ok(registers.count()));
    }
}
