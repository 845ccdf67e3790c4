//! Any bytes in the places of the document of a cluster and of etcd's answers.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    topology::etcd::hostile::check_document(input);
    topology::etcd::hostile::check_answer(input);
});
