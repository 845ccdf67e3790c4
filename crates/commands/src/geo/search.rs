//! Members near a place: `GEOSEARCH`, `GEOSEARCHSTORE` and the older `GEORADIUS` commands.

use ds::geohash::{self, Point, Shape as Area};
use ds::num::parse_f64;
use ds::zset::{ZSet, ZSetRef};
use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, Arg, Begin, CommandError, CommandResult, Ctx, Entry, Group, KeyFlag, KeySpec, Pace, Route, Run,
    Shape, block, double, integer, key, keyword_is, oneof, parse_i64, string, token,
};

use super::place::{POINT, reply_point};
use super::store::{sort, store};
use super::{UNITS, distance_text, parse_point, parse_unit};

const FROM: Arg = oneof(
    "from",
    &[
        string("member").token("FROMMEMBER"),
        block("fromlonlat", &[double("longitude"), double("latitude")]).token("FROMLONLAT"),
    ],
);
const BY: Arg = oneof(
    "by",
    &[
        block("circle", &[double("radius").token("BYRADIUS"), oneof("unit", UNITS)]),
        block("box", &[double("width").token("BYBOX"), double("height"), oneof("unit", UNITS)]),
        block(
            "polygon",
            &[
                integer("num-vertices").token("BYPOLYGON"),
                block("vertices", &[double("longitude"), double("latitude")]).multiple(),
            ],
        )
        .since("9.0.0"),
    ],
);
const POLYGON_NOTE: &str =
    "`BYPOLYGON` is an option of Valkey 9.0; `FROMMEMBER` and `FROMLONLAT` do not go with it";
const ORDER: Arg = oneof("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional();
const COUNT: Arg =
    block("count-block", &[integer("count").token("COUNT"), token("any", "ANY").optional()]).optional();
const COUNT_OF_RADIUS: Arg =
    block("count-block", &[integer("count").token("COUNT"), token("any", "ANY").optional().since("6.2.0")])
        .optional();
const WITHCOORD: Arg = token("withcoord", "WITHCOORD").optional();
const WITHDIST: Arg = token("withdist", "WITHDIST").optional();
const WITHHASH: Arg = token("withhash", "WITHHASH").optional();
const STORE: Arg = oneof(
    "store",
    &[
        key("storekey", 1).token("STORE").display("key"),
        key("storedistkey", 2).token("STOREDIST").display("key"),
    ],
)
.optional();

const FOUND: Shape = Shape::Array(&Shape::OneOf(&[
    Shape::Bulk,
    Shape::Tuple(&[Shape::Bulk, DETAIL]),
    Shape::Tuple(&[Shape::Bulk, DETAIL, DETAIL]),
    Shape::Tuple(&[Shape::Bulk, Shape::Bulk, Shape::Int, POINT]),
]));
/// Distance, score, or place.
const DETAIL: Shape = Shape::OneOf(&[Shape::Bulk, Shape::Int, POINT]);

const SEARCH_COMPLEXITY: &str = "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the shape provided as the filter and M is the number of items inside the shape";

pub(super) const GEOSEARCH: Entry = Entry {
    name: "geosearch",
    summary: "Queries a geospatial index for members inside an area of a box, a circle, or a polygon.",
    complexity: SEARCH_COMPLEXITY,
    since: "6.2.0",
    group: Group::Geo,
    arity: -7,
    flags: &[ReadOnly],
    acl: &[Acl::Geo],
    keys: &[KeySpec::one(1, &[RO, Access])],
    args: &[key("key", 0), FROM, BY, ORDER, COUNT, WITHCOORD, WITHDIST, WITHHASH],
    history: &[("7.0.0", "Added support for uppercase unit names.")],
    reply: FOUND,
    note: POLYGON_NOTE,
    run: Run::Function(|ctx| search(ctx, GeoCommand::Search)),
    ..Entry::DEFAULT
};

pub(super) const GEOSEARCHSTORE: Entry = Entry {
    name: "geosearchstore",
    summary: "Queries a geospatial index for members inside an area of a box, a circle, or a polygon, optionally stores the result.",
    arity: -8,
    flags: &[Write, DenyOom],
    keys: &[KeySpec::one(1, &[OW, Update]), KeySpec::one(2, &[RO, Access])],
    args: &[
        key("destination", 0),
        key("source", 1),
        FROM,
        BY,
        ORDER,
        COUNT,
        token("storedist", "STOREDIST").optional(),
    ],
    reply: Shape::Int,
    run: Run::Function(|ctx| search(ctx, GeoCommand::SearchStore)),
    ..GEOSEARCH
};

const fn store_spec(word: &'static str, from: i32) -> KeySpec {
    const FLAGS: &[KeyFlag] = &[OW, Update];
    KeySpec { begin: Begin::Keyword(word, from), ..KeySpec::one(0, FLAGS) }
}

pub(super) const GEORADIUS: Entry = Entry {
    name: "georadius",
    summary: "Queries a geospatial index for members within a distance from a coordinate, optionally stores the result.",
    complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.",
    since: "3.2.0",
    group: Group::Geo,
    arity: -6,
    flags: &[Write, DenyOom],
    acl: &[Acl::Geo],
    keys: &[KeySpec::one(1, &[RO, Access]), store_spec("STORE", 6), store_spec("STOREDIST", 6)],
    route: Route::Stored,
    args: &[
        key("key", 0),
        double("longitude"),
        double("latitude"),
        double("radius"),
        oneof("unit", UNITS),
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT_OF_RADIUS,
        ORDER,
        STORE,
    ],
    history: &[
        ("6.2.0", "Added the `ANY` option for `COUNT`."),
        ("7.0.0", "Added support for uppercase unit names."),
    ],
    deprecated: Some(("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument")),
    reply: Shape::OneOf(&[FOUND, Shape::Int]),
    run: Run::Function(|ctx| search(ctx, GeoCommand::Radius)),
    ..Entry::DEFAULT
};

pub(super) const GEORADIUS_RO: Entry = Entry {
    name: "georadius_ro",
    summary: "Returns members from a geospatial index that are within a distance from a coordinate.",
    since: "3.2.10",
    flags: &[ReadOnly],
    keys: &[KeySpec::one(1, &[RO, Access])],
    route: Route::Keys,
    args: &[
        key("key", 0),
        double("longitude"),
        double("latitude"),
        double("radius"),
        oneof("unit", UNITS),
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT_OF_RADIUS,
        ORDER,
    ],
    history: &[("6.2.0", "Added the `ANY` option for `COUNT`.")],
    deprecated: Some(("6.2.0", "`GEOSEARCH` with the `BYRADIUS` argument")),
    reply: FOUND,
    run: Run::Function(|ctx| search(ctx, GeoCommand::RadiusRo)),
    ..GEORADIUS
};

pub(super) const GEORADIUSBYMEMBER: Entry = Entry {
    name: "georadiusbymember",
    summary: "Queries a geospatial index for members within a distance from a member, optionally stores the result.",
    arity: -5,
    keys: &[KeySpec::one(1, &[RO, Access]), store_spec("STORE", 5), store_spec("STOREDIST", 5)],
    args: &[
        key("key", 0),
        string("member"),
        double("radius"),
        oneof("unit", UNITS),
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT,
        ORDER,
        STORE,
    ],
    history: &[("7.0.0", "Added support for uppercase unit names.")],
    deprecated: Some((
        "6.2.0",
        "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
    )),
    run: Run::Function(|ctx| search(ctx, GeoCommand::RadiusByMember)),
    ..GEORADIUS
};

pub(super) const GEORADIUSBYMEMBER_RO: Entry = Entry {
    name: "georadiusbymember_ro",
    summary: "Returns members from a geospatial index that are within a distance from a member.",
    since: "3.2.10",
    flags: &[ReadOnly],
    keys: &[KeySpec::one(1, &[RO, Access])],
    route: Route::Keys,
    args: &[
        key("key", 0),
        string("member"),
        double("radius"),
        oneof("unit", UNITS),
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT,
        ORDER,
    ],
    history: &[],
    deprecated: Some(("6.2.0", "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments")),
    reply: FOUND,
    run: Run::Function(|ctx| search(ctx, GeoCommand::RadiusByMemberRo)),
    ..GEORADIUSBYMEMBER
};

/// The commands that share this parser.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GeoCommand {
    Search,
    SearchStore,
    Radius,
    RadiusRo,
    RadiusByMember,
    RadiusByMemberRo,
}

impl GeoCommand {
    fn is_search(self) -> bool {
        matches!(self, GeoCommand::Search | GeoCommand::SearchStore)
    }
}

/// The request.
#[derive(Default)]
struct Query<'a> {
    /// The centre; `None` if it is a member of a set that does not exist.
    center: Option<Point>,
    from: Option<From>,
    area: Option<Area>,
    /// Length of the unit of distances, in metres.
    unit_m: f64,
    with_distance: bool,
    with_hash: bool,
    with_coordinates: bool,
    /// Whether any members in the area will do (`ANY`), not only the nearest.
    any: bool,
    count: Option<usize>,
    order: Option<GeoOrder>,
    target: Option<&'a [u8]>,
    stores_distance: bool,
}

/// How the centre was given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Member,
    Place,
    /// By the corners of the area.
    Corners,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GeoOrder {
    Ascending,
    Descending,
}

/// A member that was found.
#[derive(Clone)]
pub(super) struct FoundMember {
    pub(super) member: Vec<u8>,
    pub(super) score: f64,
    pub(super) place: Point,
    /// The distance in the requested unit, once the search is complete.
    pub(super) distance: f64,
}

fn search(ctx: &mut Ctx, kind: GeoCommand) -> CommandResult {
    let args = ctx.args;
    let source = args[if kind == GeoCommand::SearchStore { 2 } else { 1 }];
    let zset = ctx.store.read_as::<ZSet>(source)?;
    let query = Query::parse(args, kind, zset)?;
    let (Some(zset), Some(center), Some(area)) = (zset, query.center, &query.area) else {
        return match query.target {
            Some(target) => {
                ctx.store.delete(target);
                ctx.reply.int(0);
                Ok(())
            }
            None => {
                ctx.reply.array(0);
                Ok(())
            }
        };
    };
    let mut pace = Pace::new(ctx.host);
    let mut found = find(zset, center, area, query.count.filter(|_| query.any), &mut pace);
    let wanted = query.count.map_or(found.len(), |count| count.min(found.len()));
    sort(&mut found, wanted, query.order(), &mut pace);
    found.truncate(wanted);
    found.iter_mut().for_each(|found| found.distance /= query.unit_m);
    match query.target {
        Some(target) => store(ctx, target, &found, query.stores_distance, kind),
        None => {
            query.answer(ctx, &found);
            Ok(())
        }
    }
}

/// The members of `zset` in `area`, at most `count_max`, cell by cell.
fn find(
    zset: ZSetRef<'_>,
    center: Point,
    area: &Area,
    count_max: Option<usize>,
    pace: &mut Pace<'_>,
) -> Vec<FoundMember> {
    let mut all = Vec::new();
    for cell in area.cells(center) {
        let (first, end) = cell.scores();
        let ranks =
            zset.score_range(ds::zset::ScoreBound::Inclusive(first), ds::zset::ScoreBound::Exclusive(end));
        for (member, score) in zset.iter_from_rank(ranks.start, false).take(ranks.len()) {
            if count_max.is_some_and(|max| all.len() >= max) {
                return all;
            }
            pace.step();
            let place = Point::of_score(score);
            if let Some(distance) = area.distance_m(center, place) {
                all.push(FoundMember { member: member.into_owned(), score, place, distance });
            }
        }
    }
    all
}

impl<'a> Query<'a> {
    fn parse(
        args: &'a [&'a [u8]],
        kind: GeoCommand,
        zset: Option<ZSetRef<'_>>,
    ) -> Result<Query<'a>, CommandError> {
        let mut query = Query::default();
        let mut rest = match kind {
            GeoCommand::Radius | GeoCommand::RadiusRo => {
                query.center = Some(parse_point(args[2], args[3])?);
                query.set_circle(args[4], args[5])?;
                &args[6..]
            }
            GeoCommand::RadiusByMember | GeoCommand::RadiusByMemberRo => {
                if zset.is_some() {
                    query.center = place_of(zset, args[2])?;
                    query.set_circle(args[3], args[4])?;
                }
                &args[5..]
            }
            GeoCommand::Search => &args[2..],
            GeoCommand::SearchStore => {
                query.target = Some(args[1]);
                &args[3..]
            }
        };
        while let [word, after @ ..] = rest {
            rest = query.option(word, after, kind, zset)?;
        }
        query.check(args[0], kind)?;
        Ok(query)
    }

    /// Reads the option `word`; returns the rest of the words after it.
    fn option(
        &mut self,
        word: &[u8],
        after: &'a [&'a [u8]],
        kind: GeoCommand,
        zset: Option<ZSetRef<'_>>,
    ) -> Result<&'a [&'a [u8]], CommandError> {
        let is = |name| keyword_is(word, name);
        let may_store = matches!(kind, GeoCommand::Radius | GeoCommand::RadiusByMember);
        match after {
            _ if is("withdist") => self.with_distance = true,
            _ if is("withhash") => self.with_hash = true,
            _ if is("withcoord") => self.with_coordinates = true,
            _ if is("any") => self.any = true,
            _ if is("asc") => self.order = Some(GeoOrder::Ascending),
            _ if is("desc") => self.order = Some(GeoOrder::Descending),
            [count, rest @ ..] if is("count") => {
                let count = parse_i64(count)?;
                if count <= 0 {
                    return Err(CommandError::fixed("ERR COUNT must be > 0"));
                }
                self.count = Some(count as usize);
                return Ok(rest);
            }
            [target, rest @ ..] if may_store && (is("store") || is("storedist")) => {
                self.target = Some(target);
                self.stores_distance = is("storedist");
                return Ok(rest);
            }
            _ if kind == GeoCommand::SearchStore && is("storedist") => self.stores_distance = true,
            _ if kind.is_search() => return self.search_option(word, after, zset),
            _ => return Err(CommandError::SYNTAX),
        }
        Ok(after)
    }

    /// Reads options that only `GEOSEARCH` and `GEOSEARCHSTORE` have.
    fn search_option(
        &mut self,
        word: &[u8],
        after: &'a [&'a [u8]],
        zset: Option<ZSetRef<'_>>,
    ) -> Result<&'a [&'a [u8]], CommandError> {
        let is = |name| keyword_is(word, name);
        // A second centre or area of the same kind replaces the first.
        match after {
            [member, rest @ ..] if is("frommember") && self.from.is_none_or(|from| from == From::Member) => {
                if zset.is_some() {
                    self.center = place_of(zset, member)?;
                }
                self.from = Some(From::Member);
                Ok(rest)
            }
            [longitude, latitude, rest @ ..]
                if is("fromlonlat") && self.from.is_none_or(|from| from == From::Place) =>
            {
                self.center = Some(parse_point(longitude, latitude)?);
                self.from = Some(From::Place);
                Ok(rest)
            }
            [radius, unit, rest @ ..]
                if is("byradius") && matches!(self.area, None | Some(Area::Circle { .. })) =>
            {
                self.set_circle(radius, unit)?;
                Ok(rest)
            }
            [width, height, unit, rest @ ..]
                if is("bybox") && matches!(self.area, None | Some(Area::Box { .. })) =>
            {
                self.set_box(width, height, unit)?;
                Ok(rest)
            }
            [number, rest @ ..]
                if is("bypolygon")
                    && rest.len() >= 2
                    && matches!((self.from, &self.area), (None, None) | (Some(From::Corners), _)) =>
            {
                self.set_polygon(number, rest)
            }
            _ => Err(CommandError::SYNTAX),
        }
    }

    fn set_circle(&mut self, radius: &[u8], unit: &[u8]) -> CommandResult {
        let radius = parse_f64(radius).ok_or(CommandError::fixed("ERR need numeric radius"))?;
        if radius < 0.0 {
            return Err(CommandError::fixed("ERR radius cannot be negative"));
        }
        self.unit_m = parse_unit(unit)?;
        self.area = Some(Area::Circle { radius_m: radius * self.unit_m });
        Ok(())
    }

    fn set_box(&mut self, width: &[u8], height: &[u8], unit: &[u8]) -> CommandResult {
        let width = parse_f64(width).ok_or(CommandError::fixed("ERR need numeric width"))?;
        let height = parse_f64(height).ok_or(CommandError::fixed("ERR need numeric height"))?;
        if width < 0.0 || height < 0.0 {
            return Err(CommandError::fixed("ERR height or width cannot be negative"));
        }
        self.unit_m = parse_unit(unit)?;
        self.area = Some(Area::Box { width_m: width * self.unit_m, height_m: height * self.unit_m });
        Ok(())
    }

    /// Reads the corners of a polygon; returns the rest of the words after them.
    fn set_polygon(&mut self, number: &[u8], args: &'a [&'a [u8]]) -> Result<&'a [&'a [u8]], CommandError> {
        let number = ds::num::parse_i64(number).and_then(|number| i32::try_from(number).ok());
        let number = number.ok_or(CommandError::fixed("ERR invalid number of vertices"))?;
        let (pairs, _) = args.as_chunks::<2>();
        let pairs =
            usize::try_from(number).ok().filter(|number| *number >= 3).and_then(|number| pairs.get(..number));
        let pairs =
            pairs.ok_or(CommandError::fixed("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices"))?;
        let vertices = pairs.iter().map(|[longitude, latitude]| parse_point(longitude, latitude));
        let vertices = vertices.collect::<Result<Box<[Point]>, CommandError>>()?;
        self.center = Some(geohash::centroid(&vertices));
        self.from = Some(From::Corners);
        self.unit_m = 1.0;
        self.area = Some(Area::Polygon { vertices });
        Ok(&args[2 * pairs.len()..])
    }

    /// Refuses options that cannot be combined.
    fn check(&self, name: &[u8], kind: GeoCommand) -> CommandResult {
        if self.target.is_some() && (self.with_distance || self.with_hash || self.with_coordinates) {
            let what = if kind.is_search() { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            let text = format!("ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
            return Err(CommandError::new(text));
        }
        if kind.is_search() && self.from.is_none() {
            let text = "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ";
            return Err(CommandError::quoting(text, name, ""));
        }
        if kind.is_search() && self.area.is_none() {
            let text = "ERR exactly one of BYRADIUS and BYBOX can be specified for ";
            return Err(CommandError::quoting(text, name, ""));
        }
        if self.any && self.count.is_none() {
            return Err(CommandError::fixed("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }

    /// The order of the reply; `None`: the order in which members are found.
    fn order(&self) -> Option<GeoOrder> {
        self.order.or((self.count.is_some() && !self.any).then_some(GeoOrder::Ascending))
    }

    fn answer(&self, ctx: &mut Ctx, found: &[FoundMember]) {
        let details = [self.with_distance, self.with_hash, self.with_coordinates];
        let details = details.into_iter().filter(|is_wanted| *is_wanted).count();
        ctx.reply.array(found.len());
        for found in found {
            if details > 0 {
                ctx.reply.array(1 + details);
            }
            ctx.reply.bulk(&found.member);
            if self.with_distance {
                ctx.reply.bulk(distance_text(found.distance).as_bytes());
            }
            if self.with_hash {
                ctx.reply.int(geohash::c_i64(found.score));
            }
            if self.with_coordinates {
                reply_point(ctx, found.place);
            }
        }
    }
}

fn place_of(zset: Option<ZSetRef<'_>>, member: &[u8]) -> Result<Option<Point>, CommandError> {
    match zset.and_then(|zset| zset.score(member)) {
        Some(score) => Ok(Some(Point::of_score(score))),
        None => Err(CommandError::fixed("ERR could not decode requested zset member")),
    }
}
