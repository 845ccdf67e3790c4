//! The reasons for which a rule is refused.

/// Why a rule is refused. The texts are those of Redis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// It is not a rule, or has characters that are not allowed.
    #[error("Syntax error")]
    Syntax,
    /// There is no such command or category.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// A pattern of keys, though all keys are allowed.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try \
         'resetkeys' to start with an empty list of patterns"
    )]
    AllKeys,
    /// A pattern of channels, though all channels are allowed.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. \
         Try 'resetchannels' to start with an empty list of channels"
    )]
    AllChannels,
    /// A password to be removed that the user does not have.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// Not the hash of a password.
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    BadHash,
    /// A first argument of a subcommand.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgOfSubcommand,
    /// The number of a database is negative or too large.
    #[error("The provided database ID is out of range")]
    DbOutOfRange,
    /// The user has too many rules, or this one is too long.
    #[error("Too many rules, or too long a rule")]
    TooMuch,
}
