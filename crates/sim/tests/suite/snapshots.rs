//! Snapshots that are saved while clients write: a snapshot has the data at the cut.
//!
//! In one kind of world, no client writes at the moment of the cut, so the digest of all data is known. Then clients
//! send arbitrary commands on data of every kind. In the other, clients write continuously, and keep invariants that
//! hold between any two transactions: constant sums, elements that move, consecutive numbers.

use std::ops::RangeInclusive;

use blackbox::{Batch, Generator};
use engine::Table;
use resp::Value;
use sim::{Client, Request, Setup, World, for_each_seed, request};

/// Batches of random commands before the cut.
const BATCHES_BEFORE: usize = 60;
/// More events than a save needs in any world.
const EVENTS_MAX: u64 = 400_000;

fn ok(world: &mut World, client: &mut Client, line: &str) -> Value {
    let reply = world.call(client, &resp::split_args(line.as_bytes()).expect("words"));
    assert!(!matches!(reply, Value::Error(_)), "{line}: {reply}");
    reply
}

fn is_saving(world: &mut World, client: &mut Client) -> bool {
    world.info(client)["rdb_bgsave_in_progress"] == 1
}

/// Values that are saved in parts, and requests that change them, each in its own way.
fn large_values() -> Vec<(Request, Vec<Request>)> {
    let numbers = || (0..400).map(|number| number.to_string());
    let pairs = || numbers().flat_map(|number| [number.clone(), number]);
    let with = |key: &str, items: Vec<String>| [key.to_owned()].into_iter().chain(items);
    let line = |text: &str| resp::split_args(text.as_bytes()).expect("words");
    let lines = |texts: &[&str]| texts.iter().map(|text| line(text)).collect::<Vec<Request>>();
    vec![
        (
            request("RPUSH", with("large:list", numbers().collect())),
            lines(&[
                "LPOP large:list",
                "LPUSH large:list x",
                "BRPOPLPUSH large:list large:list 1",
                "LTRIM large:list 3 -2",
            ]),
        ),
        (
            request("HSET", with("large:hash", pairs().collect())),
            lines(&[
                "HDEL large:hash 7",
                "HINCRBY large:hash 9 5",
                "HPEXPIRE large:hash 1 FIELDS 1 3",
                "RENAME large:hash large:other",
            ]),
        ),
        (
            request("SADD", with("large:set", numbers().map(|number| format!("m{number}")).collect())),
            lines(&[
                "SPOP large:set 3",
                "SMOVE large:set large:set2 m5",
                "PEXPIRE large:set 1",
                "COPY large:set large:copy",
            ]),
        ),
        (
            request("ZADD", with("large:zset", pairs().collect())),
            lines(&[
                "ZPOPMIN large:zset",
                "ZADD large:zset 3 39",
                "BZPOPMAX large:zset 1",
                "ZREMRANGEBYRANK large:zset 0 3",
            ]),
        ),
        (
            line(
                "EVAL \"for i = 1, 400 do redis.call('XADD', 'large:stream', '1-' .. i, 'field', i) end\" 1 large:stream",
            ),
            lines(&[
                "XDEL large:stream 1-7",
                "XGROUP CREATE large:stream g2 0",
                "XREADGROUP GROUP g1 c COUNT 3 STREAMS large:stream >",
                "XTRIM large:stream MAXLEN 30",
            ]),
        ),
    ]
}

/// A random request. Those on whole databases and large values are more frequent.
fn some_request(
    world: &mut World,
    generator: &mut Generator,
    large: &[(Request, Vec<Request>)],
) -> Vec<Request> {
    let line = |text: &str| vec![resp::split_args(text.as_bytes()).expect("words")];
    match world.below(40) {
        0 => line("FLUSHDB"),
        1 => line("FLUSHALL"),
        2..=4 => line("SWAPDB 0 1"),
        5 => line("EVAL \"for i = 1, 300 do redis.call('SET', KEYS[1] .. i, i) end\" 1 grow:"),
        6 => line("EVAL \"for i = 1, 300 do redis.call('DEL', 'grow:' .. i) end\" 0"),
        7..=15 => {
            let requests = &large[world.below(large.len())].1;
            vec![requests[world.below(requests.len())].clone()]
        }
        _ => generator.batch().requests,
    }
}

#[test]
fn a_snapshot_is_what_there_was_at_the_cut() {
    let table = Table::new(commands::FAMILIES);
    let large = large_values();
    let (mut changed_count, mut held_back_count) = (0, 0);
    for_each_seed("snapshots at a quiet cut", 30, |mut entropy| {
        let setup = Setup::any(&mut entropy);
        let mut generator = Generator::new(entropy.next_u64(), &table);
        let mut world = World::new(entropy, &setup);
        let mut clients: Vec<Client> = (0..4).map(|_| world.connect()).collect();
        for _ in 0..BATCHES_BEFORE {
            let Batch { requests, .. } = generator.batch();
            let number = world.below(clients.len());
            requests.iter().for_each(|request| clients[number].send(request));
        }
        let mut main = world.connect();
        world.settle(|world| clients.iter_mut().for_each(|client| drop(world.pump(client))));
        for db in [0, 1] {
            ok(&mut world, &mut main, &format!("SELECT {db}"));
            for (create, _) in &large {
                let key = if create[0] == b"EVAL" { &create[3] } else { &create[1] };
                world.call(&mut main, &vec![b"DEL".to_vec(), key.clone()]);
                world.call(&mut main, create);
            }
            ok(&mut world, &mut main, "XGROUP CREATE large:stream g1 1-20");
            ok(&mut world, &mut main, "HPEXPIRE large:hash 1000000 FIELDS 2 3 4");
        }
        let at_cut = ok(&mut world, &mut main, "DEBUG DIGEST");
        ok(&mut world, &mut main, "BGSAVE");
        let first_event = world.event;
        while is_saving(&mut world, &mut main) {
            assert!(world.event < first_event + EVENTS_MAX, "the save comes to no end");
            for client in &mut clients {
                if client.unanswered() < 20 && !client.has_ended {
                    some_request(&mut world, &mut generator, &large)
                        .iter()
                        .for_each(|request| client.send(request));
                }
            }
            for _ in 0..20 {
                clients.iter_mut().for_each(|client| drop(world.pump(client)));
                world.step();
            }
        }
        held_back_count += world.server().held_back();
        clients.clear();
        world.settle(|_| {});
        let before_load = ok(&mut world, &mut main, "DEBUG DIGEST");
        changed_count += usize::from(before_load != at_cut);
        ok(&mut world, &mut main, "DEBUG RELOAD NOSAVE");
        let loaded = ok(&mut world, &mut main, "DEBUG DIGEST");
        assert_eq!(loaded, at_cut, "the snapshot is another than the data at the cut");
    });
    println!("{changed_count} worlds had changed, {held_back_count} commands were held back");
    assert!(changed_count > 0 && held_back_count > 0);
}

/// Number of accounts, and of elements in lists.
const COUNT: usize = 8;
const TRANSFER: &str = "redis.call('DECRBY', KEYS[1], ARGV[1]) redis.call('INCRBY', KEYS[2], ARGV[1])";

fn transfer(world: &mut World) -> Vec<Request> {
    let (from, to) = (world.below(COUNT), world.below(COUNT));
    let line = |text: String| resp::split_args(text.as_bytes()).expect("words");
    match world.below(5) {
        0 => [
            "MULTI".to_owned(),
            format!("DECRBY account:{from} 3"),
            format!("INCRBY account:{to} 3"),
            "EXEC".to_owned(),
        ]
        .map(line)
        .to_vec(),
        1 => vec![line(format!("EVAL \"{TRANSFER}\" 2 account:{from} account:{to} 5"))],
        2 => vec![line(format!("MSET one:{from} {to} other:{from} {to}"))],
        3 => vec![line(format!("LMOVE list:{from} list:{to} LEFT RIGHT"))],
        _ => vec![line(format!("BRPOPLPUSH list:{from} list:{to} 0.05"))],
    }
}

fn numbers(reply: Value) -> Vec<i64> {
    let Value::Array(items) = reply else { panic!("{reply}") };
    let number = |item: &Value| match item {
        Value::Bulk(text) => String::from_utf8_lossy(text).parse().expect("a number"),
        _ => 0,
    };
    items.iter().map(number).collect()
}

/// Checks the invariants that hold between any two transactions.
fn check_loaded(world: &mut World, main: &mut Client, links_at_cut: RangeInclusive<usize>) {
    let keys = |name: &str| (0..COUNT).map(|number| format!("{name}:{number}")).collect::<Vec<_>>();
    let mget = |world: &mut World, main: &mut Client, name: &str| {
        numbers(world.call(main, &request("MGET", keys(name))))
    };
    assert_eq!(mget(world, main, "account").iter().sum::<i64>(), 0, "a transfer was cut in two");
    assert_eq!(mget(world, main, "one"), mget(world, main, "other"));
    let links: Vec<i64> = mget(world, main, "chain");
    let count = links.iter().sum::<i64>() as usize;
    let expected: Vec<i64> = (0..COUNT).map(|number| ((count + COUNT - 1 - number) / COUNT) as i64).collect();
    assert_eq!(links, expected, "a number is there without the one before");
    assert!(links_at_cut.contains(&count), "{count} is not in {links_at_cut:?}");
    let mut elements = Vec::new();
    for key in keys("list") {
        let Value::Array(items) = world.call(main, &request("LRANGE", [&key[..], "0", "-1"])) else {
            panic!("{key} is no list");
        };
        elements.extend(items.into_iter().map(|item| item.to_string()));
    }
    elements.sort_unstable();
    elements.dedup();
    assert_eq!(elements.len(), 2 * COUNT, "{elements:?}");
}

#[test]
fn a_cut_comes_between_two_transactions() {
    for_each_seed("snapshots at a busy cut", 30, |mut entropy| {
        let setup = Setup::any(&mut entropy);
        let mut world = World::new(entropy, &setup);
        let mut main = world.connect();
        for number in 0..COUNT {
            ok(&mut world, &mut main, &format!("RPUSH list:{number} {number}-a {number}-b"));
        }
        let mut clients: Vec<Client> = (0..4).map(|_| world.connect()).collect();
        // The numbers of the chain are consecutive: each is incremented after the one before.
        let (mut chain, mut links) = (world.connect(), 0);
        let mut busy = |world: &mut World, links: &mut usize| {
            for client in &mut clients {
                world.pump(client);
                if client.unanswered() < 8 {
                    transfer(world).iter().for_each(|request| client.send(request));
                }
            }
            world.pump(&mut chain);
            if chain.unanswered() == 0 {
                chain.send(&request("INCR", [format!("chain:{}", *links % COUNT)]));
                *links += 1;
            }
            world.step();
        };
        for _ in 0..300 {
            busy(&mut world, &mut links);
        }
        let acknowledged = links - 1;
        main.send(&request("BGSAVE", [""; 0]));
        let reply = loop {
            if let Some(reply) = world.pump(&mut main).pop() {
                break reply;
            }
            busy(&mut world, &mut links);
        };
        assert_eq!(reply, Value::Simple(b"Background saving started".to_vec()));
        let sent = links;
        while is_saving(&mut world, &mut main) {
            (0..20).for_each(|_| busy(&mut world, &mut links));
        }
        drop(clients);
        world.settle(|_| {});
        ok(&mut world, &mut main, "DEBUG RELOAD NOSAVE");
        check_loaded(&mut world, &mut main, acknowledged..=sent);
    });
}
