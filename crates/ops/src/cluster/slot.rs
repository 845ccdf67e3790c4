//! Slots and the keys in them.

use ds::placing::hash_tag;
use engine::{CommandError, CommandResult, Route, Shape, integer, parse_i64, string};

use crate::cluster::{CHANGING, Ctx, Entry, Run, SLOTS, SUBCOMMAND, check_mode};

pub(crate) const CLUSTER_KEYSLOT: Entry = Entry {
    name: "keyslot",
    summary: "Returns the hash slot for a key.",
    complexity: "O(N) where N is the number of bytes in the key",
    arity: 3,
    args: &[string("key")],
    reply: Shape::Int,
    run: Run::Function(cluster_keyslot),
    ..SUBCOMMAND
};

fn cluster_keyslot(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    ctx.reply.int(i64::from(slot(ctx.args[2])));
    Ok(())
}

pub(crate) const CLUSTER_COUNTKEYSINSLOT: Entry = Entry {
    name: "countkeysinslot",
    summary: "Returns the number of keys in a hash slot.",
    arity: 3,
    route: Route::Global,
    args: &[integer("slot")],
    reply: Shape::Int,
    run: Run::Function(cluster_countkeysinslot),
    ..SUBCOMMAND
};

fn cluster_countkeysinslot(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    let slot = parse_i64(ctx.args[2])?;
    let slot = valid_slot(slot).ok_or(CommandError::fixed("ERR Invalid slot"))?;
    let count = keys_in(ctx, slot).len();
    ctx.reply.int(count as i64);
    Ok(())
}

pub(crate) const CLUSTER_GETKEYSINSLOT: Entry = Entry {
    name: "getkeysinslot",
    summary: "Returns the key names in a hash slot.",
    complexity: "O(N) where N is the number of requested keys",
    arity: 4,
    route: Route::Global,
    args: &[integer("slot"), integer("count")],
    tips: CHANGING,
    reply: Shape::BULKS,
    run: Run::Function(cluster_getkeysinslot),
    ..SUBCOMMAND
};

fn cluster_getkeysinslot(ctx: &mut Ctx) -> CommandResult {
    check_mode(ctx)?;
    let (slot, count) = (parse_i64(ctx.args[2])?, parse_i64(ctx.args[3])?);
    let (Some(slot), Ok(count)) = (valid_slot(slot), usize::try_from(count)) else {
        return Err(CommandError::fixed("ERR Invalid slot or number of keys"));
    };
    let keys = keys_in(ctx, slot);
    ctx.reply.array(keys.len().min(count));
    keys.iter().take(count).for_each(|key| ctx.reply.bulk(key));
    Ok(())
}

/// Converts a number to a slot, if it is valid.
pub(crate) fn valid_slot(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|slot| *slot < SLOTS)
}

/// The keys of a slot in database 0, the only one in cluster mode.
fn keys_in(ctx: &Ctx, wanted: u16) -> Vec<Box<[u8]>> {
    let hold = &ctx.store.tx.hold;
    let used = hold.shards().used().filter_map(|id| hold.shard(id).dbs.used(0));
    let all = used.flat_map(|db| db.iter().map(keyspace::RecordRef::key));
    all.filter(|key| slot(key) == wanted).map(Box::from).collect()
}

/// The slot of a key, as all clients of a cluster compute it.
pub(super) fn slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 { shifted } else { shifted ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Redis 7.0.15 answers.
    #[test]
    fn keys_have_the_slots_that_they_have_in_redis() {
        for (key, expected) in [("a", 15495), ("a{b}c", 3300), ("123456789", 12739), ("", 0), ("{}a", 10875)]
        {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }
}
