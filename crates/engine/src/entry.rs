//! The declaration of a command: everything known about it except its code.
//!
//! Not here: the type of its function (`ctx.rs`), which an entry need not know.

use crate::arg::Arg;
use crate::key_spec::{Begin, Find, KeyFlag, KeySpec};
use crate::parse::keyword_is;
use crate::secrets::Secrets;
use crate::shape::Shape;

/// The code of a command.
#[derive(Clone, Copy)]
pub enum Run<F> {
    /// A function on the entered shards.
    Function(F),
    /// None: the entry names a family of subcommands.
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

/// The shards that a command needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// The shards of the keys that its key specs find; none if it has no key specs.
    Keys,
    /// The same shards as `Keys`, with the keys tried in turn ([`Ctx::enter_next`](crate::Ctx::enter_next)):
    /// only the shard of the first key is entered beforehand.
    KeysInTurn,
    /// The shards of `Keys`. As it runs, the command also enters the shards of further keys, which it learns
    /// from what it reads; in transactions and scripts, all shards are entered beforehand.
    KeysAndBeside,
    /// The shards of the keys that its key specs find, and of every key after a word `STORE` or `STOREDIST`. If such a
    /// word comes several times, the command uses the last key, but a key spec finds the first.
    Stored,
    /// The shards of `Stored`, or all shards if there is a pattern with `*` after a word `BY` or `GET`.
    Sort,
    /// The shard of the channel at this argument.
    Channel(usize),
    /// The shards of all channels, beginning at this argument.
    Channels(usize),
    /// The shard that the cursor at this argument has reached ([`Cursor`](crate::Cursor)).
    Cursor(usize),
    /// All shards.
    Global,
    /// The shard of a randomly chosen key. The command chooses and enters it as it runs; in transactions and
    /// scripts, all shards are entered beforehand.
    Chance,
    /// All shards, one after the other: the command enters and leaves them as it runs, unless the database is
    /// small. In transactions and scripts, all shards are entered beforehand.
    Walk,
    /// The shards of the keys that a script or function declares, and the further shards that this kind of script
    /// needs.
    Script(Callee),
    /// The shards of the commands queued since MULTI, and of the watched keys.
    Queued,
}

/// The meaning of argument 1 of EVAL, EVALSHA, FCALL and their variants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callee {
    /// The source of the script.
    Source,
    /// The SHA-1 of the script.
    Sha1,
    /// The name of a function.
    Function,
}

/// The arguments that are channels a user must be allowed to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channels {
    /// None.
    None,
    /// This argument.
    One(usize),
    /// All arguments, beginning at this one.
    From(usize),
    /// All arguments, beginning at this one; they are patterns of channels.
    Patterns(usize),
}

/// Computes what a command does with its key, if that depends on its options.
pub type KeyFlagsOf = fn(args: &[&[u8]]) -> &'static [KeyFlag];

/// The thread on which a command runs best.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// On the client's thread if the shard is free; otherwise on the thread that holds the shard.
    Quick,
    /// On the home thread of its shard, if that is awake, because the command writes many cache lines.
    Heavy,
    /// Only on the thread of the client, because it changes the session.
    Session,
}

/// The group under which `COMMAND DOCS` lists a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// `bitmap`
    Bitmap,
    /// `bf`
    Bloom,
    /// `cluster`
    Cluster,
    /// `connection`
    Connection,
    /// `cms`
    CountMin,
    /// `cf`
    Cuckoo,
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
    /// `tdigest`
    TDigest,
    /// `topk`
    TopK,
    /// `transactions`
    Transactions,
}

impl Group {
    /// The name in `COMMAND DOCS`.
    pub fn name(self) -> &'static str {
        match self {
            Group::Bitmap => "bitmap",
            Group::Bloom => "bf",
            Group::Cluster => "cluster",
            Group::Connection => "connection",
            Group::CountMin => "cms",
            Group::Cuckoo => "cf",
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
            Group::TDigest => "tdigest",
            Group::TopK => "topk",
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

            /// Its bit in a set of these values.
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
    /// A property of a command, with Redis' name for it.
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
        Bloom = "bloom",
        Cuckoo = "cuckoo",
        CountMin = "cms",
        TopK = "topk",
        TDigest = "tdigest",
    }
}

/// A fact about a command that the server needs beyond Redis' flags. No code compares the names of commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Runs at once, even after MULTI.
    RunsInMulti,
    /// Begins a transaction, which a command with [`Route::Queued`] ends.
    BeginsMulti,
    /// Ends MULTI, and so frees memory.
    EndsMulti,
    /// Clients with subscriptions may call it in RESP2 as well.
    ForSubscribers,
    /// Waits for the answers of all threads, and a thread that runs a slow script gives none. EXEC runs it
    /// when it no longer needs its shards.
    AsksThreads,
    /// Is refused, like write commands, while snapshots cannot be saved.
    TellsOfFailedSaves,
    /// Messages that have arrived for the client are delivered before its reply, outside MULTI.
    FollowsMessages,
    /// Turns replies on or off, starting with the next command.
    SetsReplyMode,
    /// Argument 1 is the database of the commands that follow.
    SelectsDb,
    /// A preceding `CLIENT CACHING` applies to the command after this one.
    KeepsCaching,
    /// Its keys may follow a word instead; the argument in their usual place is then empty.
    MayListKeys,
    /// Only shows something if it has no arguments beyond the required ones, though it otherwise writes.
    ShowsAlone,
    /// Leaves no state behind, so replaying a log of commands skips it.
    LeavesNothing,
}

impl Acl {
    /// The category with this name, in any case.
    pub fn parse(name: &[u8]) -> Option<Acl> {
        Acl::ALL.iter().copied().find(|category| keyword_is(name, category.name()))
    }
}

/// A command: its documentation, its contract and its function.
///
/// `F` is the type of its function. Data commands have a [`CommandFn`](crate::CommandFn). Commands of the
/// server get their [`Host`](crate::Host), or what they need of it, by type: `Entry<HostFn<MyHost>>`.
/// [`Entry::of_host`] converts them for a [`Table`](crate::Table).
#[derive(Clone, Copy, Debug)]
pub struct Entry<F: 'static> {
    /// Its name in lower case; a subcommand's name does not include the container's.
    pub name: &'static str,
    /// One sentence for `COMMAND DOCS`.
    pub summary: &'static str,
    /// Its complexity in Redis' notation.
    pub complexity: &'static str,
    /// The Redis version that introduced it.
    pub since: &'static str,
    /// The group in which it is listed.
    pub group: Group,
    /// The number of arguments including the name; if negative, the minimum.
    pub arity: i32,
    /// Its properties.
    pub flags: &'static [Flag],
    /// Further facts that the server needs about it.
    pub rules: &'static [Rule],
    /// Categories that do not follow from its flags and group.
    pub acl: &'static [Acl],
    /// Where its keys are.
    pub keys: &'static [KeySpec],
    /// What it does with a key of [`KeyFlag::VariableFlags`], given the arguments of a call.
    pub key_flags: Option<KeyFlagsOf>,
    /// The channels it uses.
    pub channels: Channels,
    /// The shards it needs.
    pub route: Route,
    /// Where it runs best.
    pub mode: Mode,
    /// Its arguments.
    pub args: &'static [Arg],
    /// The arguments that only its client may see.
    pub secrets: Secrets,
    /// Versions and changes.
    pub history: &'static [(&'static str, &'static str)],
    /// Hints for clients and proxies.
    pub tips: &'static [&'static str],
    /// The version that deprecated it, and what to use instead.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Whether it is not meant for users.
    pub is_system: bool,
    /// The shape of its reply.
    pub reply: Shape,
    /// How it differs from the Redis command of this name, for `docs/commands.md`; empty if it does not.
    pub note: &'static str,
    /// The code that runs it.
    pub run: Run<F>,
    /// The subcommands of a container.
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

    /// This entry and its subcommands with another function. Call this once per entry, because the result is
    /// never freed.
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

    /// Whether it has this property.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// Whether this rule applies to it.
    pub fn is_under(&self, rule: Rule) -> bool {
        self.rules.contains(&rule)
    }
}

/// The index of its only key, if its key specs name nothing else.
pub(crate) fn only_key(entry: &Entry<impl Copy>) -> Option<usize> {
    match entry.keys {
        [spec] if entry.route == Route::Keys => match (spec.begin, spec.find) {
            (Begin::Index(index), Find::Range { last: 0, .. }) => Some(index),
            _ => None,
        },
        _ => None,
    }
}

/// Its keys, if they are a run of arguments: the first index, and the last, from the front or (negative) from the back.
pub(crate) fn key_run(entry: &Entry<impl Copy>) -> Option<(usize, i32)> {
    match entry.keys {
        [spec] if matches!(entry.route, Route::Keys | Route::KeysInTurn) => match (spec.begin, spec.find) {
            (Begin::Index(first), Find::Range { last, step: 1, limit: 0 | 1 }) => Some((first, last)),
            _ => None,
        },
        _ => None,
    }
}

/// Its flags as a set of [`Flag::bit`]s, including those that follow from its key specs.
pub(crate) fn derived_flags(entry: &Entry<impl Copy>) -> u64 {
    let movable = entry
        .keys
        .iter()
        .any(|spec| !matches!((spec.begin, spec.find), (Begin::Index(_), Find::Range { .. })));
    let bits = Flag::bits(entry.flags);
    if movable { bits | Flag::MovableKeys.bit() } else { bits }
}

/// Its categories as a set of [`Acl::bit`]s, including those that Redis derives from flags and group
/// (`setImplicitACLCategories`).
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
