//! Settings about queues that the server understands.

use crate::{Id, SettingKind};

use super::{Consequence, HTTP, PROCESS, REPLICATION, SERVING, Setting, group};

settings! {
    QUEUES from SERVING.len() + PROCESS.len() + REPLICATION.len() + HTTP.len();

    QUEUE_PATTERN = Setting {
        name: "queue-pattern",
        kind: SettingKind::Words,
        effect: Some(Consequence::Queues),
        doc: "Further keys that are queues, as glob-style patterns",
        details: "Those of Sidekiq, Resque, BullMQ, Celery, RQ, asynq, huey, dramatiq and arq always are.",
        ..Setting::of(group::WATCHING)
    };
    QUEUES_MAX = Setting {
        name: "queues-max",
        kind: SettingKind::Integer { min: 0, max: 10_000_000 },
        default: "100000",
        effect: Some(Consequence::Queues),
        doc: "Queues whose ages, rates and waiting times are tracked; further ones are ordinary lists",
        ..Setting::of(group::WATCHING)
    };
    QUEUE_IDLE_TIMEOUT = Setting {
        name: "queue-idle-timeout",
        kind: SettingKind::Integer { min: 1, max: i64::MAX / 1000 },
        unit: "seconds",
        default: "86400",
        doc: "Time after which an empty queue is forgotten, unless a client waits for it or it is paused",
        ..Setting::of(group::WATCHING)
    };
    QUEUE_EVICTION = Setting {
        name: "queue-eviction",
        kind: SettingKind::Switch,
        default: "no",
        effect: Some(Consequence::Data),
        doc: "Whether maxmemory-policy may evict queues; with no, it evicts other keys only",
        details: "Queues are the lists, sorted sets and streams that `QUEUE LIST` shows, and the keys of JOB beside them.",
        ..Setting::of(group::MEMORY)
    };
    JOB_TRIES = Setting {
        name: "job-tries",
        kind: SettingKind::Integer { min: 1, max: i64::MAX },
        default: "25",
        effect: Some(Consequence::Data),
        doc: "Attempts of a leased job of which JOB.PUT said no number (TRIES); after the last one it is dead",
        ..Setting::of(group::DATA)
    };
    JOB_DEAD_MAX = Setting {
        name: "job-dead-max",
        kind: SettingKind::Integer { min: 0, max: 1_000_000_000 },
        default: "10000",
        effect: Some(Consequence::Data),
        doc: "Dead jobs that are kept of each queue: beyond it the oldest are dropped",
        ..Setting::of(group::DATA)
    };
    JOB_DEAD_TIMEOUT = Setting {
        name: "job-dead-timeout",
        kind: SettingKind::Integer { min: 0, max: 1 << 40 },
        unit: "seconds",
        default: "0",
        effect: Some(Consequence::Data),
        doc: "Time after which a dead job is dropped; 0: never",
        ..Setting::of(group::DATA)
    };
    PROMOTE = Setting {
        name: "promote",
        kind: SettingKind::Choice(&[("no", 0), ("sidekiq", 1)]),
        default: "no",
        effect: Some(Consequence::Data),
        doc: "sidekiq: jobs in Sidekiq's sets schedule and retry join their queues when they are due",
        details: "They do not wait for Sidekiq's poller. Client middleware does not run then.",
        ..Setting::of(group::DATA)
    };
    JOB_RECOVERY = Setting {
        name: "job-recovery",
        kind: SettingKind::Choice(&[("no", 0), ("sidekiq", 1)]),
        default: "no",
        effect: Some(Consequence::Data),
        doc: "sidekiq: jobs of a Sidekiq process that has died go back to their queues",
        details: "That is when its heartbeat has expired, a minute later. They run at least once.",
        ..Setting::of(group::DATA)
    };
}
