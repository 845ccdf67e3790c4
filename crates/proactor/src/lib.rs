//! One thread's loop: drivers, connections, clock, wake-ups; and files.
//!
//! The only crate on the data path with system calls, clocks and randomness. A [`Driver`] moves bytes for one
//! thread's connections, by io_uring or epoll, or by a seeded simulated network, and all three behave alike:
//! one suite of tests runs over them. Threads talk through an [`Inbox`], woken by a [`Waker`].
//!
//! Invariants: no driver is shared between threads; no future, no callback; in steady state nothing is
//! allocated per request; nothing spins without yielding, and an idle thread sleeps in the kernel.
//!
//! A [`Disk`] is not part of the loop: its calls block, and are for threads that may block.
//!
//! Not here: the protocol (`resp`), the meaning of a connection (`server`), the content of files.

mod acceptor;
mod affinity;
mod blocking_tasks;
mod clock;
mod codec;
mod connection;
mod connections;
mod dialer;
mod disk;
mod driver;
mod driver_config;
mod entropy;
mod epoll;
mod error;
mod event;
mod idle;
mod inbox;
mod input;
mod listener;
mod pool;
mod sending;
mod sim;
mod socket;
mod sync;
mod sys;
mod turn;
mod uring;
mod waker;

pub use affinity::{CpuSet, allowed_cpus, cpu_quota};
pub use blocking_tasks::{BlockingStep, BlockingTasks, Work};
pub use clock::{Clock, Moment, sooner};
pub use codec::{Codec, HANDSHAKE_BYTES_MAX, Heard, PLAIN_BYTES_MAX};
pub use connection::{Io, Sent, Usage};
pub use dialer::Dialer;
pub use disk::{
    DIRECT_BYTES, Disk, DiskFaults, DiskFile, DiskLock, DiskReader, DiskWriter, Fault, FileIdentity,
    FileInfo, Open, SimDisk, open_no_follow,
};
pub use driver::{Detached, Driver};
pub use driver_config::{Config, IoChoice};
pub use entropy::Entropy;
pub use epoll::EpollDriver;
pub use error::Error;
pub use event::{CloseMode, ConnId, Event};
pub use inbox::{Fetched, Inbox, MessageNode, SharedPool};
pub use input::InputBuffer;
pub use listener::{Listener, Stop, listen_tcp, listen_tcp_at_once, listen_unix};
pub use sim::{SimClient, SimConfig, SimDriver, SimNet, SimReceived, SimStep, SimTap};
pub use socket::Socket;
pub use uring::UringDriver;
pub use waker::Waker;
