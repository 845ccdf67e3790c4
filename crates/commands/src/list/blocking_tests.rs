//! Tests clients that wait for lists, and how they are served. Transcripts cannot test this, because they
//! have one client.

use std::sync::Arc;

use engine::{
    BlockOn, Class, Client, CommandResult, Ctx, Entry, Local, Needs, Outcome, Route, Run, Shards, Table, Tx,
    TxMessage, When,
};
use keyspace::Kind;
use resp::{Output, Proto};
use shard::{Hold, Placement};

use super::ENTRIES;
use crate::FAMILIES;
use crate::clients::Clients;

#[test]
fn a_push_serves_who_waits() {
    for (wait, push, served) in [
        ("BRPOP q 0", "LPUSH q a", "1: *2 $1 q $1 a < RPUSH q a"),
        ("BRPOP q 0", "RPUSH q a b", "1: *2 $1 q $1 b < RPUSH q b"),
        ("BLPOP q 0", "RPUSH q a b", "1: *2 $1 q $1 a < LPUSH q a"),
        ("BLPOP x q y 2", "RPUSH q a", "1: *2 $1 q $1 a < LPUSH q a"),
        ("BRPOP q q 2", "RPUSH q a", "1: *2 $1 q $1 a < RPUSH q a"),
        ("BLMPOP 0 2 p q LEFT", "RPUSH q a b", "1: *2 $1 q *1 $1 a < LPUSH q a"),
        ("BLMPOP 0 1 q LEFT COUNT 2", "RPUSH q a b c", "1: *2 $1 q *2 $1 a $1 b < LPUSH q b a"),
        ("BLMPOP 0 1 q RIGHT COUNT 9", "RPUSH q a b c", "1: *2 $1 q *3 $1 c $1 b $1 a < RPUSH q a b c"),
        ("BLMOVE q p LEFT RIGHT 0", "RPUSH q a b", "1: $1 a"),
        ("BRPOPLPUSH q p 0", "RPUSH q a b", "1: $1 b"),
    ] {
        let mut clients = Clients::new();
        clients.wait(1, wait);
        clients.run(0, push);
        clients.check_served(&[served]);
    }
}

#[test]
fn what_was_popped_for_a_client_that_is_gone_goes_back_to_its_place() {
    for wait in ["BLPOP q 0", "BRPOP q 0", "BLMPOP 0 1 q LEFT COUNT 2", "BLMPOP 0 1 q RIGHT COUNT 3"] {
        let mut clients = Clients::new();
        clients.wait(1, wait);
        clients.check("RPUSH q a b c", ":3");
        let Some(TxMessage::Served { handoff, .. }) = clients.0.outbox.pop() else {
            panic!("{wait} was not served");
        };
        let restore = handoff.restore.expect("it was popped");
        clients.0.reply(Proto::Resp2, &restore.args.slices());
        clients.check("LRANGE q 0 -1", "*3 $1 a $1 b $1 c");
    }
}

#[test]
fn first_come_first_served() {
    let mut clients = Clients::new();
    clients.wait(1, "BRPOP a q 0");
    clients.wait(2, "BLPOP q 0");
    clients.wait(3, "BRPOP q b 0");
    clients.check("RPUSH q x", ":1");
    clients.check_served(&["1: *2 $1 q $1 x < RPUSH q x"]);
    // The first client no longer waits at its other key.
    clients.check("RPUSH a x", ":1");
    clients.check_served(&[]);
    clients.check("RPUSH q y z", ":2");
    clients.check_served(&["2: *2 $1 q $1 y < LPUSH q y", "3: *2 $1 q $1 z < RPUSH q z"]);
    clients.check("LLEN q", ":0");
}

#[test]
fn one_push_serves_as_many_as_it_has_values_for() {
    let mut clients = Clients::new();
    for id in 1..=4 {
        clients.wait(id, "BLPOP q 0");
    }
    clients.check("RPUSH q a b c", ":3");
    clients.check_served(&[
        "1: *2 $1 q $1 a < LPUSH q a",
        "2: *2 $1 q $1 b < LPUSH q b",
        "3: *2 $1 q $1 c < LPUSH q c",
    ]);
    clients.check("LPUSH q d", ":1");
    clients.check_served(&["4: *2 $1 q $1 d < LPUSH q d"]);
}

#[test]
fn moves_and_renames_serve_too() {
    let mut clients = Clients::new();
    clients.wait(1, "BRPOP b 0");
    clients.check("RPUSH a 1 2", ":2");
    clients.check("LMOVE a b LEFT LEFT", "$1 1");
    clients.check_served(&["1: *2 $1 b $1 1 < RPUSH b 1"]);
    clients.wait(1, "BRPOP b 0");
    clients.check("RPOPLPUSH a b", "$1 2");
    clients.check_served(&["1: *2 $1 b $1 2 < RPUSH b 2"]);
    clients.wait(1, "BRPOP b 0");
    clients.check("RPUSH a 3", ":1");
    clients.check("RENAME a b", "+OK");
    clients.check_served(&["1: *2 $1 b $1 3 < RPUSH b 3"]);
    clients.check("LLEN b", ":0");
}

#[test]
fn a_served_move_serves_others_in_turn() {
    let mut clients = Clients::new();
    clients.wait(1, "BLMOVE a b LEFT LEFT 0");
    clients.wait(2, "BRPOPLPUSH b c 0");
    clients.wait(3, "BRPOP c 0");
    clients.check("RPUSH a x", ":1");
    clients.check_served(&["1: $1 x", "2: $1 x", "3: *2 $1 c $1 x < RPUSH c x"]);
    for key in ["LLEN a", "LLEN b", "LLEN c"] {
        clients.check(key, ":0");
    }
}

#[test]
fn moves_in_a_circle_end() {
    let mut clients = Clients::new();
    clients.wait(1, "BRPOPLPUSH a b 0");
    clients.wait(2, "BRPOPLPUSH b a 0");
    clients.check("RPUSH a x", ":1");
    clients.check_served(&["1: $1 x", "2: $1 x"]);
    clients.check("LRANGE a 0 -1", "*1 $1 x");
    clients.wait(1, "BRPOPLPUSH c c 0");
    clients.check("RPUSH c x", ":1");
    clients.check_served(&["1: $1 x"]);
    clients.check("LRANGE c 0 -1", "*1 $1 x");
}

#[test]
fn a_transaction_serves_when_it_is_complete() {
    let mut clients = Clients::new();
    clients.wait(1, "BRPOP q 0");
    clients.check("together LPUSH q a ; LPUSH q b ; LPUSH q c", ":1 :2 :3");
    clients.check_served(&["1: *2 $1 q $1 a < RPUSH q a"]);
    clients.check("DEL q", ":1");
    clients.wait(1, "BRPOP q 0");
    clients.check("together LPUSH q a ; DEL q", ":1 :1");
    clients.check("together LPUSH q a ; DEL q ; SET q s", ":1 :1 +OK");
    clients.check_served(&[]);
    clients.check("together DEL q ; LPUSH q b", ":1 :1");
    clients.check_served(&["1: *2 $1 q $1 b < RPUSH q b"]);
}

#[test]
fn a_key_of_another_type_serves_nobody() {
    let mut clients = Clients::new();
    clients.wait(1, "BLPOP q 0");
    clients.check("SET q s", "+OK");
    clients.check("BLPOP p q 0", "-WRONGTYPE Operation against a key holding the wrong kind of value");
    clients.check_served(&[]);
    clients.check("DEL q", ":1");
    clients.check("RPUSH q a", ":1");
    clients.check_served(&["1: *2 $1 q $1 a < LPUSH q a"]);
}

#[test]
fn a_waiting_move_to_another_type_gets_the_error_and_the_next_the_value() {
    let mut clients = Clients::new();
    clients.wait(1, "BLMOVE q s LEFT LEFT 0");
    clients.wait(2, "BLPOP q 0");
    clients.check("SET s x", "+OK");
    clients.check("RPUSH q a", ":1");
    clients.check_served(&[
        "1: -WRONGTYPE Operation against a key holding the wrong kind of value",
        "2: *2 $1 q $1 a < LPUSH q a",
    ]);
}

/// Waits for a list, and finds nothing in it.
const BLIND: Entry =
    Entry { name: "blind", route: Route::Global, run: Run::Function(blind), ..Entry::DEFAULT };

fn blind(ctx: &mut Ctx) -> CommandResult {
    ctx.block(&BlockOn {
        args: ctx.args,
        keys: &ctx.args[1..],
        when: When::Holds(Kind::List),
        also: None,
        timeout_ms: 0,
        heeds_loss: false,
        serve: |_, _| Ok(false),
        null_array: true,
    });
    Ok(())
}

#[test]
fn whoever_is_served_gets_a_reply() {
    let mut clients = Clients(Local::new(&[FAMILIES, &[&[BLIND]]].concat()));
    clients.wait(1, "blind q");
    clients.wait(2, "BLPOP q 0");
    clients.check("RPUSH q a", ":1");
    clients.check_served(&["1: *-1", "2: *2 $1 q $1 a < LPUSH q a"]);
}

#[test]
fn who_must_not_block_gets_the_null_at_once() {
    let mut local = Local::new(&[ENTRIES]);
    assert_eq!(local.line("BLPOP q p 0"), "*-1\r\n");
    assert_eq!(local.line("BRPOP q 5"), "*-1\r\n");
    assert_eq!(local.line("BLMPOP 0 1 q LEFT"), "*-1\r\n");
    assert_eq!(local.line("BLMOVE q p LEFT LEFT 0"), "$-1\r\n");
    assert_eq!(local.line("BRPOPLPUSH q p 0"), "$-1\r\n");
    assert_eq!(local.reply(Proto::Resp3, &[b"BLPOP", b"q", b"0"]), b"_\r\n");
}

#[test]
fn what_expired_before_it_runs_again_is_still_told() {
    let shards = Shards::new(Placement::new(ds::hashing::Seed::new(1), 8, None), 1, 16, 1);
    let (table, placement) = (Table::new(FAMILIES), shards.placement());
    let config = keyspace::Config { notify: u32::MAX, ..Default::default() };
    let names: Vec<String> = (0..99).map(|number| format!("k{number}")).collect();
    let (first, hash) = placement.locate(b"k0");
    let taken = names.iter().find(|name| placement.shard(name.as_bytes()) != first).unwrap();
    let (mut hold, mut other) = (Hold::new(&shards), Hold::new(&shards));
    assert!(hold.try_enter(first) && other.try_enter(placement.shard(taken.as_bytes())));
    let db = &mut hold.shard_mut(first).dbs[0];
    db.insert(hash, b"k0", keyspace::Value::List(Box::default()));
    db.set_expiry(hash, b"k0", Some(1));
    let mut tx = Tx::new(hold, &table, Arc::new(config), 1000);
    let args: [&[u8]; 4] = [b"BLPOP", b"k0", taken.as_bytes(), b"1"];
    let client = Client { deny_blocking: false, ..Client::internal(0, Proto::Resp2) };
    let command = table.resolve(&args).unwrap();
    let outcome = tx.run(command, &args, &client, &mut (), &mut Output::new());
    assert!(matches!(outcome, Outcome::Again(_)), "{outcome:?}");
    let is_news =
        |message: &TxMessage| matches!(message, TxMessage::Event { message, .. } if **message == *b"expired");
    assert!(tx.outbox.iter().any(is_news), "{:?}", tx.outbox);
    for hold in [&mut tx.hold, &mut other] {
        while let Some(&id) = hold.entered().last() {
            assert!(hold.leave_or_keep(id));
        }
    }
}

#[test]
fn keys_on_a_taken_shard_make_it_run_again_with_all() {
    let shards = Shards::new(Placement::new(ds::hashing::Seed::new(1), 8, None), 1, 16, 1);
    let (table, config, shard) = (Table::new(FAMILIES), Arc::<keyspace::Config>::default(), |key: &str| {
        shards.placement().shard(key.as_bytes())
    });
    let mut keys: Vec<String> = (0..99).map(|number| format!("k{number}")).collect();
    keys.sort_by_key(|key| shard(key));
    keys.dedup_by_key(|key| shard(key));
    for line in [
        "BRPOP {} 1",
        "BLPOP {} 1",
        "BLMPOP 1 3 {} LEFT",
        "LMPOP 3 {} LEFT",
        "BZPOPMIN {} 1",
        "BZPOPMAX {} 1",
        "BZMPOP 1 3 {} MIN",
        "ZMPOP 3 {} MIN",
    ] {
        // The first shard is entered, the second is free, and another thread holds the third.
        let line = line.replace("{}", &format!("{} {} {}", keys[5], keys[2], keys[3]));
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let command = table.resolve(&args).unwrap();
        let (mut hold, mut other) = (Hold::new(&shards), Hold::new(&shards));
        assert_eq!(Needs::of_first_key(command, &args, shards.placement()), Needs::One(shard(&keys[5])));
        assert!(hold.try_enter(shard(&keys[5])) && other.try_enter(shard(&keys[3])));
        let mut tx = Tx::new(hold, &table, config.clone(), 0);
        let client = Client { deny_blocking: false, ..Client::internal(0, Proto::Resp2) };
        let mut out = Output::new();
        match tx.run(command, &args, &client, &mut (), &mut out) {
            Outcome::Again(ids) => assert_eq!(ids[..], [&keys[2], &keys[3], &keys[5]].map(|key| shard(key))),
            other => panic!("{line}: {other:?}"),
        }
        assert!(out.is_empty() && !tx.wrote);
        for hold in [&mut tx.hold, &mut other] {
            while let Some(&id) = hold.entered().last() {
                assert!(hold.leave_or_keep(id));
            }
        }
    }
}

#[test]
fn the_wait_says_when_it_ends() {
    let mut clients = Clients::new();
    let mut wait = |line: &str| clients.how_long(line);
    assert_eq!(wait("BRPOP a b a 2"), (2000, true, 2));
    assert_eq!(wait("BLPOP a 0.0015"), (2, true, 1));
    assert_eq!(wait("BLMPOP 0 2 a b LEFT"), (0, true, 2));
    assert_eq!(wait("BLMOVE a b LEFT LEFT 0.5"), (500, true, 1));
}

#[test]
fn effects_are_those_of_the_commands_that_do_not_wait() {
    let mut clients = Clients::new();
    clients.wait(1, "BRPOP q 0");
    clients.check("LPUSH q a", ":1");
    assert_eq!(clients.effects(), ["LPUSH q a", "RPOP q"]);
    clients.wait(1, "BLMPOP 0 1 q LEFT COUNT 9");
    clients.check("RPUSH q a b", ":2");
    assert_eq!(clients.effects(), ["RPUSH q a b", "LPOP q 2"]);
    clients.wait(1, "BLMOVE q q LEFT RIGHT 0");
    clients.check("RPUSH q a b", ":2");
    assert_eq!(clients.effects(), ["RPUSH q a b", "LMOVE q q LEFT RIGHT"]);
    clients.check("BLMOVE q p LEFT RIGHT 0", "$1 b");
    assert_eq!(clients.effects(), ["LMOVE q p LEFT RIGHT"]);
}

#[test]
fn effects_replayed_make_the_same_lists() {
    let mut local = Local::new(&[ENTRIES]);
    local.record_effects();
    for line in [
        "RPUSH a 1 2 3 4 5 6 7 8 9 1 2 3",
        "LPUSH b x y z",
        "LMOVE a b LEFT RIGHT",
        "LMOVE b b LEFT RIGHT",
        "RPOPLPUSH b c",
        "RPOPLPUSH c c",
        "BLMOVE a c RIGHT LEFT 0",
        "LMPOP 2 none a RIGHT COUNT 2",
        "BLMPOP 0 2 none a LEFT COUNT 1",
        "BRPOP a 0",
        "LREM a 1 5",
        "LSET a 0 zero",
        "LINSERT a AFTER zero half",
        "LTRIM a 0 3",
        "LPUSHX none 1",
        "RPUSHX c 5",
        "LPOP b 100",
    ] {
        assert!(!local.line(line).starts_with('-'), "{line}");
    }
    let mut replayed = Local::new(&[ENTRIES]);
    replayed.replay(&local.take_effects()).expect("effects never fail");
    for key in ["a", "b", "c"] {
        let line = format!("LRANGE {key} 0 -1");
        assert_eq!(local.line(&line), replayed.line(&line), "{key}");
    }
}

#[test]
fn a_move_of_exactly_so_many_waits_until_there_are() {
    for (lines, served) in [
        (&["RPUSH q a b", "RPUSH q c"][..], "1: *3 $1 a $1 b $1 c"),
        (&["RPUSH q b c", "LPUSH q a"], "1: *3 $1 a $1 b $1 c"),
        (&["RPUSH q a b", "RPUSHX q c"], "1: *3 $1 a $1 b $1 c"),
        (&["RPUSH q a c", "LINSERT q BEFORE c b"], "1: *3 $1 a $1 b $1 c"),
        (&["RPUSH q a b", "RPUSH p c d", "LMOVE p q LEFT RIGHT"], "1: *3 $1 a $1 b $1 c"),
        (&["RPUSH q a b", "RPUSH p c d", "LMOVEM p q LEFT RIGHT COUNT 2 BULK"], "1: *3 $1 a $1 b $1 c"),
        (&["RPUSH q x", "LPOP q", "RPUSH q x", "DEL q", "RPUSH q a b c d"], "1: *3 $1 a $1 b $1 c"),
        (&["RPUSH p a b c", "RENAME p q"], "1: *3 $1 a $1 b $1 c"),
        (&["SET q x", "DEL q", "RPUSH q a b c"], "1: *3 $1 a $1 b $1 c"),
        (&["together RPUSH q a ; RPUSH q b ; RPUSH q c d"], "1: *3 $1 a $1 b $1 c"),
    ] {
        let mut clients = Clients::new();
        clients.wait(1, "BLMOVEM q d LEFT RIGHT 0 EXACTLY 3 BULK");
        let (last, before) = lines.split_last().expect("there are lines");
        for line in before {
            clients.run(2, line);
            clients.check_served(&[]);
        }
        clients.run(2, last);
        clients.check_served(&[served]);
        clients.check("LRANGE d 0 -1", "*3 $1 a $1 b $1 c");
    }
}

#[test]
fn who_waits_for_many_does_not_hold_up_who_waits_for_few() {
    let mut clients = Clients::new();
    clients.check("RPUSH q a", ":1");
    clients.wait(1, "BLMOVEM q d LEFT LEFT 0 EXACTLY 2 OBO");
    clients.wait(2, "BLMOVEM q e LEFT LEFT 0 EXACTLY 4 OBO");
    clients.check("BLPOP q 0", "*2 $1 q $1 a");
    clients.wait(3, "BLPOP q 0");
    clients.wait(4, "BLMOVEM q f LEFT LEFT 0 COUNT 9 OBO");
    clients.check("RPUSH q b", ":1");
    clients.check_served(&["3: *2 $1 q $1 b < LPUSH q b"]);
    clients.check("RPUSH q c", ":1");
    clients.check_served(&["4: *1 $1 c"]);
    clients.check("RPUSH q d e f g", ":4");
    clients.check_served(&["1: *2 $1 e $1 d"]);
    clients.check("RPUSH q h i", ":4");
    clients.check_served(&["2: *4 $1 i $1 h $1 g $1 f"]);
}

#[test]
fn a_move_of_several_heeds_a_pause() {
    let mut clients = Clients::new();
    clients.check("RPUSH q a b c", ":3");
    clients.check("DARTER.PAUSE q 1", ":1");
    clients.check("LMOVEM q d LEFT LEFT COUNT 2 OBO", "*-1");
    clients.wait(1, "BLMOVEM q d LEFT LEFT 0 EXACTLY 3 BULK");
    clients.check("RPUSH q d", ":4");
    clients.check_served(&[]);
    clients.check("DARTER.PAUSE q 0", ":1");
    clients.check_served(&["1: *3 $1 a $1 b $1 c"]);
}

#[test]
fn a_move_to_another_type_tells_who_waits() {
    let mut clients = Clients::new();
    clients.wait(1, "BLMOVEM q s LEFT LEFT 0 EXACTLY 2 BULK");
    clients.check("SET s x", "+OK");
    clients.check("RPUSH q a b", ":2");
    clients.check_served(&["1: -WRONGTYPE Operation against a key holding the wrong kind of value"]);
    clients.check("LLEN q", ":2");
}

#[test]
fn the_effect_of_a_move_of_several_is_a_pop_and_a_push() {
    let mut clients = Clients::new();
    clients.notify(&[Class::List, Class::Generic]);
    for (line, reply, effects, events) in [
        (
            "LMOVEM q d LEFT LEFT COUNT 2 OBO",
            "*2 $1 b $1 a",
            &["LPOP q 2", "LPUSH d a b"][..],
            &["lpush", "lpop"][..],
        ),
        (
            "LMOVEM q d LEFT LEFT COUNT 2 BULK",
            "*2 $1 a $1 b",
            &["LPOP q 2", "LPUSH d b a"],
            &["lpush", "lpop"],
        ),
        (
            "LMOVEM q d RIGHT LEFT COUNT 2 OBO",
            "*2 $1 c $1 d",
            &["RPOP q 2", "LPUSH d d c"],
            &["lpush", "rpop"],
        ),
        (
            "LMOVEM q d RIGHT RIGHT COUNT 2 BULK",
            "*2 $1 c $1 d",
            &["RPOP q 2", "RPUSH d c d"],
            &["rpush", "rpop"],
        ),
        ("LMOVEM q d LEFT RIGHT", "*1 $1 a", &["LPOP q 1", "RPUSH d a"], &["rpush", "lpop"]),
        (
            "LMOVEM q q LEFT RIGHT COUNT 2 OBO",
            "*2 $1 a $1 b",
            &["LPOP q 2", "RPUSH q a b"],
            &["rpush", "lpop"],
        ),
        (
            "LMOVEM q q RIGHT RIGHT COUNT 4 OBO",
            "*4 $1 d $1 c $1 b $1 a",
            &["RPUSH q d c b a", "LPOP q 4"],
            &["rpush", "rpop"],
        ),
        (
            "LMOVEM q d LEFT RIGHT EXACTLY 4 OBO",
            "*4 $1 a $1 b $1 c $1 d",
            &["LPOP q 4", "RPUSH d a b c d"],
            &["rpush", "lpop", "del"],
        ),
        ("LMOVEM q d LEFT RIGHT EXACTLY 5 OBO", "*-1", &[], &[]),
    ] {
        clients.run(0, "FLUSHALL");
        clients.run(0, "RPUSH q a b c d");
        clients.check_change(line, reply, effects, events);
    }
}
