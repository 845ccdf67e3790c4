//! SINTERSTORE, SUNIONSTORE and SDIFFSTORE.
//!
//! The effect is the request: the result depends only on the sources, and may be large.

use ds::set::Set;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{Acl, Change, Class, CommandResult, Ctx, Entry, Group, KeySpec, Mode, Pace, Run, Shape, key};
use keyspace::Value;

use super::combine::{each_common, each_different, find, union};

pub(super) const SINTERSTORE: Entry = Entry {
    name: "sinterstore",
    summary: "Stores the intersect of multiple sets in a key.",
    complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
    since: "1.0.0",
    group: Group::Set,
    arity: -3,
    flags: &[Write, DenyOom],
    acl: &[Acl::Set],
    keys: &[KeySpec::one(1, &[RW, Update]), KeySpec::range(2, -1, 1, &[RO, Access])],
    args: &[key("destination", 0), key("key", 1).multiple()],
    mode: Mode::Heavy,
    reply: Shape::Int,
    run: Run::Function(sinterstore),
    ..Entry::DEFAULT
};

fn sinterstore(ctx: &mut Ctx) -> CommandResult {
    let limits = ctx.store.config().set;
    let (mut result, mut pace) = (Set::new(), Pace::new(ctx.host));
    each_common(&find(&mut ctx.store, &ctx.args[2..])?, &mut pace, |member| {
        result.insert(member, &limits);
        true
    });
    store(ctx, result, "sinterstore")
}

pub(super) const SUNIONSTORE: Entry = Entry {
    name: "sunionstore",
    summary: "Stores the union of multiple sets in a key.",
    complexity: "O(N) where N is the total number of elements in all given sets.",
    keys: &[KeySpec::one(1, &[OW, Update]), KeySpec::range(2, -1, 1, &[RO, Access])],
    run: Run::Function(sunionstore),
    ..SINTERSTORE
};

fn sunionstore(ctx: &mut Ctx) -> CommandResult {
    let limits = ctx.store.config().set;
    let mut pace = Pace::new(ctx.host);
    let result = union(&find(&mut ctx.store, &ctx.args[2..])?, &limits, &mut pace);
    store(ctx, result, "sunionstore")
}

pub(super) const SDIFFSTORE: Entry = Entry {
    name: "sdiffstore",
    summary: "Stores the difference of multiple sets in a key.",
    complexity: "O(N) where N is the total number of elements in all given sets.",
    keys: &[KeySpec::one(1, &[OW, Update]), KeySpec::range(2, -1, 1, &[RO, Access])],
    run: Run::Function(sdiffstore),
    ..SINTERSTORE
};

fn sdiffstore(ctx: &mut Ctx) -> CommandResult {
    let limits = ctx.store.config().set;
    let (mut result, mut pace) = (Set::new(), Pace::new(ctx.host));
    each_different(&find(&mut ctx.store, &ctx.args[2..])?, &limits, &mut pace, |member| {
        result.insert(member, &limits);
        true
    });
    store(ctx, result, "sdiffstore")
}

/// Stores `result` under the key at argument 1, and replaces the previous value. An empty result deletes the
/// key.
fn store(ctx: &mut Ctx, result: Set, event: &'static str) -> CommandResult {
    let key = ctx.args[1];
    ctx.reply.int(result.lend().len() as i64);
    if result.lend().is_empty() {
        ctx.store.delete(key);
        return Ok(());
    }
    ctx.store.set(key, Value::Set(Box::new(result)));
    ctx.changed(key, Change::new(Class::Set, event));
    Ok(())
}

#[cfg(test)]
mod tests {
    use engine::{Local, OwnedEffect};

    fn local() -> Local {
        let mut local = Local::new(&[super::super::ENTRIES]);
        for line in ["SADD a 1 2 3", "SADD b 2 3 4", "SADD d old"] {
            local.line(line);
        }
        local.record_effects();
        local
    }

    fn text(effect: &OwnedEffect) -> String {
        let args: Vec<_> = effect.args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
        args.join(" ")
    }

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let mut local = local();
        local.line(line);
        let effects: Vec<String> = local.take_effects().iter().map(text).collect();
        assert_eq!(effects, expected, "{line}");
    }

    #[test]
    fn the_effect_is_the_request() {
        for line in ["SINTERSTORE d a b", "SUNIONSTORE d a b", "SDIFFSTORE d a b"] {
            check(line, &[line]);
        }
        check("SDIFFSTORE d a a", &["DEL d"]);
        check("SDIFFSTORE none a a", &[]);
        check("SINTERSTORE d a none", &["DEL d"]);
    }

    #[test]
    fn an_expired_source_goes_before_the_result_comes() {
        let mut local = Local::new(crate::FAMILIES);
        for line in ["SADD a 1", "SADD b 2", "PEXPIRE b 10"] {
            local.line(line);
        }
        local.record_effects();
        local.now += 11;
        local.line("SUNIONSTORE d a b");
        let effects: Vec<String> = local.take_effects().iter().map(text).collect();
        assert_eq!(effects, ["DEL b", "SUNIONSTORE d a b"]);
    }

    #[test]
    fn an_expired_target_goes_before_the_result_comes() {
        let mut local = Local::new(crate::FAMILIES);
        for line in ["SADD a 1", "SADD d old", "PEXPIRE d 10"] {
            local.line(line);
        }
        local.record_effects();
        local.now += 11;
        local.line("SUNIONSTORE d a");
        let effects: Vec<String> = local.take_effects().iter().map(text).collect();
        assert_eq!(effects, ["DEL d", "SUNIONSTORE d a"]);
    }

    #[test]
    fn both_ways_to_subtract_agree() {
        let mut local = local();
        for number in 0..100 {
            local.line(&format!("SADD wide {number}"));
            local.line(&format!("SADD half{} {number}", number % 2));
        }
        for line in ["SDIFFSTORE d wide half1", "SDIFFSTORE d wide half1 a b half1 none b a"] {
            local.line(line);
            assert_eq!(local.line("SINTERCARD 2 d half1"), ":0\r\n");
            let expected = if line.contains(" a ") { ":48\r\n" } else { ":50\r\n" };
            assert_eq!(local.line("SINTERCARD 2 d half0"), expected, "{line}");
            assert_eq!(local.line("SCARD d"), expected, "{line}");
        }
    }
}
