//! A t-digest: quantiles and ranks of numbers, most exact at both ends (Dunning and Ertl, "Computing Extremely Accurate
//! Quantiles Using t-Digests", 2019; the merging digest with the scale function `k₂`).
//!
//! Numbers that are near to each other become a *centroid*: their mean and how many they are. The nearer to the middle
//! quantile, the more a centroid may have. New numbers are centroids of their own behind the merged ones; when there is no
//! room for more, all are sorted and merged.
//!
//! ```text
//!   merged, sorted by mean                      added since
//!   {0.1 ×1} {0.3 ×2} {0.9 ×40} … {9.9 ×1}      {4.2 ×1} {0.7 ×1}
//! ```
//!
//! Questions are answered from merged centroids. [`TDigest::merged`] makes these, and leaves the digest as it is: a replica
//! that is not asked stays the same as its primary. Sorting is stable, so that a digest that was written with centroids
//! added since is merged to the same one later.

use std::borrow::Cow;

use crate::Block;
use crate::array::{BYTES_MAX, CreateError};
use crate::form::{Field, FieldSource};
use crate::num::ln;

/// The version of the form.
pub const VERSION: u64 = 0;

/// How many fields come before the means.
const HEAD_FIELDS: usize = 9;
/// Bytes of a centroid.
const CENTROID_BYTES: u64 = 16;
/// The size of RedisBloom's structure, which `TDIGEST.INFO` counts.
const REPORTED_HEAD_BYTES: u64 = 80;

/// The most numbers: counts are written as floating-point numbers, which are exact up to here.
const COUNT_MAX: i64 = 1 << 53;

/// Some numbers near to each other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Centroid {
    mean: f64,
    weight: i64,
}

/// The digest would have to count more than it can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overflow;

/// Centroids.
#[derive(Clone, Debug)]
pub struct TDigest {
    compression: u64,
    min: f64,
    max: f64,
    centroids: Vec<Centroid>,
    merged_count: usize,
    merged_weight: i64,
    unmerged_weight: i64,
    merge_count: i64,
}

/// The most centroids of a digest.
fn capacity_of(compression: u64) -> u64 {
    compression.saturating_mul(6).saturating_add(10)
}

impl TDigest {
    /// A digest without numbers. Its memory grows with them.
    pub fn new(compression: u64) -> Result<TDigest, CreateError> {
        if compression == 0 {
            return Err(CreateError::Invalid);
        }
        if capacity_of(compression).saturating_mul(CENTROID_BYTES) > BYTES_MAX {
            return Err(CreateError::TooLarge);
        }
        Ok(TDigest {
            compression,
            min: f64::MAX,
            max: -f64::MAX,
            centroids: Vec::new(),
            merged_count: 0,
            merged_weight: 0,
            unmerged_weight: 0,
            merge_count: 0,
        })
    }

    /// Removes all numbers.
    pub fn reset(&mut self) {
        *self = TDigest::new(self.compression).expect("there was a digest of this compression");
    }

    /// Adds a finite number.
    pub fn add(&mut self, number: f64) -> Result<(), Overflow> {
        self.add_weighted(number, 1)
    }

    fn add_weighted(&mut self, mean: f64, weight: i64) -> Result<(), Overflow> {
        if self.centroids.len() as u64 >= self.capacity() - 1 {
            self.merge();
        }
        let is_full = self.centroids.len() as u64 >= self.capacity();
        if is_full || self.count().saturating_add(weight) > COUNT_MAX {
            return Err(Overflow);
        }
        self.min = self.min.min(mean);
        self.max = self.max.max(mean);
        self.centroids.push(Centroid { mean, weight });
        self.unmerged_weight += weight;
        Ok(())
    }

    /// Adds the numbers of another digest.
    pub fn add_all(&mut self, other: &TDigest) -> Result<(), Overflow> {
        self.merge();
        for centroid in &other.merged().centroids {
            self.add_weighted(centroid.mean, centroid.weight)?;
        }
        // The means of centroids are within the numbers that they stand for.
        if other.count() > 0 {
            self.min = self.min.min(other.min);
            self.max = self.max.max(other.max);
        }
        Ok(())
    }

    /// Merges centroids where the scale function allows it.
    fn merge(&mut self) {
        if self.unmerged_count() == 0 {
            return;
        }
        self.centroids.sort_by(|one, other| one.mean.total_cmp(&other.mean));
        let total = self.count() as f64;
        if total > 1.0 {
            let normalizer = self.compression as f64 / (2.0 * std::f64::consts::PI * total * ln(total));
            let (mut current, mut weight_before) = (0, 0.0);
            for index in 1..self.centroids.len() {
                let next = self.centroids[index];
                let into = self.centroids[current];
                let proposed = into.weight as f64 + next.weight as f64;
                let z = proposed * normalizer;
                let (q0, q2) = (weight_before / total, (weight_before + proposed) / total);
                if z <= q0 * (1.0 - q0) && z <= q2 * (1.0 - q2) {
                    let weight = into.weight + next.weight;
                    self.centroids[current] = Centroid { mean: joint_mean(into, next), weight };
                } else {
                    weight_before += into.weight as f64;
                    current += 1;
                    self.centroids[current] = next;
                }
            }
            self.centroids.truncate(current + 1);
        }
        self.merged_count = self.centroids.len();
        self.merged_weight += self.unmerged_weight;
        self.unmerged_weight = 0;
        self.merge_count = self.merge_count.saturating_add(1);
    }

    /// The digest with all centroids merged, which can be asked.
    pub fn merged(&self) -> Cow<'_, TDigest> {
        if self.unmerged_count() == 0 {
            return Cow::Borrowed(self);
        }
        let mut merged = self.clone();
        merged.merge();
        Cow::Owned(merged)
    }

    /// A copy whose centroids are sorted, if this one's are not. It merges to the same digest.
    pub(crate) fn sorted(&self) -> Option<TDigest> {
        if self.centroids.is_sorted_by(|one, other| one.mean.total_cmp(&other.mean).is_le()) {
            return None;
        }
        let mut sorted = self.clone();
        sorted.centroids.sort_by(|one, other| one.mean.total_cmp(&other.mean));
        (sorted.merged_count, sorted.merged_weight) = (0, 0);
        sorted.unmerged_weight = self.count();
        Some(sorted)
    }

    /// The compression.
    pub fn compression(&self) -> u64 {
        self.compression
    }

    /// The most centroids.
    pub fn capacity(&self) -> u64 {
        capacity_of(self.compression)
    }

    /// How many centroids are merged.
    pub fn merged_count(&self) -> usize {
        self.merged_count
    }

    /// How many centroids were added since.
    pub fn unmerged_count(&self) -> usize {
        self.centroids.len() - self.merged_count
    }

    /// How many numbers are in merged centroids.
    pub fn merged_weight(&self) -> i64 {
        self.merged_weight
    }

    /// How many numbers were added since.
    pub fn unmerged_weight(&self) -> i64 {
        self.unmerged_weight
    }

    /// How many numbers were added.
    pub fn count(&self) -> i64 {
        self.merged_weight + self.unmerged_weight
    }

    /// How often centroids were merged.
    pub fn merge_count(&self) -> i64 {
        self.merge_count
    }

    /// The smallest number; NaN if nothing was added.
    pub fn min(&self) -> f64 {
        if self.count() > 0 { self.min } else { f64::NAN }
    }

    /// The largest number; NaN if nothing was added.
    pub fn max(&self) -> f64 {
        if self.count() > 0 { self.max } else { f64::NAN }
    }

    /// The bytes that RedisBloom would take for it.
    pub fn reported_bytes(&self) -> u64 {
        REPORTED_HEAD_BYTES + self.capacity() * CENTROID_BYTES
    }

    pub(crate) fn visit_blocks(&mut self, visit: &mut dyn FnMut(Block<'_>)) {
        visit(Block::Centroids(&mut self.centroids));
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.centroids.capacity() * size_of::<Centroid>()
    }
}

/// The mean of two centroids, which is finite.
fn joint_mean(into: Centroid, next: Centroid) -> f64 {
    let weight = (into.weight + next.weight) as f64;
    let shift = (next.mean - into.mean) * next.weight as f64 / weight;
    if shift.is_finite() {
        into.mean + shift
    } else {
        into.mean * (into.weight as f64 / weight) + next.mean * (next.weight as f64 / weight)
    }
}

/// Questions, for a digest that is [merged](TDigest::merged).
impl TDigest {
    /// The share of numbers that are less than `value`, and half of those that equal it.
    pub fn share_below(&self, value: f64) -> f64 {
        assert_eq!(self.unmerged_count(), 0, "it is merged before it is asked");
        let total = self.merged_weight as f64;
        let [first, .., last] = self.centroids[..] else {
            return match self.centroids.first() {
                None => f64::NAN,
                Some(_) if value < self.min => 0.0,
                Some(_) if value > self.max => 1.0,
                Some(_) => 0.5,
            };
        };
        if value < self.min {
            0.0
        } else if value > self.max {
            1.0
        } else if value < first.mean {
            self.tail_share(value - self.min, first.mean - self.min, first.weight)
        } else if value > last.mean {
            1.0 - self.tail_share(self.max - value, self.max - last.mean, last.weight)
        } else {
            self.share_between(value) / total
        }
    }

    /// The share of the numbers beyond a value in the half of the outermost centroid that lies at the end, of which one is
    /// the outermost number itself.
    fn tail_share(&self, distance: f64, width: f64, weight: i64) -> f64 {
        let total = self.merged_weight as f64;
        if width <= 0.0 {
            0.0
        } else if distance == 0.0 {
            0.5 / total
        } else {
            (1.0 + distance / width * (weight as f64 / 2.0 - 1.0)) / total
        }
    }

    /// How many numbers are below a value that lies between the first and the last mean.
    fn share_between(&self, value: f64) -> f64 {
        let mut before = 0.0;
        for (index, pair) in self.centroids.windows(2).enumerate() {
            let [one, next] = [pair[0], pair[1]];
            if one.mean == value {
                let same = self.centroids[index..].iter().take_while(|centroid| centroid.mean == value);
                return before + same.map(|centroid| centroid.weight as f64).sum::<f64>() / 2.0;
            }
            if one.mean <= value && value < next.mean {
                // All of a single number lies at its centroid, so it takes no part in the interpolation.
                let between = (one.weight as f64 + next.weight as f64) / 2.0;
                let (left, right) = match (one.weight, next.weight) {
                    (1, 1) => return before + 1.0,
                    (1, _) => (0.5, 0.0),
                    (_, 1) => (0.0, 0.5),
                    _ => (0.0, 0.0),
                };
                let base = before + one.weight as f64 / 2.0 + left;
                return base + (between - left - right) * (value - one.mean) / (next.mean - one.mean);
            }
            before += one.weight as f64;
        }
        self.merged_weight as f64 - 0.5
    }

    /// The value below which this share of the numbers is, from 0 to 1.
    pub fn quantile(&self, share: f64) -> f64 {
        assert_eq!(self.unmerged_count(), 0, "it is merged before it is asked");
        let [first, .., last] = self.centroids[..] else {
            return self.centroids.first().map_or(f64::NAN, |only| only.mean);
        };
        let total = self.merged_weight as f64;
        let index = share * total;
        if index < 1.0 {
            return self.min;
        }
        let half = |centroid: Centroid| centroid.weight as f64 / 2.0;
        // Of the outermost centroids one number is known exactly, the smallest and the largest.
        if first.weight > 1 && index < half(first) {
            return self.min + (index - 1.0) / (half(first) - 1.0) * (first.mean - self.min);
        }
        if index > total - 1.0 {
            return self.max;
        }
        if last.weight > 1 && total - index <= half(last) {
            return self.max - (total - index - 1.0) / (half(last) - 1.0) * (self.max - last.mean);
        }
        let mut before = half(first);
        for pair in self.centroids.windows(2) {
            let [one, next] = [pair[0], pair[1]];
            let between = half(one) + half(next);
            if before + between > index {
                return interpolated(one, next, index - before, before + between - index);
            }
            before += between;
        }
        let beyond = index - total - half(last);
        weighted_average((last.mean, beyond), (self.max, half(last) - beyond))
    }

    /// The mean of the numbers between two shares.
    pub fn trimmed_mean(&self, from: f64, to: f64) -> f64 {
        assert_eq!(self.unmerged_count(), 0, "it is merged before it is asked");
        if let [only] = self.centroids[..] {
            return only.mean;
        }
        let total = self.merged_weight as f64;
        let (first, last) = ((total * from).floor(), (total * to).ceil());
        let (mut done, mut sum, mut count) = (0.0_f64, 0.0, 0.0);
        for centroid in &self.centroids {
            let weight = centroid.weight as f64;
            let added = weight - (first - done).max(0.0).min(weight);
            let added = (last - done).max(0.0).min(added);
            done += weight;
            sum += centroid.mean * added;
            count += added;
            if done >= last {
                break;
            }
        }
        sum / count
    }
}

/// The value at a distance behind the middle of `one` and before that of `next`.
fn interpolated(one: Centroid, next: Centroid, behind: f64, before: f64) -> f64 {
    if one.weight == 1 && behind < 0.5 {
        return one.mean;
    }
    if next.weight == 1 && before <= 0.5 {
        return next.mean;
    }
    let single = |centroid: Centroid| if centroid.weight == 1 { 0.5 } else { 0.0 };
    weighted_average((one.mean, before - single(next)), (next.mean, behind - single(one)))
}

fn weighted_average(one: (f64, f64), other: (f64, f64)) -> f64 {
    let ((low, low_weight), (high, high_weight)) = if one.0 <= other.0 { (one, other) } else { (other, one) };
    let average = (low * low_weight + high * high_weight) / (low_weight + high_weight);
    if average > high {
        high
    } else if average > low {
        average
    } else {
        low
    }
}

/// A digest with unmerged centroids is written as if all were merged, which RedisBloom can read. The weight of the unmerged
/// ones, which is zero in either case, is negative zero then: so a digest that is read answers as the one that was written.
impl TDigest {
    pub(crate) fn field(&self, index: usize) -> Option<Field<'_>> {
        let count = self.centroids.len();
        Some(match index {
            0 => Field::Double(self.compression as f64),
            1 => Field::Double(self.min),
            2 => Field::Double(self.max),
            3 => Field::Signed(self.capacity() as i64),
            4 => Field::Signed(count as i64),
            5 => Field::Signed(0),
            6 => Field::Signed(self.merge_count),
            7 => Field::Double(self.count() as f64),
            8 => Field::Double(if self.unmerged_count() > 0 { -0.0 } else { 0.0 }),
            _ if index < HEAD_FIELDS + count => Field::Double(self.centroids[index - HEAD_FIELDS].mean),
            _ => Field::Double(self.centroids.get(index - HEAD_FIELDS - count)?.weight as f64),
        })
    }

    /// Reads a digest of this version of the form.
    pub fn read<S: FieldSource>(version: u64, source: &mut S) -> Result<TDigest, S::Error> {
        let (compression, min, max) = (source.double()?, source.double()?, source.double()?);
        let (_, count, unmerged_count) = (source.signed()?, source.signed()?, source.signed()?);
        let merge_count = source.signed()?;
        let (_, unmerged_weight) = (source.double()?, source.double()?);
        let is_whole = compression.fract() == 0.0 && compression <= u32::MAX.into();
        let digest = if is_whole { TDigest::new(compression as u64).ok() } else { None };
        let Some(mut digest) = digest else { return Err(source.refuse()) };
        let is_bad = version != VERSION || min.is_nan() || max.is_nan() || merge_count < 0;
        let has_room = u64::try_from(count).is_ok_and(|count| count <= digest.capacity());
        if is_bad || !has_room || unmerged_count != 0 || unmerged_weight != 0.0 {
            return Err(source.refuse());
        }
        (digest.min, digest.max, digest.merge_count) = (min, max, merge_count);
        for _ in 0..count {
            let mean = source.double()?;
            digest.centroids.push(Centroid { mean, weight: 0 });
        }
        let mut sum = 0_i64;
        for index in 0..digest.centroids.len() {
            let weight = source.double()?;
            let is_count = weight >= 1.0 && weight <= COUNT_MAX as f64 && weight.fract() == 0.0;
            let centroid = &mut digest.centroids[index];
            centroid.weight = weight as i64;
            sum += centroid.weight;
            if !is_count || sum > COUNT_MAX || !centroid.mean.is_finite() {
                return Err(source.refuse());
            }
        }
        if unmerged_weight.is_sign_negative() {
            digest.unmerged_weight = sum;
        } else {
            (digest.merged_weight, digest.merged_count) = (sum, digest.centroids.len());
        }
        Ok(digest)
    }
}
