//! Connects `acl` to the server: runs its commands, and applies users to clients.
//!
//! ```text
//!   ACL SETUSER ─▶ acl::Users has changed ─┬─▶ next command of a client: it has missed a change, looks its account
//!                                          │   up again (`permission.rs`)
//!                                          └─▶ message to all threads: clients that must go, or wait for what they may
//!                                              not have (`departure.rs`)
//! ```
//!
//! Not here: rules, users, their permissions, their file, the log of denied commands, and the commands on them (crate
//! `acl`).

mod departure;
mod permission;

use acl::{Function, Grammar, Storage, UserAdministration, UserLine, Users};
use config::{ACL_PUBSUB_DEFAULT, ACLFILE, Settings};
use engine::{CommandResult, OwnCall, Table};
use proactor::Disk;

use crate::error::Error;
use crate::message::Message;
use crate::shared::Shared;
use crate::thread::ThreadHost;

/// Runs ACL.
pub(crate) fn run(host: &mut ThreadHost, function: Function, call: OwnCall<'_, '_>) -> CommandResult {
    let (shared, settings) = (host.shared, &host.shared.settings);
    let path = settings.text(ACLFILE);
    let user = host.current.as_deref().expect("a command runs for a client").access.user();
    let driver = &mut host.net.driver;
    let mut administration = UserAdministration {
        users: &shared.users,
        user,
        grammar: grammar(settings, &shared.table),
        storage: (!path.is_empty()).then_some(Storage { disk: &shared.machine.disk, path: &path }),
        now_ms: driver.clock().now_ms(),
        draw_secret: &mut |into| driver.entropy()?.secret(into),
        has_changed: false,
    };
    let result = function(&mut call.on(&mut administration));
    if administration.has_changed {
        // Later messages and pushes find this done, because they come after this message.
        shared.broadcast(|| Message::UsersChanged);
    }
    result
}

/// The grammar that rules are parsed with.
fn grammar<'t>(settings: &Settings, table: &'t Table) -> Grammar<'t> {
    Grammar { table, all_channels: settings.is_on(ACL_PUBSUB_DEFAULT) }
}

/// The default user alone, unchanged.
pub(crate) fn default_users(settings: &Settings, table: &Table) -> Users {
    Users::new(grammar(settings, table), settings.password().as_deref().map(str::as_bytes))
}

/// The users that the configuration declares, or those of the ACL file that it names.
pub(crate) fn users_at_start(
    table: &Table,
    settings: &Settings,
    lines: &[UserLine],
    disk: &Disk,
) -> Result<Users, Error> {
    let (users, grammar) = (default_users(settings, table), grammar(settings, table));
    let path = settings.text(ACLFILE);
    if !path.is_empty() && !lines.is_empty() {
        return Err(Error::UsersTwice);
    }
    let declared = users.declare(grammar, lines);
    for account in lines.iter().filter_map(|line| users.find(line.name())) {
        if !account.user.is_on {
            tracing::info!("the user '{}' is disabled", String::from_utf8_lossy(&account.user.name));
        }
    }
    declared?;
    if !path.is_empty() {
        let loaded = Storage { disk, path: &path }.load(&users, grammar);
        loaded.map_err(|errors| Error::Users(String::from_utf8_lossy(&errors).into_owned()))?;
    }
    Ok(users)
}

/// The users as lines of the configuration file. Empty if they have a file of their own, or if there is only the
/// default user, which follows from other settings.
pub(crate) fn user_lines(shared: &Shared) -> Vec<Vec<u8>> {
    let settings = &shared.settings;
    if !settings.text(ACLFILE).is_empty() {
        return Vec::new();
    }
    let password = settings.password();
    shared.users.declarations(grammar(settings, &shared.table), password.as_deref().map(str::as_bytes))
}
