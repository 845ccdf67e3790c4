//! Carries out the consequences of changed settings.

use clients::wanted_tls;
use config::Id;
use config::{BIND, Consequence, DIR, MAXCLIENTS, TABLE, TLS_PORT};
use process::log;
use process::system::words_of;

use crate::message::Message;
use crate::reports::observe_settings;
use crate::shared::Shared;

/// Applies a change. On failure, returns the setting and the reason.
pub(super) fn obey(shared: &'static Shared, ids: &mut dyn Iterator<Item = Id>) -> Result<(), (Id, String)> {
    let (mut has_data, mut has_memory, mut has_password, mut listens) = (false, false, false, None);
    let (mut has_observed, mut secures) = (false, None);
    for id in ids {
        match TABLE.setting(id).effect {
            None => {}
            Some(Consequence::Data) => has_data = true,
            Some(Consequence::Observed) => has_observed = true,
            Some(Consequence::Password) => has_password = true,
            Some(Consequence::Memory) => has_memory = true,
            Some(Consequence::Tls) => secures = secures.or(Some(id)),
            Some(Consequence::Listen) => listens = listens.or(Some(id)),
            Some(Consequence::Journal) => {
                shared.keeper().prepare_journal().map_err(|error| (id, error.to_string()))?;
                shared.journal.obey_settings(&shared.settings);
            }
            Some(Consequence::Queues) => {
                shared.settings.tell_queues(shared.shards.queues(), shared.machine.clock.steady_ms());
            }
            Some(Consequence::Replicas) => {
                shared.role_parts().judge_quorum(shared.machine.clock.monotonic_ms())
            }
            Some(Consequence::LogLevel) => log::show(&shared.settings),
            Some(Consequence::MaxClients) => {
                let wanted = shared.settings.number(MAXCLIENTS) as u64;
                clients::make_room(&shared.settings, wanted).map_err(|possible| {
                    let why = "The operating system is not able to handle the specified number of clients, try with";
                    (id, format!("{why} {possible}"))
                })?;
            }
            Some(Consequence::Directory) => {
                std::env::set_current_dir(&*shared.settings.text(DIR))
                    .map_err(|error| (id, words_of(&error)))?;
                shared.settings.note_directory();
            }
        }
    }
    let mut former = None;
    if let Some(id) = secures {
        former = Some(shared.tls.change(wanted_tls(&shared.settings)).map_err(|why| (id, why))?);
    }
    if let Some(id) = listens {
        if shared.settings.is_on(TLS_PORT) && shared.tls.accepting().is_none() {
            former = Some(shared.tls.change(wanted_tls(&shared.settings)).map_err(|why| (id, why))?);
        }
        if let Err(why) = listen_anew(shared, id) {
            if let Some(former) = former {
                shared.tls.restore(former);
            }
            return Err((id, why.to_owned()));
        }
    }
    if has_memory {
        shared.lowered.note_limit(shared.settings.memory_bytes_max());
        warn_of_memory(shared);
    }
    if has_data || has_memory {
        shared.reconfigure();
    }
    if has_observed {
        shared.observed.configure(|| observe_settings(&shared.settings));
    }
    if has_password {
        shared.users.set_default_password(shared.settings.password().as_deref().map(str::as_bytes));
    }
    Ok(())
}

/// Listens on other addresses or another port. On an error, worded as in Redis, it continues to listen on the former
/// ones.
fn listen_anew(shared: &Shared, changed: Id) -> Result<(), &'static str> {
    if shared.settings.text(BIND).split_whitespace().count() > clients::ADDRESS_COUNT_MAX {
        return Err("Too many bind addresses specified.");
    }
    let (listeners, outcome) = shared.listeners.change(&shared.settings);
    if !listeners.is_empty() {
        shared.threads[0].send(Message::Listen(listeners));
    }
    outcome.map_err(|error| {
        tracing::warn!("{error}");
        if changed == BIND {
            "Failed to bind to specified addresses."
        } else {
            "Unable to listen on this port. Check server logs."
        }
    })
}

/// Warns the operator that the new limit is below the memory in use.
fn warn_of_memory(shared: &Shared) {
    let (limit, used) = (shared.settings.memory_bytes_max(), heap::counted_bytes());
    if (1..used).contains(&limit) {
        tracing::warn!(
            "WARNING: the new maxmemory value set via CONFIG SET ({limit}) is smaller than the current memory usage ({used}). This \
             will result in key eviction and/or the inability to accept new write commands depending on the maxmemory-policy."
        );
    }
}
