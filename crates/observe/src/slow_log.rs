//! The slow log: commands that took long, as `SLOWLOG` shows them.
//!
//! Not here: when a command counts as slow (`accounting.rs`), who keeps the log (`observed.rs`).

use std::collections::VecDeque;

use crate::accounting::Caller;

/// Slow commands, newest first, at most `slowlog-max-len`.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    pub(crate) entries: VecDeque<SlowCommand>,
    next_id: u64,
}

/// A slow command.
#[derive(Debug)]
pub(crate) struct SlowCommand {
    pub(crate) id: u64,
    /// When it ended, in seconds since 1970.
    pub(crate) unix_seconds: u64,
    pub(crate) duration_us: u64,
    /// The arguments, shortened.
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) caller: Caller,
}

/// How many arguments are kept.
const SLOW_ARGS_MAX: usize = 32;
/// How many bytes of an argument are kept.
const SLOW_ARG_BYTES_MAX: usize = 128;

impl SlowLog {
    /// Adds a command, and removes the oldest ones beyond `len_max`.
    pub(crate) fn add(&mut self, command: SlowCommand, len_max: usize) {
        let id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(SlowCommand { id, ..command });
        self.entries.truncate(len_max);
    }
}

/// Arguments for the slow log, shortened as in Redis.
pub(crate) fn shortened(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > SLOW_ARGS_MAX { SLOW_ARGS_MAX - 1 } else { args.len() };
    let mut short: Vec<Vec<u8>> = args[..kept]
        .iter()
        .map(|arg| match arg.get(..SLOW_ARG_BYTES_MAX) {
            Some(head) if arg.len() > SLOW_ARG_BYTES_MAX => {
                let more = format!("... ({} more bytes)", arg.len() - SLOW_ARG_BYTES_MAX);
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
    fn the_slow_log_keeps_the_newest() {
        let mut log = SlowLog::default();
        for duration_us in 0..5 {
            let command = SlowCommand {
                id: 0,
                unix_seconds: 0,
                duration_us,
                args: Vec::new(),
                caller: Caller::default(),
            };
            log.add(command, 2);
        }
        let ids: Vec<u64> = log.entries.iter().map(|command| command.id).collect();
        assert_eq!(ids, [4, 3]);
    }
}
