//! The consequences of changing a setting, as names; `server/ops/consequences.rs` implements them.

/// A step that must follow the change of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consequence {
    /// The threads copy the settings of the data path.
    Data,
    /// The thresholds or counters of slow commands and latencies change.
    Observed,
    /// The threads check the limits of memory and apply them.
    Memory,
    /// The level of the log changes.
    LogLevel,
    /// The limit of open files changes.
    MaxClients,
    /// The working directory changes.
    Directory,
    /// The listeners change.
    Listen,
    /// TLS is configured again.
    Tls,
    /// The password of the default user changes.
    Password,
    /// The number of replicas that writes require changes.
    Replicas,
    /// The keys that are queues change, or how many queues there may be.
    Queues,
    /// The journal is turned on or off, or changes when it writes to the disk.
    Journal,
}
