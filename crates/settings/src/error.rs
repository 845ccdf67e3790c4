//! Why a configuration is refused. Each error is a sentence for the person who wrote it.

/// Why the server cannot start with this configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be read, or is invalid.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A command cannot be renamed.
    #[error("cannot rename '{name}' {place}: {why}")]
    BadRename {
        /// The command.
        name: String,
        /// The place of the directive.
        place: String,
        /// The reason.
        why: &'static str,
    },
    /// Several lines are invalid.
    #[error("{first}; --test-config names this and {more} more")]
    Several {
        /// The first error.
        first: Box<Error>,
        /// How many more.
        more: usize,
    },
}
