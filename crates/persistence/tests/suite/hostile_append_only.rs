//! Random and damaged bytes through both readers: the fuzz target's checks, for seconds and without a fuzzer.

use crate::checks::{check_commands, check_manifest};
use proptest::prelude::*;

/// Pieces of both, so that random sequences get past the first line.
const FRAGMENTS: &[&str] = &[
    "*1\r\n",
    "*2\r\n",
    "*0\r\n",
    "*99999999999999999999\r\n",
    "$0\r\n",
    "$3\r\n",
    "$1000\r\n",
    "$1001\r\n",
    "SET",
    "\r\n",
    "\n",
    "#TS:1\r\n",
    "*",
    "$",
    "\0",
    "file a.base seq 1 type b\n",
    "file ",
    "a ",
    "\"../a\" ",
    "seq ",
    "2 ",
    "type ",
    "i\n",
    "h\n",
];

proptest! {
    #[test]
    fn any_pieces_are_taken(pieces in prop::collection::vec(prop::sample::select(FRAGMENTS), 0..20)) {
        let input = pieces.concat();
        check_commands(input.as_bytes());
        check_manifest(input.as_bytes());
    }

    #[test]
    fn any_bytes_are_taken(input in prop::collection::vec(any::<u8>(), 0..100)) {
        check_commands(&input);
        check_manifest(&input);
    }
}
