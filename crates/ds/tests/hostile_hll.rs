//! Random runs and damaged HyperLogLogs through the decoder: the fuzz target's check, for seconds and without a fuzzer.

mod checks;

use checks::check_hll;
use ds::hll;
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        check_hll(&bytes);
    }

    #[test]
    fn runs_that_nearly_cover_the_registers_are_survived(
        runs in proptest::collection::vec(0x80..=0xff_u8, 0..8),
        rest in 0x3fe0..0x4000_u16,
        elements: [u8; 40],
    ) {
        let [high, low] = (rest | 0x4000).to_be_bytes();
        let mut body = [&runs[..], &[high, low]].concat();
        body.resize(40, 0x80);
        check_hll(&[&body[..], &elements].concat());
        check_hll(&[&runs[..], &[high]].concat());
    }

    #[test]
    fn a_damaged_one_is_survived(count in 0..40_u8, at: prop::sample::Index, byte: u8, dense: bool) {
        let mut bytes = hll::new();
        for element in 0..count {
            hll::add(&mut bytes, &[element], 3000).expect("it is sound");
        }
        if dense {
            hll::make_dense(&mut bytes).expect("it is sound");
        }
        let at = at.index(bytes.len());
        bytes[at] = byte;
        check_hll(&bytes);
    }
}
