//! Work on the data folder of a node that does not run.

use std::thread;
use std::time::Duration;

use agent::{Adoption, NodeState, StoreOptions, data_folder, group_of, node_id_of};
use config::Settings;
use proactor::{Disk, Entropy};
use topology::{History, Term};

use crate::cluster::error::Error;
use crate::cluster::{now_ms, say};

/// How often it is tried to prove a death. The next start of the node, and its watcher, try as well.
const TRIES_MAX: usize = 5;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// Makes a copied folder that of a new node, or of the node that it was.
pub(crate) fn adopt(settings: &Settings, adoption: Adoption) -> Result<(), Error> {
    let folder = data_folder(settings)?;
    let mut entropy = Entropy::from_os().map_err(|source| {
        Error::Agent(agent::Error::Io { what: "the system has no random numbers".to_owned(), source })
    })?;
    let wanted = node_id_of(settings);
    let node = NodeState::adopt(&Disk::real(), &folder, adoption, wanted.as_ref(), &mut entropy)?;
    let folder = folder.display();
    match adoption {
        Adoption::NewNode => say(&format!(
            "{folder} is the data folder of the new node {node}, which gets the data of its group from the primary"
        )),
        Adoption::Moved => {
            say(&format!("{folder} is the data folder of node {node}: never start the original again"))
        }
    }
}

/// Proves that the last process that used the data folder is dead: no process has its lock. Silent if the server takes part in no
/// group, because a unit calls this whenever the server ends.
pub(crate) fn prove_dead(settings: &Settings) -> Result<(), Error> {
    let options = match StoreOptions::of(settings) {
        Err(agent::Error::NoStore) => return Ok(()),
        options => options?,
    };
    let Some(state) = NodeState::open_existing(&Disk::real(), &data_folder(settings)?)? else {
        return Ok(());
    };
    let Some(life) = state.predecessor() else { return Ok(()) };
    let mut store = options.open(History::default())?;
    let mut tries = 1;
    while let Err(error) = state.prove_predecessor(&mut *store, now_ms()) {
        if tries == TRIES_MAX {
            return Err(error.into());
        }
        tries += 1;
        thread::sleep(PAUSE);
    }
    say(&format!("life {life} of node {} is proven to be over", state.node()))
}

/// Forgets what the node knows of the store, which was restored or replaced.
pub(crate) fn accept_store(settings: &Settings) -> Result<(), Error> {
    let folder = data_folder(settings)?;
    let Some(mut state) = NodeState::open_existing(&Disk::real(), &folder)? else {
        return Err(agent::Error::NoNode { folder: folder.display().to_string() }.into());
    };
    let mut store = agent::open_store(settings, state.history())?;
    let before = state.history().highest;
    store.accept_as_it_is();
    let reading = store.read()?;
    state.note_history(store.history())?;
    say(&format!(
        "node {} follows the store at revision {}; before, it knew revision {before}",
        state.node(),
        reading.as_of
    ))?;
    let known = state.term();
    let group = group_of(settings);
    let found = reading.document().and_then(|document| document.groups.get(&group)).map(|group| group.term);
    match found {
        Some(term) if term < known => say(&advice(known, term)),
        Some(_) => Ok(()),
        None => say(&format!(
            "the store has no group {group}: restore a later backup, or create the cluster with the node whose data are the \
             latest (this one was in term {known})"
        )),
    }
}

fn advice(known: Term, found: Term) -> String {
    format!(
        "the document is in term {found}, but this node was in term {known}, so it follows nobody: start all nodes, and let the one \
         with the latest data lead with 'darter --cluster repair --accept-loss NODE --above-term {known}'"
    )
}
