//! A replica shows nothing of keys and fields that are past their time, as if they were deleted, though they
//! stay until the primary says that they go.
//!
//! Two stores get the same commands. One of them deletes data that is past its time, and the other one hides
//! it: no reading command may tell them apart.

use commands::FAMILIES;
use engine::{Due, Flag, Local};
use resp::Proto;

/// For every type, a key that stays (`s:…`), and one that goes (`g:…`).
const DATA: &[&str] = &[
    "SET {}:string 12345",
    "RPUSH {}:list c a b",
    "SADD {}:set 1 2 3 4",
    "ZADD {}:zset 1 a 2 b 3 c",
    "HSET {}:hash f 1 g 2",
    "XADD {}:stream 1-1 f v",
    "XGROUP CREATE {}:stream group 0",
    "PFADD {}:hll a b c",
    "GEOADD {}:geo 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
    "BF.ADD {}:bloom x",
    "CF.ADD {}:cuckoo x",
    "CMS.INITBYDIM {}:counts 10 2",
    "TOPK.RESERVE {}:top 2",
    "TDIGEST.CREATE {}:digest",
];

/// Reading commands, where `{}` is a key that goes or stays.
const READS: &[&str] = &[
    "GET {}:string",
    "STRLEN {}:string",
    "GETRANGE {}:string 0 2",
    "SUBSTR {}:string 0 2",
    "MGET {}:string s:string {}:list",
    "LCS {}:string s:string",
    "DIGEST {}:string",
    "GETBIT {}:string 2",
    "BITCOUNT {}:string",
    "BITPOS {}:string 1",
    "BITFIELD_RO {}:string GET u8 0",
    "EXISTS {}:string {}:string s:string {}:hash",
    "TOUCH {}:string {}:list s:list",
    "TYPE {}:string",
    "TYPE {}:stream",
    "TTL {}:string",
    "PTTL {}:string",
    "EXPIRETIME {}:string",
    "PEXPIRETIME {}:list",
    "OBJECT ENCODING {}:string",
    "OBJECT REFCOUNT {}:list",
    "OBJECT IDLETIME {}:list",
    "DUMP {}:string",
    "DUMP {}:hash",
    "SORT {}:list ALPHA",
    "SORT_RO {}:list BY nosort GET # GET {}:*",
    "LLEN {}:list",
    "LRANGE {}:list 0 -1",
    "LINDEX {}:list 0",
    "LPOS {}:list a",
    "SCARD {}:set",
    "SISMEMBER {}:set 1",
    "SMISMEMBER {}:set 1 9",
    "SMEMBERS {}:set",
    "SRANDMEMBER {}:set -0",
    "SSCAN {}:set 0",
    "SUNION {}:set s:set",
    "SUNION {}:set",
    "SINTER {}:set s:set",
    "SDIFF s:set {}:set",
    "SINTERCARD 2 s:set {}:set",
    "SUNIONCARD 2 {}:set s:set",
    "SDIFFCARD 2 s:set {}:set",
    "ZCARD {}:zset",
    "ZCOUNT {}:zset -inf +inf",
    "ZLEXCOUNT {}:zset - +",
    "ZSCORE {}:zset a",
    "ZMSCORE {}:zset a b",
    "ZRANK {}:zset a",
    "ZREVRANK {}:zset a",
    "ZRANGE {}:zset 0 -1 WITHSCORES",
    "ZRANGEBYSCORE {}:zset -inf +inf",
    "ZRANGEBYLEX {}:zset - +",
    "ZREVRANGE {}:zset 0 -1",
    "ZREVRANGEBYSCORE {}:zset +inf -inf",
    "ZREVRANGEBYLEX {}:zset + -",
    "ZSCAN {}:zset 0",
    "ZUNION 2 {}:zset s:zset",
    "ZINTER 2 {}:zset s:zset",
    "ZDIFF 2 s:zset {}:zset",
    "ZINTERCARD 2 {}:zset s:zset",
    "ZRANDMEMBER {}:zset -0",
    "HGET {}:hash f",
    "HMGET {}:hash f x",
    "HGETALL {}:hash",
    "HKEYS {}:hash",
    "HVALS {}:hash",
    "HLEN {}:hash",
    "HSTRLEN {}:hash f",
    "HEXISTS {}:hash f",
    "HSCAN {}:hash 0",
    "HRANDFIELD {}:hash -0",
    "STTL {}:set MEMBERS 1 m",
    "SPTTL {}:set MEMBERS 1 m",
    "SEXPIRETIME {}:set MEMBERS 1 m",
    "SPEXPIRETIME {}:set MEMBERS 1 m",
    "HTTL {}:hash FIELDS 1 f",
    "HPTTL {}:hash FIELDS 1 f",
    "HEXPIRETIME {}:hash FIELDS 1 f",
    "HPEXPIRETIME {}:hash FIELDS 1 f",
    "XLEN {}:stream",
    "XRANGE {}:stream - +",
    "XREVRANGE {}:stream + -",
    "XREAD STREAMS {}:stream s:stream 0 0",
    "XREAD BLOCK 0 STREAMS {}:stream 0",
    "XPENDING {}:stream group",
    "XINFO STREAM {}:stream",
    "XINFO GROUPS {}:stream",
    "XINFO CONSUMERS {}:stream group",
    "PFCOUNT {}:hll",
    "PFCOUNT {}:hll s:hll",
    "GEODIST {}:geo Palermo Catania",
    "GEOHASH {}:geo Palermo",
    "GEOPOS {}:geo Palermo",
    "GEOSEARCH {}:geo FROMMEMBER Palermo BYRADIUS 500 km ASC",
    "GEORADIUS_RO {}:geo 15 37 200 km ASC",
    "GEORADIUSBYMEMBER_RO {}:geo Palermo 200 km ASC",
    "BF.EXISTS {}:bloom x",
    "BF.MEXISTS {}:bloom x y",
    "BF.CARD {}:bloom",
    "BF.INFO {}:bloom",
    "BF.SCANDUMP {}:bloom 0",
    "CF.EXISTS {}:cuckoo x",
    "CF.MEXISTS {}:cuckoo x y",
    "CF.COUNT {}:cuckoo x",
    "CF.INFO {}:cuckoo",
    "CF.SCANDUMP {}:cuckoo 0",
    "CMS.QUERY {}:counts x",
    "CMS.INFO {}:counts",
    "TOPK.QUERY {}:top x",
    "TOPK.COUNT {}:top x",
    "TOPK.LIST {}:top",
    "TOPK.INFO {}:top",
    "TDIGEST.MIN {}:digest",
    "TDIGEST.MAX {}:digest",
    "TDIGEST.RANK {}:digest 1",
    "TDIGEST.REVRANK {}:digest 1",
    "TDIGEST.BYRANK {}:digest 1",
    "TDIGEST.BYREVRANK {}:digest 1",
    "TDIGEST.QUANTILE {}:digest 0.5",
    "TDIGEST.CDF {}:digest 1",
    "TDIGEST.TRIMMED_MEAN {}:digest 0.1 0.9",
    "TDIGEST.INFO {}:digest",
    "KEYS {}:*",
    "SCAN 0 MATCH {}:* COUNT 1000",
    "SCAN 0 MATCH {}:* COUNT 1000 TYPE hash",
];

fn stores() -> [Local; 2] {
    let mut stores = [
        Local::new(&[FAMILIES, sketching::FAMILIES].concat()),
        Local::new(&[FAMILIES, sketching::FAMILIES].concat()),
    ];
    for local in &mut stores {
        for command in DATA {
            for prefix in ["s", "g"] {
                let reply = local.line(&command.replace("{}", prefix));
                assert!(!reply.starts_with('-'), "{command}: {reply}");
            }
        }
        for key in [
            "string", "list", "set", "zset", "hash", "stream", "hll", "geo", "bloom", "cuckoo", "counts",
            "top", "digest",
        ] {
            assert_eq!(local.line(&format!("PEXPIRE g:{key} 10")), ":1\r\n");
        }
        local.now += 11;
    }
    let [hiding, deleting] = stores;
    hiding.set_hides_due(true);
    [hiding, deleting]
}

fn check_reads(hiding: &mut Local, deleting: &mut Local) {
    for read in READS {
        for prefix in ["g", "s"] {
            let line = read.replace("{}", prefix);
            for proto in [Proto::Resp2, Proto::Resp3] {
                let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                assert_eq!(hiding.reply(proto, &args), deleting.reply(proto, &args), "{line}");
            }
        }
    }
}

#[test]
fn no_command_that_reads_tells_what_is_hidden_from_what_is_deleted() {
    let [mut hiding, mut deleting] = stores();
    hiding.record_effects();
    check_reads(&mut hiding, &mut deleting);
    assert_eq!(hiding.line("DBSIZE"), ":26\r\n");
    assert_eq!(deleting.line("DBSIZE"), ":13\r\n");
    let effects = hiding.take_effects();
    let caches_only = effects.iter().all(|effect| *effect.args[0] == *b"PFCOUNT");
    assert!(caches_only, "{effects:?}");
    hiding.keeps_due = true;
    for key in [
        "string", "list", "set", "zset", "hash", "stream", "hll", "geo", "bloom", "cuckoo", "counts", "top",
        "digest",
    ] {
        assert_eq!(hiding.line(&format!("DEL g:{key}")), ":1\r\n", "it was there for the primary");
    }
    hiding.keeps_due = false;
    check_reads(&mut hiding, &mut deleting);
    assert_eq!(hiding.line("DBSIZE"), ":13\r\n");
}

#[test]
fn every_command_that_reads_is_tried() {
    let never = ["DBSIZE", "RANDOMKEY", "EXPIRETIME", "SPUBLISH"];
    for entry in [FAMILIES, sketching::FAMILIES].concat().into_iter().flatten() {
        let name = entry.name.to_uppercase();
        let reads = entry.flags.contains(&Flag::ReadOnly) && !entry.keys.is_empty();
        let is_tried = READS.iter().any(|line| line.split(' ').next() == Some(&name));
        assert!(!reads || is_tried || never.contains(&&*name), "{name}");
    }
}

#[test]
fn for_the_primary_what_is_hidden_is_there() {
    let [mut hiding, _] = stores();
    hiding.keeps_due = true;
    assert_eq!(hiding.line("GET g:string"), "$5\r\n12345\r\n");
    assert_eq!(hiding.line("INCR g:string"), ":12346\r\n");
    assert_eq!(hiding.line("HINCRBY g:hash f 1"), ":2\r\n");
    assert_eq!(hiding.line("PERSIST g:string"), ":1\r\n");
    // The time is in the past for this server, but maybe not for the primary, which decides when the key
    // goes.
    assert_eq!(hiding.line("PEXPIREAT s:string 1000"), ":1\r\n");
    hiding.keeps_due = false;
    assert_eq!(hiding.line("GET g:string"), "$5\r\n12346\r\n");
    assert_eq!(hiding.line("GET s:string"), "$-1\r\n");
    assert_eq!(hiding.line("HGET g:hash f"), "$-1\r\n");
    assert_eq!(hiding.line("DBSIZE"), ":26\r\n");
}

#[test]
fn fields_past_their_time_are_hidden_one_by_one() {
    let mut stores = [
        Local::new(&[FAMILIES, sketching::FAMILIES].concat()),
        Local::new(&[FAMILIES, sketching::FAMILIES].concat()),
    ];
    for local in &mut stores {
        for size in ["s", "big"] {
            for field in 0..if size == "big" { 1000 } else { 5 } {
                local.line(&format!("HSET {size}:hash f{field} {field}"));
            }
            assert_eq!(local.line(&format!("HPEXPIRE {size}:hash 10 FIELDS 2 f0 f3")), "*2\r\n:1\r\n:1\r\n");
        }
        local.line("HSET g:hash f 1");
        local.line("HPEXPIRE g:hash 10 FIELDS 1 f");
        local.now += 11;
    }
    let [mut hiding, mut deleting] = stores;
    hiding.set_hides_due(true);
    let lines = [
        "HGET {}:hash f0",
        "HGET {}:hash f1",
        "HMGET {}:hash f0 f1 f2 f3",
        "HGETALL {}:hash",
        "HKEYS {}:hash",
        "HVALS {}:hash",
        "HLEN {}:hash",
        "HEXISTS {}:hash f3",
        "HSTRLEN {}:hash f3",
        "HSCAN {}:hash 0 COUNT 10000",
        "HTTL {}:hash FIELDS 3 f0 f1 f3",
        "HPEXPIRETIME {}:hash FIELDS 3 f0 f1 f3",
        "EXISTS {}:hash",
        "TYPE {}:hash",
        "SORT s:hash",
        "KEYS *",
    ];
    for line in lines {
        for key in ["s", "big", "g"] {
            let line = line.replace("{}", key);
            let sorted = |reply: String| {
                let mut lines: Vec<String> = reply.lines().map(str::to_owned).collect();
                lines.sort_unstable();
                lines
            };
            assert_eq!(sorted(hiding.line(&line)), sorted(deleting.line(&line)), "{line}");
        }
    }
    for _ in 0..100 {
        let reply = hiding.line("HRANDFIELD s:hash");
        assert!(["f1", "f2", "f4"].iter().any(|field| reply.contains(field)), "{reply}");
    }
    hiding.keeps_due = true;
    assert_eq!(hiding.line("HDEL s:hash f0 f3"), ":2\r\n");
    assert_eq!(hiding.line("HDEL g:hash f"), ":1\r\n");
}

#[test]
fn a_client_that_may_write_on_a_replica_finds_nothing_there() {
    let [mut hiding, _] = stores();
    assert_eq!(hiding.line("INCR g:string"), ":1\r\n");
    assert_eq!(hiding.line("TTL g:string"), ":-1\r\n");
    assert_eq!(hiding.line("RPUSH g:list z"), ":1\r\n");
    assert_eq!(hiding.line("DEL g:set"), ":0\r\n");
    assert_eq!(hiding.line("SET g:zset v NX"), "+OK\r\n");
}

#[test]
fn randomkey_gives_up_on_keys_that_are_all_hidden() {
    let mut local = Local::new(&[FAMILIES, sketching::FAMILIES].concat());
    local.line("SET k v PX 10");
    local.now += 11;
    local.set_hides_due(true);
    assert_eq!(local.line("RANDOMKEY"), "$1\r\nk\r\n");
    local.line("SET lives v");
    for _ in 0..100 {
        assert_eq!(local.line("RANDOMKEY"), "$5\r\nlives\r\n");
    }
    assert_eq!(local.line("DBSIZE"), ":2\r\n");
    let due = local.with_store(engine::Client::internal(0, Proto::Resp2), |store| store.tx.due());
    assert_eq!(due, Due::Hide);
}
