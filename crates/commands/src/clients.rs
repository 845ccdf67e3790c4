//! Several clients of one store in process, for tests of waiters, effects and events.

use engine::{Class, Client, CommandResult, Ctx, Entry, JobsNews, Local, Outcome, Route, Run, TxMessage};
use resp::{Output, Proto};

use crate::FAMILIES;

/// `together a b ; c d` runs several commands and serves waiters at the end, as EXEC does.
const TOGETHER: Entry =
    Entry { name: "together", route: Route::Global, run: Run::Function(together), ..Entry::DEFAULT };

fn together(ctx: &mut Ctx) -> CommandResult {
    let table = ctx.store.tx.table;
    for args in ctx.args[1..].split(|arg| *arg == b";") {
        let client = Client { deny_blocking: true, ..ctx.store.client };
        ctx.store.tx.run(table.resolve(args)?, args, &client, ctx.host, ctx.reply.out());
    }
    Ok(())
}

/// `wake key` does what a thread does when a time comes at which waiters of the key can be served.
const WAKE: Entry = Entry { name: "wake", route: Route::Global, run: Run::Function(wake), ..Entry::DEFAULT };

fn wake(ctx: &mut Ctx) -> CommandResult {
    let (id, _) = ctx.store.locate(ctx.args[1]);
    ctx.store.tx.wake(id, ctx.store.client.db, ctx.args[1]);
    Ok(())
}

/// A store with several clients, which records effects.
pub(crate) struct Clients(pub(crate) Local);

impl Clients {
    pub(crate) fn new() -> Self {
        let mut local = Local::new(&[FAMILIES, &[&[TOGETHER, WAKE]]].concat());
        local.record_effects();
        Clients(local)
    }

    /// Runs a line for a client that may block. Returns its reply with line ends as spaces, or `None` if it waits.
    pub(crate) fn run(&mut self, id: u64, line: &str) -> Option<String> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let client = Client { id, deny_blocking: false, ..Client::internal(0, Proto::Resp2) };
        let mut out = Output::new();
        match self.0.run(client, &args, &mut (), &mut out) {
            Outcome::Blocked(_) => {
                assert!(out.is_empty());
                None
            }
            Outcome::Done | Outcome::Failed => Some(flat(&out)),
            Outcome::Again(_) => unreachable!("there is only one thread"),
        }
    }

    #[track_caller]
    pub(crate) fn wait(&mut self, id: u64, line: &str) {
        assert_eq!(self.run(id, line), None, "{line}");
    }

    /// How a client waits that sends `line`: for how many milliseconds (0: forever), whether the reply at the timeout
    /// is a null array, and at how many keys.
    #[track_caller]
    pub(crate) fn how_long(&mut self, line: &str) -> (u64, bool, usize) {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let client = Client { deny_blocking: false, ..Client::internal(0, Proto::Resp2) };
        match self.0.run(client, &args, &mut (), &mut Output::new()) {
            Outcome::Blocked(blocked) => (blocked.timeout_ms, blocked.null_array, blocked.tickets.len()),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn check(&mut self, line: &str, expected: &str) {
        assert_eq!(self.run(0, line).as_deref(), Some(expected), "{line}");
    }

    /// Checks the reply, the effects and the events of a line.
    #[track_caller]
    pub(crate) fn check_change(&mut self, line: &str, reply: &str, effects: &[&str], events: &[&str]) {
        self.effects();
        self.events();
        self.check(line, reply);
        assert_eq!(self.effects(), effects, "{line}");
        assert_eq!(self.events(), events, "{line}");
    }

    /// The clients served since the last call, in order: `client: reply < the command that puts it back`.
    pub(crate) fn served(&mut self) -> Vec<String> {
        let served = |message| match message {
            TxMessage::Flushed => None,
            TxMessage::Served { waiter, handoff, .. } => {
                let restore = handoff.restore.map_or(String::new(), |restore| {
                    format!(" < {}", String::from_utf8_lossy(&restore.args.slices().join(&b' ')))
                });
                Some(format!("{}: {}{restore}", waiter.wait.client.id, flat(&handoff.reply)))
            }
            other => panic!("{other:?}"),
        };
        std::mem::take(&mut self.0.outbox).into_iter().filter_map(served).collect()
    }

    /// The times at which the thread was told to wake waiters, the last one first.
    pub(crate) fn told(&mut self) -> Vec<i64> {
        let is_told = |message: &mut TxMessage| matches!(message, TxMessage::Jobs(JobsNews::Wait(_)));
        let told = self.0.outbox.extract_if(.., is_told).map(|message| match message {
            TxMessage::Jobs(JobsNews::Wait(due)) => due.time_ms,
            other => unreachable!("{other:?}"),
        });
        let mut told: Vec<i64> = told.collect();
        told.reverse();
        told
    }

    #[track_caller]
    pub(crate) fn check_served(&mut self, expected: &[&str]) {
        assert_eq!(self.served(), expected);
    }

    /// The effects since the last call, oldest first.
    pub(crate) fn effects(&mut self) -> Vec<String> {
        let effects = self.0.take_effects().into_iter();
        effects.map(|effect| String::from_utf8_lossy(&effect.args.join(&b' ')).into_owned()).collect()
    }

    /// Starts publishing events of these classes.
    pub(crate) fn notify(&mut self, classes: &[Class]) {
        self.0.config.notify =
            classes.iter().fold(Class::Keyspace as u32, |bits, class| bits | *class as u32);
    }

    /// The events since the last call.
    pub(crate) fn events(&mut self) -> Vec<String> {
        let event = |message| match message {
            TxMessage::Event { message, .. } => Some(String::from_utf8_lossy(&message).into_owned()),
            _ => None,
        };
        std::mem::take(&mut self.0.outbox).into_iter().filter_map(event).collect()
    }
}

fn flat(out: &Output) -> String {
    String::from_utf8_lossy(&out.to_vec()).trim_end().replace("\r\n", " ")
}
