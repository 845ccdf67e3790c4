//! Requests about sessions and the server, which are written by hand instead of generated.
//!
//! Their arguments must suit the server, and their changes must not prevent the comparison of the rest of a run: a line is
//! one or several requests that leave the session in its former state, or in an allowed one.

/// The lines of a command.
struct Lines {
    command: &'static str,
    /// The requests of each line, separated by semicolons.
    lines: &'static [&'static str],
}

const fn lines(command: &'static str, lines: &'static [&'static str]) -> Lines {
    Lines { command, lines }
}

const ALL: &[Lines] = &[
    lines("auth", &["AUTH default x", "AUTH x", "AUTH nobody x", "AUTH"]),
    lines(
        "client|caching",
        &[
            "CLIENT TRACKING ON OPTIN;CLIENT CACHING YES;CLIENT TRACKING OFF",
            "CLIENT TRACKING ON OPTOUT;CLIENT CACHING NO;CLIENT TRACKING OFF",
            "CLIENT TRACKING ON OPTIN;CLIENT CACHING NO;CLIENT TRACKING OFF",
            "CLIENT CACHING YES",
            "CLIENT CACHING MAYBE",
        ],
    ),
    lines("client|getname", &["CLIENT GETNAME"]),
    lines("client|getredir", &["CLIENT GETREDIR", "CLIENT TRACKING ON;CLIENT GETREDIR;CLIENT TRACKING OFF"]),
    lines("client|id", &["CLIENT ID"]),
    lines("client|info", &["CLIENT INFO"]),
    lines(
        "client|kill",
        &[
            "CLIENT KILL 1.2.3.4:5",
            "CLIENT KILL ID 999999999",
            "CLIENT KILL TYPE NORMAL ID 999999999 SKIPME NO",
            "CLIENT KILL TYPE MASTER",
            "CLIENT KILL TYPE SLAVE SKIPME YES",
            "CLIENT KILL TYPE REPLICA USER default",
            "CLIENT KILL TYPE PUBSUB ADDR 1.2.3.4:5 LADDR 1.2.3.4:5",
            "CLIENT KILL ADDR 1.2.3.4:5",
            "CLIENT KILL TYPE NOTHING",
            "CLIENT KILL ID x",
            "CLIENT KILL SKIPME",
        ],
    ),
    lines(
        "client|list",
        &[
            "CLIENT LIST",
            "CLIENT LIST TYPE NORMAL",
            "CLIENT LIST TYPE MASTER",
            "CLIENT LIST TYPE REPLICA",
            "CLIENT LIST TYPE PUBSUB",
            "CLIENT LIST TYPE NOTHING",
            "CLIENT LIST ID 1 2",
            "CLIENT LIST ID x",
            "CLIENT LIST WHAT",
        ],
    ),
    lines("client|no-evict", &["CLIENT NO-EVICT ON", "CLIENT NO-EVICT OFF", "CLIENT NO-EVICT x"]),
    lines(
        "client|pause",
        &[
            "CLIENT PAUSE 0",
            "CLIENT PAUSE 0 WRITE",
            "CLIENT PAUSE 0 ALL",
            "CLIENT PAUSE x",
            "CLIENT PAUSE -1",
        ],
    ),
    lines("client|reply", &["CLIENT REPLY ON", "CLIENT REPLY x"]),
    lines("client|setname", &["CLIENT SETNAME a", "CLIENT SETNAME \"\"", "CLIENT SETNAME \"a b\""]),
    lines(
        "client|tracking",
        &[
            "CLIENT TRACKING ON;CLIENT TRACKING OFF",
            "CLIENT TRACKING ON BCAST PREFIX none: PREFIX nil: NOLOOP;CLIENT TRACKINGINFO;CLIENT TRACKING OFF",
            "CLIENT TRACKING ON BCAST PREFIX none PREFIX none:;CLIENT TRACKING OFF",
            "CLIENT TRACKING ON OPTIN;CLIENT TRACKING ON OPTOUT;CLIENT TRACKING OFF",
            "CLIENT TRACKING ON OPTOUT NOLOOP;CLIENT TRACKING ON BCAST;CLIENT TRACKING OFF",
            "CLIENT TRACKING ON OPTIN OPTOUT",
            "CLIENT TRACKING ON BCAST OPTIN",
            "CLIENT TRACKING ON PREFIX none",
            "CLIENT TRACKING ON REDIRECT 999999999",
            "CLIENT TRACKING x",
        ],
    ),
    lines(
        "client|trackinginfo",
        &[
            "CLIENT TRACKINGINFO",
            "CLIENT TRACKING ON OPTIN;CLIENT CACHING YES;CLIENT TRACKINGINFO;CLIENT TRACKING OFF",
        ],
    ),
    lines(
        "client|unblock",
        &[
            "CLIENT UNBLOCK 999999999",
            "CLIENT UNBLOCK 999999999 TIMEOUT",
            "CLIENT UNBLOCK 999999999 ERROR",
            "CLIENT UNBLOCK x",
            "CLIENT UNBLOCK 1 x",
        ],
    ),
    lines("config|get", &["CONFIG GET maxmemory", "CONFIG GET nothing", "CONFIG GET hz nothing*"]),
    lines(
        "config|set",
        &[
            "CONFIG SET lua-time-limit 5000",
            "CONFIG SET timeout 0 tcp-keepalive 300",
            "CONFIG SET nothing 1",
            "CONFIG SET timeout x",
            "CONFIG SET timeout 0 timeout 0",
            "CONFIG SET timeout",
        ],
    ),
    lines(
        "debug",
        &[
            "DEBUG DIGEST-VALUE s0 l0 h0",
            "DEBUG CHANGE-REPL-ID",
            "DEBUG SET-ACTIVE-EXPIRE 1",
            "DEBUG OBJECT none",
            "DEBUG PROTOCOL string",
            "DEBUG PROTOCOL integer",
            "DEBUG PROTOCOL bignum",
            "DEBUG PROTOCOL null",
            "DEBUG PROTOCOL array",
            "DEBUG PROTOCOL set",
            "DEBUG PROTOCOL map",
            "DEBUG PROTOCOL verbatim",
            "DEBUG PROTOCOL true",
            "DEBUG PROTOCOL false",
            "DEBUG PROTOCOL x",
            "DEBUG ERROR \"A text\"",
            "DEBUG NOTHING",
        ],
    ),
    lines(
        "eval",
        &[
            "EVAL \"return {KEYS[1], ARGV[1]}\" 1 s0 a",
            "EVAL \"return nothing()\" 0",
            "EVAL x -1",
            "EVAL x 2 a",
        ],
    ),
    lines(
        "eval_ro",
        &[
            "EVAL_RO \"return redis.call('GET', KEYS[1])\" 1 s0",
            "EVAL_RO \"return redis.call('SET', 's0', '1')\" 0",
        ],
    ),
    lines(
        "evalsha",
        &["SCRIPT LOAD \"return 1\";EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", "EVALSHA x 0"],
    ),
    lines(
        "evalsha_ro",
        &["SCRIPT LOAD \"return 1\";EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", "EVALSHA_RO x 0"],
    ),
    lines("exec", &["EXEC", "MULTI;EXEC", "MULTI;PING;GET;EXEC"]),
    lines("discard", &["DISCARD", "MULTI;PING;DISCARD"]),
    lines("multi", &["MULTI;PING;EXEC", "MULTI;MULTI;EXEC", "MULTI;WATCH s0;EXEC"]),
    lines(
        "hello",
        &[
            "HELLO",
            "HELLO 2",
            "HELLO 3",
            "HELLO 3 AUTH default x SETNAME a",
            "HELLO 3 AUTH nobody x",
            "HELLO 4",
            "HELLO x",
            "HELLO 2 WHAT",
        ],
    ),
    lines("info", &["INFO", "INFO server keyspace", "INFO everything", "INFO nothing"]),
    lines("latency|graph", &["LATENCY GRAPH nothing"]),
    lines("latency|histogram", &["LATENCY HISTOGRAM nothing", "LATENCY HISTOGRAM get"]),
    lines("latency|history", &["LATENCY HISTORY nothing"]),
    lines("latency|reset", &["LATENCY RESET", "LATENCY RESET nothing command"]),
    lines(
        "lolwut",
        &["LOLWUT", "LOLWUT VERSION 5", "LOLWUT VERSION 5 3 2", "LOLWUT VERSION x", "LOLWUT VERSION 5 x"],
    ),
    lines(
        "memory|usage",
        &["MEMORY USAGE s0", "MEMORY USAGE h0 SAMPLES 0", "MEMORY USAGE none", "MEMORY USAGE s0 SAMPLES -1"],
    ),
    lines("psubscribe", &["PSUBSCRIBE a* b* a*;PUNSUBSCRIBE a* b*"]),
    lines("punsubscribe", &["PSUBSCRIBE a*;PING;PUNSUBSCRIBE a* c*", "PUNSUBSCRIBE c*"]),
    lines("publish", &["PUBLISH nobody text"]),
    lines("pubsub|channels", &["PUBSUB CHANNELS", "PUBSUB CHANNELS a*"]),
    lines("pubsub|numsub", &["PUBSUB NUMSUB", "PUBSUB NUMSUB a b"]),
    lines("pubsub|shardchannels", &["PUBSUB SHARDCHANNELS", "PUBSUB SHARDCHANNELS a*"]),
    lines("pubsub|shardnumsub", &["PUBSUB SHARDNUMSUB", "PUBSUB SHARDNUMSUB a b"]),
    lines("replicaof", &["REPLICAOF NO ONE", "REPLICAOF a x"]),
    lines("slaveof", &["SLAVEOF NO ONE", "SLAVEOF a 65536"]),
    lines("reset", &["RESET"]),
    lines(
        "script|exists",
        &[
            "SCRIPT FLUSH;SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db x",
            "SCRIPT FLUSH;SCRIPT LOAD \"return 1\";SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
        ],
    ),
    lines("script|flush", &["SCRIPT FLUSH", "SCRIPT FLUSH SYNC", "SCRIPT FLUSH ASYNC", "SCRIPT FLUSH x"]),
    lines("script|load", &["SCRIPT LOAD \"return 1\"", "SCRIPT LOAD \"return (\""]),
    lines("select", &["SELECT 0", "SELECT 1", "SELECT 2", "SELECT 16", "SELECT -1", "SELECT x"]),
    lines(
        "slowlog|get",
        &["SLOWLOG GET", "SLOWLOG GET -1", "SLOWLOG GET 0", "SLOWLOG GET -2", "SLOWLOG GET x"],
    ),
    lines("spublish", &["SPUBLISH nobody text"]),
    lines("ssubscribe", &["SSUBSCRIBE a b;SUNSUBSCRIBE b a"]),
    lines("subscribe", &["SUBSCRIBE a b a;UNSUBSCRIBE a b c", "SUBSCRIBE a;PING text;UNSUBSCRIBE a"]),
    lines("sunsubscribe", &["SUNSUBSCRIBE a", "SSUBSCRIBE a;PING;SUNSUBSCRIBE a"]),
    lines("unsubscribe", &["UNSUBSCRIBE a b", "SUBSCRIBE a;UNSUBSCRIBE a"]),
    lines("wait", &["WAIT 0 0", "WAIT 0 10", "WAIT 1 1", "WAIT 0 -1", "WAIT x 0"]),
    lines("watch", &["WATCH s0;UNWATCH", "WATCH s0 l0"]),
];

/// Commands that are not sent, or never answered without an error, and the test that covers them instead. A name that ends
/// with `|` stands for all subcommands.
pub(crate) const ELSEWHERE: &[(&str, &str)] = &[
    ("acl|", "acl"),
    ("function|", "`functions` makes them up"),
    ("asking", "cluster: there is none here"),
    ("bgrewriteaof", "snapshots"),
    ("bgsave", "snapshots"),
    ("cluster|", "cluster: there is none here"),
    ("command", "commands"),
    ("command|", "commands"),
    ("config|rewrite", "operation: there is no file here"),
    ("failover", "it always fails without replicas"),
    ("fcall", "`functions` makes them up"),
    ("fcall_ro", "`functions` makes them up"),
    ("latency|graph", "operation: nothing is slow here"),
    ("migrate", "migrate"),
    ("module|load", "there are no modules"),
    ("module|loadex", "there are no modules"),
    ("module|unload", "there are no modules"),
    ("monitor", "pubsub"),
    ("object|freq", "there are frequencies only under an LFU policy"),
    ("psync", "replication"),
    ("quit", "sessions"),
    ("readonly", "cluster: there is none here"),
    ("readwrite", "cluster: there is none here"),
    ("replconf", "replication"),
    ("save", "snapshots"),
    ("script|debug", "there is no debugger"),
    ("script|kill", "slow_scripts"),
    ("shutdown", "operation"),
    ("sync", "replication"),
];

/// Commands of [`ELSEWHERE`] that are sent nevertheless, because both servers refuse every form of them in the same way.
const ALWAYS_REFUSED: [&str; 9] = [
    "asking",
    "cluster|",
    "failover",
    "latency|graph",
    "module|load",
    "module|loadex",
    "module|unload",
    "readonly",
    "readwrite",
];

/// Words of commands that are not sent, and why.
pub(crate) const WORDS_ELSEWHERE: &[(&str, &str, &str)] = &[
    ("client|reply", "OFF", "sessions"),
    ("client|reply", "SKIP", "sessions"),
    ("client|tracking", "REDIRECT", "tracking: there must be a client"),
];

/// Not between `MULTI` and `EXEC`: the replies come on another way, the protocol changes, or Redis refuses them earlier.
const NOT_QUEUED: [&str; 15] = [
    "module|load",
    "module|loadex",
    "module|unload",
    "discard",
    "exec",
    "multi",
    "client|kill",
    "client|list",
    "client|pause",
    "client|unblock",
    "client|unpause",
    "hello",
    "reset",
    "select",
    "watch",
];

fn names(list: &str, command: &str) -> bool {
    list == command || (list.ends_with('|') && command.starts_with(list))
}

/// The lines of a command; `None` if its arguments are generated.
pub(crate) fn lines_of(command: &str) -> Option<&'static [&'static str]> {
    ALL.iter().find(|lines| lines.command == command).map(|lines| lines.lines)
}

/// Whether only other tests get answers without an error to this command.
pub fn is_elsewhere(command: &str) -> bool {
    ELSEWHERE.iter().any(|(list, _)| names(list, command))
}

/// Whether only other tests send this word of a command.
pub fn is_word_elsewhere(command: &str, word: &str) -> bool {
    WORDS_ELSEWHERE.iter().any(|known| (known.0, known.1) == (command, word))
}

/// Whether it is sent.
pub(crate) fn is_sent(command: &str) -> bool {
    !is_elsewhere(command) || ALWAYS_REFUSED.iter().any(|list| names(list, command))
}

/// Whether `MULTI` may queue it.
pub(crate) fn may_be_queued(command: &str) -> bool {
    !NOT_QUEUED.contains(&command)
}
