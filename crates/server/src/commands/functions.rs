//! Finds the function of each command that uses more than the data, and what runs it on a thread.

use std::sync::LazyLock;

use engine::{Command, OwnFunctions, Table};
use resp::memcached::Verb;

use crate::commands::own::Family;
use crate::commands::{OWN_FAMILIES, cluster, migrate, queues, table};
use crate::connections::caller;
use crate::thread::ThreadHost;
use crate::{memcached, ops, replication, reports, scripts, subscribers, users};

/// Adds the functions of a family's commands in `table`. `find` finds a command by its name.
fn add<'t>(
    functions: &mut OwnFunctions<ThreadHost>,
    table: &'t Table,
    find: impl Fn(&str) -> &'t Command,
    family: Family,
) {
    match family {
        Family::Acl(entries) => functions.add_family(table, find, entries, users::run),
        Family::Scripting(entries) => functions.add_family(table, find, entries, scripts::run),
        Family::Server(entries) => {
            functions.add_family(table, find, entries, |host, function, call| function(&mut call.on(host)));
        }
        Family::Clients(entries) => functions.add_family(table, find, entries, caller::run),
        Family::Cluster(entries) => functions.add_family(table, find, entries, cluster::run),
        Family::Ops(entries) => functions.add_family(table, find, entries, ops::run),
        Family::Migrate(entries) => functions.add_family(table, find, entries, migrate::run),
        Family::Memcached(entries) => functions.add_family(table, find, entries, memcached::run),
        Family::PubSub(entries) => functions.add_family(table, find, entries, subscribers::run),
        Family::Queues(entries) => functions.add_family(table, find, entries, queues::run),
        Family::Observe(entries) => functions.add_family(table, find, entries, reports::run),
        Family::Replication(entries) => functions.add_family(table, find, entries, replication::run),
    }
}

/// The functions of all commands that use more than the data, whatever their names are.
pub(crate) fn functions() -> &'static OwnFunctions<ThreadHost> {
    static ALL: LazyLock<OwnFunctions<ThreadHost>> = LazyLock::new(|| {
        let table = table();
        let mut functions = OwnFunctions::none(&table);
        let declared = |name: &str| table.declared(name.as_bytes()).expect("the table has all families");
        for family in OWN_FAMILIES {
            add(&mut functions, &table, declared, *family);
        }
        for (index, verb) in Verb::ALL.iter().enumerate() {
            if let Some(entry) = ::memcached::service_entry(*verb) {
                let family = Family::Memcached(std::slice::from_ref(entry));
                add(&mut functions, &table, |_| table.of_protocol(index), family);
            }
        }
        functions
    });
    &ALL
}
