//! The keys of a cluster in etcd.
//!
//! ```text
//! /darter/<cluster>/dead/<life>         reason     this life is over
//! /darter/<cluster>/doc                 document
//! /darter/<cluster>/log/<revision>      reason     of the change that was made *on* this revision (20 digits)
//! /darter/<cluster>/node/<id>           announcement, under a lease
//! ```
//!
//! The revision that a change makes is not known when its log entry is written, in the same transaction. The revision that it
//! replaces is, and no two changes replace the same one. `dead/` and `doc` are neighbours, so one watch covers both.

use crate::ids::{ClusterName, Life, NodeId, Revision};

/// See the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

/// Keys from `from` to before `to`.
#[derive(Clone, Debug)]
pub(crate) struct KeyRange {
    pub(crate) from: String,
    pub(crate) to: String,
}

impl Keys {
    pub(crate) fn new(cluster: &ClusterName) -> Keys {
        Keys { prefix: format!("/darter/{cluster}/") }
    }

    /// The beginning of all keys.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn document(&self) -> String {
        format!("{}doc", self.prefix)
    }

    pub(crate) fn dead(&self, life: Life) -> String {
        format!("{}dead/{life}", self.prefix)
    }

    pub(crate) fn log(&self, on: Revision) -> String {
        format!("{}log/{:020}", self.prefix, on.0)
    }

    pub(crate) fn node(&self, node: &NodeId) -> String {
        format!("{}node/{node}", self.prefix)
    }

    /// A key that is never written. Deleting it shows whether we may write.
    pub(crate) fn probe(&self) -> String {
        format!("{}probe", self.prefix)
    }

    /// The keys in a folder. `0` follows `/`.
    fn all_in(&self, folder: &str) -> KeyRange {
        let from = format!("{}{folder}", self.prefix);
        KeyRange { from: format!("{from}/"), to: format!("{from}0") }
    }

    pub(crate) fn all_dead(&self) -> KeyRange {
        self.all_in("dead")
    }

    pub(crate) fn all_log(&self) -> KeyRange {
        self.all_in("log")
    }

    pub(crate) fn all_nodes(&self) -> KeyRange {
        self.all_in("node")
    }

    /// Everything.
    pub(crate) fn all(&self) -> KeyRange {
        let name = self.prefix.trim_end_matches('/');
        KeyRange { from: self.prefix.clone(), to: format!("{name}0") }
    }

    /// The proofs of death and the document.
    pub(crate) fn news(&self) -> KeyRange {
        KeyRange { from: self.all_dead().from, to: format!("{}\0", self.document()) }
    }

    /// The life in the key of a proof.
    pub(crate) fn life_in(&self, key: &[u8]) -> Option<Life> {
        self.rest(key, "dead/")?.parse().ok()
    }

    /// The revision in the key of a log entry.
    pub(crate) fn revision_in(&self, key: &[u8]) -> Option<Revision> {
        let digits = self.rest(key, "log/")?;
        let is_one = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_one.then(|| digits.parse().ok().map(Revision)).flatten()
    }

    fn rest<'k>(&self, key: &'k [u8], folder: &str) -> Option<&'k str> {
        std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?.strip_prefix(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_they_should() {
        let keys = Keys::new(&"shop".parse().unwrap());
        let holds = |range: &KeyRange, key: &str| range.from.as_str() <= key && key < range.to.as_str();
        let (dead, log) = (keys.dead(Life(7)), keys.log(Revision(12)));
        let node = keys.node(&"a".parse().unwrap());
        assert!(holds(&keys.news(), &dead) && holds(&keys.news(), &keys.document()));
        assert!(!holds(&keys.news(), &log) && !holds(&keys.news(), &node));
        for key in [&dead, &keys.document(), &log, &node, &keys.probe()] {
            assert!(holds(&keys.all(), key), "{key}");
        }
        assert!(!holds(&keys.all(), "/darter/shop2/doc") && !holds(&keys.all(), "/darter/shoq/doc"));
        assert_eq!(keys.life_in(dead.as_bytes()), Some(Life(7)));
        assert_eq!(keys.revision_in(log.as_bytes()), Some(Revision(12)));
        assert_eq!(keys.revision_in(dead.as_bytes()), None);
        assert_eq!(keys.revision_in(b"/darter/shop/log/+0000000000000000012"), None);
    }
}
