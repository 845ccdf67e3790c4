//! Why a link ends, worded for a line in the log.

use effectlog::StreamPosition;
use resp::ProtocolError;

use super::{LINE_BYTES_MAX, LinkState};

/// How much of what a primary said is shown.
const SHOWN_BYTES_MAX: usize = 128;

/// The reason why a link ends. Words of the primary are shown with escapes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Nothing arrived for longer than the limit.
    #[error("the primary was silent for more than {timeout_ms} ms (state {})", .state.name())]
    Silent {
        /// The state of the link.
        state: LinkState,
        /// The limit, in milliseconds.
        timeout_ms: u64,
    },
    /// A line is too long.
    #[error("the primary sent a line of more than {LINE_BYTES_MAX} bytes (state {})", .state.name())]
    LineTooLong {
        /// The state of the link.
        state: LinkState,
    },
    /// The primary answered PING with an error, or unexpectedly.
    #[error("Error reply to PING from master: '{0}'")]
    Ping(String),
    /// The primary does not accept the password.
    #[error("Unable to AUTH to MASTER: {0}")]
    Auth(String),
    /// The primary is loading, or has lost its own primary.
    #[error("Master is currently unable to PSYNC but should be in the future: {0}")]
    TryLater(String),
    /// The target of a failover does not take over.
    #[error("Failover target rejected psync request: {0}")]
    NoFailover(String),
    /// `+FULLRESYNC` or `+CONTINUE` with malformed arguments.
    #[error("Master replied to PSYNC with wrong syntax: {0}")]
    Psync(String),
    /// The primary sent an error instead of the snapshot.
    #[error("MASTER aborted replication with an error: {0}")]
    Aborted(String),
    /// The primary sent something else in place of the snapshot.
    #[error(
        "Bad protocol from MASTER, the first byte is not '$' (we received '{0}'), are you sure the host and port are right?"
    )]
    NoSnapshot(String),
    /// The snapshot has an impossible length.
    #[error("Bad protocol from MASTER, no snapshot has this length: {0}")]
    SnapshotLength(String),
    /// The stream contains a line instead of a command: perhaps a reply.
    #[error("Receiving inline protocol from master at offset {offset}, master stream corruption?")]
    Inline {
        /// Where the line begins.
        offset: StreamPosition,
    },
    /// The stream contains something that is not a command.
    #[error("Protocol error from master at offset {offset}: {error}")]
    Stream {
        /// The position of the error, or of the command that contains it.
        offset: StreamPosition,
        /// The error.
        error: ProtocolError,
    },
}

/// Words of a primary, for the log.
pub(super) fn shown(line: &[u8]) -> String {
    line[..line.len().min(SHOWN_BYTES_MAX)].escape_ascii().to_string()
}
