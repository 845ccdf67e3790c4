//! Whether a client's command, which it may run, may run now: MULTI, subscriptions, pauses.

use command::{Command, CommandError, Flag, OwnedArgs};

use crate::thread::ThreadHost;

/// What becomes of a command before it is run.
pub(crate) enum Admission {
    /// It runs.
    Run,
    /// It was queued for EXEC.
    Queued,
    /// It runs later; nothing is answered now.
    Later,
    /// It does not run.
    Refused(CommandError),
}

/// Commands that run at once though MULTI was called.
const NOT_QUEUED: &[&str] = &["exec", "discard", "multi", "watch", "quit", "reset"];
/// Commands that a RESP2 client with subscriptions may call.
const SUBSCRIBER_COMMANDS: &[&str] = &[
    "subscribe",
    "unsubscribe",
    "psubscribe",
    "punsubscribe",
    "ssubscribe",
    "sunsubscribe",
    "ping",
    "quit",
    "reset",
];
/// Commands that wait for the answers of all threads, which EXEC, holding shards, must not, and which a thread with
/// a slow script does not give.
const ASKS_ALL_THREADS: &[&str] =
    &["client|list", "client|kill", "client|unblock", "client|pause", "client|unpause"];
/// Bytes of arguments that MULTI queues at most.
const MULTI_BYTES_MAX: usize = 1 << 30;

/// What commands that write are answered while snapshots cannot be saved.
pub(crate) const MISCONF: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.";

impl ThreadHost {
    pub(crate) fn admit(&mut self, command: &Command, args: &[&[u8]]) -> Admission {
        let session = self.session();
        if session.client.proto == resp::Proto::Resp2
            && session.is_subscriber()
            && !SUBSCRIBER_COMMANDS.contains(&command.full_name.as_str())
        {
            return Admission::Refused(CommandError::new(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                command.full_name
            )));
        }
        if self.shared.snapshots.progress.is_loading() && !command.has(Flag::Loading) {
            return Admission::Refused(CommandError::LOADING);
        }
        if self.postpone(command, args) {
            return Admission::Later;
        }
        if self.shared.refuses_writes()
            && (self.runs(command, Command::is_write) || command.entry.name == "ping")
        {
            return Admission::Refused(CommandError::fixed(MISCONF));
        }
        let session = self.session();
        if let Some(multi) = &mut session.multi
            && !NOT_QUEUED.contains(&command.full_name.as_str())
        {
            if command.has(Flag::NoMulti) || ASKS_ALL_THREADS.contains(&command.full_name.as_str()) {
                return Admission::Refused(CommandError::new("ERR Command not allowed inside a transaction"));
            }
            let args = OwnedArgs::new(args);
            multi.memory_bytes += args.memory_bytes();
            if multi.memory_bytes > MULTI_BYTES_MAX {
                return Admission::Refused(CommandError::new(
                    "ERR transaction exceeds the memory limit of queued commands",
                ));
            }
            multi.queued.push((command.id, args));
            return Admission::Queued;
        }
        if self.shared.scripts.is_busy() {
            let asks_all = ASKS_ALL_THREADS.contains(&command.full_name.as_str());
            let needs = self.needs(command, args);
            if asks_all || self.is_kept_waiting(&needs) {
                return Admission::Refused(self.shared.busy_error());
            }
        }
        Admission::Run
    }
}
