//! Properties that must hold for arbitrary bytes as samples, as a plain value and as a packed one, used by
//! the test here and by the fuzz target: nothing panics, unpacking restores the value, also with a dictionary
//! that has learned more since, and limits hold.

use ds::dictionary::{Dictionary, Learner, TEXT_BYTES_MAX, unpacked_len};

/// Teaches a dictionary by samples. Returns the number of bytes by which it has grown.
pub(crate) fn teach<'a>(dictionary: &mut Dictionary, samples: impl IntoIterator<Item = &'a [u8]>) -> usize {
    let mut learner = Learner::new();
    samples.into_iter().for_each(|sample| learner.look_at(sample));
    loop {
        if let Some(added_bytes) = learner.decide(dictionary) {
            return added_bytes;
        }
    }
}

/// Packs a value, checks that unpacking restores it, and returns the packed form.
pub(crate) fn pack(dictionary: &Dictionary, plain: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    dictionary.pack(plain, &mut packed);
    assert!(packed.len() <= plain.len() + plain.len().div_ceil(64));
    assert_eq!(unpacked_len(&packed), plain.len());
    assert_unpacks(dictionary, &packed, plain);
    packed
}

/// Checks that the packed value unpacks into a buffer that is large enough, and into no other.
pub(crate) fn assert_unpacks(dictionary: &Dictionary, packed: &[u8], plain: &[u8]) {
    for spare_bytes in [0, 1, 100] {
        let mut out = vec![0; plain.len() + spare_bytes];
        assert_eq!(dictionary.unpack(packed, &mut out), Some(plain.len()));
        assert_eq!(&out[..plain.len()], plain);
    }
    if let Some(too_few) = plain.len().checked_sub(1) {
        assert_eq!(dictionary.unpack(packed, &mut vec![0; too_few]), None);
    }
}

/// Uses the parts of `input` between zeros as samples, the last one as a value, and all of it as a packed value.
pub(crate) fn check_dictionary(input: &[u8]) {
    let parts: Vec<&[u8]> = input.split(|&byte| byte == 0).collect();
    let (plain, samples) = parts.split_last().expect("there is a last part");
    let mut dictionary = Dictionary::new();
    let half = samples.len() / 2;
    teach(&mut dictionary, samples[..half].iter().copied());
    let packed = pack(&dictionary, plain);
    // All samples, and again with another end, so that their contents occur several times.
    let others: Vec<_> = samples.iter().map(|sample| [sample, &b"!"[..]].concat()).collect();
    teach(&mut dictionary, samples.iter().copied().chain(others.iter().map(Vec::as_slice)));
    assert_unpacks(&dictionary, &packed, plain);
    for value in &parts {
        pack(&dictionary, value);
    }
    assert!(dictionary.memory_bytes() <= 2 * TEXT_BYTES_MAX);
    let mut out = vec![0; 4096];
    let said = unpacked_len(input);
    if let Some(len) = dictionary.unpack(input, &mut out) {
        assert_eq!(len, said);
        pack(&dictionary, &out[..len]);
    }
}
