//! Conditions on clients: what `CLIENT LIST` and `CLIENT KILL` select.
//!
//! Each thread applies a filter to its own clients. Not here: how arguments become a filter (`commands/client/filter.rs`).

use std::mem::{Discriminant, discriminant};

use engine::CommandError;

use crate::session::Session;

/// The letters that `flags=` may have. The last stands for no other; no client has `u` and `A` here, which Redis shows
/// for clients between two states.
const LETTERS: &[u8] = b"OSMPxbtRBdcuAUreTIN";

/// The kinds of clients that `CLIENT LIST` and `CLIENT KILL` tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// It gets replies.
    Normal,
    /// It subscribed to something.
    PubSub,
    /// It is a replica of this server.
    Replica,
    /// It is the primary of this server.
    Primary,
}

impl Class {
    /// The kind with this name, in any case.
    pub fn parse(name: &[u8]) -> Result<Class, CommandError> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Class::Normal),
            b"pubsub" => Ok(Class::PubSub),
            b"replica" | b"slave" => Ok(Class::Replica),
            b"master" | b"primary" => Ok(Class::Primary),
            _ => Err(CommandError::quoting("ERR Unknown client type '", name, "'")),
        }
    }

    /// Whether a client is of this kind.
    fn has(self, session: &Session) -> bool {
        match self {
            Class::Normal => !session.is_subscriber() && !session.follows() && !session.is_primary,
            Class::PubSub => session.is_subscriber(),
            Class::Replica => session.follows(),
            Class::Primary => session.is_primary,
        }
    }
}

/// One condition on a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// It has one of these ids.
    Ids(Vec<u64>),
    /// It is of this kind.
    Class(Class),
    /// Its user has this number.
    User(u64),
    /// Its address.
    Peer(String),
    /// The address that it connected to.
    Local(String),
    /// Its address without the port.
    Ip(String),
    /// It has been connected for so many seconds or longer.
    AgeSeconds(u64),
    /// It has been idle for so many seconds or longer.
    IdleSeconds(u64),
    /// It has all these letters in `flags=`.
    Flags(Vec<u8>),
    /// Its name, which is not empty.
    Name(Vec<u8>),
    /// The name of its library, which is not empty.
    LibName(Vec<u8>),
    /// The version of its library, which is not empty.
    LibVersion(Vec<u8>),
    /// Its database.
    Db(u32),
    /// Whether it must follow redirections.
    Capabilities {
        /// It must.
        redirect: bool,
    },
}

impl Condition {
    /// All these letters of `flags=`; `None` if there is no such letter.
    pub fn flags(letters: &[u8]) -> Option<Condition> {
        letters.iter().all(|letter| LETTERS.contains(letter)).then(|| Condition::Flags(letters.to_vec()))
    }

    /// All these letters of `capa=`; `None` if there is no such letter.
    pub fn capabilities(letters: &[u8]) -> Option<Condition> {
        let redirect = !letters.is_empty();
        letters.iter().all(|letter| *letter == b'r').then_some(Condition::Capabilities { redirect })
    }

    fn holds(&self, session: &Session, now_ms: u64) -> bool {
        let seconds_since = |since_ms: u64| now_ms.saturating_sub(since_ms) / 1000;
        let is_at = |address: &str, wanted: &str| match session.is_unix {
            true => wanted.strip_suffix(":0") == Some(address),
            false => wanted == address,
        };
        match self {
            Condition::Ids(ids) => ids.contains(&session.client.id),
            Condition::Class(class) => class.has(session),
            Condition::User(number) => *number == session.access.user_number(),
            Condition::Peer(address) => is_at(&session.peer, address),
            Condition::Local(address) => is_at(&session.local, address),
            Condition::Ip(ip) => !session.is_unix && ip_of(&session.peer) == Some(ip),
            Condition::AgeSeconds(seconds) => seconds_since(session.created_ms) >= *seconds,
            Condition::IdleSeconds(seconds) => seconds_since(session.active_ms) >= *seconds,
            Condition::Flags(letters) => {
                let shown = flags(session);
                letters.iter().all(|letter| shown.as_bytes().contains(letter))
            }
            Condition::Name(name) => !session.name.is_empty() && session.name == *name,
            Condition::LibName(name) => !session.lib_name.is_empty() && session.lib_name == *name,
            Condition::LibVersion(version) => {
                !session.lib_version.is_empty() && session.lib_version == *version
            }
            Condition::Db(db) => session.client.db == *db,
            Condition::Capabilities { redirect } => !redirect || session.follows_redirects,
        }
    }
}

/// The host of an address with a port.
fn ip_of(address: &str) -> Option<&str> {
    let (host, _) = address.rsplit_once(':')?;
    Some(host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host))
}

/// Conditions on clients. A client is meant if it meets all that are given, and none of those that are excluded.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    given: Vec<Condition>,
    excluded: Vec<Condition>,
    /// A client that is left out: the one that asks.
    pub except: Option<u64>,
}

impl Filter {
    /// Adds a condition that clients must meet or, if it `excludes`, must not meet. It replaces one of its kind, but ids
    /// are added.
    pub fn add(&mut self, condition: Condition, excludes: bool) {
        let conditions = if excludes { &mut self.excluded } else { &mut self.given };
        let kind: Discriminant<Condition> = discriminant(&condition);
        match (conditions.iter_mut().find(|known| discriminant(*known) == kind), condition) {
            (Some(Condition::Ids(ids)), Condition::Ids(more)) => ids.extend(more),
            (Some(known), condition) => *known = condition,
            (None, condition) => conditions.push(condition),
        }
    }

    /// The ids of which a client must have one, in the order in which they were added.
    pub fn ids(&self) -> Option<&[u64]> {
        self.given.iter().find_map(|condition| match condition {
            Condition::Ids(ids) => Some(ids.as_slice()),
            _ => None,
        })
    }

    /// Whether a client meets the conditions. `now_ms`: on the monotonic clock.
    pub fn takes(&self, session: &Session, now_ms: u64) -> bool {
        self.except != Some(session.client.id)
            && self.given.iter().all(|condition| condition.holds(session, now_ms))
            && !self.excluded.iter().any(|condition| condition.holds(session, now_ms))
    }
}

/// The letters of `flags=`.
pub fn flags(session: &Session) -> String {
    let is_tracked = |is: fn(&pubsub::ClientTracking) -> bool| session.tracking.as_deref().is_some_and(is);
    let letters = [
        ('O', session.monitor),
        ('S', session.follows()),
        ('M', session.is_primary),
        ('P', session.is_subscriber()),
        ('x', session.transaction().is_some()),
        ('b', session.state.is_waiting()),
        ('t', session.tracking.is_some()),
        ('R', is_tracked(|tracking| tracking.is_broken)),
        ('B', is_tracked(|tracking| tracking.broadcasts)),
        ('d', session.watching.flag.is_raised()),
        ('c', session.close_mode().is_some()),
        ('U', session.is_unix),
        ('r', session.reads_here),
        ('e', session.no_evict),
        ('T', session.client.no_touch),
    ];
    let shown: String = letters.iter().filter(|(_, is_set)| *is_set).map(|(letter, _)| *letter).collect();
    if shown.is_empty() { "N".to_owned() } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ip_is_what_comes_before_the_port() {
        for (address, ip) in [
            ("127.0.0.1:6379", Some("127.0.0.1")),
            ("[::1]:6379", Some("::1")),
            ("[fe80::1%eth0]:1", Some("fe80::1%eth0")),
            ("", None),
        ] {
            assert_eq!(ip_of(address), ip);
        }
    }

    #[test]
    fn unknown_letters_are_no_condition() {
        assert_eq!(Condition::flags(b"xQ"), None);
        assert_eq!(Condition::flags(b"xN"), Some(Condition::Flags(b"xN".to_vec())));
        assert_eq!(Condition::capabilities(b"rx"), None);
        assert_eq!(Condition::capabilities(b"rr"), Some(Condition::Capabilities { redirect: true }));
    }

    #[test]
    fn a_later_condition_replaces_one_of_its_kind_but_ids_add_up() {
        let mut filter = Filter::default();
        filter.add(Condition::Ids(vec![3]), false);
        filter.add(Condition::Ids(vec![1]), false);
        filter.add(Condition::Db(1), true);
        filter.add(Condition::Db(2), true);
        assert_eq!(filter.ids(), Some(&[3, 1][..]));
        assert_eq!(filter.excluded, [Condition::Db(2)]);
    }
}
