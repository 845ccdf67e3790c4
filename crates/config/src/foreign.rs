//! Directives of other servers that are known here but have no effect.
//!
//! A configuration written for another server must be accepted, so they are kept, and returned by `CONFIG GET`. Those
//! that are a promise are refused with any value but the harmless one ([`Foreign::refused`]). Of the others, those are
//! reported whose value is not the default, because then somebody expects something of them. If no value makes a
//! difference ([`Foreign::any`]), nothing is reported.

use crate::kind::SettingKind;
use crate::setting::Setting;

/// A directive of other servers.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    pub(crate) name: &'static str,
    pub(crate) kind: SettingKind,
    pub(crate) default: &'static str,
    /// The default of other versions; empty: there is none.
    pub(crate) other_default: &'static str,
    /// Whether no value makes a difference here.
    is_any_fine: bool,
    /// Why every other value is refused, and what to do instead; empty: it is not.
    pub(crate) refused: &'static str,
}

impl Foreign {
    /// A directive with the default that it has elsewhere.
    pub const fn of(name: &'static str, kind: SettingKind, default: &'static str) -> Foreign {
        Foreign { name, kind, default, other_default: "", is_any_fine: false, refused: "" }
    }

    /// Another version has this default.
    pub const fn also(self, other_default: &'static str) -> Foreign {
        Foreign { other_default, ..self }
    }

    /// No value makes a difference here.
    pub const fn any(self) -> Foreign {
        Foreign { is_any_fine: true, ..self }
    }

    /// It would be a promise; this is why it is refused, and what to do instead.
    pub const fn refused(self, refused: &'static str) -> Foreign {
        Foreign { refused, ..self }
    }

    /// The setting that it is.
    pub(crate) fn setting<E>(self) -> Setting<E> {
        let Foreign { name, kind, default, refused, .. } = self;
        Setting { name, default, kind, refused, ..Setting::of("") }
    }

    /// Whether somebody who sets it to `text` expects something that is not done.
    pub(crate) fn is_expected_of(self, text: &str) -> bool {
        !(self.is_any_fine || text == self.default || (!text.is_empty() && text == self.other_default))
    }
}
