//! `maxmemory-policy`: the keys that may be evicted, and their order.

use crate::access::lru_clock;
use crate::{Db, Lfu, RecordRef, UnixMs};

/// The order of eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rank {
    /// The key that was unused for longest.
    Idle,
    /// The key that was not changed for longest.
    Unchanged,
    /// The key that is used most rarely.
    Rare,
    /// The key that expires first.
    Expiry,
    /// Any key.
    Chance,
}

/// A policy that evicts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Whether only keys with an expiry may be evicted.
    pub only_volatile: bool,
    /// The order of eviction.
    pub rank: Rank,
}

impl Policy {
    /// The words of the setting, each with its number: in Redis' order, and those of Redis 8.6.
    pub const CHOICES: &[(&str, i64)] = &[
        ("volatile-lru", 0),
        ("volatile-lfu", 1),
        ("volatile-random", 2),
        ("volatile-ttl", 3),
        ("allkeys-lru", 4),
        ("allkeys-lfu", 5),
        ("allkeys-random", 6),
        ("noeviction", 7),
        ("volatile-lrm", 8),
        ("allkeys-lrm", 9),
    ];

    /// The policy with this number; `None`: nothing is evicted.
    pub fn numbered(number: i64) -> Option<Policy> {
        let rank = match number {
            0 | 4 => Rank::Idle,
            1 | 5 => Rank::Rare,
            2 | 6 => Rank::Chance,
            3 => Rank::Expiry,
            8 | 9 => Rank::Unchanged,
            _ => return None,
        };
        Some(Policy { only_volatile: number < 4 || number == 8, rank })
    }

    /// Number of records of `db` that may be evicted.
    pub fn eligible_len(self, db: &Db) -> usize {
        if self.only_volatile { db.volatile_len() } else { db.len() }
    }

    /// The priority of a record for eviction; `None` if it may not be evicted. Only numbers of one policy are
    /// comparable.
    pub fn score(self, record: RecordRef<'_>, lfu: Option<Lfu>, now: UnixMs) -> Option<u64> {
        let expiry = record.expiry();
        if self.only_volatile && expiry.is_none() || record.marks().is_blessed {
            return None;
        }
        Some(match self.rank {
            // Reads do not count as uses where the second is in force.
            Rank::Idle | Rank::Unchanged => u64::from(record.idle_seconds(lru_clock(now))),
            // `lfu` is missing only while the policy is changing.
            Rank::Rare => u64::from(u8::MAX - lfu.map_or(0, |lfu| lfu.counter(record.access(), now))),
            // The sooner a key expires, the larger its number, even before 1970.
            Rank::Expiry => !(expiry.unwrap_or(UnixMs::MAX) as u64 ^ 1 << 63),
            Rank::Chance => 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::access::restored;
    use crate::{Marks, Str, Value};
    use ds::hashing::Seed;

    use super::*;

    const NOW: UnixMs = 1_700_000_000_000;
    const LFU: Lfu = Lfu { log_factor: 10, decay_minutes: 1 };

    fn policy(name: &str) -> Option<Policy> {
        let found = Policy::CHOICES.iter().find(|(known, _)| *known == name);
        Policy::numbered(found.expect("it is one of them").1)
    }

    /// The score of a record with this expiry, idle time and frequency.
    fn score(name: &str, expiry: Option<UnixMs>, idle_seconds: u64, frequency: u8) -> Option<u64> {
        let mut db = Db::new(Arc::new(Seed::new(1)));
        let lfu = name.ends_with("lfu").then_some(LFU);
        let access = restored(lfu, NOW, Some(idle_seconds), Some(frequency));
        db.insert(7, b"key", Value::Str(Str::Int(5))).set_access(access);
        db.set_expiry(7, b"key", expiry);
        policy(name)?.score(db.find(7, b"key").expect("it is there"), lfu, NOW)
    }

    #[test]
    fn every_policy_has_its_order() {
        let soon = Some(NOW + 1000);
        for (name, [first, then]) in [
            ("lru", [(soon, 60, 200), (soon, 59, 1)]),
            ("lrm", [(soon, 60, 200), (soon, 59, 1)]),
            ("lfu", [(soon, 1, 7), (soon, 60, 8)]),
            ("ttl", [(soon, 1, 200), (Some(NOW + 1001), 60, 1)]),
            ("ttl", [(Some(-5), 1, 200), (Some(5), 60, 1)]),
        ] {
            let score = |name: &str, (expiry, idle, frequency)| score(name, expiry, idle, frequency);
            for name in [format!("volatile-{name}"), format!("allkeys-{name}")] {
                if name != "allkeys-ttl" {
                    assert!(score(&name, first) > score(&name, then), "{name}: {first:?} {then:?}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_expire_is_safe_from_half_of_the_policies() {
        for (name, _) in Policy::CHOICES {
            let is_eligible = score(name, None, 60, 5).is_some();
            assert_eq!(is_eligible, name.starts_with("allkeys"), "{name}");
        }
        assert_eq!(policy("noeviction"), None);
    }

    #[test]
    fn a_blessed_key_is_safe_from_all_of_them() {
        let mut db = Db::new(Arc::new(Seed::new(1)));
        let blessed = Marks { is_blessed: true, ..Marks::default() };
        db.insert(7, b"key", Value::Str(Str::Int(5))).set_marks(blessed);
        db.set_expiry(7, b"key", Some(NOW + 1000));
        for (name, _) in Policy::CHOICES.iter().filter(|(name, _)| *name != "noeviction") {
            let policy = policy(name).expect("it evicts");
            let score = |db: &Db| policy.score(db.find(7, b"key").expect("it is there"), Some(LFU), NOW);
            assert_eq!(score(&db), None, "{name}");
            db.find_mut(7, b"key").expect("it is there").set_marks(Marks::default());
            assert!(score(&db).is_some(), "{name}");
            db.find_mut(7, b"key").expect("it is there").set_marks(blessed);
        }
    }
}
