//! What directives mean, all of them together.
//!
//! A later line wins over an earlier one, and the command line over files; what the server cannot keep is judged by the
//! values that are left then. So `daemonize yes` in a file and `--daemonize no` are no contradiction, and
//! a line that another one takes back is no promise.
//!
//! Errors are collected: the start names the first one, `--test-config` all.

use acl::UserLine;

use super::ignored::{FILE_ONLY, LOADMODULE, NO_MODULES, RENAME_COMMAND};
use super::source::Directive;
use super::{Group, IO_THREADS, Id, PROACTOR_THREADS, Settings, USER, find, foreign, setting};
use crate::error::Error;

/// Errors that are kept.
const ERROR_COUNT_MAX: usize = 100;

/// What was found while the settings were read, besides the settings.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The settings that were given, each with the place of its last line.
    given: Vec<(Id, String)>,
    /// Directives with a value of their own that mean nothing here.
    pub(crate) without_effect: Vec<WithoutEffect>,
    /// Lines about users, to be understood when the commands are known.
    pub(crate) users: Vec<UserLine>,
    /// Commands that get another name, in this order.
    pub(crate) renames: Vec<Rename>,
    /// Why the server must not start.
    pub(crate) errors: Vec<Error>,
}

/// A directive with a value of its own that means nothing here.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct WithoutEffect {
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) place: String,
}

/// A command that gets another name, or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rename {
    /// Its name.
    pub(crate) from: Vec<u8>,
    /// The new one; empty: it cannot be called.
    pub(crate) to: Vec<u8>,
    /// Where that is said.
    pub(crate) place: String,
}

impl Settings {
    /// Sets all that `directives` say, in this order.
    pub(super) fn apply(&mut self, directives: Vec<Directive>) -> Found {
        let mut found = Found::default();
        for directive in directives {
            if let Err(error) = self.apply_one(directive, &mut found)
                && found.errors.len() < ERROR_COUNT_MAX
            {
                found.errors.push(error);
            }
        }
        for (id, place) in std::mem::take(&mut found.given) {
            let (setting, text) = (setting(id), self.text(id));
            if let Some(why) = self.refusal(id, &text) {
                found.errors.push(Error::Refused { name: setting.name, place, why });
            } else if foreign(id).is_some_and(|foreign| foreign.is_expected_of(&text)) {
                let (name, text) = (setting.name, text.to_string());
                found.without_effect.push(WithoutEffect { name, text, place });
            } else if id == IO_THREADS && !self.is_on(PROACTOR_THREADS) {
                self.has_io_threads = true;
            }
        }
        found
    }

    fn apply_one(&self, directive: Directive, found: &mut Found) -> Result<(), Error> {
        let Directive { name, words, place } = directive;
        if name.eq_ignore_ascii_case(USER) {
            found.users.push(UserLine { place, words });
            return Ok(());
        }
        if FILE_ONLY.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            return found.note_file_only(&name, words, place);
        }
        let Some(id) = find(&name) else { return Err(Error::unknown_setting(&name, &place)) };
        let setting = setting(id);
        let bad = |value: &str, why: String| Error::BadValue {
            name: setting.name,
            value: crate::error::shown(value),
            place: place.clone(),
            why,
            doc: setting.doc,
        };
        let mut texts: Vec<&str> = Vec::with_capacity(words.len());
        for word in &words {
            let text = std::str::from_utf8(word).map_err(|_| {
                bad(&String::from_utf8_lossy(word), "argument must be valid UTF-8".to_owned())
            })?;
            texts.push(text);
        }
        let is_first = !found.given.iter().any(|(known, _)| *known == id);
        let adds = !setting.kind.lines_add_up() || !is_first;
        let texts = setting.kind.words_of_line(&texts);
        let mut known = self.lock();
        let value = setting
            .kind
            .parse(&texts, if adds { &known[id.0] } else { "" })
            .map_err(|why| bad(&texts.join(" "), why))?;
        self.store(&mut known, id, &value);
        found.given.retain(|(known, _)| *known != id);
        found.given.push((id, place));
        Ok(())
    }

    /// Why a setting must not have this value.
    pub(super) fn refusal(&self, id: Id, text: &str) -> Option<&'static str> {
        let setting = setting(id);
        let is_harmless = match setting.group {
            Group::Ignored => foreign(id).is_some_and(|foreign| !foreign.is_expected_of(text)),
            _ => text == setting.default,
        };
        (!setting.refused.is_empty() && !is_harmless).then_some(setting.refused)
    }
}

impl Found {
    /// Notes a directive that a file may have any number of.
    fn note_file_only(&mut self, name: &str, words: Vec<Vec<u8>>, place: String) -> Result<(), Error> {
        if name.eq_ignore_ascii_case(LOADMODULE) {
            return Err(Error::Refused { name: LOADMODULE, place, why: NO_MODULES });
        }
        let words: [Vec<u8>; 2] = words.try_into().map_err(|words: Vec<Vec<u8>>| Error::BadRename {
            name: words
                .first()
                .map_or_else(String::new, |name| crate::error::shown(&String::from_utf8_lossy(name))),
            place: place.clone(),
            why: "wrong number of arguments",
        })?;
        debug_assert!(name.eq_ignore_ascii_case(RENAME_COMMAND));
        let [from, to] = words;
        self.renames.push(Rename { from, to, place });
        Ok(())
    }

    /// The first of the errors, if there are any.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        if self.errors.is_empty() {
            return Ok(());
        }
        let more = self.errors.len() - 1;
        let first = self.errors.swap_remove(0);
        Err(if more == 0 { first } else { Error::Several { first: Box::new(first), more } })
    }
}

/// Gives the commands of `table` the names that these lines want.
pub(crate) fn rename(table: &mut command::Table, renames: &[Rename]) -> Result<(), Error> {
    for Rename { from, to, place } in renames {
        table.rename(from, to).map_err(|why| Error::BadRename {
            name: crate::error::shown(&String::from_utf8_lossy(from)),
            place: place.clone(),
            why,
        })?;
    }
    Ok(())
}
