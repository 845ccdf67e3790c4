//! The versions that this program reports, except for the version of Redis, which is a setting.

use config::Settings;

/// The Redis version that snapshots are said to be written by. It does not depend on what clients are told
/// (`redis-version`): the form of a snapshot does not, either.
pub(crate) const SNAPSHOT_REDIS_VERSION: &str = "7.2.7";
/// Darter's own version, by the last tag (`build.rs`).
pub(crate) const DARTER_VERSION: &str = env!("DARTER_VERSION");
/// The first digits of the commit from which it was built (`build.rs`).
pub(crate) const GIT_SHA: &str = env!("DARTER_GIT_SHA");
/// The number of files that differed from that commit.
pub(crate) const GIT_DIRTY: &str = env!("DARTER_GIT_DIRTY");
/// Identifies the build.
pub(crate) const BUILD_ID: &str = env!("DARTER_BUILD_ID");
/// The allocators of the data, and of everything else.
pub(crate) const ALLOCATOR: &str = "darter-slabs+mimalloc";

/// The line that `--version` prints. Programs read the version after the first `v=` of redis-server's line. So where
/// this program is called redis-server, that is the version of Redis.
pub(crate) fn line(is_called_redis: bool) -> String {
    let redis_version = Settings::default().redis_version();
    let (called, own, other) = match is_called_redis {
        true => ("Redis", redis_version, format!("darter_version={DARTER_VERSION}")),
        false => ("Darter", DARTER_VERSION, format!("redis_version={redis_version}")),
    };
    format!(
        "{called} server v={own} sha={GIT_SHA}:{GIT_DIRTY} malloc={ALLOCATOR} bits={} build={BUILD_ID} {other}",
        usize::BITS
    )
}
