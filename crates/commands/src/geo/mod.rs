//! The geo commands. Places are members of a sorted set; `ds::geohash` converts between coordinates and scores.

mod place;
mod search;
mod store;

use ds::geohash::Point;
use engine::{Arg, CommandError, Entry, keyword_is, parse_f64, token};

/// The geo commands.
pub const ENTRIES: &[Entry] = &[
    place::GEOADD,
    place::GEODIST,
    place::GEOHASH,
    place::GEOPOS,
    search::GEORADIUS,
    search::GEORADIUS_RO,
    search::GEORADIUSBYMEMBER,
    search::GEORADIUSBYMEMBER_RO,
    search::GEOSEARCH,
    search::GEOSEARCHSTORE,
];

/// The units, as alternatives of an argument.
const UNITS: &[Arg] = &[token("m", "M"), token("km", "KM"), token("ft", "FT"), token("mi", "MI")];

/// The metres in a unit.
fn parse_unit(arg: &[u8]) -> Result<f64, CommandError> {
    let units = [("M", 1.0), ("KM", 1000.0), ("FT", 0.3048), ("MI", 1609.34)];
    let found = units.into_iter().find(|(name, _)| keyword_is(arg, name));
    found
        .map(|(_, metres)| metres)
        .ok_or(CommandError::fixed("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

fn parse_point(longitude: &[u8], latitude: &[u8]) -> Result<Point, CommandError> {
    let point = Point { longitude: parse_f64(longitude)?, latitude: parse_f64(latitude)? };
    if point.is_valid() {
        return Ok(point);
    }
    let Point { longitude, latitude } = point;
    Err(CommandError::new(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}")))
}

/// A distance as it is shown in replies: four decimals, halves rounded up.
fn distance_text(distance: f64) -> String {
    let parts = (distance * 10_000.0).round() as u64;
    format!("{}.{:04}", parts / 10_000, parts % 10_000)
}

/// A coordinate as it is shown in replies: up to 17 decimals.
fn coordinate_text(degrees: f64) -> String {
    let text = format!("{degrees:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
