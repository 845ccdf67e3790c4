//! A table of settings, and looking settings up in it.

use crate::error::{Error, shown};
use crate::foreign::Foreign;
use crate::kind::Value;
use crate::setting::{Id, Setting};

/// All settings of a program.
#[derive(Debug)]
pub struct Table {
    /// The settings, each at the index of its number.
    pub settings: &'static [Setting],
    /// Directives without effect.
    pub foreign: &'static [Foreign],
    /// The headings of the help, in this order.
    pub groups: &'static [&'static str],
    /// Directives that are not settings: each may occur any number of times, and the table's owner reads them.
    pub others: &'static [&'static str],
}

impl Table {
    /// The setting with this number.
    pub fn setting(&self, id: Id) -> Setting {
        match self.settings.get(id.0) {
            Some(setting) => *setting,
            None => self.foreign[id.0 - self.settings.len()].setting(),
        }
    }

    /// All settings, then the directives without effect.
    pub fn all(&self) -> impl Iterator<Item = (Id, Setting)> {
        (0..self.settings.len() + self.foreign.len()).map(|number| (Id(number), self.setting(Id(number))))
    }

    /// Finds a setting by its name or older name. Case is ignored, and `-` equals `_`.
    pub fn find(&self, name: &str) -> Option<Id> {
        let is_it = |known: &str| {
            known.len() == name.len()
                && known.bytes().zip(name.bytes()).all(|(a, b)| canonical_byte(a) == canonical_byte(b))
        };
        let mut all = self.all();
        all.find(|(_, setting)| is_it(setting.name) || setting.alias.is_some_and(is_it)).map(|(id, _)| id)
    }

    /// Checks the table. The table's owner calls this in a test.
    ///
    /// # Panics
    /// If a name occurs twice; if a setting has no description or an invalid default; if the directives without effect
    /// are not sorted, or their defaults are not in canonical form.
    pub fn assert_valid(&self) {
        for (id, setting) in self.all() {
            assert_eq!(self.find(setting.name), Some(id), "{} occurs twice", setting.name);
            setting.default_value();
        }
        for setting in self.settings {
            assert!(self.groups.contains(&setting.group), "{}", setting.name);
            assert!(!setting.doc.is_empty() && !setting.doc.ends_with('.'), "{}", setting.name);
        }
        assert!(self.foreign.is_sorted_by(|a, b| a.name < b.name));
        for foreign in self.foreign {
            for default in [foreign.default, foreign.other_default] {
                let is_left_out = default.is_empty() && default != foreign.default;
                let value = foreign.kind.parse(&[default], "").map(|value| value.text);
                assert!(is_left_out || value.as_deref() == Ok(default), "{}: {value:?}", foreign.name);
            }
        }
    }

    /// The directive without effect that has this number.
    pub(crate) fn foreign(&self, id: Id) -> Option<Foreign> {
        self.foreign.get(id.0.checked_sub(self.settings.len())?).copied()
    }

    /// Why a setting may not have this value.
    pub(crate) fn refusal(&self, id: Id, text: &str) -> Option<&'static str> {
        let setting = self.setting(id);
        let is_harmless = match self.foreign(id) {
            Some(foreign) => !foreign.is_expected_of(text),
            None => text == setting.default,
        };
        (!setting.refused.is_empty() && !is_harmless).then_some(setting.refused)
    }

    /// The error for an unknown directive, with the most similar name.
    pub(crate) fn unknown(&self, name: &str, place: &str) -> Error {
        let name = shown(name);
        let bare = name.trim_start_matches('-');
        let word = bare.to_ascii_lowercase().replace('_', "-");
        // A single letter means the first setting that begins with it: `-p` means the port.
        let far = |known: &str| match known.starts_with(bare) && bare.len() == 1 {
            true => 0,
            false => strsim::damerau_levenshtein(&word, &known.replace('_', "-")),
        };
        let nearest = self
            .all()
            .map(|(id, setting)| (far(setting.name), id, setting.name))
            .filter(|(distance, _, known)| {
                distance * 2 <= known.len().min(bare.len()) || known.starts_with(bare)
            })
            .min();
        // `--threads` is a part of a name rather than nearly one.
        let has_word = |known: &str| known.split(['-', '_']).any(|part| part == word);
        let part = self.all().map(|(_, setting)| setting.name).find(|name| has_word(name));
        let suggested = part.or(nearest.map(|(.., known)| known));
        let dashes = &name[..name.len() - bare.len()];
        let dashes = if dashes.is_empty() { "" } else { "--" };
        let suggestion =
            suggested.map(|known| format!("; did you mean '{dashes}{known}'?")).unwrap_or_default();
        Error::UnknownSetting { name: name.clone(), place: place.to_owned(), suggestion }
    }
}

impl Setting {
    /// The default.
    pub(crate) fn default_value(&self) -> Value {
        self.kind.parse(&[self.default], "").unwrap_or_else(|why| {
            unreachable!("the default of {} is not valid: {why}", self.name);
        })
    }
}

fn canonical_byte(byte: u8) -> u8 {
    if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() }
}

#[cfg(test)]
mod tests {
    use crate::example::TABLE;

    #[test]
    fn names_are_found_however_they_are_written() {
        TABLE.assert_valid();
        let name = |written: &str| TABLE.find(written).map(|id| TABLE.setting(id).name);
        assert_eq!(name("PORT"), Some("port"));
        assert_eq!(name("proactor-threads"), Some("proactor-threads"));
        assert_eq!(name("proactor_threads"), Some("proactor-threads"), "its old spelling");
        assert_eq!(name("save_points"), Some("save"));
        assert_eq!(name("HZ"), Some("hz"));
        assert_eq!(name("user"), None, "a directive is no setting");
    }

    #[test]
    fn names_are_suggested() {
        for (name, expected) in [
            ("prot", "'prot' here; did you mean 'port'?"),
            ("threads", "'threads' here; did you mean 'proactor-threads'?"),
            ("--timeou", "'--timeou' here; did you mean '--timeout'?"),
            ("xyzzy-plugh", "'xyzzy-plugh' here"),
        ] {
            assert_eq!(TABLE.unknown(name, "here").to_string(), format!("unknown setting {expected}"));
        }
    }

    #[test]
    fn only_promises_are_refused() {
        let refusal = |name: &str, text: &str| TABLE.refusal(TABLE.find(name).expect(name), text);
        assert_eq!(refusal("hz", "100"), None);
        assert_eq!(refusal("replicaof", "a 1"), Some("there is no replication"));
        assert_eq!(refusal("replicaof", "no one"), None);
        assert_eq!(refusal("appendonly", "yes"), Some("there is no file"));
        assert_eq!(refusal("appendonly", "no"), None);
    }
}
