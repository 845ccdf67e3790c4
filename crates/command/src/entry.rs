//! The declaration of a command: everything that is known about it beside its code.
//!
//! Not here: of what type its function is (`ctx.rs`), which an entry need not know.

use crate::arg::Arg;
use crate::key_spec::{Begin, Find, KeyFlag, KeySpec};
use crate::parse::keyword_is;
use crate::secrets::Secrets;
use crate::shape::Shape;

/// What runs a command.
#[derive(Clone, Copy)]
pub enum Run<F> {
    /// A function on the entered shards.
    Function(F),
    /// Nothing: the name of a family of subcommands.
    Container,
}

impl<F> std::fmt::Debug for Run<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Run::Function(_) => "Function",
            Run::Container => "Container",
        })
    }
}

/// Which shards a command needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// Those of the keys that its key specs find; none if it has no key specs.
    Keys,
    /// The same, for a command that tries its keys in turn ([`Ctx::enter_next`]): it begins with that of the first.
    KeysInTurn,
    /// Those of the keys that its key specs find, and of each key after a word `STORE` or `STOREDIST`: of several the
    /// last one counts, while a key spec finds the first.
    Stored,
    /// The same; all of them if there is a pattern with `*` after a word `BY` or `GET`.
    Sort,
    /// That of the channel at this argument.
    Channel(usize),
    /// Those of all channels from this argument on.
    Channels(usize),
    /// That which the cursor at this argument has come to ([`Cursor`](crate::Cursor)).
    Cursor(usize),
    /// All of them.
    Global,
    /// Those that hold a key chosen by chance: it chooses and enters them as it runs; in transactions and scripts all.
    Chance,
    /// Those of the keys that a script or function declares, and what its kind needs beside them.
    Script(Callee),
    /// Those of the commands queued since MULTI, and of the watched keys.
    Queued,
}

/// What argument 1 of a command that runs a script or function is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callee {
    /// The script.
    Source,
    /// Its SHA-1.
    Sha1,
    /// The name of a function.
    Function,
}

/// Which arguments are channels that a user must be allowed to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channels {
    /// None.
    None,
    /// This one.
    One(usize),
    /// All from this one on.
    From(usize),
    /// The same, and they are patterns of channels.
    Patterns(usize),
}

/// What a command does with its key, where that depends on its options.
pub type KeyFlagsOf = fn(args: &[&[u8]]) -> &'static [KeyFlag];

/// On which thread a command runs best.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// On the thread of the client, if the shard is free; else by whoever holds it.
    Quick,
    /// It writes many lines: on the home thread of its shard, if that is awake.
    Heavy,
    /// Only on the thread of the client, because it changes the session.
    Session,
}

/// The group under which `COMMAND DOCS` lists a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// `bitmap`
    Bitmap,
    /// `cluster`
    Cluster,
    /// `connection`
    Connection,
    /// `generic`
    Generic,
    /// `geo`
    Geo,
    /// `hash`
    Hash,
    /// `hyperloglog`
    HyperLogLog,
    /// `list`
    List,
    /// `pubsub`
    PubSub,
    /// `queue`
    Queue,
    /// `scripting`
    Scripting,
    /// `server`
    Server,
    /// `set`
    Set,
    /// `sorted-set`
    SortedSet,
    /// `stream`
    Stream,
    /// `string`
    String,
    /// `transactions`
    Transactions,
}

impl Group {
    /// The name in `COMMAND DOCS`.
    pub fn name(self) -> &'static str {
        match self {
            Group::Bitmap => "bitmap",
            Group::Cluster => "cluster",
            Group::Connection => "connection",
            Group::Generic => "generic",
            Group::Geo => "geo",
            Group::Hash => "hash",
            Group::HyperLogLog => "hyperloglog",
            Group::List => "list",
            Group::PubSub => "pubsub",
            Group::Queue => "queue",
            Group::Scripting => "scripting",
            Group::Server => "server",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Stream => "stream",
            Group::String => "string",
            Group::Transactions => "transactions",
        }
    }
}

macro_rules! named_bits {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $type { $($(#[$variant_doc])* #[doc = concat!("`", $name, "`")] $variant),* }

        impl $type {
            /// All of them, in the order in which Redis lists them.
            pub const ALL: &'static [$type] = &[$($type::$variant),*];

            /// The name that clients see.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name),* }
            }

            /// Its bit in a set of them.
            pub const fn bit(self) -> u64 {
                1 << self as u64
            }

            /// The set of `several`.
            pub fn bits(several: &[$type]) -> u64 {
                several.iter().fold(0, |bits, one| bits | one.bit())
            }
        }
    };
}

named_bits! {
    /// A property of a command, with Redis' name of it.
    Flag {
        Write = "write",
        ReadOnly = "readonly",
        DenyOom = "denyoom",
        Module = "module",
        Admin = "admin",
        PubSub = "pubsub",
        NoScript = "noscript",
        Blocking = "blocking",
        Loading = "loading",
        Stale = "stale",
        SkipMonitor = "skip_monitor",
        SkipSlowlog = "skip_slowlog",
        Asking = "asking",
        Fast = "fast",
        NoAuth = "no_auth",
        MayReplicate = "may_replicate",
        NoMandatoryKeys = "no_mandatory_keys",
        NoAsyncLoading = "no_async_loading",
        NoMulti = "no_multi",
        MovableKeys = "movablekeys",
        AllowBusy = "allow_busy",
    }
}

named_bits! {
    /// A category of commands for access control.
    Acl {
        Keyspace = "keyspace",
        Read = "read",
        Write = "write",
        Set = "set",
        SortedSet = "sortedset",
        List = "list",
        Hash = "hash",
        String = "string",
        Bitmap = "bitmap",
        HyperLogLog = "hyperloglog",
        Geo = "geo",
        Stream = "stream",
        PubSub = "pubsub",
        Admin = "admin",
        Fast = "fast",
        Slow = "slow",
        Blocking = "blocking",
        Dangerous = "dangerous",
        Connection = "connection",
        Transaction = "transaction",
        Scripting = "scripting",
        Queue = "queue",
    }
}

/// What a server has to know about a command beside Redis' flags, so that no code asks for its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Runs at once though MULTI was called.
    RunsInMulti,
    /// Begins what [`Route::Queued`] ends: the commands between them are one transaction.
    BeginsMulti,
    /// Ends MULTI, and so makes room.
    EndsMulti,
    /// Clients with subscriptions may call it in RESP2, too.
    ForSubscribers,
    /// Waits for the answers of all threads: EXEC runs it when it needs its shards no more. A thread with a slow script does not
    /// answer.
    AsksThreads,
    /// Is refused where commands that write are, because snapshots cannot be saved.
    TellsOfFailedSaves,
    /// Says whether replies are sent; this goes for the next command, not for itself.
    SetsReplyMode,
    /// Argument 1 is the database of the commands that follow.
    SelectsDb,
    /// What `CLIENT CACHING` said goes for the command after it.
    KeepsCaching,
    /// Its keys may follow a word instead, with an empty one in their usual place.
    MayListKeys,
    /// It leaves behind nothing that is kept: a log of commands that is run again is run without it.
    LeavesNothing,
}

impl Acl {
    /// A category by its name in any case.
    pub fn parse(name: &[u8]) -> Option<Acl> {
        Acl::ALL.iter().copied().find(|category| keyword_is(name, category.name()))
    }
}

/// A command: its documentation, its contract and its function.
///
/// `F` is the type of its function. Commands on data have a [`CommandFn`](crate::CommandFn). A program's own commands get its
/// [`Host`](crate::Host), or a part of it, by type: `Entry<HostFn<MyHost>>`, `Entry<HostFn<dyn Door>>`. [`Entry::of_host`] makes
/// them fit for a [`Table`](crate::Table).
#[derive(Clone, Copy, Debug)]
pub struct Entry<F: 'static> {
    /// Lower case; of a subcommand the part after the container's name.
    pub name: &'static str,
    /// One sentence for `COMMAND DOCS`.
    pub summary: &'static str,
    /// In Redis' notation.
    pub complexity: &'static str,
    /// The Redis version that brought it.
    pub since: &'static str,
    /// Where it is listed.
    pub group: Group,
    /// Number of arguments with the name; negative: at least so many.
    pub arity: i32,
    /// Its properties.
    pub flags: &'static [Flag],
    /// What else there is to know about it.
    pub rules: &'static [Rule],
    /// Categories that do not follow from flags and group.
    pub acl: &'static [Acl],
    /// Where its keys are.
    pub keys: &'static [KeySpec],
    /// What it does with a key of [`KeyFlag::VariableFlags`], given the arguments of a call.
    pub key_flags: Option<KeyFlagsOf>,
    /// Which channels it uses.
    pub channels: Channels,
    /// Which shards it needs.
    pub route: Route,
    /// Where it runs best.
    pub mode: Mode,
    /// Its arguments.
    pub args: &'static [Arg],
    /// Which of them others may not see.
    pub secrets: Secrets,
    /// Version and change.
    pub history: &'static [(&'static str, &'static str)],
    /// Hints for clients and proxies.
    pub tips: &'static [&'static str],
    /// Since when it is deprecated, and what to use instead.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Not meant for users.
    pub is_system: bool,
    /// What it answers.
    pub reply: Shape,
    /// How it is unlike Redis' command of this name, for `docs/commands.md`; empty: not at all.
    pub note: &'static str,
    /// What runs it.
    pub run: Run<F>,
    /// Of a container.
    pub subcommands: &'static [Entry<F>],
}

impl<F: Copy> Entry<F> {
    /// For `..Entry::DEFAULT` in declarations.
    pub const DEFAULT: Entry<F> = Entry {
        name: "",
        summary: "",
        complexity: "O(1)",
        since: "1.0.0",
        group: Group::Generic,
        arity: -1,
        flags: &[],
        rules: &[],
        acl: &[],
        keys: &[],
        key_flags: None,
        channels: Channels::None,
        route: Route::Keys,
        mode: Mode::Quick,
        args: &[],
        secrets: Secrets::None,
        history: &[],
        tips: &[],
        deprecated: None,
        is_system: false,
        reply: Shape::Any,
        note: "",
        run: Run::Container,
        subcommands: &[],
    };

    /// For `..Entry::HELP`: the subcommand HELP of a container.
    pub const HELP: Entry<F> = Entry {
        name: "help",
        summary: "Returns helpful text about the different subcommands.",
        since: "5.0.0",
        group: Group::Server,
        arity: 2,
        flags: &[Flag::Loading, Flag::Stale],
        reply: Shape::Array(&Shape::AnyStatus),
        ..Entry::DEFAULT
    };

    /// The same entry, and the same subcommands, with another function. To be made once, since it lives for ever.
    pub(crate) fn with_function<G: Copy>(&self, function: G) -> Entry<G> {
        let run = match self.run {
            Run::Function(_) => Run::Function(function),
            Run::Container => Run::Container,
        };
        let subcommands: Vec<Entry<G>> =
            self.subcommands.iter().map(|entry| entry.with_function(function)).collect();
        Entry {
            name: self.name,
            summary: self.summary,
            complexity: self.complexity,
            since: self.since,
            group: self.group,
            arity: self.arity,
            flags: self.flags,
            rules: self.rules,
            acl: self.acl,
            keys: self.keys,
            key_flags: self.key_flags,
            channels: self.channels,
            route: self.route,
            mode: self.mode,
            args: self.args,
            secrets: self.secrets,
            history: self.history,
            tips: self.tips,
            deprecated: self.deprecated,
            is_system: self.is_system,
            reply: self.reply,
            note: self.note,
            run,
            subcommands: Vec::leak(subcommands),
        }
    }

    /// Whether its arity allows this many arguments, the name included.
    #[inline]
    pub fn takes(&self, arg_count: usize) -> bool {
        let count = self.arity.unsigned_abs() as usize;
        if self.arity >= 0 { arg_count == count } else { arg_count >= count }
    }

    /// Whether it has the property.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// Whether this goes for it.
    pub fn is_under(&self, rule: Rule) -> bool {
        self.rules.contains(&rule)
    }
}

/// The argument that is its only key, if that is all its key specs say.
pub(crate) fn only_key(entry: &Entry<impl Copy>) -> Option<usize> {
    match entry.keys {
        [spec] if entry.route == Route::Keys => match (spec.begin, spec.find) {
            (Begin::Index(index), Find::Range { last: 0, .. }) => Some(index),
            _ => None,
        },
        _ => None,
    }
}

/// The run of arguments that its keys are: where it begins, and where it ends, from the front or (negative) the back.
pub(crate) fn key_run(entry: &Entry<impl Copy>) -> Option<(usize, i32)> {
    match entry.keys {
        [spec] if matches!(entry.route, Route::Keys | Route::KeysInTurn) => match (spec.begin, spec.find) {
            (Begin::Index(first), Find::Range { last, step: 1, limit: 0 | 1 }) => Some((first, last)),
            _ => None,
        },
        _ => None,
    }
}

/// Its flags as a set of [`Flag::bit`]s, with those that follow from its key specs.
pub(crate) fn derived_flags(entry: &Entry<impl Copy>) -> u64 {
    let movable = entry
        .keys
        .iter()
        .any(|spec| !matches!((spec.begin, spec.find), (Begin::Index(_), Find::Range { .. })));
    let bits = Flag::bits(entry.flags);
    if movable { bits | Flag::MovableKeys.bit() } else { bits }
}

/// Its access categories as a set of [`Acl::bit`]s, with those that Redis derives from flags and group (`setImplicitACLCategories`).
pub(crate) fn derived_acl(entry: &Entry<impl Copy>) -> u64 {
    let mut bits = Acl::bits(entry.acl);
    let mut add = |condition: bool, category: Acl| {
        if condition {
            bits |= category.bit();
        }
    };
    add(entry.has(Flag::Write), Acl::Write);
    add(entry.has(Flag::ReadOnly) && entry.group != Group::Scripting, Acl::Read);
    add(entry.has(Flag::Admin), Acl::Admin);
    add(entry.has(Flag::Admin), Acl::Dangerous);
    add(entry.has(Flag::PubSub), Acl::PubSub);
    add(entry.has(Flag::Fast), Acl::Fast);
    add(!entry.has(Flag::Fast), Acl::Slow);
    add(entry.has(Flag::Blocking), Acl::Blocking);
    bits
}
