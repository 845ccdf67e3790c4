//! Reports the load of a thread, and gives away connections because of it.
//!
//! Every thread reports its load each round. The first thread reads all reports and decides how many threads serve
//! connections (`clients::Balance`). A thread that must give some away chooses them by their cost.

use clients::session::Session;
use clients::{Dealer, GivingWay, Load, Order, Workload};
use config::{EntryMode, THREADS_ELASTIC};
use observe::ThreadStats;
use proactor::{Clock, ConnId, Driver, Socket};
use process::processors;

use crate::connections::network::Network;
use crate::message::Message;
use crate::shared::Shared;

/// Connections that move to a thread at a time. More would delay the others.
const MOVED_MAX: usize = 256;
/// The load from which a thread may soon be too busy, so that checking for idle processors pays off.
const RATHER_BUSY: u32 = 600;
/// A thread that has not reported for this long is blocked, because it should report ten times a second.
const LATE_MS: u64 = 300;
/// The time for which a slow client is served apart.
const APART_MS: u64 = 10_000;

/// What a thread knows about its load, and how it shares work with other threads.
pub(crate) struct Balancing {
    /// The load of the thread.
    pub(crate) workload: Workload,
    /// The state of giving way to other clients while a long command runs.
    pub(crate) way: GivingWay,
    /// The time for which commands of one client may run before others get their turn, in ticks of the clock.
    pub(crate) serving_ticks_max: u64,
    /// The dealer of new connections, on the accepting thread.
    pub(crate) dealer: Dealer,
}

impl Balancing {
    /// The commands of one client may run for `serving_ns_max` nanoseconds of `clock` at a time.
    pub(crate) fn new(clock: &Clock, serving_ns_max: u64) -> Balancing {
        Balancing {
            workload: Workload::new(clock),
            way: GivingWay::new(clock),
            serving_ticks_max: clock.ns_to_ticks(serving_ns_max),
            dealer: Dealer::default(),
        }
    }

    /// The number of threads that get new connections.
    fn threads_in_use(&self, shared: &Shared) -> usize {
        if is_elastic(shared) { self.workload.balance.in_use() } else { shared.threads.len() }
    }

    /// Gives a new connection to the next thread, or to another one if that thread has a long command.
    pub(crate) fn deal(&mut self, net: &mut Network, shared: &Shared, socket: Socket, listener: usize) {
        let (mut thread, entrance) = self.dealer.deal(listener, self.threads_in_use(shared));
        if shared.threads[usize::from(thread)].is_away() {
            thread = self.helper(shared, net.id).unwrap_or(thread);
        }
        net.messages.send(thread, Message::Adopt(socket, entrance));
    }

    /// Reports the load of the thread in the last round. The first thread acts on the reports.
    pub(crate) fn look(&mut self, net: &mut Network, shared: &Shared) {
        let (now_ns, taken_ns) = time_and_work(&mut net.driver);
        let (stats, now_ms) = (net.stats, net.now_ms);
        let busy = self.workload.busy(now_ns, taken_ns);
        stats.busy.set(u64::from(busy));
        let contended = self.workload.contended(stats.entries(), stats.left_with_holder.get());
        stats.contended.set(u64::from(contended));
        stats.looked_ms.set(now_ms);
        stats.connections.set(net.connections.count() as u64);
        if net.id > 0 {
            return;
        }
        let before = self.workload.balance.in_use();
        let loads: Vec<Load> = shared.observed.threads().iter().map(|stats| load(stats, now_ms)).collect();
        let is_elastic = is_elastic(shared);
        let orders = if is_elastic {
            let is_rather_busy = loads.iter().any(|load| load.busy >= RATHER_BUSY);
            let idle_ns =
                is_rather_busy.then(|| processors::for_server(&shared.settings).idle_ns()).flatten();
            let idle = idle_ns.and_then(|idle_ns| self.workload.idle(now_ns, idle_ns));
            self.workload.balance.plan(&loads, idle)
        } else {
            self.workload.balance.use_all(loads.len())
        };
        let in_use = self.workload.balance.in_use();
        stats.threads_in_use.set(in_use as u64);
        if in_use != before && is_elastic {
            tracing::info!("{in_use} of {} threads now serve connections", loads.len());
        }
        for order in orders {
            net.messages.send(order.from, Message::Share(order));
        }
    }

    /// Handles a client whose commands took `ticks`, which is slow. Unless the thread had lost its processor meanwhile,
    /// the client moves to a thread without other clients, if there is one, so that its next command delays no other
    /// client.
    pub(crate) fn set_apart(&mut self, net: &mut Network, shared: &Shared, conn: ConnId, ticks: u64) {
        let (now_ns, taken_ns) = time_and_work(&mut net.driver);
        let took_ns = net.driver.clock().ticks_to_ns(0, ticks);
        if !self.workload.was_working(took_ns, now_ns, taken_ns) {
            return;
        }
        if let Some(session) = net.connections.session(conn) {
            session.apart_until_ms = net.now_ms + APART_MS;
        }
        let threads = shared.observed.threads();
        if is_elastic(shared) && threads[0].threads_in_use.get() < threads.len() as u64 {
            net.send_off(conn, threads.len() as u16 - 1);
        }
    }
}

/// Whether the number of threads that serve connections follows their load.
pub(crate) fn is_elastic(shared: &Shared) -> bool {
    shared.entry_mode == EntryMode::Roam && shared.settings.is_on(THREADS_ELASTIC) && !shared.is_simulated()
}

/// The number of threads that serve connections, as all threads may know it. They have the lowest numbers.
pub(crate) fn threads_at_work(shared: &Shared) -> usize {
    let threads = shared.observed.threads();
    (threads[0].threads_in_use.get() as usize).clamp(1, threads.len())
}

/// The time, and the processor time of the thread without polling.
fn time_and_work(driver: &mut Driver) -> (u64, u64) {
    let polled_ns = driver.polled_ns();
    let clock = driver.clock();
    (clock.monotonic_ns(), clock.thread_cpu_ns().saturating_sub(polled_ns))
}

/// The load of a thread. A thread that has not reported for long runs something slow, or has lost its processor.
fn load(stats: &ThreadStats, now_ms: u64) -> Load {
    let is_late = now_ms.saturating_sub(stats.looked_ms.get()) > LATE_MS;
    Load {
        busy: if is_late { 1000 } else { stats.busy.get() as u32 },
        contended: stats.contended.get() as u32,
        connections: stats.connections.get(),
    }
}

impl Network {
    /// Gives connections to other threads.
    pub(crate) fn share(&mut self, order: Order) {
        let (mut conns, mut costs, now_ms) = (Vec::new(), Vec::new(), self.now_ms);
        // A client that is set apart is on a thread that may otherwise have to be emptied.
        let may_share = |session: &Session| !order.is_all() || session.apart_until_ms <= now_ms;
        for (conn, session) in self.connections.iter_mut().filter(|(_, session)| may_share(session)) {
            conns.push(conn);
            // Earlier costs no longer count.
            costs.push(std::mem::take(&mut session.cost));
        }
        let receivers = order.to.len();
        let chosen = if order.is_all() {
            (0..receivers).map(|first| (first..conns.len()).step_by(receivers).collect()).collect()
        } else {
            clients::choose(&costs, order.share, receivers)
        };
        for (to, indices) in order.to.zip(chosen) {
            let mut going = 0;
            for index in indices {
                going += usize::from(going < MOVED_MAX && self.send_off(conns[index], to));
            }
        }
    }

    /// Sends any connection to any thread, in a simulation.
    pub(crate) fn shuffle(&mut self, shared: &Shared) {
        let one_in = shared.machine.tuning.moves_one_in;
        if one_in == 0 {
            return;
        }
        let mut entropy = self.driver.entropy().expect("a simulated driver has chance");
        if entropy.below(one_in) > 0 {
            return;
        }
        let conns: Vec<ConnId> = self.connections.iter_mut().map(|(conn, _)| conn).collect();
        if !conns.is_empty() {
            let conn = conns[entropy.below(conns.len() as u64) as usize];
            let to = entropy.below(shared.threads.len() as u64) as u16;
            self.send_off(conn, to);
        }
    }
}
