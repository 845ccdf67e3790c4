//! The state of the server, for the first lines of the console.

use config::{APPENDFSYNC, APPENDONLY};
use observe::{Facts, Memory, Persistence, Replication};
use serde_json::{Value as Json, json};

use crate::guard::Visitor;
use crate::reply::{self, Answer};
use crate::state::State;

/// From this share of the memory limit on there is a warning.
const MEMORY_WARNING: f64 = 0.9;

/// The answer to `/api/overview`.
pub(crate) fn answer(state: &State, visitor: &Visitor) -> Answer {
    let source = state.source;
    let facts = source.facts();
    let (server, memory) = (facts.server(), facts.memory());
    let (persistence, replication) = (facts.persistence(), facts.replication());
    let (clients, observed) = (facts.clients(), facts.observed());
    reply::json(&json!({
        "version": server.darter_version,
        "redis_version": server.redis_version,
        "uptime_s": server.uptime_seconds,
        "role": if replication.followed.is_some() { "replica" } else { "primary" },
        "memory_bytes": memory.used_bytes,
        "memory_counted_bytes": memory.counted_bytes,
        "memory_bytes_max": memory.limit_bytes,
        "connected_clients": clients.connected,
        "blocked_clients": observed.now(|stats| &stats.blocked_clients),
        "threads": server.thread_count,
        "ops_per_s": observed.rate().commands,
        "warnings": warnings(state, &*facts, &memory, &persistence, &replication),
        "lost_in_crash": persistence.at_risk,
        "can_write": visitor.may(state, &["queue", "pause"]),
        "user": visitor.user(),
        "token": state.token,
        "durability": durability(state, &persistence, &replication),
        "time_ms": source.now_ms(),
    }))
}

fn durability(state: &State, persistence: &Persistence, replication: &Replication) -> Json {
    let settings = state.source.settings();
    let journal = persistence.journal.unwrap_or_default();
    json!({
        "journal": if settings.is_on(APPENDONLY) { "on" } else { "off" },
        "appendfsync": &*settings.text(APPENDFSYNC),
        "journal_bytes": journal.size_bytes,
        "journal_stalled": state.source.is_stalled() || journal.has_failed,
        "last_save_s": persistence.last_save_seconds,
        "last_save_ok": !persistence.last_failed,
        "changes_since_save": persistence.unsaved_changes,
        "replicas": replication.replicas.iter().map(|line| replica(line, replication.offset)).collect::<Vec<_>>(),
        "offset": replication.offset,
    })
}

/// A field of the line of INFO about a replica.
fn field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let mut fields = line.split(',').filter_map(|field| field.split_once('='));
    fields.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// A replica, from its line of INFO: `ip=…,port=…,state=…,offset=…,lag=…`.
fn replica(line: &str, offset: u64) -> Json {
    let field = |name: &str| field(line, name);
    let number = |name: &str| field(name).and_then(|value| value.parse::<u64>().ok());
    let (ip, port) = (field("ip").unwrap_or_default(), field("port").unwrap_or_default());
    json!({
        "address": if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") },
        "state": field("state"),
        "offset": number("offset"),
        "lag_bytes": number("offset").map(|own| offset.saturating_sub(own)),
        "lag_s": number("lag"),
    })
}

/// Warnings for the operator.
fn warnings(
    state: &State,
    facts: &dyn Facts,
    memory: &Memory,
    persistence: &Persistence,
    replication: &Replication,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |is_so: bool, text: String| {
        if is_so {
            warnings.push(text);
        }
    };
    let settings = state.source.settings();
    let has_journal = settings.is_on(APPENDONLY);
    if let Some(loading) = persistence.loading {
        warn(true, format!("The data is being loaded: {:.0} %.", loading.percent));
    }
    let has_failed = persistence.journal.is_some_and(|journal| journal.has_failed);
    warn(has_failed, "The journal cannot be written.".to_owned());
    warn(state.source.is_stalled(), "Writes wait because the journal cannot keep up.".to_owned());
    warn(persistence.last_failed, "The last snapshot could not be saved.".to_owned());
    let keeps_nothing = !has_journal && !settings.has_save_points();
    warn(keeps_nothing, "Nothing is kept: there is no journal and there are no save points.".to_owned());
    if let Some(followed) = &replication.followed {
        let (host, port) = (&followed.host, followed.port);
        let since = followed.down_seconds;
        warn(!followed.is_up, format!("The link to the primary {host}:{port} has been down for {since} s."));
        let count = followed.divergence;
        let lacks = format!(
            "{count} commands of the primary {host}:{port} failed here, so this replica lacks what they did. The log names them."
        );
        warn(count > 0, lacks);
    }
    let doubt = "Nothing is read: repl-sync-replicas is set, and replicas may lack some of the data here.";
    warn(replication.is_in_doubt, doubt.to_owned());
    for line in &replication.replicas {
        let count = field(line, "divergence").and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
        let address = replica(line, 0)["address"].as_str().unwrap_or_default().to_owned();
        warn(
            count > 0,
            format!(
                "{count} commands failed on the replica {address}, so it lacks what they did. Its log names them."
            ),
        );
    }
    let used = memory.counted_bytes as f64 / memory.limit_bytes.max(1) as f64;
    let percent = used * 100.0;
    let is_tight = memory.limit_bytes > 0 && used >= MEMORY_WARNING;
    warn(is_tight, format!("{percent:.0} % of maxmemory is used (policy {}).", memory.policy));
    let clients = facts.clients();
    let is_crowded = clients.connected as f64 >= clients.max as f64 * MEMORY_WARNING;
    warn(is_crowded, format!("{} of {} clients are connected (maxclients).", clients.connected, clients.max));
    let is_open = state.source.users().takes_any_password() && !settings.is_protected();
    warn(is_open, "Anybody who can reach this server may do everything: there is no password.".to_owned());
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_shown_with_what_they_lack() {
        let line = "ip=10.0.0.7,port=6380,state=online,offset=90,lag=1";
        let expected = json!({ "address": "10.0.0.7:6380", "state": "online", "offset": 90, "lag_bytes": 10, "lag_s": 1 });
        assert_eq!(replica(line, 100), expected);
        assert_eq!(replica("ip=::1,port=1,state=wait_bgsave", 5)["address"], "[::1]:1");
    }
}
