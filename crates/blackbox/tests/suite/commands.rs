//! Compares the descriptions of all commands with redis-server's.
//!
//! `COMMAND INFO` and `COMMAND DOCS` field by field, except for summaries and names of arguments, which 7.2 has reworded. All other
//! changes of 7.2 are listed here. Also the settings of CONFIG GET, with their defaults.

use std::collections::{BTreeMap, BTreeSet};

use blackbox::{Server, oracle};
use resp::Value;
use transcript::{Runner, Socket};

/// Fields of `COMMAND INFO` in order, without the subcommands.
const FIELDS: [&str; 9] =
    ["name", "arity", "flags", "first key", "last key", "step", "categories", "tips", "key specs"];

/// Command, field, and what 7.2 has changed. An empty field means that the command is new.
const CHANGED: &[(&str, &str, &str)] = &[
    ("acl|deluser", "tips", "declared"),
    ("acl|save", "tips", "declared"),
    ("acl|setuser", "tips", "declared"),
    ("blmove", "flags", "scripts may call blocking commands"),
    ("blpop", "flags", "scripts may call blocking commands"),
    ("brpop", "flags", "scripts may call blocking commands"),
    ("brpoplpush", "flags", "scripts may call blocking commands"),
    ("bzpopmax", "flags", "scripts may call blocking commands"),
    ("bzpopmin", "flags", "scripts may call blocking commands"),
    ("wait", "flags", "scripts may call blocking commands"),
    ("waitaof", "", "new"),
    ("hexpire", "", "from 7.4"),
    ("hpexpire", "", "from 7.4"),
    ("hexpireat", "", "from 7.4"),
    ("hpexpireat", "", "from 7.4"),
    ("httl", "", "from 7.4"),
    ("hpttl", "", "from 7.4"),
    ("hexpiretime", "", "from 7.4"),
    ("hpexpiretime", "", "from 7.4"),
    ("hpersist", "", "from 7.4"),
    ("hgetex", "", "from 8.0"),
    ("hsetex", "", "from 8.0"),
    ("hgetdel", "", "from 8.0"),
    ("set", "arguments", "comparisons, from 8.4"),
    ("set", "history", "comparisons, from 8.4"),
    ("delex", "", "from 8.4"),
    ("digest", "", "from 8.4"),
    ("msetex", "", "from 8.4"),
    ("increx", "", "from 8.8"),
    ("delifeq", "", "of Valkey 9.0"),
    ("client|no-touch", "", "new"),
    ("cluster|myshardid", "", "new"),
    ("client|setinfo", "", "new"),
    ("client|pause", "since", "corrected"),
    ("client|list", "arguments", "a block around one argument is gone"),
    ("config|get", "arguments", "a block around one argument is gone"),
    ("client|kill", "arguments", "SKIPME is declared with its values"),
    ("command|getkeys", "arity", "commands of one word have keys too"),
    ("command|getkeys", "arguments", "declared"),
    ("command|getkeysandflags", "arity", "commands of one word have keys too"),
    ("command|getkeysandflags", "arguments", "declared"),
    ("config|resetstat", "tips", "declared"),
    ("config|rewrite", "tips", "declared"),
    ("latency|reset", "tips", "corrected"),
    ("client|setname", "tips", "declared"),
    ("msetnx", "tips", "it cannot be split"),
    ("randomkey", "tips", "declared"),
    ("scan", "tips", "declared"),
    ("bitop", "arguments", "the operations are declared; more of them, from 8.2"),
    ("bitop", "history", "more operations, from 8.2"),
    ("zinter", "arguments", "COUNT, from 8.8"),
    ("zinter", "history", "COUNT, from 8.8"),
    ("zinterstore", "arguments", "COUNT, from 8.8"),
    ("zinterstore", "history", "COUNT, from 8.8"),
    ("zunion", "arguments", "COUNT, from 8.8"),
    ("zunion", "history", "COUNT, from 8.8"),
    ("zunionstore", "arguments", "COUNT, from 8.8"),
    ("zunionstore", "history", "COUNT, from 8.8"),
    ("lmovem", "", "from 8.10"),
    ("blmovem", "", "from 8.10"),
    ("sunioncard", "", "from 8.10"),
    ("sdiffcard", "", "from 8.10"),
    ("xread", "arguments", "MAXCOUNT and MAXSIZE, from 8.10"),
    ("xread", "history", "MAXCOUNT and MAXSIZE, from 8.10"),
    ("client|capa", "", "from Valkey 8.0"),
    ("client|maint_notifications", "", "from 8.4"),
    ("xreadgroup", "arguments", "CLAIM, from 8.4, and MAXCOUNT and MAXSIZE, from 8.10"),
    ("xreadgroup", "history", "CLAIM, from 8.4, and MAXCOUNT and MAXSIZE, from 8.10"),
    ("xcfgset", "", "from 8.6"),
    ("xidmprecord", "", "from 8.8"),
    ("xnack", "", "from 8.8"),
    ("saddex", "", "from 8.12"),
    ("sexpire", "", "from 8.12"),
    ("sexpireat", "", "from 8.12"),
    ("sexpiretime", "", "from 8.12"),
    ("spersist", "", "from 8.12"),
    ("spexpire", "", "from 8.12"),
    ("spexpireat", "", "from 8.12"),
    ("spexpiretime", "", "from 8.12"),
    ("spttl", "", "from 8.12"),
    ("sttl", "", "from 8.12"),
    ("zmove", "", "from 8.12"),
    ("bzmove", "", "from 8.12"),
    ("zmovemember", "", "from 8.12"),
    ("bf.add", "", "of the module RedisBloom"),
    ("bf.card", "", "of the module RedisBloom"),
    ("bf.exists", "", "of the module RedisBloom"),
    ("bf.info", "", "of the module RedisBloom"),
    ("bf.insert", "", "of the module RedisBloom"),
    ("bf.loadchunk", "", "of the module RedisBloom"),
    ("bf.madd", "", "of the module RedisBloom"),
    ("bf.mexists", "", "of the module RedisBloom"),
    ("bf.reserve", "", "of the module RedisBloom"),
    ("bf.scandump", "", "of the module RedisBloom"),
    ("bless", "", "from 8.12"),
    ("bless|clear", "", "from 8.12"),
    ("bless|get", "", "from 8.12"),
    ("bless|help", "", "from 8.12"),
    ("bless|scan", "", "from 8.12"),
    ("bless|set", "", "from 8.12"),
    ("cf.add", "", "of the module RedisBloom"),
    ("cf.addnx", "", "of the module RedisBloom"),
    ("cf.count", "", "of the module RedisBloom"),
    ("cf.del", "", "of the module RedisBloom"),
    ("cf.exists", "", "of the module RedisBloom"),
    ("cf.info", "", "of the module RedisBloom"),
    ("cf.insert", "", "of the module RedisBloom"),
    ("cf.insertnx", "", "of the module RedisBloom"),
    ("cf.loadchunk", "", "of the module RedisBloom"),
    ("cf.mexists", "", "of the module RedisBloom"),
    ("cf.reserve", "", "of the module RedisBloom"),
    ("cf.scandump", "", "of the module RedisBloom"),
    ("cluster|slot-stats", "", "from 8.2"),
    ("cms.incrby", "", "of the module RedisBloom"),
    ("cms.info", "", "of the module RedisBloom"),
    ("cms.initbydim", "", "of the module RedisBloom"),
    ("cms.initbyprob", "", "of the module RedisBloom"),
    ("cms.merge", "", "of the module RedisBloom"),
    ("cms.query", "", "of the module RedisBloom"),
    ("commandlog", "", "of Valkey 8.1"),
    ("commandlog|get", "", "of Valkey 8.1"),
    ("commandlog|help", "", "of Valkey 8.1"),
    ("commandlog|len", "", "of Valkey 8.1"),
    ("commandlog|reset", "", "of Valkey 8.1"),
    ("group-beat", "", "of Darter"),
    ("group-standing", "", "of Darter"),
    ("hotkeys", "", "from 8.6"),
    ("hotkeys|get", "", "from 8.6"),
    ("hotkeys|help", "", "from 8.6"),
    ("hotkeys|reset", "", "from 8.6"),
    ("hotkeys|start", "", "from 8.6"),
    ("hotkeys|stop", "", "from 8.6"),
    ("script|show", "", "of Valkey 8.0"),
    ("tdigest.add", "", "of the module RedisBloom"),
    ("tdigest.byrank", "", "of the module RedisBloom"),
    ("tdigest.byrevrank", "", "of the module RedisBloom"),
    ("tdigest.cdf", "", "of the module RedisBloom"),
    ("tdigest.create", "", "of the module RedisBloom"),
    ("tdigest.info", "", "of the module RedisBloom"),
    ("tdigest.max", "", "of the module RedisBloom"),
    ("tdigest.merge", "", "of the module RedisBloom"),
    ("tdigest.min", "", "of the module RedisBloom"),
    ("tdigest.quantile", "", "of the module RedisBloom"),
    ("tdigest.rank", "", "of the module RedisBloom"),
    ("tdigest.reset", "", "of the module RedisBloom"),
    ("tdigest.revrank", "", "of the module RedisBloom"),
    ("tdigest.trimmed_mean", "", "of the module RedisBloom"),
    ("topk.add", "", "of the module RedisBloom"),
    ("topk.count", "", "of the module RedisBloom"),
    ("topk.incrby", "", "of the module RedisBloom"),
    ("topk.info", "", "of the module RedisBloom"),
    ("topk.list", "", "of the module RedisBloom"),
    ("topk.query", "", "of the module RedisBloom"),
    ("topk.reserve", "", "of the module RedisBloom"),
    ("acl|setuser", "history", "databases, of Valkey 9.1"),
    ("client|kill", "history", "filters, of Valkey 9"),
    ("client|list", "history", "filters, of Valkey 9"),
    ("cluster|failover", "arguments", "TO and TIMEOUT, for groups"),
    ("shutdown", "arguments", "SAFE and FAILOVER, of Valkey 9.0"),
    ("shutdown", "history", "SAFE and FAILOVER, of Valkey 9.0"),
    ("bztsmove", "", "of Darter"),
    ("bztspop", "", "of Darter"),
    ("geohash", "arguments", "a key alone is enough"),
    ("geosearch", "arguments", "BYPOLYGON, of Valkey 9.0"),
    ("geosearchstore", "arguments", "BYPOLYGON, of Valkey 9.0"),
    ("geopos", "arguments", "a key alone is enough"),
    ("georadius", "arguments", "STORE and STOREDIST are one or the other"),
    ("georadiusbymember", "arguments", "STORE and STOREDIST are one or the other"),
    ("hscan", "arguments", "NOVALUES, from 7.4"),
    ("psubscribe", "arguments", "a block around one argument is gone"),
    ("pfmerge", "arguments", "a target alone is enough"),
    ("psetex", "deprecated", "deprecated"),
    ("setex", "deprecated", "deprecated"),
    ("setnx", "deprecated", "deprecated"),
    ("quit", "deprecated", "deprecated"),
    ("cl.throttle", "", "of the module redis-cell"),
    ("darter.mark", "", "of Darter"),
    ("migrate", "flags", "it is refused where it would hold others up"),
    ("cluster|getkeysinslot", "complexity", "corrected"),
    ("cluster|replicas", "complexity", "corrected"),
    ("cluster|slaves", "complexity", "corrected"),
    ("migrate", "arguments", "what is optional within an optional one is so once"),
    ("module|loadex", "arguments", "a block around one argument is gone"),
    ("geodist", "complexity", "corrected"),
    ("geohash", "complexity", "corrected"),
    ("geopos", "complexity", "corrected"),
    ("hscan", "complexity", "corrected"),
    ("psubscribe", "complexity", "corrected"),
    ("punsubscribe", "complexity", "corrected"),
    ("sscan", "complexity", "corrected"),
    ("sunsubscribe", "complexity", "corrected"),
    ("unsubscribe", "complexity", "corrected"),
    ("zrandmember", "complexity", "corrected"),
    ("zscan", "complexity", "corrected"),
    ("acl|log", "history", "of 7.2"),
    ("xinfo|consumers", "history", "of 7.2"),
    ("xinfo|stream", "history", "of 7.2"),
    ("zrank", "history", "WITHSCORE"),
    ("cluster|shards", "flags", "also while loading"),
    ("cluster|slots", "flags", "also while loading"),
    ("zrevrank", "history", "WITHSCORE"),
    ("xadd", "arguments", "KEEPREF, DELREF and ACKED, of 8.2, IDMP and IDMPAUTO, of 8.6"),
    ("xadd", "history", "KEEPREF, DELREF and ACKED, of 8.2, IDMP and IDMPAUTO, of 8.6"),
    ("xtrim", "arguments", "KEEPREF, DELREF and ACKED, of 8.2"),
    ("xtrim", "history", "KEEPREF, DELREF and ACKED, of 8.2"),
    ("darter.pause", "", "of Darter"),
    ("cron", "", "of Darter"),
    ("cron|del", "", "of Darter"),
    ("cron|help", "", "of Darter"),
    ("cron|list", "", "of Darter"),
    ("cron|run", "", "of Darter"),
    ("cron|set", "", "of Darter"),
    ("job.done", "", "of Darter"),
    ("job.drop", "", "of Darter"),
    ("job.fail", "", "of Darter"),
    ("job.get", "", "of Darter"),
    ("job.keep", "", "of Darter"),
    ("job.list", "", "of Darter"),
    ("job.put", "", "of Darter"),
    ("job.release", "", "of Darter"),
    ("job.retry", "", "of Darter"),
    ("job.take", "", "of Darter"),
    ("queue", "", "of Darter"),
    ("queue|find", "", "of Darter"),
    ("queue|help", "", "of Darter"),
    ("queue|info", "", "of Darter"),
    ("queue|limit", "", "of Darter"),
    ("queue|list", "", "of Darter"),
    ("queue|move", "", "of Darter"),
    ("queue|pause", "", "of Darter"),
    ("queue|peek", "", "of Darter"),
    ("queue|promote", "", "of Darter"),
    ("queue|remove", "", "of Darter"),
    ("queue|resume", "", "of Darter"),
    ("xackdel", "", "new in 8.2"),
    ("xdelex", "", "new in 8.2"),
    ("xinfo|stream", "arguments", "FULL is declared as a word"),
    ("zrank", "arity", "WITHSCORE"),
    ("zrank", "arguments", "WITHSCORE"),
    ("zrevrank", "arity", "WITHSCORE"),
    ("zrevrank", "arguments", "WITHSCORE"),
];

/// For each command, its fields with their contents as comparable text.
type Described = BTreeMap<String, BTreeMap<String, String>>;

#[test]
fn commands_are_described_as_by_redis() {
    beside_redis(|ours, theirs| {
        let mut differences = BTreeMap::new();
        for describe in [infos, docs] {
            differences.append(&mut compare(&describe(ours), &describe(theirs)));
        }
        let unused: Vec<_> = CHANGED
            .iter()
            .filter(|known| differences.remove(&(known.0.to_owned(), known.1.to_owned())).is_none())
            .collect();
        let found: Vec<&str> = differences.values().map(String::as_str).collect();
        assert!(found.is_empty(), "\n{}", found.join("\n"));
        assert!(unused.is_empty(), "listed, but no difference: {unused:?}");
    });
}

/// The names of each command's arguments in `COMMAND DOCS` of redis-server 7.2.6, which names some differently than
/// the oracle: command, names from the outermost argument on, type, token or `-`, displayed text or `-`, flags.
const ARGUMENTS: &str = include_str!("arguments_7.2.txt");

#[test]
fn arguments_are_called_as_in_7_2() {
    let darter = Server::darter(&[]).expect("the binary starts");
    let mut socket = darter.connect().expect("the server listens");
    socket.begin(true).expect("the server greets");
    let mut ours = Vec::new();
    note_arguments_of_all(&call(&mut socket, &["COMMAND", "DOCS"]), &mut ours);
    let known = |line: &str| line.split(' ').next().expect("it has a first word").to_owned();
    let commands: BTreeSet<String> = ARGUMENTS.lines().map(known).collect();
    let ours: BTreeSet<String> = ours.into_iter().filter(|line| commands.contains(&known(line))).collect();
    let theirs: BTreeSet<String> = ARGUMENTS.lines().map(str::to_owned).collect();
    let differences: Vec<_> = ours.symmetric_difference(&theirs).collect();
    assert!(differences.is_empty(), "{differences:#?}");
}

fn note_arguments_of_all(commands: &Value, lines: &mut Vec<String>) {
    for (name, doc) in pairs(commands) {
        for (field, value) in pairs(&doc) {
            match text(&field).as_str() {
                "arguments" => note_arguments(&text(&name), "", &value, lines),
                "subcommands" => note_arguments_of_all(&value, lines),
                _ => {}
            }
        }
    }
}

/// Adds a line for each argument, except those that came after 7.2.
fn note_arguments(command: &str, outer: &str, args: &Value, lines: &mut Vec<String>) {
    let Value::Array(args) = args else { panic!("no array: {args}") };
    for arg in args {
        let fields: BTreeMap<String, Value> =
            pairs(arg).into_iter().map(|(field, value)| (text(&field), value)).collect();
        let word = |field: &str| fields.get(field).map_or("-".to_owned(), text);
        if ["8.", "9."].iter().any(|version| word("since").starts_with(version)) || word("since") == "7.4.0" {
            continue;
        }
        let names = format!("{outer}{}", word("name"));
        let flags = fields.get("flags").map_or("-".to_owned(), |flags| match flags {
            Value::Set(flags) | Value::Array(flags) => {
                let mut flags: Vec<String> = flags.iter().map(text).collect();
                flags.sort_unstable();
                flags.join(",")
            }
            other => panic!("no flags: {other}"),
        });
        let [kind, token, shown] = ["type", "token", "display_text"].map(word);
        lines.push(format!("{command} {names} {kind} {token} {shown} {flags}"));
        if let Some(inner) = fields.get("arguments") {
            note_arguments(command, &format!("{names}/"), inner, lines);
        }
    }
}

/// Calls `test` with connections to Darter and to the oracle, in each protocol.
fn beside_redis(test: impl Fn(&mut Socket, &mut Socket)) {
    let Some(redis) = oracle() else { return };
    let darter = Server::darter(&[]).expect("the binary starts");
    for resp3 in [false, true] {
        let [mut ours, mut theirs] = [&darter, &redis].map(|server| {
            let mut socket = server.connect().expect("the server listens");
            socket.begin(resp3).expect("the server greets");
            socket
        });
        test(&mut ours, &mut theirs);
    }
}

/// Calls whose keys are queried from both.
const CALLS: &[&str] = &[
    "get a",
    "get a b",
    "nonsense a",
    "client list",
    "mget a b c",
    "mset a 1 b 2",
    "mset a 1 b",
    "eval x 1 a b",
    "eval x 0 a",
    "eval x 9 a",
    "set a b",
    "set a b ex 5 get",
    "getex a persist",
    "bitfield a get u8 0",
    "bitfield a overflow sat get u8 0",
    "bitfield a set u8 0 1",
    "bitop and a b c",
    "lmove a b left right",
    "lmpop 2 a b left",
    "lmpop 3 a b left",
    "blpop a b 0",
    "zunionstore a 2 b c",
    "zunion 2 b c",
    "smove a b c",
    "object encoding a",
    "copy a b",
    "sinterstore a b c",
    "publish a b",
    "sort a by w* get x* store b store c",
    "sort_ro a limit 0 1",
    "georadius a 1 1 1 m store b",
    "georadius a 1 1 1 m storedist b asc",
    "georadiusbymember a b 1 m",
    "geosearchstore a b frommember c byradius 1 m",
    "pfcount a b",
    "pfmerge a b c",
    "pfmerge a",
    "pfdebug encoding a",
    "xadd a * b c",
    "xread streams a 1",
    "xread count 2 block 3 streams a b 1 2",
    "xread streams a b 1",
    "xread a b 1",
    "xreadgroup group streams b streams a >",
    "xreadgroup count streams group b c streams a >",
    "xreadgroup noack group b c block 1 streams streams streams > >",
    "xgroup create a b 0",
    "xinfo stream a",
    "migrate h 1 k 0 1",
    "migrate h 1  0 1 copy keys a b",
    "xyz",
];

#[test]
fn keys_are_found_as_by_redis() {
    beside_redis(|ours, theirs| {
        for line in CALLS {
            for what in ["getkeys", "getkeysandflags"] {
                let words: Vec<&str> = ["command", what].into_iter().chain(line.split(' ')).collect();
                let (ours, theirs) = (call(ours, &words), call(theirs, &words));
                // 7.0 requires at least two words.
                if words.len() > 3 {
                    assert_eq!(ours, theirs, "{line}");
                }
            }
        }
        for line in [
            "info nonsense get",
            "list filterby pattern GET",
            "list filterby aclcat nonsense",
            "list nonsense x",
        ] {
            let words: Vec<&str> = ["command"].into_iter().chain(line.split(' ')).collect();
            let (ours, theirs) = (call(ours, &words), call(theirs, &words));
            assert_eq!(canonical(&ours), canonical(&theirs), "{line}");
        }
    });
}

#[test]
fn categories_hold_the_commands_that_they_hold_in_redis() {
    beside_redis(|ours, theirs| {
        let categories = words(&call(ours, &["ACL", "CAT"]));
        let own_begin = categories.iter().position(|category| category == "queue").expect("it is listed");
        let (of_redis, own) = categories.split_at(own_begin);
        assert_eq!(of_redis, words(&call(theirs, &["ACL", "CAT"])));
        assert_eq!(own, ["queue", "bloom", "cuckoo", "cms", "topk", "tdigest"]);
        let [our_names, their_names] =
            [&mut *ours, theirs].map(|socket| words(&call(socket, &["COMMAND", "LIST"])));
        for category in of_redis {
            let line = ["ACL", "CAT", category];
            let [mut held, mut expected] = [&mut *ours, theirs].map(|socket| words(&call(socket, &line)));
            let listed = call(ours, &["COMMAND", "LIST", "FILTERBY", "ACLCAT", category]);
            assert_eq!(held, words(&listed), "{category}");
            held.retain(|name| their_names.contains(name));
            expected.retain(|name| our_names.contains(name));
            expected.sort();
            held.sort();
            assert!(!held.is_empty(), "{category}");
            assert_eq!(held, expected, "{category}");
        }
    });
}

/// The words of a list of bulk strings.
fn words(value: &Value) -> Vec<String> {
    let Value::Array(items) = value else { panic!("no array: {value}") };
    items.iter().map(text).collect()
}

/// The differences, by command and field. The field is empty if the other server does not know the command.
fn compare(ours: &Described, theirs: &Described) -> BTreeMap<(String, String), String> {
    let mut differences = BTreeMap::new();
    for (command, fields) in ours {
        let Some(expected) = theirs.get(command) else {
            let text = format!("{command} is unknown to redis-server");
            differences.insert((command.clone(), String::new()), text);
            continue;
        };
        for (field, value) in fields.iter().filter(|(field, value)| *value != &expected[*field]) {
            let text = format!("{command}, {field}:\n  {value}\n  {}", expected[field]);
            differences.insert((command.clone(), field.clone()), text);
        }
    }
    differences
}

fn call(socket: &mut Socket, words: &[&str]) -> Value {
    let request: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    socket.call(&request).expect("the server answers")
}

fn infos(socket: &mut Socket) -> Described {
    let mut described = Described::new();
    let Value::Array(commands) = call(socket, &["COMMAND"]) else { panic!("no array") };
    commands.into_iter().for_each(|command| note_info(command, &mut described));
    described
}

fn note_info(command: Value, described: &mut Described) {
    let Value::Array(fields) = command else { panic!("no array: {command}") };
    let name = text(&fields[0]);
    let shown = FIELDS.iter().zip(&fields).map(|(field, value)| ((*field).to_owned(), canonical(value)));
    described.insert(name, shown.collect());
    if let Some(Value::Array(subcommands)) = fields.into_iter().nth(9) {
        subcommands.into_iter().for_each(|subcommand| note_info(subcommand, described));
    }
}

fn docs(socket: &mut Socket) -> Described {
    let mut described = Described::new();
    note_docs(&call(socket, &["COMMAND", "DOCS"]), &mut described);
    described
}

fn note_docs(commands: &Value, described: &mut Described) {
    for (name, doc) in pairs(commands) {
        let fields: BTreeMap<String, Value> =
            pairs(&doc).into_iter().map(|(field, value)| (text(&field), value)).collect();
        let show = |field: &str| fields.get(field).map(canonical).unwrap_or_default();
        let deprecated = show("doc_flags") + &show("deprecated_since") + &show("replaced_by");
        let shown = [
            ("since", show("since")),
            ("group", show("group")),
            ("deprecated", deprecated),
            ("complexity", show("complexity")),
            ("history", show("history")),
            ("arguments", fields.get("arguments").map(structure).unwrap_or_default()),
        ];
        described.insert(text(&name), shown.map(|(field, value)| (field.to_owned(), value)).into());
        if let Some(subcommands) = fields.get("subcommands") {
            note_docs(subcommands, described);
        }
    }
}

/// Arguments without their names, some of which 7.2 has changed, and which it also shows a second time.
fn structure(args: &Value) -> String {
    let Value::Array(args) = args else { panic!("no array: {args}") };
    let one = |arg: &Value| -> String {
        pairs(arg)
            .iter()
            .filter(|(field, _)| !["name", "display_text"].contains(&&text(field)[..]))
            .map(|(field, value)| match text(field).as_str() {
                "arguments" => format!("({})", structure(value)),
                field => format!("{field}={} ", canonical(value)),
            })
            .collect()
    };
    args.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The pairs of a map, in either protocol.
fn pairs(value: &Value) -> Vec<(Value, Value)> {
    match value {
        Value::Map(pairs) => pairs.clone(),
        Value::Array(items) => items.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        other => panic!("no map: {other}"),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Bulk(text) | Value::Simple(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("no text: {other}"),
    }
}

/// A value as text, with its type. Sets and arrays of words are sorted.
fn canonical(value: &Value) -> String {
    match value {
        Value::Set(items) | Value::Array(items) => {
            let mut shown: Vec<String> = items.iter().map(canonical).collect();
            if items.iter().all(|item| matches!(item, Value::Bulk(_) | Value::Simple(_))) {
                shown.sort_unstable();
            }
            let kind = if matches!(value, Value::Set(_)) { "set" } else { "array" };
            format!("{kind}[{}]", shown.join(" "))
        }
        Value::Map(pairs) => {
            let shown: Vec<String> = pairs
                .iter()
                .map(|(key, value)| format!("{}: {}", canonical(key), canonical(value)))
                .collect();
            format!("{{{}}}", shown.join(" "))
        }
        Value::Simple(text) => format!("+{}", String::from_utf8_lossy(text)),
        other => other.to_string(),
    }
}

/// Settings that are set differently for the two, and those with another default (docs/differences.md).
const OWN_SETTINGS: [&str; 6] = [
    "dir",
    "dbfilename",
    "port",
    "activedefrag",
    "active-defrag-ignore-bytes",
    "active-defrag-threshold-lower",
];

#[test]
fn settings_have_names_and_defaults_of_redis() {
    beside_redis(|ours, theirs| {
        let settings = |socket: &mut Socket| -> BTreeMap<String, String> {
            let shown = pairs(&call(socket, &["CONFIG", "GET", "*"]));
            shown.iter().map(|(name, value)| (text(name), text(value))).collect()
        };
        let (ours, theirs) = (settings(ours), settings(theirs));
        assert!(theirs.len() > 180, "{}", theirs.len());
        for (name, value) in theirs.iter().filter(|(name, _)| !OWN_SETTINGS.contains(&name.as_str())) {
            assert_eq!(ours.get(name), Some(value), "{name}");
        }
    });
}
