//! The elements that a search looks for.

use engine::{CommandError, keyword_is};
use memchr::memmem::Finder;

use crate::queues::id::{has_id, plain_part};

/// A condition on elements.
pub(crate) struct Pattern<'a> {
    wanted: Wanted<'a>,
    /// Bytes that every such element contains.
    part: Finder<'a>,
}

enum Wanted<'a> {
    /// The bytes, anywhere.
    Text,
    /// This id.
    Id(&'a [u8]),
}

impl<'a> Pattern<'a> {
    /// The pattern of the words `TEXT text` or `ID id`; `None` if `word` is neither.
    pub(crate) fn parse(word: &[u8], value: &'a [u8]) -> Result<Option<Self>, CommandError> {
        let wanted = if keyword_is(word, "text") {
            Wanted::Text
        } else if keyword_is(word, "id") {
            Wanted::Id(value)
        } else {
            return Ok(None);
        };
        if value.is_empty() {
            return Err(CommandError::new("ERR text and id must not be empty"));
        }
        let part = match wanted {
            Wanted::Text => value,
            Wanted::Id(id) => plain_part(id),
        };
        Ok(Some(Pattern { wanted, part: Finder::new(part) }))
    }

    /// Whether these bytes may contain a wanted element.
    pub(crate) fn may_be_in(&self, bytes: &[u8]) -> bool {
        self.part.find(bytes).is_some()
    }

    /// Whether this element is wanted.
    pub(crate) fn matches(&self, element: &[u8]) -> bool {
        self.may_be_in(element)
            && match self.wanted {
                Wanted::Text => true,
                Wanted::Id(id) => has_id(element, id),
            }
    }
}
