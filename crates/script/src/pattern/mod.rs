//! Lua 5.1's patterns, after the description in its reference manual, with a bounded stack and a count of steps.
//!
//! Lua's own matcher calls itself for what follows an item, and goes on until it has tried everything: a pattern that backtracks may
//! take hours, in which nothing interrupts it. This one keeps what is still to be tried on a stack of its own, and counts what it does.
//!
//! ```text
//! pattern  (%a+)-?x$    subject  ab-x    pending, when it is at the `x`s, the last one on top:
//!                 ▲                   ▲     Fewer { low: 2, high: 2, next: x$ }      without the `-`
//!                 item                at    Closed(0)                                then the capture is open again,
//!                                           Fewer { low: 1, high: 1, next: )-?x$ }   and has one letter
//! ```
//!
//! Items are matched from left to right; where one fails, the last entry that still has something to try says where to go on. The order
//! is that of Lua's matcher, so results are the same, and so are errors: a fault in a pattern is found when its place is reached.
//!
//! Invariants:
//! - an item of the pattern adds at most one entry, and no item is reached twice on one way, so there are at most as many as the pattern
//!   has items; [`PENDING_COUNT_MAX`] bounds them all the same;
//! - between two steps lies a bounded amount of work.
//!
//! A zero byte ends a pattern, as in Lua 5.1 (`%z` stands for one): callers cut it there. `^` at the front is the callers', too:
//! `string.gmatch` knows no anchor.

mod class;
#[cfg(test)]
mod tests;

use std::ops::Range;

use class::{Single, is_in_class, is_in_set};

use crate::steps::{Over, STEP_COUNT, Steps};

/// How many captures a pattern may have.
const CAPTURE_COUNT_MAX: usize = 32;
/// How many entries may wait to be tried. Lua 5.1 has no limit but the stack of the thread, which it overruns.
const PENDING_COUNT_MAX: usize = 8192;
/// So many entries stay allocated.
const PENDING_COUNT_KEPT: usize = 256;
/// So many bytes of a set are compared in one step.
const SET_STEP_BYTES: usize = 8;

/// Why there is no answer. As wide as a place, so that a result of either fits into registers.
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
    /// What Lua says of a pattern that is wrong, or of what is asked of it.
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

/// What a capture has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Captured<'a> {
    Text(&'a [u8]),
    /// The place of `()`, counted from one.
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

/// What is tried when the items behind it have failed. Places are indexes of the subject, and `next`, `item` and `end` of the pattern.
#[derive(Clone, Copy)]
enum Pending {
    /// A repetition that ends earlier: at `high`, and then down to `low`.
    Fewer { low: u32, high: u32, next: u32 },
    /// A repetition, of the item that ends at `end`, that goes on for one more character at `at`.
    More { at: u32, item: u32, end: u32 },
    /// The last capture was opened: it is given up.
    Opened,
    /// This capture was closed: it is open again.
    Closed(u8),
}

/// Matches patterns; keeps what the last one captured.
pub(crate) struct Matcher {
    captures: [Capture; CAPTURE_COUNT_MAX],
    /// How many of them there are.
    level: usize,
    pending: Vec<Pending>,
}

impl Default for Matcher {
    fn default() -> Matcher {
        let captures = [Capture { start: 0, end: CaptureEnd::Open }; CAPTURE_COUNT_MAX];
        Matcher { captures, level: 0, pending: Vec::new() }
    }
}

/// Cuts a pattern where it ends.
#[inline]
pub(crate) fn until_end(pattern: &[u8]) -> &[u8] {
    match pattern.iter().position(|byte| *byte == 0) {
        Some(end) => &pattern[..end],
        None => pattern,
    }
}

/// What has a meaning of its own in patterns, and what ends them.
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

/// Whether a pattern, up to its end, stands for itself.
#[inline]
pub(crate) fn is_plain(pattern: &[u8]) -> bool {
    let special = pattern.iter().find(|byte| SPECIALS[usize::from(**byte)]);
    special.is_none_or(|byte| *byte == 0)
}

/// The item that each match begins with, where that is plain to see: a single one that is not left out.
#[inline]
fn head<'a>(pattern: &'a [u8], steps: &Steps<'_>) -> Result<Option<Single<'a>>, Fault> {
    // What is in a capture begins it.
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

/// Where the next character lies that the item stands for.
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

/// Where the single item ends that begins at `start`: behind it may stand how often it is repeated.
#[inline]
fn item_end(pattern: &[u8], start: usize, steps: &Steps<'_>) -> Result<usize, Fault> {
    match pattern[start] {
        b'%' if start + 1 == pattern.len() => Err(Fault::EndsWithEscape),
        b'%' => Ok(start + 2),
        b'[' => set_end(pattern, start, steps),
        _ => Ok(start + 1),
    }
}

/// Where the set ends that begins at `start`. Its first character may be a `]`.
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

/// How many characters at the front of `rest` the item stands for.
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

/// How many characters at the front of `rest` the set stands for, or does not.
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
    /// The first match that begins at `from` or, unless it is anchored there, behind it.
    ///
    /// # Errors
    /// When the pattern turns out to be wrong, or the script must end.
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

    /// Where the match ends that begins at `start`.
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
            // Where to go on, if the item matches here.
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

    /// Matches the single item at `item` as often as it says.
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

    /// Takes up what was put off last: where to go on, if anything is left to try.
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
        // Where nothing waits, nothing is undone: the match fails as a whole.
        if self.pending.is_empty() { Ok(()) } else { self.push(Pending::Opened) }
    }

    /// Ends the capture that was begun last.
    #[inline]
    fn close(&mut self, at: usize) -> Result<(), Fault> {
        let captures = &mut self.captures[..self.level];
        let last = captures.iter().rposition(|capture| matches!(capture.end, CaptureEnd::Open));
        let index = last.ok_or(Fault::CloseWithoutOpen)?;
        captures[index].end = CaptureEnd::At(at as u32);
        if self.pending.is_empty() { Ok(()) } else { self.push(Pending::Closed(index as u8)) }
    }

    /// Where what `%1` has captured ends, if it stands here again.
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
        // A position is no text, so it stands nowhere.
        let CaptureEnd::At(end) = end else { return Ok(None) };
        let text = &subject[*start as usize..*end as usize];
        steps.take_bytes(text.len())?;
        Ok(subject[at..].starts_with(text).then_some(at + text.len()))
    }

    /// How many captures the last match has.
    #[inline]
    pub(crate) fn level(&self) -> usize {
        self.level
    }

    /// A capture of the last match. Without any, the first is all that was matched.
    ///
    /// # Errors
    /// When there is no such capture, or it was not ended.
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

/// `%bxy`: how long the text at the front of `rest` is that begins with x and ends with the y that belongs to it.
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

/// `%f[set]`: where the set ends that begins at `start`.
fn frontier_end(pattern: &[u8], start: usize, steps: &Steps<'_>) -> Result<usize, Fault> {
    if pattern.get(start) != Some(&b'[') {
        return Err(Fault::FrontierWithoutSet);
    }
    let end = set_end(pattern, start, steps)?;
    steps.take((end - start) / SET_STEP_BYTES)?;
    Ok(end)
}
