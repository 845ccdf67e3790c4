//! The announcement of a node in the store: where others reach it, and what it is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use config::{
    BIND, CLUSTER_ANNOUNCE_IP, CLUSTER_ANNOUNCE_PORT, CLUSTER_ANNOUNCE_TLS_PORT, CLUSTER_ZONE, Id, PORT,
    Settings, TLS_PORT,
};
use topology::{Announcement, Instance};

use crate::error::Error;
use crate::store_options::{StoreOptions, StorePlace};

/// The port of etcd if a URL has none.
const ETCD_PORT: u16 = 2379;

/// The facts about a process that are not settings.
#[derive(Clone, Debug)]
pub struct ProcessFacts {
    /// The release.
    pub version: String,
    /// The threads that serve.
    pub cores: u32,
    /// When it started, in Unix time.
    pub started_ms: u64,
}

/// The announcement of this process. `address`: see [`own_address`].
pub fn announcement(
    settings: &Settings,
    instance: Instance,
    address: &str,
    facts: &ProcessFacts,
) -> Announcement {
    let port = |announced: Id, open: Id| {
        let (announced, open) = (settings.number(announced), settings.number(open));
        Some(if announced > 0 { announced } else { open } as u16).filter(|port| *port > 0)
    };
    Announcement {
        instance,
        address: address.to_owned(),
        port: port(CLUSTER_ANNOUNCE_PORT, PORT),
        tls_port: port(CLUSTER_ANNOUNCE_TLS_PORT, TLS_PORT),
        cluster_port: None,
        zone: settings.text(CLUSTER_ZONE).as_ref().to_owned(),
        version: facts.version.clone(),
        cores: facts.cores,
        memory_bytes_max: settings.memory_bytes_max(),
        started_ms: facts.started_ms,
    }
}

/// The address or name under which others reach this node: `cluster-announce-ip`; if the server listens on certain addresses
/// only, one of these; otherwise the address from which this machine reaches the store. Looks up names, so it may block.
pub fn own_address(settings: &Settings, store: &StoreOptions) -> Result<String, Error> {
    let announced = settings.text(CLUSTER_ANNOUNCE_IP);
    if !announced.is_empty() {
        return Ok(announced.as_ref().to_owned());
    }
    let bound = settings.text(BIND);
    let bound: Vec<&str> = bound.split_whitespace().map(|word| word.trim_start_matches('-')).collect();
    let is_any = |word: &&str| ["*", "::*", "0.0.0.0", "::"].contains(word);
    let towards = address_towards(store);
    if bound.is_empty() || bound.iter().any(is_any) {
        return towards;
    }
    let is_bound = towards.as_ref().is_ok_and(|address| bound.contains(&address.as_str()));
    if is_bound { towards } else { Ok(bound[0].to_owned()) }
}

/// The address from which this machine reaches the store. Nothing is sent.
fn address_towards(store: &StoreOptions) -> Result<String, Error> {
    let StorePlace::Etcd(endpoints) = &store.place else { return Ok(Ipv4Addr::LOCALHOST.to_string()) };
    let mut why = String::new();
    for url in endpoints {
        match from(url) {
            Ok(address) => return Ok(address.to_string()),
            Err(error) => why = format!("{url}: {error}"),
        }
    }
    Err(Error::NoAddress(why))
}

fn from(url: &str) -> std::io::Result<IpAddr> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest).trim_end_matches('/');
    let has_port =
        rest.rsplit_once(':').is_some_and(|(host, _)| !host.starts_with('[') || host.ends_with(']'));
    let place = if has_port { rest.to_owned() } else { format!("{rest}:{ETCD_PORT}") };
    let mut last = std::io::Error::other("the name has no address");
    for target in place.to_socket_addrs()? {
        let any: SocketAddr = match target {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        // Connecting a datagram socket chooses a route, and sends nothing.
        match UdpSocket::bind(any)
            .and_then(|socket| socket.connect(target).and_then(|()| socket.local_addr()))
        {
            Ok(address) => return Ok(address.ip()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use config::{Invocation, TABLE};
    use topology::Life;

    use super::*;

    fn settings(line: &str) -> Settings {
        let args: Vec<String> = line.split(' ').filter(|arg| !arg.is_empty()).map(str::to_owned).collect();
        let Ok(Invocation::Serve(arguments)) = Invocation::parse(&TABLE, &args) else { panic!("{line}") };
        Settings::read(&arguments).expect(line).0
    }

    #[track_caller]
    fn check_address(line: &str, expected: &str) {
        let settings = settings(line);
        let found = own_address(&settings, &StoreOptions::of(&settings).unwrap());
        assert_eq!(found.map_err(|error| error.to_string()), Ok(expected.to_owned()), "{line}");
    }

    #[test]
    fn a_node_is_where_it_says_or_listens_or_reaches_the_store() {
        check_address("--cluster-etcd http://127.0.0.1", "127.0.0.1");
        check_address("--cluster-etcd http://127.0.0.1:1/", "127.0.0.1");
        check_address("--cluster-etcd folder:/x", "127.0.0.1");
        check_address("--cluster-etcd http://127.0.0.1 --cluster-announce-ip db-1.example", "db-1.example");
        check_address("--cluster-etcd http://127.0.0.1 --bind 10.0.0.7 127.0.0.1", "127.0.0.1");
        check_address("--cluster-etcd http://127.0.0.1 --bind 10.0.0.7 -::1", "10.0.0.7");
        check_address("--cluster-etcd http://127.0.0.1 --bind * -::*", "127.0.0.1");
        let nowhere = settings("--cluster-etcd http://[::x]:1");
        let error = own_address(&nowhere, &StoreOptions::of(&nowhere).unwrap()).unwrap_err();
        assert!(error.to_string().contains("set cluster-announce-ip"), "{error}");
    }

    #[test]
    fn an_announcement_names_the_ports_that_others_can_use() {
        let instance = Instance { node: "a".parse().unwrap(), life: Life(1) };
        let facts = ProcessFacts { version: "1.0".to_owned(), cores: 2, started_ms: 3 };
        let announced = |line: &str| {
            let announced = announcement(&settings(line), instance.clone(), "h", &facts);
            (announced.port, announced.tls_port)
        };
        assert_eq!(announced(""), (Some(6379), None));
        assert_eq!(announced("--port 0 --tls-port 7"), (None, Some(7)));
        assert_eq!(
            announced("--cluster-announce-port 9 --tls-port 7 --cluster-announce-tls-port 8"),
            (Some(9), Some(8))
        );
    }
}
