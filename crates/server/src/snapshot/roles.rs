//! What becomes of each command that stands in an append-only file of Redis.

use command::{Command, Route, Rule, Table};
use persistence::Role;
use scripting::change_of;

/// By the commands' numbers.
pub(crate) fn roles(table: &Table) -> Vec<Role> {
    table.all().iter().map(role_of).collect()
}

fn role_of(command: &Command) -> Role {
    let (name, entry) = (command.full_name.as_str(), command.entry);
    let container = name.split('|').next();
    let is_of_data = || {
        commands::FAMILIES.iter().flat_map(|family| family.iter()).any(|entry| Some(entry.name) == container)
    };
    if entry.is_under(Rule::SelectsDb) {
        Role::Select
    } else if entry.is_under(Rule::BeginsMulti) {
        Role::Begin
    } else if entry.route == Route::Queued {
        Role::End
    } else if entry.is_under(Rule::LeavesNothing) {
        Role::Nothing
    } else if matches!(entry.route, Route::Script(_)) {
        Role::Refused(
            "scripts stand here in the place of what they did, as Redis 6 and before may write it; BGREWRITEAOF there makes a file \
             without them",
        )
    } else if change_of(name).is_some() {
        Role::Libraries
    } else if is_of_data() {
        Role::Data
    } else {
        Role::Refused("it is no command that changes data")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_follow_from_what_commands_are() {
        let table = crate::commands::table();
        let roles = roles(&table);
        let role = |name: &str| {
            let command = table.by_full_name(name.as_bytes()).expect("there is such a command");
            roles[usize::from(command.id.0)]
        };
        for name in ["set", "del", "xgroup|create", "zadd", "restore", "sort"] {
            assert_eq!(role(name), Role::Data, "{name}");
        }
        for name in ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro", "discard", "info"] {
            assert!(matches!(role(name), Role::Refused(_)), "{name}");
        }
        for name in ["function|load", "function|restore", "function|delete", "function|flush"] {
            assert_eq!(role(name), Role::Libraries, "{name}");
        }
        for name in ["ping", "publish", "spublish", "script|load", "script|flush"] {
            assert_eq!(role(name), Role::Nothing, "{name}");
        }
        for (name, only) in [("select", Role::Select), ("multi", Role::Begin), ("exec", Role::End)] {
            assert_eq!((role(name), roles.iter().filter(|role| **role == only).count()), (only, 1), "{name}");
        }
    }
}
