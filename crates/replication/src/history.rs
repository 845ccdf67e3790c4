//! The ids of the stream. Two servers that know the stream by the same id have the same bytes as far as both have any.

use effectlog::StreamPosition;

/// Forty hexadecimal digits.
pub type ReplicationId = [u8; 40];

/// A random id. The mark at the end of a snapshot of unannounced length is such an id, too.
pub fn random_id(mut number: impl FnMut() -> u64) -> ReplicationId {
    let text: String = (0..5).map(|_| format!("{:08x}", number() as u32)).collect();
    text.into_bytes().try_into().expect("it has forty digits")
}

/// See the head of this file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct History {
    /// The current id of the stream.
    pub id: ReplicationId,
    /// Its previous id, and the offset up to which it is valid.
    pub previous: Option<(ReplicationId, StreamPosition)>,
}

impl std::fmt::Display for History {
    /// For the log.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "this stream is {}", self.id.escape_ascii())?;
        match &self.previous {
            Some((id, end)) => write!(out, ", and up to offset {end} {}", id.escape_ascii()),
            None => Ok(()),
        }
    }
}

impl History {
    /// The history of a stream that no other server knows yet.
    pub fn new(id: ReplicationId) -> History {
        History { id, previous: None }
    }

    /// The id by which others know the stream up to `offset`, if none of them has received anything under the current
    /// id.
    pub fn id_at(&self, offset: StreamPosition) -> ReplicationId {
        self.previous.filter(|(_, end)| *end == offset).map_or(self.id, |(previous, _)| previous)
    }

    /// Whether a server that knows the stream by `id` up to `offset` has nothing that this one lacks.
    pub fn knows(&self, id: &[u8], offset: StreamPosition) -> bool {
        id.eq_ignore_ascii_case(&self.id)
            || self
                .previous
                .is_some_and(|(previous, end)| id.eq_ignore_ascii_case(&previous) && offset <= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_id_counts_up_to_where_it_ended() {
        let (new, old) = ([b'a'; 40], [b'b'; 40]);
        let history = History { id: new, previous: Some((old, StreamPosition::new(100))) };
        for (id, offset, expected) in [
            (&new[..], 1_000, true),
            (&[b'A'; 40], 0, true),
            (&old, 100, true),
            (&old, 101, false),
            (b"?", 0, false),
            (&[b'c'; 40], 0, false),
        ] {
            assert_eq!(history.knows(id, StreamPosition::new(offset)), expected, "{}", id.escape_ascii());
        }
        assert!(!History::new(new).knows(&old, StreamPosition::START));
        let ids = [100, 101].map(|offset| history.id_at(StreamPosition::new(offset)));
        assert_eq!((ids, History::new(new).id_at(StreamPosition::START)), ([old, new], new));
    }
}
