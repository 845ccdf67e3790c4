//! `/metrics`: what Prometheus and similar systems scrape.
//!
//! There are two families of names. `redis_…` are those of redis_exporter, with its labels and units, so that its
//! dashboards and alerts work without it (`redis.rs`). `darter_…` are Darter's own (`darter.rs`), above all those of
//! queues (`queues.rs`), a limited number of which have labels (`crate::labels`).
//!
//! The text is written here (`exposition.rs`). The crate prometheus-client writes OpenMetrics only, requires `_total`
//! at the end of each counter's name, which not all of redis_exporter's names have, and keeps metrics of its own, while
//! all numbers exist here already.

mod darter;
mod exposition;
mod queues;
mod redis;

use hyper::StatusCode;
use hyper::header::{self, HeaderMap};

use self::exposition::{Exposition, Format};
use crate::reply::{self, Answer};
use crate::state::State;

/// All metrics, in the requested format.
pub(crate) fn answer(state: &State, headers: &HeaderMap) -> Answer {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = Format::wanted(accept);
    let mut page = Exposition::new(format);
    {
        let facts = state.source.facts();
        redis::write(&mut page, &*facts, state);
        darter::write(&mut page, &*facts, state);
    }
    queues::write(&mut page, state);
    reply::answer(StatusCode::OK, format.content_type(), page.finish())
}
