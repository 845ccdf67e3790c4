//! CONFIG: looking at the settings and changing them while the server runs.

use command::Flag::*;
use command::{CommandError, CommandResult, Group, Mode, Secrets, Shape, Store, block, string};
use config::{Id, Refusal};
use process::log;
use session::Session;
use settings::{BIND, Consequence, DIR, ENABLE_PROTECTED_CONFIGS, MAXCLIENTS, Settings, TABLE, USER};

use crate::commands::own::{Ctx, Entry, Run};
use crate::journal::Keeper;
use crate::message::Message;
use crate::reports::observe_settings;
use crate::shared::Shared;
use crate::users::user_lines;

/// The family of CONFIG.
pub(crate) const ENTRIES: &[Entry] = &[Entry {
    name: "config",
    summary: "A container for server configuration commands.",
    complexity: "Depends on subcommand.",
    since: "2.0.0",
    group: Group::Server,
    arity: -2,
    subcommands: &[CONFIG_GET, CONFIG_HELP, CONFIG_RESETSTAT, CONFIG_REWRITE, CONFIG_SET],
    ..Entry::DEFAULT
}];

/// What the subcommands have in common.
const SUBCOMMAND: Entry = Entry {
    since: "2.0.0",
    group: Group::Server,
    flags: &[Admin, NoScript, Loading, Stale],
    ..Entry::DEFAULT
};

const CONFIG_GET: Entry = Entry {
    name: "get",
    summary: "Returns the effective values of configuration parameters.",
    complexity: "O(N) when N is the number of configuration parameters provided",
    arity: -3,
    args: &[string("parameter").multiple()],
    history: &[("7.0.0", "Added the ability to pass multiple pattern parameters in one call")],
    reply: Shape::Map(&Shape::Bulk, &Shape::Bulk),
    run: Run::Function(config_get),
    ..SUBCOMMAND
};

fn config_get(ctx: &mut Ctx) -> CommandResult {
    let settings = &ctx.host.shared.settings;
    let mut found: Vec<(String, Id)> = Vec::new();
    let mut add = |name: String, id: Id| {
        if !found.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            found.push((name, id));
        }
    };
    for pattern in &ctx.args[2..] {
        if !pattern.iter().any(|byte| b"[*?".contains(byte)) {
            let name = String::from_utf8_lossy(pattern).into_owned();
            if let Some(id) = TABLE.find(&name) {
                add(name, id);
            }
            continue;
        }
        for (id, setting) in TABLE.all() {
            for name in [Some(setting.name), setting.alias].into_iter().flatten() {
                if ds::glob::matches(pattern, name.as_bytes(), true) {
                    add(name.to_owned(), id);
                }
            }
        }
    }
    ctx.reply.map(found.len());
    for (name, id) in found {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.bulk(settings.text(id).as_bytes());
    }
    Ok(())
}

const CONFIG_SET: Entry = Entry {
    name: "set",
    summary: "Sets configuration parameters in-flight.",
    complexity: "O(N) when N is the number of configuration parameters provided",
    arity: -4,
    mode: Mode::Session,
    args: &[block("data", &[string("parameter"), string("value")]).multiple()],
    history: &[("7.0.0", "Added the ability to set multiple parameters in one call.")],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    reply: Shape::OK,
    secrets: Secrets::ValuesOf { names: &["requirepass", "masterauth"], from: 2 },
    run: Run::Function(config_set),
    ..SUBCOMMAND
};

fn config_set(ctx: &mut Ctx) -> CommandResult {
    if !ctx.args.len().is_multiple_of(2) {
        return Err(CommandError::SYNTAX);
    }
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for pair in ctx.args[2..].chunks(2) {
        let name = std::str::from_utf8(pair[0]).map_err(|_| unknown(pair[0]))?;
        let value = std::str::from_utf8(pair[1]).map_err(|_| failed(name, "argument must be valid UTF-8"))?;
        pairs.push((name, value));
    }
    let may_protected = client_may(&ctx.host.shared.settings, ENABLE_PROTECTED_CONFIGS, ctx.host.session());
    change(ctx.host.shared, &mut ctx.store, &pairs, may_protected)?;
    ctx.reply.ok();
    Ok(())
}

/// The error of a name that is none.
fn unknown(name: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown option or number of arguments for CONFIG SET - '", name, "'")
}

/// The error of one setting.
fn failed(name: &str, why: &str) -> CommandError {
    CommandError::new(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"))
}

/// Changes settings, all of them or none.
pub(crate) fn change(
    shared: &'static Shared,
    store: &mut Store,
    pairs: &[(&str, &str)],
    may_protected: bool,
) -> CommandResult {
    let changed = shared.settings.change(pairs, may_protected).map_err(|refusal| match refusal {
        Refusal::Unknown(name) => unknown(name.as_bytes()),
        Refusal::Setting { name, why } => failed(name, &why),
    })?;
    if let Err((id, why)) = apply(shared, &mut changed.ids()) {
        shared.settings.undo(&changed);
        return Err(failed(TABLE.setting(id).name, &why));
    }
    store.tx.config = shared.data_config();
    store.tx.holds_replies = shared.journal.holds_replies();
    Ok(())
}

/// Does what has to follow from a change; the setting and the reason if that failed.
fn apply(shared: &'static Shared, ids: &mut dyn Iterator<Item = Id>) -> Result<(), (Id, String)> {
    let (mut has_data, mut has_memory, mut has_password, mut listens) = (false, false, false, None);
    let mut has_observed = false;
    for id in ids {
        match TABLE.setting(id).effect {
            None => {}
            Some(Consequence::Data) => has_data = true,
            Some(Consequence::Observed) => has_observed = true,
            Some(Consequence::Password) => has_password = true,
            Some(Consequence::Memory) => has_memory = true,
            Some(Consequence::Listen) => listens = listens.or(Some(id)),
            Some(Consequence::Journal) => {
                Keeper(shared).prepare_journal().map_err(|error| (id, error.to_string()))?;
                shared.journal.obey_settings(&shared.settings);
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
                    .map_err(|error| (id, reason(&error)))?;
                shared.settings.note_directory();
            }
        }
    }
    if let Some(id) = listens {
        listen_anew(shared, id).map_err(|why| (id, why.to_owned()))?;
    }
    if has_memory {
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

/// Listens on other addresses or another port; with an error, in Redis' words, where it did before.
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

/// Tells the operator that the new limit is below what is used.
fn warn_of_memory(shared: &Shared) {
    let (limit, used) = (shared.settings.memory_bytes_max(), heap::allocated_bytes());
    if (1..used).contains(&limit) {
        tracing::warn!(
            "WARNING: the new maxmemory value set via CONFIG SET ({limit}) is smaller than the current memory usage ({used}). This \
             will result in key eviction and/or the inability to accept new write commands depending on the maxmemory-policy."
        );
    }
}

/// The system's words for an error, as Redis quotes them.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

const CONFIG_REWRITE: Entry = Entry {
    name: "rewrite",
    summary: "Persists the effective configuration to file.",
    since: "2.8.0",
    arity: 2,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    reply: Shape::OK,
    run: Run::Function(config_rewrite),
    ..SUBCOMMAND
};

fn config_rewrite(ctx: &mut Ctx) -> CommandResult {
    let shared = ctx.host.shared;
    let settings = &shared.settings;
    let path = settings
        .config_file()
        .ok_or_else(|| CommandError::new("ERR The server is running without a config file"))?;
    let disk = &shared.machine.disk;
    let rewritten = match disk.read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
    .and_then(|old| disk.replace(path, &settings.rewritten(&old, USER, &user_lines(shared))));
    rewritten.map_err(|error| {
        tracing::warn!("CONFIG REWRITE failed: {error}");
        CommandError::new(format!("ERR Rewriting config file: {}", reason(&error)))
    })?;
    tracing::info!("CONFIG REWRITE executed with success.");
    ctx.reply.ok();
    Ok(())
}

const CONFIG_RESETSTAT: Entry = Entry {
    name: "resetstat",
    summary: "Resets the server's statistics.",
    arity: 2,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    reply: Shape::OK,
    run: Run::Function(config_resetstat),
    ..SUBCOMMAND
};

fn config_resetstat(ctx: &mut Ctx) -> CommandResult {
    ctx.host.shared.reset_stats();
    ctx.reply.ok();
    Ok(())
}

const CONFIG_HELP: Entry = Entry { run: Run::Function(config_help), ..Entry::HELP };

fn config_help(ctx: &mut Ctx) -> CommandResult {
    ctx.help(&[
        "GET <pattern>",
        "    Return parameters matching the glob-like <pattern> and their values.",
        "SET <directive> <value>",
        "    Set the configuration <directive> to <value>.",
        "RESETSTAT",
        "    Reset statistics reported by the INFO command.",
        "REWRITE",
        "    Rewrite the configuration file.",
    ])
}

/// Whether a setting of no, yes and local allows something to this client.
pub(crate) fn client_may(settings: &Settings, id: Id, session: &Session) -> bool {
    match settings.number(id) {
        0 => false,
        1 => true,
        _ => session.is_local(),
    }
}
