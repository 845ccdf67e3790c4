//! The text of `--help`.

use crate::settings::TABLE;

/// The text of `--help`. `tasks`: its part about flags that do not run a server.
pub fn help(tasks: &str) -> String {
    format!(
        "A multi-threaded in-memory store that speaks the Redis protocol.\n\n\
         Usage: darter [--test-config] [/path/to/redis.conf | -] [--setting value]... [--setting=value]...\n\
         \x20      darter --check-journal DIR [--journal-repair truncate]\n\
         \x20      darter --copy-journal DIR --to NEW [--journal-until MS]\n\
         \x20      darter --export-aof DIR --to NEW [--journal-until MS]\n\
         \x20      darter --queues [-h HOST] [-p PORT] [--user NAME] [--pass TEXT] [-n DB] [-i SECONDS]\n\
         \x20      darter --check-health [-h HOST] [-p PORT]\n\
         \x20      darter [/path/to/redis.conf] [--setting value]... --cluster VERB [NODE]... [--setting value]...\n\n\
         Every directive of redis.conf is a flag; - and _ are alike. It may also be an environment variable, as in\n\
         DARTER_SET_MAXMEMORY_POLICY=noeviction. Flags win over the environment, and that over the file.\n\
         {}\n  -h, --help     This text\n  -v, --version  The version\n  --test-config  List what of the configuration is \
         ignored, and what is refused\n{tasks}\n\
         Memory may have a unit: 1k is 1000 bytes, 1kb is 1024; likewise m, mb, g, gb.\n\
         {} more directives of redis.conf are accepted but ignored; see docs/settings.md.\n",
        TABLE.flags(),
        TABLE.foreign.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_every_setting() {
        let help = help("");
        for setting in TABLE.settings {
            assert!(help.contains(&format!("--{} <", setting.name)), "{}", setting.name);
        }
    }
}
