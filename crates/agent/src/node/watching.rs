//! Follows the document.

use std::time::Duration;

use topology::{Sight, Store, Watch};

use super::Agent;

/// How long one look waits for news.
const LOOK: Duration = Duration::from_secs(1);
/// The pause after an error.
const PAUSE: Duration = Duration::from_millis(200);

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
}
