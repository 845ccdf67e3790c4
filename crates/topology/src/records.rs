//! The records beside the document, and each as JSON: reasons, the log of changes, announcements.
//!
//! These are for people and for discovery. Unknown fields are ignored, so that nodes of several releases understand each
//! other; no decision rests on them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{Instance, Revision};
use crate::shorten;

/// The longest name of an author.
pub(crate) const AUTHOR_BYTES_MAX: usize = 128;
/// The longest reason.
pub(crate) const REASON_BYTES_MAX: usize = 400;
/// The longest address, zone or version in an announcement.
pub(crate) const FIELD_BYTES_MAX: usize = 256;
/// The largest announcement, as JSON.
pub(crate) const ANNOUNCEMENT_BYTES_MAX: usize = 4 * 1024;

/// The author, the time and the text of a reason. For people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    author: String,
    at_ms: u64,
    reason: String,
}

impl Reason {
    /// A reason; what is longer than [`REASON_BYTES_MAX`] and [`AUTHOR_BYTES_MAX`] is cut. `at_ms` is Unix time.
    pub fn new(author: impl fmt::Display, at_ms: u64, reason: &str) -> Reason {
        Reason {
            author: shorten(&author.to_string(), AUTHOR_BYTES_MAX).to_owned(),
            at_ms,
            reason: shorten(reason, REASON_BYTES_MAX).to_owned(),
        }
    }

    /// The author.
    pub fn author(&self) -> &str {
        &self.author
    }

    /// When it was, in Unix time, by the author's clock.
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// The reason.
    pub fn text(&self) -> &str {
        &self.reason
    }
}

/// A change of the document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// The revision of the document that was changed: each revision has at most one successor.
    pub on: Revision,
    /// The revision that the change made.
    pub made: Revision,
    /// Who, when and why.
    pub why: Reason,
}

/// A node's description of itself. A hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// The node and its life.
    pub instance: Instance,
    /// The host or address under which others reach it.
    pub address: String,
    /// `port`; `None`: not open.
    #[serde(default)]
    pub port: Option<u16>,
    /// `tls-port`.
    #[serde(default)]
    pub tls_port: Option<u16>,
    /// `cluster-port`.
    #[serde(default)]
    pub cluster_port: Option<u16>,
    /// The part of the data center that fails as a whole; empty: not known.
    #[serde(default)]
    pub zone: String,
    /// The release.
    #[serde(default)]
    pub version: String,
    /// The processors that it may use.
    #[serde(default)]
    pub cores: u32,
    /// `maxmemory`; 0: no limit.
    #[serde(default)]
    pub memory_bytes_max: u64,
    /// When it started, in Unix time.
    #[serde(default)]
    pub started_ms: u64,
}

impl Announcement {
    /// As JSON. Addresses and the like that are longer than [`FIELD_BYTES_MAX`] are cut.
    pub(crate) fn encode(&self) -> String {
        let cut = |text: &str| shorten(text, FIELD_BYTES_MAX).to_owned();
        let wire = Announcement {
            address: cut(&self.address),
            zone: cut(&self.zone),
            version: cut(&self.version),
            ..self.clone()
        };
        let text = serde_json::to_string(&wire).expect("its keys are texts");
        assert!(text.len() <= ANNOUNCEMENT_BYTES_MAX, "its fields are limited");
        text
    }

    /// Reads what another node wrote; `None`: it makes no sense.
    pub(crate) fn decode(text: &[u8]) -> Option<Announcement> {
        if text.len() > ANNOUNCEMENT_BYTES_MAX {
            return None;
        }
        serde_json::from_slice(text).ok()
    }
}
