//! Redis' `DEBUG DIGEST`: 20 bytes that are equal for two stores with the same data, and almost certainly
//! differ for others.
//!
//! The order of keys in a database, fields in a hash and members in a set does not matter: to `xor` data into a digest
//! is to xor their SHA-1 into it; to `mix` data in is to do that, and then to replace the digest by its own SHA-1.
//! Expired keys do not count.

use ds::stream::StreamId;
use engine::Store;
use keyspace::{RecordRef, ValueRef};
use sha1::{Digest as _, Sha1};

/// A digest of data.
pub type Digest = [u8; 20];

/// The digest of all databases on the entered shards: `DEBUG DIGEST`.
pub fn digest(store: &Store) -> Digest {
    let mut total = Digest::default();
    for db in 0..store.db_count() {
        let mut of_keys = Digest::default();
        let mut is_empty = true;
        for &id in store.tx.hold.entered() {
            let Some(data) = store.tx.hold.shard(id).dbs.used(db as usize) else { continue };
            for record in data.iter() {
                if !record.expired(store.now()) {
                    let mut of_key = Digest::default();
                    mix(&mut of_key, record.key());
                    add_record(&mut of_key, record);
                    xor(&mut of_keys, &of_key);
                    is_empty = false;
                }
            }
        }
        if !is_empty {
            mix(&mut total, &db.to_be_bytes());
            total.iter_mut().zip(of_keys).for_each(|(byte, other)| *byte ^= other);
        }
    }
    total
}

/// The digest of the value of `key`, zeros if it does not exist: `DEBUG DIGEST-VALUE`.
pub fn digest_value(store: &Store, key: &[u8]) -> Digest {
    let mut digest = Digest::default();
    if let Some(record) = store.peek(key) {
        add_record(&mut digest, record);
    }
    digest
}

/// Adds value and expiry, but not the key.
fn add_record(digest: &mut Digest, record: RecordRef<'_>) {
    mix(digest, &record.value().kind().number().to_be_bytes());
    let mut buffer = Vec::new();
    match record.value().expanded(&mut buffer) {
        ValueRef::Compressed(_) => unreachable!("it was expanded"),
        ValueRef::Str(string) => mix(digest, &string.bytes()),
        ValueRef::List(list) => list.iter(0, false).for_each(|element| mix(digest, &element)),
        ValueRef::Set(set) => {
            set.iter().for_each(|member| xor(digest, &member));
            set.expiries().for_each(|(member, at_ms)| xor(digest, &mixed([member, &at_ms.to_be_bytes()])));
        }
        ValueRef::ZSet(zset) => zset.iter().for_each(|(member, score)| {
            let mut text = Vec::new();
            // Adding 0.0 removes the sign of a zero, which small sets do not have: a large set may come back
            // from a snapshot as a small one.
            ds::num::format_f64_17g(score + 0.0, &mut text);
            xor(digest, &mixed([&member, &text]));
        }),
        ValueRef::Hash(hash) => {
            hash.iter().for_each(|(field, value)| xor(digest, &mixed([field, &value.bytes()])));
            hash.expiries().for_each(|(field, at_ms)| xor(digest, &mixed([field, &at_ms.to_be_bytes()])));
        }
        ValueRef::Sketch(_) => mix(digest, &engine::dump::payload(record.value(), false)),
        // Its groups are not part of the digest.
        ValueRef::Stream(stream) => {
            for (id, fields) in stream.log.range(StreamId::MIN, StreamId::MAX) {
                mix(digest, format!("{}.{}", id.ms, id.seq).as_bytes());
                for (field, value) in fields {
                    mix(digest, field);
                    mix(digest, value);
                }
            }
        }
    }
    if record.expiry().is_some() {
        xor(digest, b"!!expire!!");
    }
}

fn mixed(parts: [&[u8]; 2]) -> Digest {
    let mut digest = Digest::default();
    parts.iter().for_each(|part| mix(&mut digest, part));
    digest
}

fn xor(digest: &mut Digest, data: &[u8]) {
    digest.iter_mut().zip(Sha1::digest(data)).for_each(|(byte, other)| *byte ^= other);
}

fn mix(digest: &mut Digest, data: &[u8]) {
    xor(digest, data);
    *digest = Sha1::digest(*digest).into();
}

#[cfg(test)]
mod tests {
    use engine::{Client, Local};
    use resp::{Output, Proto};

    use super::*;

    fn hex(digest: Digest) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The expected digests are the replies of redis-server 7.0.15 to the same requests.
    #[test]
    fn digests_are_those_of_redis() {
        let mut local = Local::new(crate::FAMILIES);
        for line in [
            "SET s hello",
            "SET n 42",
            "SET t x PXAT 33177117420000",
            "RPUSH l a b 1",
            "SADD si 1 2 3",
            "SADD ss a b c",
            "ZADD z 1.5 a -inf b 0.1 c 3 d",
            "HSET h f v g w",
        ] {
            let reply = local.line(line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
        let other = Client::internal(1, Proto::Resp2);
        local.run(other, &[b"SET", b"other", b"1"], &mut (), &mut Output::new());
        local.with_store(Client::internal(0, Proto::Resp2), |store| {
            for (key, expected) in [
                ("s", "36b23a1456b2dce2c3ed252c456761301dba8060"),
                ("n", "547a004a370bc71c2d611f010c52f2e7b64c77a4"),
                ("t", "0745672cb1bf060476eedeb8a28f5ffe1ff5a2be"),
                ("l", "981fd62c1655c074205cff40b800bd5a5bfdcd41"),
                ("si", "2a462a3f51a1db89738ebbeef0c47ce1bbc85246"),
                ("ss", "593c2414786d75446e97f4ea5d4b731f3313da72"),
                ("z", "2a8f7f6978aa22d7e20816b1754fa23cdab3d436"),
                ("h", "d127864ed50239662bf61bafc9bda63c17da5b37"),
                ("missing", "0000000000000000000000000000000000000000"),
            ] {
                assert_eq!(hex(digest_value(store, key.as_bytes())), expected, "{key}");
            }
            assert_eq!(hex(digest(store)), "358ad69dd427a1725ad77e07c363bad081aa6036");
        });
    }
}
