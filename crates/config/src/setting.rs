//! The declaration of a setting: the words of a table's blocks.

use crate::kind::SettingKind;

/// The number of a setting in its table; those without effect have the numbers behind the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Id(pub(crate) usize);

impl Id {
    /// The setting at this place of the table, counted from 0.
    pub const fn new(index: usize) -> Id {
        Id(index)
    }
}

/// When a setting may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// At any time, by `CONFIG SET`.
    Anytime,
    /// Only by clients that the owner of the table trusts: it says where files are written.
    Protected,
    /// Only at the start.
    AtStart,
}

/// A setting. `E` is what has to be done when one has changed; the table's owner says what there is.
#[derive(Clone, Copy, Debug)]
pub struct Setting<E> {
    /// Its name in `redis.conf`.
    pub name: &'static str,
    /// An older name for the same.
    pub alias: Option<&'static str>,
    /// What it may be.
    pub kind: SettingKind,
    /// What its number counts, as the help says it; empty: the kind says enough.
    pub unit: &'static str,
    /// What it is unless told otherwise.
    pub default: &'static str,
    /// When it may change.
    pub change: Change,
    /// What has to be done then; `None`: nothing, it is read where it is needed.
    pub effect: Option<E>,
    /// The heading under which the help lists it.
    pub group: &'static str,
    /// What it does; a phrase without a full stop.
    pub doc: &'static str,
    /// Its value is not shown where commands are: in MONITOR, in the slow log.
    pub is_secret: bool,
    /// Why every value but the default is refused, and what to do instead; empty: it is not.
    pub refused: &'static str,
}

impl<E> Setting<E> {
    /// For `..Setting::of(group)` in declarations: any text, empty by default, that may change at any time.
    pub const fn of(group: &'static str) -> Setting<E> {
        Setting {
            name: "",
            alias: None,
            kind: SettingKind::Text,
            unit: "",
            default: "",
            change: Change::Anytime,
            effect: None,
            group,
            doc: "",
            is_secret: false,
            refused: "",
        }
    }
}
