//! The answers are as exact as promised, with items and numbers that are the same in each run.

use sketches::bloom::Added;
use sketches::cuckoo::{Inserted, Parameters};
use sketches::{Bloom, CountMin, Cuckoo, TDigest, TopK};

/// The next number of SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn share(state: &mut u64) -> f64 {
    (next(state) >> 11) as f64 / (1_u64 << 53) as f64
}

fn item(number: u64) -> Vec<u8> {
    format!("item:{number}").into_bytes()
}

#[test]
fn a_bloom_filter_has_no_more_false_positives_than_requested() {
    for (error, capacity, count) in [(0.01, 10_000, 10_000), (0.01, 100, 20_000), (0.001, 1000, 5000)] {
        let mut filter = Bloom::new(capacity, error, 2, true).expect("these are valid");
        let present = (0..count).filter(|&number| filter.add(&item(number)) == Added::Present).count();
        assert!((0..count).all(|number| filter.contains(&item(number))));
        assert_eq!(filter.len() as usize + present, count as usize);
        let asked = 100_000;
        let wrong = (count..count + asked).filter(|&number| filter.contains(&item(number))).count();
        assert!(wrong as f64 <= error * asked as f64, "{wrong} of {asked} at {error}, {capacity}");
    }
}

#[test]
fn a_cuckoo_filter_finds_what_was_added_and_forgets_what_was_deleted() {
    for bucket_size in [1, 2, 4] {
        let parameters = Parameters { bucket_size, ..Parameters::default() };
        let mut filter = Cuckoo::new(10_000, parameters).expect("these are valid");
        let count = 15_000;
        assert!((0..count).all(|number| filter.add(&item(number)) == Inserted::New));
        assert!((0..count).all(|number| filter.contains(&item(number))));
        let asked = 50_000;
        let wrong = (count..count + asked).filter(|&number| filter.contains(&item(number))).count();
        // Two buckets of each table may have the fingerprint, of which there are 255.
        let error = 2.0 * f64::from(bucket_size) * filter.table_count() as f64 / 255.0;
        assert!(wrong as f64 <= error * asked as f64, "{wrong} of {asked} with buckets of {bucket_size}");
        assert!((0..count / 2).all(|number| filter.remove(&item(number))));
        assert!((count / 2..count).all(|number| filter.contains(&item(number))));
        assert!((count / 2..count).all(|number| filter.remove(&item(number))));
        assert!(filter.is_empty() && (0..count).all(|number| !filter.contains(&item(number))));
    }
}

#[test]
fn counts_are_never_too_low_and_seldom_too_high() {
    let (error, probability) = (0.001, 0.01);
    let (width, depth) = sketches::count_min::dimensions(error, probability).expect("these are valid");
    let mut counts = CountMin::new(width, depth).expect("there is memory");
    let (mut state, mut real, mut sum) = (1, vec![0_u64; 20_000], 0);
    for _ in 0..200_000 {
        // Few items come often.
        let number = (share(&mut state).powi(4) * real.len() as f64) as usize;
        let times = next(&mut state) % 5;
        counts.add(&item(number as u64), times);
        real[number] += times;
        sum += times;
    }
    assert_eq!(counts.count(), sum);
    let estimates = real.iter().enumerate().map(|(number, &real)| {
        let estimate = u64::from(counts.count_of(&item(number as u64)));
        assert!(estimate >= real, "{number}: {estimate} for {real}");
        estimate - real
    });
    let too_high = estimates.filter(|excess| *excess as f64 > error * sum as f64).count();
    assert!(too_high as f64 <= probability * real.len() as f64, "{too_high} of {}", real.len());
}

#[test]
fn the_most_frequent_items_are_found() {
    let mut top = TopK::new(10, 200, 7, 0.9).expect("these are valid");
    let mut state = 7;
    for _ in 0..100_000 {
        // The item with number n is about 1/(n + 1) as frequent as the first.
        let number = (2000_f64.powf(share(&mut state)) - 1.0) as u64;
        top.add(&item(number), 1);
    }
    let found: Vec<Vec<u8>> = top.list().iter().map(|(item, _)| item.to_vec()).collect();
    assert_eq!(found.len(), 10);
    assert!((0..8).all(|number| found.contains(&item(number))), "{found:?}");
    assert!(top.list().is_sorted_by(|one, other| one.1 >= other.1));
}

#[test]
fn quantiles_are_near() {
    let mut digest = TDigest::new(100).expect("this is valid");
    let (mut state, mut numbers) = (3, Vec::new());
    for _ in 0..100_000 {
        let number = share(&mut state).powi(3) * 1000.0 - 10.0;
        digest.add(number).expect("there is room");
        numbers.push(number);
    }
    numbers.sort_by(f64::total_cmp);
    let merged = digest.merged();
    assert_eq!((merged.min(), merged.max()), (numbers[0], numbers[numbers.len() - 1]));
    // The scale function lets a centroid have 2π·ln(n)·q·(1 - q) / compression of n numbers; half of them may lie on the
    // wrong side.
    let count = numbers.len() as f64;
    for quantile in [0.0001, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999] {
        let value = merged.quantile(quantile);
        let rank = numbers.partition_point(|number| *number < value) as f64 / numbers.len() as f64;
        let of_centroid = 2.0 * std::f64::consts::PI * count.ln() * quantile * (1.0 - quantile) / 100.0;
        let allowed = of_centroid / 2.0 + 1.5 / count;
        assert!((rank - quantile).abs() <= allowed, "{quantile}: {value} has rank {rank}");
        let share = merged.share_below(value);
        assert!((share - rank).abs() <= allowed, "{quantile}: {share} of the numbers below {value}");
    }
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    assert!((merged.trimmed_mean(0.0, 1.0) - mean).abs() < 1e-6);
}

#[test]
fn extreme_numbers_do_no_harm() {
    let mut digest = TDigest::new(1).expect("this is valid");
    for _ in 0..1000 {
        digest.add(f64::MAX).expect("there is room");
        digest.add(-f64::MAX).expect("there is room");
    }
    let merged = digest.merged();
    assert_eq!(merged.count(), 2000);
    for quantile in [0.0, 0.3, 0.5, 0.7, 1.0] {
        assert!(!merged.quantile(quantile).is_nan());
    }
}
