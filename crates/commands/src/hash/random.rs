//! HRANDFIELD: random fields of a hash.

use ds::hash::{FieldValue, Hash, HashRef};
use ds::random::Random;
use ds::set::{Set, SetLimits};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{Acl, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, block, integer, key, token};
use resp::{Proto, Reply};

use crate::sample::{self, Draw, ReplyLimit};

pub(super) const HRANDFIELD: Entry = Entry {
    name: "hrandfield",
    summary: "Returns one or more random fields from a hash.",
    complexity: "O(N) where N is the number of fields returned",
    since: "6.2.0",
    group: Group::Hash,
    arity: -2,
    flags: &[ReadOnly],
    acl: &[Acl::Hash],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[
        key("key", 0),
        block("options", &[integer("count"), token("withvalues", "WITHVALUES").optional()]).optional(),
    ],
    tips: &["nondeterministic_output"],
    reply: Shape::OneOf(&[
        Shape::BULK_OR_NULL,
        Shape::BULKS,
        Shape::Array(&Shape::Tuple(&[Shape::Bulk, Shape::Bulk])),
    ]),
    run: Run::Function(hrandfield),
    ..Entry::DEFAULT
};

fn hrandfield(ctx: &mut Ctx) -> CommandResult {
    let key = ctx.args[1];
    let mut random = sample::random(ctx, key);
    let Some(count) = ctx.args.get(2) else {
        let hash = ctx.store.read_as::<Hash>(key)?;
        match hash.and_then(|hash| hash.random(random.next_u64(), random.next_u64())) {
            None => ctx.reply.null(),
            Some((field, _)) => ctx.reply.bulk(field),
        }
        return Ok(());
    };
    let draw = Draw::parse(count)?;
    let with_values = draw.parse_pairs(&ctx.args[3..], "withvalues")?;
    let config = ctx.store.config();
    let Some(hash) = ctx.store.read_as::<Hash>(key)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    let mut fields = Fields { reply: &mut ctx.reply, pace: Pace::new(ctx.host), with_values };
    match draw {
        Draw::Distinct(count) => write_distinct(hash, count, &mut random, &config.set, &mut fields),
        Draw::Repeated(count) => {
            write_repeated(hash, count, &mut random, config.string_bytes_max, &mut fields)?
        }
    }
    Ok(())
}

fn write_distinct(
    hash: HashRef<'_>,
    count: usize,
    random: &mut Random,
    limits: &SetLimits,
    fields: &mut Fields,
) {
    let count = count.min(hash.len());
    fields.begin(count);
    if sample::should_walk(hash.len(), count) {
        for (field, value) in sample::walk(hash.iter(), hash.len(), count, random) {
            fields.write(field, value);
        }
        return;
    }
    let mut seen = Set::new();
    while seen.lend().len() < count {
        if let Some((field, value)) = hash.random(random.next_u64(), random.next_u64())
            && seen.insert(field, limits)
        {
            fields.write(field, value);
        }
    }
}

fn write_repeated(
    hash: HashRef<'_>,
    count: u64,
    random: &mut Random,
    string_bytes_max: u64,
    fields: &mut Fields,
) -> CommandResult {
    let values = 1 + u64::from(fields.with_values);
    ReplyLimit::new(fields.reply, string_bytes_max, count.saturating_mul(values))?;
    let mut limit = ReplyLimit::new(fields.reply, string_bytes_max, count)?;
    fields.begin(count as usize);
    for _ in 0..count {
        if let Some((field, value)) = hash.random(random.next_u64(), random.next_u64()) {
            fields.write(field, value);
        }
        limit.check(fields.reply)?;
    }
    Ok(())
}

/// Writes fields and their values: as pairs in RESP3, one after the other in RESP2.
struct Fields<'r, 'a> {
    reply: &'r mut Reply<'a>,
    pace: Pace<'r>,
    with_values: bool,
}

impl Fields<'_, '_> {
    fn begin(&mut self, count: usize) {
        let items = if self.with_values && self.reply.proto() == Proto::Resp2 { 2 } else { 1 };
        self.reply.array(count * items);
    }

    fn write(&mut self, field: &[u8], value: FieldValue<'_>) {
        self.pace.step();
        if self.with_values && self.reply.proto() == Proto::Resp3 {
            self.reply.array(2);
        }
        self.reply.bulk(field);
        if self.with_values {
            self.reply.bulk(&value.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use engine::Local;
    use resp::{Proto, Value, decode};

    /// A hash of `f0` … with the values `v0` ….
    fn store(field_count: usize) -> Local {
        let mut local = Local::new(&[super::super::ENTRIES]);
        for number in 0..field_count {
            local.line(&format!("HSET h f{number} v{number}"));
        }
        local
    }

    fn pairs(local: &mut Local, count: i64) -> Vec<(String, String)> {
        let reply =
            local.reply(Proto::Resp3, &[b"HRANDFIELD", b"h", count.to_string().as_bytes(), b"WITHVALUES"]);
        let Some((Value::Array(items), _)) = decode(&reply).expect("replies are valid") else {
            panic!("{}", reply.escape_ascii());
        };
        let text = |value: &Value| value.to_string().trim_matches('"').to_owned();
        items
            .iter()
            .map(|item| match item {
                Value::Array(pair) => (text(&pair[0]), text(&pair[1])),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn distinct_fields_are_distinct_and_come_with_their_values() {
        for (len, count) in [(10, 3), (10, 10), (10, 99), (1000, 5), (1000, 333), (1000, 334), (1000, 999)] {
            let drawn = pairs(&mut store(len), count);
            assert_eq!(drawn.len(), (count as usize).min(len), "{count} of {len}");
            assert!(drawn.iter().all(|(field, value)| field[1..] == value[1..]));
            assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), drawn.len(), "{count} of {len}");
        }
    }

    #[test]
    fn each_field_comes_as_often() {
        let mut local = store(10);
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for (field, _) in (0..300).flat_map(|_| pairs(&mut local, -10)).collect::<Vec<_>>() {
            *counts.entry(field).or_default() += 1;
        }
        assert!(counts.len() == 10 && counts.values().all(|count| (220..380).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_reply_of_repeated_fields_has_an_end() {
        let mut local = store(3);
        local.config.string_bytes_max = 10_000;
        assert_eq!(local.line("HRANDFIELD h -9223372036854775807"), "-ERR value is out of range\r\n");
        let line = "HRANDFIELD h -4611686018427387903 WITHVALUES";
        assert_eq!(local.line(line), "-ERR value is out of range\r\n");
    }
}
