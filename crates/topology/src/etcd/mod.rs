//! The store on etcd (3.4 and later), over its HTTP/JSON gateway.
//!
//! The rules of belief, and their reasons:
//!
//! - The document is read and changed in transactions only, which are linearizable. Leases serve announcements only: etcd may
//!   renew one that is gone, and revoke one that was renewed.
//! - A change is sent once. If its answer is lost, or is an error that is not known to come before any effect, the outcome is
//!   unknown ([`fate`]). Reading, renewing and proving a death may be sent to one member after the other.
//! - A watch only says when to read ([`watch`]). It begins with the present, so compaction does not concern it.
//! - A revision that falls and an id that changes are reported, and the store is refused ([`crate::History`]).
//! - A token belongs to one member. 401 means that nothing was done: the member is asked for another one.
//! - Before its first change a store with a user checks that it may read *and* write all keys: a transaction that is partly
//!   allowed makes etcd's members diverge.
//!
//! Not here: the rest of etcd's API, and gRPC.

mod client;
mod fate;
pub mod hostile;
mod keys;
mod member;
mod options;
mod reading;
mod watch;
mod wire;

pub use options::{ENDPOINTS_MAX, EtcdOptions};

use proactor::Entropy;
use serde_json::Value;

use crate::document::Document;
use crate::error::Error;
use crate::history::History;
use crate::ids::{Life, Revision};
use crate::outcome::{Reading, Swap, Unsettled};
use crate::records::{Announcement, LogEntry, Reason};
use crate::store::{DEAD_MAX, LOG_MAX, NODES_MAX, Store, Watch};
use client::Client;
use fate::Fate;
use keys::Keys;
use reading::{Excess, nonsense, parse};
use wire::{
    KeepAliveAnswer, PlainAnswer, RangeAnswer, TxnAnswer, op_delete, op_put, op_put_leased, op_range,
};

/// How long an announcement stays after its last renewal. etcd adds up to its election timeout, and grants the whole time again
/// when it elects a leader.
const ANNOUNCED_S: u64 = 10;
/// The proofs of death that one transaction removes. etcd allows 128 operations.
const FORGOTTEN_MAX: usize = 64;

/// See the head of this file.
pub struct EtcdStore {
    client: Client,
    keys: Keys,
    revisions_kept: Option<u64>,
    /// Log entries that the next change removes.
    excess: Excess,
    /// Whether it was checked that we may read and write everything.
    may_change: bool,
    lease: Lease,
    /// The revision before which the history was removed last.
    compacted: Revision,
}

/// The lease under which this node is announced.
#[derive(Debug)]
struct Lease {
    /// Drawn once, so that asking twice grants one lease.
    id: u64,
    /// The announcement under it, until it is seen to be gone.
    announced: Option<Announcement>,
}

impl EtcdStore {
    /// A store on the etcd that `options` name. `history` is the memory of it. Nothing is sent yet.
    pub fn new(options: &EtcdOptions, history: History, entropy: &mut Entropy) -> Result<EtcdStore, Error> {
        Ok(EtcdStore {
            client: Client::new(options, history)?,
            keys: Keys::new(&options.cluster),
            revisions_kept: options.revisions_kept,
            excess: Excess::default(),
            may_change: options.user.is_empty(),
            // etcd's ids are positive.
            lease: Lease { id: (entropy.next_u64() >> 1).max(1), announced: None },
            compacted: Revision::NONE,
        })
    }

    /// Checks that we may read and write everything, without changing anything.
    fn check_rights(&mut self) -> Result<(), Error> {
        if self.may_change {
            return Ok(());
        }
        let all = op_range(wire::list_keys(&self.keys.all(), 1));
        let request = wire::txn(&[all, op_delete(&self.keys.probe())]);
        let asked = self.client.run(async |client| client.ask("kv/txn", &request).await);
        match asked {
            Ok(_) => {
                self.may_change = true;
                Ok(())
            }
            Err(Error::Denied(why)) => Err(Error::Denied(format!(
                "grant the user READWRITE on all keys that begin with {} ({why})",
                self.keys.prefix()
            ))),
            Err(error) => Err(error),
        }
    }

    /// The transaction of a change.
    fn change(&self, on: &Reading, document: &Document, why: &Reason) -> Value {
        let (key, log) = (self.keys.document(), self.keys.log(on.revision));
        let why = serde_json::to_string(why).expect("its keys are texts");
        let mut then =
            vec![op_put(&key, &document.encode()), op_put(&log, &why), reading::oldest(&self.keys)];
        // etcd refuses to write and remove a key in one transaction.
        let removed = self.excess.0.iter().filter(|entry| **entry < on.revision);
        then.extend(removed.map(|entry| op_delete(&self.keys.log(*entry))));
        wire::txn_if(&key, on.revision, &then, &reading::ranges(&self.keys))
    }

    /// Decides the outcome of a change from its answer.
    fn outcome(&mut self, floor: Revision, on: Revision, member: &str, body: &[u8]) -> Swap {
        let decoded = (|| {
            let answer: TxnAnswer = parse(member, body)?;
            let made = Revision(answer.header.revision);
            self.client.history().observe(floor, answer.header.cluster_id, made)?;
            if !answer.succeeded {
                let (reading, excess) =
                    reading::decode(&self.keys, answer).map_err(|why| nonsense(member, &why))?;
                self.excess = excess;
                // An answer that contradicts itself tells nothing.
                let is_other = reading.revision != on;
                return is_other
                    .then_some(Swap::Lost(reading))
                    .ok_or_else(|| nonsense(member, "it refuses a change on the present revision"));
            }
            if made <= on {
                return Err(nonsense(member, "a change did not raise the revision"));
            }
            let [log] = answer.ranges().map_err(|why| nonsense(member, &why))?;
            self.excess = reading::excess(&self.keys, &log);
            Ok(Swap::Done(made))
        })();
        decoded.unwrap_or_else(|error| Swap::Unknown(Unsettled::new(on, error)))
    }

    /// Removes old revisions, if there are many. Errors do no harm: the next call tries again.
    fn compact(&mut self) {
        let Some(kept) = self.revisions_kept else { return };
        let highest = self.client.history().highest;
        let removed = highest.0.saturating_sub(kept);
        // In few large steps.
        if removed.saturating_sub(self.compacted.0) < kept.max(1) {
            return;
        }
        let before = Revision(removed);
        let request = wire::compact(before);
        match self.client.run(async |client| client.ask("kv/compaction", &request).await) {
            Ok(_) => self.compacted = before,
            // Another user was faster.
            Err(Error::Failed(why)) if why.contains("has been compacted") => self.compacted = before,
            Err(error) => tracing::warn!("cannot remove old revisions from etcd: {error}"),
        }
    }

    /// Grants the lease and writes the announcement. Both may be done twice.
    async fn announce_anew(
        client: &mut Client,
        keys: &Keys,
        lease: u64,
        announcement: &Announcement,
    ) -> Result<(), Error> {
        match client.ask("lease/grant", &wire::grant(lease, ANNOUNCED_S)).await {
            Ok(_) => {}
            // It is ours, from before.
            Err(Error::Failed(why)) if why.contains("lease already exists") => {}
            Err(error) => return Err(error),
        }
        let key = keys.node(&announcement.instance.node);
        let put = wire::txn(&[op_put_leased(&key, &announcement.encode(), lease)]);
        let (member, body) = client.ask("kv/txn", &put).await?;
        let answer: TxnAnswer = parse(&member, &body)?;
        client.history().check_cluster(answer.header.cluster_id)
    }

    /// Renews the lease; `false`: it is gone, or the announcement is. An error if another process announces this node.
    async fn renew(client: &mut Client, keys: &Keys, lease: u64, ours: &Announcement) -> Result<bool, Error> {
        let (member, body) = client.ask("lease/keepalive", &wire::keep_alive(lease)).await?;
        let answer: KeepAliveAnswer = parse(&member, &body)?;
        client.history().check_cluster(answer.result.header.cluster_id)?;
        let get = wire::get(&keys.node(&ours.instance.node));
        let (member, body) = client.ask("kv/range", &get).await?;
        let found: RangeAnswer = parse(&member, &body)?;
        let found = found.kvs.first().and_then(|found| Announcement::decode(&found.value));
        match found {
            Some(other) if other.instance != ours.instance => {
                Err(Error::SameId { node: ours.instance.node.to_string() })
            }
            found => Ok(found.is_some() && answer.result.ttl_s > 0),
        }
    }

    /// Removes the oldest proofs that are not needed, if there are too many.
    async fn forget_dead(client: &mut Client, keys: &Keys) -> Result<(), Error> {
        let (reading, _) = reading::read(client, keys).await?;
        let (member, body) = client.ask("kv/range", &wire::list(&keys.all_dead(), 2 * DEAD_MAX)).await?;
        let found: RangeAnswer = parse(&member, &body)?;
        let needed = crate::contents::lives(&reading.found);
        let mut spare: Vec<(u64, Life)> = found
            .kvs
            .iter()
            .filter_map(|found| Some((found.mod_revision, keys.life_in(&found.key)?)))
            .filter(|(_, life)| !needed.contains(life))
            .collect();
        spare.sort();
        let too_many = (found.count as usize).saturating_sub(DEAD_MAX).min(FORGOTTEN_MAX);
        let removed: Vec<Value> =
            spare.iter().take(too_many).map(|(_, life)| op_delete(&keys.dead(*life))).collect();
        // A document that changed meanwhile may name other lives.
        let request = wire::txn_if(&keys.document(), reading.revision, &removed, &[]);
        client.ask("kv/txn", &request).await.map(drop)
    }
}

impl Store for EtcdStore {
    fn read(&mut self) -> Result<Reading, Error> {
        let keys = &self.keys;
        let (reading, excess) = self.client.run(async |client| reading::read(client, keys).await)?;
        self.excess = excess;
        Ok(reading)
    }

    fn compare_and_swap(&mut self, on: &Reading, document: &Document, why: &Reason) -> Swap {
        on.assert_may_become(document);
        if let Err(error) = self.check_rights() {
            return Swap::NotDone(error);
        }
        let floor = self.client.history().floor();
        let floor = match floor {
            Ok(floor) => floor,
            Err(error) => return Swap::NotDone(error),
        };
        let request = self.change(on, document, why);
        match self.client.run(async |client| client.change("kv/txn", &request).await) {
            Ok((member, body)) => self.outcome(floor, on.revision, &member, &body),
            Err(Fate::NewToken(error) | Fate::NotDone(error)) => Swap::NotDone(error),
            Err(Fate::Unknown(error)) => {
                // Rights may have been taken from us.
                self.may_change &= !matches!(error, Error::Denied(_));
                Swap::Unknown(Unsettled::new(on.revision, error))
            }
        }
    }

    fn watch(&mut self) -> Result<Box<dyn Watch>, Error> {
        Ok(Box::new(watch::EtcdWatch::new(self.client.another()?, self.keys.clone())))
    }

    fn announce(&mut self, announcement: &Announcement) -> Result<(), Error> {
        let (keys, lease) = (&self.keys, self.lease.id);
        if self.lease.announced.as_ref() == Some(announcement) {
            let is_alive =
                self.client.run(async |client| EtcdStore::renew(client, keys, lease, announcement).await)?;
            if is_alive {
                self.compact();
                return Ok(());
            }
        }
        self.lease.announced = None;
        self.client.run(async |client| EtcdStore::announce_anew(client, keys, lease, announcement).await)?;
        self.lease.announced = Some(announcement.clone());
        Ok(())
    }

    fn live_nodes(&mut self) -> Result<Vec<Announcement>, Error> {
        let request = wire::list(&self.keys.all_nodes(), NODES_MAX);
        let (member, body) = self.client.run(async |client| client.ask("kv/range", &request).await)?;
        let header: PlainAnswer = parse(&member, &body)?;
        self.client.history().check_cluster(header.header.cluster_id)?;
        let found: RangeAnswer = parse(&member, &body)?;
        Ok(found.kvs.iter().filter_map(|found| Announcement::decode(&found.value)).collect())
    }

    fn prove_dead(&mut self, life: Life, why: &Reason) -> Result<(), Error> {
        let floor = self.client.history().floor()?;
        let why = serde_json::to_string(why).expect("its keys are texts");
        let count = op_range(wire::list_keys(&self.keys.all_dead(), 1));
        let request = wire::txn(&[op_put(&self.keys.dead(life), &why), count]);
        let (member, body) = self.client.run(async |client| client.ask("kv/txn", &request).await)?;
        let answer: TxnAnswer = parse(&member, &body)?;
        let (cluster, revision) = (answer.header.cluster_id, Revision(answer.header.revision));
        self.client.history().observe(floor, cluster, revision)?;
        let [found] = answer.ranges().map_err(|why| nonsense(&member, &why))?;
        if found.count as usize > DEAD_MAX {
            let keys = &self.keys;
            // The proof stands. If the others are not removed now, the next proof does it.
            let forgotten = self.client.run(async |client| EtcdStore::forget_dead(client, keys).await);
            if let Err(error) = forgotten {
                tracing::warn!("cannot remove old proofs of death from etcd: {error}");
            }
        }
        Ok(())
    }

    fn log(&mut self, count_max: usize) -> Result<Vec<LogEntry>, Error> {
        let request = wire::list_last(&self.keys.all_log(), count_max.min(LOG_MAX));
        let (member, body) = self.client.run(async |client| client.ask("kv/range", &request).await)?;
        let found: RangeAnswer = parse(&member, &body)?;
        let entries = found.kvs.iter().filter_map(|found| {
            let why = serde_json::from_slice(&found.value).ok()?;
            Some(LogEntry { on: self.keys.revision_in(&found.key)?, made: Revision(found.mod_revision), why })
        });
        Ok(entries.take(count_max).collect())
    }

    fn history(&self) -> History {
        *self.client.history()
    }

    fn accept_as_it_is(&mut self) {
        *self.client.history() = History::default();
        self.lease.announced = None;
    }
}
