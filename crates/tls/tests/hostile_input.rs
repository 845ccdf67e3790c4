//! Random files, words and wires. The fuzz targets look further.

mod checks;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes(input in prop::collection::vec(any::<u8>(), 0..100)) {
        checks::check_files(&input);
        checks::check_words(&input);
        checks::check_wire(&input);
        checks::check_changed_flight(&input);
        checks::check_name(&input);
    }

    #[test]
    fn one_byte_is_changed_on_the_way(kind in any::<u8>(), place in 0..600_u16, byte in any::<u8>()) {
        let [high, low] = place.to_be_bytes();
        checks::check_changed_flight(&[kind, high, low, byte]);
        checks::check_files(&[kind, high, low, byte]);
        checks::check_name(&[high, low, byte]);
    }

    #[test]
    fn lists_of_suites(input in "(TLSv1.[23] ){0,2}\n(!?(DEFAULT|HIGH|MD5|ECDHE-RSA-AES128-GCM-SHA256)[:, ]){0,3}\n(TLS_AES_128_GCM_SHA256)?") {
        checks::check_words(input.as_bytes());
    }
}
