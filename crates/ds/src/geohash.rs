//! Places on Earth as 52-bit numbers, ordered so that neighbours are mostly close together.
//!
//! Longitude and latitude are each halved 26 times; the bits that select the halves are interleaved, longitude first.
//! The number is the score of a member of a sorted set; a double holds it exactly. A [`Cell`] is a common prefix of
//! such numbers: a rectangle, and a range of scores. A search looks at the cell of its centre and the eight around it,
//! of a size that covers the searched shape.
//!
//! Distances are those on a sphere (haversine formula). The latitudes are those of the square Mercator map.
//!
//! Sources: Niemeyer's geohash (2008); the choice of cells follows the geo commands of Redis, so that members are
//! returned in the same order. A point is in a polygon if a ray from it to the east crosses an odd number of its edges, on
//! the map of longitudes and latitudes (Franklin's PNPOLY), as in Valkey.

/// Bits of each coordinate.
const STEP_MAX: u32 = 26;
/// Degrees on either side of zero.
pub const LONGITUDE_MAX: f64 = 180.0;
/// Degrees on either side of zero.
pub const LATITUDE_MAX: f64 = 85.051_128_78;
/// Half of the map's width.
const MERCATOR_MAX_M: f64 = 20_037_726.37;
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;
const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
/// The bits of the latitude in an interleaved number.
const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;

/// A point, in degrees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// From −180 to 180.
    pub longitude: f64,
    /// From −85.05112878 to 85.05112878.
    pub latitude: f64,
}

impl Point {
    /// Whether the coordinates are on the map.
    pub fn is_valid(self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    /// The score that represents the point.
    pub fn score(self) -> f64 {
        Cell::around(self, STEP_MAX, LATITUDE_MAX).bits as f64
    }

    /// The middle of the cell that `score` represents.
    pub fn of_score(score: f64) -> Point {
        let cell = Cell { bits: c_u64(score), step: STEP_MAX };
        let area = cell.area();
        Point {
            longitude: f64::midpoint(area.west, area.east).clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: f64::midpoint(area.south, area.north).clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// The usual geohash of eleven letters. The last one is always 0, because there are only bits for ten.
    pub fn text(self) -> [u8; 11] {
        let bits = Cell::around(self, STEP_MAX, 90.0).bits;
        let mut text = [b'0'; 11];
        for (index, letter) in text[..10].iter_mut().enumerate() {
            *letter = ALPHABET[(bits >> (47 - 5 * index)) as usize & 31];
        }
        text
    }

    /// Distance in metres.
    pub fn distance_m(self, other: Point) -> f64 {
        let half_sine = |a: f64, b: f64| ((radians(b) - radians(a)) / 2.0).sin();
        let v = half_sine(self.longitude, other.longitude);
        if v == 0.0 {
            return latitude_distance_m(self.latitude, other.latitude);
        }
        let u = half_sine(self.latitude, other.latitude);
        let cosines = radians(self.latitude).cos() * radians(other.latitude).cos();
        2.0 * EARTH_RADIUS_M * (u * u + cosines * v * v).sqrt().asin()
    }
}

fn latitude_distance_m(one: f64, other: f64) -> f64 {
    EARTH_RADIUS_M * (radians(other) - radians(one)).abs()
}

fn radians(degrees: f64) -> f64 {
    degrees * RADIANS_PER_DEGREE
}

fn degrees(radians: f64) -> f64 {
    radians / RADIANS_PER_DEGREE
}

/// Converts a double to an unsigned integer as C does on x86-64, for scores that were not set by geo commands.
fn c_u64(value: f64) -> u64 {
    const HALF: f64 = (1_u64 << 63) as f64;
    match value {
        _ if value < HALF => c_i64(value) as u64,
        _ => c_i64(value - HALF) as u64 ^ 1 << 63,
    }
}

/// Converts a double to an integer as C does on x86-64: to the smallest one if it does not fit.
pub fn c_i64(value: f64) -> i64 {
    if value < i64::MAX as f64 { value as i64 } else { i64::MIN }
}

/// A rectangle in degrees.
#[derive(Clone, Copy, Debug)]
struct Area {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

impl Area {
    /// The rectangle around some points.
    fn around(points: &[Point]) -> Area {
        let longitudes = || points.iter().map(|point| point.longitude);
        let latitudes = || points.iter().map(|point| point.latitude);
        Area {
            west: longitudes().fold(LONGITUDE_MAX, f64::min),
            east: longitudes().fold(-LONGITUDE_MAX, f64::max),
            south: latitudes().fold(LATITUDE_MAX, f64::min),
            north: latitudes().fold(-LATITUDE_MAX, f64::max),
        }
    }

    fn corners(self) -> impl Iterator<Item = Point> {
        let Area { west, east, south, north } = self;
        let corners = [(west, north), (east, north), (west, south), (east, south)];
        corners.into_iter().map(|(longitude, latitude)| Point { longitude, latitude })
    }
}

/// A rectangle that results from halving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    bits: u64,
    /// How often each coordinate was halved.
    step: u32,
}

impl Cell {
    /// The cell of a point after `step` halvings, on a map that ends at `latitude_max`.
    fn around(point: Point, step: u32, latitude_max: f64) -> Cell {
        let fraction = |value: f64, max: f64| (value + max) / (max - -max);
        let steps = (1_u64 << step) as f64;
        let longitude = fraction(point.longitude, LONGITUDE_MAX) * steps;
        let latitude = fraction(point.latitude, latitude_max) * steps;
        Cell { bits: spread(latitude as u32) | spread(longitude as u32) << 1, step }
    }

    fn area(self) -> Area {
        let steps = (1_u64 << self.step) as f64;
        let side = |index: u32, max: f64| {
            let at = |index: u32| -max + f64::from(index) / steps * (max - -max);
            (at(index), at(index.wrapping_add(1)))
        };
        let (west, east) = side(gather(self.bits >> 1), LONGITUDE_MAX);
        let (south, north) = side(gather(self.bits), LATITUDE_MAX);
        Area { west, east, south, north }
    }

    /// The range of scores of the points in the cell; the end is exclusive.
    pub fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEP_MAX - self.step);
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }

    /// The cell that many cells to the east and north; beyond an edge of the map it continues at the opposite one.
    fn beside(self, east: i32, north: i32) -> Cell {
        let moved = |bits: u64, by: i32| match by {
            // The easternmost and northernmost points lie beyond the last cell.
            0 => bits & LATITUDE_BITS,
            _ => spread(gather(bits).wrapping_add_signed(by) & ((1 << self.step) - 1)),
        };
        Cell { bits: moved(self.bits >> 1, east) << 1 | moved(self.bits, north), ..self }
    }
}

/// Inserts a zero above each bit.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, LATITUDE_BITS),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Collects every second bit, from the lowest on: the reverse of [`spread`].
fn gather(bits: u64) -> u32 {
    let mut bits = bits & LATITUDE_BITS;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

/// The area to search, around a centre.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    /// All points up to a distance.
    Circle {
        /// The distance in metres.
        radius_m: f64,
    },
    /// A rectangle with sides along the circles of longitude and latitude.
    Box {
        /// Extent from west to east in metres.
        width_m: f64,
        /// Extent from south to north in metres.
        height_m: f64,
    },
    /// A polygon. Its edges do not cross the date line; where they cross each other, inside and outside alternate.
    Polygon {
        /// The corners in order.
        vertices: Box<[Point]>,
    },
}

/// The centre of the corners of a polygon: the point on the sphere below their mean in space.
pub fn centroid(vertices: &[Point]) -> Point {
    let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
    for Point { longitude, latitude } in vertices {
        let (longitude, latitude) = (radians(*longitude), radians(*latitude));
        x += EARTH_RADIUS_M * latitude.cos() * longitude.cos();
        y += EARTH_RADIUS_M * latitude.cos() * longitude.sin();
        z += EARTH_RADIUS_M * latitude.sin();
    }
    let count = vertices.len() as f64;
    let (x, y, z) = (x / count, y / count, z / count);
    Point { longitude: degrees(y.atan2(x)), latitude: degrees(z.atan2((x * x + y * y).sqrt())) }
}

/// Whether a ray from `point` to the east crosses an odd number of edges.
fn is_inside(vertices: &[Point], point: Point) -> bool {
    let Point { longitude, latitude } = point;
    let before = vertices.iter().cycle().skip(vertices.len() - 1);
    let crossed = vertices.iter().zip(before).filter(|&(a, b)| {
        (a.latitude > latitude) != (b.latitude > latitude)
            && longitude
                < (b.longitude - a.longitude) * (latitude - a.latitude) / (b.latitude - a.latitude)
                    + a.longitude
    });
    crossed.count() % 2 == 1
}

impl Shape {
    /// The distance of `point` from `center` in metres; `None` if the point is outside.
    pub fn distance_m(&self, center: Point, point: Point) -> Option<f64> {
        match *self {
            Shape::Polygon { ref vertices } => is_inside(vertices, point).then(|| center.distance_m(point)),
            Shape::Circle { radius_m } => {
                let distance_m = center.distance_m(point);
                let is_outside = distance_m > radius_m;
                (!is_outside).then_some(distance_m)
            }
            Shape::Box { width_m, height_m } => {
                let same_longitude = Point { longitude: center.longitude, ..point };
                let is_outside = latitude_distance_m(point.latitude, center.latitude) > height_m / 2.0
                    || point.distance_m(same_longitude) > width_m / 2.0;
                (!is_outside).then(|| center.distance_m(point))
            }
        }
    }

    /// The cells to search, in order. A cell may occur twice, but not consecutively.
    pub fn cells(&self, center: Point) -> Vec<Cell> {
        let bounds = self.bounds(center);
        let mut step = self.step(center, bounds);
        let mut cell = Cell::around(center, step, LATITUDE_MAX);
        // If the centre is near an edge of its cell, the shape may extend beyond the neighbouring cell.
        let reaches_beyond = cell.beside(0, 1).area().north < bounds.north
            || cell.beside(0, -1).area().south > bounds.south
            || cell.beside(1, 0).area().east < bounds.east
            || cell.beside(-1, 0).area().west > bounds.west;
        if step > 1 && reaches_beyond {
            step -= 1;
            cell = Cell::around(center, step, LATITUDE_MAX);
        }
        let area = cell.area();
        let is_useless = |east: i32, north: i32| {
            step >= 2
                && (north < 0 && area.south < bounds.south
                    || north > 0 && area.north > bounds.north
                    || east < 0 && area.west < bounds.west
                    || east > 0 && area.east > bounds.east)
        };
        let around = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let wanted = around.into_iter().filter(|&(east, north)| !is_useless(east, north));
        let mut cells: Vec<Cell> = wanted.map(|(east, north)| cell.beside(east, north)).collect();
        cells.dedup();
        cells
    }

    /// The number of halvings that makes the cells as small as the shape allows.
    fn step(&self, center: Point, bounds: Area) -> u32 {
        let latitude = center.latitude;
        let mut reach_m = match *self {
            Shape::Circle { radius_m } => radius_m,
            Shape::Box { width_m, height_m } => (width_m / 2.0).hypot(height_m / 2.0),
            Shape::Polygon { .. } => {
                bounds.corners().map(|corner| center.distance_m(corner)).fold(0.0, f64::max)
            }
        };
        if reach_m == 0.0 {
            return STEP_MAX;
        }
        let mut step = -1_i32;
        while reach_m < MERCATOR_MAX_M {
            reach_m *= 2.0;
            step += 1;
        }
        // Cells are narrower towards the poles.
        step -= i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
        step.clamp(1, STEP_MAX as i32) as u32
    }

    fn bounds(&self, center: Point) -> Area {
        let (half_width_m, half_height_m) = match *self {
            Shape::Circle { radius_m } => (radius_m, radius_m),
            Shape::Box { width_m, height_m } => (width_m / 2.0, height_m / 2.0),
            Shape::Polygon { ref vertices } => return Area::around(vertices),
        };
        let Point { longitude, latitude } = center;
        let up = degrees(half_height_m / EARTH_RADIUS_M);
        // In metres the side nearer to the equator is the wider one, in degrees the other.
        let nearer_pole = if latitude < 0.0 { latitude - up } else { latitude + up };
        let aside = degrees(half_width_m / EARTH_RADIUS_M / radians(nearer_pole).cos());
        Area { west: longitude - aside, east: longitude + aside, south: latitude - up, north: latitude + up }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points() -> impl Strategy<Value = Point> {
        (-LONGITUDE_MAX..=LONGITUDE_MAX, -LATITUDE_MAX..=LATITUDE_MAX)
            .prop_map(|(longitude, latitude)| Point { longitude, latitude })
    }

    /// As Redis 7.0.15 replies.
    #[test]
    fn places_have_the_scores_and_texts_that_they_have_in_redis() {
        let palermo = Point { longitude: 13.361389, latitude: 38.115556 };
        let catania = Point { longitude: 15.087269, latitude: 37.502669 };
        assert_eq!(palermo.score(), 3479099956230698.0);
        assert_eq!(&Point::of_score(palermo.score()).text(), b"sqc8b49rny0");
        let [one, other] = [palermo, catania].map(|point| Point::of_score(point.score()));
        assert_eq!(format!("{:.4}", one.distance_m(other)), "166274.1516");
    }

    #[test]
    fn any_double_stands_for_some_point() {
        for score in [f64::INFINITY, f64::NEG_INFINITY, -1.0, -1e300, 1e300, 2f64.powi(63), 0.0, -0.5] {
            assert!(Point::of_score(score).is_valid(), "{score}");
        }
    }

    proptest! {
        #[test]
        fn a_point_comes_back(point in points()) {
            let back = Point::of_score(point.score());
            prop_assert!((back.longitude - point.longitude).abs() < 1e-5);
            prop_assert!((back.latitude - point.latitude).abs() < 1e-5);
            prop_assert!(point.distance_m(back) < 1.0);
        }

        /// Avoids the poles, which circles may enclose, and the date line.
        #[test]
        fn what_is_inside_lies_in_the_cells(
            center in points().prop_map(|p| Point { longitude: p.longitude / 2.0, latitude: p.latitude / 1.5 }),
            east in -1.0..1.0,
            north in -1.0..1.0,
            reach_m in 1.0..2e6,
            is_box: bool,
        ) {
            let degrees = degrees(reach_m / EARTH_RADIUS_M);
            let point = Point {
                longitude: center.longitude + east * degrees,
                latitude: center.latitude + north * degrees,
            };
            let shape = if is_box {
                Shape::Box { width_m: reach_m, height_m: reach_m * 1.5 }
            } else {
                Shape::Circle { radius_m: reach_m }
            };
            let point = Point::of_score(point.score());
            if shape.distance_m(center, point).is_some() {
                let score = point.score();
                let holds = |cell: &Cell| cell.scores().0 <= score && score < cell.scores().1;
                prop_assert!(shape.cells(center).iter().any(holds));
            }
        }

        #[test]
        fn what_is_in_a_polygon_lies_in_the_cells(
            center in points().prop_map(|p| Point { longitude: p.longitude / 2.0, latitude: p.latitude / 2.0 }),
            corners in proptest::collection::vec((-1.0..1.0, -1.0..1.0), 3..12),
            reach in 0.0001..20.0,
            (east, north) in (-1.0..1.0, -1.0..1.0),
        ) {
            let at = |(east, north): (f64, f64)| Point {
                longitude: center.longitude + east * reach,
                latitude: center.latitude + north * reach,
            };
            let vertices: Box<[Point]> = corners.into_iter().map(at).collect();
            let middle = centroid(&vertices);
            let shape = Shape::Polygon { vertices };
            let point = Point::of_score(at((east, north)).score());
            if shape.distance_m(middle, point).is_some() {
                let score = point.score();
                let holds = |cell: &Cell| cell.scores().0 <= score && score < cell.scores().1;
                prop_assert!(shape.cells(middle).iter().any(holds));
            }
        }
    }
}
