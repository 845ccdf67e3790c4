//! The parameters of a driver.
//!
//! Everything that can grow has its bound here. The defaults are measured optima, not placeholders.

use std::time::Duration;

/// Which driver to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoChoice {
    /// io_uring if everything it needs works here, otherwise epoll.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// epoll.
    Epoll,
}

/// How one thread's driver behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which driver to open.
    pub io: IoChoice,
    /// How long a thread that has just been busy polls before it sleeps, in microseconds; 0: it sleeps at
    /// once. This is an upper limit: a thread stops polling when that does not pay.
    pub poll_us: u32,
    /// How many input bytes of a paused connection are kept before its socket is no longer read.
    pub paused_input_bytes_max: usize,
    /// How long a connection that closes after its output may take.
    pub close_timeout: Duration,
    /// How many buffers the kernel may fill between two turns (io_uring); a power of two.
    pub receive_buffers: u16,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            io: IoChoice::Auto,
            poll_us: 30,
            paused_input_bytes_max: 64 * 1024,
            close_timeout: Duration::from_secs(5),
            receive_buffers: 128,
        }
    }
}
