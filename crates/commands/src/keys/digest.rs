//! Redis' `DEBUG DIGEST`: 20 bytes that two stores share if, and as good as only if, they hold the same data.
//!
//! Keys of a database, fields of a hash and members of a set are combined so that their order does not matter. To
//! `xor` data into a digest is to xor their SHA-1 into it; to `mix` them in is that, and then the SHA-1 of the result.
//! What expired counts as gone.

use command::Store;
use keyspace::{Record, Value};
use sha1::{Digest as _, Sha1};

/// A digest of data.
pub type Digest = [u8; 20];

/// The digest of all databases on the shards that were entered: `DEBUG DIGEST`.
pub fn digest(store: &Store) -> Digest {
    let mut total = Digest::default();
    for db in 0..store.db_count() {
        let mut of_keys = Digest::default();
        let mut is_empty = true;
        for &id in store.tx.hold.entered() {
            for record in store.tx.hold.shard(id).dbs[db as usize].iter() {
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

/// The digest of the value of `key`, zeros if there is none: `DEBUG DIGEST-VALUE`.
pub fn digest_value(store: &Store, key: &[u8]) -> Digest {
    let mut digest = Digest::default();
    if let Some(record) = store.peek(key) {
        add_record(&mut digest, record);
    }
    digest
}

/// Adds value and expiry, but not the key.
fn add_record(digest: &mut Digest, record: &Record) {
    mix(digest, &record.value.kind().number().to_be_bytes());
    match &record.value {
        Value::Str(string) => mix(digest, &string.bytes()),
        Value::List(list) => list.iter(0, false).for_each(|element| mix(digest, element)),
        Value::Set(set) => set.iter().for_each(|member| xor(digest, &member)),
        Value::ZSet(zset) => zset.iter().for_each(|(member, score)| {
            let mut text = Vec::new();
            ds::num::format_f64_17g(score, &mut text);
            xor(digest, &mixed([member, &text]));
        }),
        Value::Hash(hash) => hash.iter().for_each(|(field, value)| xor(digest, &mixed([field, value]))),
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
