//! Readers get the same from a hash whose values are packed as from one whose values are not.

use std::collections::BTreeSet;

use commands::FAMILIES;
use engine::{Client, Local};
use keyspace::ValueRef;
use resp::{Proto, Value, decode};

const COUNT: usize = 600;

/// A value like the others.
fn job(number: usize) -> String {
    let id = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!(
        r#"{{"class":"InvoiceWorker","args":[{number}],"jid":"{id:016x}","retry":true,"queue":"default"}}"#
    )
}

/// A store with the hashes `packed` and `plain`, whose contents are equal.
fn store() -> Local {
    let mut local = Local::new(FAMILIES);
    for number in 0..COUNT {
        for (key, pack_bytes_min) in [("packed", 1), ("plain", 0)] {
            local.config.hash.pack_bytes_min = pack_bytes_min;
            local.line(&format!("HSET {key} f{number} {}", job(number)));
        }
    }
    local.config.hash.pack_bytes_min = 1;
    let packed_count = |local: &mut Local, key: &[u8]| {
        local.with_store(Client::internal(0, Proto::Resp2), |store| {
            let Some(ValueRef::Hash(hash)) = store.peek(key).map(|record| record.value()) else {
                panic!("it is a hash")
            };
            hash.packing().map_or(0, |figures| figures.packed_count)
        })
    };
    assert!(packed_count(&mut local, b"packed") > COUNT / 2);
    assert_eq!(packed_count(&mut local, b"plain"), 0);
    local
}

/// The parts of a reply in order: hashes have an order of their own.
fn sorted(local: &mut Local, line: &str) -> BTreeSet<String> {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let reply = local.reply(Proto::Resp2, &args);
    fn parts(value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| parts(item, into)),
            part => drop(into.insert(part.to_string())),
        }
    }
    let mut all = BTreeSet::new();
    parts(&decode(&reply).expect("replies are valid").expect("it is complete").0, &mut all);
    all
}

#[test]
fn readers_cannot_tell() {
    let mut local = store();
    for command in [
        "HGET {} f599",
        "HSTRLEN {} f599",
        "HEXISTS {} f599",
        "HMGET {} f0 f598 f599 none",
        "HLEN {}",
        "HKEYS {}",
        "HVALS {}",
        "HGETALL {}",
        "HSCAN {} 0 COUNT 10000",
        "HSCAN {} 0 COUNT 10000 NOVALUES",
        "HRANDFIELD {} 600",
        "HRANDFIELD {} 600 WITHVALUES",
        "OBJECT ENCODING {}",
        "HINCRBY {} f599 1",
        "HINCRBYFLOAT {} f599 1",
        "HEXPIRE {} 1000 FIELDS 2 f598 f599",
        "HGETALL {}",
        "HGETEX {} PERSIST FIELDS 2 f597 f598",
        "HGETDEL {} FIELDS 2 f596 f597",
        "HVALS {}",
    ] {
        let [packed, plain] = ["packed", "plain"].map(|key| sorted(&mut local, &command.replace("{}", key)));
        assert_eq!(packed, plain, "{command}");
    }
    for _ in 0..100 {
        let drawn = sorted(&mut local, "HRANDFIELD packed 1 WITHVALUES");
        assert!(drawn.is_subset(&sorted(&mut local, "HGETALL plain")), "{drawn:?}");
    }
    local.line("RPUSH numbers 10 500 598");
    let weights = |key| format!("SORT numbers ALPHA BY {key}->f* GET {key}->f*");
    assert_eq!(local.line(&weights("packed")), local.line(&weights("plain")));
}

#[test]
fn what_is_written_is_what_was_set() {
    let mut local = store();
    local.record_effects();
    local.line("COPY packed copy");
    local.line("RENAME packed renamed");
    local.line("HSET copy f599 1");
    local.line("HINCRBY copy f599 4");
    assert_eq!(local.line("HGET copy f599"), "$1\r\n5\r\n");
    assert_eq!(local.line("HGET renamed f599"), local.line("HGET plain f599"));
    let mut replica = store();
    let effects = local.take_effects();
    replica.replay(&effects).expect("they are valid");
    for key in ["copy", "renamed"] {
        let line = format!("HGETALL {key}");
        assert_eq!(sorted(&mut replica, &line), sorted(&mut local, &line), "{key}");
    }
}
