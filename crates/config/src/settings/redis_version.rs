//! The versions of Redis that the server can claim to be.
//!
//! Clients decide by the version which commands they may use, so a claim has to be true enough: the default is the newest
//! version whose commands are here, except those of types of values that Darter does not have. Replicas and primaries are
//! told nothing of it; what they understand is found out by other means.

use crate::SettingKind;

/// The setting's kind. The number has one byte for each part of the version, as in scripts.
pub(crate) const KIND: SettingKind = SettingKind::Choice(&[
    ("7.2", 0x0007_0207),
    ("7.4", 0x0007_0400),
    ("8.0", 0x0008_0000),
    ("8.2", 0x0008_0200),
    ("8.4", 0x0008_0400),
    ("8.6", 0x0008_0600),
    ("8.8", 0x0008_0800),
    ("8.10", 0x0008_0a00),
    ("8.12", 0x0008_0c00),
]);

/// The text of a version of [`KIND`].
pub(crate) fn text(number: u32) -> &'static str {
    match number {
        0x0007_0207 => "7.2.7",
        0x0007_0400 => "7.4.0",
        0x0008_0000 => "8.0.0",
        0x0008_0200 => "8.2.0",
        0x0008_0400 => "8.4.0",
        0x0008_0600 => "8.6.0",
        0x0008_0800 => "8.8.0",
        0x0008_0a00 => "8.10.0",
        0x0008_0c00 => "8.12.0",
        _ => unreachable!("the setting is one of its kind's choices"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_that_of_its_text() {
        let SettingKind::Choice(choices) = KIND else { panic!("a choice") };
        for (name, number) in choices {
            let [major, minor, patch] = [16, 8, 0].map(|shift| (number >> shift) & 0xff);
            assert_eq!(text(*number as u32), format!("{major}.{minor}.{patch}"));
            assert_eq!(*name, format!("{major}.{minor}"));
        }
    }
}
