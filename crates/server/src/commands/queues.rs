//! What QUEUE needs of the thread that runs it (`queues`).

use queues::{Door, Label};

use crate::thread::ThreadHost;

impl Door for ThreadHost {
    fn label(&self, client: u64) -> Label {
        self.shared.registry.label(client)
    }
}
