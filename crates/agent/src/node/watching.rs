//! Follows the document; says where this node is, and looks where the others are. Announcements are hints: no promise rests
//! on them.

use std::time::Duration;

use topology::{Sight, Store, Watch};

use super::{Agent, locked};
use crate::announcing::{announcement, own_address};
use crate::store_options::StoreOptions;

/// How long one look waits for news.
const LOOK: Duration = Duration::from_secs(1);
/// The pause after an error.
const PAUSE: Duration = Duration::from_millis(200);
/// The time between two announcements.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time until the next one while the leader's address is not known.
const SOON: Duration = Duration::from_millis(100);

impl Agent {
    /// Runs until the server stops.
    pub(super) fn watch(&self, store: &mut dyn Store) {
        let mut watch: Option<Box<dyn Watch>> = None;
        while !self.is_stopping() {
            let sight = match &mut watch {
                Some(watch) => watch.next(LOOK),
                None => match store.watch() {
                    Ok(begun) => {
                        watch = Some(begun);
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            match sight {
                Ok(Sight::Changed(reading)) => self.learn(&reading),
                Ok(Sight::Silent) => {}
                Err(error) => {
                    self.complain(&format!("no news of the document: {error}"));
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Runs until the server stops.
    pub(super) fn announce(&self, store: &mut dyn Store) {
        let settings = self.settings();
        while !self.is_stopping() {
            let options = StoreOptions::of(settings);
            match options.and_then(|options| own_address(settings, &options)) {
                Ok(address) => {
                    let own = announcement(settings, self.me.clone(), &address, &self.facts);
                    if let Err(error) = store.announce(&own) {
                        self.complain(&format!("this node cannot be announced: {error}"));
                    }
                }
                Err(error) => self.complain(&error.to_string()),
            }
            if let Ok(nodes) = store.live_nodes() {
                let mut known = locked(&self.nodes);
                nodes.into_iter().for_each(|node| _ = known.insert(node.instance.node.clone(), node));
            }
            let leader = self.membership().with(|member| member.leader().cloned());
            let is_known = leader.is_some_and(|leader| self.address_of(&leader.node).is_some());
            if is_known {
                self.bell.ring();
            }
            std::thread::sleep(if is_known { INTERVAL } else { SOON });
        }
    }
}
