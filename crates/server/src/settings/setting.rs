//! What a setting is: the words of the table's blocks.

use config::Kind;

/// The number of a setting in the table; those that mean nothing here have the numbers behind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Id(pub(super) usize);

/// Where the help lists a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Group {
    /// Ports, sockets, clients.
    Network,
    /// Threads, shards, and how commands reach them.
    Threads,
    /// How much may be stored.
    Memory,
    /// How it is stored.
    Data,
    /// Who may do what.
    Security,
    /// The log, the slow log, statistics, events.
    Watching,
    /// Files and the process.
    Process,
    /// Accepted and without effect.
    Ignored,
}

impl Group {
    /// All groups that the help shows.
    pub(crate) const SHOWN: [Group; 7] = [
        Group::Network,
        Group::Threads,
        Group::Memory,
        Group::Data,
        Group::Security,
        Group::Watching,
        Group::Process,
    ];

    /// Its heading.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Group::Network => "Network and clients",
            Group::Threads => "Threads and shards",
            Group::Memory => "Memory",
            Group::Data => "Data",
            Group::Security => "Security",
            Group::Watching => "Log, statistics and events",
            Group::Process => "Process and files",
            Group::Ignored => "Without effect",
        }
    }
}

/// When a setting may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// At any time, by `CONFIG SET`.
    Anytime,
    /// Only where `enable-protected-configs` allows it: it says where files are written.
    Protected,
    /// Only at the start.
    AtStart,
}

/// What has to be done when a setting has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// Nothing: it is read where it is needed.
    Read,
    /// The threads take a new snapshot of the settings of the data path.
    Data,
    /// The threads look whether there is too much, and see to it.
    Memory,
    /// The log shows more or less.
    LogLevel,
    /// The process needs more or fewer file descriptors.
    MaxClients,
    /// The process changes its working directory.
    Directory,
    /// The server listens elsewhere.
    Listen,
    /// The default user gets another password.
    Password,
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Its name in `redis.conf`.
    pub(crate) name: &'static str,
    /// An older name for the same.
    pub(crate) alias: Option<&'static str>,
    /// What it may be.
    pub(crate) kind: Kind,
    /// What its number counts.
    pub(crate) unit: &'static str,
    /// What it is unless told otherwise.
    pub(crate) default: &'static str,
    /// When it may change.
    pub(crate) change: Change,
    /// What has to be done then.
    pub(crate) effect: Effect,
    /// Where the help lists it.
    pub(crate) group: Group,
    /// What it does.
    pub(crate) doc: &'static str,
    /// Why every value but the default is refused, and what to do instead; empty: it is not.
    pub(crate) refused: &'static str,
}

impl Setting {
    /// For `..Setting::of(group)` in declarations.
    pub(super) const fn of(group: Group) -> Setting {
        Setting {
            name: "",
            alias: None,
            kind: Kind::Text,
            unit: "",
            default: "",
            change: Change::Anytime,
            effect: Effect::Read,
            group,
            doc: "",
            refused: "",
        }
    }
}
