//! `DUMP` and `RESTORE`: convert values to bytes that another server accepts, and back.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::dump::Builder;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Mode, Run, Shape, integer,
    key, keyword_is, parse_i64, string, token,
};
use keyspace::{Config, Value, access};
use rdb::{Family, Reader, ValueType};

use super::rebuild;

const KEY_EXISTS: CommandError = CommandError::fixed("BUSYKEY Target key name already exists.");
const BAD_TTL: CommandError = CommandError::fixed("ERR Invalid TTL value, must be >= 0");
const BAD_IDLE_TIME: CommandError = CommandError::fixed("ERR Invalid IDLETIME value, must be >= 0");
const BAD_FREQUENCY: CommandError = CommandError::fixed("ERR Invalid FREQ value, must be >= 0 and <= 255");
const BAD_CHECKSUM: CommandError = CommandError::fixed("ERR DUMP payload version or checksum are wrong");
const BAD_DATA: CommandError = CommandError::fixed("ERR Bad data format");

pub(super) const DUMP: Entry = Entry {
    name: "dump",
    summary: "Returns a serialized representation of the value stored at a key.",
    complexity: "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of Redis objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1).",
    since: "2.6.0",
    group: Group::Generic,
    arity: 2,
    flags: &[ReadOnly],
    acl: &[Acl::Keyspace],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0)],
    tips: &["nondeterministic_output"],
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(dump),
    ..Entry::DEFAULT
};

fn dump(ctx: &mut Ctx) -> CommandResult {
    let compresses = ctx.store.config().rdb_compression;
    match ctx.store.read(ctx.args[1]) {
        Some(value) => ctx.reply.bulk(&engine::dump::payload(value, compresses)),
        None => ctx.reply.null(),
    }
    Ok(())
}

pub(super) const RESTORE: Entry = Entry {
    name: "restore",
    summary: "Creates a key from the serialized representation of a value.",
    complexity: "O(1) to create the new key and additional O(N*M) to reconstruct the serialized value, where N is the number of Redis objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1). However for sorted set values the complexity is O(N*M*log(N)) because inserting values into sorted sets is O(log(N)).",
    since: "2.6.0",
    group: Group::Generic,
    arity: -4,
    flags: &[Write, DenyOom],
    acl: &[Acl::Keyspace, Acl::Dangerous],
    keys: &[KeySpec::one(1, &[OW, Update])],
    args: &[
        key("key", 0),
        integer("ttl"),
        string("serialized-value"),
        token("replace", "REPLACE").optional().since("3.0.0"),
        token("absttl", "ABSTTL").optional().since("5.0.0"),
        integer("seconds").token("IDLETIME").optional().since("5.0.0"),
        integer("frequency").token("FREQ").optional().since("5.0.0"),
    ],
    history: &[
        ("3.0.0", "Added the `REPLACE` modifier."),
        ("5.0.0", "Added the `ABSTTL` modifier."),
        ("5.0.0", "Added the `IDLETIME` and `FREQ` options."),
    ],
    reply: Shape::OK,
    mode: Mode::Heavy,
    run: Run::Function(restore),
    ..Entry::DEFAULT
};

pub(super) const RESTORE_ASKING: Entry = Entry {
    name: "restore-asking",
    is_system: true,
    summary: "An internal command for migrating keys in a cluster.",
    since: "3.0.0",
    group: Group::Server,
    flags: &[Write, DenyOom, Asking],
    ..RESTORE
};

fn restore(ctx: &mut Ctx) -> CommandResult {
    let [_, key, ttl, payload, ref options @ ..] = *ctx.args else { unreachable!("the arity says so") };
    let options = RestoreOptions::parse(options)?;
    if !options.replace && ctx.store.write(key).is_some() {
        return Err(KEY_EXISTS);
    }
    let ttl = parse_i64(ttl)?;
    if ttl < 0 {
        return Err(BAD_TTL);
    }
    let encoded = rdb::open_payload(payload).ok_or(BAD_CHECKSUM)?;
    let value = read(encoded, ctx.store.config()).ok_or(BAD_DATA)?;
    let base = if options.absolute { 0 } else { ctx.store.now() };
    // The sum may overflow and wrap to a time in the past, as in Redis.
    let expiry = (ttl > 0).then(|| ttl.wrapping_add(base));
    ctx.reply.ok();
    let (is_past, now) = (|time| ctx.store.is_past(time), ctx.store.now());
    if expiry.is_some_and(is_past) || is_past(now) && value.lend().is_due(now) {
        ctx.store.delete(key);
        return Ok(());
    }
    if let Some(old) = ctx.store.take(key) {
        ctx.store.free(old.into_value());
    }
    ctx.store.replace(key, value, expiry);
    // State the effect before any command reads the hash and deletes the fields that are due.
    ctx.store.changed_with(key, Change::new(Class::Generic, "restore"), |store| {
        if rdb::split_expiries(encoded).is_some_and(|(expiries, _)| expiries.is_some()) {
            // Redis cannot read such a payload.
            return rebuild::record(store, key);
        }
        let expiry = expiry.unwrap_or(0).to_string();
        store.effect(&[b"RESTORE", key, expiry.as_bytes(), payload, b"REPLACE", b"ABSTTL"]);
    });
    let (lfu, now) = (ctx.store.config().lfu, ctx.store.now());
    ctx.store.set_access(key, access::restored(lfu, now, options.idle_seconds, options.frequency));
    Ok(())
}

/// Decodes a value from its type and bytes.
fn read(encoded: &[u8], config: &Config) -> Option<Value> {
    let (expiries, encoded) = rdb::split_expiries(encoded)?;
    let (code, bytes) = encoded.split_first()?;
    let value_type = ValueType::from_code(*code, Family::Redis).ok()?;
    let mut builder = Builder::new(value_type, config);
    rdb::read_value(&mut Reader::new(bytes), value_type, &mut |part| builder.add(part)).ok()?;
    let mut value = builder.finish()?;
    if let Some(expiries) = expiries {
        engine::dump::set_expiries(&mut value, &expiries)?;
    }
    Some(value)
}

/// The options that may follow the payload.
#[derive(Default)]
struct RestoreOptions {
    replace: bool,
    absolute: bool,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
}

impl RestoreOptions {
    fn parse(args: &[&[u8]]) -> Result<RestoreOptions, CommandError> {
        let mut found = RestoreOptions::default();
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            if keyword_is(word, "REPLACE") {
                found.replace = true;
            } else if keyword_is(word, "ABSTTL") {
                found.absolute = true;
            } else if keyword_is(word, "IDLETIME") && found.frequency.is_none() {
                let seconds = parse_i64(rest.next().ok_or(CommandError::SYNTAX)?)?;
                found.idle_seconds = Some(u64::try_from(seconds).map_err(|_| BAD_IDLE_TIME)?);
            } else if keyword_is(word, "FREQ") && found.idle_seconds.is_none() {
                let frequency = parse_i64(rest.next().ok_or(CommandError::SYNTAX)?)?;
                found.frequency = Some(u8::try_from(frequency).map_err(|_| BAD_FREQUENCY)?);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use engine::Local;
    use keyspace::Lfu;
    use resp::Proto;

    const PAYLOAD: &[u8] = b"\x00\x05hello\n\x00cr\xdfve4 \n";

    fn restore(local: &mut Local, ttl: &str, options: &[&[u8]]) {
        let args = [&[&b"RESTORE"[..], b"k", ttl.as_bytes(), PAYLOAD], options].concat();
        assert_eq!(local.reply(Proto::Resp2, &args), b"+OK\r\n");
    }

    #[test]
    fn the_effect_does_not_depend_on_the_clock() {
        let mut local = Local::new(crate::FAMILIES);
        local.record_effects();
        restore(&mut local, "1000", &[b"IDLETIME", b"5"]);
        restore(&mut local, "0", &[b"REPLACE"]);
        restore(&mut local, "1", &[b"ABSTTL", b"REPLACE"]);
        let effects = local.take_effects().into_iter().map(|effect| effect.args);
        let restored = |expiry: &str| {
            [&b"RESTORE"[..], b"k", expiry.as_bytes(), PAYLOAD, b"REPLACE", b"ABSTTL"].map(Box::from).to_vec()
        };
        let deleted = [&b"DEL"[..], b"k"].map(Box::from).to_vec();
        assert!(effects.eq([restored("1700000001000"), restored("0"), deleted]));
    }

    #[test]
    fn the_access_clock_is_restored() {
        let mut local = Local::new(crate::FAMILIES);
        restore(&mut local, "0", &[b"IDLETIME", b"100"]);
        assert_eq!(local.line("OBJECT IDLETIME k"), ":100\r\n");
        local.config.lfu = Some(Lfu { log_factor: 10, decay_minutes: 1 });
        restore(&mut local, "0", &[b"REPLACE", b"FREQ", b"77"]);
        assert_eq!(local.line("OBJECT FREQ k"), ":77\r\n");
        restore(&mut local, "0", &[b"REPLACE"]);
        assert_eq!(local.line("OBJECT FREQ k"), ":5\r\n");
    }

    /// Dumps `from`, and restores it as `to`.
    fn carry_over(local: &mut Local, from: &str, to: &str) {
        let dumped = local.reply(Proto::Resp2, &[b"DUMP", from.as_bytes()]);
        let start = dumped.iter().position(|byte| *byte == b'\n').expect("a bulk") + 1;
        let payload = &dumped[start..dumped.len() - 2];
        let restored = local.reply(Proto::Resp2, &[b"RESTORE", to.as_bytes(), b"0", payload]);
        assert_eq!(restored, b"+OK\r\n");
    }

    #[test]
    fn streams_come_back_with_all_that_belongs_to_them() {
        let mut local = Local::new(crate::FAMILIES);
        for line in [
            "XADD s 1-1 f v",
            "XADD s 1-2 f 12 g -5",
            "XADD s 2-0 f w",
            "XADD s 18446744073709551615-18446744073709551615 g x",
            "XGROUP CREATE s g 0",
            "XGROUP CREATE s h 2-0 ENTRIESREAD 3",
            "XREADGROUP GROUP g one COUNT 1 STREAMS s >",
            "XREADGROUP GROUP g two STREAMS s >",
            "XCLAIM s g three 0 2-0 RETRYCOUNT 9",
            "XDEL s 1-2",
            "XGROUP CREATE empty g $ MKSTREAM",
            "XGROUP CREATECONSUMER empty g one",
        ] {
            let reply = local.line(line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
        for key in ["s", "empty"] {
            carry_over(&mut local, key, "copy");
            // A dump does not say that a consumer was never active.
            let mut state = |key: &str| {
                let state = local.line(&format!("XINFO STREAM {key} FULL COUNT 0"));
                let now = format!(":{}\r\n", local.now);
                state.replace("$11\r\nactive-time\r\n:-1\r\n", &format!("$11\r\nactive-time\r\n{now}"))
            };
            assert_eq!(state("copy"), state(key));
            local.line("DEL copy");
        }
    }

    #[test]
    fn fields_come_back_with_their_expiry() {
        let mut local = Local::new(crate::FAMILIES);
        for line in ["HSET h a 1 b 2 c 3", "HPEXPIRE h 2000 FIELDS 1 a", "HPEXPIRE h 1000 FIELDS 1 b"] {
            local.line(line);
        }
        carry_over(&mut local, "h", "copy");
        assert_eq!(local.line("HPTTL copy FIELDS 3 a b c"), "*3\r\n:2000\r\n:1000\r\n:-1\r\n");
        local.now += 1001;
        assert_eq!(local.line("HLEN copy"), ":2\r\n");
    }

    #[test]
    fn a_hash_that_expired_meanwhile_is_not_restored() {
        let mut local = Local::new(crate::FAMILIES);
        local.line("SET copy old");
        // 1000 and 1007 ms after 1970.
        let mut payload = b"\x18\xe8\x03\0\0\0\0\0\0\x02\x01\x01a\x01x\x08\x01b\x01y".to_vec();
        rdb::seal_payload(&mut payload);
        let restored = local.reply(Proto::Resp2, &[b"RESTORE", b"copy", b"0", &payload, b"REPLACE"]);
        assert_eq!(restored, b"+OK\r\n");
        assert_eq!(local.line("EXISTS copy"), ":0\r\n");
    }
}
