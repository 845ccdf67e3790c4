//! The versions that this program reports.

/// The Redis version whose behaviour it has. Clients use it to decide what they may use.
pub(crate) const REDIS_VERSION: &str = "7.2.7";
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
    let (called, own, other) = match is_called_redis {
        true => ("Redis", REDIS_VERSION, format!("darter_version={DARTER_VERSION}")),
        false => ("Darter", DARTER_VERSION, format!("redis_version={REDIS_VERSION}")),
    };
    format!(
        "{called} server v={own} sha={GIT_SHA}:{GIT_DIRTY} malloc={ALLOCATOR} bits={} build={BUILD_ID} {other}",
        usize::BITS
    )
}
