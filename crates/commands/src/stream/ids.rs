//! Parses ids.

use ds::stream::StreamId;
use engine::CommandError;

const INVALID: CommandError =
    CommandError::fixed("ERR Invalid stream ID specified as stream command argument");
const INVALID_START: CommandError = CommandError::fixed("ERR invalid start ID for the interval");
const INVALID_END: CommandError = CommandError::fixed("ERR invalid end ID for the interval");

/// An id, with `seq` as its sequence number if that is missing. `-` and `+` are not allowed.
pub(super) fn parse_strict(text: &[u8], seq: u64) -> Result<StreamId, CommandError> {
    let (ms, given) = StreamId::parse(text).ok_or(INVALID)?;
    Ok(StreamId { ms, seq: given.unwrap_or(seq) })
}

/// Parses an id, or `-` for the smallest and `+` for the largest id.
pub(super) fn parse(text: &[u8], seq: u64) -> Result<StreamId, CommandError> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => parse_strict(text, seq),
    }
}

/// Ids; a missing sequence number is 0.
pub(super) fn parse_all(texts: &[&[u8]]) -> Result<Vec<StreamId>, CommandError> {
    texts.iter().map(|text| parse_strict(text, 0)).collect()
}

/// The beginning of a range; excluded if it is marked with `(`.
pub(super) fn parse_start(text: &[u8]) -> Result<StreamId, CommandError> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => parse_strict(id, 0)?.next().ok_or(INVALID_START),
        _ => parse(text, 0),
    }
}

/// The end of a range; excluded if it is marked with `(`.
pub(super) fn parse_end(text: &[u8]) -> Result<StreamId, CommandError> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => parse_strict(id, u64::MAX)?.prev().ok_or(INVALID_END),
        _ => parse(text, u64::MAX),
    }
}
