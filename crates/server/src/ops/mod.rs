//! Runs the commands of `ops`, and carries out what they ask for.

mod consequences;
mod populate;

use clients::session::{Part, Session, Subject};
use config::Id;
use engine::{CommandResult, OwnCall, Store, Tx};
use ops::{Controls, Function, OperatorTask, Server};
use persistence::save_settings;
use replication::{History, random_id};
use resp::Reply;

use crate::error::Error;
use crate::life::gather::ask;
use crate::shared::Shared;
use crate::snapshot::{Loaded, Loader};
use crate::thread::{ThreadHost, running};
use crate::users::user_lines;

/// Runs a command of operators.
pub(crate) fn run(host: &mut ThreadHost, function: Function, call: OwnCall<'_, '_>) -> CommandResult {
    let shared = host.shared;
    let mut controls = Controls {
        server: Server {
            settings: &shared.settings,
            snapshots: &shared.snapshots,
            disk: &shared.machine.disk,
            active_expire: &shared.active_expire,
            is_checkpoint_scheduled: &shared.journal.is_scheduled,
            shutdown: &shared.shutdown,
        },
        is_local: host.current.as_deref().is_some_and(Session::is_local),
        has_journal: shared.journal.is_on(),
        has_checkpoint: shared.journal.checkpoint_started_ms().is_some(),
        busy_error: shared.scripts.is_busy().then(|| shared.scripts.busy_error()),
        user_lines: &|| user_lines(shared),
        obey: &mut |store, changed| obey(shared, store, changed),
        carry_out: &mut |tx, task| carry_out(host, tx, task),
    };
    function(&mut call.on(&mut controls))
}

/// Applies the consequences of changed settings. If one fails, returns the setting and the reason.
pub(crate) fn obey(
    shared: &'static Shared,
    store: &mut Store,
    changed: &mut dyn Iterator<Item = Id>,
) -> Result<(), (Id, String)> {
    consequences::obey(shared, changed)?;
    shared.data_config.refresh(&mut store.tx.config);
    shared.journal.set_holds(store.tx);
    Ok(())
}

/// What went wrong.
fn text(error: impl std::error::Error) -> String {
    error.to_string()
}

fn carry_out(host: &mut ThreadHost, tx: &mut Tx, task: OperatorTask) -> Result<(), String> {
    let shared = host.shared;
    match task {
        OperatorTask::ResetStats => shared.reset_stats(),
        OperatorTask::Populate(population) => {
            populate::begin(running(&mut host.current), &mut host.net, population);
        }
        OperatorTask::MoveClient { id, thread } => move_client(host, id, thread)?,
        OperatorTask::Save => shared.save(&tx.hold).map_err(text)?,
        OperatorTask::BeginSave => {
            let settings = save_settings(&shared.settings, &shared.machine.disk);
            shared.save_in_background(&mut tx.hold, settings).map_err(text)?;
        }
        OperatorTask::BeginCheckpoint => {
            let save = |settings| shared.save_in_background(&mut tx.hold, settings);
            shared.keeper().begin_checkpoint(save).map_err(text)?;
        }
        OperatorTask::Reload { saves } => {
            if saves {
                shared.save(&tx.hold).map_err(text)?;
            }
            put_in_place(shared, tx, Loader::of(shared).read_snapshot(tx.now))?;
        }
        OperatorTask::ReloadJournal => {
            tx.commit();
            let opening = shared.keeper().settled_journal()?;
            put_in_place(shared, tx, Loader::of(shared).read_journal(&opening))?;
        }
        OperatorTask::ShutDown(how) => {
            let failed = |_: Vec<Part>, reply: &mut Reply<'_>| {
                reply.error("ERR Errors trying to SHUTDOWN. Check logs.");
            };
            // The client waits until its answer is sent.
            let session = host.session();
            session.state.gather(1, Box::new(failed));
            shared.shut_down(how, Some(session.client));
        }
        OperatorTask::RenameStream => {
            let mut entropy = host.net.driver.entropy().expect("the system has randomness");
            shared.role_parts().rename_stream(History::new(random_id(|| entropy.next_u64())));
        }
    }
    Ok(())
}

/// Moves a client to a thread, and replies when the move has begun.
fn move_client(host: &mut ThreadHost, id: u64, thread: u16) -> Result<(), String> {
    if usize::from(thread) >= host.shared.threads.len() {
        return Err("there is no such thread".to_owned());
    }
    let finish = |parts: Vec<Part>, reply: &mut Reply<'_>| match Part::total(&parts) {
        0 => reply.error("ERR there is no such client, or it cannot move"),
        _ => reply.ok(),
    };
    let subject = Subject::Move { id, thread };
    ask(running(&mut host.current), &mut host.net, &subject, Box::new(finish));
    Ok(())
}

/// Replaces the data by what was read. All shards are entered.
fn put_in_place(
    shared: &'static Shared,
    tx: &mut Tx,
    read: Result<Option<Loaded>, Error>,
) -> Result<(), String> {
    if let Some(loaded) = read.map_err(text)? {
        loaded.put_in_place(tx, &shared.scripts, &shared.snapshots);
    }
    Ok(())
}
