//! Settings about queues that the server understands.

use config::{Id, SettingKind};

use super::{Consequence, HTTP, PROCESS, REPLICATION, SERVING, Setting, group};

settings! {
    QUEUES from SERVING.len() + PROCESS.len() + REPLICATION.len() + HTTP.len();

    QUEUE_PATTERN = Setting {
        name: "queue-pattern",
        kind: SettingKind::Words,
        effect: Some(Consequence::Queues),
        doc: "Further keys that are queues, as glob-style patterns; those of Sidekiq, Resque, BullMQ, Celery, RQ, asynq, huey, dramatiq and arq always are",
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
    PROMOTE = Setting {
        name: "promote",
        kind: SettingKind::Choice(&[("no", 0), ("sidekiq", 1)]),
        default: "no",
        effect: Some(Consequence::Data),
        doc: "sidekiq: jobs in Sidekiq's sets schedule and retry join their queues when they are due, without waiting for Sidekiq's poller; client middleware does not run then",
        ..Setting::of(group::DATA)
    };
    JOB_RECOVERY = Setting {
        name: "job-recovery",
        kind: SettingKind::Choice(&[("no", 0), ("sidekiq", 1)]),
        default: "no",
        effect: Some(Consequence::Data),
        doc: "sidekiq: jobs of a Sidekiq process that has died go back to their queues when its heartbeat has expired, a minute later; they run at least once",
        ..Setting::of(group::DATA)
    };
}
