//! Opens the sockets on which the server listens, and changes them while it runs.
//!
//! The first thread accepts for all, and its driver owns the listeners. In addition, each TCP listener is recorded here
//! with a handle to stop it. So `CONFIG SET` on any thread can see at once whether the new addresses work: listeners
//! that are still wanted stay, new ones are bound, and the others are stopped. If old and new listeners conflict
//! (`127.0.0.1` and `*` on one port), the old ones are stopped first, and opened again if the new ones fail.
//! Connections are not affected.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::session::Protocol;
use config::{
    BIND, MEMCACHED_PORT, MEMCACHED_TLS, MEMCACHED_UNIXSOCKET, PORT, Settings, TCP_BACKLOG, TLS_PORT,
    UNIXSOCKET, UNIXSOCKETPERM,
};
use proactor::{Listener, Stop};

use crate::error::Error;

/// The most addresses in `bind`, as in Redis.
pub const ADDRESS_COUNT_MAX: usize = 16;

/// The way in which clients talk to a listener.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Entrance {
    /// The protocol.
    pub protocol: Protocol,
    /// Whether connections use TLS.
    pub is_secured: bool,
}

/// Listeners with their protocols.
pub type Listening = Vec<(Entrance, Listener)>;

/// The kinds of connections that clients of Redis' protocol may make, in Redis' words and order.
pub fn kinds(listeners: &Listening) -> Vec<&'static str> {
    let kind_of = |(entrance, listener): &(Entrance, Listener)| match () {
        () if entrance.protocol != Protocol::Redis => None,
        () if entrance.is_secured => Some("tls"),
        () if listener.local().parse::<SocketAddr>().is_ok() => Some("tcp"),
        () => Some("unix"),
    };
    let kinds = ["tcp", "unix", "tls"];
    kinds.into_iter().filter(|kind| listeners.iter().any(|place| kind_of(place) == Some(kind))).collect()
}

/// An address to listen on.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Place {
    entrance: Entrance,
    /// As in `bind`, with a `-` if it may be unavailable.
    address: String,
    port: u16,
}

/// The TCP addresses on which the server listens; `None` in a simulation, which has no sockets.
#[derive(Debug, Default)]
pub struct Listeners(Mutex<Option<Vec<(Place, Stop)>>>);

/// Binds an address.
type Bind = fn(&str, u16, i32) -> Result<Listener, proactor::Error>;

impl Listeners {
    /// Opens all sockets of the settings.
    pub fn open(&self, settings: &Settings) -> Result<Listening, Error> {
        let (noted, mut listeners) = bind_all(&places(settings), settings, proactor::listen_tcp)?;
        for (protocol, path) in [(Protocol::Redis, UNIXSOCKET), (Protocol::Memcached, MEMCACHED_UNIXSOCKET)] {
            let path = settings.text(path);
            if path.is_empty() {
                continue;
            }
            let permissions =
                Some(settings.number(UNIXSOCKETPERM) as u32).filter(|permissions| *permissions != 0);
            let path = std::path::absolute(&*path).unwrap_or_else(|_| PathBuf::from(&*path));
            let backlog = settings.number(TCP_BACKLOG) as i32;
            let entrance = Entrance { protocol, is_secured: false };
            listeners.push((entrance, proactor::listen_unix(&path, permissions, backlog)?));
        }
        if listeners.is_empty() {
            return Err(Error::NowhereToListen);
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(noted);
        Ok(listeners)
    }

    /// Listens on the addresses of the settings. If that fails, listens on the former ones. In either case, the first
    /// thread must accept on the returned listeners.
    pub fn change(&self, settings: &Settings) -> (Listening, Result<(), Error>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.as_mut() else { return (Vec::new(), Err(Error::NowhereToListen)) };
        let wanted = places(settings);
        let is_known = |place: &&Place| known.iter().any(|(open, _)| open == *place);
        let new: Vec<Place> = wanted.iter().filter(|place| !is_known(place)).cloned().collect();
        let (mut now, old): (Vec<_>, Vec<_>) =
            std::mem::take(known).into_iter().partition(|(place, _)| wanted.contains(place));
        let mut bound = bind_all(&new, settings, proactor::listen_tcp_at_once);
        if bound.is_ok() || !old.is_empty() {
            old.iter().for_each(|(_, stop)| stop.stop());
        }
        if bound.is_err() && !old.is_empty() {
            bound = bind_all(&new, settings, proactor::listen_tcp_at_once);
        }
        let (opened, outcome) = match bound {
            Ok(opened) => (opened, Ok(())),
            Err(error) => {
                let places: Vec<Place> = old.into_iter().map(|(place, _)| place).collect();
                let opened = bind_all(&places, settings, proactor::listen_tcp).unwrap_or_else(|error| {
                    tracing::error!("cannot listen on the previous addresses again: {error}");
                    Default::default()
                });
                (opened, Err(error))
            }
        };
        let (noted, listeners) = opened;
        now.extend(noted);
        *known = now;
        (listeners, outcome)
    }
}

/// The TCP addresses of the settings.
fn places(settings: &Settings) -> Vec<Place> {
    let addresses = settings.text(BIND);
    let memcached_secured = settings.is_on(MEMCACHED_TLS);
    let ports = [
        (Protocol::Redis, false, PORT),
        (Protocol::Redis, true, TLS_PORT),
        (Protocol::Memcached, memcached_secured, MEMCACHED_PORT),
    ];
    let ports = ports.map(|(protocol, is_secured, port)| {
        (Entrance { protocol, is_secured }, settings.number(port) as u16)
    });
    let used = ports.into_iter().filter(|(_, port)| *port != 0);
    used.flat_map(|(entrance, port)| {
        let place = move |address: &str| Place { entrance, address: address.to_owned(), port };
        addresses.split_whitespace().map(place).collect::<Vec<_>>()
    })
    .collect()
}

/// Listens on all of `places`, or on none if one fails.
fn bind_all(
    places: &[Place],
    settings: &Settings,
    bind: Bind,
) -> Result<(Vec<(Place, Stop)>, Listening), Error> {
    let backlog = settings.number(TCP_BACKLOG) as i32;
    let (mut noted, mut listeners) = (Vec::new(), Vec::new());
    for place in places {
        let (address, may_be_missing) = match place.address.strip_prefix('-') {
            Some(address) => (address, true),
            None => (&*place.address, false),
        };
        let listener = match bind(address, place.port, backlog) {
            Ok(listener) => listener,
            Err(proactor::Error::NoSuchAddress { .. } | proactor::Error::Listen { .. }) if may_be_missing => {
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let stop = listener.stopper().expect("it is TCP");
        let stop = stop.map_err(|source| Error::Io { what: "cannot keep a socket".to_owned(), source })?;
        noted.push((place.clone(), stop));
        listeners.push((place.entrance, listener));
    }
    Ok((noted, listeners))
}

/// The listeners of Redis' protocol in the settings, as lines of INFO.
pub fn listening(settings: &Settings) -> Vec<String> {
    let mut listeners = Vec::new();
    for (name, port) in [("tcp", PORT), ("tls", TLS_PORT)] {
        if settings.is_on(port) {
            let binds: String =
                settings.text(BIND).split(' ').map(|address| format!(",bind={address}")).collect();
            listeners.push(format!("name={name}{binds},port={}", settings.number(port)));
        }
    }
    if settings.is_on(UNIXSOCKET) {
        listeners.push(format!("name=unix,bind={}", settings.text(UNIXSOCKET)));
    }
    listeners
}
