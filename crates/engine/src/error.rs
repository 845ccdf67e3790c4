//! The errors that clients see, with all texts of Redis 7.2 in one place; and the result that tells the
//! caller to run the command again.

use std::borrow::Cow;

use shard::ShardId;

/// An error reply, the text after the `-`, or [`CommandError::again`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandError(Why);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Why {
    Text(Cow<'static, [u8]>),
    Again(Box<[ShardId]>),
}

/// The result of a command function. `Ok`: it has written its reply.
pub type CommandResult = Result<(), CommandError>;

macro_rules! texts {
    ($($name:ident = $text:literal;)*) => {
        impl CommandError {
            $(#[doc = concat!("`", $text, "`")] pub const $name: CommandError = CommandError::fixed($text);)*
        }
    };
}

texts! {
    WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value";
    SYNTAX = "ERR syntax error";
    NOT_AN_INTEGER = "ERR value is not an integer or out of range";
    NOT_A_FLOAT = "ERR value is not a valid float";
    OUT_OF_RANGE = "ERR value is out of range";
    OUT_OF_RANGE_POSITIVE = "ERR value is out of range, must be positive";
    INDEX_OUT_OF_RANGE = "ERR index out of range";
    NO_SUCH_KEY = "ERR no such key";
    SAME_OBJECT = "ERR source and destination objects are the same";
    NUMKEYS_TOO_SMALL = "ERR numkeys should be greater than 0";
    INVALID_CURSOR = "ERR invalid cursor";
    DB_OUT_OF_RANGE = "ERR DB index is out of range";
    TIMEOUT_NOT_A_FLOAT = "ERR timeout is not a float or out of range";
    TIMEOUT_OUT_OF_RANGE = "ERR timeout is out of range";
    TIMEOUT_NEGATIVE = "ERR timeout is negative";
    TIMEOUT_NOT_AN_INTEGER = "ERR timeout is not an integer or out of range";
    STRING_TOO_LONG = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    OVERFLOW = "ERR increment or decrement would overflow";
    NAN_OR_INFINITY = "ERR increment would produce NaN or Infinity";
    NO_SCRIPT = "NOSCRIPT No matching script. Please use EVAL.";
    BUSY = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
    BUSY_WITH_FUNCTION = "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
    NOT_BUSY = "NOTBUSY No scripts in execution right now.";
    UNKILLABLE = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.";
    EXEC_ABORTED = "EXECABORT Transaction discarded because of previous errors.";
    NOT_FROM_SCRIPT = "ERR This Redis command is not allowed from script";
    NO_FUNCTION = "ERR Function not found";
    NOT_READ_ONLY = "ERR Can not execute a script with write flag using *_ro command.";
    LIBRARIES_TOO_LARGE = "OOM the libraries of functions take more than script-memory-bytes-max";
    LOADING = "LOADING Redis is loading the dataset in memory";
    NO_AUTH = "NOAUTH Authentication required.";
    OUT_OF_MEMORY = "OOM command not allowed when used memory > 'maxmemory'.";
}

impl CommandError {
    /// An error with this fixed text, which begins with its code word.
    pub const fn fixed(text: &'static str) -> Self {
        CommandError(Why::Text(Cow::Borrowed(text.as_bytes())))
    }

    /// An error with this text, which begins with its code word.
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        CommandError(Why::Text(Cow::Owned(text.into())))
    }

    /// Not an error: the command has changed nothing yet and has to run again with these shards entered. The
    /// caller does that ([`crate::Outcome::Again`]); no client sees this result.
    pub fn again(shards: impl IntoIterator<Item = ShardId>) -> Self {
        CommandError(Why::Again(shards.into_iter().collect()))
    }

    /// Whether the command is to run again.
    pub(crate) fn is_again(&self) -> bool {
        matches!(self.0, Why::Again(_))
    }

    /// The shards that the command needs to run again, if it has to.
    pub(crate) fn into_again(self) -> Result<Box<[ShardId]>, CommandError> {
        match self.0 {
            Why::Again(shards) => Ok(shards),
            Why::Text(_) => Err(self),
        }
    }

    /// An error that quotes what a client sent, shortened.
    pub fn quoting(before: &str, sent: &[u8], after: &str) -> Self {
        CommandError::new([before.as_bytes(), shown(sent, usize::MAX), after.as_bytes()].concat())
    }

    /// `ERR wrong number of arguments for '…' command`; `name` is the full name (`config|get`).
    pub fn wrong_arity(name: &str) -> Self {
        CommandError::new(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// The reply of `EXEC` if it was refused because of `error`: the transaction is discarded.
    pub fn aborting(error: &CommandError) -> Self {
        let reason = error.text().strip_prefix(b"ERR ").unwrap_or(error.text());
        CommandError::new([b"EXECABORT Transaction discarded because of: ", reason].concat())
    }

    /// `ERR invalid expire time in '…' command`.
    pub fn invalid_expire(name: &str) -> Self {
        CommandError::new(format!("ERR invalid expire time in '{name}' command"))
    }

    /// The text after the `-`.
    pub fn text(&self) -> &[u8] {
        match &self.0 {
            Why::Text(text) => text,
            Why::Again(_) => b"TRYAGAIN the command needs more shards",
        }
    }

    /// The code word, which `INFO errorstats` counts by.
    pub fn code(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.text().split(|&byte| byte == b' ').next().unwrap_or_default())
    }
}

/// The part of a client's text that an error quotes: at most `bytes_max` bytes, up to the first zero byte,
/// where Redis' texts end as well.
pub(crate) fn shown(sent: &[u8], bytes_max: usize) -> &[u8] {
    let text = sent.split(|&byte| byte == 0).next().unwrap_or_default();
    &text[..text.len().min(bytes_max)]
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.text()))
    }
}
