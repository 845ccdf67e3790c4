//! The values of a table's settings, while the program runs.
//!
//! A number of each setting with an effect is an atomic, so that the hot path reads it without a lock; the texts, which only
//! `CONFIG` and the start need, are behind one. A change is checked as a whole before any of it is stored.
//!
//! ```text
//!   redis.conf ─┐
//!   arguments ──┼─▶ kind.rs: text → value ─▶ numbers (atomics), texts ─▶ the owner's accessors, CONFIG GET
//!   CONFIG SET ─┘
//! ```
//!
//! Not here: how the values of the start are found (`merge.rs`), and what follows from a change (the table's owner).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Refusal;
use crate::kind::Value;
use crate::setting::{Change, Id};
use crate::table::Table;

/// The values of all settings of a table. `COUNT`: the number of settings with an effect.
#[derive(Debug)]
pub struct Values<const COUNT: usize> {
    pub(crate) table: &'static Table,
    numbers: [AtomicI64; COUNT],
    /// The texts of all settings, then of the directives without effect.
    texts: Mutex<Vec<Arc<str>>>,
    /// The configuration file, which `CONFIG REWRITE` writes.
    config_file: Option<PathBuf>,
}

/// A change by `CONFIG SET`: each setting with its values before and after.
#[derive(Debug)]
pub struct Changed(Vec<(Id, Value, Value)>);

impl Changed {
    /// The settings that were changed, in the order of the command.
    pub fn ids(&self) -> impl Iterator<Item = Id> {
        self.0.iter().map(|(id, ..)| *id)
    }
}

impl<const COUNT: usize> Values<COUNT> {
    /// All settings have their defaults.
    ///
    /// # Panics
    /// If the table does not have `COUNT` settings with an effect, or a default is invalid.
    pub fn new(table: &'static Table) -> Self {
        assert_eq!(table.settings.len(), COUNT, "each number has its place");
        let values: Vec<Value> = table.all().map(|(_, setting)| setting.default_value()).collect();
        Values {
            table,
            numbers: std::array::from_fn(|index| AtomicI64::new(values[index].number)),
            texts: Mutex::new(values.iter().map(|value| Arc::from(value.text.as_str())).collect()),
            config_file: None,
        }
    }

    /// The number of a setting; see [`Value`].
    #[inline]
    pub fn number(&self, id: Id) -> i64 {
        self.numbers[id.0].load(Ordering::Relaxed)
    }

    /// Whether the number is not 0: a switch is on, a choice is not the first one, a text is not empty.
    #[inline]
    pub fn is_on(&self, id: Id) -> bool {
        self.number(id) != 0
    }

    /// The text of a setting, as in `CONFIG GET`.
    pub fn text(&self, id: Id) -> Arc<str> {
        self.lock()[id.0].clone()
    }

    /// Calls `take` with the text of a setting under the lock. So of two calls the later one never sees an older text.
    pub fn with_text(&self, id: Id, take: impl FnOnce(&str)) {
        take(&self.lock()[id.0]);
    }

    /// The configuration file.
    pub fn config_file(&self) -> Option<&Path> {
        self.config_file.as_deref()
    }

    /// Records the configuration file.
    pub fn note_config_file(&mut self, path: Option<PathBuf>) {
        self.config_file = path;
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Arc<str>>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn store(&self, texts: &mut [Arc<str>], id: Id, value: &Value) {
        texts[id.0] = value.text.as_str().into();
        if let Some(number) = self.numbers.get(id.0) {
            number.store(value.number, Ordering::Relaxed);
        }
    }

    /// Sets a value that the system requires, without any check.
    pub fn force(&self, id: Id, value: &Value) {
        self.store(&mut self.lock(), id, value);
    }

    /// `CONFIG SET`: applies all `pairs`, or none if one is invalid. `may_protected`: the client may change settings
    /// that say where files are written.
    ///
    /// # Errors
    /// The first setting that is unknown or may not change; otherwise, the first invalid value.
    pub fn change(&self, pairs: &[(&str, &str)], may_protected: bool) -> Result<Changed, Refusal> {
        let mut ids: Vec<Id> = Vec::with_capacity(pairs.len());
        for (name, _) in pairs {
            let id = self.table.find(name).ok_or_else(|| Refusal::Unknown((*name).to_owned()))?;
            let setting = self.table.setting(id);
            let is_protected = setting.change == Change::Protected && !may_protected;
            let why = match setting.change {
                Change::AtStart => "can't set immutable config",
                Change::Protected if is_protected => "can't set protected config",
                Change::Anytime | Change::Protected if ids.contains(&id) => "duplicate parameter",
                Change::Anytime | Change::Protected => {
                    ids.push(id);
                    continue;
                }
            };
            return Err(Refusal::Setting { name: setting.name, why: why.to_owned() });
        }
        let mut texts = self.lock();
        let mut changed = Vec::with_capacity(pairs.len());
        for (&id, (_, word)) in ids.iter().zip(pairs) {
            let setting = self.table.setting(id);
            let failed = |why| Refusal::Setting { name: setting.name, why };
            let current = if setting.kind.lines_add_up() { "" } else { &texts[id.0] };
            let value = setting.kind.parse(&[word], current).map_err(failed)?;
            if let Some(why) = self.table.refusal(id, &value.text) {
                return Err(failed(why.to_owned()));
            }
            let number = self.numbers.get(id.0).map_or(0, |number| number.load(Ordering::Relaxed));
            changed.push((id, Value { number, text: texts[id.0].to_string() }, value));
        }
        for (id, _, value) in &changed {
            self.store(&mut texts, *id, value);
        }
        Ok(Changed(changed))
    }

    /// Undoes a change, because its consequences failed.
    pub fn undo(&self, changed: &Changed) {
        let mut texts = self.lock();
        for (id, before, _) in &changed.0 {
            self.store(&mut texts, *id, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{COUNT, DIR, PORT, SAVE, TABLE, TIMEOUT};

    #[track_caller]
    fn check(values: &Values<COUNT>, pairs: &[(&str, &str)], expected: Result<(), &str>) {
        let outcome = values.change(pairs, false).map(|_| ()).map_err(|refusal| refusal.to_string());
        assert_eq!(outcome, expected.map_err(str::to_owned), "{pairs:?}");
    }

    #[test]
    fn a_change_happens_as_a_whole_or_not_at_all() {
        let values = Values::new(&TABLE);
        check(&values, &[("timeout", "7"), ("PORT", "3"), ("save", "5"), ("hz", "100")], Ok(()));
        assert_eq!((values.number(TIMEOUT), values.number(PORT), &*values.text(SAVE)), (7, 3, "5"));
        check(
            &values,
            &[("port", "9"), ("timeout", "x")],
            Err("'timeout': argument couldn't be parsed into an integer"),
        );
        check(&values, &[("timeout", "9"), ("TIMEOUT", "8")], Err("'timeout': duplicate parameter"));
        check(
            &values,
            &[("timeout", "9"), ("proactor-threads", "3")],
            Err("'proactor-threads': can't set immutable config"),
        );
        check(&values, &[("dir", "/")], Err("'dir': can't set protected config"));
        check(&values, &[("timeout", "9"), ("nope", "3")], Err("unknown setting 'nope'"));
        check(&values, &[("timeout", "9"), ("appendonly", "yes")], Err("'appendonly': there is no file"));
        check(&values, &[("replicaof", "a 1")], Err("'replicaof': there is no replication"));
        assert_eq!((&*values.text(TIMEOUT), values.number(PORT)), ("7", 3));
        assert!(values.change(&[("dir", "/")], true).is_ok());
    }

    #[test]
    fn a_change_can_be_taken_back() {
        let values: Values<COUNT> = Values::new(&TABLE);
        let changed = values.change(&[("timeout", "7"), ("dir", "/x")], true).unwrap();
        assert_eq!(changed.ids().collect::<Vec<_>>(), [TIMEOUT, DIR]);
        values.undo(&changed);
        assert_eq!((values.number(TIMEOUT), &*values.text(DIR), values.is_on(DIR)), (0, "", false));
    }
}
