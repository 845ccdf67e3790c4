//! Jobs are moved and removed while their data lie on other shards. A job and its record change together, whichever
//! shards are taken at that moment. So at any moment each job is in one queue, and its hash names that queue; a
//! removed job leaves nothing.

use std::collections::BTreeSet;

use blackbox::text;
use resp::Value;
use sim::{Client, Request, Setup, World, for_each_seed, request};

/// Requests per world.
const REQUESTS: usize = 250;
const QUEUES: [&str; 3] = ["a", "b", "c"];
/// Returns what is wrong.
const CHECK: &str = "local wrong = {} \
    for _, queue in ipairs({'a', 'b', 'c'}) do \
        for _, id in ipairs(redis.call('LRANGE', 'rq:queue:' .. queue, 0, -1)) do \
            local origin = redis.call('HGET', 'rq:job:' .. id, 'origin') \
            if origin ~= queue then table.insert(wrong, id .. ' in ' .. queue .. ' is of ' .. tostring(origin)) end \
        end \
    end \
    return wrong";
const PUT: &str = "redis.call('HSET', KEYS[1], 'data', 'x', 'origin', ARGV[1]) return redis.call('RPUSH', KEYS[2], ARGV[2])";
const MOVE: &str = "redis.call('INCR', 'moves') return redis.call('QUEUE', 'MOVE', KEYS[1], KEYS[2])";

#[derive(Default)]
struct Load {
    jobs: usize,
    moved: i64,
}

fn key(world: &mut World) -> (String, &'static str) {
    let queue = QUEUES[world.below(QUEUES.len())];
    (format!("rq:queue:{queue}"), queue)
}

impl Load {
    /// The next requests of a client.
    fn requests(&mut self, world: &mut World) -> Vec<Request> {
        let (from, queue) = key(world);
        let (to, _) = key(world);
        match world.below(10) {
            0..=4 => {
                self.jobs += 1;
                let id = format!("j{}", self.jobs);
                let hash = format!("rq:job:{id}");
                vec![request("EVAL", [PUT, "2", &hash, &from, queue, &id])]
            }
            5 => {
                let count = (1 + world.below(20)).to_string();
                vec![request("QUEUE", ["MOVE", &from, &to, "COUNT", &count])]
            }
            6 => vec![request("EVAL", [MOVE, "2", &from, &to])],
            7 => vec![
                request("MULTI", [""; 0]),
                request("INCR", ["moves"]),
                request("QUEUE", ["MOVE", &from, &to]),
                request("EXEC", [""; 0]),
            ],
            8 => {
                let id = format!("j{}", 1 + world.below(self.jobs + 1));
                vec![request("QUEUE", ["REMOVE", &from, "ID", &id])]
            }
            _ => vec![request("EVAL", [CHECK, "0"])],
        }
    }

    /// Checks a reply.
    fn note(&mut self, reply: &Value) {
        match reply {
            Value::Array(items) => {
                let wrong: Vec<String> =
                    items.iter().filter(|item| matches!(item, Value::Bulk(_))).map(text).collect();
                assert!(wrong.is_empty(), "{wrong:?}");
            }
            Value::Int(count) => self.moved += count,
            Value::Simple(_) => {}
            // The two are one.
            Value::Error(error) => assert!(error.starts_with(b"ERR source and destination"), "{reply}"),
            other => panic!("{other}"),
        }
    }
}

fn simulate(mut entropy: proactor::Entropy, moved: &mut i64) {
    let setup = Setup::any(&mut entropy);
    let mut world = World::new(entropy, &setup);
    let mut load = Load::default();
    let mut clients: Vec<Client> = (0..3 + world.below(4)).map(|_| world.connect()).collect();
    let mut sent = 0;
    while sent < REQUESTS {
        world.step();
        for client in &mut clients {
            world.pump(client).iter().for_each(|reply| load.note(reply));
            if world.one_in(4) && client.unanswered() == 0 {
                let requests = load.requests(&mut world);
                requests.iter().for_each(|request| client.send(request));
                sent += requests.len();
            }
        }
    }
    world.settle(|world| {
        clients.iter_mut().for_each(|client| world.pump(client).iter().for_each(|reply| load.note(reply)));
    });
    let mut observer = world.connect();
    load.note(&world.call(&mut observer, &request("EVAL", [CHECK, "0"])));
    let mut there = BTreeSet::new();
    for queue in QUEUES {
        let list = world.call(&mut observer, &request("LRANGE", [&*format!("rq:queue:{queue}"), "0", "-1"]));
        let Value::Array(ids) = list else { panic!("{list}") };
        ids.iter().for_each(|id| assert!(there.insert(text(id)), "{id} is in two queues"));
    }
    for number in 1..=load.jobs {
        let id = format!("j{number}");
        let exists = world.call(&mut observer, &request("EXISTS", [format!("rq:job:{id}")]));
        assert_eq!(exists, Value::Int(there.contains(&id).into()), "what is kept of {id}");
    }
    *moved += load.moved;
}

#[test]
fn a_job_and_what_is_kept_of_it_move_together() {
    let mut moved = 0;
    for_each_seed("moved", 100, |entropy| simulate(entropy, &mut moved));
    assert!(moved > 1_000, "{moved}");
}
