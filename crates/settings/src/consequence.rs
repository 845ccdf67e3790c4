//! What a change of a setting entails, as names; `server/control/consequences.rs` implements them.

/// What has to be done when a setting has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consequence {
    /// The threads take a new snapshot of the settings of the data path.
    Data,
    /// Other commands are slow, or are counted otherwise.
    Observed,
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
    /// TLS is set up anew.
    Tls,
    /// The default user gets another password.
    Password,
    /// Commands that write need more or fewer replicas.
    Replicas,
    /// Other keys are queues, or more of them may be.
    Queues,
    /// The journal is turned on or off, or becomes durable at other times.
    Journal,
}
