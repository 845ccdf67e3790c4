//! A command whose work grows with its data or its arguments lets its thread breathe
//! ([`Host::breathe`](engine::Host::breathe)), so that other clients are served while it runs.
//!
//! Every command whose declared complexity grows is run on much data, and its breaths are counted. A new
//! command fails this test until it has a call here, or a reason why it needs none.

use std::collections::BTreeSet;

use commands::FAMILIES;
use engine::{Client, CommandResult, Entry, Host, Local, OwnCall, Run};
use resp::{Output, Proto};

/// The elements of each collection, and the arguments of commands whose work grows with these.
const MANY: usize = 20_000;
/// The most steps that a command may take without a breath.
const STEPS_MAX: usize = 2_048;

/// Calls that take long. `$many` stands for many arguments; `$pairs` for as many pairs of a number and a text,
/// `$counts` for as many of a text and a number, `$numbers` for as many numbers.
const CALLS: &[&str] = &[
    "BF.INSERT to_bloom ITEMS $many",
    "BF.MADD to_bloom2 $many",
    "BF.MEXISTS bloom $many",
    "BITCOUNT bits",
    "BITOP AND to bits bits2",
    "BITPOS bits 1",
    "CF.INSERT to_cuckoo ITEMS $many",
    "CF.INSERTNX to_cuckoo2 ITEMS $many",
    "CF.MEXISTS cuckoo $many",
    "CMS.INCRBY cms $counts",
    "CMS.MERGE cms 2 cms cms2",
    "CMS.QUERY cms $many",
    "COPY small copied",
    "DEL $many",
    "EXISTS $many",
    "GEORADIUS geo 15 37 20000 km",
    "GEORADIUS_RO geo 15 37 20000 km ASC",
    "GEORADIUSBYMEMBER geo m1 20000 km",
    "GEORADIUSBYMEMBER_RO geo m1 20000 km",
    "GEOSEARCH geo FROMLONLAT 15 37 BYRADIUS 20000 km ASC",
    "GEOSEARCHSTORE to geo FROMLONLAT 15 37 BYRADIUS 20000 km",
    "HDEL hash2 $many",
    "HGETALL hash",
    "HKEYS hash",
    "HMGET hash $many",
    "HMSET to_hash $pairs",
    "HRANDFIELD hash -20000",
    "HSCAN hash 0 COUNT 20000",
    "HSET to_hash2 $pairs",
    "HVALS hash",
    "KEYS *",
    "LCS text text2",
    "LINSERT list BEFORE none x",
    "LMPOP 1 list2 LEFT COUNT 20000",
    "LMOVEM list6 to_list3 LEFT RIGHT COUNT 20000 BULK",
    "LPOP list3 20000",
    "LPOS list none",
    "LPUSH to_list $many",
    "LPUSHX list4 $many",
    "LRANGE list 0 -1",
    "LREM list 0 none",
    "MGET $many",
    "MSET $pairs",
    "MSETEX 20000 $pairs EX 100",
    "RPOP list5 20000",
    "RPUSH to_list2 $many",
    "RPUSHX list4 $many",
    "SADD to_set $many",
    "SCAN 0 COUNT 20000",
    "SDIFF set set2",
    "SDIFFCARD 2 set set2",
    "SDIFFSTORE to set set2",
    "SINTER set set3",
    "SINTERCARD 2 set set3",
    "SINTERSTORE to set set3",
    "SMEMBERS set",
    "SMISMEMBER set $many",
    "SORT list ALPHA",
    "SORT_RO list ALPHA",
    "SPOP set4 10000",
    "SRANDMEMBER set -20000",
    "SREM set5 $many",
    "SSCAN set 0 COUNT 20000",
    "SUNION set set2",
    "SUNIONCARD 3 set set2 set3 APPROX",
    "SUNIONSTORE to set set2",
    "TOUCH $many",
    "UNLINK $many",
    "XRANGE stream - +",
    "XREAD STREAMS stream 0",
    "XREVRANGE stream + -",
    "TDIGEST.ADD digest $numbers",
    "TDIGEST.BYRANK digest $numbers",
    "TDIGEST.BYREVRANK digest $numbers",
    "TDIGEST.CDF digest $numbers",
    "TDIGEST.MERGE to_digest 20000 $digests",
    "TDIGEST.RANK digest $numbers",
    "TDIGEST.REVRANK digest $numbers",
    "TOPK.ADD top $many",
    "TOPK.COUNT top $many",
    "TOPK.INCRBY top $counts",
    "TOPK.LIST top2",
    "TOPK.QUERY top $many",
    "ZADD to_zset $pairs",
    "ZDIFF 2 zset zset2",
    "ZDIFFSTORE to 2 zset zset2",
    "ZINTER 2 zset zset3",
    "ZINTERCARD 2 zset zset3",
    "ZINTERSTORE to 2 zset zset3",
    "ZMOVE zset8 to_zset2 BYSCORE -inf +inf",
    "ZMOVEMEMBER zset9 to_zset3 MEMBERS 20000 $many",
    "ZMPOP 1 zset4 MIN COUNT 20000",
    "ZPOPMAX zset5 20000",
    "ZPOPMIN zset6 20000",
    "ZRANDMEMBER zset -20000",
    "ZRANGE zset 0 -1",
    "ZRANGEBYLEX zset - +",
    "ZRANGEBYSCORE zset -inf +inf",
    "ZRANGESTORE to zset 0 -1",
    "ZREM zset7 $many",
    "ZREVRANGE zset 0 -1",
    "ZREVRANGEBYLEX zset + -",
    "ZREVRANGEBYSCORE zset +inf -inf",
    "ZSCAN zset 0 COUNT 20000",
    "ZUNION 2 zset zset2",
    "ZUNIONSTORE to 2 zset zset2",
];

/// Commands that need no breath, with the reason.
const NEED_NONE: &[(&str, &[&str])] = &[
    (
        "they copy, convert or free a value in one piece, some 20 to 100 ns an element",
        &["append", "copy", "dump", "getrange", "restore", "restore-asking", "setrange", "substr"],
    ),
    ("they compare or hash a value in one piece, which takes some 0.1 ns a byte", &["delex", "digest"]),
    ("what they remove is freed later, or goes by whole nodes", &["flushall", "flushdb", "ltrim", "xtrim"]),
    (
        "they pass over whole nodes",
        &["lindex", "lset", "zremrangebylex", "zremrangebyrank", "zremrangebyscore"],
    ),
    ("their work is bounded by their own arguments, each of which costs a microsecond at most", BY_ARGUMENTS),
    ("a step of theirs is short", &["zincrby", "zlexcount", "zrank", "zrevrank", "zcount"]),
    ("a client waits for one element, or for one of few keys", &["blpop", "brpop", "bzpopmax", "bzpopmin"]),
    (
        "as the command without waiting",
        &["blmovem", "blmpop", "bzmove", "bzmpop", "bztsmove", "bztspop", "xreadgroup"],
    ),
    (
        "they look at as many cells as a sketch has hash functions, rows or tables",
        &["bf.add", "bf.exists", "cf.add", "cf.addnx", "cf.count", "cf.del", "cf.exists"],
    ),
    (
        "they copy at most 16 MiB of a sketch, or the bytes of their argument, in one piece",
        &["bf.loadchunk", "bf.scandump", "cf.loadchunk", "cf.scandump"],
    ),
    ("as TDIGEST.CDF", &["tdigest.quantile", "tdigest.trimmed_mean"]),
    ("they exchange pointers, and look through those who wait", &["swapdb"]),
    ("tests use them, and nobody else", &["pfdebug", "pfselftest"]),
    ("it reads what a client has yet to acknowledge, at most COUNT of it", &["xpending", "xautoclaim"]),
    ("it stops the server on purpose", &["keys_are_paused"]),
];

const BY_ARGUMENTS: &[&str] = &[
    "bitfield",
    "bitfield_ro",
    "geoadd",
    "geohash",
    "geopos",
    "hexpire",
    "hexpireat",
    "hexpiretime",
    "hgetdel",
    "hgetex",
    "hpersist",
    "hpexpire",
    "hpexpireat",
    "hpexpiretime",
    "hpttl",
    "hsetex",
    "httl",
    "msetnx",
    "pfadd",
    "pfcount",
    "pfmerge",
    "saddex",
    "sexpire",
    "sexpireat",
    "sexpiretime",
    "spersist",
    "spexpire",
    "spexpireat",
    "spexpiretime",
    "spttl",
    "sttl",
    "xack",
    "xadd",
    "xclaim",
    "xdel",
    "zmscore",
];

/// Counts its breaths.
#[derive(Default)]
struct Breathing(usize);

impl Host for Breathing {
    fn run_own(&mut self, _call: OwnCall<'_, '_>) -> CommandResult {
        unreachable!("a data command asks nothing of its thread")
    }

    fn breathe(&mut self) {
        self.0 += 1;
    }
}

fn run(local: &mut Local, host: &mut Breathing, line: &str) {
    let many = (0..MANY).map(|number| format!("m{number}"));
    let mut args: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match word {
            "$many" => args.extend(many.clone()),
            "$pairs" => args.extend((0..MANY).flat_map(|number| [number.to_string(), format!("m{number}")])),
            "$counts" => args.extend((0..MANY).flat_map(|number| [format!("m{number}"), number.to_string()])),
            "$numbers" => args.extend((0..MANY).map(|number| number.to_string())),
            "$digests" => args.extend((0..MANY).map(|_| "digest".to_owned())),
            word => args.push(word.to_owned()),
        }
    }
    let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
    let mut out = Output::new();
    local.run(Client::internal(0, Proto::Resp2), &args, host, &mut out);
    let reply = out.to_vec();
    assert!(!reply.starts_with(b"-"), "{line}: {}", reply.escape_ascii());
}

/// A store in which each collection has many elements.
fn store() -> Local {
    let mut local = Local::new(&[FAMILIES, sketching::FAMILIES].concat());
    let host = &mut Breathing::default();
    for line in [
        "HSET hash $pairs",
        "HSET hash2 a b",
        "RPUSH list $many",
        "SADD set $many",
        "SADD set2 a b",
        "ZADD zset $pairs",
        "ZADD zset2 1 a 2 b",
        "SADD small a b c",
        "BF.ADD bloom x",
        "CF.ADD cuckoo x",
        "CMS.INITBYDIM cms 50000 5",
        "CMS.INITBYDIM cms2 50000 5",
        "TOPK.RESERVE top 10",
        "TOPK.RESERVE top2 3000 3000 2 0.9",
        "TOPK.ADD top2 $many",
        "TDIGEST.CREATE digest",
        "TDIGEST.ADD digest 1 2 3",
    ] {
        run(&mut local, host, line);
    }
    for number in 2..=6 {
        run(&mut local, host, &format!("COPY list list{number}"));
    }
    for (from, to) in [("set", 3..=5), ("zset", 3..=9)] {
        to.for_each(|number| run(&mut local, host, &format!("COPY {from} {from}{number}")));
    }
    for number in 0..MANY {
        run(&mut local, host, &format!("GEOADD geo {} {} m{number}", number % 170, number % 80));
        run(&mut local, host, &format!("XADD stream * f {number}"));
        run(&mut local, host, &format!("SET key{number} x"));
    }
    run(&mut local, host, &format!("SETRANGE bits {} x", MANY * 1024));
    run(&mut local, host, "COPY bits bits2");
    for text in ["text", "text2"] {
        run(&mut local, host, &format!("SET {text} {}", text.repeat(500)));
    }
    local
}

fn name(line: &str) -> String {
    line.split(' ').next().expect("a line has a word").to_lowercase()
}

#[test]
fn long_commands_breathe() {
    let mut local = store();
    for line in CALLS.iter().filter(|line| !is_excused(&name(line))) {
        let mut host = Breathing::default();
        run(&mut local, &mut host, line);
        let expected = if line.starts_with("LCS") { 1 } else { MANY / STEPS_MAX / 2 };
        assert!(host.0 >= expected, "{line}: {} breaths", host.0);
    }
}

fn is_excused(name: &str) -> bool {
    NEED_NONE.iter().any(|(_, names)| names.contains(&name))
}

#[test]
fn every_command_whose_work_grows_is_known() {
    let called: BTreeSet<String> = CALLS.iter().map(|line| name(line)).collect();
    let grows = |entry: &&Entry| {
        let is_constant = entry.complexity.starts_with("O(1)") && !entry.complexity.contains("O(N)");
        matches!(entry.run, Run::Function(_)) && !is_constant
    };
    let families = [FAMILIES, sketching::FAMILIES].concat();
    let entries = families.iter().flat_map(|family| family.iter()).filter(grows);
    let unknown: Vec<&str> =
        entries.map(|entry| entry.name).filter(|name| !called.contains(*name) && !is_excused(name)).collect();
    assert!(unknown.is_empty(), "they have no call here, and no reason why they need none: {unknown:?}");
}
