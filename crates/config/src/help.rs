//! Texts derived from a table: the flags of `--help`, and the tables of the page about settings.

use std::fmt::Write;

use crate::kind::SettingKind;
use crate::setting::{Changeable, Setting};
use crate::table::Table;

/// The column in which explanations begin.
const DOC_COLUMN: usize = 46;

impl Table {
    /// The flags with their explanations, group by group, for `--help`.
    pub fn flags(&self) -> String {
        let mut text = String::new();
        for group in self.groups {
            let _ = write!(text, "\n{group}\n");
            for setting in self.of(group) {
                let flag = format!("  --{} <{}>", setting.name, argument(setting));
                let gap = DOC_COLUMN.saturating_sub(flag.chars().count()).max(2);
                let _ =
                    writeln!(text, "{flag}{:gap$}{} [default: {}]", "", setting.doc, shown(setting.default));
            }
        }
        text
    }

    /// The settings in Markdown, group by group.
    pub fn page(&self) -> String {
        let mut text = String::new();
        for group in self.groups {
            let _ =
                write!(text, "\n## {group}\n\n| setting | value | default | | |\n|---|---|---|---|---|\n");
            for setting in self.of(group) {
                let value = argument(setting).replace('|', "\\|");
                let alias = setting.alias.map(|alias| format!(" (`{alias}`)")).unwrap_or_default();
                let change = match setting.change {
                    Changeable::Anytime => "",
                    Changeable::Protected => "*protected*",
                    Changeable::AtStart => "*start*",
                };
                let _ = writeln!(
                    text,
                    "| `{}`{alias} | {value} | `{}` | {change} | {} |",
                    setting.name,
                    shown(setting.default),
                    whole(setting)
                );
            }
        }
        text
    }

    /// The names of directives that have no effect, in Markdown.
    pub fn page_of_foreign(&self) -> String {
        let accepted = self.foreign.iter().filter(|foreign| foreign.refused.is_empty());
        accepted.map(|foreign| format!("`{}`", foreign.name)).collect::<Vec<_>>().join(", ")
    }

    /// The directives that accept only their default, as a table in Markdown.
    pub fn page_of_refused(&self) -> String {
        let mut text = String::from("| setting | default | why, and what to do |\n|---|---|---|\n");
        for (_, setting) in self.all().filter(|(_, setting)| !setting.refused.is_empty()) {
            let _ =
                writeln!(text, "| `{}` | `{}` | {} |", setting.name, shown(setting.default), setting.refused);
        }
        text
    }

    fn of(&self, group: &str) -> impl Iterator<Item = &'static Setting> {
        self.settings.iter().filter(move |setting| setting.group == group)
    }
}

fn argument(setting: &Setting) -> String {
    match setting.kind {
        SettingKind::Choice(choices) => choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("|"),
        _ if setting.unit.is_empty() => setting.kind.placeholder().to_owned(),
        _ => setting.unit.to_owned(),
    }
}

/// The phrase of a setting and, as sentences after it, its details.
fn whole(setting: &Setting) -> String {
    match setting.details {
        "" => setting.doc.to_owned(),
        details => format!("{}. {details}", setting.doc),
    }
}

fn shown(default: &str) -> &str {
    if default.is_empty() { "\"\"" } else { default }
}

#[cfg(test)]
mod tests {
    use crate::example::TABLE;

    #[test]
    fn flags_are_listed_by_group() {
        let flags = TABLE.flags();
        assert!(flags.starts_with("\nProcess\n  --requirepass <text>"), "{flags}");
        assert!(flags.contains("\n\nNetwork\n  --port <number>"), "{flags}");
        let seconds = format!("  --timeout <seconds>{:25}Until when [default: 0]\n", "");
        assert!(flags.ends_with(&seconds), "{flags}");
        assert!(flags.contains("When to save [default: 1 2]\n"), "the page has the details: {flags}");
    }

    #[test]
    fn pages_say_what_may_change_and_what_is_refused() {
        let page = TABLE.page();
        assert!(page.contains("| `save` (`save-points`) | numbers | `1 2` |  | When to save. The numbers of all lines count. |\n"), "{page}");
        assert!(page.contains("| `pin` | yes\\|no | `yes` |  | Stay there |\n"), "{page}");
        assert!(page.contains("| `dir` | text | `\"\"` | *protected* | Where to save |\n"), "{page}");
        assert_eq!(TABLE.page_of_foreign(), "`activerehashing`, `hz`");
        assert!(TABLE.page_of_refused().ends_with("| `replicaof` | `\"\"` | there is no replication |\n"));
    }
}
