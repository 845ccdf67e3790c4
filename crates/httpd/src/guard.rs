//! Authorizes requests: checks the host name, the user and, for commands, the page that sends them.
//!
//! Protection from other web sites: a request must name this server by an address, a loopback name or a name in
//! `http-hosts`, so that an attacker's name cannot be made to lead here (DNS rebinding). Only pages of this server may
//! read the API or send commands, and commands need a token that only such a page can have read.

use std::net::SocketAddr;

use acl::{Access, CallerDb, Lack, Origin};
use config::{HTTP_HOSTS, TLS_AUTH_CLIENTS_USER};
use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderName};

use crate::json::from_base64;
use crate::messenger::Messenger;
use crate::reply::Refusal;
use crate::state::HttpState;

/// Says which site a request comes from. Browsers send it, and a page cannot forge it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The header with the token for commands.
const TOKEN: HeaderName = HeaderName::from_static("x-darter-token");
/// After this many wrong passwords from one address, further ones are ignored for a while.
const AUTH_FAILURES_MAX: u64 = 10;
/// The error of protected mode, as far as possible in Redis' words.
const PROTECTED: &str = "DENIED protected mode is enabled and no password is set for the default user. In this mode \
     connections are only accepted from the loopback interface. Set a password, or protected-mode no.";

/// A user's name and password.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) user: Vec<u8>,
    pub(crate) password: Vec<u8>,
}

/// The other end of a connection.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// The common name in the peer's certificate.
    pub(crate) common_name: Option<String>,
}

/// The sender of a request.
pub(crate) struct Visitor {
    pub(crate) peer: SocketAddr,
    pub(crate) access: Access,
}

impl Visitor {
    /// The name of the user.
    pub(crate) fn user(&self) -> String {
        String::from_utf8_lossy(&self.access.user().name).into_owned()
    }

    /// Whether the user may run this command without keys.
    pub(crate) fn may(&self, state: &HttpState, args: &[&str]) -> bool {
        self.lack(state, args).is_none()
    }

    fn lack(&self, state: &HttpState, args: &[&str]) -> Option<Lack> {
        let facts = state.source.facts();
        let table = facts.table();
        let command = table.declared_full(args.join("|").as_bytes());
        let command = command.or_else(|| table.declared(args[0].as_bytes()))?;
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        // These commands name no database, and connections begin in the first.
        self.access.check(CallerDb { db: 0, count: 1 }, command, &args).err()
    }

    /// Checks that the user may run the command with this information. If not, runs it as that user: its refusal is
    /// counted and logged like any other.
    pub(crate) async fn need(&self, state: &HttpState, args: &[&str]) -> Result<(), Refusal> {
        if self.may(state, args) {
            return Ok(());
        }
        if let Ok(mut messenger) = Messenger::open(state.source, self) {
            let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
            // The command runs only to be refused, counted and logged.
            let _ = messenger.call(&args).await;
        }
        let command = args.join(" ").to_uppercase();
        Err(Refusal::forbidden(format!("NOPERM User {} has no permissions to run {command}", self.user())))
    }
}

/// Refuses a request that names another server.
pub(crate) fn check_host(headers: &HeaderMap, allowed: &str) -> Result<(), Refusal> {
    let host = text(headers, &header::HOST).ok_or_else(|| Refusal::bad("the Host header is missing"))?;
    if is_known_host(host, allowed) {
        return Ok(());
    }
    Err(Refusal::forbidden("unknown host name: add it to the setting http-hosts"))
}

/// Refuses a request from a page of another site. Programs other than browsers send no such header.
pub(crate) fn check_site(headers: &HeaderMap) -> Result<(), Refusal> {
    match text(headers, &SEC_FETCH_SITE) {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) => Err(Refusal::forbidden("pages of another site may not request this")),
    }
}

/// Refuses a command that was not sent by a page of this server.
pub(crate) fn check_command(headers: &HeaderMap, token: &str) -> Result<(), Refusal> {
    let is_json = text(headers, &header::CONTENT_TYPE)
        .and_then(|kind| kind.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    if !is_json {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Refusal::new(status, "a command must be sent as application/json"));
    }
    let origin = text(headers, &header::ORIGIN);
    let has_own_origin = origin.map(|origin| {
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        let host = text(headers, &header::HOST).unwrap_or_default();
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    });
    let has_own_site = text(headers, &SEC_FETCH_SITE).map(|site| site == "same-origin");
    let is_own = has_own_origin.unwrap_or(true) && has_own_site.unwrap_or(true);
    if !is_own || (has_own_origin.is_none() && has_own_site.is_none()) {
        return Err(Refusal::forbidden("a command needs an Origin, or a Sec-Fetch-Site, of this server"));
    }
    let given = text(headers, &TOKEN).unwrap_or_default();
    if !is_equal(given.as_bytes(), token.as_bytes()) {
        return Err(Refusal::forbidden("a command needs the token of /api/overview in X-Darter-Token"));
    }
    Ok(())
}

/// The access of a peer that sends no password: it is the user of its certificate, if the settings say so, or the
/// default user.
fn access_of(state: &HttpState, peer: &Peer) -> Access {
    let users = state.source.users();
    let name = peer.common_name.as_ref().filter(|_| state.source.settings().is_on(TLS_AUTH_CLIENTS_USER));
    name.and_then(|name| users.vouch_for(name.as_bytes())).unwrap_or_else(|| users.access())
}

/// Finds out who sent the request, and whether that user is accepted.
pub(crate) async fn identify(
    state: &HttpState,
    from: &Peer,
    headers: &HeaderMap,
) -> Result<Visitor, Refusal> {
    let users = state.source.users();
    let peer = from.address;
    let is_protected = state.source.settings().is_protected() && users.takes_any_password();
    if is_protected && !is_on_this_machine(peer) {
        return Err(Refusal::forbidden(PROTECTED));
    }
    if !headers.contains_key(header::AUTHORIZATION) {
        let visitor = Visitor { peer, access: access_of(state, from) };
        return if visitor.access.is_authenticated() { Ok(visitor) } else { Err(unauthorized()) };
    }
    let credentials = text(headers, &header::AUTHORIZATION).and_then(basic).ok_or_else(unauthorized)?;
    let (from, now_ms) = (Origin::of(peer.ip()), state.started.elapsed().as_millis() as u64);
    if !state.throttle.borrow().admits(from, now_ms, AUTH_FAILURES_MAX) {
        state.counts.throttled.set(state.counts.throttled.get() + 1);
        let why = "too many wrong passwords from this address; try again in ten seconds";
        return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, why));
    }
    match users.authenticate(&credentials.user, &credentials.password) {
        Some(access) => Ok(Visitor { peer, access }),
        None => {
            state.throttle.borrow_mut().note_failure(from, now_ms);
            // The server refuses it, too, and so counts and logs it as any AUTH.
            if let Ok(mut messenger) = Messenger::open_as_nobody(state.source, &peer.to_string()) {
                let _ = messenger.call(&[b"AUTH", &credentials.user, &credentials.password]).await;
            }
            Err(unauthorized())
        }
    }
}

fn is_on_this_machine(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}

fn unauthorized() -> Refusal {
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        "a user name and password are required (HTTP basic authentication)",
    )
}

/// The value of a header that occurs once and is text.
fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok();
    if values.next().is_some() { None } else { value }
}

/// The credentials in a header of basic authentication. Without a name they are the default user's.
pub(crate) fn basic(value: &str) -> Option<Credentials> {
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = from_base64(encoded.trim().as_bytes())?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let user = if colon == 0 { acl::DEFAULT.to_vec() } else { decoded[..colon].to_vec() };
    Some(Credentials { user, password: decoded[colon + 1..].to_vec() })
}

/// Whether a `Host` can only mean this server. An address always does, since no name of another site leads there.
fn is_known_host(host: &str, allowed: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name.parse::<std::net::IpAddr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || allowed.split_whitespace().any(|known| known == "*" || known.eq_ignore_ascii_case(&name))
}

/// Compares in constant time.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b));
    one.len() == other.len() && difference == 0
}

/// The host names that requests may use, from the setting.
pub(crate) fn allowed_hosts(state: &HttpState) -> std::sync::Arc<str> {
    state.source.settings().text(HTTP_HOSTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_cannot_be_made_to_lead_here_are_known() {
        for (host, is_known) in [
            ("localhost", true),
            ("LocalHost.:9121", true),
            ("darter.localhost:80", true),
            ("127.0.0.1:9121", true),
            ("10.1.2.3", true),
            ("[::1]:9121", true),
            ("redis.example.org:1", true),
            ("evil.example:9121", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("evil.example:127.0.0.1", false),
            ("", false),
            ("[evil]:1", false),
        ] {
            assert_eq!(is_known_host(host, "other redis.example.org"), is_known, "{host}");
        }
        assert!(is_known_host("evil.example", "*"));
    }

    #[test]
    fn protected_mode_lets_in_who_is_on_this_machine() {
        for (peer, is_inside) in [
            ("127.0.0.1:5", true),
            ("[::1]:5", true),
            ("[::ffff:127.0.0.1]:5", true),
            ("10.0.0.1:5", false),
            ("[2001:db8::1]:5", false),
        ] {
            assert_eq!(is_on_this_machine(peer.parse().unwrap()), is_inside, "{peer}");
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let all = [("host", "localhost:80"), ("content-type", "application/json; charset=utf-8")];
        all.iter()
            .chain(pairs)
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn commands_come_from_pages_of_this_server() {
        let (token, origin) = (("x-darter-token", "secret"), ("origin", "http://localhost:80"));
        for (pairs, is_fine) in [
            (vec![token, origin], true),
            (vec![token, ("sec-fetch-site", "same-origin")], true),
            (vec![token, origin, ("sec-fetch-site", "same-site")], false),
            (vec![token, ("origin", "http://evil.example")], false),
            (vec![token, ("origin", "http://localhost:81")], false),
            (vec![token, ("origin", "null")], false),
            (vec![token], false),
            (vec![origin], false),
            (vec![origin, ("x-darter-token", "secreT")], false),
            (vec![origin, ("x-darter-token", "secret2")], false),
        ] {
            assert_eq!(check_command(&headers(&pairs), "secret").is_ok(), is_fine, "{pairs:?}");
        }
    }

    #[test]
    fn credentials_are_a_name_and_a_password() {
        let read = |value: &str| basic(value).map(|read| (read.user, read.password));
        let both = |user: &str, password: &str| Some((user.into(), password.into()));
        // "alice:se:cret" and ":secret"
        assert_eq!(read("Basic YWxpY2U6c2U6Y3JldA=="), both("alice", "se:cret"));
        assert_eq!(read("basic OnNlY3JldA=="), both("default", "secret"));
        assert_eq!(read("Bearer YWxpY2U6c2U6Y3JldA=="), None);
        assert_eq!((read("Basic YWxpY2U="), read("Basic !"), read("Basic")), (None, None, None));
    }
}
