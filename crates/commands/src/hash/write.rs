//! The commands that change a hash.

use ds::hash::Hash;
use ds::num::LongDouble;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Change, Class, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, block,
    double, integer, key, parse_i64, string,
};

pub(super) const HSET: Entry = Entry {
    name: "hset",
    summary: "Creates or modifies the value of a field in a hash.",
    complexity: "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is \
            called with multiple field/value pairs.",
    since: "2.0.0",
    group: Group::Hash,
    arity: -4,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("key", 0), block("data", &[string("field"), string("value")]).multiple()],
    history: &[("4.0.0", "Accepts multiple `field` and `value` arguments.")],
    reply: Shape::Int,
    run: Run::Function(hset),
    ..Entry::DEFAULT
};

fn hset(ctx: &mut Ctx) -> CommandResult {
    let added = set_all(ctx)?;
    ctx.reply.int(added);
    Ok(())
}

pub(super) const HMSET: Entry = Entry {
    name: "hmset",
    summary: "Sets the values of multiple fields.",
    complexity: "O(N) where N is the number of fields being set.",
    since: "2.0.0",
    group: Group::Hash,
    arity: -4,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[key("key", 0), block("data", &[string("field"), string("value")]).multiple()],
    deprecated: Some(("4.0.0", "`HSET` with multiple field-value pairs")),
    reply: Shape::OK,
    run: Run::Function(hmset),
    ..Entry::DEFAULT
};

fn hmset(ctx: &mut Ctx) -> CommandResult {
    set_all(ctx)?;
    ctx.reply.ok();
    Ok(())
}

/// Sets the fields, beginning at argument 2. Returns how many are new.
fn set_all(ctx: &mut Ctx) -> Result<i64, CommandError> {
    let key = ctx.args[1];
    let (pairs, []) = ctx.args[2..].as_chunks::<2>() else {
        return Err(CommandError::wrong_arity(&ctx.command.full_name));
    };
    let limits = ctx.store.config().hash;
    let mut hash = ctx.store.upsert::<Hash>(key)?;
    hash.expect(pairs.len(), &limits);
    let (mut added, mut pace) = (0, Pace::new(ctx.host));
    for [field, value] in pairs {
        added += i64::from(hash.set(field, value, &limits));
        pace.step();
    }
    drop(hash);
    ctx.changed(key, Change::new(Class::Hash, "hset").times(pairs.len()));
    Ok(added)
}

pub(super) const HSETNX: Entry = Entry {
    name: "hsetnx",
    summary: "Sets the value of a field in a hash only when the field doesn't exist.",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::Hash,
    arity: 4,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RW, Insert])],
    args: &[key("key", 0), string("field"), string("value")],
    reply: Shape::Int,
    run: Run::Function(hsetnx),
    ..Entry::DEFAULT
};

fn hsetnx(ctx: &mut Ctx) -> CommandResult {
    let [_, key, field, value] = *ctx.args else { unreachable!("the arity says so") };
    let limits = ctx.store.config().hash;
    let mut hash = ctx.store.upsert::<Hash>(key)?;
    let is_new = !hash.lend().contains(field);
    if is_new {
        hash.set(field, value, &limits);
        drop(hash);
        ctx.changed(key, Change::new(Class::Hash, "hset"));
    }
    ctx.reply.int(is_new.into());
    Ok(())
}

pub(super) const HDEL: Entry = Entry {
    name: "hdel",
    summary: "Deletes one or more fields and their values from a hash. Deletes the hash if no fields remain.",
    complexity: "O(N) where N is the number of fields to be removed.",
    since: "2.0.0",
    group: Group::Hash,
    arity: -3,
    flags: &[Write, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RW, Delete])],
    args: &[key("key", 0), string("field").multiple()],
    history: &[("2.4.0", "Accepts multiple `field` arguments.")],
    reply: Shape::Int,
    run: Run::Function(hdel),
    ..Entry::DEFAULT
};

fn hdel(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let (mut removed, mut pace) = (0, Pace::new(ctx.host));
    if let Some(mut hash) = ctx.store.write_as::<Hash>(key)? {
        for field in &ctx.args[2..] {
            removed += usize::from(hash.remove(field));
            pace.step();
        }
    }
    if removed > 0 {
        ctx.changed(key, Change::new(Class::Hash, "hdel").times(removed));
        ctx.store.delete_if_empty(key);
    }
    ctx.reply.int(removed as i64);
    Ok(())
}

pub(super) const HINCRBY: Entry = Entry {
    name: "hincrby",
    summary: "Increments the integer value of a field in a hash by a number. Uses 0 as initial value if the \
            field doesn't exist.",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::Hash,
    arity: 4,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RW, Access, Update])],
    args: &[key("key", 0), string("field"), integer("increment")],
    reply: Shape::Int,
    run: Run::Function(hincrby),
    ..Entry::DEFAULT
};

fn hincrby(ctx: &mut Ctx) -> CommandResult {
    let [_, key, field, increment] = *ctx.args else { unreachable!("the arity says so") };
    let increment = parse_i64(increment)?;
    let limits = ctx.store.config().hash;
    // If there is an error, there is a field, so the hash was not created just now.
    let mut hash = ctx.store.upsert::<Hash>(key)?;
    let old = match hash.lend().get(field) {
        None => 0,
        Some(text) => ds::num::parse_i64(&text.bytes())
            .ok_or_else(|| CommandError::new("ERR hash value is not an integer"))?,
    };
    let new = old.checked_add(increment).ok_or(CommandError::OVERFLOW)?;
    hash.set_keeping_expiry(field, itoa::Buffer::new().format(new).as_bytes(), &limits);
    drop(hash);
    ctx.changed(key, Change::new(Class::Hash, "hincrby"));
    ctx.reply.int(new);
    Ok(())
}

pub(super) const HINCRBYFLOAT: Entry = Entry {
    name: "hincrbyfloat",
    summary: "Increments the floating point value of a field by a number. Uses 0 as initial value if the field \
            doesn't exist.",
    complexity: "O(1)",
    since: "2.6.0",
    group: Group::Hash,
    arity: 4,
    flags: &[Write, DenyOom, Fast],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RW, Access, Update])],
    args: &[key("key", 0), string("field"), double("increment")],
    reply: Shape::Bulk,
    run: Run::Function(hincrbyfloat),
    ..Entry::DEFAULT
};

fn hincrbyfloat(ctx: &mut Ctx) -> CommandResult {
    let [_, key, field, increment] = *ctx.args else { unreachable!("the arity says so") };
    let increment = LongDouble::parse(increment).ok_or(CommandError::NOT_A_FLOAT)?;
    if !increment.is_finite() {
        return Err(CommandError::new("ERR value is NaN or Infinity"));
    }
    let limits = ctx.store.config().hash;
    // If there is an error, there is a field, so the hash was not created just now.
    let mut hash = ctx.store.upsert::<Hash>(key)?;
    let old = match hash.lend().get(field) {
        None => LongDouble::from_i64(0),
        Some(text) => LongDouble::parse(&text.bytes())
            .ok_or_else(|| CommandError::new("ERR hash value is not a float"))?,
    };
    let new = old.checked_add(increment).ok_or(CommandError::NAN_OR_INFINITY)?;
    let mut text = Vec::new();
    new.format(&mut text);
    hash.set_keeping_expiry(field, &text, &limits);
    let expires = hash.lend().expiry(field).is_some();
    drop(hash);
    // The effect is the sum, so that a replay need not add in the same way.
    let effect: &[&[u8]] = match expires {
        true => &[b"HSETEX", key, b"KEEPTTL", b"FIELDS", b"1", field, &text],
        false => &[b"HSET", key, field, &text],
    };
    ctx.store.changed(key, Change::new(Class::Hash, "hincrbyfloat"), effect);
    ctx.reply.bulk(&text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use engine::Local;

    #[track_caller]
    fn check(lines: &[&str], expected: &[&str]) {
        let mut local = Local::new(&[super::super::ENTRIES]);
        local.record_effects();
        for line in lines {
            local.line(line);
        }
        let effects: Vec<String> = local
            .take_effects()
            .iter()
            .map(|effect| {
                let args: Vec<_> = effect.args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
                args.join(" ")
            })
            .collect();
        assert_eq!(effects, expected);
    }

    #[test]
    fn effects_say_what_changed() {
        check(&["HSET h a 1 b 2", "HSETNX h a 3", "HSETNX h c 3"], &["HSET h a 1 b 2", "HSETNX h c 3"]);
        check(&["HDEL h a", "HSET h a 1", "HDEL h b", "HDEL h a b"], &["HSET h a 1", "HDEL h a b"]);
        check(&["HINCRBY h n 5", "HINCRBY h n x"], &["HINCRBY h n 5"]);
        check(&["HINCRBYFLOAT h x 0.1", "HINCRBYFLOAT h x 0.2"], &["HSET h x 0.1", "HSET h x 0.3"]);
    }

    #[test]
    fn an_error_leaves_no_empty_hash_behind() {
        let mut local = Local::new(&[super::super::ENTRIES]);
        for line in ["HINCRBY h a x", "HINCRBYFLOAT h a inf", "HSET h a", "HDEL h a"] {
            local.line(line);
            assert_eq!(local.line("HLEN h"), ":0\r\n");
            assert_eq!(local.line("HRANDFIELD h"), "$-1\r\n", "{line}");
        }
    }
}
