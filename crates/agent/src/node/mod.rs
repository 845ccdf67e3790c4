//! A running node of a group: threads that drive the rules (`group::Member`) beside the server's own.
//!
//! ```text
//!   watching ── learn ──┐                       ┌── orders ──▶ the first thread takes the role
//!                       ▼                       │
//!   changing ──▶ replication::Membership ──▶ steering ── manifest, gate
//!   granting ──▶        ▲
//!                       └── links, acknowledgements, beats from the server's connections
//! ```
//!
//! Each may wait for the store, a disk or a peer; none of them holds up another one, and no command waits for any.
//!
//! Not here: the rules, and what the server's threads do with them (`replication`'s `membership.rs`).

mod bell;
mod changing;
mod granting;
mod joining;
mod peer;
mod steering;
mod watching;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};

use config::Settings;
use group::{Member, Role, Trouble};
use replication::{Address, Membership, NotedTerms, Parts};
use topology::{Announcement, GroupId, Instance, NodeId, Reading, Store, Term};

use self::bell::Bell;
pub use self::joining::Joining;
pub use self::peer::DialTls;
use crate::announcing::ProcessFacts;
use crate::error::Error;
use crate::node_state::NodeState;

/// The most troubles that are remembered.
const TROUBLES_MAX: usize = 100;

/// See the head of this file. Never freed: its threads live as long as the process.
pub struct Agent {
    parts: Parts,
    me: Instance,
    group: GroupId,
    facts: ProcessFacts,
    tls: DialTls,
    /// The state file.
    state: Mutex<NodeState>,
    /// Where nodes were announced last.
    nodes: Mutex<BTreeMap<NodeId, Announcement>>,
    /// Troubles with the store and the document since the document was last followed: each is logged once.
    troubles: Mutex<BTreeSet<String>>,
    bell: Bell,
    changes: Bell,
    grants: Bell,
    is_stopping: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Agent {
    /// See [`Joining::begin`].
    fn start(
        parts: Parts,
        state: NodeState,
        me: Instance,
        facts: ProcessFacts,
        tls: DialTls,
    ) -> Result<&'static Agent, Error> {
        let settings = parts.settings;
        let group = crate::founding::group_of(settings);
        let agent: &'static Agent = Box::leak(Box::new(Agent {
            parts,
            me: me.clone(),
            group: group.clone(),
            facts,
            tls,
            nodes: Mutex::default(),
            troubles: Mutex::default(),
            bell: Bell::default(),
            changes: Bell::default(),
            grants: Bell::default(),
            is_stopping: AtomicBool::new(false),
            state: Mutex::new(state),
        }));
        let ring = || {
            agent.bell.ring();
            agent.changes.ring();
            agent.grants.ring();
        };
        agent.membership().begin(Member::new(me, group), agent.terms(), parts.clock.clone(), Box::new(ring));
        parts.judge_quorum(parts.clock.monotonic_ms());
        tracing::info!("this is node {} of group {}", agent.me, agent.group);
        agent.spawn("group", || agent.steer())?;
        // News of the document is nothing before this life has begun and the document was read (rule 9).
        let (begun, may_watch) = channel();
        let mut store = agent.open()?;
        agent.spawn("group-changes", move || agent.change(&mut *store, &begun))?;
        let mut store = agent.open()?;
        agent.spawn("group-watch", move || {
            if may_watch.recv().is_ok() {
                agent.watch(&mut *store);
            }
        })?;
        let mut store = agent.open()?;
        agent.spawn("group-announce", move || agent.announce(&mut *store))?;
        agent.spawn("group-grants", || agent.grant())?;
        Ok(agent)
    }

    /// Lets its threads end. Its promises stay as they are.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        spawned
            .map(drop)
            .map_err(|source| Error::Io { what: "cannot start a thread of the group".to_owned(), source })
    }

    fn settings(&self) -> &'static Settings {
        self.parts.settings
    }

    fn membership(&self) -> &'static Membership {
        &self.parts.log.synced.group
    }

    /// Opens the store, with what this node remembers of it.
    fn open(&self) -> Result<Box<dyn Store>, Error> {
        crate::open_store(self.settings(), locked(&self.state).history())
    }

    /// Reads in the state file in which terms the data were written.
    fn terms(&self) -> NotedTerms {
        let written = self.parts.following.offset();
        let id = self.parts.primary.history().id_at(written);
        let state = locked(&self.state);
        NotedTerms { newest: state.term(), of_data: state.last_term_of(&id).unwrap_or(Term(0)) }
    }

    /// Where the others of the group, and clients, reach a node.
    fn address_of(&self, node: &NodeId) -> Option<Address> {
        let nodes = locked(&self.nodes);
        let found = nodes.get(node)?;
        let port = match self.settings().is_on(config::TLS_REPLICATION) {
            true => found.tls_port,
            false => found.port,
        };
        Some(Address { host: found.address.clone(), port: port? })
    }

    /// Follows a reading of the document.
    fn learn(&self, reading: &Reading) {
        let data = self.membership().data(&self.parts);
        let now_ms = self.parts.clock.boot_ms();
        let before = self.membership().with(|member| member.role());
        let learned = self.membership().with(|member| member.learn(reading, &data, now_ms));
        self.note_learned(before, learned);
        self.bell.ring();
        self.changes.ring();
    }

    fn note_learned(&self, before: Role, learned: Result<Role, Trouble>) {
        match learned {
            Ok(role) if role != before => match role {
                Role::Outside => tracing::warn!(
                    "the document says that this node is not a member of its group: 'darter --cluster add' makes it one"
                ),
                Role::Primary(term) => tracing::info!("this node leads in term {term}"),
                Role::Replica(term) => {
                    let leader = self.membership().with(|member| member.leader().cloned());
                    let leader = leader.map_or_else(String::new, |leader| leader.to_string());
                    tracing::info!("{leader} leads in term {term}, and this node follows it");
                }
            },
            Ok(_) => locked(&self.troubles).clear(),
            Err(trouble) => self.complain(&trouble.to_string()),
        }
    }

    /// Logs a trouble, unless that was done since the document was last followed.
    fn complain(&self, why: &str) {
        let mut told = locked(&self.troubles);
        if told.len() >= TROUBLES_MAX {
            told.clear();
        }
        if told.insert(why.to_owned()) {
            tracing::warn!("{why}");
        }
    }
}
