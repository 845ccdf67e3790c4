//! Starting and stopping a server: threads, drivers, listeners.

use std::sync::{Arc, mpsc};

use clap::Parser;
use command::Table;
use proactor::{Driver, Waker};

use crate::settings::Settings;
use crate::shared::Shared;
use crate::thread::Thread;

/// A multi-threaded in-memory store that speaks the Redis protocol.
#[derive(Parser, Debug, Clone)]
#[command(version)]
pub struct Options {
    /// Port to listen on
    #[arg(long, default_value_t = 6379)]
    pub port: u16,
    /// Threads; 0: one per core
    #[arg(long = "proactor_threads", default_value_t = 0)]
    pub proactor_threads: usize,
    /// auto, uring or epoll
    #[arg(long, default_value = "auto")]
    pub io: String,
    /// roam or home
    #[arg(long = "shard_entry", default_value = "roam")]
    pub shard_entry: String,
    /// Shards; 0: 32 per thread
    #[arg(long = "num_shards", default_value_t = 0)]
    pub num_shards: u16,
    /// Deals out keys under this prefix in turn
    #[arg(long = "shard_round_robin_prefix")]
    pub shard_round_robin_prefix: Option<String>,
    /// One hop instead of two for blocking pops in home mode
    #[arg(long = "singlehop_blocking", default_value_t = true, action = clap::ArgAction::Set)]
    pub singlehop_blocking: bool,
}

/// Runs a server until it is told to stop.
pub fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings::new(options);
    let threads = if settings.threads == 0 { proactor::allowed_cpus() } else { settings.threads };
    let config = proactor::Config { io: settings.io, ..proactor::Config::default() };
    let listener = proactor::listen_tcp(&settings.bind[0], settings.port, 511)?;
    let (to_main, wakers) = mpsc::channel::<(usize, Arc<Waker>)>();
    let mut starters = Vec::new();
    let mut handles = Vec::new();
    let cpus = proactor::cpu_set();
    let mut listener = Some(listener);
    for index in 0..threads {
        let (starter, start) = mpsc::channel::<&'static Shared>();
        starters.push(starter);
        let (to_main, config, cpus, listener) =
            (to_main.clone(), config.clone(), cpus.clone(), listener.take());
        handles.push(std::thread::Builder::new().name(format!("darter-{index}")).spawn(move || {
            cpus.pin(index);
            let mut driver = Driver::open(&config).expect("the driver opens");
            to_main.send((index, driver.waker())).expect("main waits");
            let Ok(shared) = start.recv() else { return };
            if let Some(listener) = listener {
                driver.listen(listener).expect("listens");
            }
            Thread::new(index as u16, shared, driver).run().expect("runs");
        })?);
    }
    drop(to_main);
    let mut wakers: Vec<_> = wakers.iter().take(threads).collect();
    wakers.sort_by_key(|(index, _)| *index);
    let wakers = wakers.into_iter().map(|(_, waker)| waker).collect();
    let table = Table::new(&crate::commands::families());
    let clock = proactor::Clock::real();
    let seed = proactor::Entropy::from_os()?.next_u64();
    let shared = Shared::create(settings, table, wakers, seed, clock.now_ms());
    for starter in starters {
        starter.send(shared)?;
    }
    for handle in handles {
        handle.join().map_err(|_| "a thread panicked")?;
    }
    Ok(())
}
