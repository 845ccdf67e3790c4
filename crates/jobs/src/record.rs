//! The record of a job, as text in one field of a hash: a line of words, and the payload.
//!
//! ```text
//! s=a n=2 w=host:4711:a1b2\n{"class":"HardWorker", …
//! │   │   └ the worker that has it
//! │   └ attempts begun
//! └ its state: w waiting, a active, d delayed, x dead
//! ```
//!
//! Further words: `m` attempts allowed, `g` the group, `u` the lock that it holds, `x` the time by which it
//! has to begin (ms), `e` why the last attempt failed, `p` the payload is in the list, `h` a hash of that
//! payload, `o` it goes back to the list as it was pushed, `i` its id was given to `JOB.PUT`, `t` it is
//! delayed until a time of day. Spaces, control bytes and `%` in a word are written as `%` and two
//! hexadecimal digits.

use std::str::from_utf8;

/// A job that has to begin by this time was dropped.
const DROPPED_MS: i64 = 0;
/// The usual length of a line without its texts.
const LINE_BYTES: usize = 32;

/// Where a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// In the list.
    Waiting,
    /// A worker has it.
    Active,
    /// It comes later.
    Delayed,
    /// It had all its attempts.
    Dead,
}

impl State {
    const ALL: [(State, u8, &str); 4] = [
        (State::Waiting, b'w', "waiting"),
        (State::Active, b'a', "active"),
        (State::Delayed, b'd', "delayed"),
        (State::Dead, b'x', "dead"),
    ];

    fn letter(self) -> u8 {
        Self::ALL[self as usize].1
    }

    /// The name that clients see.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL[self as usize].2
    }
}

/// The record of a job; the head of this file says what the fields mean.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) state: State,
    pub(crate) attempts: u64,
    pub(crate) attempts_max: Option<u64>,
    pub(crate) worker: Vec<u8>,
    pub(crate) group: Option<Vec<u8>>,
    pub(crate) lock: Option<Vec<u8>>,
    pub(crate) begins_until_ms: Option<i64>,
    pub(crate) why: Vec<u8>,
    /// Whether a client pushed it as it is, without an id of its own: it goes back as it was.
    pub(crate) is_pushed: bool,
    /// Whether its id was given to `JOB.PUT`.
    pub(crate) is_named: bool,
    /// Whether it was delayed until a time of day, not for a duration.
    pub(crate) is_at: bool,
    /// The [`hash`] of the payload that is in the list.
    pub(crate) payload_hash: Option<u32>,
    /// `None`: the payload is in the list.
    pub(crate) payload: Option<Vec<u8>>,
}

impl Record {
    /// The record of a job, knowing only its payload.
    pub(crate) fn new(state: State, payload: Option<Vec<u8>>) -> Record {
        Record {
            state,
            attempts: 0,
            attempts_max: None,
            worker: Vec::new(),
            group: None,
            lock: None,
            begins_until_ms: None,
            why: Vec::new(),
            is_pushed: false,
            is_named: false,
            is_at: false,
            payload_hash: None,
            payload,
        }
    }

    /// The record of a waiting job that takes are to pass over.
    pub(crate) fn dropped(self, reference: &[u8]) -> Record {
        assert!(self.state == State::Waiting, "takes pass over nothing but waiting jobs");
        let of_payload = self.payload.map_or(self.payload_hash, |_| Some(hash(reference)));
        Record {
            begins_until_ms: Some(DROPPED_MS),
            payload: None,
            payload_hash: of_payload,
            lock: None,
            ..self
        }
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.begins_until_ms == Some(DROPPED_MS)
    }

    /// Whether it has not begun, and is past the time by which it had to.
    pub(crate) fn comes_too_late(&self, now_ms: i64) -> bool {
        matches!(self.state, State::Waiting | State::Delayed)
            && self.begins_until_ms.is_some_and(|until_ms| until_ms < now_ms)
    }

    /// Whether the record belongs to this element of a list, which has the job's id. A client may have popped
    /// the job's element without a lease, and another job with the same id may have been pushed since.
    pub(crate) fn is_of(&self, element: &[u8]) -> bool {
        self.payload.is_none() && self.payload_hash.is_none_or(|of_payload| of_payload == hash(element))
    }

    /// Whether the record says no more than its absence would, for a waiting job whose payload is in the
    /// list.
    pub(crate) fn is_needless(&self) -> bool {
        *self == Record::new(State::Waiting, None)
    }

    /// The record as text.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let texts = [&self.worker, &self.why].map(Vec::len).into_iter();
        let options = [&self.group, &self.lock, &self.payload].map(|text| text.as_ref().map_or(0, Vec::len));
        let mut text = Vec::with_capacity(LINE_BYTES + texts.chain(options).sum::<usize>());
        text.extend([b's', b'=', self.state.letter()]);
        let mut number = itoa::Buffer::new();
        if self.attempts > 0 {
            push_word(&mut text, b'n', number.format(self.attempts).as_bytes());
        }
        if let Some(max) = self.attempts_max {
            push_word(&mut text, b'm', number.format(max).as_bytes());
        }
        if !self.worker.is_empty() {
            push_word(&mut text, b'w', &self.worker);
        }
        if let Some(group) = &self.group {
            push_word(&mut text, b'g', group);
        }
        if let Some(lock) = &self.lock {
            push_word(&mut text, b'u', lock);
        }
        if let Some(until_ms) = self.begins_until_ms {
            push_word(&mut text, b'x', number.format(until_ms).as_bytes());
        }
        if !self.why.is_empty() {
            push_word(&mut text, b'e', &self.why);
        }
        for (name, is_so) in [(b'o', self.is_pushed), (b'i', self.is_named), (b't', self.is_at)] {
            if is_so {
                push_word(&mut text, name, b"1");
            }
        }
        if let Some(of_payload) = self.payload_hash {
            push_word(&mut text, b'h', number.format(of_payload).as_bytes());
        }
        match &self.payload {
            Some(payload) => {
                text.push(b'\n');
                text.extend_from_slice(payload);
            }
            None => text.extend_from_slice(b" p"),
        }
        text
    }

    /// Reads a record; `None` if the text is not one.
    pub(crate) fn decode(text: &[u8]) -> Option<Record> {
        let (line, payload) = Record::split(text)?;
        let mut record = Record::decode_words(line, |_| true)?;
        record.payload = payload.map(<[u8]>::to_vec);
        Some(record)
    }

    /// Reads a record without payload, worker and reason: enough to end a lease.
    pub(crate) fn decode_line(text: &[u8]) -> Option<Record> {
        Record::decode_words(Record::split(text)?.0, |name| !matches!(name, b'w' | b'e'))
    }

    /// Splits a record into its line and its payload.
    fn split(text: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
        match memchr::memchr(b'\n', text) {
            Some(end) => Some((&text[..end], Some(&text[end + 1..]))),
            None => Some((text.strip_suffix(b" p")?, None)),
        }
    }

    /// Reads the words of a line for which `is_wanted` holds.
    fn decode_words(line: &[u8], is_wanted: impl Fn(u8) -> bool) -> Option<Record> {
        let mut words = line.split(|byte| *byte == b' ');
        let state = match words.next()? {
            [b's', b'=', letter] => State::ALL.iter().find(|(_, other, _)| other == letter)?.0,
            _ => return None,
        };
        let mut record = Record::new(state, None);
        for word in words {
            let [name, b'=', value @ ..] = word else { return None };
            match name {
                b'n' => record.attempts = number(value)?,
                b'm' => record.attempts_max = Some(number(value)?),
                name if !is_wanted(*name) => {}
                b'w' => record.worker = unescape(value)?,
                b'g' => record.group = Some(unescape(value)?),
                b'u' => record.lock = Some(unescape(value)?),
                b'x' => record.begins_until_ms = Some(number(value)?),
                b'e' => record.why = unescape(value)?,
                b'o' => record.is_pushed = true,
                b'i' => record.is_named = true,
                b't' => record.is_at = true,
                b'h' => record.payload_hash = Some(number(value)?),
                // A word of a later version.
                _ => {}
            }
        }
        Some(record)
    }
}

/// FNV-1a. The value is stored, so the function must not change.
pub(crate) fn hash(payload: &[u8]) -> u32 {
    payload.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    from_utf8(text).ok()?.parse().ok()
}

fn push_word(text: &mut Vec<u8>, name: u8, value: &[u8]) {
    text.extend([b' ', name, b'=']);
    let is_written_otherwise = |byte: u8| byte <= b' ' || byte == b'%' || byte == 0x7f;
    if !value.iter().any(|byte| is_written_otherwise(*byte)) {
        text.extend_from_slice(value);
        return;
    }
    for &byte in value {
        if is_written_otherwise(byte) {
            text.extend_from_slice(format!("%{byte:02x}").as_bytes());
        } else {
            text.push(byte);
        }
    }
}

fn unescape(value: &[u8]) -> Option<Vec<u8>> {
    if !value.contains(&b'%') {
        return Some(value.to_vec());
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record() -> impl Strategy<Value = Record> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
        let state = prop::sample::select(State::ALL.map(|(state, ..)| state).to_vec());
        (
            state,
            any::<u64>(),
            any::<Option<u64>>(),
            bytes(),
            proptest::option::of(bytes()),
            proptest::option::of(bytes()),
            any::<Option<i64>>(),
            bytes(),
            any::<[bool; 3]>(),
            any::<Option<u32>>(),
            proptest::option::of(bytes()),
        )
            .prop_map(
                |(
                    state,
                    attempts,
                    attempts_max,
                    worker,
                    group,
                    lock,
                    begins_until_ms,
                    why,
                    [is_pushed, is_named, is_at],
                    payload_hash,
                    payload,
                )| {
                    Record {
                        state,
                        attempts,
                        attempts_max,
                        worker,
                        group,
                        lock,
                        begins_until_ms,
                        why,
                        is_pushed,
                        is_named,
                        is_at,
                        payload_hash,
                        payload,
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(record in record()) {
            prop_assert_eq!(Record::decode(&record.encode()), Some(record));
        }

        #[test]
        fn any_text_is_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Record::decode(&text);
        }
    }

    #[test]
    fn it_is_text() {
        let mut record = Record::new(State::Active, Some(b"{}".to_vec()));
        (record.attempts, record.worker) = (2, b"host 1".to_vec());
        assert_eq!(record.encode(), b"s=a n=2 w=host%201\n{}");
        assert!(Record::new(State::Waiting, None).is_needless());
        assert_eq!(Record::new(State::Waiting, None).encode(), b"s=w p");
    }
}
