//! Directives of other servers that are known here but have no effect.
//!
//! A configuration written for another server must be accepted, so they are kept, and returned by `CONFIG GET`. Those
//! that are a promise are refused with any value but the harmless one ([`Foreign::refused`]). Of the others, those are
//! reported whose value is not the default, because their author expects an effect. If no value makes a
//! difference ([`Foreign::any`]), nothing is reported.

use crate::kind::SettingKind;
use crate::setting::Setting;

/// A directive of other servers.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    pub(crate) name: &'static str,
    pub(crate) kind: SettingKind,
    pub(crate) default: &'static str,
    /// The default of other versions; empty if they have the same one.
    pub(crate) other_default: &'static str,
    /// Whether the value makes no difference here.
    is_any_fine: bool,
    /// Why all values but the default are refused, and what to do instead; empty: they are accepted.
    pub(crate) refused: &'static str,
}

impl Foreign {
    /// A directive with its default in the other server.
    pub const fn of(name: &'static str, kind: SettingKind, default: &'static str) -> Foreign {
        Foreign { name, kind, default, other_default: "", is_any_fine: false, refused: "" }
    }

    /// Adds the default of another version.
    pub const fn also(self, other_default: &'static str) -> Foreign {
        Foreign { other_default, ..self }
    }

    /// Declares that the value makes no difference here.
    pub const fn any(self) -> Foreign {
        Foreign { is_any_fine: true, ..self }
    }

    /// Refuses all values but the default, because they would be a promise. `refused`: the reason, and what to do
    /// instead.
    pub const fn refused(self, refused: &'static str) -> Foreign {
        Foreign { refused, ..self }
    }

    /// The directive as a setting.
    pub(crate) fn setting(self) -> Setting {
        let Foreign { name, kind, default, refused, .. } = self;
        Setting { name, default, kind, refused, ..Setting::of("") }
    }

    /// Whether this value asks for something that the server does not do.
    pub(crate) fn is_expected_of(self, text: &str) -> bool {
        !(self.is_any_fine || text == self.default || (!text.is_empty() && text == self.other_default))
    }
}
