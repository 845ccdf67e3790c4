//! What a replica sends before it gets any data, and how it handles the answers.

use std::fmt;

use effectlog::StreamPosition;

use super::error::shown;
use super::{Event, Link, LinkError, LinkStage, OFFSET_MAX, Position, ReplicationId};

/// A capability unknown to Redis: the replica answers a question for the offset when it has applied the question, with
/// the offset behind it.
pub(crate) const ANSWERS_BEHIND: &str = "darter-getack";
/// A capability unknown to Redis: the replica understands everything in a stream and a snapshot of this version of
/// Darter.
pub(crate) const READS_ALL: &str = "darter-1";

/// A capability unknown to Redis: the replica receives clients before it takes over.
pub(crate) const RECEIVES: &str = "darter-receive";

/// How a replica authenticates.
#[derive(Clone)]
pub struct Credentials {
    /// The user; `None` is the default user.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The subject of the next answer, in the order of the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeStep {
    Ping,
    Auth,
    Port,
    Address,
    Capabilities,
    Mark,
    Node,
    Psync,
}

impl HandshakeStep {
    /// The option of REPLCONF that the answer is about. An older primary may not know it, and works without it.
    fn option(self) -> Option<&'static str> {
        match self {
            HandshakeStep::Port => Some("listening-port"),
            HandshakeStep::Address => Some("ip-address"),
            HandshakeStep::Capabilities => Some("capa"),
            HandshakeStep::Mark => Some("mark"),
            HandshakeStep::Ping | HandshakeStep::Auth | HandshakeStep::Node | HandshakeStep::Psync => None,
        }
    }
}

impl Link {
    /// Asks whether the primary responds.
    pub(super) fn begin_handshake(&mut self) {
        self.send(&["PING"]);
        self.stage = LinkStage::Handshake(HandshakeStep::Ping);
    }

    /// Handles the answer to a step.
    pub(super) fn answered<'e>(
        &mut self,
        step: HandshakeStep,
        line: &[u8],
        now_ms: u64,
    ) -> Result<Option<Event<'e>>, LinkError> {
        let is_error = line.first() == Some(&b'-');
        match step {
            HandshakeStep::Ping => self.ping_answered(line)?,
            HandshakeStep::Auth if is_error => return Err(LinkError::Auth(shown(line))),
            HandshakeStep::Node if is_error => return Err(LinkError::TryLater(shown(line))),
            HandshakeStep::Mark => {
                // A primary that knows no marks is asked for no more.
                self.is_proven |= is_error;
                self.expect_answer_after(step);
            }
            HandshakeStep::Auth
            | HandshakeStep::Port
            | HandshakeStep::Address
            | HandshakeStep::Capabilities
            | HandshakeStep::Node => self.expect_answer_after(step),
            HandshakeStep::Psync => return self.psync_answered(line, now_ms),
        }
        let option = step.option().filter(|_| is_error);
        Ok(option.map(|option| Event::NotUnderstood { option, answer: shown(line) }))
    }

    fn ping_answered(&mut self, line: &[u8]) -> Result<(), LinkError> {
        // A primary that wants a password first is there, and so is one whose disk takes nothing.
        let alive: [&[u8]; 5] = [b"+", b"-NOAUTH", b"-NOPERM", b"-MISCONF", b"-ERR operation not permitted"];
        if !alive.iter().any(|start| line.starts_with(start)) {
            return Err(LinkError::Ping(shown(line)));
        }
        // All at once: the answers come in the same order.
        if let Some(Credentials { user, password }) = self.options.credentials.clone() {
            match user {
                Some(user) => self.send(&["AUTH", &user, &password]),
                None => self.send(&["AUTH", &password]),
            }
        }
        let port = self.options.port.to_string();
        self.send(&["REPLCONF", "listening-port", &port]);
        if let Some(address) = self.options.address.clone() {
            self.send(&["REPLCONF", "ip-address", &address]);
        }
        let own = [ANSWERS_BEHIND, READS_ALL, RECEIVES];
        let capabilities = ["eof", "psync2"].into_iter().chain(own).flat_map(|name| ["capa", name]);
        self.send(&[&["REPLCONF"], &capabilities.collect::<Vec<_>>()[..]].concat());
        if let Some(mark) = self.options.mark {
            self.send(&[&b"REPLCONF"[..], b"mark", &mark]);
        }
        if let Some(node) = self.options.node.clone() {
            self.is_silent = true;
            self.send(&["REPLCONF", "group", &node]);
        }
        self.expect_answer_after(HandshakeStep::Ping);
        Ok(())
    }

    /// Expects the next answer after that to `step`; after the last one, asks for the stream.
    fn expect_answer_after(&mut self, step: HandshakeStep) {
        let next = match step {
            HandshakeStep::Ping if self.options.credentials.is_some() => HandshakeStep::Auth,
            HandshakeStep::Ping | HandshakeStep::Auth => HandshakeStep::Port,
            HandshakeStep::Port if self.options.address.is_some() => HandshakeStep::Address,
            HandshakeStep::Port | HandshakeStep::Address => HandshakeStep::Capabilities,
            HandshakeStep::Capabilities if self.options.mark.is_some() => HandshakeStep::Mark,
            HandshakeStep::Capabilities | HandshakeStep::Mark if self.options.node.is_some() => {
                HandshakeStep::Node
            }
            HandshakeStep::Capabilities
            | HandshakeStep::Mark
            | HandshakeStep::Node
            | HandshakeStep::Psync => {
                self.ask_for_stream();
                HandshakeStep::Psync
            }
        };
        self.stage = LinkStage::Handshake(next);
    }

    fn ask_for_stream(&mut self) {
        let Some(Position { id, offset }) = self.options.resume else {
            return self.send(&["PSYNC", "?", "-1"]);
        };
        let first = offset.plus(1).to_string();
        let mut args = vec![&b"PSYNC"[..], id.as_bytes(), first.as_bytes()];
        args.extend(self.options.hands_over.then_some(&b"FAILOVER"[..]));
        args.extend((self.options.hands_over && self.options.forces).then_some(&b"FORCE"[..]));
        self.send(&args);
    }

    fn psync_answered<'e>(&mut self, line: &[u8], now_ms: u64) -> Result<Option<Event<'e>>, LinkError> {
        let mut words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        if self.options.node.is_some() && matches!(words[0], b"+CONTINUE" | b"+FULLRESYNC") {
            let number = words.pop().and_then(resp::parse_integer);
            let number = number.and_then(|number| u64::try_from(number).ok());
            self.number = Some(number.ok_or_else(|| LinkError::Psync(shown(line)))?);
        }
        match words[..] {
            // A newline says that the primary is at work.
            [b""] => Ok(None),
            [b"+FULLRESYNC", id, offset] if self.options.takes_snapshots => {
                let offset = resp::parse_integer(offset)
                    .and_then(|offset| u64::try_from(offset).ok())
                    .map(StreamPosition::new);
                let position = ReplicationId::parse(id).zip(offset.filter(|offset| *offset <= OFFSET_MAX));
                let (id, offset) = position.ok_or_else(|| LinkError::Psync(shown(line)))?;
                (self.id, self.offset) = (Some(id), offset);
                self.stage = LinkStage::SnapshotHeader;
                Ok(Some(Event::FullSync(Some(Position { id, offset }))))
            }
            [b"+CONTINUE", ref new_id @ ..] => {
                let resume = self.options.resume.ok_or_else(|| LinkError::Psync(shown(line)))?;
                let id = match new_id {
                    [] => Some(resume.id),
                    [id] => ReplicationId::parse(id),
                    _ => None,
                };
                let id = id.ok_or_else(|| LinkError::Psync(shown(line)))?;
                (self.id, self.offset) = (Some(id), resume.offset);
                self.stage = LinkStage::Stream;
                self.acknowledge(now_ms);
                Ok(Some(Event::Continued(id)))
            }
            [b"-NOMASTERLINK" | b"-LOADING", ..] => Err(LinkError::TryLater(shown(line))),
            _ if self.options.hands_over || !self.options.takes_snapshots => {
                Err(LinkError::NoFailover(shown(line)))
            }
            [b"+FULLRESYNC", ..] => Err(LinkError::Psync(shown(line))),
            _ => {
                // It is older than PSYNC, or does not let this replica use it.
                tracing::warn!("Unexpected reply to PSYNC from master: {}", shown(line));
                self.send(&["SYNC"]);
                self.stage = LinkStage::SnapshotHeader;
                Ok(Some(Event::FullSync(None)))
            }
        }
    }
}
