//! Gives the commands of `ops` what they need from their thread.

mod consequences;
mod populate;

use std::sync::atomic::Ordering;

use clients::session::{Part, Subject};
use commands::keys::populate::Population;
use config::Id;
use engine::{CommandError, CommandResult, Store, Tx};
use ops::{Door, Server};
use persistence::save_settings;
use process::shutdown::How;
use replication::{History, random_id};
use resp::Reply;

use crate::snapshot::Loader;
use crate::thread::ThreadHost;
use crate::users::user_lines;

impl Door for ThreadHost {
    fn server(&self) -> Server {
        let shared = self.shared;
        Server {
            settings: &shared.settings,
            snapshots: &shared.snapshots,
            disk: &shared.machine.disk,
            active_expire: &shared.active_expire,
        }
    }

    fn is_local(&mut self) -> bool {
        self.session().is_local()
    }

    fn obey(&mut self, store: &mut Store, changed: &mut dyn Iterator<Item = Id>) -> Result<(), (Id, String)> {
        consequences::obey(self.shared, changed)?;
        self.shared.data_config.refresh(&mut store.tx.config);
        store.tx.holds_replies = self.shared.journal.holds_replies();
        Ok(())
    }

    fn user_lines(&self) -> Vec<Vec<u8>> {
        user_lines(self.shared)
    }

    fn reset_stats(&mut self) {
        self.shared.reset_stats();
    }

    fn populate(&mut self, population: Population) {
        populate::begin(self, population);
    }

    fn move_client(&mut self, id: u64, thread: u16) -> CommandResult {
        if usize::from(thread) >= self.shared.threads.len() {
            return Err(CommandError::fixed("ERR there is no such thread"));
        }
        let finish = |parts: Vec<Part>, reply: &mut Reply<'_>| match Part::total(&parts) {
            0 => reply.error("ERR there is no such client, or it cannot move"),
            _ => reply.ok(),
        };
        self.ask(&Subject::Move { id, thread }, Box::new(finish));
        Ok(())
    }

    fn reload(&mut self, tx: &mut Tx, saves: bool) -> Result<(), String> {
        let shared = self.shared;
        if saves {
            Door::save(self, tx)?;
        }
        let read = Loader::of(shared).read_snapshot(tx.now);
        if let Some(loaded) = read.map_err(|error| error.to_string())? {
            loaded.put_in_place(tx, &shared.scripts, &shared.snapshots);
        }
        Ok(())
    }

    fn reload_journal(&mut self, tx: &mut Tx) -> Result<(), String> {
        let shared = self.shared;
        tx.commit();
        let opening = shared.keeper().settled_journal()?;
        let read = Loader::of(shared).read_journal(&opening);
        if let Some(loaded) = read.map_err(|error| error.to_string())? {
            loaded.put_in_place(tx, &shared.scripts, &shared.snapshots);
        }
        Ok(())
    }

    fn save(&mut self, tx: &mut Tx) -> Result<(), String> {
        self.shared.save(&tx.hold).map_err(|error| error.to_string())
    }

    fn begin_save(&mut self, tx: &mut Tx) -> Result<(), String> {
        let settings = save_settings(&self.shared.settings, &self.shared.machine.disk);
        self.shared.save_in_background(&mut tx.hold, settings).map_err(|error| error.to_string())
    }

    fn begin_checkpoint(&mut self, tx: &mut Tx) -> Result<(), String> {
        let shared = self.shared;
        let save = |settings| shared.save_in_background(&mut tx.hold, settings);
        shared.keeper().begin_checkpoint(save).map_err(|error| error.to_string())
    }

    fn has_checkpoint(&self) -> bool {
        self.shared.journal.checkpoint_started_ms().is_some()
    }

    fn schedule_checkpoint(&mut self) {
        self.shared.journal.is_scheduled.store(true, Ordering::Relaxed);
    }

    fn busy_error(&self) -> Option<CommandError> {
        self.shared.scripts.is_busy().then(|| self.shared.scripts.busy_error())
    }

    fn shut_down(&mut self, how: How) {
        let failed = |_: Vec<Part>, reply: &mut Reply<'_>| {
            reply.error("ERR Errors trying to SHUTDOWN. Check logs.");
        };
        let asker = self.await_answer(Box::new(failed));
        self.shared.shut_down(how, Some(asker));
    }

    fn abort_shutdown(&mut self) -> bool {
        self.shared.shutdown.abort()
    }

    fn has_journal(&self) -> bool {
        self.shared.journal.is_on()
    }

    fn change_replication_id(&mut self) {
        let mut entropy = self.net.driver.entropy().expect("the system has randomness");
        replication::Door::rename_stream(self, History::new(random_id(|| entropy.next_u64())));
    }
}
