//! The commands of t-digests, with the replies of RedisBloom.

mod change;
mod merge;
mod rank;
mod value;

use engine::{CommandError, Ctx, Entry};
use sketches::TDigest;

/// The commands of t-digests.
pub const ENTRIES: &[Entry] = &[
    change::TDIGEST_ADD,
    rank::TDIGEST_BYRANK,
    rank::TDIGEST_BYREVRANK,
    value::TDIGEST_CDF,
    change::TDIGEST_CREATE,
    value::TDIGEST_INFO,
    value::TDIGEST_MAX,
    merge::TDIGEST_MERGE,
    value::TDIGEST_MIN,
    value::TDIGEST_QUANTILE,
    rank::TDIGEST_RANK,
    change::TDIGEST_RESET,
    rank::TDIGEST_REVRANK,
    value::TDIGEST_TRIMMED_MEAN,
];

const NO_KEY: CommandError = CommandError::fixed("ERR T-Digest: key does not exist");
/// Centroids that are looked at or merged in about the time of a usual step.
const CENTROIDS_PER_STEP: usize = 16;

/// Reads the digest at the first key.
fn read<'s>(store: &'s mut engine::Store<'_, '_>, key: &[u8]) -> Result<&'s TDigest, CommandError> {
    store.read_as::<TDigest>(key)?.ok_or(NO_KEY)
}

/// About how many steps it takes to look at all centroids of a digest.
fn steps(digest: &TDigest) -> usize {
    1 + (digest.merged_count() + digest.unmerged_count()) / CENTROIDS_PER_STEP
}

/// The arguments behind the key, each parsed by `parse`.
fn values<T>(
    ctx: &Ctx,
    parse: impl FnMut(&&[u8]) -> Result<T, CommandError>,
) -> Result<Vec<T>, CommandError> {
    ctx.args[2..].iter().map(parse).collect()
}
