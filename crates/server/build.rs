//! Says which version and commit the program is built from, for `--version`, `INFO` and reports of crashes.
//!
//! The version is that of the last tag `v1.2.3`; commits since then are added, as `1.2.3+45.g0123abcd`. Without a tag, without git or
//! outside a repository it is that of the workspace, and the commit is `00000000`. The variables `DARTER_VERSION`, `DARTER_GIT_SHA` and
//! `DARTER_BUILD_ID` go before all of that: a build from an archive sets them.

use std::path::Path;
use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What `git describe` says of a tag `v1.2.3`, as a version.
fn version_of(described: &str) -> String {
    let described = described.strip_prefix('v').unwrap_or(described);
    let mut parts = described.rsplitn(3, '-');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(commit), Some(count), Some(tag))
            if commit.starts_with('g') && count.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            format!("{tag}+{count}.{commit}")
        }
        _ => described.to_owned(),
    }
}

fn main() {
    // Whether something is not committed changes with any of the sources, all of which this crate depends on.
    for crates in std::fs::read_dir("..").into_iter().flatten().flatten() {
        println!("cargo::rerun-if-changed={}", crates.path().join("src").display());
    }
    for path in ["HEAD", "logs/HEAD", "packed-refs", "refs/tags"] {
        if let Some(path) = git(&["rev-parse", "--git-path", path]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for variable in ["DARTER_VERSION", "DARTER_GIT_SHA", "DARTER_BUILD_ID", "SOURCE_DATE_EPOCH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let given = |variable| std::env::var(variable).ok().filter(|value| !value.is_empty());
    let described = || git(&["describe", "--tags", "--abbrev=8", "--match=v[0-9]*"]);
    let version = given("DARTER_VERSION").or_else(|| described().map(|tag| version_of(&tag)));
    let version = version.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
    let sha = given("DARTER_GIT_SHA").or_else(|| git(&["rev-parse", "--short=8", "HEAD"]));
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]).unwrap_or_default();
    let seconds = given("SOURCE_DATE_EPOCH").or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.ok().map(|since| since.as_secs().to_string())
    });
    let sha = sha.unwrap_or_else(|| "00000000".to_owned());
    let id = given("DARTER_BUILD_ID").unwrap_or_else(|| format!("{sha}-{}", seconds.unwrap_or_default()));
    println!("cargo::rustc-env=DARTER_VERSION={version}");
    println!("cargo::rustc-env=DARTER_GIT_SHA={sha}");
    println!("cargo::rustc-env=DARTER_GIT_DIRTY={}", changes.lines().count());
    println!("cargo::rustc-env=DARTER_BUILD_ID={id}");
}
