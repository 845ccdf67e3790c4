//! What can be wrong with a rule.

/// Why a rule is refused; the texts are those of Redis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// It is none, or has characters that it may not have.
    #[error("Syntax error")]
    Syntax,
    /// There is no such command or category.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// A pattern of keys where all are allowed.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try \
         'resetkeys' to start with an empty list of patterns"
    )]
    AllKeys,
    /// A pattern of channels where all are allowed.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. \
         Try 'resetchannels' to start with an empty list of channels"
    )]
    AllChannels,
    /// A password to be removed that the user has not got.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// A hash that cannot be one.
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    BadHash,
    /// An argument of a subcommand.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgOfSubcommand,
    /// The user has as many rules as one may have, or this one is longer than it may be.
    #[error("Too many rules, or too long a rule")]
    TooMuch,
}
