//! Any bytes as segments and as a manifest: nothing panics, and what is told has no gap.

mod checks;

use proptest::prelude::*;

proptest! {
    #[test]
    fn any_segments_are_read_to_some_end(input in prop::collection::vec(any::<u8>(), 0..600)) {
        checks::check_frames(&input);
    }

    #[test]
    fn frames_that_are_nearly_right_are_read_to_some_end(
        steps in prop::collection::vec((prop::sample::select(vec![0_u8, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8, 8]), any::<[u8; 3]>()), 0..40),
    ) {
        let input: Vec<u8> = steps.into_iter().flat_map(|(what, [a, b, c])| [what, a, b, c]).collect();
        checks::check_frames(&input);
    }

    #[test]
    fn a_manifest_with_other_lines_is_read_or_refused(
        line in 0..12_usize, word in 0..8_usize, number in any::<u64>(), is_hexadecimal in any::<bool>(), is_twice in any::<bool>(),
    ) {
        let text = checks::sample_manifest();
        let mut lines: Vec<String> = text.lines().filter(|line| !line.starts_with("crc64")).map(str::to_owned).collect();
        let at = line % lines.len();
        let mut words: Vec<String> = lines[at].split(' ').map(str::to_owned).collect();
        let word = word % words.len();
        words[word] = if is_hexadecimal { format!("{number:016x}") } else { (number >> (number % 64)).to_string() };
        let changed = words.join(" ");
        if is_twice { lines.insert(at, changed) } else { lines[at] = changed }
        checks::check_manifest((lines.join("\n") + "\n").as_bytes());
    }
}

#[test]
fn the_sample_is_a_manifest() {
    checks::check_manifest(checks::sample_manifest().as_bytes());
    let (body, _) =
        checks::sample_manifest().split_once("crc64").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    checks::check_manifest(body.as_bytes());
    checks::check_manifest(b"");
    checks::check_frames(b"");
}
