//! The command line of `darter --cluster`.
//!
//! ```text
//!   darter [/path/to/darter.conf] [--setting value]… --cluster VERB [NODE…] [--flag]… [--setting value]…
//! ```
//!
//! All flags that are not those of the verb are settings, with the words up to the next flag. So the file of a server, or one
//! setting, says where the store is.

use std::time::Duration;

use agent::Adoption;
use config::{Invocation, Settings, TABLE};
use topology::{NodeId, Term};

use crate::cluster::error::Error;
use crate::remote::figures::shown;

/// The flag that begins the verb.
pub(crate) const FLAG: &str = "--cluster";
/// How many characters of a quoted word an error shows.
const SHOWN_LETTERS_MAX: usize = 64;
/// How long the primary tries to hand over.
const TIMEOUT_MS: u64 = 5_000;
/// The longest time.
const TIMEOUT_MS_MAX: u64 = 60_000;

/// The flags of verbs, and whether a value follows.
const FLAGS: [(&str, bool); 9] = [
    ("--json", false),
    ("--timeout-ms", true),
    ("--user", true),
    ("--pass", true),
    ("--accept-loss", true),
    ("--stopped", false),
    ("--above-term", true),
    ("--accept-store", false),
    ("--moved", false),
];

/// A verb, and the configuration that says where.
#[derive(Debug)]
pub(crate) struct ClusterTask {
    pub(crate) verb: Verb,
    pub(crate) settings: Settings,
}

/// A verb with its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create(Vec<NodeId>),
    Status { as_json: bool },
    Add(Vec<NodeId>),
    Remove(NodeId),
    Failover(HandoverOrder),
    Diagnose,
    AcceptLoss(LossOrder),
    AcceptStore,
    Adopt(Adoption),
    Dead,
}

/// A handover that a person wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HandoverOrder {
    /// The node that is to lead; `None`: the primary chooses.
    pub(crate) to: Option<NodeId>,
    pub(crate) timeout: Duration,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// A recovery that may lose acknowledged writes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LossOrder {
    /// The node that is to lead.
    pub(crate) leader: NodeId,
    /// The person says that all servers that were in sync are stopped.
    pub(crate) are_stopped: bool,
    /// The term above which the new one must be.
    pub(crate) above: Term,
}

/// The words after the verb.
#[derive(Default)]
struct Given {
    words: Vec<String>,
    flags: Vec<(&'static str, String)>,
    /// The arguments that are settings.
    settings: Vec<String>,
}

impl ClusterTask {
    /// Parses the arguments, and reads the configuration that they name.
    pub(crate) fn parse(args: &[String]) -> Result<ClusterTask, Error> {
        let (verb, settings) = parse_verb(args)?;
        let Invocation::Serve(mut arguments) = Invocation::parse(&TABLE, &settings)? else {
            return Err(usage(format!("{FLAG} cannot be combined with other tasks: see --help")));
        };
        arguments.note_environment(std::env::vars_os());
        let (settings, mut found) = Settings::read(&arguments)?;
        found.check()?;
        Ok(ClusterTask { verb, settings })
    }
}

/// The verb, and the arguments that are settings.
fn parse_verb(args: &[String]) -> Result<(Verb, Vec<String>), Error> {
    let at = args.iter().position(|arg| arg == FLAG).expect("the caller has seen the flag");
    let (before, after) = (&args[..at], &args[at + 1..]);
    let verbs = "create, status, add, remove, failover, repair, adopt or dead";
    let Some((verb, rest)) = after.split_first() else {
        return Err(usage(format!("{FLAG} needs a verb: {verbs}")));
    };
    let mut given = Given::parse(rest)?;
    let mut settings = before.to_vec();
    settings.append(&mut given.settings);
    let verb = match verb.as_str() {
        "create" => Verb::Create(given.nodes()?),
        "status" => Verb::Status { as_json: given.has("--json") },
        "add" => match given.nodes()? {
            nodes if nodes.is_empty() => return Err(usage("add needs the names of nodes".to_owned())),
            nodes => Verb::Add(nodes),
        },
        "remove" => {
            Verb::Remove(given.node()?.ok_or_else(|| usage("remove needs the name of a node".to_owned()))?)
        }
        "failover" => Verb::Failover(HandoverOrder {
            to: given.node()?,
            timeout: given.timeout()?,
            user: given.value("--user"),
            password: given.value("--pass").or_else(|| std::env::var("REDISCLI_AUTH").ok()),
        }),
        "repair" => given.repair()?,
        "adopt" if given.has("--moved") => Verb::Adopt(Adoption::Moved),
        "adopt" => Verb::Adopt(Adoption::NewNode),
        "dead" => Verb::Dead,
        other => return Err(usage(format!("'{}' is no verb of {FLAG}, which are {verbs}", quoted(other)))),
    };
    given.check_empty()?;
    Ok((verb, settings))
}

impl Given {
    fn parse(args: &[String]) -> Result<Given, Error> {
        let mut given = Given::default();
        let mut args = args.iter();
        // Whether the words belong to a setting.
        let mut in_setting = false;
        while let Some(arg) = args.next() {
            let (name, inner) = match arg.split_once('=') {
                Some((name, value)) if arg.starts_with("--") => (name, Some(value.to_owned())),
                _ => (arg.as_str(), None),
            };
            match FLAGS.iter().find(|(flag, _)| *flag == name) {
                Some((flag, true)) => {
                    let value = inner.or_else(|| args.next().cloned()).filter(|value| !value.is_empty());
                    let value = value.ok_or_else(|| usage(format!("{flag} needs a value")))?;
                    given.flags.push((flag, value));
                    in_setting = false;
                }
                Some((flag, false)) if inner.is_none() => {
                    given.flags.push((flag, String::new()));
                    in_setting = false;
                }
                Some((flag, false)) => return Err(usage(format!("{flag} has no value"))),
                None if in_setting || arg.starts_with('-') => {
                    in_setting = true;
                    given.settings.push(arg.clone());
                }
                None => given.words.push(arg.clone()),
            }
        }
        Ok(given)
    }

    /// Takes a flag without a value.
    fn has(&mut self, flag: &str) -> bool {
        self.value(flag).is_some()
    }

    /// Takes a flag; if it comes twice, the last one.
    fn value(&mut self, flag: &str) -> Option<String> {
        let last = self.flags.iter().rev().find(|(known, _)| *known == flag).map(|(_, value)| value.clone());
        self.flags.retain(|(known, _)| *known != flag);
        last
    }

    /// Takes the words, which are names of nodes.
    fn nodes(&mut self) -> Result<Vec<NodeId>, Error> {
        std::mem::take(&mut self.words).iter().map(|word| node(word)).collect()
    }

    /// Takes the only word.
    fn node(&mut self) -> Result<Option<NodeId>, Error> {
        match &std::mem::take(&mut self.words)[..] {
            [] => Ok(None),
            [word] => node(word).map(Some),
            [_, second, ..] => Err(usage(format!("'{}' is one node too many", quoted(second)))),
        }
    }

    fn timeout(&mut self) -> Result<Duration, Error> {
        let Some(value) = self.value("--timeout-ms") else { return Ok(Duration::from_millis(TIMEOUT_MS)) };
        let ms = value.parse::<u64>().ok().filter(|ms| (1..=TIMEOUT_MS_MAX).contains(ms));
        ms.map(Duration::from_millis).ok_or_else(|| {
            usage(format!("--timeout-ms is a number from 1 to {TIMEOUT_MS_MAX}, not '{}'", quoted(&value)))
        })
    }

    fn repair(&mut self) -> Result<Verb, Error> {
        if self.has("--accept-store") {
            return Ok(Verb::AcceptStore);
        }
        let Some(leader) = self.value("--accept-loss") else { return Ok(Verb::Diagnose) };
        let above = match self.value("--above-term") {
            None => Term(0),
            Some(value) => {
                let term = value.parse::<u64>().ok().filter(|term| *term < Term::MAX.0);
                let wrong = || usage(format!("--above-term is a term, not '{}'", quoted(&value)));
                Term(term.ok_or_else(wrong)?)
            }
        };
        Ok(Verb::AcceptLoss(LossOrder { leader: node(&leader)?, are_stopped: self.has("--stopped"), above }))
    }

    /// Refuses what the verb has not taken.
    fn check_empty(&self) -> Result<(), Error> {
        let word = self.words.first().map(String::as_str).or(self.flags.first().map(|(flag, _)| *flag));
        word.map_or(Ok(()), |word| Err(usage(format!("'{}' cannot be used here: see --help", quoted(word)))))
    }
}

fn node(word: &str) -> Result<NodeId, Error> {
    word.parse().map_err(|why| usage(format!("'{}' is no name of a node: {why}", quoted(word))))
}

fn usage(why: String) -> Error {
    Error::Usage(why)
}

fn quoted(word: &str) -> String {
    shown(word.as_bytes(), SHOWN_LETTERS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(Verb, String), String> {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let parsed = parse_verb(&args).map(|(verb, settings)| (verb, settings.join(" ")));
        parsed.map_err(|error| error.to_string())
    }

    fn nodes(names: &[&str]) -> Vec<NodeId> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn the_verb_stands_between_settings() {
        for (line, verb, settings) in [
            ("x.conf --cluster status --json", Verb::Status { as_json: true }, "x.conf"),
            (
                "--cluster status --cluster-etcd http://a,http://b",
                Verb::Status { as_json: false },
                "--cluster-etcd http://a,http://b",
            ),
            (
                "x.conf --port 1 --cluster add b c --cluster-name=shop --bind 1 2",
                Verb::Add(nodes(&["b", "c"])),
                "x.conf --port 1 --cluster-name=shop --bind 1 2",
            ),
            ("--cluster create", Verb::Create(Vec::new()), ""),
            ("--cluster create --dir /a b", Verb::Create(Vec::new()), "--dir /a b"),
            ("--cluster remove b", Verb::Remove("b".parse().unwrap()), ""),
            ("--cluster repair", Verb::Diagnose, ""),
            ("--cluster repair --accept-store", Verb::AcceptStore, ""),
            ("--cluster adopt", Verb::Adopt(Adoption::NewNode), ""),
            ("--cluster adopt --moved", Verb::Adopt(Adoption::Moved), ""),
            ("--cluster dead", Verb::Dead, ""),
        ] {
            assert_eq!(parse(line), Ok((verb, settings.to_owned())), "{line}");
        }
        let (verb, settings) =
            parse("--cluster repair --accept-loss b --above-term=7 --stopped --cluster-group g2").unwrap();
        let order = LossOrder { leader: "b".parse().unwrap(), are_stopped: true, above: Term(7) };
        assert_eq!((verb, settings.as_str()), (Verb::AcceptLoss(order), "--cluster-group g2"));
        let order = HandoverOrder {
            to: Some("b".parse().unwrap()),
            timeout: Duration::from_millis(100),
            user: Some("u".to_owned()),
            password: Some("p".to_owned()),
        };
        let (verb, _) = parse("--cluster failover b --timeout-ms 100 --user u --pass p").unwrap();
        assert_eq!(verb, Verb::Failover(order));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let verbs = "create, status, add, remove, failover, repair, adopt or dead";
        for (line, expected) in [
            ("--cluster", format!("--cluster needs a verb: {verbs}")),
            ("--cluster crate", format!("'crate' is no verb of --cluster, which are {verbs}")),
            ("--cluster add", "add needs the names of nodes".to_owned()),
            ("--cluster remove", "remove needs the name of a node".to_owned()),
            ("--cluster remove a b", "'b' is one node too many".to_owned()),
            ("--cluster status a", "'a' cannot be used here: see --help".to_owned()),
            ("--cluster status --moved", "'--moved' cannot be used here: see --help".to_owned()),
            ("--cluster status --json=1", "--json has no value".to_owned()),
            ("--cluster repair --stopped", "'--stopped' cannot be used here: see --help".to_owned()),
            ("--cluster repair --accept-loss", "--accept-loss needs a value".to_owned()),
            ("--cluster repair --accept-loss b --above-term x", "--above-term is a term, not 'x'".to_owned()),
            (
                "--cluster failover --timeout-ms 0",
                "--timeout-ms is a number from 1 to 60000, not '0'".to_owned(),
            ),
        ] {
            assert_eq!(parse(line), Err(expected), "{line}");
        }
        let error = parse("--cluster add a/b").unwrap_err();
        assert!(error.starts_with("'a/b' is no name of a node: a name has 1 to 64"), "{error}");
    }
}
