//! Holds the state that all threads of a server share.
//!
//! It is created once and never freed, because the threads of a process refer to it for their whole lives. A simulation
//! frees it with a [`Lease`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use acl::Users;
use background::eviction::{Exceeded, Lowered};
use clients::session::Judge;
use clients::{AttackLog, Listeners, Registry};
use config::{EntryMode, Settings};
use ds::hashing::Seed;
use engine::{Client, Shards, Table};
use keyspace::CurrentConfig;
use memcached::LaterFlush;
use observe::Observed;
use ops::migrate::Migrations;
use persistence::Snapshots;
use proactor::{BlockingTasks, Clock, Dialer, Disk, SharedPool, Waker};
use process::log;
use process::shutdown::Shutdown;
use replication::log::{Keeper, ServerLog, Tuning};
use replication::{Acks, Following, Primary, Quorum, random_id};
use scripting::Scripts;
use shard::Placement;
use tls::TlsKeeper;

use crate::message::Message;
use crate::messages::Remote;
use crate::reports::observe_settings;

/// Limit of idle nodes for messages that are kept for any thread, per thread.
const POOLED_PER_THREAD: usize = 64;

/// The name of a simulated driver.
const SIMULATED: &str = "simulated";

/// The machine on which a server runs, real or simulated: its clock, randomness, disk and network.
pub(crate) struct Machine {
    pub(crate) clock: Clock,
    pub(crate) disk: Disk,
    pub(crate) tuning: Tuning,
    pub(crate) dialer: Dialer,
    pub(crate) blocking_tasks: BlockingTasks,
}

impl Machine {
    /// The machine that this process runs on.
    pub(crate) fn real() -> Machine {
        Machine {
            clock: Clock::real(),
            disk: Disk::real(),
            tuning: Tuning::BUILT,
            dialer: Dialer::real(),
            blocking_tasks: BlockingTasks::default(),
        }
    }
}

/// The state that all threads share.
pub(crate) struct Shared {
    pub(crate) shards: Shards,
    pub(crate) table: Table,
    pub(crate) settings: Settings,
    pub(crate) users: Users,
    pub(crate) threads: Box<[Remote]>,
    /// Idle nodes for messages, which some threads do not need.
    pub(crate) message_pool: SharedPool<Message>,
    pub(crate) entry_mode: EntryMode,
    pub(crate) singlehop_blocking: bool,
    /// Pattern subscribers, which are in no shard.
    pub(crate) directory: pubsub::Directory,
    /// The sockets on which the server listens.
    pub(crate) listeners: Listeners,
    /// The TLS configuration.
    pub(crate) tls: TlsKeeper,
    /// All clients.
    pub(crate) registry: Registry,
    pub(crate) scripts: Scripts,
    pub(crate) machine: Machine,
    pub(crate) started_ms: u64,
    pub(crate) run_id: String,
    pub(crate) stopping: AtomicBool,
    pub(crate) shutdown: Shutdown<Client>,
    pub(crate) observed: Observed,
    pub(crate) attack_log: AttackLog,
    pub(crate) snapshots: Snapshots,
    pub(crate) journal: ServerLog,
    pub(crate) primary: Primary,
    /// Whether enough replicas follow for commands that write.
    pub(crate) quorum: Quorum,
    /// Acknowledgements of replicas.
    pub(crate) acks: Acks,
    pub(crate) following: Following,
    /// The delayed `flush_all` of memcached's protocol, which empties database 0.
    pub(crate) later_flush: LaterFlush,
    pub(crate) migrations: Migrations,
    /// Sidekiq's live processes, and the connections that have closed.
    pub(crate) recovery: jobs::recovery::Recovery,
    /// The time for which memory has been above its limit.
    pub(crate) exceeded: Exceeded,
    /// The limit of memory, while it is being lowered slowly.
    pub(crate) lowered: Lowered,
    /// The time for which too much memory has been unused.
    pub(crate) fragmented: Exceeded,
    /// Whether keys are expired in the background (`DEBUG SET-ACTIVE-EXPIRE`).
    pub(crate) active_expire: AtomicBool,
    /// `io_uring` or `epoll`.
    pub(crate) driver_name: &'static str,
    /// The settings of the data path.
    pub(crate) data_config: CurrentConfig,
}

impl Shared {
    /// Creates the shared part for `thread_count` threads. It is never freed.
    pub(crate) fn create(
        settings: Settings,
        table: Table,
        users: Users,
        wakers: Vec<Arc<Waker>>,
        driver_name: &'static str,
        seed: u64,
        machine: Machine,
    ) -> &'static Shared {
        let (thread_count, now_ms) = (wakers.len() as u16, machine.clock.now_ms());
        let shards =
            Shards::new(placement(&settings, thread_count, seed), thread_count, settings.databases(), seed);
        settings.tell_queues(shards.queues(), machine.clock.steady_ms());
        let data_config = CurrentConfig::new(settings.data_config());
        let observed = Observed::new(wakers.len(), table.len(), observe_settings(&settings));
        let run_id = run_id(seed);
        let journal_id = u64::from_str_radix(&run_id[..16], 16).expect("it is hexadecimal");
        let (mut random, is_simulated) = (ds::random::Random::new(seed ^ 0x5e90), driver_name == SIMULATED);
        let journal = ServerLog::new(wakers.clone(), &machine.clock, &settings, journal_id, is_simulated);
        let quorum = Quorum::new(&settings);
        let bells = wakers.clone();
        let acks = Acks::new(bells.len(), Box::new(move |thread| bells[thread].wake()));
        let threads: Box<[Remote]> = wakers.into_iter().map(Remote::new).collect();
        let following = Following::of(&settings);
        journal.begin_role(&following);
        shards.set_hides_due(following.is_replica());
        Box::leak(Box::new(Shared {
            shards,
            entry_mode: settings.entry_mode(),
            singlehop_blocking: settings.singlehop_blocking(),
            settings,
            users,
            message_pool: SharedPool::new(POOLED_PER_THREAD * threads.len()),
            threads,
            directory: pubsub::Directory::default(),
            listeners: Listeners::default(),
            tls: TlsKeeper::default(),
            registry: Registry::default(),
            scripts: Scripts::new(usize::from(thread_count), log::script_line),
            started_ms: now_ms,
            run_id,
            stopping: AtomicBool::new(false),
            shutdown: Shutdown::new(usize::from(thread_count)),
            observed,
            attack_log: AttackLog::default(),
            snapshots: Snapshots::new(
                machine.clock.clone(),
                driver_name == SIMULATED,
                machine.tuning.persistence,
            ),
            journal,
            primary: Primary::new(random_id(|| random.next_u64())),
            quorum,
            acks,
            following,
            machine,
            later_flush: LaterFlush::default(),
            recovery: jobs::recovery::Recovery::default(),
            migrations: Migrations::default(),
            exceeded: Exceeded::default(),
            lowered: Lowered::default(),
            fragmented: Exceeded::default(),
            active_expire: AtomicBool::new(true),
            driver_name,
            data_config,
            table,
        }))
    }

    /// The handle that opens and ends the journal, and gives it new bases.
    pub(crate) fn keeper(&'static self) -> Keeper {
        Keeper {
            journal: &self.journal,
            settings: &self.settings,
            snapshots: &self.snapshots,
            disk: &self.machine.disk,
            clock: &self.machine.clock,
            tuning: self.machine.tuning.journal,
            is_simulated: self.is_simulated(),
        }
    }

    /// What calls of clients are judged by.
    #[inline]
    pub(crate) fn judge(&self) -> Judge<'_> {
        Judge { table: &self.table, shards: &self.shards, settings: &self.settings }
    }

    /// Whether a command might have to wait for a snapshot or the journal.
    #[inline]
    pub(crate) fn may_hold_back(&self) -> bool {
        self.snapshots.is_cutting() || self.journal.progress.is_full()
    }

    /// Whether the threads are steps of a simulation.
    pub(crate) fn is_simulated(&self) -> bool {
        self.driver_name == SIMULATED
    }

    /// Publishes the settings of the data path. Threads read them at the beginning of a turn, before the input that
    /// arrived after the change.
    pub(crate) fn reconfigure(&self) {
        self.data_config.publish(self.settings.data_config());
        self.broadcast(|| Message::Wake);
    }

    /// Resets the counters to 0, as seen by their readers.
    pub(crate) fn reset_stats(&self) {
        self.observed.reset(&self.shards);
        self.exceeded.reset();
        self.fragmented.reset();
    }

    /// Ends the server: every thread ends its loop and closes its connections.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.scripts.stop();
        self.broadcast(|| Message::Wake);
    }

    /// Sends to every thread, the sender included.
    pub(crate) fn broadcast(&self, mut message: impl FnMut() -> Message) {
        for thread in &self.threads {
            thread.send(message());
        }
    }
}

/// Frees a server's shared part when dropped. Only a simulation, which creates very many, holds one, together with the
/// threads.
pub(crate) struct Lease(pub(crate) &'static Shared);

impl Drop for Lease {
    fn drop(&mut self) {
        let shared = std::ptr::from_ref(self.0);
        // SAFETY: the box is the one that `create` leaked. Every thread that refers to it was dropped before its share
        // of the lease.
        drop(unsafe { Box::from_raw(shared.cast_mut()) });
    }
}

fn run_id(seed: u64) -> String {
    let mut random = ds::random::Random::new(seed ^ 0x5eed);
    (0..5).map(|_| format!("{:08x}", random.next_u64() as u32)).collect()
}

/// The rule that places keys on shards.
fn placement(settings: &Settings, thread_count: u16, seed: u64) -> Placement {
    let round_robin_prefix = settings.round_robin_prefix();
    Placement::new(Seed::new(seed), settings.shard_count(thread_count), round_robin_prefix.as_deref())
        .with_colocation(settings.colocation())
}
