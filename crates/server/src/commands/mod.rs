//! The commands of the server itself: sessions, transactions, administration.

use std::sync::LazyLock;

use engine::Table;
use persistence::Role;
use resp::memcached::Verb;

use self::own::Family;

mod cluster;
#[cfg(test)]
mod complete;
mod connection;
pub(crate) mod functions;
mod migrate;
pub(crate) mod own;
mod queues;
mod server;
pub(crate) mod transactions;

/// The families of commands that use more than the data.
const OWN_FAMILIES: &[Family] = &[
    Family::Acl(acl::ENTRIES),
    Family::Clients(clients::ENTRIES),
    Family::Cluster(ops::cluster::ENTRIES),
    Family::Ops(ops::ENTRIES),
    Family::Server(connection::ENTRIES),
    Family::Migrate(ops::migrate::ENTRIES),
    Family::PubSub(pubsub::ENTRIES),
    Family::Queues(::jobs::queues::ENTRIES),
    Family::Scripting(scripting::ENTRIES),
    Family::Server(server::ENTRIES),
    Family::Server(transactions::ENTRIES),
    Family::Observe(observe::ENTRIES),
    Family::Replication(::replication::ENTRIES),
];

/// The families of commands that need nothing from their thread.
fn families_of_store() -> impl Iterator<Item = &'static [engine::Entry]> {
    [commands::FAMILIES, sketching::FAMILIES, &[jobs::ENTRIES, ops::catalog::ENTRIES]].concat().into_iter()
}

/// The entries of all families for the table of commands, the data commands first.
pub(crate) fn families() -> Vec<&'static [engine::Entry]> {
    static OWN: LazyLock<Vec<Vec<engine::Entry>>> =
        LazyLock::new(|| OWN_FAMILIES.iter().map(|family| family.of_host()).collect());
    families_of_store().chain(OWN.iter().map(Vec::as_slice)).collect()
}

/// All commands of this server, including those of memcached's protocol, each at the number of its verb.
pub(crate) fn table() -> Table {
    static OWN: LazyLock<Vec<Option<engine::Entry>>> = LazyLock::new(|| {
        Verb::ALL.iter().map(|verb| Some(memcached::service_entry(*verb)?.of_host())).collect()
    });
    let container = engine::Entry { name: "memcached", ..engine::Entry::DEFAULT };
    let of_data = |verb: &Verb| memcached::item_entry(*verb);
    let entries = Verb::ALL.iter().zip(OWN.iter()).filter_map(|(verb, own)| own.as_ref().or(of_data(verb)));
    Table::new(&families()).with_protocol(&container, entries).with_rates(jobs::RATES)
}

/// The role of each command of `table` when a stream of commands is loaded, by number.
pub(crate) fn roles(table: &Table) -> Vec<Role> {
    let of_data = [commands::FAMILIES, sketching::FAMILIES].concat();
    persistence::roles(table, &of_data, |name| scripting::change_of(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::functions::functions;

    /// The number of functions in `entries`.
    fn count(entries: &[engine::Entry]) -> usize {
        let own = |entry: &engine::Entry| usize::from(matches!(entry.run, engine::Run::Function(_)));
        entries.iter().map(|entry| own(entry) + count(entry.subcommands)).sum()
    }

    #[test]
    fn commands_that_are_not_on_data_alone_have_functions_and_no_others() {
        let table = table();
        let functions = functions();
        let verbs = Verb::ALL.iter().filter_map(|verb| memcached::service_entry(*verb)).count();
        let declared: usize = OWN_FAMILIES.iter().map(|family| count(&family.of_host())).sum();
        let found = table.all_with_protocol().iter().filter(|command| functions.has(command)).count();
        assert_eq!(found, declared + verbs);
        for entry in families_of_store().flatten() {
            let command = table.declared(entry.name.as_bytes()).expect("the table has all families");
            assert!(!functions.has(command), "{} is no command of the server", entry.name);
        }
    }

    #[test]
    fn roles_follow_from_what_commands_are() {
        let table = table();
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
