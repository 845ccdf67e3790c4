//! Measures what packing single jobs with a dictionary saves and costs: `cargo run --release -p ds --example
//! dictionary`.
//!
//! Prints for each kind of jobs the bytes of one as it is, with our packing, and with zstd and a dictionary of the same
//! samples; nanoseconds to pack, to unpack, and to learn the dictionary, the best of several rounds.

#![expect(clippy::disallowed_methods, reason = "it measures time")]

mod jobs;

use std::hint::black_box;
use std::time::Instant;

use ds::dictionary::{Dictionary, Learner, SAMPLES, TEXT_BYTES_MAX};
use ds::random::Random;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, DParameter};

use jobs::{KINDS, Maker};

const JOBS: usize = 4000;
const ROUNDS: usize = 7;

/// The shortest time of several rounds, per job.
fn ns(mut round: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        round();
        start.elapsed().as_nanos() as f64 / JOBS as f64
    };
    (0..ROUNDS).map(time).fold(f64::INFINITY, f64::min)
}

fn show(what: &str, codec: &str, packed: &[Vec<u8>], pack_ns: f64, unpack_ns: f64) {
    let bytes = packed.iter().map(Vec::len).sum::<usize>() as f64 / JOBS as f64;
    println!("| {what} | {codec} | {bytes:.1} | {pack_ns:.0} | {unpack_ns:.0} |");
}

fn by_zstd(what: &str, codec: &str, jobs: &[Vec<u8>], level: i32, text: &[u8]) {
    let mut compressor = Compressor::with_dictionary(level, text).expect("any text is a dictionary");
    for off in
        [CParameter::ContentSizeFlag(false), CParameter::ChecksumFlag(false), CParameter::DictIdFlag(false)]
    {
        compressor.set_parameter(off).expect("zstd knows it");
    }
    let mut decompressor = Decompressor::with_dictionary(text).expect("any text is a dictionary");
    decompressor.set_parameter(DParameter::WindowLogMax(20)).expect("zstd knows it");
    let mut packed = Vec::new();
    let pack_ns = ns(|| packed = jobs.iter().map(|job| compressor.compress(job).expect("it fits")).collect());
    let mut out = Vec::with_capacity(4096);
    let unpack_ns = ns(|| {
        for packed in &packed {
            out.clear();
            decompressor.decompress_to_buffer(packed, &mut out).expect("it was packed");
            black_box(&out);
        }
    });
    // The first four bytes of a frame are always the same.
    packed.iter_mut().for_each(|packed| packed.truncate(packed.len() - 4));
    show(what, codec, &packed, pack_ns, unpack_ns);
}

fn measure(what: &str, make: Maker) {
    let mut random = Random::new(1);
    let samples: Vec<Vec<u8>> = (0..SAMPLES).map(|_| make(&mut random)).collect();
    let jobs: Vec<Vec<u8>> = (0..JOBS).map(|_| make(&mut random)).collect();
    let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
    let mut dictionary = Dictionary::new();
    let learn_ns = ns(|| {
        dictionary = Dictionary::new();
        let mut learner = Learner::new();
        samples.iter().for_each(|sample| learner.look_at(sample));
        while learner.decide(&mut dictionary).is_none() {}
    }) * JOBS as f64;
    show(what, "as it is", &jobs, 0.0, 0.0);
    let mut packed: Vec<Vec<u8>> = (0..JOBS).map(|_| Vec::with_capacity(4096)).collect();
    let pack_ns = ns(|| {
        for (job, packed) in jobs.iter().zip(&mut packed) {
            packed.clear();
            dictionary.pack(job, packed);
        }
    });
    let mut out = [0; 4096];
    let unpack_ns = ns(|| {
        for packed in &packed {
            black_box(dictionary.unpack(packed, &mut out));
        }
    });
    for (job, packed) in jobs.iter().zip(&packed) {
        let len = dictionary.unpack(packed, &mut out).expect("it was packed");
        assert_eq!(&out[..len], job);
    }
    show(what, "own", &packed, pack_ns, unpack_ns);
    let mut text = samples.concat();
    text.truncate(TEXT_BYTES_MAX);
    for level in [1, 3] {
        by_zstd(what, &format!("zstd {level}, the samples"), &jobs, level, &text);
    }
    println!("  (learning: {:.0} us, {} bytes)", learn_ns / 1000.0, dictionary.memory_bytes());
}

fn main() {
    println!("| | | bytes | pack, ns | unpack, ns |\n|---|---|--:|--:|--:|");
    for (kind, make) in KINDS {
        measure(kind, make);
    }
}
