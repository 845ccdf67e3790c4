//! The command logs: commands that took long, had a large request, or got a large reply, as `COMMANDLOG` shows them.
//! The first is the slow log of `SLOWLOG`.
//!
//! Not here: when a command belongs into a log (`accounting.rs`), who keeps the logs (`observed.rs`).

use std::collections::VecDeque;

/// The figure by which commands get into a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogKind {
    /// It took long; the figure is its duration in microseconds.
    Slow = 0,
    /// Its request was large; the figure is its size in the protocol in bytes.
    LargeRequest = 1,
    /// Its reply was large; the figure is its size in bytes.
    LargeReply = 2,
}

impl LogKind {
    /// All kinds.
    pub const ALL: [LogKind; 3] = [LogKind::Slow, LogKind::LargeRequest, LogKind::LargeReply];

    /// The kind with this name, in any case.
    pub(crate) fn parse(name: &[u8]) -> Option<LogKind> {
        match name.to_ascii_lowercase().as_slice() {
            b"slow" => Some(LogKind::Slow),
            b"large-request" => Some(LogKind::LargeRequest),
            b"large-reply" => Some(LogKind::LargeReply),
            _ => None,
        }
    }
}

/// Commands of one kind, newest first. The settings say how many at most.
#[derive(Debug, Default)]
pub(crate) struct CommandLog {
    pub(crate) entries: VecDeque<LoggedCommand>,
    next_id: u64,
}

/// A logged command.
#[derive(Clone, Debug)]
pub(crate) struct LoggedCommand {
    pub(crate) id: u64,
    /// When it ended, in seconds since 1970.
    pub(crate) unix_seconds: u64,
    /// Its duration or size; see [`LogKind`].
    pub(crate) figure: u64,
    /// The arguments, shortened.
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) caller: Caller,
}

/// The client of a logged command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Caller {
    /// The client's address.
    pub peer: String,
    /// The client's name.
    pub name: Vec<u8>,
}

/// How many arguments are kept.
const LOGGED_ARGS_MAX: usize = 32;
/// How many bytes of an argument are kept.
const LOGGED_ARG_BYTES_MAX: usize = 128;

impl CommandLog {
    /// Adds a command, and removes the oldest ones beyond `len_max`.
    pub(crate) fn add(&mut self, command: LoggedCommand, len_max: usize) {
        let id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(LoggedCommand { id, ..command });
        self.entries.truncate(len_max);
    }
}

/// The size of a request in the protocol, as a client sends it.
pub fn request_bytes(args: &[&[u8]]) -> usize {
    let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 1;
    // `*3␍␊`, and for each argument `$5␍␊` before it and `␍␊` after it.
    let frame_bytes = 3 + digits(args.len());
    frame_bytes + args.iter().map(|arg| 5 + digits(arg.len()) + arg.len()).sum::<usize>()
}

/// Arguments for a log, shortened as in Redis.
pub(crate) fn shortened(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > LOGGED_ARGS_MAX { LOGGED_ARGS_MAX - 1 } else { args.len() };
    let mut short: Vec<Vec<u8>> = args[..kept]
        .iter()
        .map(|arg| match arg.get(..LOGGED_ARG_BYTES_MAX) {
            Some(head) if arg.len() > LOGGED_ARG_BYTES_MAX => {
                let more = format!("... ({} more bytes)", arg.len() - LOGGED_ARG_BYTES_MAX);
                [head, more.as_bytes()].concat()
            }
            _ => arg.to_vec(),
        })
        .collect();
    if kept < args.len() {
        short.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_shortened() {
        let long = vec![b'x'; 200];
        let short = shortened(&[b"SET", b"k", &long, &long[..128]]);
        assert_eq!(short[2], [&long[..128], b"... (72 more bytes)"].concat());
        assert_eq!(short[3], &long[..128]);
        let many = vec![b"a".as_slice(); 40];
        let short = shortened(&many);
        assert_eq!((short.len(), short[31].as_slice()), (32, b"... (9 more arguments)".as_slice()));
        assert_eq!(shortened(&many[..32]).len(), 32);
    }

    #[test]
    fn the_size_of_a_request_is_that_in_the_protocol() {
        assert_eq!(request_bytes(&[b"GET", b""]), b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n".len());
        let many = vec![b"0123456789".as_slice(); 10];
        assert_eq!(request_bytes(&many), 5 + 10 * 17);
    }

    #[test]
    fn a_log_keeps_the_newest() {
        let mut log = CommandLog::default();
        for figure in 0..5 {
            let (args, caller) = (Vec::new(), Caller::default());
            log.add(LoggedCommand { id: 0, unix_seconds: 0, figure, args, caller }, 2);
        }
        let ids: Vec<u64> = log.entries.iter().map(|command| command.id).collect();
        assert_eq!(ids, [4, 3]);
    }
}
