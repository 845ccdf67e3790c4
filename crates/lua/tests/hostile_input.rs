//! Random and damaged input for `cjson`, `cmsgpack` and `struct`. The fuzz targets cover more.

mod checks;

use proptest::prelude::*;

proptest! {
    #[test]
    fn any_bytes(input in prop::collection::vec(any::<u8>(), 0..200)) {
        checks::check_cjson(&input);
        checks::check_cmsgpack(&input);
        checks::check_struct(&input);
    }

    #[test]
    fn bytes_that_mean_something(input in "[\\[\\]{}:, 0-9eE.\"\\\\untrfalsx+-]{0,60}", format in "[bBhHlLTiIfdscx0-9<>! ]{0,15}") {
        checks::check_cjson(input.as_bytes());
        checks::check_struct(&[&[format.len() as u8], format.as_bytes(), input.as_bytes()].concat());
    }
}

#[test]
fn deep_nesting() {
    for depth in [10, 100, 1000, 100_000] {
        checks::check_cjson("[".repeat(depth).as_bytes());
        checks::check_cjson(("[".repeat(depth) + &"]".repeat(depth)).as_bytes());
        checks::check_cmsgpack(&vec![0x91; depth]);
    }
}
