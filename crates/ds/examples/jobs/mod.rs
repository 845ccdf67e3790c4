//! Jobs as Sidekiq, BullMQ, asynq and RQ store them, with random ids, times and arguments.

use ds::random::Random;

/// Creates a job.
pub(crate) type Maker = fn(&mut Random) -> Vec<u8>;

/// All kinds of jobs, and values without a pattern.
pub(crate) const KINDS: [(&str, Maker); 6] = [
    ("schedule", sidekiq_scheduled),
    ("retry", sidekiq_retry),
    ("bullmq", bullmq),
    ("asynq", asynq),
    ("rq", rq),
    ("noise", noise),
];

const NAMES: [&str; 8] = ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi"];
const WORDS: [&str; 12] = [
    "invoice", "refund", "welcome", "weekly", "report", "export", "image", "search", "daily", "user",
    "status", "index",
];
const CLASSES: [&str; 8] = [
    "ActionMailer::MailDeliveryJob",
    "InvoiceWorker",
    "Reports::DailyExportJob",
    "SearchIndexWorker",
    "WebhookDeliveryWorker",
    "ThumbnailWorker",
    "Billing::ChargeWorker",
    "CleanupJob",
];
const ERRORS: [(&str, &str); 4] = [
    ("Net::ReadTimeout", "Net::ReadTimeout with #<TCPSocket:(closed)>"),
    (
        "Faraday::ConnectionFailed",
        "Failed to open TCP connection to api.example.com:443 (Connection refused)",
    ),
    ("ActiveRecord::RecordNotFound", "Couldn't find User with 'id'="),
    ("NoMethodError", "undefined method `amount' for nil:NilClass"),
];

fn below(random: &mut Random, limit: usize) -> usize {
    random.below(limit as u64) as usize
}

fn pick<'a>(random: &mut Random, all: &[&'a str]) -> &'a str {
    all[below(random, all.len())]
}

fn hex(random: &mut Random, len: usize) -> String {
    (0..len).map(|_| char::from(b"0123456789abcdef"[below(random, 16)])).collect()
}

fn uuid(random: &mut Random) -> String {
    [8, 4, 4, 4, 12].map(|len| hex(random, len)).join("-")
}

fn seconds(random: &mut Random) -> u64 {
    1_700_000_000 + random.below(300_000)
}

/// A time as Ruby writes it.
fn time(random: &mut Random) -> String {
    format!("{}.{}", seconds(random), random.below(10_000_000))
}

fn args(random: &mut Random, class: usize) -> String {
    let id = random.below(3_000_000);
    match class {
        0 => format!(
            r#""UserMailer","{}","deliver_now",{{"args":[{{"_aj_globalid":"gid://app/User/{id}"}}]}}"#,
            pick(random, &WORDS)
        ),
        1 | 6 => format!("{id},{}", random.below(90_000)),
        2 => format!(r#"{id},"{}@example.com","csv""#, pick(random, &NAMES)),
        3 => format!(r#""{}",{id}"#, pick(random, &WORDS)),
        4 => format!(r#"{id},"https://hooks.example.com/{}/{id}""#, pick(random, &WORDS)),
        _ => format!("{id}"),
    }
}

/// A member of `schedule`.
fn sidekiq_scheduled(random: &mut Random) -> Vec<u8> {
    let class = below(random, CLASSES.len());
    format!(
        r#"{{"retry":true,"queue":"{}","class":"{}","args":[{}],"jid":"{}","created_at":{},"trace_propagation_headers":{{}}}}"#,
        ["default", "mailers", "low"][class % 3], CLASSES[class], args(random, class), hex(random, 24), time(random),
    )
    .into_bytes()
}

/// A member of `retry` or `dead`.
fn sidekiq_retry(random: &mut Random) -> Vec<u8> {
    let class = below(random, CLASSES.len());
    let (error_class, message) = ERRORS[below(random, ERRORS.len())];
    let number = if class == 2 { random.below(100_000).to_string() } else { String::new() };
    format!(
        r#"{{"retry":true,"queue":"{}","class":"{}","args":[{}],"jid":"{}","created_at":{},"enqueued_at":{},"error_message":"{message}{number}","error_class":"{error_class}","failed_at":{},"retry_count":{},"retried_at":{}}}"#,
        ["default", "mailers", "low"][class % 3], CLASSES[class], args(random, class), hex(random, 24), time(random), time(random),
        time(random), random.below(12), time(random),
    )
    .into_bytes()
}

/// The fields of a hash, as its small form stores them.
fn fields(pairs: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for item in pairs.iter().flat_map(|(field, value)| [field.as_bytes(), value]) {
        let len = (item.len() as u64).to_le_bytes();
        match u8::try_from(item.len()) {
            Ok(u8::MAX) | Err(_) => bytes.extend([&[u8::MAX][..], &len].concat()),
            Ok(len) => bytes.push(len),
        }
        bytes.extend_from_slice(item);
    }
    bytes
}

fn bullmq(random: &mut Random) -> Vec<u8> {
    let class = below(random, 3);
    let (name, id) = (pick(random, &NAMES), random.below(3_000_000));
    let data = match class {
        0 => format!(
            r#"{{"to":"{name}{id}@example.com","template":"{}","locale":"en","userId":{id},"requestId":"{}"}}"#,
            pick(random, &WORDS),
            uuid(random)
        ),
        1 => format!(
            r#"{{"orderId":{id},"amount":{},"currency":"EUR","customer":{{"name":"{name}","vip":false}},"requestId":"{}"}}"#,
            random.below(100_000),
            uuid(random)
        ),
        _ => format!(
            r#"{{"videoId":"{}","profile":"720p","source":"s3://uploads/{}/{id}.mp4","notify":"{name}{id}@example.com"}}"#,
            hex(random, 16),
            pick(random, &WORDS)
        ),
    };
    let opts = r#"{"attempts":3,"delay":0,"backoff":{"delay":1000,"type":"exponential"},"removeOnComplete":{"age":3600,"count":1000}}"#;
    let ms = || 1_700_000_000_000;
    let (added, done) = (ms() + random.below(300_000_000), random.below(9000));
    fields(&[
        ("name", ["sendEmail", "chargeOrder", "transcode"][class].as_bytes()),
        ("data", data.as_bytes()),
        ("opts", opts.as_bytes()),
        ("timestamp", added.to_string().as_bytes()),
        ("delay", b"0"),
        ("priority", b"0"),
        ("processedOn", (added + done).to_string().as_bytes()),
        ("ats", b"1"),
        ("atm", b"1"),
        ("returnvalue", format!(r#"{{"ok":true,"ms":{done}}}"#).as_bytes()),
        ("finishedOn", (added + done + random.below(3000)).to_string().as_bytes()),
    ])
}

fn asynq(random: &mut Random) -> Vec<u8> {
    let mut message = Vec::new();
    let mut text = |field: u8, text: &str| {
        message.extend([field << 3 | 2, text.len() as u8]);
        message.extend_from_slice(text.as_bytes());
    };
    let id = random.below(3_000_000);
    text(1, "email:deliver");
    text(
        2,
        &format!(
            r#"{{"user_id":{id},"template":"{}","name":"{}"}}"#,
            pick(random, &WORDS),
            pick(random, &NAMES)
        ),
    );
    text(3, &uuid(random));
    text(4, "default");
    message.extend([5 << 3, 25, 7 << 3, 0x88, 0x0e]);
    message.push(13 << 3);
    let mut at = seconds(random);
    while at >= 128 {
        message.push(at as u8 | 128);
        at >>= 7;
    }
    message.push(at as u8);
    let since = (seconds(random) * 1_000_000_000 + random.below(1_000_000_000)).to_string();
    fields(&[("msg", &message), ("state", b"pending"), ("pending_since", since.as_bytes())])
}

fn rq(random: &mut Random) -> Vec<u8> {
    let at = |random: &mut Random| {
        format!(
            "2026-11-{:02}T{:02}:{:02}:{:02}.{:06}Z",
            10 + random.below(20),
            random.below(24),
            random.below(60),
            random.below(60),
            random.below(1_000_000)
        )
    };
    // A pickle compressed by zlib: bytes without a pattern except at the beginning.
    let data: Vec<u8> = [0x78, 0x9c].into_iter().chain((0..70).map(|_| random.next_u64() as u8)).collect();
    let id = random.below(3_000_000);
    fields(&[
        ("created_at", at(random).as_bytes()),
        ("data", &data),
        ("success_callback_name", b""),
        ("failure_callback_name", b""),
        ("stopped_callback_name", b""),
        ("origin", b"default"),
        (
            "description",
            format!("app.tasks.send_{}({id}, name='{}')", pick(random, &WORDS), pick(random, &NAMES))
                .as_bytes(),
        ),
        ("enqueued_at", at(random).as_bytes()),
        ("started_at", b""),
        ("ended_at", b""),
        ("last_heartbeat", at(random).as_bytes()),
        ("timeout", b"180"),
        ("status", b"queued"),
        ("worker_name", b""),
        ("group_id", b""),
    ])
}

/// Values without a pattern.
fn noise(random: &mut Random) -> Vec<u8> {
    (0..200).map(|_| random.next_u64() as u8).collect()
}
