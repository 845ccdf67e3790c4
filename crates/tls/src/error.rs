//! Why TLS cannot be set up as configured. Each error is a sentence for the person who wrote the settings.

use std::io;

/// What is wrong, by the name of the setting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that the others need.
    #[error("No {setting} configured!{hint}")]
    Missing {
        /// The setting.
        setting: &'static str,
        /// What could be done instead, with a space in front.
        hint: &'static str,
    },
    /// A file that cannot be read.
    #[error("{setting}: cannot read {path}: {source}")]
    Unreadable {
        /// The setting that names it.
        setting: &'static str,
        /// The file or folder.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// A file with something else than it is there for.
    #[error("{setting}: {path}: {why}")]
    Unusable {
        /// The setting that names it.
        setting: &'static str,
        /// The file or folder.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A word that is not understood, or names what is not offered.
    #[error("{setting}: {why}")]
    Refused {
        /// The setting.
        setting: &'static str,
        /// What is wrong, and what to write instead.
        why: String,
    },
    /// What rustls has against it.
    #[error("TLS cannot be set up: {0}")]
    Rustls(#[from] rustls::Error),
}
