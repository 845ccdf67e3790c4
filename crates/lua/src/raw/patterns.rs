//! `string.find`, `match`, `gmatch` and `gsub`: Lua's functions on a matcher of our own ([`crate::pattern`]),
//! which can be interrupted.
//!
//! `gsub` calls functions of the script, which may raise, so at that time it must not own anything with a
//! destructor. Its result grows in a buffer of the state, which all running calls share. The innermost call
//! is at the end:
//!
//! ```text
//! Context::replaced   | outer gsub, waits for its function | gsub in that function |
//!                     ^ start                              ^ end = start of the inner      ^ Context::replaced_bytes
//! ```
//!
//! A call that an error ends leaves its part behind. The code that catches the error resets the end of the
//! buffer ([`Context::catch`]), and the next call starts there.

use std::ffi::c_int;
use std::ops::Range;

use mlua_sys as ffi;

use super::command::{self, raise_interrupt, take_steps};
use super::context::Context;
use super::lua::{self, Lua, lua_State};
use super::stack::OUT_OF_MEMORY;
use crate::pattern::{self, Captured, Fault, Matcher};
use crate::steps::{Over, STEP_BYTES, Steps};

/// Slots that a match may need beside its captures: for the function or the positions, and the result.
const SLOTS_BESIDE: c_int = 4;
/// Subjects up to this length are searched without preparation.
const SHORT_BYTES_MAX: usize = 256;
/// Up to this many captures fit without `check_stack`.
const CAPTURE_COUNT_USUAL: usize = 8;
/// A buffer larger than this is freed after the call.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Why a function ends early. Has no destructor.
#[derive(Clone, Copy)]
enum Stop {
    /// An error message, to be prefixed with the caller's position.
    Message(&'static str),
    /// The replacement has this kind, which is not text.
    Replacement(&'static str),
    Memory,
    Over,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        match fault {
            Fault::Over => Stop::Over,
            fault => Stop::Message(fault.text()),
        }
    }
}

impl From<Over> for Stop {
    fn from(_: Over) -> Stop {
        Stop::Over
    }
}

/// The matcher and the state that the pattern functions share.
struct Work<'a> {
    lua: Lua,
    context: &'a Context,
    matcher: &'a mut Matcher,
    steps: Steps<'a>,
}

/// Runs `body`, in which Lua does not raise, and raises the error that it returns.
#[inline]
fn attempt<R: Copy>(lua: Lua, body: impl FnOnce(&mut Work<'_>) -> Result<R, Stop>) -> R {
    let context = Context::of(lua);
    context.heap.set_trusting(true);
    let result = {
        let may_go_on = || command::may_go_on(lua, context);
        let steps = Steps::new(&context.steps_left, &may_go_on);
        body(&mut Work { lua, context, matcher: &mut context.matcher.borrow_mut(), steps })
    };
    let stop = match result {
        Ok(value) if !context.heap.is_over() => {
            context.heap.set_trusting(false);
            return value;
        }
        Ok(_) => Stop::Memory,
        Err(stop) => stop,
    };
    raise(lua, context, stop)
}

#[cold]
fn raise(lua: Lua, context: &Context, stop: Stop) -> ! {
    lua.set_top(0);
    match stop {
        Stop::Over => raise_interrupt(lua),
        Stop::Memory => lua.push_bytes(OUT_OF_MEMORY.as_bytes()),
        Stop::Message(text) => {
            lua.push_place(1);
            lua.push_bytes(text.as_bytes());
            lua.concat(2);
        }
        Stop::Replacement(kind) => {
            lua.push_place(1);
            for text in ["invalid replacement value (a ", kind, ")"] {
                lua.push_bytes(text.as_bytes());
            }
            lua.concat(4);
        }
    }
    context.heap.set_trusting(false);
    lua.raise()
}

impl Work<'_> {
    #[inline]
    fn push_bytes(&self, bytes: &[u8]) -> Result<(), Stop> {
        if !self.context.heap.has_room(bytes.len()) {
            return Err(Stop::Memory);
        }
        self.steps.take_bytes(bytes.len())?;
        self.lua.push_bytes(bytes);
        Ok(())
    }

    fn push_capture(&self, subject: &[u8], index: usize, matched: &Range<usize>) -> Result<(), Stop> {
        match self.matcher.captured(subject, index, matched)? {
            Captured::Text(text) => self.push_bytes(text),
            Captured::Position(position) => {
                self.lua.push_number(position as f64);
                Ok(())
            }
        }
    }

    /// Pushes the first `count` captures.
    #[inline]
    fn push_captures(&self, subject: &[u8], count: usize, matched: &Range<usize>) -> Result<c_int, Stop> {
        if count > CAPTURE_COUNT_USUAL && !self.lua.check_stack(count as c_int + SLOTS_BESIDE) {
            return Err(Stop::Message("stack overflow (too many captures)"));
        }
        for index in 0..count {
            self.push_capture(subject, index, matched)?;
        }
        Ok(count as c_int)
    }

    /// Appends text to the result.
    #[inline]
    fn append(&self, buffer: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Stop> {
        if !self.context.heap.has_room(buffer.len() + bytes.len()) {
            return Err(Stop::Memory);
        }
        self.steps.take_bytes(bytes.len())?;
        buffer.extend_from_slice(bytes);
        Ok(())
    }
}

/// The index of a position as Lua counts: the first byte is 1, the last -1.
#[inline]
fn start_of(place: i64, length: usize) -> usize {
    let place = if place < 0 { place.saturating_add(length as i64 + 1) } else { place };
    usize::try_from(place - 1).unwrap_or(0).min(length)
}

pub(super) unsafe extern "C-unwind" fn find(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    let (subject, pattern) = (lua.check_bytes(1), lua.check_bytes(2));
    let from = start_of(lua::optional_integer(lua, 3, 1), subject.len());
    if lua.to_boolean(4) || pattern::is_plain(pattern) {
        return find_plain(lua, subject, pattern, from);
    }
    attempt(lua, |work| {
        let (anchored, pattern) = split_anchor(pattern);
        let Some(matched) = work.matcher.find(subject, pattern, from, anchored, &work.steps)? else {
            work.lua.push_nil();
            return Ok(1);
        };
        work.lua.push_number((matched.start + 1) as f64);
        work.lua.push_number(matched.end as f64);
        Ok(2 + work.push_captures(subject, work.matcher.level(), &matched)?)
    })
}

/// Finds plain text. In a short subject, preparing the search does not pay off.
fn find_plain(lua: Lua, subject: &[u8], text: &[u8], from: usize) -> c_int {
    let rest = &subject[from..];
    if rest.len() > SHORT_BYTES_MAX {
        // A search in a long text takes as long as many instructions.
        take_steps(lua, rest.len() / STEP_BYTES);
    }
    let found = match text {
        [only] => memchr::memchr(*only, rest),
        _ if rest.len() > SHORT_BYTES_MAX => memchr::memmem::find(rest, text),
        [first, ..] => memchr::memchr_iter(*first, rest).find(|at| rest[*at..].starts_with(text)),
        [] => Some(0),
    };
    let Some(found) = found else {
        lua.push_nil();
        return 1;
    };
    lua.push_number((from + found + 1) as f64);
    lua.push_number((from + found + text.len()) as f64);
    2
}

pub(super) unsafe extern "C-unwind" fn match_once(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    let (subject, pattern) = (lua.check_bytes(1), lua.check_bytes(2));
    let from = start_of(lua::optional_integer(lua, 3, 1), subject.len());
    attempt(lua, |work| {
        let (is_anchored, pattern) = split_anchor(pattern);
        let Some(matched) = work.matcher.find(subject, pattern, from, is_anchored, &work.steps)? else {
            work.lua.push_nil();
            return Ok(1);
        };
        work.push_captures(subject, work.matcher.level().max(1), &matched)
    })
}

/// Whether the pattern is anchored, and the pattern without its anchor, up to its end.
#[inline]
fn split_anchor(pattern: &[u8]) -> (bool, &[u8]) {
    match pattern::until_end(pattern) {
        [b'^', rest @ ..] => (true, rest),
        pattern => (false, pattern),
    }
}

/// `gmatch`: makes an iterator, whose upvalues are the subject, the pattern, and where the next match may
/// start.
pub(super) unsafe extern "C-unwind" fn gmatch(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    lua.check_bytes(1);
    lua.check_bytes(2);
    lua.set_top(2);
    lua.push_number(0.0);
    lua.push_function(next_match, 3);
    1
}

unsafe extern "C-unwind" fn next_match(state: *mut lua_State) -> c_int {
    const PLACE: c_int = ffi::lua_upvalueindex(3);
    let lua = Lua(state);
    let text = |upvalue| lua.bytes(ffi::lua_upvalueindex(upvalue)).expect("a string was put there");
    let (subject, pattern) = (text(1), text(2));
    let from = lua.to_number(PLACE) as usize;
    if from > subject.len() {
        return 0;
    }
    attempt(lua, |work| {
        let pattern = pattern::until_end(pattern);
        let Some(matched) = work.matcher.find(subject, pattern, from, false, &work.steps)? else {
            return Ok(0);
        };
        let next = matched.end + usize::from(matched.is_empty());
        work.lua.push_number(next as f64);
        work.lua.replace(PLACE);
        work.push_captures(subject, work.matcher.level().max(1), &matched)
    })
}

/// The state of a call of `gsub`.
#[derive(Clone, Copy)]
struct Substitution<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    is_anchored: bool,
    count_max: usize,
    count: usize,
    /// Where the next match may start; `None` if there can be none.
    next: Option<usize>,
    /// The subject has been copied to the result, or replaced, up to here.
    done: usize,
    /// Where the result is in the buffer.
    start: usize,
    end: usize,
}

const REPLACEMENT: c_int = 3;

pub(super) unsafe extern "C-unwind" fn gsub(state: *mut lua_State) -> c_int {
    let lua = Lua(state);
    let (subject, pattern) = (lua.check_bytes(1), lua.check_bytes(2));
    let kind = lua.kind(REPLACEMENT);
    let count_max = lua::optional_integer(lua, 4, subject.len() as i64 + 1) as c_int;
    let is_text = matches!(kind, ffi::LUA_TSTRING | ffi::LUA_TNUMBER);
    if !is_text && !matches!(kind, ffi::LUA_TFUNCTION | ffi::LUA_TTABLE) {
        return refuse_replacement(lua);
    }
    lua.set_top(REPLACEMENT);
    let (is_anchored, pattern) = split_anchor(pattern);
    let start = Context::of(lua).replaced_bytes.get();
    let mut substitution = Substitution {
        subject,
        pattern,
        is_anchored,
        count_max: usize::try_from(count_max).unwrap_or(0),
        count: 0,
        next: Some(0),
        done: 0,
        start,
        end: start,
    };
    if is_text {
        return substitute_text(lua, substitution);
    }
    let mut waits_for: Option<(usize, usize)> = None;
    loop {
        let (call, changed) = attempt(lua, |work| {
            let mut changed = substitution;
            let mut buffer = work.context.replaced.borrow_mut();
            buffer.truncate(changed.end);
            if let Some((start, end)) = waits_for {
                changed.replace(start..end, &mut buffer, work)?;
            }
            let Some(matched) = changed.next_match(work)? else {
                let count = changed.finish(&mut buffer, work)?;
                return Ok((Call::Done(count), changed));
            };
            changed.end = buffer.len();
            work.context.replaced_bytes.set(changed.end);
            let place = (matched.start, matched.end);
            if kind == ffi::LUA_TTABLE {
                work.push_capture(subject, 0, &matched)?;
                return Ok((Call::Index(place), changed));
            }
            work.lua.push_value(REPLACEMENT);
            let count = work.push_captures(subject, work.matcher.level().max(1), &matched)?;
            Ok((Call::Function(place, count), changed))
        });
        substitution = changed;
        waits_for = match call {
            Call::Done(count) => return count,
            Call::Index(place) => {
                lua::look_up(lua, REPLACEMENT);
                Some(place)
            }
            Call::Function(place, count) => {
                lua.call(count, 1);
                Some(place)
            }
        };
    }
}

/// Replaces matches by text. No script code runs meanwhile.
fn substitute_text(lua: Lua, mut substitution: Substitution<'_>) -> c_int {
    let text = lua.check_bytes(REPLACEMENT);
    attempt(lua, |work| {
        let mut buffer = work.context.replaced.borrow_mut();
        buffer.truncate(substitution.start);
        while let Some(matched) = substitution.next_match(work)? {
            substitution.keep_until(matched.start, &mut buffer, work)?;
            append_text(text, substitution.subject, &matched, &mut buffer, work)?;
            substitution.done = matched.end;
        }
        substitution.finish(&mut buffer, work)
    })
}

/// The next step of `gsub`.
#[derive(Clone, Copy)]
enum Call {
    /// Look up the value on top, for the match at this position.
    Index((usize, usize)),
    /// Call the function with this many arguments, which are on top of it.
    Function((usize, usize), c_int),
    /// Return this many results.
    Done(c_int),
}

#[cold]
fn refuse_replacement(lua: Lua) -> c_int {
    lua.set_top(0);
    lua.push_bytes(b"string/function/table expected");
    lua.raise_argument(REPLACEMENT)
}

impl Substitution<'_> {
    /// Finds the next match to replace.
    #[inline]
    fn next_match(&mut self, work: &mut Work<'_>) -> Result<Option<Range<usize>>, Stop> {
        let Some(from) = self.next.filter(|_| self.count < self.count_max) else { return Ok(None) };
        let found = work.matcher.find(self.subject, self.pattern, from, self.is_anchored, &work.steps)?;
        let Some(matched) = found else { return Ok(None) };
        self.count += 1;
        let next = matched.end + usize::from(matched.is_empty());
        self.next = (next <= self.subject.len() && !self.is_anchored).then_some(next);
        Ok(Some(matched))
    }

    /// Copies the subject up to a match.
    #[inline]
    fn keep_until(&mut self, end: usize, buffer: &mut Vec<u8>, work: &Work<'_>) -> Result<(), Stop> {
        let kept = &self.subject[self.done..end];
        self.done = end;
        if kept.is_empty() { Ok(()) } else { work.append(buffer, kept) }
    }

    /// Replaces the match by the value on top. If the value is nil or false, the match stays.
    fn replace(&mut self, matched: Range<usize>, buffer: &mut Vec<u8>, work: &Work<'_>) -> Result<(), Stop> {
        let lua = work.lua;
        if lua.to_boolean(-1) {
            if !matches!(lua.kind(-1), ffi::LUA_TSTRING | ffi::LUA_TNUMBER) {
                return Err(Stop::Replacement(lua.kind_name(-1)));
            }
            self.keep_until(matched.start, buffer, work)?;
            work.append(buffer, lua.bytes(-1).unwrap_or_default())?;
            self.done = matched.end;
        }
        lua.set_top(REPLACEMENT);
        Ok(())
    }

    /// Pushes the result and the number of replacements.
    fn finish(&mut self, buffer: &mut Vec<u8>, work: &Work<'_>) -> Result<c_int, Stop> {
        if self.done == 0 && buffer.len() == self.start {
            work.lua.push_value(1);
        } else {
            self.keep_until(self.subject.len(), buffer, work)?;
            work.push_bytes(&buffer[self.start..])?;
        }
        work.lua.push_number(self.count as f64);
        buffer.truncate(self.start);
        if buffer.capacity() > KEPT_BYTES_MAX && self.start == 0 {
            *buffer = Vec::new();
        }
        work.context.replaced_bytes.set(self.start);
        Ok(2)
    }
}

/// Appends a replacement text: `%1` is a capture, `%0` the match, and `%` before any other character is that
/// character.
#[inline]
fn append_text(
    text: &[u8],
    subject: &[u8],
    matched: &Range<usize>,
    buffer: &mut Vec<u8>,
    work: &Work<'_>,
) -> Result<(), Stop> {
    let mut rest = text;
    while let Some(escape) = memchr::memchr(b'%', rest) {
        work.steps.take(1)?;
        work.append(buffer, &rest[..escape])?;
        // After the last byte, Lua sees the zero that terminates the string.
        let letter = rest.get(escape + 1).copied().unwrap_or(0);
        rest = rest.get(escape + 2..).unwrap_or_default();
        match letter {
            b'0' => work.append(buffer, &subject[matched.clone()])?,
            b'1'..=b'9' => match work.matcher.captured(subject, usize::from(letter - b'1'), matched)? {
                Captured::Text(text) => work.append(buffer, text)?,
                Captured::Position(position) => {
                    work.append(buffer, itoa::Buffer::new().format(position).as_bytes())?;
                }
            },
            other => work.append(buffer, &[other])?,
        }
    }
    work.append(buffer, rest)
}

/// Discards the results of `gsub` calls that an error ended.
#[inline]
pub(super) fn give_up(context: &Context) {
    if context.replaced_bytes.take() > 0 || context.replaced.borrow().capacity() > KEPT_BYTES_MAX {
        context.replaced.take();
    }
}
