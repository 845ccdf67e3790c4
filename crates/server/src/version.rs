//! The versions that this program reports.

/// The Redis version whose behaviour it has; clients look at it to see what they may use.
pub(crate) const REDIS_VERSION: &str = "7.2.7";
/// Darter's own version, by the last tag (`build.rs`).
pub(crate) const DARTER_VERSION: &str = env!("DARTER_VERSION");
/// The first digits of the commit that it was built from (`build.rs`).
pub(crate) const GIT_SHA: &str = env!("DARTER_GIT_SHA");
/// How many files differed from that commit.
pub(crate) const GIT_DIRTY: &str = env!("DARTER_GIT_DIRTY");
/// Identifies the build.
pub(crate) const BUILD_ID: &str = env!("DARTER_BUILD_ID");
/// The allocators of the data, and of everything else.
pub(crate) const ALLOCATOR: &str = "darter-slabs+mimalloc";

/// What `--version` prints. Programs read the version behind the first `v=` of redis-server's line, so that is the one of
/// Redis where this program is called that.
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
