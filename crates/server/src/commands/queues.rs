//! What QUEUE needs of the thread that runs it (`queues`).

use queues::Door;

use crate::thread::ThreadHost;

impl Door for ThreadHost {}
