//! `--help`, `--version` and `docs/settings.md`, made from the table.

use super::table::TABLE;
use crate::version::{ALLOCATOR, BUILD_ID, DARTER_VERSION, GIT_DIRTY, GIT_SHA, REDIS_VERSION};

/// What `--version` prints.
pub(crate) fn version_line() -> String {
    format!(
        "Darter server v={DARTER_VERSION} sha={GIT_SHA}:{GIT_DIRTY} malloc={ALLOCATOR} bits={} build={BUILD_ID} \
         redis_version={REDIS_VERSION}",
        usize::BITS
    )
}

/// What `--help` prints.
pub(crate) fn help() -> String {
    format!(
        "A multi-threaded in-memory store that speaks the Redis protocol.\n\n\
         Usage: darter [--test-config] [/path/to/redis.conf | -] [--setting value]... [--setting=value]...\n\n\
         Every directive of redis.conf is a flag; - and _ are alike. Flags win over the file.\n\
         {}\n  -h, --help     This text\n  -v, --version  The version\n  --test-config  Say what of the configuration has \
         no effect, and what is refused\n\n\
         Memory may have a unit: 1k is 1000 bytes, 1kb is 1024; likewise m, mb, g, gb.\n\
         {} more directives of redis.conf are accepted without effect; see docs/settings.md.\n",
        TABLE.flags(),
        TABLE.foreign.len()
    )
}

/// The page `docs/settings.md`.
#[cfg(test)]
fn page() -> String {
    format!(
        "# Settings\n\nMade from `crates/server/src/settings/table.rs` by a test; do not edit.\n\n\
         Each is a line `name value` of the configuration file, a flag `--name value` of the command line, and a parameter \
         of `CONFIG GET`; those marked *start* cannot be changed by `CONFIG SET`.\n\
         {}\n## Without effect\n\nAccepted, kept and shown by `CONFIG GET`, because configurations for Redis and Valkey have \
         them: {}.\n\
         \n## Refused\n\nThese promise what is not there, so the server does not start with any value but the default, \
         nor is one accepted by `CONFIG SET`; `loadmodule` likewise.\n\n{}",
        TABLE.page(),
        TABLE.page_of_foreign(),
        TABLE.page_of_refused()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_every_setting() {
        let help = help();
        for setting in TABLE.settings {
            assert!(help.contains(&format!("--{} <", setting.name)), "{}", setting.name);
        }
    }

    #[test]
    fn the_page_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
        if std::env::var_os("DARTER_WRITE_DOCS").is_some() {
            std::fs::write(path, page()).expect("the page can be written");
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page(), "run the tests with DARTER_WRITE_DOCS=1 to write docs/settings.md anew");
    }
}
