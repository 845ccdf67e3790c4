//! The rules of QUEUE PROMOTE: the sorted set whose due jobs move, the queue they join, and what is changed
//! in them and noted about them.
//!
//! ```text
//! QUEUE PROMOTE reports FROM later TO jobs:{$.queue} SADD queues STAMP enqueued_at
//!
//! {"queue":"mail","id":7} in later   ──▶   {"queue":"mail","id":7,"enqueued_at":…} in jobs:mail, and mail in queues
//! ```
//!
//! `{$.queue}` stands for the member `queue` at the top of the job, a JSON object. A rule is stored as words,
//! each with a letter in front, in which spaces, control bytes and `%` are escaped:
//! `flater tjobs:{$.queue} aqueues senqueued_at`.

use engine::CommandError;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, percent_encode};

use crate::queues::id::{json_member, json_text};

/// The bytes that are escaped in a word.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%');
/// The delimiters of a member of the job in the name of a queue.
const BEGIN: &[u8] = b"{$.";
const END: u8 = b'}';
/// The longest name of a queue that jobs are pushed onto: a limit is needed because the job's content is in
/// the hands of clients.
const QUEUE_BYTES_MAX: usize = 4096;

const BAD_QUEUE: CommandError = CommandError::fixed(
    "ERR TO is the key of a queue, in which {$.member} stands for a member of the job, such as queue:{$.queue}",
);
const BAD_STAMP: CommandError = CommandError::fixed(
    "ERR STAMP is the name of a member of JSON without quotes, backslashes and control bytes",
);
const SADD_OF_NONE: CommandError =
    CommandError::fixed("ERR SADD adds what {$.member} stands for, and TO has none");

/// A rule; see the head of this file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promotion {
    /// The sorted set.
    pub set: Vec<u8>,
    /// The key of the queue, with members of the job.
    pub to: Vec<u8>,
    /// The set to which the first of these members is added.
    pub listed: Option<Vec<u8>>,
    /// The member that is set to the time.
    pub stamp: Option<Vec<u8>>,
}

impl Promotion {
    /// The common prefix of all queues, if the job says which queue it joins.
    pub(crate) fn open_begin(&self) -> Option<&[u8]> {
        memchr::memmem::find(&self.to, BEGIN).map(|at| &self.to[..at])
    }

    /// Checks that the rule makes sense.
    ///
    /// # Errors
    /// If it does not.
    pub fn check(&self) -> Result<(), CommandError> {
        let mut has_member = false;
        for part in parts(&self.to) {
            match part {
                Part::Member(name) if name.is_empty() || !is_plain(name) => return Err(BAD_QUEUE),
                Part::Member(_) => has_member = true,
                Part::Text(text) if memchr::memmem::find(text, BEGIN).is_some() => return Err(BAD_QUEUE),
                Part::Text(_) => {}
            }
        }
        if self.to.is_empty() || self.to == self.set || self.to.len() > QUEUE_BYTES_MAX {
            return Err(BAD_QUEUE);
        }
        if self.listed.is_some() && !has_member {
            return Err(SADD_OF_NONE);
        }
        if self.stamp.as_ref().is_some_and(|stamp| stamp.is_empty() || !is_plain(stamp)) {
            return Err(BAD_STAMP);
        }
        Ok(())
    }

    /// The key of a job's queue, and the member to add to the set of queues; `None` if the job does not name
    /// a queue.
    pub fn queue_of(&self, job: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let (mut queue, mut first) = (Vec::new(), None);
        for part in parts(&self.to) {
            match part {
                Part::Text(text) => queue.extend_from_slice(text),
                Part::Member(name) => {
                    let value = json_text(json_member(job, std::str::from_utf8(name).ok()?)?)?;
                    queue.extend_from_slice(&value);
                    first.get_or_insert_with(|| value.into_owned());
                }
            }
        }
        let is_name = first.as_ref().is_none_or(|first| !first.is_empty()) && queue.len() <= QUEUE_BYTES_MAX;
        (is_name && queue != self.set).then_some((queue, first))
    }

    /// The rule as it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let words = [
            (b'f', Some(&self.set)),
            (b't', Some(&self.to)),
            (b'a', self.listed.as_ref()),
            (b's', self.stamp.as_ref()),
        ];
        let mut text = Vec::new();
        for (letter, word) in words {
            let Some(word) = word else { continue };
            if !text.is_empty() {
                text.push(b' ');
            }
            text.push(letter);
            text.extend_from_slice(percent_encode(word, ESCAPED).to_string().as_bytes());
        }
        text
    }

    /// Reads a stored rule; `None` if the text is not one, or makes no sense.
    pub fn decode(text: &[u8]) -> Option<Promotion> {
        let mut promotion = Promotion { set: Vec::new(), to: Vec::new(), listed: None, stamp: None };
        for word in text.split(|byte| *byte == b' ') {
            let (letter, word) = word.split_first()?;
            let word: Vec<u8> = percent_decode(word).collect();
            match letter {
                b'f' => promotion.set = word,
                b't' => promotion.to = word,
                b'a' => promotion.listed = Some(word),
                b's' => promotion.stamp = Some(word),
                _ => return None,
            }
        }
        promotion.check().ok()?;
        (!promotion.set.is_empty()).then_some(promotion)
    }
}

/// A part of the name of a queue.
enum Part<'a> {
    Text(&'a [u8]),
    Member(&'a [u8]),
}

fn parts(mut name: &[u8]) -> impl Iterator<Item = Part<'_>> {
    std::iter::from_fn(move || {
        if let Some(inner) = name.strip_prefix(BEGIN)
            && let Some(end) = memchr::memchr(END, inner)
        {
            name = &inner[end + 1..];
            return Some(Part::Member(&inner[..end]));
        }
        if name.is_empty() {
            return None;
        }
        let end = memchr::memmem::find(&name[1..], BEGIN).map_or(name.len(), |at| at + 1);
        let (text, rest) = name.split_at(end);
        name = rest;
        Some(Part::Text(text))
    })
}

/// Whether the name of a member needs no escapes in JSON.
fn is_plain(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok() && !name.iter().any(|byte| b"\"\\".contains(byte) || *byte < b' ')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn promotion(to: &str) -> Promotion {
        Promotion { set: b"later".to_vec(), to: to.into(), listed: None, stamp: None }
    }

    #[test]
    fn a_queue_is_named_by_members_of_the_job() {
        let queue = |to: &str, job: &str| {
            promotion(to).queue_of(job.as_bytes()).map(|(queue, first)| {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                (text(queue), first.map(text))
            })
        };
        let job = r#"{"queue":"mail","tenant":"a\"b","number":5,"none":""}"#;
        let found = |queue: &str, first: &str| Some((queue.to_owned(), Some(first.to_owned())));
        assert_eq!(queue("queue:{$.queue}", job), found("queue:mail", "mail"));
        assert_eq!(queue("{$.queue}", job), found("mail", "mail"));
        assert_eq!(queue("{x}{$.queue}:{$.tenant}", job), found("{x}mail:a\"b", "mail"));
        assert_eq!(queue("fixed", "any text"), Some(("fixed".to_owned(), None)));
        for (to, job) in [
            ("{$.queue}", "text"),
            ("{$.number}", job),
            ("{$.none}", job),
            ("{$.other}", job),
            ("{$.queue}", r#"{"queue":"later"}"#),
        ] {
            assert_eq!(queue(to, job), None, "{to} {job}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for to in ["", "later", "{$.}", "{$.queue", "a{$.b}{$.", "{$.a\"b}"] {
            assert_eq!(promotion(to).check(), Err(BAD_QUEUE), "{to}");
        }
        assert_eq!(
            Promotion { listed: Some(b"q".to_vec()), ..promotion("fixed") }.check(),
            Err(SADD_OF_NONE)
        );
        for stamp in ["", "a\"", "a\\", "a\n"] {
            assert_eq!(Promotion { stamp: Some(stamp.into()), ..promotion("a") }.check(), Err(BAD_STAMP));
        }
        assert_eq!(
            Promotion { listed: Some(b"q".to_vec()), stamp: Some("zeit".into()), ..promotion("a{$.q}") }
                .check(),
            Ok(())
        );
    }

    proptest! {
        #[test]
        fn what_is_kept_is_read(set in proptest::collection::vec(any::<u8>(), 1..9), to in proptest::collection::vec(any::<u8>(), 1..9)) {
            let promotion = Promotion { set, to: [b"{$.a}", &to[..]].concat(), listed: Some(to), stamp: Some(b"at".to_vec()) };
            prop_assume!(promotion.check().is_ok());
            prop_assert_eq!(Promotion::decode(&promotion.encode()), Some(promotion));
        }

        #[test]
        fn any_text_is_read_or_not(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(promotion) = Promotion::decode(&text) {
                let _ = promotion.queue_of(&text);
            }
        }
    }
}
