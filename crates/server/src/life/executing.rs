//! Continues an EXEC that waits for answers of other threads.
//!
//! Not here: the commands that run before it waits, and their order (`commands/transactions.rs`).

use clients::session::{Executing, Session};
use proactor::ConnId;
use resp::Output;

use crate::commands::transactions::run_rest;
use crate::subscribers::hear_itself;
use crate::thread::Thread;

/// Notes the slices that the current client's EXEC has seen, if it waits: its later reply depends on them.
pub(crate) fn note_seen(thread: &mut Thread) {
    if thread.host.session().state.executing().is_some() {
        thread.leave_all();
        let seen = thread.tx.seen;
        if let Some(executing) = thread.host.session().state.executing_mut() {
            executing.seen = executing.seen.max(seen);
        }
    }
}

/// Continues an EXEC after the command for which it waited has replied.
pub(crate) fn go_on_executing(
    thread: &mut Thread,
    conn: ConnId,
    mut executing: Box<Executing>,
    reply: Output,
) {
    executing.answer(reply);
    thread.with_session(conn, |thread, out| {
        let (mode, mark, seen) = (thread.host.session().reply_mode, out.mark(), executing.seen);
        run_rest(&mut thread.tx, &mut thread.host, executing, out);
        thread.tx.finish(&mut thread.host);
        thread.leave_all();
        thread.tx.seen = thread.tx.seen.max(seen);
        note_seen(thread);
        thread.host.suppress_reply(None, mode, mark, out);
        if thread.tx.told_itself {
            hear_itself(thread, out);
        }
        thread.host.reports.accounting.stats().net_output_bytes.add(out.len() as u64);
    });
    thread.go_on(conn);
    thread.post_all();
}

/// Runs the remaining commands of a waiting EXEC whose client is gone.
pub(crate) fn run_unheard(
    thread: &mut Thread,
    session: Box<Session>,
    executing: Box<Executing>,
) -> Box<Session> {
    let (outer, outer_seen) = (thread.host.current.replace(session), thread.tx.seen);
    let mut rest = Some(executing);
    while let Some(mut executing) = rest {
        executing.answer(Output::new());
        run_rest(&mut thread.tx, &mut thread.host, executing, &mut Output::new());
        rest = thread.host.session().state.take_executing();
    }
    thread.tx.finish(&mut thread.host);
    thread.leave_all();
    thread.tx.seen = outer_seen;
    std::mem::replace(&mut thread.host.current, outer).expect("the session is put back where it was")
}
