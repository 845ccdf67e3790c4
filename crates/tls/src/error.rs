//! Why TLS cannot be set up as configured. Each error is a sentence for the person who wrote the settings.

use std::io;

/// Why TLS cannot be set up. Errors name the setting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is missing that others need.
    #[error("No {setting} configured!{hint}")]
    Missing {
        /// The setting.
        setting: &'static str,
        /// An alternative, with a space before it.
        hint: &'static str,
    },
    /// A file cannot be read.
    #[error("{setting}: cannot read {path}: {source}")]
    Unreadable {
        /// The setting that names it.
        setting: &'static str,
        /// The file or folder.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// A file has the wrong content.
    #[error("{setting}: {path}: {why}")]
    Unusable {
        /// The setting that names it.
        setting: &'static str,
        /// The file or folder.
        path: String,
        /// The reason.
        why: String,
    },
    /// A word in a setting is unknown, or names something that is not supported.
    #[error("{setting}: {why}")]
    Refused {
        /// The setting.
        setting: &'static str,
        /// The reason, and what to write instead.
        why: String,
    },
    /// An error of rustls.
    #[error("TLS cannot be set up: {0}")]
    Rustls(#[from] rustls::Error),
}
