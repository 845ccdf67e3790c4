//! Sessions that clients may resume for a limited time.
//!
//! rustls' cache keeps a fixed number and drops the oldest; each value is stored with the time at which it
//! was created.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

use crate::options::Caching;

const TIME_BYTES: usize = 8;
/// The most bytes of a session. It contains the client's certificates. A session with more of them is not
/// kept, so that client makes a full handshake each time.
const SESSION_BYTES_MAX: usize = 8 * 1024;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Sessions {
    kept: Arc<ServerSessionMemoryCache>,
    timeout: Duration,
    began: Instant,
}

impl Sessions {
    pub(crate) fn new(caching: Caching) -> Sessions {
        let kept = ServerSessionMemoryCache::new(caching.count_max);
        Sessions { kept, timeout: caching.timeout, began: Instant::now() }
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// The value, unless it has expired.
    fn fresh(&self, mut value: Vec<u8>, now_ms: u64) -> Option<Vec<u8>> {
        let at = value.len().checked_sub(TIME_BYTES)?;
        let born_ms = u64::from_le_bytes(value[at..].try_into().ok()?);
        value.truncate(at);
        (now_ms.saturating_sub(born_ms) < self.timeout.as_millis() as u64).then_some(value)
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, mut value: Vec<u8>) -> bool {
        if value.len() > SESSION_BYTES_MAX {
            return false;
        }
        value.extend_from_slice(&self.now_ms().to_le_bytes());
        self.kept.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fresh(self.kept.get(key)?, self.now_ms())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fresh(self.kept.take(key)?, self.now_ms())
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_resumed_until_it_is_too_old() {
        let sessions = Sessions::new(Caching { count_max: 10, timeout: Duration::from_secs(300) });
        let mut value = b"session".to_vec();
        value.extend_from_slice(&1000u64.to_le_bytes());
        assert_eq!(sessions.fresh(value.clone(), 300_999), Some(b"session".to_vec()));
        assert_eq!(sessions.fresh(value, 301_000), None);
        assert!(sessions.put(b"key".to_vec(), b"session".to_vec()));
        assert_eq!(sessions.get(b"key"), Some(b"session".to_vec()));
        assert_eq!(sessions.take(b"key"), Some(b"session".to_vec()));
        assert_eq!(sessions.take(b"key"), None);
        assert!(!sessions.put(b"key".to_vec(), vec![0; SESSION_BYTES_MAX + 1]));
        assert_eq!(sessions.get(b"key"), None);
    }
}
