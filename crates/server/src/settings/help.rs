//! `--help`, `--version` and `docs/settings.md`, made from the table.

use std::fmt::Write;

use super::ignored::IGNORED;
use config::Kind;

use super::{EFFECTIVE, Group, Setting};
use crate::version::{ALLOCATOR, BUILD_ID, DARTER_VERSION, GIT_DIRTY, GIT_SHA, REDIS_VERSION};

/// Where the explanations begin.
const DOC_COLUMN: usize = 46;

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
    let mut text = String::from(
        "A multi-threaded in-memory store that speaks the Redis protocol.\n\n\
         Usage: darter [--test-config] [/path/to/redis.conf | -] [--setting value]... [--setting=value]...\n\n\
         Every directive of redis.conf is a flag; - and _ are alike. Flags win over the file.\n",
    );
    for group in Group::SHOWN {
        let _ = write!(text, "\n{}\n", group.title());
        for setting in of(group) {
            let flag = format!("  --{} <{}>", setting.name, argument(setting));
            let gap = DOC_COLUMN.saturating_sub(flag.chars().count()).max(2);
            let _ = writeln!(text, "{flag}{:gap$}{} [default: {}]", "", setting.doc, shown(setting.default));
        }
    }
    text.push_str(
        "\n  -h, --help     This text\n  -v, --version  The version\n  --test-config  Say what of the configuration has \
         no effect, and what is refused\n\n",
    );
    let _ = writeln!(
        text,
        "Memory may have a unit: 1k is 1000 bytes, 1kb is 1024; likewise m, mb, g, gb.\n\
         {} more directives of redis.conf are accepted without effect; see docs/settings.md.",
        IGNORED.len()
    );
    text
}

fn of(group: Group) -> impl Iterator<Item = &'static Setting> {
    EFFECTIVE.iter().filter(move |setting| setting.group == group)
}

fn argument(setting: &Setting) -> String {
    match setting.kind {
        Kind::Choice(choices) => choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("|"),
        _ if setting.unit.is_empty() => setting.kind.placeholder().to_owned(),
        _ => setting.unit.to_owned(),
    }
}

fn shown(default: &str) -> &str {
    if default.is_empty() { "\"\"" } else { default }
}

/// The page `docs/settings.md`.
#[cfg(test)]
fn page() -> String {
    let mut text = String::from(
        "# Settings\n\nMade from `crates/server/src/settings/table.rs` by a test; do not edit.\n\n\
         Each is a line `name value` of the configuration file, a flag `--name value` of the command line, and a parameter \
         of `CONFIG GET`; those marked *start* cannot be changed by `CONFIG SET`.\n",
    );
    for group in Group::SHOWN {
        let _ = write!(
            text,
            "\n## {}\n\n| setting | value | default | | |\n|---|---|---|---|---|\n",
            group.title()
        );
        for setting in of(group) {
            let value = argument(setting).replace('|', "\\|");
            let alias = setting.alias.map(|alias| format!(" (`{alias}`)")).unwrap_or_default();
            let change = match setting.change {
                super::Change::Anytime => "",
                super::Change::Protected => "*protected*",
                super::Change::AtStart => "*start*",
            };
            let _ = writeln!(
                text,
                "| `{}`{alias} | {value} | `{}` | {change} | {} |",
                setting.name,
                shown(setting.default),
                setting.doc
            );
        }
    }
    let ignored: Vec<String> = IGNORED
        .iter()
        .filter(|foreign| foreign.setting().refused.is_empty())
        .map(|foreign| format!("`{}`", foreign.name()))
        .collect();
    let _ = write!(
        text,
        "\n## {}\n\nAccepted, kept and shown by `CONFIG GET`, because configurations for Redis and Valkey have them: {}.\n",
        Group::Ignored.title(),
        ignored.join(", ")
    );
    text.push_str(
        "\n## Refused\n\nThese promise what is not there, so the server does not start with any value but the default, \
         nor is one accepted by `CONFIG SET`; `loadmodule` likewise.\n\n| setting | default | why, and what to do |\n|---|---|---|\n",
    );
    for (_, setting) in super::all().filter(|(_, setting)| !setting.refused.is_empty()) {
        let _ = writeln!(text, "| `{}` | `{}` | {} |", setting.name, shown(setting.default), setting.refused);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_every_setting() {
        let help = help();
        for setting in EFFECTIVE {
            assert!(help.contains(&format!("--{} <", setting.name)), "{}", setting.name);
            assert!(!setting.doc.is_empty() && !setting.doc.ends_with('.'), "{}", setting.name);
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
