//! Ends the server: handles signals and `SHUTDOWN`, the save before the end, and a save that fails or is blocked.
//!
//! ```text
//!   SIGTERM, SIGINT ─┐                 every shard is     saved, or nothing to save
//!   SHUTDOWN ────────┼─▶ under way ───────────────────▶ saving ───────────▶ the threads end, still without shards
//!                    │      │ ▲            entered        │
//!   SHUTDOWN ABORT ──┘      ▼ └───────────────────────────┘ failed: says so, and the server goes on serving
//! ```
//!
//! A thread of its own does all this, so a busy thread cannot delay the beginning. After a successful save, it never
//! leaves the shards, so every acknowledged change is in the file.
//!
//! A primary first waits, for at most `shutdown-timeout` seconds, until its replicas have everything. Commands that
//! write wait meanwhile.
//!
//! A shutdown that saves waits for running scripts as long as their threads respond, as Redis does. After
//! `shutdown-timeout` seconds it ends scripts that have written nothing. A thread that does not respond for that long
//! is compiling a script, which nothing can interrupt. It may hold shards in the middle of a transaction's writes, so
//! nothing consistent could be saved. Then a signal or `SHUTDOWN FORCE` ends the process without a save and logs what
//! is lost; plain `SHUTDOWN` is refused.

use std::time::{Duration, Instant};

use clients::wanted_tls;
use config::{SHUTDOWN_ON_SIGINT, SHUTDOWN_ON_SIGTERM, SHUTDOWN_TIMEOUT};
use effectlog::Cut;
use engine::{Client, Task, Wait};
use persistence::{Snapshots, names};
use process::log;
use process::shutdown::{How, ShutdownOutcome};
use process::supervisor::{self, Ticker};
use process::system::{self, Signal};
use replication::{Announce, RoleNews, begin_before_end};
use shard::{Hold, ShardId};

use crate::message::Message;
use crate::shared::Shared;

/// The delay between two attempts to enter all shards.
const RETRY: Duration = Duration::from_millis(2);
/// The delay between two messages that ask threads to respond.
const PROBE: Duration = Duration::from_millis(100);
/// The delay between two log lines about what a shutdown waits for.
const REMINDER: Duration = Duration::from_secs(10);
/// The time that threads have to end after everything is saved, or need not be saved.
const LAST_TURN: Duration = Duration::from_secs(2);

impl Shared {
    /// Ends the server for a signal, or for a client, which gets an answer if this fails.
    pub(crate) fn shut_down(&'static self, how: How, asker: Option<Client>) {
        if !self.shutdown.begin(how, asker) {
            return;
        }
        tracing::info!("* User requested shutdown...");
        // A failover has notices of its own.
        if !how.fails_over {
            self.announce(RoleNews::Notice(self.following.notices.of_end(true, &self.settings)));
        }
        let work = move || Ending::new(self).run();
        if let Err(error) = std::thread::Builder::new().name("shutdown".to_owned()).spawn(work) {
            tracing::warn!("cannot start a thread: {error}");
            self.cancel_shutdown();
        }
    }

    /// Cancels the shutdown: the server continues, and the client that asked for the shutdown is told.
    fn cancel_shutdown(&'static self) {
        if !self.following.failover.is_on() {
            self.role_parts().hold_writes(false);
        }
        self.announce(RoleNews::Notice(self.following.notices.of_end(false, &self.settings)));
        tracing::warn!("Errors trying to shut down the server. Check the logs for more information.");
        let (askers, next) = self.shutdown.cancel();
        for asker in askers {
            self.threads[usize::from(asker.thread)].send(Message::answered(asker));
        }
        if let Some(how) = next {
            self.shut_down(how, None);
        }
    }

    /// Handles signals, forever.
    pub(crate) fn obey_signals(&'static self) {
        loop {
            let signal = system::wait_for_signal();
            let (name, setting) = match signal {
                Signal::Hangup => {
                    log::reopen();
                    self.tls.reload(wanted_tls(&self.settings));
                    continue;
                }
                Signal::Interrupt => ("SIGINT", SHUTDOWN_ON_SIGINT),
                Signal::Terminate => ("SIGTERM", SHUTDOWN_ON_SIGTERM),
            };
            if !self.shutdown.is_under_way() || self.shutdown.is_aborted() {
                if self.snapshots.progress.is_loading() {
                    tracing::info!("* Received shutdown signal during loading, scheduling shutdown.");
                } else {
                    tracing::info!("* Received {name} scheduling shutdown...");
                }
                self.shut_down(How::of(self.settings.number(setting)), None);
            } else if signal == Signal::Interrupt {
                tracing::warn!("You insist... exiting now.");
                names(&self.settings, &self.machine.disk).remove_leftovers();
                std::process::exit(1);
            } else {
                tracing::info!("Received {name} again: {}", progress(&self.snapshots));
            }
        }
    }
}

/// The progress of a shutdown, in words.
fn progress(snapshots: &Snapshots) -> String {
    match snapshots.save_percent() {
        Some(percent) => format!("saving the final snapshot, {percent:.0} % of the keys are written"),
        None => "the shutdown is under way".to_owned(),
    }
}

/// The thread that ends the server.
struct Ending {
    shared: &'static Shared,
    ids: Vec<ShardId>,
    /// The last time at which each thread responded, as far as is known.
    heard: Vec<Instant>,
    started: Instant,
    probed: Instant,
    reminded: Instant,
}

/// The outcome of the attempts to enter all shards.
enum Entered {
    All,
    /// Nothing needs to be saved any more.
    NotNeeded,
    /// The shutdown was aborted.
    Aborted,
    /// A script that cannot be ended holds a shard.
    Never,
}

impl Ending {
    fn new(shared: &'static Shared) -> Ending {
        let now = Instant::now();
        let heard = vec![now; shared.threads.len()];
        let ids = shared.shards.ids().collect();
        Ending { shared, ids, heard, started: now, probed: now, reminded: now }
    }

    fn run(mut self) {
        let shared = self.shared;
        supervisor::notify(&shared.settings, "STOPPING=1");
        let _ticker = Ticker::start(&shared.settings, || progress(&shared.snapshots));
        let mut hold = Hold::new(&shared.shards);
        let mut exit_code = 0;
        if self.how().fails_over && !self.hand_over(&mut hold) && !self.how().is_forced {
            return shared.cancel_shutdown();
        }
        let Some(has_heirs) = self.await_replicas(&mut hold) else { return shared.cancel_shutdown() };
        if !self.is_allowed(has_heirs) {
            return shared.cancel_shutdown();
        }
        match self.enter(&mut hold) {
            Entered::All => {
                let saved = !self.is_to_save() || self.save(&hold);
                if !self.may_end(saved) {
                    self.leave(&mut hold);
                    return shared.cancel_shutdown();
                }
            }
            Entered::NotNeeded if shared.shutdown.end(true) == ShutdownOutcome::Ends => {}
            Entered::Never
                if self.ends_without_save() && shared.shutdown.end(true) == ShutdownOutcome::Ends =>
            {
                exit_code = 1
            }
            Entered::NotNeeded | Entered::Aborted | Entered::Never => return shared.cancel_shutdown(),
        }
        shared.stop();
        // The process usually ends with its threads before this sleep is over, unless a thread does not come back.
        std::thread::sleep(if exit_code == 0 { LAST_TURN } else { Duration::ZERO });
        for thread in self.silent(Duration::ZERO) {
            tracing::warn!("thread {thread} is stuck in a script: the process exits without it");
        }
        std::process::exit(exit_code);
    }

    /// Hands over to a replica. Returns whether another server leads now; the log says why not.
    fn hand_over(&self, hold: &mut Hold<'static, Task, Wait>) -> bool {
        let (shared, failover) = (self.shared, &self.shared.following.failover);
        let mut has_begun = shared.following.is_replica() || failover.is_on();
        while !shared.shutdown.is_aborted() {
            if has_begun && !failover.is_on() {
                if !shared.following.is_replica() {
                    tracing::warn!("SHUTDOWN FAILOVER: no replica took over, can't exit.");
                }
                return shared.following.is_replica();
            }
            if !has_begun && hold.try_enter_all(&self.ids, false).is_ok() {
                let timeout_ms = self.patience().as_millis() as u64;
                if let Err(why) = begin_before_end(&shared.role_parts(), timeout_ms) {
                    self.leave(hold);
                    tracing::warn!("SHUTDOWN FAILOVER: {why}");
                    return false;
                }
                has_begun = true;
            }
            self.leave(hold);
            std::thread::sleep(RETRY);
        }
        false
    }

    /// Whether `SAFE` lets the server end: its data are on the disk, on a replica (`has_heirs`) or on its primary.
    fn is_allowed(&self, has_heirs: bool) -> bool {
        let (shared, how) = (self.shared, self.how());
        let is_copy = shared.following.is_replica() && shared.following.is_link_up();
        let is_safe = shared.journal.is_on() || self.is_to_save() || has_heirs || is_copy;
        let is_allowed = is_safe || !how.is_safe || how.is_forced;
        if !is_allowed {
            tracing::warn!(
                "SHUTDOWN SAFE: neither a disk nor a replica in sync has the data, can't exit. SHUTDOWN SAVE saves them."
            );
        }
        is_allowed
    }

    /// Waits until replicas have everything. Returns whether they have, and there are any. `None`: the shutdown was
    /// aborted.
    fn await_replicas(&self, hold: &mut Hold<'static, Task, Wait>) -> Option<bool> {
        let shared = self.shared;
        let limit = Duration::from_secs(shared.settings.number(SHUTDOWN_TIMEOUT) as u64);
        // Tasks in progress still write after writes are held. Replicas have everything when nothing follows the cut.
        let mut cut: Option<(Cut, u64)> = None;
        let goes_on = shared.following.is_replica() || shared.following.failover.is_on();
        while !self.how().is_now && !goes_on && shared.primary.is_followed() {
            let lagging = cut.as_ref().map(|(cut, _)| cut.end().map(|end| shared.primary.lagging(end)));
            if self.started.elapsed() >= limit {
                for replica in lagging.into_iter().flatten().flatten() {
                    tracing::warn!("Lagging replica {replica} reported offset {}", replica.acked());
                }
                return Some(false);
            }
            if shared.shutdown.is_aborted() {
                return None;
            }
            let has_all = |lagging: &Option<Vec<_>>| lagging.as_ref().is_some_and(Vec::is_empty);
            if lagging.as_ref().is_none_or(has_all) && hold.try_enter_all(&self.ids, false).is_ok() {
                let sent_bytes = shared.journal.log.sent_bytes();
                if cut.as_ref().is_some_and(|(_, before)| *before == sent_bytes) {
                    self.leave(hold);
                    tracing::info!("All replicas are in sync when shutting down.");
                    return Some(true);
                }
                if cut.is_none() {
                    let left_ms = limit.saturating_sub(self.started.elapsed()).as_millis() as u64;
                    shared.shutdown.await_until(Some(shared.machine.clock.steady_ms() + left_ms));
                    shared.role_parts().hold_writes(true);
                    // Logged last: who reads this may rely on it.
                    tracing::info!("Waiting for replicas before shutting down.");
                }
                cut = Some((shared.journal.cut_for_replicas(), sent_bytes));
            }
            self.leave(hold);
            std::thread::sleep(RETRY);
        }
        Some(false)
    }

    /// Whether the server ends now, because it has saved or need not. From then, the shutdown cannot be aborted.
    fn may_end(&self, saved: bool) -> bool {
        let outcome = self.shared.shutdown.end(saved);
        match outcome {
            ShutdownOutcome::Ends | ShutdownOutcome::Aborted => {}
            ShutdownOutcome::EndsUnsaved => tracing::warn!("Error trying to save the DB. Exit anyway."),
            ShutdownOutcome::Failed => {
                tracing::warn!("Error trying to save the DB, can't exit.");
                supervisor::notify(&self.shared.settings, "STATUS=Error trying to save the DB, can't exit.");
            }
        }
        matches!(outcome, ShutdownOutcome::Ends | ShutdownOutcome::EndsUnsaved)
    }

    fn how(&self) -> How {
        self.shared.shutdown.how().unwrap_or_default()
    }

    fn is_to_save(&self) -> bool {
        // Data that are only half loaded must not replace the complete snapshot.
        let is_loading = self.shared.snapshots.progress.is_loading();
        !is_loading && self.how().saves.unwrap_or_else(|| self.shared.settings.has_save_points())
    }

    /// The time that it waits for scripts.
    fn patience(&self) -> Duration {
        Duration::from_secs(self.shared.settings.number(SHUTDOWN_TIMEOUT).max(1) as u64)
    }

    fn save(&self, hold: &Hold<'_, Task, Wait>) -> bool {
        tracing::info!("* Saving the final RDB snapshot before exiting.");
        supervisor::notify_slow(&self.shared.settings, "Saving the final RDB snapshot");
        self.shared.snapshots.give_up_spool("the server ends");
        // `save` logs its own errors.
        self.shared.save(hold).is_ok()
    }

    /// Tries to enter all shards until it succeeds, need not, or cannot.
    fn enter(&mut self, hold: &mut Hold<'static, Task, Wait>) -> Entered {
        let patience = self.shared.shards.patience();
        loop {
            if self.shared.shutdown.is_aborted() {
                return Entered::Aborted;
            }
            if !self.is_to_save() {
                return Entered::NotNeeded;
            }
            let is_patient = patience.try_take();
            let has_all = hold.try_enter_all(&self.ids, is_patient).is_ok();
            if is_patient {
                patience.put_back();
            }
            if has_all {
                return Entered::All;
            }
            self.leave(hold);
            if self.look_after_scripts() {
                return Entered::Never;
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Leaves all shards. Tasks delegated meanwhile go to the shards' home threads.
    fn leave(&self, hold: &mut Hold<'static, Task, Wait>) {
        while let Some(&id) = hold.entered().last() {
            while let Some(node) = hold.next_task_or_leave(id) {
                let home = usize::from(self.shared.shards.home(id));
                self.shared.threads[home].send(Message::Hop(node));
            }
        }
    }

    /// Asks the threads to respond, ends scripts that may be ended, and logs what it waits for. Returns true if one of
    /// the threads will not respond.
    fn look_after_scripts(&mut self) -> bool {
        let (shared, now) = (self.shared, Instant::now());
        if now - self.probed < PROBE {
            return false;
        }
        self.probed = now;
        for (number, remote) in shared.threads.iter().enumerate() {
            // Only a script in a call of Lua's library cannot be waited for. Everything else ends.
            if shared.shutdown.has_heard(number) || !shared.scripts.thread(number).is_running() {
                self.heard[number] = now;
            }
            remote.send(Message::ComeBy);
        }
        let patience = if self.how().is_now { Duration::ZERO } else { self.patience() };
        if now - self.started >= patience && shared.shutdown.end_scripts() {
            tracing::warn!("scripts delay the shutdown: those that have written nothing are killed");
        }
        if now - self.reminded >= REMINDER {
            self.reminded = now;
            tracing::warn!(
                "the shutdown waits for scripts that have written: SHUTDOWN NOSAVE stops the server at once"
            );
        }
        !self.silent(self.patience()).is_empty()
    }

    /// The threads whose scripts have not responded for this long.
    fn silent(&self, limit: Duration) -> Vec<usize> {
        let is_silent = |number: &usize| {
            self.shared.scripts.thread(*number).is_running() && self.heard[*number].elapsed() >= limit
        };
        (0..self.heard.len()).filter(is_silent).collect()
    }

    /// Whether the server ends without a save because a thread does not respond. Logs why.
    fn ends_without_save(&self) -> bool {
        let threads: Vec<String> = self.silent(self.patience()).iter().map(usize::to_string).collect();
        let threads = threads.join(", ");
        let ends = self.shared.shutdown.insists();
        let what = if ends {
            "the server exits without one, and everything written after the last save is lost"
        } else {
            "can't exit. SHUTDOWN NOSAVE, SHUTDOWN FORCE or a signal stops the server without a save"
        };
        tracing::error!(
            "a script on thread {threads} has been inside one call of Lua's library for {} seconds, which nothing can interrupt, and may hold \
             shards: no consistent snapshot can be saved; {what}",
            self.patience().as_secs()
        );
        ends
    }
}
