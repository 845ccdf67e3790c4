//! Notices of a handover for clients that ask for them (`CLIENT MAINT_NOTIFICATIONS`), and clients that come early to the
//! server that takes over.
//!
//! ```text
//!   primary                                              target
//!   FAILOVER: FAILING_OVER, question "receive-5000" ────▶ from now on, clients who come and ask for notices are
//!                                    ◀──── its answer     *arrivals*: their commands on data wait
//!   MOVING; it serves its clients until they have left
//!   holds writes, hands over ───────────────────────────▶ leads; the commands of arrivals run
//!   FAILED_OVER to those who stayed
//! ```
//!
//! All threads share one [`Notices`]. Each session of a client that asked has a [`Recipient`], which says what that
//! client was told. A *round* is a message to all threads: each tells those clients that do not know it yet where to
//! go, ends the waits of those that do, and reports how many of them have not left.
//!
//! Not here: when a handover proceeds (`leaving.rs`, `handover.rs`), and the sessions (the server).

#![expect(
    clippy::disallowed_types,
    reason = "nothing of this is on the way of a command but whether its client was told something"
)]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use config::{MAINT_ENDPOINT, MAINT_SECONDS, PORT, SHUTDOWN_TIMEOUT, Settings, TLS_PORT, TLS_REPLICATION};
use resp::Reply;

use crate::address::Address;

/// How long a target keeps the commands of arrivals waiting, if it is told nothing else.
pub(crate) const RECEIVES_MS: u64 = 5000;
/// The value of `maint-notifications-endpoint` that says that names or virtual addresses move.
const NO_ENDPOINT: &str = "none";
/// The shard that notices name. A server is one shard of a database.
const ONLY_SHARD: &[u8] = b"1";

/// The kind of endpoint that a client wants to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndpointKind {
    /// An address or a name. There is one of each server, so all four kinds get the same.
    Address,
    /// None: the client connects again to the one that it knows.
    Nothing,
}

impl EndpointKind {
    /// The kind with this name.
    pub fn parse(name: &[u8]) -> Option<EndpointKind> {
        let addresses: [&[u8]; 4] = [b"internal-ip", b"internal-fqdn", b"external-ip", b"external-fqdn"];
        if addresses.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            return Some(EndpointKind::Address);
        }
        name.eq_ignore_ascii_case(NO_ENDPOINT.as_bytes()).then_some(EndpointKind::Nothing)
    }
}

/// A client that asked for notices, in its session.
#[derive(Debug)]
pub struct Recipient {
    notices: &'static Notices,
    /// The kind of endpoint that it wants.
    kind: EndpointKind,
    /// Whether it was told to go to another server. Commands that only that server may run end its connection.
    pub is_told: bool,
    /// Whether it came while this server was about to take over, so that its commands on data wait.
    pub is_arriving: bool,
}

impl Recipient {
    /// Tells the client where to go, if it has to go somewhere and can be told. `local` is the address that it connected
    /// to. Returns whether it was told.
    pub fn tell_moving(
        &mut self,
        (local, settings, now_ms): (&str, &Settings, u64),
        reply: &mut Reply<'_>,
    ) -> bool {
        let Some(moving) = locked(&self.notices.moving).clone().filter(|moving| moving.until_ms > now_ms)
        else {
            return false;
        };
        if self.is_told || self.is_arriving {
            return false;
        }
        let endpoint = match self.kind {
            EndpointKind::Nothing if !moving.has_happened => return false,
            EndpointKind::Nothing => None,
            EndpointKind::Address => match endpoint_for(&moving.to, local, settings) {
                None => return false,
                endpoint => endpoint,
            },
        };
        self.is_told = true;
        write_moving(reply, moving.number, settings, endpoint.as_deref());
        true
    }

    /// Sends it back to `primary`, if it came before this server was to lead. Returns whether it came so early.
    pub fn send_back(
        &mut self,
        (number, primary): (u64, &Address),
        (local, settings): (&str, &Settings),
        reply: &mut Reply<'_>,
    ) -> bool {
        if !std::mem::take(&mut self.is_arriving) {
            return false;
        }
        if self.kind == EndpointKind::Address
            && let Some(endpoint) = endpoint_for(primary, local, settings)
        {
            self.is_told = true;
            write_moving(reply, number, settings, Some(&endpoint));
        }
        true
    }
}

impl Drop for Recipient {
    fn drop(&mut self) {
        self.notices.recipients.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where clients go, and since when.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ClientMove {
    number: u64,
    to: Address,
    /// Those who come later are not told any more, on the monotonic clock.
    until_ms: u64,
    /// Whether the target leads.
    has_happened: bool,
}

/// The answers of threads in a round.
#[derive(Default, Debug)]
struct Census {
    round: u64,
    awaited: usize,
    staying: usize,
}

/// See the head of this file.
#[derive(Default, Debug)]
pub struct Notices {
    recipients: AtomicUsize,
    last_number: AtomicU64,
    moving: Mutex<Option<ClientMove>>,
    census: Mutex<Census>,
    /// Until when clients who come are arrivals, on the monotonic clock. 0: they are not.
    receives_until_ms: AtomicU64,
}

/// A message to all threads about clients that asked for notices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A handover begins. It may take this many seconds.
    FailingOver {
        /// The number of the notice.
        number: u64,
        /// The seconds.
        seconds: u64,
    },
    /// The handover is over, or has failed.
    FailedOver {
        /// The number of the notice.
        number: u64,
    },
    /// The server is about to end, which may take this many seconds.
    Migrating {
        /// The number of the notice.
        number: u64,
        /// The seconds.
        seconds: u64,
    },
    /// The server does not end.
    Migrated {
        /// The number of the notice.
        number: u64,
    },
    /// A round with this number.
    Round(u64),
    /// The commands of arrivals are tried again.
    Received,
    /// This server does not take over: arrivals are sent back to its primary.
    SendsBack {
        /// The number of the notice.
        number: u64,
    },
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notices {
    /// Adds a client, which comes at `now_ms`.
    pub fn admit(&'static self, kind: EndpointKind, now_ms: u64) -> Box<Recipient> {
        self.recipients.fetch_add(1, Ordering::Relaxed);
        Box::new(Recipient { notices: self, kind, is_told: false, is_arriving: self.receives(now_ms) })
    }

    /// Whether there are clients to tell.
    pub fn has_recipients(&self) -> bool {
        self.recipients.load(Ordering::Relaxed) > 0
    }

    /// A number for the next notice.
    pub fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// From now on clients are told to go to `to`; `has_happened`: it leads.
    pub(crate) fn begin_moving(&self, to: &Address, has_happened: bool, settings: &Settings, now_ms: u64) {
        let mut moving = locked(&self.moving);
        let until_ms = now_ms + settings.number(MAINT_SECONDS) as u64 * 1000;
        // Clients recognize by the number that their other connections were told already.
        let same = moving.take().filter(|moving| moving.to == *to && !moving.has_happened);
        let number = same.map_or_else(|| self.next_number(), |moving| moving.number);
        *moving = Some(ClientMove { number, to: to.clone(), until_ms, has_happened });
    }

    /// Whether clients are told to go elsewhere.
    pub(crate) fn is_moving(&self) -> bool {
        locked(&self.moving).is_some()
    }

    /// Clients are not told any more to go elsewhere.
    pub(crate) fn end_moving(&self) {
        *locked(&self.moving) = None;
    }

    /// Begins a round, in which `thread_count` threads report. Returns its number.
    pub(crate) fn begin_round(&self, thread_count: usize) -> u64 {
        let mut census = locked(&self.census);
        *census = Census { round: census.round + 1, awaited: thread_count, staying: 0 };
        census.round
    }

    /// Notes that a thread has done its part of a round, and the number of its clients that have not left yet.
    pub fn report(&self, round: u64, staying: usize) {
        let mut census = locked(&self.census);
        if census.round == round && census.awaited > 0 {
            census.awaited -= 1;
            census.staying += staying;
        }
    }

    /// How many clients have not left, if all threads have done their part of the round.
    pub(crate) fn staying(&self) -> Option<usize> {
        let census = locked(&self.census);
        (census.awaited == 0).then_some(census.staying)
    }

    /// The primary asks this server to receive clients for so long; 0: no longer.
    pub(crate) fn receive(&self, now_ms: u64, for_ms: u64) {
        let until_ms = if for_ms == 0 { 0 } else { now_ms + for_ms.min(RECEIVES_MS) };
        self.receives_until_ms.store(until_ms, Ordering::Relaxed);
    }

    /// Whether clients who come are arrivals.
    pub fn receives(&self, now_ms: u64) -> bool {
        self.receives_until_ms.load(Ordering::Relaxed) > now_ms
    }

    /// Arrivals go back if this server should have taken over by now. The first thread asks ten times a second.
    pub fn stop_receiving_if_due(&self, now_ms: u64) -> Option<Notice> {
        let until_ms = self.receives_until_ms.load(Ordering::Relaxed);
        let is_due =
            (1..=now_ms).contains(&until_ms) && self.receives_until_ms.swap(0, Ordering::Relaxed) == until_ms;
        is_due.then(|| Notice::SendsBack { number: self.next_number() })
    }

    /// The notice that the server is about to end, or that it does not.
    pub fn of_end(&self, ends: bool, settings: &Settings) -> Notice {
        let (number, seconds) = (self.next_number(), settings.number(SHUTDOWN_TIMEOUT) as u64);
        if ends { Notice::Migrating { number, seconds } } else { Notice::Migrated { number } }
    }
}

/// Where a client that connected to `local` finds the server at `to`: what the setting says, or that address. `None`:
/// nothing that clients can read.
fn endpoint_for(to: &Address, local: &str, settings: &Settings) -> Option<String> {
    let set = settings.text(MAINT_ENDPOINT).to_string();
    if !set.is_empty() {
        return Some(set).filter(|set| set != NO_ENDPOINT);
    }
    // Clients split the endpoint at a colon.
    if to.host.contains(':') {
        return None;
    }
    let own: u16 = local.rsplit_once(':')?.1.parse().ok()?;
    // The announced port is that of the protocol which replicas use. A client of the other protocol is told its own
    // port, since servers that replace each other are set up alike.
    let port = if own == listening_port(settings) { to.port } else { own };
    Some(format!("{}:{port}", to.host))
}

fn write_moving(reply: &mut Reply<'_>, number: u64, settings: &Settings, endpoint: Option<&str>) {
    reply.push(4);
    reply.bulk(b"MOVING");
    reply.int(number as i64);
    reply.int(settings.number(MAINT_SECONDS));
    match endpoint {
        Some(endpoint) => reply.bulk(endpoint.as_bytes()),
        None => reply.null(),
    }
}

impl Notice {
    /// Writes it, if it is for all clients.
    pub fn write(self, reply: &mut Reply<'_>) {
        let (kind, number, seconds): (&[u8], _, _) = match self {
            Notice::FailingOver { number, seconds } => (b"FAILING_OVER", number, Some(seconds)),
            Notice::FailedOver { number } => (b"FAILED_OVER", number, None),
            Notice::Migrating { number, seconds } => (b"MIGRATING", number, Some(seconds)),
            Notice::Migrated { number } => (b"MIGRATED", number, None),
            Notice::Round(_) | Notice::Received | Notice::SendsBack { .. } => return,
        };
        reply.push(3 + usize::from(seconds.is_some()));
        reply.bulk(kind);
        reply.int(number as i64);
        if let Some(seconds) = seconds {
            reply.int(seconds as i64);
        }
        // Lettuce expects it.
        reply.bulk(ONLY_SHARD);
    }
}

/// The port at which this server listens in the protocol that replicas use.
pub(crate) fn listening_port(settings: &Settings) -> u16 {
    let own = if settings.is_on(TLS_REPLICATION) && settings.is_on(TLS_PORT) { TLS_PORT } else { PORT };
    settings.number(own) as u16
}
