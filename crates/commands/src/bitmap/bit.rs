//! `GETBIT` and `SETBIT`: single bits.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, integer, key,
};
use keyspace::Str;

use super::parse_offset;

pub(super) const SETBIT: Entry = Entry {
    name: "setbit",
    summary: "Sets or clears the bit at offset of the string value. Creates the key if it doesn't exist.",
    complexity: "O(1)",
    since: "2.2.0",
    group: Group::Bitmap,
    arity: 4,
    flags: &[Write, DenyOom],
    acl: &[Acl::Bitmap],
    keys: &[KeySpec::one(1, &[RW, Access, Update])],
    args: &[key("key", 0), integer("offset"), integer("value")],
    reply: Shape::Int,
    run: Run::Function(setbit),
    ..Entry::DEFAULT
};

fn setbit(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let offset = parse_offset(ctx, ctx.args[2], 1)?;
    let on = match ctx.args[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err(CommandError::new("ERR bit is not an integer or out of range")),
    };
    let bytes = ctx.store.upsert::<Str>(key)?.make_mut();
    let (index, mask) = ((offset / 8) as usize, 0x80 >> (offset % 8));
    let grows = bytes.len() <= index;
    if grows {
        bytes.resize(index + 1, 0);
    }
    let was_on = bytes[index] & mask != 0;
    if on {
        bytes[index] |= mask;
    } else {
        bytes[index] &= !mask;
    }
    if grows || was_on != on {
        ctx.changed(key, Change::new(Class::String, "setbit"));
    }
    ctx.reply.int(i64::from(was_on));
    Ok(())
}

pub(super) const GETBIT: Entry = Entry {
    name: "getbit",
    summary: "Returns a bit value by offset.",
    complexity: "O(1)",
    since: "2.2.0",
    group: Group::Bitmap,
    arity: 3,
    flags: &[ReadOnly, Fast],
    acl: &[Acl::Bitmap],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), integer("offset")],
    reply: Shape::Int,
    run: Run::Function(getbit),
    ..Entry::DEFAULT
};

fn getbit(ctx: &mut Ctx) -> CommandResult {
    let offset = parse_offset(ctx, ctx.args[2], 1)?;
    let is_on = match ctx.store.read_as::<Str>(ctx.args[1])? {
        None => false,
        Some(string) => {
            let byte = string.bytes().get((offset / 8) as usize).copied().unwrap_or(0);
            byte & 0x80 >> (offset % 8) != 0
        }
    };
    ctx.reply.int(i64::from(is_on));
    Ok(())
}
