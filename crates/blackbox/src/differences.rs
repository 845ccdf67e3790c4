//! The table of differences between the replies of two correct servers, with reasons.
//!
//! A command that is not listed gets identical replies, with two exceptions: commands with the tip
//! `nondeterministic_output_order` may reply in any order, and commands on sorted sets may write a double differently,
//! because Redis 7.0 prints 17 digits and 7.2 the fewest that identify it.

use resp::Value;

/// How the replies of a command are compared.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// Random elements of the reply to `reader` (with the key inserted after its name, if the command has one), which
    /// was sent just before. The number of elements is compared, and each must be in that reply.
    Sample {
        /// The request that reads all elements.
        reader: &'static str,
    },
    /// Integers that differ by at most this, because the two servers read their clocks one after the other.
    Near(i64),
    /// The result of the whole iteration is compared, without order and duplicates.
    Walk,
    /// With arguments for which this is true, equal elements are in the order of the hash table. So a whole reply is
    /// compared without its order, and a part only by its length. A key that such elements are stored in is deleted.
    Tied(fn(&[&[u8]]) -> bool),
    /// Replies may differ if this is true; Darter's reply is the first argument. Otherwise they must be equal.
    Differs(fn(&Value, &Value) -> bool),
    /// The oracle is too old for this word: it is never sent, and the command is not sent with wrong arguments either.
    Newer(&'static str),
    /// This word is never sent.
    Unsent(&'static str),
}

/// A difference.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Full names of the commands, such as `object|encoding`.
    pub commands: &'static [&'static str],
    /// The allowed difference.
    pub rule: Rule,
    /// Why.
    pub reason: &'static str,
}

/// Half a minute, for a busy machine. Generated lifetimes are hours.
const CLOCK_TOLERANCE_S: i64 = 30;
const BLOCKING: &[&str] =
    &["blmove", "blmpop", "blpop", "brpop", "brpoplpush", "bzmpop", "bzpopmax", "bzpopmin"];
const RANDOM: &str = "the choice is random";
const CLOCK: &str = "time passes between the two servers";
/// Whether `SORT` leaves the order of elements open, because elements may have nothing to be compared by.
fn leaves_order(args: &[&[u8]]) -> bool {
    args.iter().any(|arg| arg.eq_ignore_ascii_case(b"BY"))
}

const ORDER: &str = "the order is the table's";

/// All known differences.
pub const KNOWN: &[Known] = &[
    Known { commands: &["spop"], rule: Rule::Sample { reader: "SMEMBERS" }, reason: RANDOM },
    Known { commands: &["srandmember"], rule: Rule::Sample { reader: "SMEMBERS" }, reason: RANDOM },
    Known { commands: &["hrandfield"], rule: Rule::Sample { reader: "HGETALL" }, reason: RANDOM },
    Known {
        commands: &["zrandmember"],
        rule: Rule::Sample { reader: "ZRANGE 0 -1 WITHSCORES" },
        reason: RANDOM,
    },
    Known { commands: &["randomkey"], rule: Rule::Sample { reader: "KEYS *" }, reason: RANDOM },
    Known { commands: &["sort", "sort_ro"], rule: Rule::Tied(leaves_order), reason: ORDER },
    Known { commands: &["scan"], rule: Rule::Walk, reason: ORDER },
    Known { commands: &["hscan"], rule: Rule::Walk, reason: ORDER },
    Known { commands: &["sscan"], rule: Rule::Walk, reason: ORDER },
    Known { commands: &["zscan"], rule: Rule::Walk, reason: ORDER },
    Known { commands: &["ttl"], rule: Rule::Near(CLOCK_TOLERANCE_S), reason: CLOCK },
    Known { commands: &["expiretime"], rule: Rule::Near(CLOCK_TOLERANCE_S), reason: CLOCK },
    Known { commands: &["pttl"], rule: Rule::Near(CLOCK_TOLERANCE_S * 1000), reason: CLOCK },
    Known { commands: &["pexpiretime"], rule: Rule::Near(CLOCK_TOLERANCE_S * 1000), reason: CLOCK },
    Known {
        commands: &["object|idletime"],
        rule: Rule::Differs(|darter, redis| {
            matches!((darter, redis), (Value::Int(0..=CLOCK_TOLERANCE_S), Value::Int(_)))
        }),
        reason: "the oracle has one object for all keys with the same small integer, and it may be as old as the server",
    },
    Known {
        commands: &["object|encoding"],
        rule: Rule::Differs(is_newer_encoding),
        reason: "7.2 keeps small lists and small sets of strings in listpacks",
    },
    Known {
        commands: &["object|help", "xgroup|help", "xinfo|help"],
        rule: Rule::Differs(is_newer_help),
        reason: "7.2 says `Print this help.` where 7.0 says `Prints`",
    },
    Known {
        commands: &["memory|usage"],
        rule: Rule::Differs(|darter, redis| {
            is_same_kind(darter, redis) || matches!((darter, redis), (Value::Null, Value::Int(_)))
        }),
        reason: "memory is used in another way, and Redis tells of keys whose time is over, too",
    },
    Known {
        commands: OF_THE_SERVER,
        rule: Rule::Differs(is_same_kind),
        reason: "it tells about the server itself",
    },
    Known {
        commands: HELPS,
        rule: Rule::Differs(is_same_kind),
        reason: "7.2 has other subcommands, and Darter tells what is unlike Redis",
    },
    Known { commands: &["zrank", "zrevrank"], rule: Rule::Newer("WITHSCORE"), reason: "an option since 7.2" },
    Known { commands: &["hscan"], rule: Rule::Newer("NOVALUES"), reason: "an option since 7.4" },
    Known { commands: &["xadd"], rule: Rule::Unsent("*"), reason: CLOCK },
    Known {
        commands: &["xinfo|consumers", "xinfo|groups", "xinfo|stream", "xpending"],
        rule: Rule::Differs(is_same_stream),
        reason: "time passes between the two servers; since 7.2 there is a second time, and the last releases of \
                 it count better what a group has not got",
    },
    Known {
        commands: &["object|refcount"],
        rule: Rule::Differs(|darter, redis| {
            (darter, redis) == (&Value::Int(i64::from(i32::MAX)), &Value::Int(1))
        }),
        reason: "the oracle does not share a small integer that COPY made",
    },
    Known {
        commands: &["xsetid"],
        rule: Rule::Differs(|darter, _| {
            is_error(darter, "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
        }),
        reason: "7.2 minds the largest deleted id; the stream is deleted after the request",
    },
    Known {
        commands: &["xadd"],
        rule: Rule::Differs(|darter, redis| {
            is_error(darter, "ERR The ID specified in XADD is equal or smaller")
                && is_error(redis, "ERR Elements are too large")
        }),
        reason: "7.0 gives the wrong reason if there is no sequence number left in a millisecond",
    },
    Known {
        commands: &["xread", "xreadgroup"],
        rule: Rule::Differs(|darter, redis| {
            is_error(darter, "ERR Unbalanced 'xread") && is_error(redis, "ERR Unbalanced XREAD")
        }),
        reason: "7.2 names the command",
    },
    Known {
        commands: &["dbsize"],
        rule: Rule::Near(5),
        reason: "keys whose time is over count until someone meets them",
    },
    Known {
        commands: &["lpos"],
        rule: Rule::Differs(|darter, _| is_error(darter, "ERR value is out of range, value must between")),
        reason: "7.2 refuses the one rank that cannot be negated",
    },
    Known {
        commands: &["hscan", "scan", "sscan", "zscan"],
        rule: Rule::Differs(|darter, _| is_error(darter, "ERR invalid cursor")),
        reason: "a negative cursor is one of the largest for the oracle",
    },
    Known {
        commands: &["dump"],
        rule: Rule::Differs(|darter, redis| matches!((darter, redis), (Value::Bulk(_), Value::Bulk(_)))),
        reason: "the same value is encoded in another way; `dumps` exchanges them",
    },
    Known {
        commands: BLOCKING,
        rule: Rule::Differs(|darter, redis| {
            is_error(darter, "ERR timeout is out of range") && is_error(redis, "ERR timeout is negative")
        }),
        reason: "7.2 notices that a timeout is too large, where 7.0 overflows",
    },
];

/// Commands whose replies are about the server or the connection.
const OF_THE_SERVER: &[&str] = &[
    "client|id",
    "client|info",
    "client|list",
    "hello",
    "info",
    "lastsave",
    "latency|doctor",
    "latency|histogram",
    "latency|latest",
    "lolwut",
    "memory|doctor",
    "memory|malloc-stats",
    "memory|stats",
    "slowlog|get",
    "slowlog|len",
    "time",
];
const HELPS: &[&str] = &[
    "client|help",
    "config|help",
    "latency|help",
    "memory|help",
    "module|help",
    "pubsub|help",
    "script|help",
    "slowlog|help",
];

fn is_same_kind(darter: &Value, redis: &Value) -> bool {
    std::mem::discriminant(darter) == std::mem::discriminant(redis) && !matches!(darter, Value::Error(_))
}

/// The rules for the command with this full name.
pub(crate) fn rules_of(command: &str) -> impl Iterator<Item = Rule> {
    KNOWN.iter().filter(move |known| known.commands.contains(&command)).map(|known| known.rule)
}

fn is_error(reply: &Value, beginning: &str) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with(beginning.as_bytes()))
}

fn is_newer_help(darter: &Value, redis: &Value) -> bool {
    let (Value::Array(darter), Value::Array(redis)) = (darter, redis) else { return false };
    let (Some((last, lines)), Some((old_last, old_lines))) = (darter.split_last(), redis.split_last()) else {
        return false;
    };
    lines == old_lines
        && *last == Value::Simple(b"    Print this help.".into())
        && *old_last == Value::Simple(b"    Prints this help.".into())
}

/// Whether replies about a stream are equal except for times and for what depends on the implementation.
fn is_same_stream(darter: &Value, redis: &Value) -> bool {
    without_times(darter) == without_times(redis)
}

/// What XINFO shows of streams since Redis 8.6 and 8.8.
pub(crate) const NEWER_STREAM_FIELDS: [&[u8]; 7] = [
    b"idmp-duration",
    b"idmp-maxsize",
    b"pids-tracked",
    b"iids-tracked",
    b"iids-added",
    b"iids-duplicates",
    b"nacked-count",
];

/// A reply about a stream, without times and without what the versions count differently. Maps become arrays sorted by
/// name, because scripts return them in any order.
pub(crate) fn without_times(reply: &Value) -> Value {
    const LEFT_OUT: [&[u8]; 7] =
        [b"idle", b"inactive", b"seen-time", b"active-time", b"radix-tree-nodes", b"lag", b"entries-read"];
    let is_known = |name: &[u8]| LEFT_OUT.contains(&name) || NEWER_STREAM_FIELDS.contains(&name);
    let is_left_out = |name: &Value| matches!(name, Value::Bulk(name) if is_known(name));
    match reply {
        Value::Map(pairs) => {
            let flat = pairs.iter().flat_map(|(name, value)| [name.clone(), value.clone()]);
            without_times(&Value::Array(flat.collect()))
        }
        Value::Array(items) => match &items[..] {
            // A pending entry: the time is the last but one.
            [Value::Bulk(_), .., Value::Int(_), count @ Value::Int(_)] => {
                Value::Array(items[..items.len() - 2].iter().chain([count]).cloned().collect())
            }
            [Value::Bulk(_), ..] if items.iter().any(is_left_out) => {
                let mut pairs: Vec<&[Value]> =
                    items.chunks(2).filter(|pair| !is_left_out(&pair[0])).collect();
                pairs.sort_by_cached_key(|pair| pair[0].to_string());
                Value::Array(pairs.into_iter().flatten().map(without_times).collect())
            }
            _ => Value::Array(items.iter().map(without_times).collect()),
        },
        other => other.clone(),
    }
}

fn is_newer_encoding(darter: &Value, redis: &Value) -> bool {
    let (Value::Bulk(darter), Value::Bulk(redis)) = (darter, redis) else { return false };
    matches!((&darter[..], &redis[..]), (b"listpack", b"quicklist" | b"hashtable"))
}
