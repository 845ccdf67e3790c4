//! As a replica: answers the beats of the primary, over a connection of its own (rule 1).

use std::time::Duration;

use config::CLUSTER_GRANT_MS;
use group::Beat;
use replication::Introduction;

use super::Agent;
use super::peer::Peer;

/// The longest time between two answers.
const INTERVAL_MS_MAX: u64 = 200;
/// An answer comes at least this often in the time of a grant.
const PER_GRANT: u64 = 10;

impl Agent {
    /// Runs until the server stops.
    pub(super) fn grant(&self) {
        let mut connected: Option<(Introduction, Peer)> = None;
        // Each beat is answered once: an answer is a promise, and a primary that is silent gets none.
        let mut has_beat = false;
        let grant_ms = self.settings().number(CLUSTER_GRANT_MS) as u64;
        // A beat that takes longer is worth nothing.
        let timeout = Duration::from_millis(grant_ms / 2);
        let interval = Duration::from_millis((grant_ms / PER_GRANT).min(INTERVAL_MS_MAX));
        while !self.is_stopping() {
            let Some((link, term, leader)) = self.membership().followed() else {
                connected = None;
                self.grants.wait(interval);
                continue;
            };
            let introduction = Introduction { term, from: self.me.clone(), to: leader.life };
            if connected.as_ref().is_none_or(|(said, _)| *said != introduction) {
                let peer = self
                    .address_of(&leader.node)
                    .and_then(|address| Peer::connect(&address, self.settings(), &self.tls, timeout).ok());
                connected = peer.map(|peer| (introduction.clone(), peer));
                has_beat = false;
            }
            let Some((_, peer)) = &mut connected else {
                std::thread::sleep(interval / 4);
                continue;
            };
            let ack = if has_beat { self.membership().acknowledge(&self.parts) } else { None };
            let asked = peer.ask_for_beat(&introduction, link, ack.as_ref());
            let is_first = !has_beat;
            if ack.is_some() {
                // Also if it was not sent: it never will be.
                let now_ms = self.parts.clock.boot_ms();
                self.membership().with(|member| member.sent(now_ms));
            }
            match asked.and_then(|()| peer.beat()) {
                Ok(sent_ms) => {
                    let beat = Beat { term, from: leader.life, link, sent_ms };
                    self.membership().with(|member| member.hear(&beat));
                    has_beat = true;
                    if is_first {
                        // The first grant is what the primary waits for.
                        continue;
                    }
                }
                Err(error) => {
                    tracing::debug!("no beat of the primary: {error}");
                    connected = None;
                }
            }
            self.grants.wait(interval);
        }
    }
}
