//! Tests how QUEUE MOVE and QUEUE REMOVE change the keys that a job system has beside its jobs. Each test is
//! a table: the keys before, the command, its reply, and the keys after, on the store and on one that follows
//! it.

use engine::Local;
use resp::{Proto, Value};

use crate::server::{Server, decoded};

fn reply(local: &mut Local, words: &[&str]) -> Value {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    decoded(&local.reply(Proto::Resp2, &words))
}

/// The content of a key, as text.
fn shown(local: &mut Local, key: &str) -> String {
    let Value::Simple(kind) = reply(local, &["TYPE", key]) else { panic!("TYPE answers a word") };
    let kind = String::from_utf8_lossy(&kind).into_owned();
    let read: &[&str] = match &*kind {
        "none" => return "nothing".to_owned(),
        "string" => &["GET", key],
        "list" => &["LRANGE", key, "0", "-1"],
        "set" => &["SMEMBERS", key],
        "zset" => &["ZRANGE", key, "0", "-1", "WITHSCORES"],
        "hash" => &["HGETALL", key],
        other => panic!("{other}"),
    };
    let text = |value: &Value| match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => other.to_string(),
    };
    let parts: Vec<String> = match reply(local, read) {
        Value::Array(parts) => parts.iter().map(text).collect(),
        other => vec![text(&other)],
    };
    format!("{kind} {}", parts.join(" "))
}

/// Runs `before`, then `command`. Compares its reply as text, an error without its code.
#[track_caller]
fn check(before: &[&str], command: &str, expected: &str, then: &[(&str, &str)]) -> Server {
    let mut server = Server::new();
    for line in before {
        let reply = server.line(line);
        assert!(!matches!(reply, Value::Error(_)), "{line}: {reply}");
    }
    let reply = match server.line(command) {
        Value::Int(count) => count.to_string(),
        Value::Error(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{other}"),
    };
    assert!(reply.starts_with(expected), "{command}: {reply}");
    compare(&mut server, then);
    server
}

/// Compares keys with their expected content, also on the store that follows.
#[track_caller]
fn compare(server: &mut Server, then: &[(&str, &str)]) {
    let effects = server.local.take_effects();
    server.replica.replay(&effects).expect("effects run again");
    for (key, expected) in then {
        assert_eq!(shown(&mut server.local, key), *expected, "{key}");
        assert_eq!(shown(&mut server.replica, key), *expected, "{key} on the replica");
    }
}

/// A job of Sidekiq that has failed 26 times.
const DEAD: &str = r#"{"class":"Mail","args":[7],"queue":"mailers","jid":"a1","created_at":1690000000.5,"enqueued_at":1690000001.5,"retry_count":25}"#;

#[test]
fn a_dead_job_of_sidekiq_is_pushed_as_sidekiq_does_it() {
    let pushed = r#"list {"class":"Mail","args":[7],"queue":"default","jid":"a1","created_at":1690000000.5,"enqueued_at":1700000000.000,"retry_count":24}"#;
    let before = [&*format!("ZADD dead 1690000002 {DEAD}")];
    check(
        &before,
        "QUEUE MOVE dead queue:default",
        "1",
        &[("queue:default", pushed), ("dead", "nothing"), ("queues", "set default")],
    );
    // A queue of another namespace with existing jobs: the job joins behind them.
    let before = [&*format!("ZADD dead 1690000002 {DEAD}"), "SADD app:queues x", "LPUSH app:queue:low {}"];
    let pushed = pushed.replace("default", "low") + " {}";
    check(
        &before,
        "QUEUE MOVE dead app:queue:low",
        "1",
        &[("app:queue:low", &pushed), ("dead", "nothing"), ("app:queues", "set x low")],
    );
}

#[test]
fn a_scheduled_job_keeps_its_attempts_and_sidekiq_8_its_milliseconds() {
    let job = r#"{"queue":"a","class":"Mail","jid":"a1","created_at":1690000000000,"retry_count":3}"#;
    let pushed = r#"list {"queue":"b","class":"Mail","jid":"a1","created_at":1690000000000,"retry_count":3,"enqueued_at":1700000000000}"#;
    let before = [&*format!("ZADD schedule 1800000000 {job}")];
    check(&before, "QUEUE MOVE schedule queue:b", "1", &[("queue:b", pushed), ("schedule", "nothing")]);
}

#[test]
fn a_waiting_job_of_sidekiq_knows_its_new_queue() {
    let before = [&*format!("LPUSH queue:mailers {DEAD}"), "LPUSH queue:mailers opaque"];
    let moved = format!("list opaque {}", DEAD.replace("mailers", "low"));
    check(
        &before,
        "QUEUE MOVE queue:mailers queue:low",
        "2",
        &[("queue:low", &moved), ("queue:mailers", "nothing"), ("queues", "set low")],
    );
    // Elements that are not Sidekiq's jobs move unchanged, and announce no queue.
    check(
        &["LPUSH queue:a x y z"],
        "QUEUE MOVE queue:a queue:b COUNT 2",
        "2",
        &[("queue:a", "list z"), ("queue:b", "list y x"), ("queues", "nothing")],
    );
    check(
        &[&format!("LPUSH queue:a {DEAD}"), "SET queues x"],
        "QUEUE MOVE queue:a queue:b",
        "WRONGTYPE",
        &[("queue:b", "nothing"), ("queue:a", &format!("list {DEAD}"))],
    );
}

#[test]
fn sets_of_sidekiq_stay_sorted_sets() {
    let in_set = |score: &str| format!("zset {DEAD} {score}");
    let waits = [&*format!("LPUSH queue:mailers {DEAD}")];
    check(&waits, "QUEUE MOVE queue:mailers retry", "1", &[("retry", &in_set("1700000000"))]);
    check(&waits, "QUEUE MOVE queue:mailers dead TEXT Mail", "1", &[("dead", &in_set("1700000000"))]);
    let is_dead = [&*format!("ZADD dead 1690000002 {DEAD}")];
    check(&is_dead, "QUEUE MOVE dead retry", "1", &[("retry", &in_set("1700000000"))]);
    let is_retried = [&*format!("ZADD retry 1800000000.25 {DEAD}")];
    check(&is_retried, "QUEUE MOVE retry schedule", "1", &[("schedule", &in_set("1800000000.25"))]);
    check(&is_retried, "QUEUE MOVE retry dead", "1", &[("dead", &in_set("1700000000"))]);
    // A sorted set would merge two equal jobs into one.
    check(
        &["LPUSH queue:a x x y"],
        "QUEUE MOVE queue:a dead",
        "2",
        &[("queue:a", "list x"), ("dead", "zset x 1700000000 y 1700000000")],
    );
}

#[test]
fn a_key_that_has_another_type_already_is_left_alone() {
    check(
        &["ZADD dead 1 x", "SET queue:a x"],
        "QUEUE MOVE dead queue:a",
        "WRONGTYPE",
        &[("dead", "zset x 1")],
    );
    check(
        &["LPUSH queue:a x", "LPUSH dead y"],
        "QUEUE MOVE queue:a dead",
        "WRONGTYPE",
        &[("dead", "list y")],
    );
    // Elements can be moved out of a list that took the place of a sorted set.
    check(&["LPUSH dead x"], "QUEUE MOVE dead queue:a", "1", &[("queue:a", "list x"), ("dead", "nothing")]);
    check(&["SET a x"], "QUEUE MOVE a b", "WRONGTYPE", &[("b", "nothing")]);
}

#[test]
fn keys_of_no_system_have_the_type_of_the_other() {
    check(&["LPUSH a x y"], "QUEUE MOVE a b", "2", &[("b", "list y x")]);
    check(&["ZADD a 1 x 2 y"], "QUEUE MOVE a b", "2", &[("b", "zset x 1 y 2")]);
    check(&["ZADD a 1 x", "LPUSH b y"], "QUEUE MOVE a b", "WRONGTYPE", &[("a", "zset x 1")]);
    // Jobs can be put aside, and put back.
    let mut server = check(
        &[&format!("ZADD retry 1800000000 {DEAD}")],
        "QUEUE MOVE retry aside",
        "1",
        &[("aside", &format!("zset {DEAD} 1800000000"))],
    );
    assert_eq!(server.line("QUEUE MOVE aside queue:low"), Value::Int(1));
    let pushed = DEAD.replace("mailers", "low").replace("1690000001.5", "1700000000.000");
    compare(&mut server, &[("queue:low", &format!("list {pushed}"))]);
}

#[test]
fn jobs_do_not_change_their_system() {
    for (before, command) in [
        ("LPUSH queue:a x", "QUEUE MOVE queue:a celery"),
        ("LPUSH celery x", "QUEUE MOVE celery rq:queue:a"),
        ("ZADD dead 1 x", "QUEUE MOVE dead bull:a:failed"),
    ] {
        check(&[before], command, "ERR jobs of ", &[]);
    }
}

const HASH: &str =
    "HSET bull:mail:17 name send data {} timestamp 1 atm 3 finishedOn 5 processedOn 4 failedReason no";

#[test]
fn a_failed_job_of_bullmq_waits_again() {
    let before = [HASH, "HSET bull:mail:meta opts.maxLenEvents 10000", "ZADD bull:mail:failed 5 17"];
    check(
        &before,
        "QUEUE MOVE bull:mail:failed bull:mail:wait",
        "1",
        &[
            ("bull:mail:wait", "list 17"),
            ("bull:mail:failed", "nothing"),
            ("bull:mail:17", "hash name send data {} timestamp 1 atm 3"),
            ("bull:mail:marker", "zset 0 0"),
        ],
    );
    // Bull, and BullMQ before version 5, have no marker.
    let before = [HASH, "ZADD bull:mail:delayed 5 17", "LPUSH bull:mail:wait 3"];
    check(
        &before,
        "QUEUE MOVE bull:mail:delayed bull:mail:wait",
        "1",
        &[
            ("bull:mail:wait", "list 17 3"),
            (
                "bull:mail:17",
                "hash name send data {} timestamp 1 atm 3 finishedOn 5 processedOn 4 failedReason no delay 0",
            ),
            ("bull:mail:marker", "nothing"),
        ],
    );
    // A prefix that no pattern knows.
    let before = [&*HASH.replace("bull:", "jobs:"), "ZADD jobs:mail:failed 5 17"];
    check(
        &before,
        "QUEUE MOVE jobs:mail:failed jobs:mail:wait",
        "1",
        &[("jobs:mail:wait", "list 17"), ("jobs:mail:17", "hash name send data {} timestamp 1 atm 3")],
    );
}

#[test]
fn what_bullmq_could_not_run_is_not_moved() {
    let failed = [HASH, "ZADD bull:mail:failed 5 17"];
    let stays =
        [("bull:mail:failed", "zset 17 5"), ("bull:mail:wait", "nothing"), ("bull:a:wait", "nothing")];
    check(&failed, "QUEUE MOVE bull:mail:failed bull:a:wait", "ERR BullMQ numbers the jobs", &stays);
    check(&failed, "QUEUE MOVE bull:mail:failed bull:mail:delayed", "ERR jobs of BullMQ can only", &stays);
    check(&failed, "QUEUE MOVE bull:mail:failed aside", "ERR jobs of bullmq can only", &stays);
    check(&failed[1..], "QUEUE MOVE bull:mail:failed bull:mail:wait", "ERR nothing is kept of a job", &stays);
    let more = |line: &'static str| [&failed[..], &[line]].concat();
    let command = "QUEUE MOVE bull:mail:failed bull:mail:wait";
    check(&more("HSET bull:mail:meta paused 1"), command, "ERR BullMQ has paused", &stays);
    check(&more("HSET bull:mail:17 parentKey bull:p:1"), command, "ERR this job is part of a flow", &stays);
    check(&more("SET bull:mail:marker x"), command, "WRONGTYPE", &stays);
    let active = [HASH, "LPUSH bull:mail:active 17"];
    check(&active, "QUEUE MOVE bull:mail:active bull:mail:wait", "ERR workers have", &[]);
    check(
        &active,
        "QUEUE REMOVE bull:mail:active ID 17",
        "ERR workers have",
        &[("bull:mail:active", "list 17")],
    );
}

#[test]
fn jobs_that_can_be_moved_are_moved_past_those_that_cannot() {
    let before =
        [HASH, "HSET bull:mail:19 name send data {}", "ZADD bull:mail:failed 5 16 5 17 5 18 6 19 6 20"];
    check(
        &before,
        "QUEUE MOVE bull:mail:failed bull:mail:wait COUNT 3",
        "2",
        &[("bull:mail:wait", "list 19 17"), ("bull:mail:failed", "zset 16 5 18 5 20 6")],
    );
}

#[test]
fn a_removed_job_of_bullmq_leaves_nothing() {
    let before = [
        "HSET bull:mail:17 name send data {} deid one",
        "SET bull:mail:de:one 17",
        "LPUSH bull:mail:17:logs x",
        "HSET bull:mail:18 name send data {} deid one",
        "LPUSH bull:mail:wait 17 18 meta",
        "HSET bull:mail:meta version 6",
    ];
    let gone = |key| (key, "nothing");
    let mut server = check(
        &before,
        "QUEUE REMOVE bull:mail:wait ID 17",
        "1",
        &[
            ("bull:mail:wait", "list meta 18"),
            gone("bull:mail:17"),
            gone("bull:mail:17:logs"),
            gone("bull:mail:de:one"),
        ],
    );
    server.line("SET bull:mail:de:one 20");
    assert_eq!(server.line("QUEUE REMOVE bull:mail:wait ID 18"), Value::Int(1));
    // An id is any text that a client pushed, and need not name a job.
    assert_eq!(server.line("QUEUE REMOVE bull:mail:wait ID meta"), Value::Int(1));
    compare(
        &mut server,
        &[
            gone("bull:mail:18"),
            gone("bull:mail:wait"),
            ("bull:mail:de:one", "string 20"),
            ("bull:mail:meta", "hash version 6"),
        ],
    );
    let before = [HASH, "SADD bull:mail:17:dependencies bull:mail:16", "ZADD bull:mail:delayed 1 17"];
    check(&before, "QUEUE REMOVE bull:mail:delayed ID 17", "ERR this job is part of a flow", &[]);
    let before = [HASH, "SET bull:mail:17:lock token", "ZADD bull:mail:failed 1 17"];
    check(&before, "QUEUE REMOVE bull:mail:failed ID 17", "ERR workers have", &[]);
}

#[test]
fn a_job_of_rq_knows_its_queue_and_its_state() {
    let hash = "HSET rq:job:j1 data x origin a status failed started_at 1 ended_at 2 exc_info z timeout 180";
    check(
        &[hash, "ZADD rq:failed:a 1800000000 j1"],
        "QUEUE MOVE rq:failed:a rq:queue:b",
        "1",
        &[
            ("rq:queue:b", "list j1"),
            ("rq:failed:a", "nothing"),
            (
                "rq:job:j1",
                "hash data x origin b status queued timeout 180 enqueued_at 2023-11-14T22:13:20.000000Z",
            ),
            ("rq:queues", "set rq:queue:b"),
        ],
    );
    // Jobs are taken from the head, so they join at the tail, even of a queue that was empty.
    let waiting = ["HSET rq:job:j1 data x", "HSET rq:job:j2 data x", "RPUSH rq:queue:a j1 j2 j3"];
    check(
        &waiting,
        "QUEUE MOVE rq:queue:a rq:queue:b",
        "2",
        &[
            ("rq:queue:b", "list j1 j2"),
            ("rq:queue:a", "list j3"),
            ("rq:job:j1", "hash data x origin b status queued"),
        ],
    );
    let deferred = ["HSET rq:job:j1 data x", "ZADD rq:deferred:a 1 j1"];
    check(&deferred, "QUEUE MOVE rq:deferred:a rq:queue:a", "ERR only the job system", &[]);
    check(&waiting, "QUEUE MOVE rq:queue:a rq:failed:a", "ERR only the job system", &[]);
    check(&["ZADD rq:wip:a 1 j1"], "QUEUE MOVE rq:wip:a rq:queue:a", "ERR workers have", &[]);
    check(
        &["HSET rq:job:j1 data x", "SADD rq:job:j1:dependents j2", "RPUSH rq:queue:a j1"],
        "QUEUE REMOVE rq:queue:a ID j1",
        "1",
        &[("rq:job:j1", "nothing"), ("rq:job:j1:dependents", "nothing"), ("rq:queue:a", "nothing")],
    );
}

#[test]
fn a_task_of_asynq_is_run_or_archived() {
    let task = "HSET asynq:{low}:t:17 msg x state retry unique_key asynq:{low}:unique:a:b";
    check(
        &[task, "ZADD asynq:{low}:retry 1800000000 17"],
        "QUEUE MOVE asynq:{low}:retry asynq:{low}:pending",
        "1",
        &[
            ("asynq:{low}:pending", "list 17"),
            (
                "asynq:{low}:t:17",
                "hash msg x state pending unique_key asynq:{low}:unique:a:b pending_since 1700000000000000000",
            ),
        ],
    );
    check(
        &[task, "LPUSH asynq:{low}:pending 17"],
        "QUEUE MOVE asynq:{low}:pending asynq:{low}:archived",
        "1",
        &[
            ("asynq:{low}:archived", "zset 17 1700000000"),
            ("asynq:{low}:t:17", "hash msg x state archived unique_key asynq:{low}:unique:a:b"),
        ],
    );
    let pending = [task, "LPUSH asynq:{low}:pending 17", "SET asynq:{low}:unique:a:b 17"];
    let stays = [("asynq:{low}:pending", "list 17"), ("asynq:{high}:pending", "nothing")];
    check(&pending, "QUEUE MOVE asynq:{low}:pending asynq:{high}:pending", "ERR asynq writes", &stays);
    check(&pending, "QUEUE MOVE asynq:{low}:pending asynq:{low}:retry", "ERR only the job system", &stays);
    check(
        &pending,
        "QUEUE REMOVE asynq:{low}:pending ID 17",
        "1",
        &[
            ("asynq:{low}:pending", "nothing"),
            ("asynq:{low}:t:17", "nothing"),
            ("asynq:{low}:unique:a:b", "nothing"),
        ],
    );
}

#[test]
fn a_message_of_celery_goes_back_to_the_queue_that_it_is_in() {
    let message = r#"{"body":"W10=","headers":{"id":"3b1b"},"properties":{"delivery_info":{"exchange":"ex","routing_key":"aside"},"delivery_tag":"t"}}"#;
    let moved = r#"list {"body":"W10=","headers":{"id":"3b1b"},"properties":{"delivery_info":{"exchange":"","routing_key":"celery"},"delivery_tag":"t"}}"#;
    let before = [&*format!("LPUSH aside {message}")];
    check(&before, "QUEUE MOVE aside celery", "1", &[("celery", moved), ("aside", "nothing")]);
    // A queue with priorities has a list for each.
    let key = "celery\u{6}\u{16}9";
    check(&before, &format!("QUEUE MOVE aside {key}"), "1", &[(key, moved), ("aside", "nothing")]);
    check(&["ZADD unacked_index 1 x"], "QUEUE MOVE unacked_index celery", "ERR workers have", &[]);
    check(&["ZADD unacked_index 1 x"], "QUEUE REMOVE unacked_index ID x", "ERR workers have", &[]);
}

#[test]
fn a_failed_job_of_resque_is_unwrapped() {
    let failed =
        r#"{"failed_at":"now","payload":{"class":"Mail","args":[1]},"exception":"E","queue":"mail"}"#;
    check(
        &[&format!("RPUSH resque:failed {failed} x")],
        "QUEUE MOVE resque:failed resque:queue:low",
        "1",
        &[
            ("resque:queue:low", r#"list {"class":"Mail","args":[1]}"#),
            ("resque:failed", "list x"),
            ("resque:queues", "set low"),
        ],
    );
    let delayed = ["ZADD resque:delayed_queue_schedule 1 1"];
    check(&delayed, "QUEUE MOVE resque:delayed_queue_schedule resque:queue:a", "ERR only the job", &[]);
    check(&delayed, "QUEUE REMOVE resque:delayed_queue_schedule ID 1", "ERR only the job", &[]);
}

#[test]
fn what_other_systems_keep_is_heeded() {
    check(&["LPUSH dramatiq:a x"], "QUEUE MOVE dramatiq:a dramatiq:b", "ERR only the job system", &[]);
    check(
        &["HSET dramatiq:a.msgs x 1 y 2", "RPUSH dramatiq:a x y"],
        "QUEUE REMOVE dramatiq:a ID x",
        "1",
        &[("dramatiq:a.msgs", "hash y 2"), ("dramatiq:a", "list y")],
    );
    let arq = ["SET arq:job:x 1", "ZADD arq:queue 5 x"];
    check(&arq, "QUEUE MOVE arq:queue arq:queue:b", "1", &[("arq:queue:b", "zset x 5")]);
    check(&arq, "QUEUE REMOVE arq:queue ID x", "1", &[("arq:job:x", "nothing")]);
    let runs = [&arq[..], &["SET arq:in-progress:x 1"]].concat();
    check(&runs, "QUEUE REMOVE arq:queue ID x", "ERR workers have", &[("arq:job:x", "string 1")]);
    check(
        &["ZADD huey.schedule.a 1 x"],
        "QUEUE MOVE huey.schedule.a huey.redis.a",
        "1",
        &[("huey.redis.a", "list x")],
    );
    check(&["LPUSH huey.redis.a x"], "QUEUE MOVE huey.redis.a huey.schedule.a", "ERR jobs join", &[]);
    check(
        &["LPUSH huey.redis.a x"],
        "QUEUE MOVE huey.redis.a huey.redis.b",
        "1",
        &[("huey.redis.b", "list x")],
    );
}

#[test]
fn the_sets_beside_a_queue_are_left_to_the_commands_on_jobs() {
    for command in [
        "QUEUE MOVE {mail}:jobs:dead mail",
        "QUEUE MOVE mail {mail}:jobs:dead",
        "QUEUE REMOVE {mail}:jobs:dead ID x",
        "QUEUE REMOVE {mail}:jobs:group:a ID x",
    ] {
        check(
            &["ZADD {mail}:jobs:dead 1 x", "LPUSH {mail}:jobs:group:a x", "LPUSH mail x"],
            command,
            "ERR this key is kept",
            &[("{mail}:jobs:dead", "zset x 1"), ("{mail}:jobs:group:a", "list x")],
        );
    }
}

#[test]
fn what_is_beside_a_job_has_to_be_allowed_as_well() {
    let mut server = Server::new();
    server.line("HSET rq:job:j1 data x");
    server.line("HSET rq:job:j2 data x");
    server.line("RPUSH rq:queue:a j1 j2");
    server.thread.forbidden = Some("rq:job:j1".to_owned());
    assert_eq!(server.line("QUEUE MOVE rq:queue:a rq:queue:b"), Value::Int(1));
    let denied = server.line("QUEUE REMOVE rq:queue:a ID j1");
    assert!(matches!(&denied, Value::Error(text) if text.starts_with(b"NOPERM")), "{denied}");
    compare(
        &mut server,
        &[("rq:queue:a", "list j1"), ("rq:queue:b", "list j2"), ("rq:job:j1", "hash data x")],
    );
}

/// Many jobs, in slices, and some that stay between them.
#[test]
fn a_long_queue_moves_in_slices_and_in_order() {
    let mut server = Server::new();
    server.thread.tick_ns = 10_000;
    for number in 0..3000 {
        server.line(&format!("RPUSH rq:queue:a j{number}"));
        if number % 7 > 0 {
            server.line(&format!("HSET rq:job:j{number} data x"));
        }
    }
    let moves = |number: &usize| !number.is_multiple_of(7);
    let count = (0..3000).filter(moves).count();
    server.thread.slices = 0;
    assert_eq!(server.line("QUEUE MOVE rq:queue:a rq:queue:b"), Value::Int(count as i64));
    assert!(server.thread.slices > 20, "{} slices", server.thread.slices);
    let jobs = |numbers: Vec<usize>| numbers.iter().map(|number| format!("j{number}")).collect::<Vec<_>>();
    assert_eq!(server.list("rq:queue:b"), jobs((0..3000).filter(moves).collect()));
    assert_eq!(server.list("rq:queue:a"), jobs((0..3000).filter(|number| !moves(number)).collect()));
}
