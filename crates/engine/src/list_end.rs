//! The names of the commands and events that push to or pop from an end of a list.

use ds::list::End;

/// The command that pushes at `end`, for effects.
pub fn push_command(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LPUSH",
        End::Tail => b"RPUSH",
    }
}

/// The event of a push at `end`.
pub fn push_event(end: End) -> &'static str {
    match end {
        End::Head => "lpush",
        End::Tail => "rpush",
    }
}

/// The command that pops at `end`, for effects.
pub fn pop_command(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LPOP",
        End::Tail => b"RPOP",
    }
}

/// The event of a pop at `end`.
pub fn pop_event(end: End) -> &'static str {
    match end {
        End::Head => "lpop",
        End::Tail => "rpop",
    }
}

/// The word for `end` in `LMOVE`.
pub fn end_word(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LEFT",
        End::Tail => b"RIGHT",
    }
}
