//! What `--help` and `--version` print.

use offline::FOLDER_TASKS;
use settings::TABLE;

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
         Usage: darter [--test-config] [/path/to/redis.conf | -] [--setting value]... [--setting=value]...\n\
         \x20      darter --check-journal DIR [--journal-repair truncate]\n\
         \x20      darter --copy-journal DIR --to NEW [--journal-until MS]\n\
         \x20      darter --export-aof DIR --to NEW [--journal-until MS]\n\n\
         Every directive of redis.conf is a flag; - and _ are alike. Flags win over the file.\n\
         {}\n  -h, --help     This text\n  -v, --version  The version\n  --test-config  Say what of the configuration has \
         no effect, and what is refused\n{FOLDER_TASKS}\n\
         Memory may have a unit: 1k is 1000 bytes, 1kb is 1024; likewise m, mb, g, gb.\n\
         {} more directives of redis.conf are accepted without effect; see docs/settings.md.\n",
        TABLE.flags(),
        TABLE.foreign.len()
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
}
