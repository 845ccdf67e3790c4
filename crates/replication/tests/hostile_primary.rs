//! Random pieces of what primaries say: the fuzz target's check, for seconds and without a fuzzer.

mod checks;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Pieces of the language; those of the handshake more than once, so that random sequences get past it.
const FRAGMENTS: &[&str] = &[
    "+PONG\r\n+OK\r\n+OK\r\n",
    "+FULLRESYNC 0123456789012345678901234567890123456789 7\r\n",
    "+FULLRESYNC 0123456789012345678901234567890123456789 9223372036854775807\r\n",
    "+CONTINUE\r\n",
    "-ERR unknown command\r\n",
    "-LOADING\r\n",
    "$10\r\n0123456789",
    "$12\r\n",
    "$-1\r\n",
    "$EOF:ABABABABABABABABABABABABABABABABABABABAC\r\n",
    "ABABABABABABABABABABABABABABABABABABABAC",
    "ABABABAB",
    "*1\r\n$4\r\nPING\r\n",
    "*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n",
    "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n",
    "*0\r\n",
    "*9\r\n",
    "$65\r\n",
    "PING\r\n",
    "\n",
    "\r\n",
    "x",
];

fn primary() -> impl Strategy<Value = Vec<u8>> {
    let usual = select(&[0, 1, 2, 3][..]);
    (usual, vec(select(FRAGMENTS), 0..30)).prop_map(|(usual, parts)| {
        let full = "+FULLRESYNC 0123456789012345678901234567890123456789 7\r\n";
        let start = ["+PONG\r\n+OK\r\n+OK\r\n", full, "$10\r\n0123456789"];
        [start[..usual].concat(), parts.concat()].concat().into_bytes()
    })
}

proptest! {
    #[test]
    fn how_bytes_are_cut_makes_no_difference(input in primary()) {
        checks::check_primary(&input);
    }

    #[test]
    fn no_bytes_do_harm(input in vec(any::<u8>(), 0..200)) {
        checks::check_primary(&input);
    }
}
