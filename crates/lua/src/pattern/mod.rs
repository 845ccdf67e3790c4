//! Lua 5.1's patterns, written after the description in its reference manual, with a bounded stack and a
//! count of steps.
//!
//! Lua's own matcher recurses for the rest of a pattern and tries every possibility. A pattern that
//! backtracks may take hours, and nothing can interrupt it. This matcher keeps the alternatives still to be
//! tried on its own stack, and counts its work.
//!
//! ```text
//! pattern  (%a+)-?x$    subject  ab-x    pending, when it is at the `x`s, the last one on top:
//!                 ▲                   ▲     Fewer { low: 2, high: 2, next: x$ }      without the `-`
//!                 item                at    Closed(0)                                then the capture is open again,
//!                                           Fewer { low: 1, high: 1, next: )-?x$ }   and has one letter
//! ```
//!
//! Items are matched from left to right. If one fails, matching continues at the last entry that has
//! something left to try. The order is that of Lua's matcher, so results are the same. Errors are the same,
//! too: a fault in a pattern is found when matching reaches it.
//!
//! Invariants:
//! - an item adds at most one entry, and no item is reached twice on one path, so there are at most as many entries as items;
//!   [`PENDING_COUNT_MAX`] bounds them all the same;
//! - the work between two steps is bounded.
//!
//! A zero byte ends a pattern, as in Lua 5.1 (`%z` matches one): callers cut the pattern there. Callers also
//! handle `^` at the front, because `string.gmatch` has no anchor.

mod class;
#[cfg(test)]
mod tests;

use std::ops::Range;

use class::{Single, is_in_class, is_in_set};

use crate::steps::{Over, STEP_COUNT, Steps};

/// Most captures in a pattern.
const CAPTURE_COUNT_MAX: usize = 32;
/// Most entries that may be pending. Lua 5.1 has no limit but the thread's stack, which it overflows.
const PENDING_COUNT_MAX: usize = 8192;
/// A larger stack of pending entries is freed after the match.
const PENDING_COUNT_KEPT: usize = 256;
/// Bytes of a set that are compared in one step.
const SET_STEP_BYTES: usize = 8;

/// Why there is no result. As wide as a position, so that a result or a fault fits into registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Fault {
    /// The script must end.
    Over,
    EndsWithEscape,
    SetWithoutEnd,
    FrontierWithoutSet,
    Unbalanced,
    TooManyCaptures,
    CloseWithoutOpen,
    NoSuchCapture,
    UnfinishedCapture,
    TooComplex,
}

impl Fault {
    /// Lua's error message for a faulty pattern or a request that it cannot fulfil.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Fault::Over => "interrupted",
            Fault::EndsWithEscape => "malformed pattern (ends with '%')",
            Fault::SetWithoutEnd => "malformed pattern (missing ']')",
            Fault::FrontierWithoutSet => "missing '[' after '%f' in pattern",
            Fault::Unbalanced => "unbalanced pattern",
            Fault::TooManyCaptures => "too many captures",
            Fault::CloseWithoutOpen => "invalid pattern capture",
            Fault::NoSuchCapture => "invalid capture index",
            Fault::UnfinishedCapture => "unfinished capture",
            Fault::TooComplex => "pattern too complex",
        }
    }
}

impl From<Over> for Fault {
    fn from(_: Over) -> Fault {
        Fault::Over
    }
}

/// The value of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Captured<'a> {
    Text(&'a [u8]),
    /// The position at `()`, counted from one.
    Position(usize),
}

#[derive(Clone, Copy)]
enum CaptureEnd {
    Open,
    Position,
    At(u32),
}

#[derive(Clone, Copy)]
struct Capture {
    start: u32,
    end: CaptureEnd,
}

/// An alternative to try when the items after it have failed. `low`, `high` and `at` are indexes into the
/// subject; `next`, `item` and `end` into the pattern.
#[derive(Clone, Copy)]
enum Pending {
    /// Ends a repetition earlier: at `high`, next time one before, down to `low`.
    Fewer { low: u32, high: u32, next: u32 },
    /// Extends a repetition of the item that ends at `end` by one more character, at `at`.
    More { at: u32, item: u32, end: u32 },
    /// Removes the last capture, which was opened here.
    Opened,
    /// Opens this capture again, which was closed here.
    Closed(u8),
}

/// Matches patterns, and keeps the captures of the last match.
pub(crate) struct Matcher {
    captures: [Capture; CAPTURE_COUNT_MAX],
    /// Number of captures in use.
    level: usize,
    pending: Vec<Pending>,
}

impl Default for Matcher {
    fn default() -> Matcher {
        let captures = [Capture { start: 0, end: CaptureEnd::Open }; CAPTURE_COUNT_MAX];
        Matcher { captures, level: 0, pending: Vec::new() }
    }
}

/// Cuts a pattern at its first zero byte.
#[inline]
pub(crate) fn until_end(pattern: &[u8]) -> &[u8] {
    match pattern.iter().position(|byte| *byte == 0) {
        Some(end) => &pattern[..end],
        None => pattern,
    }
}

/// The characters with a special meaning in patterns, and the zero byte that ends one.
static SPECIALS: [bool; 256] = {
    let mut specials = [false; 256];
    let bytes = b"^$*+?.([%-\0";
    let mut index = 0;
    while index < bytes.len() {
        specials[bytes[index] as usize] = true;
        index += 1;
    }
    specials
};

/// Whether a pattern, up to its end, is plain text.
#[inline]
pub(crate) fn is_plain(pattern: &[u8]) -> bool {
    let special = pattern.iter().find(|byte| SPECIALS[usize::from(**byte)]);
    special.is_none_or(|byte| *byte == 0)
}

/// The single item that every match starts with, if that is easy to see and the item is not optional.
#[inline]
fn head<'a>(pattern: &'a [u8], steps: &Steps<'_>) -> Result<Option<Single<'a>>, Fault> {
    // If the pattern starts with a capture, its content decides.
    let start = usize::from(pattern.first() == Some(&b'('));
    match pattern.get(start..) {
        Some([b'(' | b')' | b'$', ..] | [b'%', b'b' | b'f' | b'0'..=b'9', ..] | []) | None => Ok(None),
        Some(_) => {
            let end = item_end(pattern, start, steps)?;
            let may_be_left_out = matches!(pattern.get(end), Some(b'*' | b'?' | b'-'));
            Ok((!may_be_left_out).then(|| Single::of(pattern, start, end)))
        }
    }
}

/// The position of the next character that the item matches, at or after `from`.
#[inline]
fn skip_to(subject: &[u8], from: usize, head: Single<'_>, steps: &Steps<'_>) -> Result<Option<usize>, Fault> {
    let rest = &subject[from..];
    let skipped = match head {
        Single::Any => 0,
        Single::Byte(byte) => {
            let skipped = memchr::memchr(byte, rest).unwrap_or(rest.len());
            steps.take_bytes(skipped)?;
            skipped
        }
        Single::Class { mask, is_negated } => {
            count_while(rest, steps, |byte| !is_in_class(byte, mask, is_negated))?
        }
        Single::Set(set) => count_in_set(rest, set, false, steps)?,
    };
    Ok((skipped < rest.len()).then_some(from + skipped))
}

/// The end of the single item that starts at `start`, which its repetition mark may follow.
#[inline]
fn item_end(pattern: &[u8], start: usize, steps: &Steps<'_>) -> Result<usize, Fault> {
    match pattern[start] {
        b'%' if start + 1 == pattern.len() => Err(Fault::EndsWithEscape),
        b'%' => Ok(start + 2),
        b'[' => set_end(pattern, start, steps),
        _ => Ok(start + 1),
    }
}

/// The end of the set that starts at `start`. Its first character may be a `]`.
fn set_end(pattern: &[u8], start: usize, steps: &Steps<'_>) -> Result<usize, Fault> {
    let mut end = start + 1;
    if pattern.get(end) == Some(&b'^') {
        end += 1;
    }
    let first = end;
    loop {
        match pattern.get(end) {
            None => return Err(Fault::SetWithoutEnd),
            Some(b']') if end > first => break,
            Some(b'%') => end += if end + 1 < pattern.len() { 2 } else { 1 },
            Some(_) => end += 1,
        }
    }
    steps.take((end - start) / SET_STEP_BYTES)?;
    Ok(end + 1)
}

/// Number of characters at the front of `rest` that the item matches.
#[inline]
fn count_run(rest: &[u8], single: Single<'_>, steps: &Steps<'_>) -> Result<usize, Fault> {
    match single {
        Single::Any => Ok(rest.len()),
        Single::Byte(byte) => count_while(rest, steps, |other| other == byte),
        Single::Class { mask, is_negated } => {
            count_while(rest, steps, |byte| is_in_class(byte, mask, is_negated))
        }
        Single::Set(set) => count_in_set(rest, set, true, steps),
    }
}

/// Number of characters at the front of `rest` that are in the set, or are not.
#[inline]
fn count_in_set(rest: &[u8], set: &[u8], is_in: bool, steps: &Steps<'_>) -> Result<usize, Fault> {
    let mut count = 0;
    while count < rest.len() && is_in_set(rest[count], set) == is_in {
        count += 1;
        steps.take(1 + set.len() / SET_STEP_BYTES)?;
    }
    Ok(count)
}

#[inline]
fn count_while(rest: &[u8], steps: &Steps<'_>, is_in: impl Fn(u8) -> bool) -> Result<usize, Fault> {
    let mut count = 0;
    for piece in rest.chunks(STEP_COUNT as usize) {
        let length = piece.iter().position(|byte| !is_in(*byte)).unwrap_or(piece.len());
        steps.take(length)?;
        count += length;
        if length < piece.len() {
            break;
        }
    }
    Ok(count)
}

impl Matcher {
    /// Finds the first match that starts at `from` or, unless it is anchored there, later.
    ///
    /// # Errors If matching finds a fault in the pattern, or the script must end.
    #[inline]
    pub(crate) fn find(
        &mut self,
        subject: &[u8],
        pattern: &[u8],
        from: usize,
        is_anchored: bool,
        steps: &Steps<'_>,
    ) -> Result<Option<Range<usize>>, Fault> {
        let head = if is_anchored { None } else { head(pattern, steps)? };
        let mut start = from;
        let found = loop {
            if let Some(head) = head {
                let Some(next) = skip_to(subject, start, head, steps)? else { break None };
                start = next;
            }
            self.level = 0;
            self.pending.clear();
            if let Some(end) = self.match_at(subject, pattern, start, steps)? {
                break Some(start..end);
            }
            if is_anchored || start == subject.len() {
                break None;
            }
            start += 1;
        };
        if self.pending.capacity() > PENDING_COUNT_KEPT {
            self.pending = Vec::new();
        }
        Ok(found)
    }

    /// The end of the match that starts at `start`.
    fn match_at(
        &mut self,
        subject: &[u8],
        pattern: &[u8],
        start: usize,
        steps: &Steps<'_>,
    ) -> Result<Option<usize>, Fault> {
        let (mut at, mut item) = (start, 0);
        loop {
            steps.take(1)?;
            let Some(letter) = pattern.get(item) else { return Ok(Some(at)) };
            // Position and item to continue with, if this item matches.
            let goes_on = match (letter, pattern.get(item + 1)) {
                (b'(', Some(b')')) => {
                    self.open(at, CaptureEnd::Position)?;
                    Some((at, item + 2))
                }
                (b'(', _) => {
                    self.open(at, CaptureEnd::Open)?;
                    Some((at, item + 1))
                }
                (b')', _) => {
                    self.close(at)?;
                    Some((at, item + 1))
                }
                (b'$', None) => (at == subject.len()).then_some((at, item + 1)),
                (b'%', Some(b'b')) => balanced_end(&subject[at..], &pattern[item + 2..], steps)?
                    .map(|length| (at + length, item + 4)),
                (b'%', Some(b'f')) => {
                    let end = frontier_end(pattern, item + 2, steps)?;
                    let set = &pattern[item + 3..end - 1];
                    let before = if at == 0 { 0 } else { subject[at - 1] };
                    let after = subject.get(at).copied().unwrap_or(0);
                    (!is_in_set(before, set) && is_in_set(after, set)).then_some((at, end))
                }
                (b'%', Some(digit @ b'0'..=b'9')) => {
                    self.captured_again(subject, at, *digit, steps)?.map(|end| (end, item + 2))
                }
                _ => self.match_single(subject, pattern, at, item, steps)?,
            };
            (at, item) = match goes_on {
                Some(next) => next,
                None => match self.go_back(subject, pattern, steps)? {
                    Some(next) => next,
                    None => return Ok(None),
                },
            };
        }
    }

    /// Matches the single item at `item`, with its repetition.
    #[inline]
    fn match_single(
        &mut self,
        subject: &[u8],
        pattern: &[u8],
        at: usize,
        item: usize,
        steps: &Steps<'_>,
    ) -> Result<Option<(usize, usize)>, Fault> {
        let end = item_end(pattern, item, steps)?;
        let single = Single::of(pattern, item, end);
        let matched_count = match pattern.get(end) {
            Some(b'*' | b'+') => count_run(&subject[at..], single, steps)?,
            Some(b'-') => {
                self.push(Pending::More { at: at as u32, item: item as u32, end: end as u32 })?;
                return Ok(Some((at, end + 1)));
            }
            repeat => {
                let is_matched = subject.get(at).is_some_and(|byte| single.has(*byte));
                if repeat != Some(&b'?') {
                    return Ok(is_matched.then_some((at + 1, end)));
                }
                usize::from(is_matched)
            }
        };
        let least = usize::from(pattern[end] == b'+');
        if matched_count < least {
            return Ok(None);
        }
        if matched_count > least {
            let (low, high) = (at + least, at + matched_count - 1);
            self.push(Pending::Fewer { low: low as u32, high: high as u32, next: end as u32 + 1 })?;
        }
        Ok(Some((at + matched_count, end + 1)))
    }

    /// Backtracks to the last entry that has something left to try. `None` if there is none.
    #[inline]
    fn go_back(
        &mut self,
        subject: &[u8],
        pattern: &[u8],
        steps: &Steps<'_>,
    ) -> Result<Option<(usize, usize)>, Fault> {
        while let Some(pending) = self.pending.last_mut() {
            match pending {
                Pending::Fewer { low, high, next } => {
                    let (at, next) = (*high as usize, *next as usize);
                    if high == low {
                        self.pending.pop();
                    } else {
                        *high -= 1;
                    }
                    return Ok(Some((at, next)));
                }
                Pending::More { at, item, end } => {
                    let (item, end) = (*item as usize, *end as usize);
                    steps.take((end - item) / SET_STEP_BYTES)?;
                    let byte = subject.get(*at as usize);
                    if byte.is_some_and(|byte| Single::of(pattern, item, end).has(*byte)) {
                        *at += 1;
                        return Ok(Some((*at as usize, end + 1)));
                    }
                }
                Pending::Opened => self.level -= 1,
                Pending::Closed(index) => self.captures[usize::from(*index)].end = CaptureEnd::Open,
            }
            self.pending.pop();
        }
        Ok(None)
    }

    #[inline]
    fn push(&mut self, pending: Pending) -> Result<(), Fault> {
        if self.pending.len() == PENDING_COUNT_MAX {
            return Err(Fault::TooComplex);
        }
        self.pending.push(pending);
        Ok(())
    }

    /// Begins a capture.
    #[inline]
    fn open(&mut self, at: usize, end: CaptureEnd) -> Result<(), Fault> {
        let Some(capture) = self.captures.get_mut(self.level) else {
            return Err(Fault::TooManyCaptures);
        };
        *capture = Capture { start: at as u32, end };
        self.level += 1;
        // With nothing pending, nothing can be undone: the match fails as a whole.
        if self.pending.is_empty() { Ok(()) } else { self.push(Pending::Opened) }
    }

    /// Closes the capture that was opened last.
    #[inline]
    fn close(&mut self, at: usize) -> Result<(), Fault> {
        let captures = &mut self.captures[..self.level];
        let last = captures.iter().rposition(|capture| matches!(capture.end, CaptureEnd::Open));
        let index = last.ok_or(Fault::CloseWithoutOpen)?;
        captures[index].end = CaptureEnd::At(at as u32);
        if self.pending.is_empty() { Ok(()) } else { self.push(Pending::Closed(index as u8)) }
    }

    /// `%1`: the end of the captured text, if that text is repeated at `at`.
    fn captured_again(
        &self,
        subject: &[u8],
        at: usize,
        digit: u8,
        steps: &Steps<'_>,
    ) -> Result<Option<usize>, Fault> {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        let capture = index.and_then(|index| self.captures[..self.level].get(index));
        let Some(Capture { start, end: end @ (CaptureEnd::Position | CaptureEnd::At(_)) }) = capture else {
            return Err(Fault::NoSuchCapture);
        };
        // A position is not text, so it does not match.
        let CaptureEnd::At(end) = end else { return Ok(None) };
        let text = &subject[*start as usize..*end as usize];
        steps.take_bytes(text.len())?;
        Ok(subject[at..].starts_with(text).then_some(at + text.len()))
    }

    /// Number of captures of the last match.
    #[inline]
    pub(crate) fn level(&self) -> usize {
        self.level
    }

    /// A capture of the last match. If the pattern has no captures, capture 0 is the whole match.
    ///
    /// # Errors If there is no such capture, or it was not closed.
    #[inline]
    pub(crate) fn captured<'a>(
        &self,
        subject: &'a [u8],
        index: usize,
        matched: &Range<usize>,
    ) -> Result<Captured<'a>, Fault> {
        let Some(Capture { start, end }) = self.captures[..self.level].get(index) else {
            return match index {
                0 => Ok(Captured::Text(&subject[matched.clone()])),
                _ => Err(Fault::NoSuchCapture),
            };
        };
        match end {
            CaptureEnd::Open => Err(Fault::UnfinishedCapture),
            CaptureEnd::Position => Ok(Captured::Position(*start as usize + 1)),
            CaptureEnd::At(end) => Ok(Captured::Text(&subject[*start as usize..*end as usize])),
        }
    }
}

/// `%bxy`: the length of the text at the front of `rest` that starts with x and ends with the matching y.
fn balanced_end(rest: &[u8], pair: &[u8], steps: &Steps<'_>) -> Result<Option<usize>, Fault> {
    let [open, close, ..] = pair else { return Err(Fault::Unbalanced) };
    if rest.first() != Some(open) {
        return Ok(None);
    }
    let (mut depth, mut length) = (1, 1);
    for piece in rest[1..].chunks(STEP_COUNT as usize) {
        for byte in piece {
            length += 1;
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    steps.take(length % STEP_COUNT as usize)?;
                    return Ok(Some(length));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        steps.take(piece.len())?;
    }
    Ok(None)
}

/// `%f[set]`: the end of the set that starts at `start`.
fn frontier_end(pattern: &[u8], start: usize, steps: &Steps<'_>) -> Result<usize, Fault> {
    if pattern.get(start) != Some(&b'[') {
        return Err(Fault::FrontierWithoutSet);
    }
    let end = set_end(pattern, start, steps)?;
    steps.take((end - start) / SET_STEP_BYTES)?;
    Ok(end)
}
