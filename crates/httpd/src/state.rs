//! The state that all HTTP requests share. They run on one thread, and nothing stays borrowed while one waits.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use acl::Throttle;

use crate::Source;
use crate::connections::Connections;
use crate::console::Console;
use crate::key_samples::KeySamples;
use crate::labels::Labels;
use crate::sampler::Sampler;

/// See the head of this file.
pub(crate) struct State {
    pub(crate) source: &'static dyn Source,
    /// The token that commands must carry.
    pub(crate) token: String,
    pub(crate) console: Console,
    pub(crate) sampler: RefCell<Sampler>,
    pub(crate) labels: RefCell<Labels>,
    /// When HTTP service began.
    pub(crate) started: Instant,
    pub(crate) throttle: RefCell<Throttle>,
    pub(crate) key_samples: RefCell<KeySamples>,
    pub(crate) connections: Rc<Connections>,
    pub(crate) counts: Counts,
}

/// Counts connections and requests.
#[derive(Default)]
pub(crate) struct Counts {
    /// Clients that are being told that there are too many.
    pub(crate) told: Cell<usize>,
    /// Connections that were rejected because there were too many.
    pub(crate) rejected: Cell<u64>,
    /// Requests.
    pub(crate) requests: Cell<u64>,
    /// Requests that were refused.
    pub(crate) refused: Cell<u64>,
    /// Passwords that were ignored after too many wrong ones.
    pub(crate) throttled: Cell<u64>,
    /// Scrapes of `/metrics`.
    pub(crate) scrapes: Cell<u64>,
    /// How long all scrapes took together, and the last one, in seconds.
    pub(crate) scrape_seconds: Cell<[f64; 2]>,
}
