//! Maps paths to handlers.

use std::rc::Rc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, StatusCode};
use serde_json::json;

use crate::guard::{self, Peer, Visitor};
use crate::messenger::Messenger;
use crate::query::Query;
use crate::reply::{self, Answer, Refusal};
use crate::state::State;
use crate::{jobs, metrics, now, overview, queue_table, run_command};

/// The most bytes of a request's body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How long a body may take.
const BODY_WAIT_MAX: Duration = Duration::from_secs(10);
/// The path of commands.
const COMMAND: &str = "/api/command";

/// The answer to a request.
pub(crate) async fn answer(state: &Rc<State>, peer: &Peer, request: Request<Incoming>) -> Answer {
    let counts = &state.counts;
    counts.requests.set(counts.requests.get() + 1);
    route(state, peer, request).await.unwrap_or_else(|refusal| {
        counts.refused.set(counts.refused.get() + 1);
        refusal.answer()
    })
}

async fn route(state: &Rc<State>, peer: &Peer, request: Request<Incoming>) -> Result<Answer, Refusal> {
    let (head, body) = request.into_parts();
    guard::check_host(&head.headers, &guard::allowed_hosts(state))?;
    let path = head.uri.path();
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let is_command = path == COMMAND;
    let is_allowed = if is_command {
        head.method == Method::POST
    } else {
        [Method::GET, Method::HEAD].contains(&head.method)
    };
    if !is_allowed {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this path has no such method"));
    }
    match path {
        "/healthz" => return Ok(reply::text(StatusCode::OK, "ok")),
        "/readyz" => return readiness(state, &query).await,
        _ => {}
    }
    if is_command {
        guard::check_command(&head.headers, &state.token)?;
    } else if path.starts_with("/api/") {
        guard::check_site(&head.headers)?;
    }
    let visitor = guard::identify(state, peer, &head.headers).await?;
    if is_command {
        return run_command::run(state, &visitor, &collect(body).await?).await;
    }
    if let Some(file) = state.console.file(path) {
        return Ok(file.answer(&head.headers));
    }
    page(state, &visitor, path, &query, &head.headers).await
}

/// The page at a path, for users who may run the command that tells the same.
async fn page(
    state: &Rc<State>,
    visitor: &Visitor,
    path: &str,
    query: &Query,
    headers: &hyper::HeaderMap,
) -> Result<Answer, Refusal> {
    match path {
        "/metrics" => {
            visitor.need(state, &["info"]).await?;
            let began = Instant::now();
            let answer = metrics::answer(state, headers);
            note_scrape(state, began.elapsed());
            Ok(answer)
        }
        "/queues.json" => {
            visitor.need(state, &["queue", "list"]).await?;
            Ok(queue_table::answer(state, query, false))
        }
        "/api/queues" => {
            visitor.need(state, &["queue", "list"]).await?;
            Ok(queue_table::answer(state, query, true))
        }
        "/api/overview" => {
            visitor.need(state, &["info"]).await?;
            Ok(overview::answer(state, visitor))
        }
        "/api/charts" => {
            visitor.need(state, &["info"]).await?;
            let charts = &state.sampler.borrow().charts;
            match query.text("range").unwrap_or("10m") {
                "10m" => Ok(reply::json(&charts.seconds.json())),
                "24h" => Ok(reply::json(&charts.minutes.json())),
                _ => Err(Refusal::bad("a range is 10m or 24h")),
            }
        }
        "/api/now" => now::answer(state, visitor).await,
        "/api/queue" => run_command::show_queue(state, visitor, query).await,
        "/api/jobs" => jobs::answer(state, visitor, query).await,
        "/api/peek" => run_command::peek(state, visitor, query).await,
        _ => Err(Refusal::new(StatusCode::NOT_FOUND, "there is nothing at this path")),
    }
}

fn note_scrape(state: &State, took: Duration) {
    let counts = &state.counts;
    counts.scrapes.set(counts.scrapes.get() + 1);
    let [all, _] = counts.scrape_seconds.get();
    counts.scrape_seconds.set([all + took.as_secs_f64(), took.as_secs_f64()]);
}

/// Reads the body of a request. Fails if it is too long or too slow.
async fn collect(body: Incoming) -> Result<Bytes, Refusal> {
    match tokio::time::timeout(BODY_WAIT_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 1 MiB"))
        }
        Ok(Err(_)) => Err(Refusal::bad("the body is incomplete")),
        Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body took longer than ten seconds")),
    }
}

/// Whether the server serves clients, in the requested role.
async fn readiness(state: &State, query: &Query) -> Result<Answer, Refusal> {
    let not = |why: &str| Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
    let (is_loading, has_failed, followed) = {
        let facts = state.source.facts();
        let persistence = facts.persistence();
        let has_failed = persistence.journal.is_some_and(|journal| journal.has_failed);
        (persistence.loading.is_some(), has_failed, facts.replication().followed)
    };
    if is_loading {
        return not("it is loading its data");
    }
    if has_failed || state.source.is_stalled() {
        return not("the journal cannot be written");
    }
    match (query.text("role"), &followed) {
        (None, _) | (Some("primary" | "master"), None) => {}
        (Some("replica" | "slave"), Some(primary)) if primary.is_up => {}
        (Some("replica" | "slave"), Some(_)) => return not("the link to its primary is down"),
        (Some("primary" | "master"), Some(_)) => return not("it is a replica"),
        (Some("replica" | "slave"), None) => return not("it is a primary"),
        (Some(_), _) => return Err(Refusal::bad("a role is primary or replica")),
    }
    // Any answer shows that the thread is running, even a demand to authenticate.
    Messenger::open_as_nobody(state.source, "readyz")?.call(&[b"PING"]).await?;
    Ok(reply::json(&json!({ "ready": true, "role": if followed.is_some() { "replica" } else { "primary" } })))
}
