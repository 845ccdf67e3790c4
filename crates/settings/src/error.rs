//! Why a configuration is refused. Each error is a sentence for the person who wrote it.

/// The server cannot start with this configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read, or says what cannot be.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A command that cannot get another name.
    #[error("cannot rename '{name}' {place}: {why}")]
    BadRename {
        /// The command.
        name: String,
        /// Where that is said.
        place: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Several lines are wrong.
    #[error("{first}; --test-config names this and {more} more")]
    Several {
        /// The first of them.
        first: Box<Error>,
        /// How many more.
        more: usize,
    },
}
