//! The declaration of a setting: the words of a table's blocks.

use crate::consequence::Consequence;
use crate::kind::SettingKind;

/// The number of a setting in its table. Directives without effect follow the settings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Id(pub(crate) usize);

impl Id {
    /// The setting with this index in the table.
    pub const fn new(index: usize) -> Id {
        Id(index)
    }
}

/// When a setting may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// At any time, with `CONFIG SET`.
    Anytime,
    /// Only by clients that the table's owner trusts, because it says where files are written.
    Protected,
    /// Only before the server starts.
    AtStart,
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name in `redis.conf`.
    pub name: &'static str,
    /// An older name.
    pub alias: Option<&'static str>,
    /// The values that it may have.
    pub kind: SettingKind,
    /// The unit of its number for the help; empty if the kind says enough.
    pub unit: &'static str,
    /// The default.
    pub default: &'static str,
    /// When it may change.
    pub change: Change,
    /// The consequence of a change; `None`: the value is read where it is needed, so nothing has to be done.
    pub effect: Option<Consequence>,
    /// The heading in the help.
    pub group: &'static str,
    /// The description: a phrase without a full stop.
    pub doc: &'static str,
    /// The value is hidden wherever commands are shown, as in MONITOR and the slow log.
    pub is_secret: bool,
    /// Why all values but the default are refused, and what to do instead; empty: they are accepted.
    pub refused: &'static str,
}

impl Setting {
    /// The common part of declarations, for `..Setting::of(group)`: a text, empty by default, that may change at any
    /// time.
    pub const fn of(group: &'static str) -> Setting {
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
