//! Declares the families of commands that use more than the data.
//!
//! The function of a command of the server gets its thread by type: [`Ctx::host`](engine::Ctx::host) is a
//! [`ThreadHost`]. A command of a component gets what that component's commands work with: a struct of references, in
//! which the function also leaves what its thread has to do afterwards.
//!
//! The table of commands knows none of these types. It has the same entries without their functions. To run one of
//! these, it asks the thread ([`Host::run_own`](engine::Host::run_own)), which finds the function by the command's
//! number (`functions.rs`).

use engine::HostFn;

use crate::thread::ThreadHost;

/// A call of a command of the server.
pub(crate) type Ctx<'a, 't> = engine::Ctx<'a, 't, ThreadHost>;
/// The function of a command of the server.
pub(crate) type Function = HostFn<ThreadHost>;
/// The declaration of a command of the server.
pub(crate) type Entry = engine::Entry<Function>;
/// The implementation of a command of the server.
pub(crate) type Run = engine::Run<Function>;

/// Declares the families, and the type of the functions of each.
macro_rules! families {
    ($($owner:ident: $function:ty;)*) => {
        /// A family of commands, named after its owner.
        #[derive(Clone, Copy)]
        pub(crate) enum Family {
            $($owner(&'static [engine::Entry<$function>])),*
        }

        impl Family {
            /// The entries for the table of commands.
            pub(crate) fn of_host(self) -> Vec<engine::Entry> {
                match self {
                    $(Family::$owner(entries) => entries.iter().map(engine::Entry::of_host).collect()),*
                }
            }
        }
    };
}

families! {
    Acl: acl::Function;
    Scripting: scripting::Function;
    Server: Function;
    Clients: clients::Function;
    Cluster: ops::cluster::Function;
    Ops: ops::Function;
    Migrate: ops::migrate::Function;
    Memcached: memcached::Function;
    PubSub: pubsub::Function;
    Queues: jobs::queues::Function;
    Observe: observe::Function;
    Replication: replication::Function;
}
