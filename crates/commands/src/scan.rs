//! The options that HSCAN, SSCAN and ZSCAN share, and the frame of their reply.

use command::{CommandError, keyword_is, parse_i64};
use resp::{Mark, Reply};

/// Elements that a step visits unless the client says otherwise.
const COUNT_DEFAULT: usize = 10;

/// `[MATCH pattern] [COUNT count]`, and `[NOVALUES]` of HSCAN.
pub(crate) struct ScanOptions<'a> {
    pattern: Option<&'a [u8]>,
    /// About how many elements to visit.
    pub(crate) count: usize,
    /// Leave the values out.
    pub(crate) no_values: bool,
}

impl<'a> ScanOptions<'a> {
    /// Reads the arguments after the cursor; `has_values`: `NOVALUES` may be among them.
    pub(crate) fn parse(mut args: &[&'a [u8]], has_values: bool) -> Result<Self, CommandError> {
        let mut options = ScanOptions { pattern: None, count: COUNT_DEFAULT, no_values: false };
        loop {
            args = match *args {
                [] => return Ok(options),
                [name, count, ref rest @ ..] if keyword_is(name, "count") => {
                    options.count = match parse_i64(count)? {
                        count if count >= 1 => count as usize,
                        _ => return Err(CommandError::SYNTAX),
                    };
                    rest
                }
                [name, pattern, ref rest @ ..] if keyword_is(name, "match") => {
                    options.pattern = (pattern != b"*").then_some(pattern);
                    rest
                }
                [name, ref rest @ ..] if has_values && keyword_is(name, "novalues") => {
                    options.no_values = true;
                    rest
                }
                _ => return Err(CommandError::SYNTAX),
            };
        }
    }

    /// Whether `element` is to be reported.
    pub(crate) fn wants(&self, element: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| ds::glob::matches(pattern, element, false))
    }
}

/// Makes the `count` elements written since `mark` the reply of a step that came to `cursor`.
pub(crate) fn finish_scan(reply: &mut Reply, mark: Mark, cursor: u64, count: usize) {
    reply.finish_array(mark, count);
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(cursor);
    let head = format!("*2\r\n${}\r\n{digits}\r\n", digits.len());
    reply.out().insert_at(mark, head.as_bytes());
}
