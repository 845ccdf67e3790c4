//! A client's options for the keys that it caches (`CLIENT TRACKING`, `CLIENT CACHING`).
//!
//! Not here: which keys it has read (`shard::Tracking`), and how it is told of changes (`news.rs`).

use std::collections::BTreeSet;

use engine::{Command, CommandError, CommandResult, Rule, keyword_is, parse_i64};
use resp::Reply;
use shard::Subscriber;

/// A client's tracking: its mode, its prefixes and the receiver of its messages.
#[derive(Clone, Debug, Default)]
pub struct ClientTracking {
    /// The client that is told instead (`REDIRECT`); 0: none.
    pub redirect: u64,
    /// The client is told of all keys with its prefixes, even if it has not read them (`BCAST`).
    pub broadcasts: bool,
    /// Keys are tracked only after `CLIENT CACHING YES` (`OPTIN`).
    pub opts_in: bool,
    /// Keys are tracked unless `CLIENT CACHING NO` came before (`OPTOUT`).
    pub opts_out: bool,
    /// The prefixes of the keys that a broadcasting client is told of.
    pub prefixes: BTreeSet<Box<[u8]>>,
    /// The memory of the prefixes, here and in the shards.
    pub memory_bytes: usize,
    /// Which command `CLIENT CACHING` was about.
    pub caching: Caching,
    /// The client of `redirect` is gone.
    pub is_broken: bool,
}

/// The memory of a prefix in each shard.
const PREFIX_BYTES: usize = 128;

/// Which command `CLIENT CACHING` was about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Caching {
    /// None.
    #[default]
    Unsaid,
    /// The next one.
    Next,
    /// This one.
    Now,
}

impl ClientTracking {
    /// Called before `command`: ends the effect of `CLIENT CACHING` if it was about the command before. The effect
    /// outlasts subcommands of CLIENT, and covers a whole transaction. True if something changed.
    pub fn next_after_caching(&mut self, command: &Command, is_in_multi: bool) -> bool {
        self.caching = match self.caching {
            Caching::Now if !is_in_multi => Caching::Unsaid,
            Caching::Next if !command.entry.is_under(Rule::KeepsCaching) => Caching::Now,
            _ => return false,
        };
        true
    }

    /// Whether the keys of the next command are tracked.
    pub fn remembers(&self) -> bool {
        let is_said = self.caching != Caching::Unsaid;
        let opts_out = if is_said { self.opts_out } else { self.opts_in };
        !self.broadcasts && !opts_out
    }
    /// `CLIENT CACHING`: tracks the keys of the next command or transaction, or does not, contrary to the client's
    /// mode.
    pub fn say_caching(&mut self, word: &[u8]) -> CommandResult {
        let (is_yes, is_no) = (keyword_is(word, "YES"), keyword_is(word, "NO"));
        let text = match () {
            () if is_yes && !self.opts_in => {
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
            }
            () if is_no && !self.opts_out => {
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
            }
            () if is_yes || is_no => {
                self.caching = Caching::Next;
                return Ok(());
            }
            () => return Err(CommandError::SYNTAX),
        };
        Err(CommandError::fixed(text))
    }

    /// Where the client's messages about changed keys go. `find` returns the connection of a client.
    pub fn way(&mut self, find: impl FnOnce(u64) -> Option<Subscriber>) -> Way {
        if self.redirect == 0 {
            return Way::Itself;
        }
        let target = find(self.redirect);
        self.is_broken = target.is_none();
        target.map_or(Way::Broken(self.redirect), Way::To)
    }

    /// The client to which this one redirects, for `CLIENT LIST` and `CLIENT GETREDIR`. 0: none; -1: this client does
    /// not track keys.
    pub fn redirect_of(tracking: Option<&ClientTracking>) -> i64 {
        tracking.map_or(-1, |tracking| tracking.redirect as i64)
    }

    /// The reply to `CLIENT TRACKINGINFO`. `is_client`: whether a client with this id exists.
    pub fn write_info(
        tracking: Option<&ClientTracking>,
        no_loop: bool,
        is_client: impl FnOnce(u64) -> bool,
        reply: &mut Reply,
    ) {
        let redirect = ClientTracking::redirect_of(tracking);
        let none = ClientTracking::default();
        let tracking = tracking.unwrap_or(&none);
        let is_on = redirect >= 0;
        let is_broken = redirect > 0 && !is_client(tracking.redirect);
        let is_said = tracking.caching != Caching::Unsaid;
        let flags = [
            ("off", !is_on),
            ("on", is_on),
            ("bcast", tracking.broadcasts),
            ("optin", tracking.opts_in),
            ("caching-yes", tracking.opts_in && is_said),
            ("optout", tracking.opts_out),
            ("caching-no", tracking.opts_out && is_said),
            ("noloop", no_loop),
            ("broken_redirect", is_broken),
        ];
        reply.map(3);
        reply.bulk(b"flags");
        reply.set(flags.iter().filter(|(_, is_set)| *is_set).count());
        for (flag, _) in flags.iter().filter(|(_, is_set)| *is_set) {
            reply.bulk(flag.as_bytes());
        }
        reply.bulk(b"redirect");
        reply.int(redirect);
        reply.bulk(b"prefixes");
        reply.array(tracking.prefixes.len());
        tracking.prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    }
}

/// Where a client's messages about changed keys go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To the client itself.
    Itself,
    /// To the connection of another client.
    To(Subscriber),
    /// To the client with this id, which no longer exists.
    Broken(u64),
}

/// A request by `CLIENT TRACKING ON`.
#[derive(Debug, Default)]
pub struct Request<'a> {
    wanted: ClientTracking,
    /// The client is not told of its own changes (`NOLOOP`).
    pub no_loop: bool,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// Parses the arguments. `is_client`: whether a client with this id exists.
    pub fn parse(
        mut args: &'a [&'a [u8]],
        is_client: impl Fn(u64) -> bool,
    ) -> Result<Request<'a>, CommandError> {
        let mut request = Request::default();
        while let [word, after @ ..] = args {
            let is = |name| keyword_is(word, name);
            args = after;
            match after {
                [id, rest @ ..] if is("redirect") => {
                    if request.wanted.redirect != 0 {
                        let text = "ERR A client can only redirect to a single other client";
                        return Err(CommandError::fixed(text));
                    }
                    let id = parse_i64(id)? as u64;
                    if !is_client(id) {
                        let text = "ERR The client ID you want redirect to does not exist";
                        return Err(CommandError::fixed(text));
                    }
                    request.wanted.redirect = id;
                    args = rest;
                }
                [prefix, rest @ ..] if is("prefix") => {
                    request.prefixes.push(prefix);
                    args = rest;
                }
                _ if is("bcast") => request.wanted.broadcasts = true,
                _ if is("optin") => request.wanted.opts_in = true,
                _ if is("optout") => request.wanted.opts_out = true,
                _ if is("noloop") => request.no_loop = true,
                _ => return Err(CommandError::SYNTAX),
            }
        }
        Ok(request)
    }
    /// Refuses options that contradict each other or the client's former request.
    pub fn check(&self, old: Option<&ClientTracking>) -> CommandResult {
        let Request { wanted, prefixes, .. } = self;
        let text = match old {
            _ if !wanted.broadcasts && !prefixes.is_empty() => {
                "ERR PREFIX option requires BCAST mode to be enabled"
            }
            Some(old) if old.broadcasts != wanted.broadcasts => {
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."
            }
            _ if wanted.broadcasts && (wanted.opts_in || wanted.opts_out) => {
                "ERR OPTIN and OPTOUT are not compatible with BCAST"
            }
            _ if wanted.opts_in && wanted.opts_out => "ERR You can't specify both OPTIN mode and OPTOUT mode",
            Some(old) if wanted.opts_in && old.opts_out || wanted.opts_out && old.opts_in => {
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode."
            }
            _ => {
                return old.map_or(check_prefixes(prefixes, &BTreeSet::new()), |old| {
                    check_prefixes(prefixes, &old.prefixes)
                });
            }
        };
        Err(CommandError::fixed(text))
    }

    /// The client's tracking after this request. Prefixes of the former request are kept. `shard_count`: in how many
    /// shards prefixes are stored.
    pub fn follow(self, old: Option<&ClientTracking>, shard_count: usize) -> ClientTracking {
        let mut prefixes = old.map(|old| old.prefixes.clone()).unwrap_or_default();
        if self.wanted.broadcasts {
            prefixes.extend(self.prefixes.iter().map(|prefix| Box::from(*prefix)));
            if self.prefixes.is_empty() {
                prefixes.insert(Box::default());
            }
        }
        let memory_bytes = prefixes.iter().map(|prefix| 2 * prefix.len() + PREFIX_BYTES * shard_count).sum();
        ClientTracking { prefixes, memory_bytes, ..self.wanted }
    }
}

/// Refuses prefixes that begin with one another, because the client would be told twice of their keys.
fn check_prefixes(prefixes: &[&[u8]], known: &BTreeSet<Box<[u8]>>) -> CommandResult {
    let overlaps = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    let error = |prefix: &[u8], kind: &str, other: &[u8]| {
        let parts: [&[u8]; 6] = [
            b"ERR Prefix '",
            prefix,
            kind.as_bytes(),
            b" prefix '",
            other,
            b"'. Prefixes for a single client must not overlap.",
        ];
        Err(CommandError::new(parts.concat()))
    };
    for (index, prefix) in prefixes.iter().enumerate() {
        if let Some(other) = known.iter().find(|other| overlaps(prefix, other)) {
            return error(prefix, "' overlaps with an existing", other);
        }
        if let Some(other) = prefixes[index + 1..].iter().find(|other| overlaps(prefix, other)) {
            return error(prefix, "' overlaps with another provided", other);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use engine::{Entry, Table};
    use resp::{Output, Proto};

    use super::*;

    #[test]
    fn what_was_said_is_about_the_next_command_or_transaction() {
        const FAMILY: &[Entry] = &[
            Entry { name: "get", ..Entry::DEFAULT },
            Entry { name: "caching", rules: &[Rule::KeepsCaching], ..Entry::DEFAULT },
        ];
        let table = Table::new(&[FAMILY]);
        let [get, caching] = ["get", "caching"]
            .map(|name| table.declared_full(name.as_bytes()).expect("there is such a command"));
        let mut tracking =
            ClientTracking { opts_in: true, caching: Caching::Next, ..ClientTracking::default() };
        for (command, is_in_multi, is_news, remembers) in [
            (caching, false, false, true),
            (get, true, true, true),
            (get, true, false, true),
            (get, false, true, false),
            (get, false, false, false),
        ] {
            assert_eq!(tracking.next_after_caching(command, is_in_multi), is_news);
            assert_eq!(tracking.remembers(), remembers);
        }
        assert!(
            !ClientTracking { opts_out: true, caching: Caching::Now, ..ClientTracking::default() }
                .remembers()
        );
        assert!(!ClientTracking { broadcasts: true, ..ClientTracking::default() }.remembers());
    }

    fn request<'a>(args: &'a [&'a [u8]]) -> Result<Request<'a>, CommandError> {
        Request::parse(args, |id| id == 7)
    }

    /// The tracking of a client that had asked for `old`, if anything, and now asks for `new`; or the error.
    fn asked(old: Option<&str>, new: &str) -> Result<ClientTracking, String> {
        let before = old.map(|old| asked(None, old).expect("it may be asked for first"));
        let args: Vec<&[u8]> = new.split_whitespace().map(str::as_bytes).collect();
        let text = |error: CommandError| String::from_utf8_lossy(error.text()).into_owned();
        let request = request(&args).map_err(text)?;
        request.check(before.as_ref()).map_err(text)?;
        Ok(request.follow(before.as_ref(), 1))
    }

    #[test]
    fn prefixes_add_up_and_must_not_overlap() {
        let tracking = asked(Some("BCAST PREFIX a"), "BCAST PREFIX b").expect("it may be added");
        assert_eq!(tracking.prefixes.iter().map(|prefix| prefix[0]).collect::<Vec<_>>(), *b"ab");
        assert_eq!(asked(None, "BCAST").expect("all keys").prefixes.len(), 1);
        for (old, new, expected) in [
            (None, "PREFIX a", "ERR PREFIX option requires BCAST mode to be enabled"),
            (None, "BCAST PREFIX a PREFIX ab", "ERR Prefix 'a' overlaps with another provided prefix 'ab'. "),
            (
                Some("BCAST PREFIX ab"),
                "BCAST PREFIX a",
                "ERR Prefix 'a' overlaps with an existing prefix 'ab'. ",
            ),
        ] {
            let error = asked(old, new).expect_err("it is refused");
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (old, new) in [
            (None, "OPTIN OPTOUT"),
            (None, "BCAST OPTIN"),
            (None, "REDIRECT 8"),
            (None, "REDIRECT 7 REDIRECT 7"),
            (None, "NONSENSE"),
            (Some("BCAST"), "OPTIN"),
            (Some("OPTIN"), "OPTOUT"),
        ] {
            asked(old, new).expect_err(new);
        }
    }

    #[test]
    fn caching_is_said_only_against_the_rule() {
        for (mode, word, is_ok) in [
            ("OPTIN", "yes", true),
            ("OPTIN", "no", false),
            ("OPTOUT", "NO", true),
            ("", "yes", false),
            ("OPTIN", "x", false),
        ] {
            let mut tracking = asked(None, mode).expect("it may be asked for");
            assert_eq!(tracking.say_caching(word.as_bytes()).is_ok(), is_ok, "{mode} {word}");
            assert_eq!(tracking.caching == Caching::Next, is_ok);
        }
    }

    #[test]
    fn news_go_to_the_other_client_as_long_as_there_is_one() {
        let target = Subscriber { thread: 1, connection: 2 };
        assert_eq!(asked(None, "").expect("itself").way(|_| None), Way::Itself);
        let mut tracking = asked(None, "REDIRECT 7").expect("there is this client");
        assert_eq!(tracking.way(|_| None), Way::Broken(7));
        assert!(tracking.is_broken);
        assert_eq!(tracking.way(|id| (id == 7).then_some(target)), Way::To(target));
        assert!(!tracking.is_broken);
    }

    #[test]
    fn a_client_is_told_what_it_tracks() {
        for (asked_for, expected) in [
            (None, "*6 $5 flags *1 $3 off $8 redirect :-1 $8 prefixes *0"),
            (
                Some("BCAST REDIRECT 7 PREFIX a"),
                "*6 $5 flags *3 $2 on $5 bcast $15 broken_redirect $8 redirect :7 $8 prefixes *1 $1 a",
            ),
        ] {
            let tracking = asked_for.map(|text| asked(None, text).expect("it may be asked for"));
            let mut out = Output::new();
            let mut reply = Reply::new(&mut out, Proto::Resp2);
            ClientTracking::write_info(tracking.as_ref(), false, |_| false, &mut reply);
            assert_eq!(String::from_utf8_lossy(&out.to_vec()).replace("\r\n", " ").trim_end(), expected);
        }
    }
}
