//! Reports the load of a thread, and gives away connections because of it.
//!
//! Every thread reports its load each round. The first thread reads all reports and decides how many threads serve
//! connections (`clients::Balance`). A thread that must give some away chooses them by their cost.

use clients::session::Session;
use clients::{Load, Order};
use config::{EntryMode, THREADS_ELASTIC};
use observe::ThreadStats;
use proactor::ConnId;
use process::processors;

use crate::connections::moving::send_off;
use crate::message::Message;
use crate::shared::Shared;
use crate::thread::ThreadHost;

/// Connections that move to a thread at a time. More would delay the others.
const MOVED_MAX: usize = 256;
/// The load from which a thread may soon be too busy, so that checking for idle processors pays off.
const RATHER_BUSY: u32 = 600;
/// A thread that has not reported for this long is blocked, because it should report ten times a second.
const LATE_MS: u64 = 300;
/// The time for which a slow client is served apart.
const APART_MS: u64 = 10_000;

/// Whether the number of threads that serve connections follows their load.
pub(crate) fn is_elastic(host: &ThreadHost) -> bool {
    let shared = host.shared;
    shared.entry_mode == EntryMode::Roam && shared.settings.is_on(THREADS_ELASTIC) && !shared.is_simulated()
}

/// The number of threads that get new connections.
pub(crate) fn threads_in_use(host: &ThreadHost) -> usize {
    if is_elastic(host) { host.balancing.workload.balance.in_use() } else { host.shared.threads.len() }
}

/// The number of threads that serve connections, as all threads may know it. They have the lowest numbers.
pub(crate) fn threads_at_work(shared: &Shared) -> usize {
    let threads = shared.observed.threads();
    (threads[0].threads_in_use.get() as usize).clamp(1, threads.len())
}

/// Reports the load of the thread in the last round. The first thread acts on the reports.
pub(crate) fn look(host: &mut ThreadHost) {
    let (now_ns, taken_ns) = time_and_work(host);
    let busy = host.balancing.workload.busy(now_ns, taken_ns);
    let stats = host.reports.accounting.stats();
    stats.busy.set(u64::from(busy));
    let contended = host.balancing.workload.contended(stats.entries(), stats.left_with_holder.get());
    stats.contended.set(u64::from(contended));
    stats.looked_ms.set(host.net.now_ms);
    stats.connections.set(host.net.connections.count() as u64);
    if host.net.id > 0 {
        return;
    }
    let (shared, before, now_ms) = (host.shared, host.balancing.workload.balance.in_use(), host.net.now_ms);
    let loads: Vec<Load> = shared.observed.threads().iter().map(|stats| load(stats, now_ms)).collect();
    let orders = if is_elastic(host) {
        let is_rather_busy = loads.iter().any(|load| load.busy >= RATHER_BUSY);
        let idle_ns = is_rather_busy.then(|| processors::for_server(&shared.settings).idle_ns()).flatten();
        let idle = idle_ns.and_then(|idle_ns| host.balancing.workload.idle(now_ns, idle_ns));
        host.balancing.workload.balance.plan(&loads, idle)
    } else {
        host.balancing.workload.balance.use_all(loads.len())
    };
    let in_use = host.balancing.workload.balance.in_use();
    stats.threads_in_use.set(in_use as u64);
    if in_use != before && is_elastic(host) {
        tracing::info!("{in_use} of {} threads now serve connections", loads.len());
    }
    for order in orders {
        host.net.mailroom.send(order.from, Message::Share(order));
    }
}

/// The time, and the processor time of the thread without polling.
fn time_and_work(host: &mut ThreadHost) -> (u64, u64) {
    let polled_ns = host.net.driver.polled_ns();
    let clock = host.net.driver.clock();
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

/// Handles a client whose commands took `ticks`, which is slow. Unless the thread had lost its processor meanwhile, the
/// client moves to a thread without other clients, if there is one, so that its next command delays no other client.
pub(crate) fn set_apart(host: &mut ThreadHost, conn: ConnId, ticks: u64) {
    let (now_ns, taken_ns) = time_and_work(host);
    let took_ns = host.net.driver.clock().ticks_to_ns(0, ticks);
    if !host.balancing.workload.was_working(took_ns, now_ns, taken_ns) {
        return;
    }
    if let Some(session) = host.net.connections.session(conn) {
        session.apart_until_ms = host.net.now_ms + APART_MS;
    }
    let threads = host.shared.observed.threads();
    if is_elastic(host) && threads[0].threads_in_use.get() < threads.len() as u64 {
        send_off(host, conn, threads.len() as u16 - 1);
    }
}

/// Gives connections to other threads.
pub(crate) fn share(host: &mut ThreadHost, order: Order) {
    let (mut conns, mut costs, now_ms) = (Vec::new(), Vec::new(), host.net.now_ms);
    // A client that is set apart is on a thread that may otherwise have to be emptied.
    let may_share = |session: &Session| !order.is_all() || session.apart_until_ms <= now_ms;
    for (conn, session) in host.net.connections.iter_mut().filter(|(_, session)| may_share(session)) {
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
            going += usize::from(going < MOVED_MAX && send_off(host, conns[index], to));
        }
    }
}

/// Sends any connection to any thread, in a simulation.
pub(crate) fn shuffle(host: &mut ThreadHost) {
    let one_in = host.shared.machine.tuning.moves_one_in;
    if one_in == 0 {
        return;
    }
    let mut entropy = host.net.driver.entropy().expect("a simulated driver has chance");
    if entropy.below(one_in) > 0 {
        return;
    }
    let conns: Vec<ConnId> = host.net.connections.iter_mut().map(|(conn, _)| conn).collect();
    if !conns.is_empty() {
        let conn = conns[entropy.below(conns.len() as u64) as usize];
        let to = entropy.below(host.shared.threads.len() as u64) as u16;
        send_off(host, conn, to);
    }
}
