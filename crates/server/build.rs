//! Says which commit the program is built from, for `--version`, `INFO` and reports of crashes.
//!
//! Without git, or outside a repository, it is `00000000`, unless the variables `DARTER_GIT_SHA` and `DARTER_BUILD_ID` say better, as
//! a package's build may.

use std::path::Path;
use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn main() {
    // Whether something is not committed changes with any of the sources, all of which this crate depends on.
    for crates in std::fs::read_dir("..").into_iter().flatten().flatten() {
        println!("cargo::rerun-if-changed={}", crates.path().join("src").display());
    }
    for path in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", path]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for variable in ["DARTER_GIT_SHA", "DARTER_BUILD_ID", "SOURCE_DATE_EPOCH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let given = |variable| std::env::var(variable).ok().filter(|value| !value.is_empty());
    let sha = given("DARTER_GIT_SHA").or_else(|| git(&["rev-parse", "--short=8", "HEAD"]));
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]).unwrap_or_default();
    let seconds = given("SOURCE_DATE_EPOCH").or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.ok().map(|since| since.as_secs().to_string())
    });
    let sha = sha.unwrap_or_else(|| "00000000".to_owned());
    let id = given("DARTER_BUILD_ID").unwrap_or_else(|| format!("{sha}-{}", seconds.unwrap_or_default()));
    println!("cargo::rustc-env=DARTER_GIT_SHA={sha}");
    println!("cargo::rustc-env=DARTER_GIT_DIRTY={}", changes.lines().count());
    println!("cargo::rustc-env=DARTER_BUILD_ID={id}");
}
