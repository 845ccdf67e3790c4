//! Adds places, and returns their positions.

use ds::geohash::Point;
use ds::zset::ZSet;
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Run, Shape, block, double, key, keyword_is,
    oneof, string, token,
};

use super::{UNITS, coordinate_text, distance_text, parse_point, parse_unit};
use crate::zset::add::{Options, add};

pub(super) const GEOADD: Entry = Entry {
    name: "geoadd",
    summary: "Adds one or more members to a geospatial index. The key is created if it doesn't exist.",
    complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
    since: "3.2.0",
    group: Group::Geo,
    arity: -5,
    flags: &[Write, DenyOom],
    acl: &[Acl::Geo],
    keys: &[KeySpec::one(1, &[RW, Update])],
    args: &[
        key("key", 0),
        oneof("condition", &[token("nx", "NX"), token("xx", "XX")]).optional().since("6.2.0"),
        token("change", "CH").optional().since("6.2.0"),
        block("data", &[double("longitude"), double("latitude"), string("member")]).multiple(),
    ],
    history: &[("6.2.0", "Added the `CH`, `NX` and `XX` options.")],
    reply: Shape::Int,
    run: Run::Function(geoadd),
    ..Entry::DEFAULT
};

fn geoadd(ctx: &mut Ctx) -> CommandResult {
    let mut options = Options::default();
    let mut places = &ctx.args[2..];
    while let [word, rest @ ..] = places {
        match word {
            word if keyword_is(word, "nx") => options.new_only = true,
            word if keyword_is(word, "xx") => options.existing_only = true,
            word if keyword_is(word, "ch") => options.count_changed = true,
            _ => break,
        }
        places = rest;
    }
    let (places, rest) = places.as_chunks::<3>();
    if places.is_empty() || !rest.is_empty() || (options.new_only && options.existing_only) {
        return Err(CommandError::SYNTAX);
    }
    let scores = places.iter().map(|[longitude, latitude, _]| {
        Ok(parse_point(longitude, latitude)?.score().to_string().into_bytes())
    });
    let scores: Vec<Vec<u8>> = scores.collect::<Result<_, CommandError>>()?;
    let pairs: Vec<&[u8]> =
        scores.iter().zip(places).flat_map(|(score, [_, _, member])| [&score[..], member]).collect();
    add(ctx, options, &pairs)
}

pub(super) const GEODIST: Entry = Entry {
    name: "geodist",
    summary: "Returns the distance between two members of a geospatial index.",
    complexity: "O(1)",
    since: "3.2.0",
    group: Group::Geo,
    arity: -4,
    flags: &[ReadOnly],
    acl: &[Acl::Geo],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), string("member1"), string("member2"), oneof("unit", UNITS).optional()],
    reply: Shape::BULK_OR_NULL,
    run: Run::Function(geodist),
    ..Entry::DEFAULT
};

fn geodist(ctx: &mut Ctx) -> CommandResult {
    let unit_m = match ctx.args[4..] {
        [] => 1.0,
        [unit] => parse_unit(unit)?,
        _ => return Err(CommandError::SYNTAX),
    };
    let places = ctx.store.read_as::<ZSet>(ctx.args[1])?.and_then(|zset| {
        let place = |member: &[u8]| zset.score(member).map(Point::of_score);
        place(ctx.args[2]).zip(place(ctx.args[3]))
    });
    match places {
        Some((one, other)) => ctx.reply.bulk(distance_text(one.distance_m(other) / unit_m).as_bytes()),
        None => ctx.reply.null(),
    }
    Ok(())
}

pub(super) const GEOHASH: Entry = Entry {
    name: "geohash",
    summary: "Returns members from a geospatial index as geohash strings.",
    complexity: "O(1) for each member requested.",
    since: "3.2.0",
    group: Group::Geo,
    arity: -2,
    flags: &[ReadOnly],
    acl: &[Acl::Geo],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), string("member").optional().multiple()],
    reply: Shape::Array(&Shape::BULK_OR_NULL),
    run: Run::Function(geohash),
    ..Entry::DEFAULT
};

fn geohash(ctx: &mut Ctx) -> CommandResult {
    each_place(ctx, |ctx, place| match place {
        Some(place) => ctx.reply.bulk(&place.text()),
        None => ctx.reply.null(),
    })
}

pub(super) const GEOPOS: Entry = Entry {
    name: "geopos",
    summary: "Returns the longitude and latitude of members from a geospatial index.",
    complexity: "O(1) for each member requested.",
    reply: Shape::Array(&Shape::OneOf(&[POINT, Shape::Null])),
    run: Run::Function(geopos),
    ..GEOHASH
};

/// Longitude and latitude.
pub(super) const POINT: Shape = Shape::Tuple(&[Shape::Double, Shape::Double]);

fn geopos(ctx: &mut Ctx) -> CommandResult {
    each_place(ctx, |ctx, place| match place {
        Some(place) => reply_point(ctx, place),
        None => ctx.reply.null_array(),
    })
}

pub(super) fn reply_point(ctx: &mut Ctx, point: Point) {
    ctx.reply.array(2);
    ctx.reply.double_text(&coordinate_text(point.longitude));
    ctx.reply.double_text(&coordinate_text(point.latitude));
}

/// Replies with an array of the results that `answer` writes for the members of the command.
fn each_place(ctx: &mut Ctx, mut answer: impl FnMut(&mut Ctx, Option<Point>)) -> CommandResult {
    let key = ctx.args[1];
    let _ = ctx.store.read_as::<ZSet>(key)?;
    ctx.reply.array(ctx.args.len() - 2);
    for member in &ctx.args[2..] {
        let score = ctx.store.peek_as::<ZSet>(key)?.and_then(|zset| zset.score(member));
        answer(ctx, score.map(Point::of_score));
    }
    Ok(())
}
