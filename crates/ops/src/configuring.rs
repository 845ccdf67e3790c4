//! CONFIG: shows the settings and changes them while the server runs.

use config::{Consequence, ENABLE_PROTECTED_CONFIGS, Id, Refusal, Settings, TABLE, USER};
use engine::Flag::*;
use engine::{CommandError, CommandResult, Group, Mode, Secrets, Shape, block, string};
use process::system::words_of;

use crate::{Ctx, Entry, OperatorTask, Run, Server};

/// CONFIG and its subcommands.
pub(crate) const CONFIG: Entry = Entry {
    name: "config",
    summary: "A container for server configuration commands.",
    complexity: "Depends on subcommand.",
    since: "2.0.0",
    group: Group::Server,
    arity: -2,
    subcommands: &[CONFIG_GET, CONFIG_HELP, CONFIG_RESETSTAT, CONFIG_REWRITE, CONFIG_SET],
    ..Entry::DEFAULT
};

/// The base of all subcommands.
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
    let settings = ctx.host.server.settings;
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
    secrets: Secrets::ValuesOf { is_secret, from: 2 },
    run: Run::Function(config_set),
    ..SUBCOMMAND
};

/// Whether the value must be hidden. An unknown name may be that of a secret, misspelt.
fn is_secret(name: &[u8]) -> bool {
    let id = std::str::from_utf8(name).ok().and_then(|name| TABLE.find(name));
    id.is_none_or(|id| TABLE.setting(id).is_secret)
}

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
    let may_protected = ctx.host.allows(ENABLE_PROTECTED_CONFIGS);
    let (host, store) = (&mut *ctx.host, &mut ctx.store);
    change(host.server.settings, &pairs, may_protected, |changed| (host.obey)(store, changed))?;
    ctx.reply.ok();
    Ok(())
}

/// The error for an unknown setting.
fn unknown(name: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown option or number of arguments for CONFIG SET - '", name, "'")
}

/// The error for one setting.
fn failed(name: &str, why: &str) -> CommandError {
    CommandError::new(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"))
}

/// Changes settings: all of them, or none if one fails. `obey` applies the consequences ([`Obey`](crate::Obey)).
pub fn change(
    settings: &Settings,
    pairs: &[(&str, &str)],
    may_protected: bool,
    mut obey: impl FnMut(&mut dyn Iterator<Item = Id>) -> Result<(), (Id, String)>,
) -> CommandResult {
    let changed = settings.change(pairs, may_protected).map_err(|refusal| match refusal {
        Refusal::Unknown(name) => unknown(name.as_bytes()),
        Refusal::Setting { name, why } => failed(name, &why),
    })?;
    if let Err((id, why)) = obey(&mut changed.ids()) {
        settings.undo(&changed);
        // Apply the old values of settings that had already taken effect. Listening and TLS have undone their change.
        let goes_back =
            |id: &Id| !matches!(TABLE.setting(*id).effect, Some(Consequence::Listen | Consequence::Tls));
        if let Err((_, why)) = obey(&mut changed.ids().filter(goes_back)) {
            tracing::warn!("cannot undo a failed change of settings: {why}");
        }
        return Err(failed(TABLE.setting(id).name, &why));
    }
    Ok(())
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
    let Server { settings, disk, .. } = ctx.host.server;
    let path = settings
        .config_file()
        .ok_or_else(|| CommandError::new("ERR The server is running without a config file"))?;
    let rewritten = match disk.read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
    .and_then(|old| disk.replace(path, &settings.rewritten(&old, USER, &(ctx.host.user_lines)())));
    rewritten.map_err(|error| {
        tracing::warn!("CONFIG REWRITE failed: {error}");
        CommandError::new(format!("ERR Rewriting config file: {}", words_of(&error)))
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
    ctx.host.carry_out(ctx.store.tx, OperatorTask::ResetStats)?;
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
