//! Documents and answers of etcd that were changed at random: they are refused, or make sense.

use proactor::Entropy;
use topology::etcd::hostile::{check_answer, check_document};

use crate::{document, fake};

/// Changes some bytes: replaces, removes, repeats, or cuts.
fn change(entropy: &mut Entropy, text: &[u8]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..1 + entropy.below(4) {
        let at = entropy.below(bytes.len().max(1) as u64) as usize;
        let words: [&[u8]; 9] =
            [b"\"", b"{}", b"[]", b"null", b"-1", b"18446744073709551616", b"\\u0000", b"\xff", b"\n"];
        let word = words[entropy.below(words.len() as u64) as usize];
        match entropy.below(4) {
            0 => drop(bytes.splice(at..(at + word.len()).min(bytes.len()), word.iter().copied())),
            1 => drop(bytes.drain(at..(at + 1 + entropy.below(20) as usize).min(bytes.len()))),
            2 => drop(bytes.splice(at..at, word.iter().copied())),
            _ => {
                let end = (at + entropy.below(60) as usize).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, piece));
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

#[test]
fn changed_texts_are_refused_or_make_sense() {
    let mut entropy = Entropy::from_seed(1);
    let texts =
        [document().encode(), fake::plausible(), r#"{"result":{"header":{},"events":[{}]}}"#.to_owned()];
    for _ in 0..20_000 {
        for text in &texts {
            let input = change(&mut entropy, text.as_bytes());
            check_document(&input);
            check_answer(&input);
        }
    }
}
