//! What this program calls itself.

/// The Redis version whose behaviour it has: what clients look at to see what they may use.
pub(crate) const REDIS_VERSION: &str = "7.2.7";
/// Darter's own version.
pub(crate) const DARTER_VERSION: &str = env!("CARGO_PKG_VERSION");
/// The first digits of the commit that it was built from, if the build says so.
pub(crate) const GIT_SHA: &str = match option_env!("DARTER_GIT_SHA") {
    Some(sha) => sha,
    None => "00000000",
};
/// Tells builds apart, if the build says so.
pub(crate) const BUILD_ID: &str = match option_env!("DARTER_BUILD_ID") {
    Some(id) => id,
    None => "0",
};
