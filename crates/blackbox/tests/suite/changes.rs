//! Compares `rdb_changes_since_last_save` with redis-server's. `save` and monitoring depend on it. Both count
//! elements if a command changes several.
//!
//! Not here: what a waiter takes (a push and a pop since 7.2, only a push to the oracle), and what a consumer of a
//! stream reads again (a change to the oracle only).

use blackbox::{Client, Server, oracle};

/// Played in this order, starting with an empty store.
const LINES: &str = "
SET a 1 | SET a 2 EX 100 | SET a 3 NX | GETSET a 4 | GETEX a PERSIST | GETEX a PERSIST | GETDEL a | GETDEL a
MSET a 1 b 2 c 3 | MSETNX a 1 d 2 | APPEND a x | SETRANGE a 0 y | SETRANGE none 0 ''
INCR n | DECRBY n 2 | INCRBYFLOAT n 1.5 | SETBIT bit 3 1 | SETBIT bit 3 1 | SETBIT bit 3 0
BITFIELD f SET u8 0 5 INCRBY u8 8 3 GET u8 0 | BITFIELD f SET u8 0 5 SET u8 8 4 | BITFIELD f GET u8 0
BITOP OR target a b | BITOP OR target none none
PFADD p a b c | PFADD p a b d | PFADD p a | PFADD q | PFCOUNT p | PFCOUNT p | PFCOUNT p q | PFMERGE q p p
PFDEBUG TODENSE p | PFDEBUG TODENSE p | PFDEBUG GETREG q | PFDEBUG GETREG q
LPUSH l a b c | RPUSH l d e | LPUSHX l x y | RPUSHX none x | LSET l 0 z | LINSERT l BEFORE a q | LINSERT l AFTER none q
LPOP l | RPOP l 2 | LPOP l 0 | RPUSH r a a b a c a d e f | LREM r 2 a | LREM r 0 none | LTRIM r 1 -2 | LTRIM r 0 -1
LMOVE r m LEFT RIGHT | LMOVE r r LEFT RIGHT | RPOPLPUSH r m | BLMOVE r m LEFT LEFT 0 | LMPOP 2 none m LEFT COUNT 2
BLPOP m 0 | RPUSH m 1 2 3 4 | BRPOP none m 0 | BLMPOP 0 1 m LEFT COUNT 9 | LTRIM l 9 9
SADD s a b c | SADD s a b d | SREM s a none b | SMOVE s t c | SMOVE s s d | SADD t d | SMOVE s t d | SADD s 1 2 3 4 5 6
SPOP s | SPOP s 2 | SPOP s 100 | SPOP s | SUNIONSTORE u t t | SINTERSTORE u t none | SDIFFSTORE u none t
HSET h a 1 b 2 c 3 | HSET h a 1 d 2 | HMSET h a 1 b 2 | HSETNX h a 1 | HSETNX h e 1 | HINCRBY h n 1 | HINCRBYFLOAT h n 1.5
HDEL h a b none | HDEL h none | HDEL h c d e n
ZADD z 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h 9 i | ZADD z 1 a 5 b 7 j | ZADD z CH 1 a 6 b | ZADD z XX 5 none | ZADD z INCR 1 a
ZINCRBY z 1 a | ZREM z a none b | ZREMRANGEBYRANK z 0 1 | ZREMRANGEBYSCORE z 5 6 | ZPOPMIN z | ZPOPMAX z 2 | ZPOPMIN none
ZADD z 1 a 2 b 3 c 4 d | ZMPOP 1 z MIN COUNT 3 | BZPOPMIN z 0 | ZADD z 1 a 2 b 3 c | BZMPOP 0 1 z MAX COUNT 2
ZREMRANGEBYLEX z - + | ZADD z 1 a 2 b | ZRANGESTORE y z 0 -1 | ZRANGESTORE y z 9 9 | ZRANGESTORE y z 9 9
ZUNIONSTORE y 2 z none | ZINTERSTORE y 2 z none | ZDIFFSTORE y 1 none
RPUSH so 3 1 2 | SORT so | SORT so STORE sorted | SORT so LIMIT 0 0 STORE sorted | SORT none STORE sorted
GEOADD geo 1 1 a 2 2 b | GEOADD geo 1 1 a 3 3 c | GEOADD geo CH 1 2 a 2 2 d | GEOSEARCHSTORE near geo FROMMEMBER a BYRADIUS 300 km
GEORADIUS geo 1 1 300 km STOREDIST near | GEORADIUS geo 1 1 1 m STORE near | GEORADIUS geo 1 1 1 m STORE near
GEORADIUSBYMEMBER none a 1 m STORE geo
DEL a b none | UNLINK c none | SET e 1 | EXPIRE e 100 | EXPIRE e 100 NX | PERSIST e | PERSIST e | PEXPIRE e 100000 | EXPIRE e -1
SET e 1 | RENAME e g | RENAME g g | RENAMENX g i | COPY i k | COPY i k | COPY i k REPLACE | MOVE k 1 | MOVE none 1 | TOUCH i
RESTORE back 0 \"\\x00\\xc0\\x05\\n\\x00c/_f\\x83/\\xb3Q\" | RESTORE back 0 \"\\x00\\xc0\\x05\\n\\x00c/_f\\x83/\\xb3Q\" REPLACE
RESTORE none 1 \"\\x00\\xc0\\x05\\n\\x00c/_f\\x83/\\xb3Q\" ABSTTL | RESTORE back 1 \"\\x00\\xc0\\x05\\n\\x00c/_f\\x83/\\xb3Q\" REPLACE ABSTTL
SET p 1 | SET p 2 PXAT 1 | GET p | SWAPDB 0 1 | SWAPDB 0 1 | SWAPDB 0 0
XADD x 1-1 f v | XADD x NOMKSTREAM MAXLEN 1 1-2 f v | XADD x 1-3 f v | XADD x 1-4 f v | XADD nox NOMKSTREAM 1-1 f v
XGROUP CREATE x g 0 | XGROUP CREATE y g 0 MKSTREAM | XGROUP CREATECONSUMER x g a | XGROUP CREATECONSUMER x g a
XREADGROUP GROUP g b COUNT 2 STREAMS x > | XREADGROUP GROUP g a NOACK STREAMS x >
XREADGROUP GROUP g a STREAMS x > | XCLAIM x g a 0 1-2 1-3 9-9 | XCLAIM x g a 0 9-9 LASTID 5-5 | XCLAIM x g c 0 1-2 LASTID 6-6
XAUTOCLAIM x g d 0 0 COUNT 1 | XDEL x 1-2 1-2 9-9 | XAUTOCLAIM x g d 0 0 | XACK x g 1-3 1-3 | XPENDING x g | XGROUP SETID x g 0
XREADGROUP GROUP g a STREAMS x > | XGROUP DELCONSUMER x g a | XGROUP DELCONSUMER x g a | XSETID x 9-9 | XTRIM x MAXLEN 0
XTRIM x MAXLEN 0 | XGROUP DESTROY x g | XGROUP DESTROY x g | COPY y z | DEL x y z | XREAD STREAMS x 0
MULTI | SADD s 1 2 3 | DEL s | EXEC | EVAL 'return redis.call(\"RPUSH\", KEYS[1], 1, 2, 3)' 1 l
SELECT 1 | SET a 1 | SET b 1 | FLUSHDB | FLUSHDB | SELECT 0 | FLUSHALL
";

fn changes(client: &mut Client) -> i64 {
    client.info("persistence", "rdb_changes_since_last_save").parse().expect("a number")
}

#[test]
fn changes_are_counted_as_by_redis() {
    let Some(redis) = oracle() else { return };
    let darter = Server::darter(&[]).expect("the binary starts");
    let mut clients = [darter.client(), redis.client()];
    let mut in_multi = false;
    for line in LINES.split(['|', '\n']).map(str::trim).filter(|line| !line.is_empty()) {
        in_multi = (in_multi || line == "MULTI") && line != "EXEC";
        let counted = clients.each_mut().map(|client| {
            let reply = client.show(line);
            assert!(!reply.starts_with("(error)"), "{line}: {reply}");
            if in_multi { 0 } else { changes(client) }
        });
        assert_eq!(counted[0], counted[1], "after {line}");
    }
}
